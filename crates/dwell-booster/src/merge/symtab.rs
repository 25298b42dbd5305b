//! `.symtab`: the functions of all modules, for debuggers and profilers.
use super::Merge;
use super::hot::Hot;
use super::strings::Strings;
use super::symbols::push;
use object::elf;
use std::collections::HashSet;

/// The table and its names. All symbols are global: the second entry is the first of those.
///
/// A copy has its original's names: a breakpoint by name is set in both, and profiles add up.
pub(crate) fn symtab(
    merge: &Merge<'_, '_>,
    hot: &Hot,
    section: impl Fn(u64) -> u16,
) -> (Vec<u8>, Vec<u8>) {
    let mut strings = Strings::new();
    let mut bytes = vec![0; 24];
    let mut seen = HashSet::new();
    for (index, base) in merge.layout.placed() {
        for symbol in merge.closure.functions(index) {
            let at = symbol.address.wrapping_add(base);
            if !seen.insert((at, symbol.name)) {
                continue;
            }
            let kind = if symbol.indirect {
                elf::STT_GNU_IFUNC.0
            } else {
                elf::STT_FUNC.0
            };
            let info = elf::STB_GLOBAL.0 << 4 | kind;
            let name = strings.add(symbol.name);
            let copy = hot.clones.copy_of(at).map(|(_, copy)| copy);
            for at in std::iter::once(at).chain(copy) {
                push(&mut bytes, (name, info, 0), section(at), (at, symbol.size));
            }
        }
    }
    (bytes, strings.bytes)
}
