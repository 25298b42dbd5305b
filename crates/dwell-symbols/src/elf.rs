//! What this crate asks of an ELF file.
use std::borrow::Cow;

use object::{Object, ObjectSection, SectionFlags};

/// Largest section that is decompressed, bytes, and the largest sum of them for one file: the
/// size stands in the file and may lie.
pub(crate) const MAX_DECOMPRESSED: u64 = 256 << 20;

/// Deflate makes at most 1 032 bytes from one; real debug sections shrink to a fifth. A header
/// that promises more is a bomb.
const MAX_RATIO: u64 = 1032;

/// A parsed ELF file over borrowed bytes.
pub(crate) struct Elf<'d> {
    pub(crate) file: object::File<'d, &'d [u8]>,
}

impl<'d> Elf<'d> {
    /// Reads the headers. None when this is no ELF file.
    pub(crate) fn parse(data: &'d [u8]) -> Option<Self> {
        object::File::parse(data).ok().map(|file| Self { file })
    }

    /// The build id, from the section or the program headers.
    pub(crate) fn build_id(&self) -> Option<&'d [u8]> {
        self.file
            .build_id()
            .ok()
            .flatten()
            .filter(|id| !id.is_empty())
    }

    /// True when it may have this build id: its own is the same, or none is asked for.
    pub(crate) fn is_build(&self, wanted: Option<&[u8]>) -> bool {
        wanted.is_none_or(|id| self.build_id() == Some(id))
    }

    /// True when it holds DWARF that names functions.
    pub(crate) fn has_dwarf(&self) -> bool {
        self.holds(".debug_info") && self.file.section_by_name(".debug_abbrev").is_some()
    }

    /// True when it holds a full symbol table (functions that are not exported, too).
    pub(crate) fn has_symtab(&self) -> bool {
        self.holds(".symtab")
    }

    /// True when the section exists with contents (a separate debug file keeps empty ones).
    fn holds(&self, name: &str) -> bool {
        let range = self
            .file
            .section_by_name(name)
            .and_then(|s| s.compressed_file_range().ok());
        range.is_some_and(|r| r.compressed_size > 0)
    }

    /// Contents of a section as they are in the file.
    pub(crate) fn raw_section(&self, name: &str) -> Option<&'d [u8]> {
        self.file
            .section_by_name(name)?
            .data()
            .ok()
            .filter(|d| !d.is_empty())
    }

    /// Contents of a section, decompressed when need be. `budget` is what may still be
    /// allocated, bytes; an `Err` tells the size that did not fit.
    pub(crate) fn section(&self, name: &str, budget: &mut u64) -> Result<Cow<'d, [u8]>, u64> {
        let Some(section) = self.file.section_by_name(name) else {
            return Ok(Cow::Borrowed(&[]));
        };
        let Ok(data) = section.compressed_data() else {
            return Ok(Cow::Borrowed(&[]));
        };
        if data.format == object::CompressionFormat::None {
            return Ok(Cow::Borrowed(data.data));
        }
        let size = data.uncompressed_size;
        if size > *budget || size / MAX_RATIO > data.data.len() as u64 {
            return Err(size);
        }
        *budget -= size;
        Ok(data.decompress().unwrap_or_default())
    }

    /// Stated address ranges of the sections that hold code, sorted.
    pub(crate) fn code_ranges(&self) -> Vec<(u64, u64)> {
        let mut ranges: Vec<_> = self
            .file
            .sections()
            .filter(|s| is_code(s.flags()))
            .map(|s| (s.address(), s.address().saturating_add(s.size())))
            .collect();
        ranges.sort_unstable();
        ranges
    }
}

fn is_code(flags: SectionFlags) -> bool {
    let wanted = object::elf::SHF_ALLOC | object::elf::SHF_EXECINSTR;
    matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags & wanted == wanted)
}

/// The code range that holds `address`, if any.
pub(crate) fn range_of(ranges: &[(u64, u64)], address: u64) -> Option<(u64, u64)> {
    let next = ranges.partition_point(|&(start, _)| start <= address);
    let range = *ranges.get(next.checked_sub(1)?)?;
    (address < range.1).then_some(range)
}
