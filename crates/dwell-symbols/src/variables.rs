//! Variables from symbol tables.
use crate::demangle::demangle;
use crate::elf::Elf;
use crate::queries::Queries;
use object::{Object, ObjectSymbol, SymbolFlags, elf as abi};

/// The variable that an address lies in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, demangled in full.
    pub name: String,
    /// Bytes from its start to the address.
    pub offset: u64,
}

#[derive(Clone, Copy)]
struct Candidate<'d> {
    start: u64,
    size: u64,
    local: bool,
    name: &'d [u8],
}

impl Candidate<'_> {
    /// The innermost variable is the best; of aliases the one that others know, then the shortest name.
    fn rank(&self) -> impl Ord + use<'_> {
        (self.size, self.local, self.name.len(), self.name)
    }
}

/// The variable at each query, from the symbol tables of all `files`.
pub(crate) fn find<'d: 'e, 'e>(
    files: impl Iterator<Item = &'e Elf<'d>>,
    queries: &mut Queries,
) -> Vec<Option<Variable>> {
    let mut best: Vec<Option<Candidate<'d>>> = vec![None; queries.len()];
    for elf in files {
        for symbol in elf.file.symbols().chain(elf.file.dynamic_symbols()) {
            offer(&symbol, &mut best, queries);
        }
    }
    let named = |(found, address): (Option<Candidate<'_>>, &u64)| {
        found.map(|c| Variable {
            name: demangle(&String::from_utf8_lossy(c.name)),
            offset: address - c.start,
        })
    };
    best.into_iter().zip(queries.all()).map(named).collect()
}

fn offer<'d>(
    symbol: &impl ObjectSymbol<'d>,
    best: &mut [Option<Candidate<'d>>],
    queries: &mut Queries,
) -> Option<()> {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
        return None;
    };
    let (start, size) = (symbol.address(), symbol.size());
    if st_info.st_type() != abi::STT_OBJECT || symbol.is_undefined() || size == 0 {
        return None;
    }
    let covered = queries.visit(start, start.saturating_add(size));
    if covered.is_empty() {
        return None;
    }
    let name = symbol.name_bytes().ok()?;
    // Without the version (`stdout@@GLIBC_2.2.5`).
    let name = name.split(|&b| b == b'@').next().unwrap_or(name);
    let local = symbol.is_local();
    let candidate = Candidate {
        start,
        size,
        local,
        name,
    };
    for slot in best.get_mut(covered)? {
        if !name.is_empty() && slot.is_none_or(|old| candidate.rank() < old.rank()) {
            *slot = Some(candidate);
        }
    }
    Some(())
}
