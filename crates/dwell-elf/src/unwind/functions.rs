//! Which functions the call frame information describes.
use super::sections::{CfiSections, Slice};
use gimli::{BaseAddresses, CieOrFde, EhFrame, Pointer, UnwindSection as _};

/// A function as call frame information bounds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionRange {
    /// Stated address of the first byte.
    pub start: u64,
    /// Stated address past the last byte.
    pub end: u64,
    /// Stated address of its table of exception landing pads.
    pub landing_pads: Option<u64>,
}

impl CfiSections<'_> {
    /// The functions that `.eh_frame` describes, by address. Damaged entries are left out. A function
    /// that the compiler has split comes in parts.
    pub fn functions(&self) -> Vec<FunctionRange> {
        let mut found = match self.eh_frame() {
            Some(section) => ranges(&section, &self.bases()),
            None => Vec::new(),
        };
        found.sort_unstable_by_key(|f| (f.start, f.end));
        found.dedup_by_key(|f| f.start);
        found
    }
}

fn ranges(section: &EhFrame<Slice<'_>>, bases: &BaseAddresses) -> Vec<FunctionRange> {
    let mut found = Vec::new();
    let mut entries = section.entries(bases);
    // An entry that cannot be read has no length to go on by: what follows it is lost.
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(|_, bases, offset| section.cie_from_offset(bases, offset))
        else {
            continue;
        };
        let start = fde.initial_address();
        let Some(end) = start.checked_add(fde.len()).filter(|&end| end > start) else {
            continue;
        };
        let landing_pads = fde.lsda().and_then(|pointer| match pointer {
            Pointer::Direct(address) => Some(address),
            Pointer::Indirect(_) => None,
        });
        found.push(FunctionRange {
            start,
            end,
            landing_pads,
        });
    }
    found
}
