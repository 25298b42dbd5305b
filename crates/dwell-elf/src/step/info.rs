//! The unwind information of one file, ready to be asked.
use crate::unwind::{CfiSections, Slice, UnwindTable};
use crate::{ElfError, ElfFile, unwind};
use dwell_abi::unwind::{KIND_NONE, Row};
use gimli::{
    BaseAddresses, CieOrFde, EhFrameOffset, FrameDescriptionEntry, ParsedEhFrameHdr, UnwindOffset,
    UnwindSection,
};
use std::sync::{Arc, OnceLock};

/// The unwind information of one file; shared by every process that maps it.
#[derive(Debug)]
pub struct UnwindInfo<'data> {
    sections: CfiSections<'data>,
    bases: BaseAddresses,
    table: Arc<UnwindTable>,
    /// FDEs by address; made when first needed, as most files have a search table of their own.
    eh_index: OnceLock<Vec<IndexEntry>>,
    debug_index: OnceLock<Vec<IndexEntry>>,
}

/// Where the FDE of a function is.
#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    start: u64,
    end: u64,
    offset: usize,
}

impl<'data> UnwindInfo<'data> {
    /// Finds the sections of `file` and compiles its table.
    pub fn new(file: &ElfFile<'data>) -> Result<Self, ElfError> {
        let sections = CfiSections::find(file);
        let table = Arc::new(unwind::compile_with(file, &sections)?);
        Ok(Self::with_table(sections, table))
    }

    /// For a caller that has the file's compiled table already. The table answers where the sections
    /// are silent: hand-written code, PLT stubs and program starts without entries.
    pub fn with_table(sections: CfiSections<'data>, table: Arc<UnwindTable>) -> Self {
        let bases = sections.bases();
        UnwindInfo {
            sections,
            bases,
            table,
            eh_index: OnceLock::new(),
            debug_index: OnceLock::new(),
        }
    }

    /// The compiled table.
    pub fn table(&self) -> &UnwindTable {
        &self.table
    }

    /// The table's row at a stated pc.
    pub(super) fn row(&self, stated_pc: u64) -> Row {
        self.table.lookup(stated_pc).unwrap_or(Row {
            pc: 0,
            cfa_off8: 0,
            kind: KIND_NONE,
            bp_off8: 0,
        })
    }

    pub(super) fn bases(&self) -> &BaseAddresses {
        &self.bases
    }

    pub(super) fn sections(&self) -> &CfiSections<'data> {
        &self.sections
    }

    /// The entry of `.eh_frame` that covers a stated pc.
    pub(super) fn eh_fde(&self, stated_pc: u64) -> Option<FrameDescriptionEntry<Slice<'_>>> {
        let section = self.sections.eh_frame()?;
        let by_header = self
            .sections
            .parsed_header()
            .and_then(|header| self.by_header(&header, stated_pc));
        let fde = by_header.or_else(|| {
            let index = self.eh_index.get_or_init(|| index(&section, &self.bases));
            find(&section, &self.bases, index, stated_pc)
        })?;
        Some(fde)
    }

    /// The entry of `.debug_frame` that covers a stated pc.
    pub(super) fn debug_fde(&self, stated_pc: u64) -> Option<FrameDescriptionEntry<Slice<'_>>> {
        let section = self.sections.debug_frame()?;
        let index = self
            .debug_index
            .get_or_init(|| index(&section, &self.bases));
        find(&section, &self.bases, index, stated_pc)
    }

    fn by_header<'s>(
        &'s self,
        header: &ParsedEhFrameHdr<Slice<'s>>,
        stated_pc: u64,
    ) -> Option<FrameDescriptionEntry<Slice<'s>>> {
        let section = self.sections.eh_frame()?;
        let table = header.table()?;
        let pointer = table.lookup(stated_pc, &self.bases).ok()?;
        // Not `pointer_to_offset`, whose subtraction overflows for damaged tables.
        let offset = pointer
            .direct()
            .ok()?
            .checked_sub(self.bases.eh_frame.section?)?;
        let offset = EhFrameOffset(usize::try_from(offset).ok()?);
        let fde = section
            .fde_from_offset(&self.bases, offset, |section, bases, at| {
                section.cie_from_offset(bases, at)
            })
            .ok()?;
        fde.contains(stated_pc).then_some(fde)
    }
}

/// Every function entry of a section, sorted by address.
fn index<'a, S: UnwindSection<Slice<'a>>>(section: &S, bases: &BaseAddresses) -> Vec<IndexEntry> {
    let mut found = Vec::new();
    let mut cies = std::collections::HashMap::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let at = partial.cie_offset();
        let cie = cies
            .entry(UnwindOffset::into(at))
            .or_insert_with(|| section.cie_from_offset(bases, at));
        let Ok(fde) = partial.parse(|_, _, _| cie.clone()) else {
            continue;
        };
        if fde.len() != 0 && fde.initial_address() != 0 {
            found.push(IndexEntry {
                start: fde.initial_address(),
                end: fde.end_address(),
                offset: fde.offset(),
            });
        }
    }
    found.sort_by_key(|entry| entry.start);
    found.dedup_by_key(|entry| entry.start);
    found
}

fn find<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    index: &[IndexEntry],
    stated_pc: u64,
) -> Option<FrameDescriptionEntry<Slice<'a>>> {
    let after = index.partition_point(|entry| entry.start <= stated_pc);
    let entry = index[..after]
        .last()
        .filter(|entry| stated_pc < entry.end)?;
    section
        .fde_from_offset(bases, entry.offset.into(), |section, bases, at| {
            section.cie_from_offset(bases, at)
        })
        .ok()
}
