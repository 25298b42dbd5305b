//! Variables and functions of the kernel, by `/proc/kallsyms`.
use std::collections::BTreeMap;
use std::fs;

/// A symbol of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelSymbol {
    pub(crate) address: u64,
    /// Bytes to the next symbol.
    pub(crate) room: u64,
    pub(crate) is_function: bool,
}

/// The symbol of a name, in the kernel itself or in the module that is named.
pub(crate) fn find(module: Option<&str>, name: &str) -> Option<KernelSymbol> {
    let text = fs::read_to_string("/proc/kallsyms").ok()?;
    let mut found = None;
    let mut starts = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(address), Some(kind), Some(symbol)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let own = words.next().map(|name| name.trim_matches(['[', ']']));
        let address = u64::from_str_radix(address, 16).ok()?;
        starts.insert(address, ());
        let is_meant = module.is_none_or(|module| own.unwrap_or("vmlinux") == module);
        if symbol == name && is_meant && address != 0 && found.is_none() {
            found = Some((address, matches!(kind, "t" | "T" | "w" | "W")));
        }
    }
    let (address, is_function) = found?;
    let next = starts.range(address + 1..).next();
    Some(KernelSymbol {
        address,
        room: next.map_or(0, |(next, ())| next - address),
        is_function,
    })
}
