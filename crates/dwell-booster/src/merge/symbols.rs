//! The merged dynamic symbol table, its hash table and its versions.
use super::exports::{Export, Place};
use super::strings::Strings;
use super::versions::VersionTables;
use crate::values::Import;
use object::elf;
use std::collections::HashMap;

/// The tables, as bytes.
#[derive(Debug)]
pub(crate) struct SymbolTables<'a> {
    pub imports: Vec<Import>,
    /// In the order of the table.
    pub exports: Vec<Export<'a>>,
    pub gnu_hash: Vec<u8>,
    pub versym: Vec<u8>,
    by_name: HashMap<&'a [u8], u32>,
}

const ENTRY: usize = 24;

impl<'a> SymbolTables<'a> {
    /// Orders the exports by their buckets and makes the hash and version tables.
    pub(crate) fn new(
        imports: Vec<Import>,
        (mut exports, copies): (Vec<Export<'a>>, Vec<Export<'a>>),
        versions: &VersionTables,
    ) -> Self {
        let buckets = (exports.len() / 3).max(1) as u32;
        // Stable: within a bucket the first in the order of lookup stays the first.
        exports.extend(copies);
        let mut hashed: Vec<_> = exports.into_iter().map(|e| (e.hash(), e)).collect();
        hashed.sort_by_key(|(hash, _)| hash % buckets);
        let (hashes, exports): (Vec<u32>, Vec<Export<'a>>) = hashed.into_iter().unzip();
        let first = 1 + imports.len() as u32;
        let mut versym = 0u16.to_le_bytes().to_vec();
        for import in &imports {
            let version = import.version.as_ref();
            let index = version.map_or(1, |(name, file)| versions.index(name, Some(file.as_str())));
            versym.extend(index.to_le_bytes());
        }
        for export in &exports {
            let version = export.version;
            let index = version.map_or(1, |(name, file)| versions.index(name, file));
            let hidden = if export.hidden { 0x8000 } else { 0 };
            versym.extend((index | hidden).to_le_bytes());
        }
        let mut by_name = HashMap::new();
        for (index, export) in exports.iter().enumerate().filter(|(_, e)| !e.copy) {
            by_name.entry(export.name).or_insert(first + index as u32);
        }
        SymbolTables {
            imports,
            gnu_hash: hash_table(&hashes, buckets, first),
            exports,
            versym,
            by_name,
        }
    }

    /// Index of an import in the table.
    pub(crate) fn import(&self, import: usize) -> u32 {
        1 + import as u32
    }

    /// Index of the export of that name.
    pub(crate) fn export(&self, name: &[u8]) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn size(&self) -> usize {
        ENTRY * (1 + self.imports.len() + self.exports.len())
    }

    /// The table itself. `section` gives the section that holds an image address.
    pub(crate) fn bytes(&self, strings: &mut Strings, section: impl Fn(u64) -> u16) -> Vec<u8> {
        let mut bytes = vec![0; ENTRY];
        for import in &self.imports {
            let name = strings.add(&import.name);
            let info = elf::STB_GLOBAL.0 << 4;
            push(&mut bytes, (name, info, 0), elf::SHN_UNDEF.0, (0, 0));
        }
        for export in &self.exports {
            let name = strings.add(export.name);
            let place = match export.place {
                Place::Absolute => elf::SHN_ABS.0,
                Place::Elsewhere => elf::SHN_UNDEF.0,
                // Any section will do that is one.
                Place::ThreadLocal => 1,
                Place::Image => section(export.value),
            };
            let head = (name, export.info, export.other);
            push(&mut bytes, head, place, (export.value, export.size));
        }
        bytes
    }
}

/// Appends one symbol: (name, info, other), section, (value, size).
pub(crate) fn push(
    bytes: &mut Vec<u8>,
    (name, info, other): (u32, u8, u8),
    section: u16,
    (value, size): (u64, u64),
) {
    bytes.extend(name.to_le_bytes());
    bytes.extend([info, other]);
    bytes.extend(section.to_le_bytes());
    bytes.extend(value.to_le_bytes());
    bytes.extend(size.to_le_bytes());
}

/// The second hash's shift in the filter.
const SHIFT: u32 = 26;

fn hash_table(hashes: &[u32], buckets: u32, first: u32) -> Vec<u8> {
    let words = (hashes.len() / 8).max(1).next_power_of_two();
    let mut filter = vec![0u64; words];
    let mut heads = vec![0u32; buckets as usize];
    let mut chains = Vec::with_capacity(hashes.len());
    for (index, &hash) in hashes.iter().enumerate() {
        let word = &mut filter[(hash / 64) as usize % words];
        *word |= 1 << (hash % 64) | 1 << ((hash >> SHIFT) % 64);
        let head = &mut heads[(hash % buckets) as usize];
        if *head == 0 {
            *head = first + index as u32;
        }
        let next = hashes.get(index + 1);
        let ends = next.is_none_or(|n| n % buckets != hash % buckets);
        chains.push(hash & !1 | u32::from(ends));
    }
    let mut bytes = Vec::new();
    for word in [buckets, first, words as u32, SHIFT] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(filter.iter().flat_map(|w| w.to_le_bytes()));
    bytes.extend(heads.iter().chain(&chains).flat_map(|w| w.to_le_bytes()));
    bytes
}
