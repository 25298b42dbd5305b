//! Symbol versions: which a module defines, which it needs of whom.
use super::Dynamic;
use dwell_elf::ElfFile;
use std::collections::{BTreeMap, BTreeSet};

/// A version as a symbol's index names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Version {
    pub name: String,
    /// The library that is to define it (`vn_file`); none when this module does.
    pub file: Option<String>,
    /// Whether a reference asks for exactly this version.
    pub hidden: bool,
}

/// The version tables of a module.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// By index. Index 1 (the file itself) is not among them, as in the loader.
    named: BTreeMap<u16, Version>,
    /// The version index of each symbol; none when the module has no versions.
    of_symbols: Option<Vec<u16>>,
    /// Names of all versions it defines.
    pub defined: BTreeSet<String>,
}

const HIDDEN: u16 = 0x8000;
const BASE: u16 = 1;
/// Records read per table; real files have fewer than 200.
const MAX_RECORDS: u64 = 1 << 16;

impl Versions {
    pub(crate) fn parse(elf: &ElfFile<'_>, dynamic: &Dynamic) -> Result<Self, &'static str> {
        let mut versions = Versions::default();
        let reader = Reader {
            elf,
            strings: dynamic.strings.stated,
        };
        let bad = "its symbol versions are damaged";
        if dynamic.verdef.size > 0 {
            let (at, count) = (dynamic.verdef.stated, dynamic.verdef.size);
            versions.read_defined(&reader, at, count).ok_or(bad)?;
        }
        if dynamic.verneed.size > 0 {
            let (at, count) = (dynamic.verneed.stated, dynamic.verneed.size);
            versions.read_needed(&reader, at, count).ok_or(bad)?;
        }
        if let Some(at) = dynamic.versym {
            let bytes = elf.bytes_from(at).ok_or(bad)?;
            let (words, _) = bytes.as_chunks::<2>();
            // How many there are only the symbol table knows; a million symbols are the most read.
            let words = words.iter().take(1 << 22).map(|w| u16::from_le_bytes(*w));
            versions.of_symbols = Some(words.collect());
        }
        Ok(versions)
    }

    fn read_defined(&mut self, reader: &Reader<'_, '_>, mut at: u64, count: u64) -> Option<()> {
        for _ in 0..count.min(MAX_RECORDS) {
            let (flags, index) = (
                reader.u16(at.wrapping_add(2))?,
                reader.u16(at.wrapping_add(4))?,
            );
            let first_name = at.checked_add(reader.u32(at.wrapping_add(12))?)?;
            let name = reader.string(reader.u32(first_name)?)?;
            if flags & BASE == 0 {
                self.defined.insert(name.clone());
                let version = Version {
                    name,
                    file: None,
                    hidden: false,
                };
                self.named.insert(index & !HIDDEN, version);
            }
            let next = reader.u32(at.wrapping_add(16))?;
            if next == 0 {
                break;
            }
            at = at.checked_add(next)?;
        }
        Some(())
    }

    fn read_needed(&mut self, reader: &Reader<'_, '_>, mut at: u64, count: u64) -> Option<()> {
        let mut left = MAX_RECORDS;
        for _ in 0..count.min(MAX_RECORDS) {
            let file = reader.string(reader.u32(at.wrapping_add(4))?)?;
            let mut aux = at.checked_add(reader.u32(at.wrapping_add(8))?)?;
            for _ in 0..reader.u16(at.wrapping_add(2))? {
                left = left.checked_sub(1)?;
                let other = reader.u16(aux.wrapping_add(6))?;
                let version = Version {
                    name: reader.string(reader.u32(aux.wrapping_add(8))?)?,
                    file: Some(file.clone()),
                    hidden: other & HIDDEN != 0,
                };
                self.named.insert(other & !HIDDEN, version);
                let next = reader.u32(aux.wrapping_add(12))?;
                if next == 0 {
                    break;
                }
                aux = aux.checked_add(next)?;
            }
            let next = reader.u32(at.wrapping_add(12))?;
            if next == 0 {
                break;
            }
            at = at.checked_add(next)?;
        }
        Some(())
    }

    /// Whether the module has versions at all.
    pub(crate) fn exist(&self) -> bool {
        self.of_symbols.is_some()
    }

    /// A symbol's version index and whether it is hidden: found only by who names the version.
    pub(crate) fn index(&self, symbol: u32) -> (u16, bool) {
        let all = self.of_symbols.as_deref().unwrap_or_default();
        let raw = all.get(symbol as usize).copied().unwrap_or(0);
        (raw & !HIDDEN, raw & HIDDEN != 0)
    }

    /// A symbol's version, if it has one.
    pub(crate) fn of(&self, symbol: u32) -> Option<&Version> {
        self.named.get(&self.index(symbol).0)
    }
}

struct Reader<'a, 'data> {
    elf: &'a ElfFile<'data>,
    strings: u64,
}

impl Reader<'_, '_> {
    fn u16(&self, at: u64) -> Option<u16> {
        let bytes = self.elf.bytes_at(at, 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn u32(&self, at: u64) -> Option<u64> {
        let bytes = self.elf.bytes_at(at, 4)?;
        let bytes: [u8; 4] = bytes.try_into().ok()?;
        Some(u32::from_le_bytes(bytes).into())
    }

    fn string(&self, offset: u64) -> Option<String> {
        let bytes = self.elf.bytes_from(self.strings.checked_add(offset)?)?;
        let end = bytes.iter().take(4096).position(|&b| b == 0)?;
        Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
    }
}
