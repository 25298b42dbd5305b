//! Sections by name, decompressed where the file stores them compressed.
use crate::file::Header;
use crate::{ElfError, ElfFile};
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{
    CompressionHeader as _, FileHeader as _, SectionHeader as _, SectionTable,
};
use object::read::{CompressedData, CompressionFormat};
use std::borrow::Cow;

/// The section table; empty where the file has none or a damaged one.
#[derive(Clone, Debug)]
pub(crate) struct SectionIndex<'data> {
    pub(crate) table: SectionTable<'data, Header>,
}

impl<'data> SectionIndex<'data> {
    pub(crate) fn parse(header: &'data Header, data: &'data [u8]) -> Self {
        SectionIndex {
            table: header.sections(LE, data).unwrap_or_default(),
        }
    }

    /// Bytes and alignment of every note section.
    pub(crate) fn notes(&self, data: &'data [u8]) -> impl Iterator<Item = (&'data [u8], u64)> {
        self.table
            .iter()
            .filter(|s| s.sh_type(LE) == elf::SHT_NOTE)
            .filter_map(move |s| Some((s.data(LE, data).ok()?, s.sh_addralign(LE))))
    }
}

/// A section of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section<'data> {
    data: &'data [u8],
    name: &'data [u8],
    raw: &'data elf::SectionHeader64<LE>,
}

impl<'data> Section<'data> {
    /// Largest decompressed section that is accepted, bytes. A browser's largest is about 2 GiB,
    /// and only debug information comes near that.
    pub const MAX_BYTES: u64 = 4 << 30;
    /// Largest accepted ratio of decompressed to compressed bytes: deflate cannot exceed 1032, and
    /// real debug sections stay below 20, so more is a bomb.
    const MAX_RATIO: u64 = 1032;

    /// Stated address, 0 for a section that is not loaded.
    pub fn stated_address(&self) -> u64 {
        self.raw.sh_addr(LE)
    }

    /// Size in bytes as stored in the file.
    pub fn size(&self) -> u64 {
        self.raw.sh_size(LE)
    }

    /// Whether the section holds instructions.
    pub fn is_executable(&self) -> bool {
        self.raw.sh_flags(LE).contains(elf::SHF_EXECINSTR)
    }

    /// The bytes as stored; none when they are not in the file (`SHT_NOBITS`, truncated).
    pub fn raw_bytes(&self) -> Option<&'data [u8]> {
        if self.raw.sh_type(LE) == elf::SHT_NOBITS {
            return None;
        }
        self.raw.data(LE, self.data).ok()
    }

    /// The bytes, decompressed (zlib, zstd) if need be.
    pub fn bytes(&self) -> Result<Cow<'data, [u8]>, ElfError> {
        self.bytes_up_to(Self::MAX_BYTES)
    }

    /// Like [`Section::bytes`], refusing to decompress to more than `limit` bytes.
    pub fn bytes_up_to(&self, limit: u64) -> Result<Cow<'data, [u8]>, ElfError> {
        let Some((header, offset, size)) = self
            .raw
            .compression(LE, self.data)
            .map_err(|_| self.bad("its compression header is damaged"))?
        else {
            return self
                .raw_bytes()
                .map(Cow::Borrowed)
                .ok_or_else(|| self.bad("its bytes are not in the file"));
        };
        let uncompressed_size = header.ch_size(LE);
        if uncompressed_size > limit || uncompressed_size / Self::MAX_RATIO > size {
            return Err(ElfError::SectionTooLarge {
                name: self.name_text(),
                bytes: uncompressed_size,
            });
        }
        let format = match header.ch_type(LE) {
            elf::ELFCOMPRESS_ZLIB => CompressionFormat::Zlib,
            elf::ELFCOMPRESS_ZSTD => CompressionFormat::Zstandard,
            _ => return Err(self.bad("its compression method is neither zlib nor zstd")),
        };
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let len = usize::try_from(size).unwrap_or(usize::MAX);
        let data = start
            .checked_add(len)
            .and_then(|end| self.data.get(start..end))
            .ok_or_else(|| self.bad("its bytes are not in the file"))?;
        CompressedData {
            format,
            data,
            uncompressed_size,
        }
        .decompress()
        .map_err(|_| self.bad("it cannot be decompressed"))
    }

    fn name_text(&self) -> String {
        String::from_utf8_lossy(self.name).into_owned()
    }

    fn bad(&self, why: &'static str) -> ElfError {
        ElfError::BadSection {
            name: self.name_text(),
            why,
        }
    }
}

impl<'data> ElfFile<'data> {
    /// The first section of this name.
    pub fn section(&self, name: &str) -> Option<Section<'data>> {
        self.sections()
            .find(|s| s.0 == name.as_bytes())
            .map(|s| s.1)
    }

    /// Every section with its name. A section whose name cannot be read is left out.
    pub fn sections(&self) -> impl Iterator<Item = (&'data [u8], Section<'data>)> + '_ {
        self.sections.table.iter().filter_map(|raw| {
            let name = self.sections.table.section_name(LE, raw).ok()?;
            Some((
                name,
                Section {
                    data: self.data,
                    name,
                    raw,
                },
            ))
        })
    }
}
