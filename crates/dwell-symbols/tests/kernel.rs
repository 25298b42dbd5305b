//! The kernel's symbols next to the list they come from.
use std::collections::{BTreeMap, BTreeSet};

use dwell_symbols::{Options, Symbolizer};

#[test]
fn names_are_those_of_the_list() {
    let Ok(list) = std::fs::read_to_string("/proc/kallsyms") else {
        return;
    };
    let mut text: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
    for line in list.lines() {
        let fields: Vec<_> = line.split_whitespace().collect();
        let address = u64::from_str_radix(fields[0], 16).unwrap();
        if address != 0 && "tTwW".contains(fields[1]) {
            text.entry(address).or_default().insert(fields[2]);
        }
    }
    let mut symbolizer = Symbolizer::new(Options::default());
    assert_eq!(symbolizer.kernel_hidden(), None);
    if text.is_empty() {
        assert_eq!(symbolizer.kernel(&[0xffff_ffff_8100_0000]), [vec![]]);
        let reason = symbolizer.kernel_hidden().unwrap().to_owned();
        assert!(reason.contains("kernel symbols"), "{reason}");
        assert_eq!(symbolizer.notes(), [reason]);
        return;
    }
    let starts: Vec<u64> = text.keys().copied().collect();
    let names = symbolizer.kernel(&starts);
    for (chain, (address, candidates)) in names.iter().zip(&text) {
        assert_eq!(chain.len(), 1, "{address:#x}");
        // Rust names are demangled; everything else stands as it is.
        let raw = candidates.contains(chain[0].function.as_str());
        assert!(
            raw || candidates.iter().any(|n| n.starts_with("_R")),
            "{address:#x} {chain:?}"
        );
    }
    assert_eq!(symbolizer.kernel_hidden(), None);
}

#[test]
fn what_an_earlier_list_lacks_is_read_anew() {
    let mut symbolizer = Symbolizer::new(Options::default());
    let Ok(list) = std::fs::read_to_string("/proc/kallsyms") else {
        return;
    };
    let mut functions = list.lines().filter_map(|line| {
        let [address, "T", name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            return None;
        };
        let address = u64::from_str_radix(address, 16).ok()?;
        (address != 0).then_some((address, name))
    });
    let Some((known, name)) = functions.next() else {
        return;
    };
    let (unknown, _) = functions.next_back().expect("more than one function");
    symbolizer.use_earlier_kernel_symbols(&format!("{known:x} T {name}_once\n"));
    let before = symbolizer.kernel(&[known]);
    assert_eq!(before[0][0].function, format!("{name}_once"));
    let after = symbolizer.kernel(&[known, unknown]);
    assert_ne!(after[0][0].function, format!("{name}_once"));
    assert_eq!(after[1].len(), 1);
}
