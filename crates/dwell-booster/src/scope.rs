//! Looking symbols up as the loader does.
use crate::module::{Module, Version};
use object::elf;

/// A symbol that a lookup found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Index of the module in the closure.
    pub module: usize,
    /// Index of the symbol in its table.
    pub symbol: u32,
}

/// What a reference is for: it decides which definitions count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// An address that is compared and stored: a program's PLT entry may stand for a function.
    Address,
    /// A call through the PLT, or a thread-local: only real definitions.
    Call,
    /// The library's original of what the program has a copy of.
    Copy,
}

/// Finds what `reference` of module `from` means, in the order of `modules`.
pub(crate) fn resolve(
    modules: &[Module<'_>],
    from: usize,
    reference: u32,
    purpose: Use,
) -> Option<Found> {
    let module = &modules[from];
    let symbol = module.symbols.get(reference)?;
    let own = Found {
        module: from,
        symbol: reference,
    };
    if symbol.is_local() {
        return Some(own);
    }
    let version = module.versions.of(reference);
    let found = look_up(modules, from, symbol.name, version, purpose);
    let defines = !symbol.is_undefined() && symbol.is_protected();
    if defines && found.is_some_and(|f| f.module != from) && !program_stands_for(modules, found) {
        return Some(own);
    }
    found
}

/// Whether the program's copy or PLT entry takes the place of a library's symbol: then even a
/// protected symbol gives way.
fn program_stands_for(modules: &[Module<'_>], found: Option<Found>) -> bool {
    let symbol = found
        .filter(|f| f.module == 0)
        .and_then(|f| modules[0].symbols.get(f.symbol));
    symbol.is_some_and(|s| s.is_undefined() || s.kind() == elf::STT_OBJECT.0)
}

fn look_up(
    modules: &[Module<'_>],
    from: usize,
    name: &[u8],
    version: Option<&Version>,
    purpose: Use,
) -> Option<Found> {
    // -Bsymbolic: the module itself stands in front of the scope.
    let first = modules[from].dynamic.symbolic.then_some(from);
    let all = 0..modules.len();
    let mut order = first.into_iter().chain(all);
    order.find_map(|index| {
        if purpose == Use::Copy && index == 0 {
            return None;
        }
        let symbol = in_module(&modules[index], name, version, purpose)?;
        Some(Found {
            module: index,
            symbol,
        })
    })
}

/// The symbol of that name and version in one module.
pub(crate) fn in_module(
    module: &Module<'_>,
    name: &[u8],
    version: Option<&Version>,
    purpose: Use,
) -> Option<u32> {
    let mut by_default = Vec::new();
    for &index in module.symbols.named(name) {
        let symbol = module.symbols.get(index)?;
        if purpose != Use::Address && symbol.is_undefined() {
            continue;
        }
        match matches(module, index, version) {
            Match::Yes => return Some(index),
            Match::No => {}
            Match::Default => by_default.push(index),
        }
    }
    // Without a version in the reference, a single default version is taken.
    by_default
        .first()
        .copied()
        .filter(|_| by_default.len() == 1)
}

#[derive(PartialEq, Eq)]
enum Match {
    Yes,
    No,
    Default,
}

/// Versions before this one are what a reference without version means: the file's own and its oldest.
const FIRST_LATER_VERSION: u16 = 3;

fn matches(module: &Module<'_>, index: u32, version: Option<&Version>) -> Match {
    if !module.versions.exist() {
        return Match::Yes;
    }
    let (number, hidden) = module.versions.index(index);
    let Some(wanted) = version else {
        return match (number >= FIRST_LATER_VERSION, hidden) {
            (false, _) => Match::Yes,
            (true, false) => Match::Default,
            (true, true) => Match::No,
        };
    };
    match module.versions.of(index) {
        Some(has) if has.name == wanted.name => Match::Yes,
        Some(_) => Match::No,
        // A symbol of the file itself will do, unless it or the reference is hidden.
        None if hidden || wanted.hidden => Match::No,
        None => Match::Yes,
    }
}
