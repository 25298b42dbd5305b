//! Function names from symbol tables.
//!
//! Tables are streamed past the sorted addresses, so that a table of a million symbols costs no
//! memory: each symbol is offered to the addresses it covers, and the best offer is kept.
use object::{Object, ObjectSymbol, SymbolFlags, elf as abi};

use crate::elf::{Elf, range_of};
use crate::queries::Queries;

/// A symbol that may name an address.
#[derive(Clone, Copy, Debug)]
struct Candidate<'d> {
    start: u64,
    /// 0: the table does not say (code written in assembly).
    size: u64,
    rank: Rank<'d>,
}

/// Which of several symbols at one address reads best; smaller is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'d> {
    not_a_function: bool,
    local: bool,
    leading_underscores: usize,
    length: usize,
    name: &'d [u8],
}

/// The best symbol for each address, over any number of tables.
pub(crate) struct Names<'d> {
    /// By address: the innermost sized symbol that covers it.
    covering: Vec<Option<Candidate<'d>>>,
    /// By address: the last symbol that starts between the address before and this one.
    nearest: Vec<Option<Candidate<'d>>>,
}

impl<'d> Names<'d> {
    /// No names yet, for each of `queries`.
    pub(crate) fn new(queries: &Queries) -> Self {
        Self {
            covering: vec![None; queries.len()],
            nearest: vec![None; queries.len()],
        }
    }

    /// Offers all symbols of both tables of `elf`.
    pub(crate) fn add(&mut self, elf: &Elf<'d>, queries: &mut Queries) {
        let code = elf.code_ranges();
        for symbol in elf.file.symbols().chain(elf.file.dynamic_symbols()) {
            self.offer(&symbol, &code, queries);
        }
    }

    /// Takes account of one symbol. Its name is read last: most symbols are of no interest, and
    /// the names of a large program fill tens of megabytes.
    fn offer(
        &mut self,
        symbol: &impl ObjectSymbol<'d>,
        code: &[(u64, u64)],
        queries: &mut Queries,
    ) -> Option<()> {
        let kind = code_kind(symbol, code)?;
        let (start, size) = (symbol.address(), symbol.size());
        let covered = queries.visit(start, start.saturating_add(size));
        let next = self.nearest.get_mut(queries.first_from(start));
        let next = next.filter(|slot| slot.is_none_or(|best| best.start <= start));
        if covered.is_empty() && next.is_none() {
            return None;
        }
        let candidate = Candidate {
            start,
            size,
            rank: rank(symbol, kind)?,
        };
        if let Some(slot) = next {
            keep_better(slot, candidate);
        }
        for i in covered {
            keep_better(&mut self.covering[i], candidate);
        }
        Some(())
    }

    /// The raw name for each address, in the order of the queries. `code` are the ranges of code
    /// sections: a symbol without a size ends with its section.
    pub(crate) fn finish(self, queries: &Queries, code: &[(u64, u64)]) -> Vec<Option<&'d [u8]>> {
        let mut last: Option<Candidate<'d>> = None;
        let mut names = Vec::with_capacity(queries.len());
        for (i, &address) in queries.all().iter().enumerate() {
            // A symbol that starts at this very address waits in this slot as well.
            last = self.nearest[i].or(last);
            let unsized_symbol = last.filter(|s| {
                s.size == 0 && range_of(code, s.start).is_some_and(|(_, end)| address < end)
            });
            names.push(self.covering[i].or(unsized_symbol).map(|s| s.rank.name));
        }
        names
    }
}

fn keep_better<'d>(slot: &mut Option<Candidate<'d>>, new: Candidate<'d>) {
    // The latest start is the innermost function; a size is better than none.
    let key = |c: &Candidate<'d>| (std::cmp::Reverse(c.start), c.size == 0, c.rank);
    if slot.as_ref().is_none_or(|old| key(&new) < key(old)) {
        *slot = Some(new);
    }
}

/// What may stand in code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Function,
    /// A name without a type, as assemblers write them.
    Label,
}

/// None for symbols of data, of other files, and of functions that were thrown away.
fn code_kind<'d>(symbol: &impl ObjectSymbol<'d>, code: &[(u64, u64)]) -> Option<Kind> {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
        return None;
    };
    let kind = match st_info.st_type() {
        abi::STT_FUNC | abi::STT_GNU_IFUNC => Kind::Function,
        abi::STT_NOTYPE => Kind::Label,
        _ => return None,
    };
    if symbol.is_undefined() {
        return None;
    }
    range_of(code, symbol.address())?;
    Some(kind)
}

fn rank<'d>(symbol: &impl ObjectSymbol<'d>, kind: Kind) -> Option<Rank<'d>> {
    let name = plain_name(symbol.name_bytes().ok()?);
    if name.is_empty() || (kind == Kind::Label && is_label(name)) {
        return None;
    }
    Some(Rank {
        not_a_function: kind == Kind::Label,
        local: symbol.is_local(),
        leading_underscores: name.iter().take_while(|&&b| b == b'_').count(),
        length: name.len(),
        name,
    })
}

/// Without the version (`memcpy@@GLIBC_2.14`).
fn plain_name(name: &[u8]) -> &[u8] {
    name.split(|&b| b == b'@').next().unwrap_or(name)
}

/// Marks that assemblers leave inside functions.
fn is_label(name: &[u8]) -> bool {
    name.starts_with(b".L") || name.starts_with(b"$")
}
