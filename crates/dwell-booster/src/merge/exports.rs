//! Which symbols the merged file shows to libraries that stay and to plugins loaded later.
use crate::closure::Closure;
use crate::layout::Layout;
use crate::module::{Module, Symbol};
use crate::scope::{Use, resolve};
use object::elf;
use std::collections::HashSet;

/// A symbol that others can find in the merged file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Export<'a> {
    pub name: &'a [u8],
    /// Its version, and the library that the program has it from (when it is the program's copy).
    pub version: Option<(&'a str, Option<&'a str>)>,
    /// Found only by who names the version.
    pub hidden: bool,
    /// Image address, offset in the thread-local block, or the number itself.
    pub value: u64,
    pub size: u64,
    pub info: u8,
    pub other: u8,
    /// Where it is.
    pub place: Place,
    /// Whether it names the copy of a function: who asks for the name of an address is told, but no lookup finds it.
    pub copy: bool,
}

impl Export<'_> {
    /// Its hash in the table. A copy has that of another name, so that a lookup passes it over before it compares
    /// names.
    pub(crate) fn hash(&self) -> u32 {
        match self.copy {
            true => elf::gnu_hash(&[self.name, b".hot"].concat()),
            false => elf::gnu_hash(self.name),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Image,
    Absolute,
    ThreadLocal,
    /// The program's PLT entry of a function that a library which stays defines: its address wherever
    /// it is compared, but not where it is.
    Elsewhere,
}

/// All exports, in the order of lookup. Of two that one lookup could confuse the first stays, as it
/// was found before; what a library that stays defined first is left to it.
pub(crate) fn exports<'a>(closure: &'a Closure<'_>, layout: &Layout) -> Vec<Export<'a>> {
    let mut exports = Vec::new();
    let mut seen = Seen::default();
    for (index, module) in closure.modules.iter().enumerate() {
        let visible = |s: &&Symbol<'_>| crate::module::can_be_found(s);
        let base = layout.bases[index];
        for (number, symbol) in module.symbols.iter().filter(|(_, s)| visible(s)) {
            let version = module.versions.of(number);
            let version = version.map(|v| (v.name.as_str(), v.file.as_deref()));
            let name_version = (symbol.name, version.map(|v| v.0));
            let Some(base) = base else {
                seen.kept(name_version);
                continue;
            };
            if seen.hides(name_version) {
                continue;
            }
            let (value, place, info) = placed(closure, layout, (index, number), symbol, base);
            exports.push(Export {
                name: symbol.name,
                version,
                hidden: seen.names.contains(symbol.name) || module.versions.index(number).1,
                value,
                size: symbol.size,
                info,
                other: symbol.other,
                place,
                copy: false,
            });
            seen.merged(name_version);
        }
    }
    exports
}

type NameVersion<'a> = (&'a [u8], Option<&'a str>);

/// What modules earlier in the order define.
#[derive(Default)]
struct Seen<'a> {
    names: HashSet<&'a [u8]>,
    by_version: HashSet<NameVersion<'a>>,
    of_kept: HashSet<&'a [u8]>,
}

impl<'a> Seen<'a> {
    fn kept(&mut self, symbol: NameVersion<'a>) {
        self.of_kept.insert(symbol.0);
        self.merged(symbol);
    }

    fn merged(&mut self, symbol: NameVersion<'a>) {
        self.names.insert(symbol.0);
        self.by_version.insert(symbol);
    }

    /// Whether an earlier symbol is found instead, or this one would be found instead of a kept
    /// library's: one without version answers to every version.
    fn hides(&self, symbol: NameVersion<'a>) -> bool {
        self.by_version.contains(&symbol) || symbol.1.is_none() && self.of_kept.contains(symbol.0)
    }
}

fn placed(
    closure: &Closure<'_>,
    layout: &Layout,
    (index, number): (usize, u32),
    symbol: &Symbol<'_>,
    base: u64,
) -> (u64, Place, u8) {
    if symbol.is_undefined() {
        let found = resolve(&closure.modules, index, number, Use::Call);
        let merged = found.is_some_and(|f| layout.bases[f.module].is_some());
        let place = if merged {
            Place::Image
        } else {
            Place::Elsewhere
        };
        let info = symbol.info & 0xf0 | elf::STT_FUNC.0;
        return (symbol.value.wrapping_add(base), place, info);
    }
    if symbol.is_thread_local() {
        let offset = layout.tls.offsets[index].unwrap_or(0);
        let value = symbol.value.wrapping_add(offset);
        return (value, Place::ThreadLocal, symbol.info);
    }
    if symbol.is_absolute() {
        return (symbol.value, Place::Absolute, symbol.info);
    }
    let value = symbol.value.wrapping_add(base);
    (value, Place::Image, symbol.info)
}

/// Names of the versions that merged modules define.
pub(crate) fn defined_versions<'a>(modules: impl Iterator<Item = &'a Module<'a>>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    let all = modules.flat_map(|m| m.versions.defined.iter().map(String::as_str));
    all.filter(|v| seen.insert(*v)).collect()
}
