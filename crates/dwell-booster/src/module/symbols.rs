//! The dynamic symbol table.
use super::Dynamic;
use crate::u32_at;
use dwell_elf::ElfFile;
use object::elf;
use std::collections::HashMap;

/// A dynamic symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Symbol<'data> {
    pub name: &'data [u8],
    /// Stated address, or offset in the thread-local block.
    pub value: u64,
    pub size: u64,
    pub info: u8,
    pub other: u8,
    pub section: u16,
}

impl Symbol<'_> {
    pub(crate) fn kind(&self) -> u8 {
        self.info & 15
    }

    pub(crate) fn binding(&self) -> u8 {
        self.info >> 4
    }

    pub(crate) fn is_undefined(&self) -> bool {
        self.section == elf::SHN_UNDEF.0
    }

    pub(crate) fn is_absolute(&self) -> bool {
        self.section == elf::SHN_ABS.0
    }

    pub(crate) fn is_thread_local(&self) -> bool {
        self.kind() == elf::STT_TLS.0
    }

    pub(crate) fn is_indirect(&self) -> bool {
        self.kind() == elf::STT_GNU_IFUNC.0
    }

    pub(crate) fn is_weak(&self) -> bool {
        self.binding() == elf::STB_WEAK.0
    }

    pub(crate) fn is_protected(&self) -> bool {
        self.other & 3 == elf::STV_PROTECTED.0
    }

    /// Whether nobody outside of the module sees it.
    pub(crate) fn is_local(&self) -> bool {
        let visibility = self.other & 3;
        self.binding() == elf::STB_LOCAL.0
            || visibility == elf::STV_HIDDEN.0
            || visibility == elf::STV_INTERNAL.0
    }
}

/// The symbols of a module, and those that others can find, by name.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable<'data> {
    symbols: Vec<Symbol<'data>>,
    by_name: HashMap<&'data [u8], Vec<u32>>,
}

const ENTRY: usize = 24;
/// Most symbols that are read; a browser's library has 300 000.
const MAX_SYMBOLS: usize = 1 << 22;

impl<'data> SymbolTable<'data> {
    pub(crate) fn parse(elf: &ElfFile<'data>, dynamic: &Dynamic) -> Result<Self, &'static str> {
        let Some(stated) = dynamic.symbols else {
            return Ok(SymbolTable::default());
        };
        let outside = "its dynamic symbols lie outside of the file";
        let table = elf.bytes_from(stated).ok_or(outside)?;
        let count = count(elf, dynamic).min(table.len() / ENTRY);
        if count > MAX_SYMBOLS {
            return Err("it has more dynamic symbols than any real file");
        }
        let strings = elf.bytes_from(dynamic.strings.stated).ok_or(outside)?;
        let strings_len = usize::try_from(dynamic.strings.size).unwrap_or(usize::MAX);
        let strings = &strings[..strings.len().min(strings_len)];
        let (entries, _) = table.as_chunks::<ENTRY>();
        let symbols: Option<Vec<_>> = entries[..count].iter().map(|e| read(e, strings)).collect();
        let symbols = symbols.ok_or("a dynamic symbol's name lies outside of its string table")?;
        let mut by_name: HashMap<&[u8], Vec<u32>> = HashMap::new();
        for (index, symbol) in symbols.iter().enumerate().skip(1) {
            if can_be_found(symbol) {
                by_name.entry(symbol.name).or_default().push(index as u32);
            }
        }
        Ok(SymbolTable { symbols, by_name })
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Symbol<'data>> {
        self.symbols.get(index as usize)
    }

    /// All symbols with their indices, without the first, empty one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Symbol<'data>)> {
        self.symbols
            .iter()
            .enumerate()
            .skip(1)
            .map(|(i, s)| (i as u32, s))
    }

    /// Those with a name that a lookup might accept, in the table's order.
    pub(crate) fn named(&self, name: &[u8]) -> &[u32] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Whether the loader's lookup accepts such a symbol at all: it has a value, its type is one that
/// programs link with, and it is not local.
pub(crate) fn can_be_found(symbol: &Symbol<'_>) -> bool {
    let has_value = symbol.value != 0 || symbol.is_absolute() || symbol.is_thread_local();
    let linkable = matches!(symbol.kind(), 0..=2 | 5 | 6 | 10);
    let bound = matches!(symbol.binding(), 1 | 2 | 10);
    // A thread-local at offset 0 that is only wanted here has no value either.
    let wanted_only = symbol.is_undefined() && symbol.value == 0;
    has_value && linkable && bound && !symbol.is_local() && !wanted_only && !symbol.name.is_empty()
}

fn read<'data>(entry: &[u8; ENTRY], strings: &'data [u8]) -> Option<Symbol<'data>> {
    let word = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("8 bytes"));
    let name = word(0) as u32 as usize;
    let bytes = strings.get(name..)?;
    let end = bytes.iter().position(|&b| b == 0)?;
    Some(Symbol {
        name: &bytes[..end],
        info: entry[4],
        other: entry[5],
        section: u16::from_le_bytes([entry[6], entry[7]]),
        value: word(8),
        size: word(16),
    })
}

/// How many symbols there are: no tag tells, so the hash tables and the relocations do.
fn count(elf: &ElfFile<'_>, dynamic: &Dynamic) -> usize {
    let hash = dynamic.hash.and_then(|at| elf.bytes_at(at, 8));
    let by_hash = hash.map_or(0, |b| u32_at(b, 4).unwrap_or(0) as usize);
    let by_gnu = dynamic.gnu_hash.and_then(|at| gnu_count(elf, at));
    let tables = [dynamic.rela, dynamic.jump_rela];
    let used = tables.iter().map(|t| {
        let bytes = elf.bytes_from(t.stated).unwrap_or_default();
        let len = bytes.len().min(usize::try_from(t.size).unwrap_or(0));
        let (entries, _) = bytes[..len].as_chunks::<24>();
        let symbol = |e: &[u8; 24]| u32_at(e, 12).unwrap_or(0) as usize + 1;
        entries.iter().map(symbol).max().unwrap_or(0)
    });
    used.max()
        .unwrap_or(0)
        .max(by_hash)
        .max(by_gnu.unwrap_or(0))
}

/// The end of the last chain of a GNU hash table.
fn gnu_count(elf: &ElfFile<'_>, stated: u64) -> Option<usize> {
    let bytes = elf.bytes_from(stated)?;
    let (buckets, first) = (u32_at(bytes, 0)? as usize, u32_at(bytes, 4)? as usize);
    let bloom = u32_at(bytes, 8)? as usize;
    let at = 16 + bloom.checked_mul(8)?;
    let chains = at.checked_add(buckets.checked_mul(4)?)?;
    let heads = bytes.get(at..chains)?;
    let (heads, _) = heads.as_chunks::<4>();
    let mut last = heads.iter().map(|h| u32::from_le_bytes(*h)).max()? as usize;
    if last < first {
        return Some(first);
    }
    while u32_at(bytes, chains.checked_add((last - first).checked_mul(4)?)?)? & 1 == 0 {
        last += 1;
    }
    Some(last + 1)
}
