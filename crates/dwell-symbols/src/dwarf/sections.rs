//! The DWARF sections of a file, decompressed where need be.
use std::borrow::Cow;

use gimli::{DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::Object;

use super::{Dwarf, Slice};
use crate::elf::{Elf, MAX_DECOMPRESSED};

/// The sections of one file.
pub(crate) struct Sections<'d> {
    sections: DwarfSections<Cow<'d, [u8]>>,
    endian: RunTimeEndian,
}

/// Compressed sections that are too large to unpack in memory.
#[derive(Debug, thiserror::Error)]
#[error(
    "compressed section {name} would take {size} bytes in memory; objcopy --decompress-debug-sections unpacks it in the file"
)]
pub(crate) struct TooLarge {
    name: &'static str,
    size: u64,
}

impl<'d> Sections<'d> {
    /// Those sections of `elf` that name functions and lines.
    pub(crate) fn load(elf: &Elf<'d>) -> Result<Self, TooLarge> {
        let little = elf.file.is_little_endian();
        let endian = if little {
            RunTimeEndian::Little
        } else {
            RunTimeEndian::Big
        };
        let mut budget = MAX_DECOMPRESSED;
        let sections = DwarfSections::load(|id| {
            if !is_needed(id) {
                return Ok(Cow::Borrowed(&[][..]));
            }
            let name = id.name();
            elf.section(name, &mut budget)
                .map_err(|size| TooLarge { name, size })
        })?;
        Ok(Self { sections, endian })
    }

    /// A view of these sections, and of those shared with other files.
    pub(super) fn dwarf<'s>(&'s self, shared: Option<&'s Self>) -> Dwarf<'s> {
        let slice = |data: &'s Cow<'d, [u8]>| -> Slice<'s> { EndianSlice::new(data, self.endian) };
        self.sections
            .borrow_with_sup(shared.map(|s| &s.sections), slice)
    }
}

/// Variables, types and macros are not asked for.
fn is_needed(id: SectionId) -> bool {
    !matches!(
        id,
        SectionId::DebugLoc
            | SectionId::DebugLocLists
            | SectionId::DebugTypes
            | SectionId::DebugMacinfo
            | SectionId::DebugMacro
            | SectionId::DebugNames
            | SectionId::DebugAranges
    )
}
