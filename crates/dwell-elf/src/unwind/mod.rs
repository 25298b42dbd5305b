//! Call frame information compiled to the rows that the in-kernel unwinder searches.
//!
//! The phases, each borrowing from the one before: [`sections`](CfiSections) finds the bytes, `cfi`
//! evaluates each function's instructions for the three registers a row can say, `convert` turns
//! each state into a row, `builder` sorts, joins and fills the gaps.
mod builder;
mod cfi;
mod collect;
mod convert;
mod derive;
mod expression;
mod functions;
mod gaps;
mod parts;
mod sections;
mod stored;
mod table;

pub use functions::FunctionRange;
pub use sections::CfiSections;
pub(crate) use sections::Slice;
pub use table::UnwindTable;

use crate::{ElfError, ElfFile};

/// Most rows a table may have: 64 MiB. The largest programs known (browsers, statically linked
/// compilers) need 3 to 5 million; more means damaged or hostile input.
pub const MAX_ROWS: usize = 1 << 23;

/// The stated addresses from the first to the last executable byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextRange {
    pub start: u64,
    pub end: u64,
}

impl TextRange {
    /// Covers every executable segment; empty when there is none.
    fn of(file: &ElfFile<'_>) -> Result<Self, ElfError> {
        let mut range = TextRange {
            start: u64::MAX,
            end: 0,
        };
        for segment in file.segments().filter(|s| s.executable && s.mem_size > 0) {
            range.start = range.start.min(segment.stated_address);
            range.end = range.end.max(segment.stated_end());
        }
        if range.start >= range.end {
            return Ok(TextRange { start: 0, end: 0 });
        }
        let len = range.end - range.start;
        if len > u64::from(u32::MAX) {
            Err(ElfError::TextTooWide(len))
        } else {
            Ok(range)
        }
    }

    /// Distance of a stated address in the text from its start.
    fn relative(&self, stated: u64) -> Option<u32> {
        (self.start..self.end)
            .contains(&stated)
            .then(|| (stated - self.start) as u32)
    }
}

/// Compiles the call frame information of `file`.
///
/// Information that is damaged in places gives a table with [`KIND_NONE`] there. Only what makes any
/// table impossible is an error.
///
/// [`KIND_NONE`]: dwell_abi::unwind::KIND_NONE
pub fn compile(file: &ElfFile<'_>) -> Result<UnwindTable, ElfError> {
    compile_with(file, &CfiSections::find(file))
}

/// Like [`compile`], for a caller who keeps the sections for the full stepper as well.
pub fn compile_with(
    file: &ElfFile<'_>,
    sections: &CfiSections<'_>,
) -> Result<UnwindTable, ElfError> {
    let text = TextRange::of(file)?;
    let units = collect::units(file, sections, text)?;
    builder::build(file, text, units)
}
