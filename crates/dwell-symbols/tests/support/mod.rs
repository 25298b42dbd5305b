//! Programs to name addresses of, and the tools whose answers are compared.
#![allow(dead_code, reason = "each test file uses a part of it")]
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dwell_symbols::{Module, Options, Symbol, Symbolizer};
use object::{Object, ObjectSection};

/// A directory that is removed at the end of the test.
pub struct Lab {
    directory: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, contents: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, contents).unwrap();
        path
    }

    /// Compiles one of the programs beside this file: C, C++ or Rust by its suffix.
    pub fn compile(&self, source: &str, flags: &[&str]) -> PathBuf {
        let compiler = match source.rsplit('.').next() {
            Some("c") => "gcc",
            Some("cpp") => "g++",
            _ => "rustc",
        };
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs")
            .join(source);
        let output = self.path("program");
        let arguments = flags.iter().copied().map(Path::new);
        let all = arguments.chain([source.as_path(), Path::new("-o"), output.as_path()]);
        run(compiler, all);
        output
    }

    /// Runs `objcopy` with `flags` from `input` to a new file.
    pub fn objcopy(&self, flags: &[&str], input: &Path, output: &str) -> PathBuf {
        let output = self.path(output);
        let arguments = flags.iter().copied().map(Path::new);
        run("objcopy", arguments.chain([input, output.as_path()]));
        output
    }
}

/// Runs a tool, which must succeed, and gives its output.
pub fn run(tool: &str, arguments: impl IntoIterator<Item: AsRef<std::ffi::OsStr>>) -> String {
    run_with_input(tool, arguments, "")
}

pub fn run_with_input(
    tool: &str,
    arguments: impl IntoIterator<Item: AsRef<std::ffi::OsStr>>,
    input: &str,
) -> String {
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{tool} is needed by this test: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    let _ = writer.join();
    assert!(output.status.success(), "{tool} failed");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Names from a file, with nothing but the given directories of debug files.
pub fn names(file: &Path, addresses: &[u64], debug_directories: &[PathBuf]) -> Vec<Vec<Symbol>> {
    let options = Options {
        debug_directories: debug_directories.to_vec(),
        ..Options::default()
    };
    Symbolizer::new(options).module(&module(file), addresses)
}

/// True when something names the function, and not only call frame information says where it begins.
pub fn is_named(chain: &[Symbol]) -> bool {
    chain
        .last()
        .is_some_and(|symbol| !symbol.function.starts_with('['))
}

pub fn module(file: &Path) -> Module<'_> {
    Module {
        file,
        path: file.to_str().unwrap(),
        build_id: None,
        root: None,
    }
}

/// Every `step`th address of a section.
pub fn addresses(file: &Path, section: &str, step: usize) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let section = elf.section_by_name(section).unwrap();
    (section.address()..section.address() + section.size())
        .step_by(step)
        .collect()
}

/// Where the functions of `.symtab` lie.
pub fn functions(file: &Path) -> Vec<Range<u64>> {
    let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
    let list = run("nm", [Path::new("-S"), Path::new("--defined-only"), file]);
    let mut ranges = Vec::new();
    for line in list.lines() {
        let fields: Vec<_> = line.split(' ').collect();
        if let [start, size, "t" | "T" | "w" | "W" | "i" | "u", _] = fields[..] {
            ranges.push(hex(start)..hex(start) + hex(size));
        }
    }
    assert!(!ranges.is_empty());
    ranges
}

/// Those of the addresses that lie in a function of `.symtab` (the others are padding).
pub fn in_functions(file: &Path, addresses: &[u64]) -> Vec<u64> {
    let ranges = functions(file);
    addresses
        .iter()
        .copied()
        .filter(|a| ranges.iter().any(|r| r.contains(a)))
        .collect()
}

pub fn build_id(file: &Path) -> Vec<u8> {
    let bytes = std::fs::read(file).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    elf.build_id().unwrap().unwrap().to_vec()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A frame as the oracle prints it: function, file, line (0: unknown).
pub type Row = (String, String, u32);

/// What binutils' `addr2line` says; mangled names are demangled as ours are, to compare which
/// function it is and not how its name is written.
pub fn addr2line(file: &Path, addresses: &[u64]) -> Vec<Vec<Row>> {
    let input: String = addresses.iter().map(|a| format!("{a:#x}\n")).collect();
    let output = run_with_input("addr2line", [Path::new("-afie"), file], &input);
    let mut chains: Vec<Vec<Row>> = Vec::new();
    let mut lines = output.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            chains.push(Vec::new());
        } else {
            let (file, number) = lines.next().unwrap().rsplit_once(':').unwrap();
            let number = number.split(' ').next().unwrap().parse().unwrap_or(0);
            chains.last_mut().unwrap().push((
                dwell_symbols::demangle(line),
                file.to_owned(),
                number,
            ));
        }
    }
    assert_eq!(chains.len(), addresses.len());
    chains
}

/// Our answer in the oracle's form.
pub fn rows(chain: &[Symbol]) -> Vec<Row> {
    let row = |s: &Symbol| {
        (
            s.function.clone(),
            s.file.clone().unwrap_or("??".into()),
            s.line.unwrap_or(0),
        )
    };
    chain.iter().map(row).collect()
}

/// `/a/b/../c` and `/a/./c` are the same file.
pub fn normal_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Deterministic random numbers (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }

    /// Damages bytes as files get damaged: bits, bytes, cuts, repeats.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.below(8) {
            let at = self.below(bytes.len());
            match self.below(6) {
                _ if bytes.is_empty() => return,
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = self.below(256) as u8,
                2 => bytes[at] = [0, 0xff, 0x7f, 0x80, b'\n', b' '][self.below(6)],
                3 => bytes.truncate(at),
                4 => {
                    let end = at + self.below(64).min(bytes.len() - at);
                    let copy = bytes[at..end].to_vec();
                    bytes.splice(at..at, copy);
                }
                _ => bytes[at..].iter_mut().take(8).for_each(|b| *b = 0xff),
            }
        }
    }
}
