//! Shared by the tests: files of the machine, programs compiled on the spot, stopped processes, and
//! the unwinders that serve as oracles.
#![allow(dead_code)] // each test binary uses a part of it

pub mod oracles;
pub mod probed;
pub mod process;
pub mod programs;

use dwell_elf::ElfFile;
use std::path::Path;

/// Files that a Debian machine has, and what the tests are about. Those that are not installed are
/// left out; [`ALWAYS`] must be there.
pub const FILES: [&str; 14] = [
    "/bin/bash",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
    "/lib64/ld-linux-x86-64.so.2",
    "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/usr/lib/x86_64-linux-gnu/libgcc_s.so.1",
    "/usr/lib/x86_64-linux-gnu/libcrypto.so.3",
    "/usr/bin/python3",
    "/usr/bin/perl",
    "/usr/games/stockfish",
    "/usr/bin/redis-server",
    "/usr/sbin/nginx",
    "/usr/bin/sqlite3",
    "/lib/ld-musl-x86_64.so.1",
];

/// The part of [`FILES`] that a test fails without.
pub const ALWAYS: [&str; 4] = [
    "/bin/bash",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib64/ld-linux-x86-64.so.2",
    "/usr/bin/perl",
];

/// The bytes of a file, none when it is not installed.
pub fn bytes(path: &str) -> Option<Vec<u8>> {
    if !Path::new(path).exists() {
        assert!(!ALWAYS.contains(&path), "{path} is needed for this test");
        eprintln!("{path} is not installed, left out");
        return None;
    }
    Some(std::fs::read(path).unwrap_or_else(|e| panic!("read {path}: {e}")))
}

/// Every installed file with its bytes.
pub fn installed() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    FILES
        .into_iter()
        .filter_map(|path| Some((path, bytes(path)?)))
}

/// Parses, or fails naming the file.
pub fn parse<'a>(path: &str, data: &'a [u8]) -> ElfFile<'a> {
    ElfFile::parse(data).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The vDSO of this process, from memory.
pub fn vdso() -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("own maps");
    let line = maps
        .lines()
        .find(|l| l.ends_with("[vdso]"))
        .expect("a vDSO");
    let (start, end) = line
        .split_once(' ')
        .expect("range")
        .0
        .split_once('-')
        .expect("range");
    let address = |s| u64::from_str_radix(s, 16).expect("hex");
    let (start, end) = (address(start), address(end));
    let mut image = vec![0; (end - start) as usize];
    let memory = std::fs::File::open("/proc/self/mem").expect("own memory");
    memory
        .read_exact_at(&mut image, start)
        .expect("read the vDSO");
    image
}
