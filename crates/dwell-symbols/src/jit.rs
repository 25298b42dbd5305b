//! Names of code that a process wrote itself, from the files its JIT compiler leaves for
//! profilers.
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::demangle::demangle;
use crate::files::Tree;
use crate::jitdump::{self, JitName};
use crate::notes::Notes;
use crate::perf_map;
use crate::queries::Queries;
use crate::symbolizer::Symbol;

/// Why code that a process made has no name, and what to do about it.
const HOW_TO_NAME: &str = "code that programs made while they ran ([anon+0x...]) has no name where neither a perf map (/tmp/perf-PID.map) nor a jitdump tells it, nor a HotSpot JVM while it was there: in Node.js that are regular expressions and WebAssembly, which --perf-basic-prof names";

/// A process with a JIT compiler.
#[derive(Clone, Copy, Debug)]
pub struct JitProcess<'a> {
    /// Process id in the root PID namespace.
    pub pid: u32,
    /// Process id in its own PID namespace: what the process calls its file by.
    pub ns_pid: u32,
    /// Root of its mount namespace (`/proc/PID/root`, or `/proc/self/fd/N` of a directory opened
    /// while it lived). None: the host's.
    pub root: Option<&'a Path>,
    /// User it runs as. With it, only files of that user or of root are believed: anybody may
    /// write into `/tmp`. None: the files' owners are not looked at.
    pub uid: Option<u32>,
    /// jitdump files it has mapped, as it sees them (`jit-PID.dump` among its mappings). The one
    /// in `/tmp` is looked for anyway.
    pub dumps: &'a [PathBuf],
}

/// The names of `addresses`, each of which is empty or one function.
pub(crate) fn symbols(
    process: &JitProcess<'_>,
    addresses: &[u64],
    notes: &mut Notes,
) -> Vec<Vec<Symbol>> {
    let mut queries = Queries::new(addresses);
    let mut names: Vec<Option<JitName>> = vec![None; queries.len()];
    let tree = process.root.map_or_else(|| Some(Tree::host()), Tree::below);
    let Some(tree) = tree else {
        return vec![Vec::new(); addresses.len()];
    };
    // A jitdump knows source lines, so its names stay and the map fills the gaps.
    for path in dump_paths(process) {
        if let Some(file) = open(&tree, &path, process.uid, notes) {
            match jitdump::names(file, &mut queries) {
                Ok(new) => fill(&mut names, new),
                Err(error) => notes.add(format!("{}: {error}", path.display())),
            }
        }
    }
    if names.iter().any(Option::is_none) {
        for path in map_paths(process) {
            if let Some(file) = open(&tree, &path, process.uid, notes) {
                match perf_map::names(file, &mut queries) {
                    Ok(new) => fill(&mut names, new.into_iter().map(|n| n.map(from_map))),
                    Err(error) => notes.add(format!("cannot read {}: {error}", path.display())),
                }
            }
        }
    }
    if names.iter().any(Option::is_none) {
        notes.add(HOW_TO_NAME.to_owned());
    }
    let answers: Vec<_> = names
        .into_iter()
        .map(|n| n.map(symbol).into_iter().collect())
        .collect();
    queries.spread(addresses, &answers)
}

fn fill(names: &mut [Option<JitName>], new: impl IntoIterator<Item = Option<JitName>>) {
    for (name, new) in names.iter_mut().zip(new) {
        if name.is_none() {
            *name = new;
        }
    }
}

fn dump_paths(process: &JitProcess<'_>) -> Vec<PathBuf> {
    let usual = PathBuf::from(format!("/tmp/jit-{}.dump", process.ns_pid));
    let mut paths = process.dumps.to_vec();
    if !paths.contains(&usual) {
        paths.push(usual);
    }
    paths
}

/// By the id the process knows itself by; some agents that attach from outside use the other.
fn map_paths(process: &JitProcess<'_>) -> Vec<PathBuf> {
    let mut paths = vec![PathBuf::from(format!("/tmp/perf-{}.map", process.ns_pid))];
    if process.pid != process.ns_pid {
        paths.push(PathBuf::from(format!("/tmp/perf-{}.map", process.pid)));
    }
    paths
}

fn open(tree: &Tree, path: &Path, uid: Option<u32>, notes: &mut Notes) -> Option<File> {
    let file = tree.open(path).ok()?;
    let owner = file.metadata().ok()?.uid();
    let believed = uid.is_none_or(|uid| owner == uid || owner == 0);
    if !believed {
        notes.add(format!(
            "{} belongs to another user ({owner}) than the process and was not read",
            path.display()
        ));
    }
    believed.then_some(file)
}

/// Takes the name of a perf map apart where it is Python's: `py::FUNCTION:FILE`.
fn from_map(name: String) -> JitName {
    let python = name
        .strip_prefix("py::")
        .and_then(|rest| rest.split_once(':'));
    match python {
        Some((function, file)) if !function.is_empty() && !file.is_empty() => JitName {
            function: function.to_owned(),
            file: Some(file.to_owned()),
            line: None,
        },
        _ => JitName {
            function: name,
            ..JitName::default()
        },
    }
}

fn symbol(name: JitName) -> Symbol {
    let function = demangle(&name.function);
    Symbol {
        function,
        file: name.file,
        line: name.line,
        inlined: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_names_are_split() {
        let name = from_map("py::Worker.run:/srv/app/worker.py".into());
        assert_eq!(name.function, "Worker.run");
        assert_eq!(name.file.as_deref(), Some("/srv/app/worker.py"));
        assert_eq!(from_map("py::run".into()).function, "py::run");
        assert_eq!(from_map("std::vector<int>::push_back".into()).file, None);
        let name = from_map("py::<module>:<frozen importlib._bootstrap>".into());
        assert_eq!(
            (name.function.as_str(), name.file.as_deref()),
            ("<module>", Some("<frozen importlib._bootstrap>"))
        );
    }
}
