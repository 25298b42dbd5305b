//! Variables that arguments name: `4@counter(%rip)`.
use super::{Names, grammar};
use crate::ElfFile;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::Sym as _;

/// The symbols that some argument names.
pub(super) fn wanted<'a>(arguments: impl Iterator<Item = &'a str>) -> Names<'a> {
    arguments
        .flat_map(grammar::words)
        .filter_map(grammar::symbol)
        .map(|symbol| (symbol.as_bytes(), None))
        .collect()
}

/// Where the wanted variables are.
#[derive(Debug, Default)]
pub(super) struct NamedData<'a>(Names<'a>);

/// Why a variable has no address.
pub(super) const MISSING: &str = "the file has no symbol of this name; it may be stripped";
const AMBIGUOUS: &str = "several variables of the file have this name";
/// Marks a name with several addresses; no variable is there.
const SEVERAL: u64 = u64::MAX;

impl<'a> NamedData<'a> {
    /// Looks the names up in the symbol tables; does nothing when there are none.
    pub fn find(file: &ElfFile, names: &Names<'a>) -> Self {
        let mut found = names.clone();
        if found.is_empty() {
            return NamedData::default();
        }
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let Ok(table) = file.sections.table.symbols(LE, file.data, kind) else {
                continue;
            };
            for symbol in table.iter().filter(|s| is_data(s)) {
                let Some(entry) = symbol
                    .name(LE, table.strings())
                    .ok()
                    .and_then(|name| found.get_mut(name))
                else {
                    continue;
                };
                let address = symbol.st_value(LE);
                *entry = match *entry {
                    Some(other) if other != address => Some(SEVERAL),
                    _ => Some(address),
                };
            }
        }
        NamedData(found)
    }

    /// Stated address of the variable.
    pub fn address(&self, name: &str) -> Result<u64, &'static str> {
        match self.0.get(name.as_bytes()).copied().flatten() {
            None => Err(MISSING),
            Some(SEVERAL) => Err(AMBIGUOUS),
            Some(address) => Ok(address),
        }
    }
}

fn is_data(symbol: &elf::Sym64<LE>) -> bool {
    let kind = symbol.st_type();
    (kind == elf::STT_OBJECT || kind == elf::STT_NOTYPE) && !symbol.is_undefined(LE)
}
