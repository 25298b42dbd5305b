//! Which functions the kernel has, and which of them can be traced.
use libbpf_rs::btf::{Btf, types::Func};
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Names offered in place of one that is not there.
const NEAR: usize = 5;
/// How alike (Jaro-Winkler, 0 to 1) a name must be to be offered; a letter too few or too many passes.
const ALIKE: f64 = 0.9;
/// Where the kernel lists what its function tracer can reach.
const TRACEABLE: [&str; 2] = [
    "/sys/kernel/tracing/available_filter_functions",
    "/sys/kernel/debug/tracing/available_filter_functions",
];

/// Functions with names like this one, best first. Only those that have type information, and as far as
/// the kernel tells, can be traced.
pub fn near(name: &str) -> Vec<String> {
    let Ok(btf) = Btf::from_vmlinux() else {
        return Vec::new();
    };
    let functions = btf.type_by_kind::<Func<'_>>();
    let names = functions.filter_map(|f| f.name()?.to_str().map(str::to_owned));
    let mut best = ranked(name, names);
    best.retain(|n| n != name && is_traceable(n) != Some(false));
    best.truncate(NEAR);
    best
}

/// Names that contain the wanted one, the shortest first; then those that are spelt alike.
fn ranked(wanted: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let mut found: Vec<(f64, usize, String)> = names
        .filter_map(|name| {
            let alike = if name.contains(wanted) {
                1.0
            } else {
                strsim::jaro_winkler(wanted, &name)
            };
            (alike >= ALIKE).then_some((-alike, name.len(), name))
        })
        .collect();
    found.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    found.dedup();
    found.truncate(4 * NEAR);
    found.into_iter().map(|(_, _, name)| name).collect()
}

/// For each function whether the kernel has type information for it, without which no program can be put
/// there.
pub fn have_types<const N: usize>(names: [&str; N]) -> [bool; N] {
    let btf = Btf::from_vmlinux().ok();
    names.map(|name| {
        let found = btf.as_ref().and_then(|b| b.type_by_name::<Func<'_>>(name));
        found.is_some()
    })
}

/// True when the kernel's symbols have a function of that name.
pub fn is_symbol(name: &str) -> bool {
    lines("/proc/kallsyms").is_some_and(|mut lines| {
        lines.any(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let is_text = fields.next().is_some_and(|kind| "tTwW".contains(kind));
            is_text && fields.next() == Some(name)
        })
    })
}

/// Whether the kernel's function tracer can reach a function; none when it does not tell.
pub fn is_traceable(name: &str) -> Option<bool> {
    let mut lists = TRACEABLE.into_iter().filter_map(lines);
    let mut list = lists.next()?.peekable();
    list.peek()?;
    Some(list.any(|line| line.split_ascii_whitespace().next() == Some(name)))
}

fn lines(path: &str) -> Option<impl Iterator<Item = String> + use<>> {
    let file = File::open(path).ok()?;
    Some(BufReader::new(file).lines().map_while(Result::ok))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names() {
        let names = [
            "do_sys_open",
            "vfs_read",
            "vfs_readv",
            "do_sys_openat2",
            "kfree",
        ];
        let ranked = |wanted| ranked(wanted, names.iter().map(|n| (*n).to_owned()));
        assert_eq!(ranked("sys_open"), ["do_sys_open", "do_sys_openat2"]);
        assert_eq!(ranked("vfs_raed"), ["vfs_read", "vfs_readv"]);
        assert!(ranked("nothing_like_it").is_empty());
    }
}
