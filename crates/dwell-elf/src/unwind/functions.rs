//! Which functions the call frame information describes.
use super::sections::{CfiSections, Slice};
use gimli::{BaseAddresses, CieOrFde, EhFrame, FrameDescriptionEntry, Pointer, UnwindSection as _};

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

impl FunctionRange {
    /// Whether it is around a stated address.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
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

    /// The function around a stated address, by the search table of `.eh_frame_hdr`; none where that has
    /// no table, or knows of none there.
    pub fn function_at(&self, address: u64) -> Option<FunctionRange> {
        let (section, bases) = (self.eh_frame()?, self.bases());
        let header = self.parsed_header()?;
        let cie = EhFrame::cie_from_offset;
        let found = header
            .table()?
            .fde_for_address(&section, &bases, address, cie);
        range(&found.ok()?).filter(|range| range.contains(address))
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
        found.extend(range(&fde));
    }
    found
}

/// What an entry describes; none when that is nothing.
fn range(fde: &FrameDescriptionEntry<Slice<'_>>) -> Option<FunctionRange> {
    let start = fde.initial_address();
    let end = start.checked_add(fde.len()).filter(|&end| end > start)?;
    let landing_pads = fde.lsda().and_then(|pointer| match pointer {
        Pointer::Direct(address) => Some(address),
        Pointer::Indirect(_) => None,
    });
    Some(FunctionRange {
        start,
        end,
        landing_pads,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ElfFile;

    /// The search finds what reading everything finds, in this program.
    #[test]
    fn the_search_table_leads_to_every_function() {
        let bytes = std::fs::read(std::env::current_exe().expect("a path")).expect("a file");
        let file = ElfFile::parse(&bytes).expect("an ELF file");
        let sections = CfiSections::find(&file);
        let functions = sections.functions();
        assert!(functions.len() > 100, "{}", functions.len());
        for function in &functions {
            for address in [function.start, function.end - 1] {
                assert_eq!(sections.function_at(address), Some(*function));
            }
        }
        assert_eq!(sections.function_at(0), None);
        assert_eq!(sections.function_at(u64::MAX), None);
        assert_eq!(CfiSections::default().function_at(functions[0].start), None);
    }
}
