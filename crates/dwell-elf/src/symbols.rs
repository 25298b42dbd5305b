//! Function symbols of `.symtab` and `.dynsym`.
use crate::ElfFile;
use crate::file::Header;
use object::LittleEndian as LE;
use object::elf;
use object::read::StringTable;
use object::read::elf::{Sym as _, SymbolTable};
use std::slice;

/// A function's name and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Symbol<'data> {
    /// Stated address of its first instruction.
    pub address: u64,
    /// Size in bytes, 0 when the file does not say.
    pub size: u64,
    /// The name as stored (mangled).
    pub name: &'data [u8],
    /// Whether it resolves to another function at load time (`STT_GNU_IFUNC`).
    pub indirect: bool,
}

/// Iterates over defined functions with a name: first `.symtab`, then `.dynsym`. Aliases and
/// functions in both tables come more than once.
#[derive(Clone, Debug)]
pub struct Symbols<'data> {
    tables: [Table<'data>; 2],
}

#[derive(Clone, Debug)]
struct Table<'data> {
    symbols: slice::Iter<'data, elf::Sym64<LE>>,
    strings: StringTable<'data>,
}

impl<'data> Table<'data> {
    fn new(table: SymbolTable<'data, Header>) -> Self {
        Table {
            symbols: table.symbols().iter(),
            strings: table.strings(),
        }
    }

    fn next(&mut self) -> Option<Symbol<'data>> {
        let strings = self.strings;
        self.symbols.find_map(|symbol| function(symbol, strings))
    }
}

impl<'data> Iterator for Symbols<'data> {
    type Item = Symbol<'data>;

    fn next(&mut self) -> Option<Symbol<'data>> {
        self.tables.iter_mut().find_map(Table::next)
    }
}

impl<'data> ElfFile<'data> {
    /// The functions the file defines. A table that cannot be read counts as empty.
    pub fn symbols(&self) -> Symbols<'data> {
        let table = |kind| {
            Table::new(
                self.sections
                    .table
                    .symbols(LE, self.data, kind)
                    .unwrap_or_default(),
            )
        };
        Symbols {
            tables: [table(elf::SHT_SYMTAB), table(elf::SHT_DYNSYM)],
        }
    }
}

fn function<'data>(
    symbol: &'data elf::Sym64<LE>,
    strings: StringTable<'data>,
) -> Option<Symbol<'data>> {
    let kind = symbol.st_type();
    let indirect = kind == elf::STT_GNU_IFUNC;
    if !(kind == elf::STT_FUNC || indirect) || symbol.is_undefined(LE) {
        return None;
    }
    let name = symbol
        .name(LE, strings)
        .ok()
        .filter(|name| !name.is_empty())?;
    Some(Symbol {
        address: symbol.st_value(LE),
        size: symbol.st_size(LE),
        name,
        indirect,
    })
}
