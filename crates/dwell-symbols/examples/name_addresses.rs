//! Names addresses spread over the code of a file, and tells what that costs.
//!
//! `name_addresses FILE COUNT [--no-lines] [--print]`, or `name_addresses kernel COUNT`.
use std::path::Path;
use std::time::Instant;

use dwell_symbols::{Module, Options, Symbol, Symbolizer};
use object::{Object, ObjectSection};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(path), Some(count)) = (args.first(), args.get(1).and_then(|n| n.parse().ok())) else {
        eprintln!("usage: name_addresses FILE COUNT [--no-lines] [--print]");
        std::process::exit(2);
    };
    let flag = |name: &str| args.iter().any(|a| a == name);
    let options = Options {
        lines: !flag("--no-lines"),
        ..Options::default()
    };
    let mut symbolizer = Symbolizer::new(options);
    let addresses = if path == "kernel" {
        kernel_addresses(count)
    } else {
        spread(path, count)
    };
    // Forget the peak so far: the file was read in whole to spread the addresses.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = peak_kib();
    let started = Instant::now();
    let names = if path == "kernel" {
        symbolizer.kernel(&addresses)
    } else {
        let module = Module {
            file: Path::new(path),
            path,
            build_id: None,
            root: None,
        };
        symbolizer.module(&module, &addresses)
    };
    let elapsed = started.elapsed();
    if flag("--print") {
        print(&addresses, &names);
    }
    let known = names.iter().filter(|n| !n.is_empty()).count();
    let lines = names
        .iter()
        .filter(|n| n.first().is_some_and(|s| s.line.is_some()))
        .count();
    eprintln!(
        "{} addresses, {known} named, {lines} with a line",
        addresses.len()
    );
    eprintln!(
        "{:.1} ms, peak {} KiB (before: {before} KiB)",
        elapsed.as_secs_f64() * 1e3,
        peak_kib()
    );
    for note in symbolizer.notes() {
        eprintln!("note: {note}");
    }
}

fn print(addresses: &[u64], names: &[Vec<Symbol>]) {
    for (address, chain) in addresses.iter().zip(names) {
        println!("{address:#x}");
        for symbol in chain {
            let file = symbol.file.as_deref().unwrap_or("?");
            println!("  {} {file}:{}", symbol.function, symbol.line.unwrap_or(0));
        }
    }
}

/// Addresses at equal distances in the `.text` section.
fn spread(path: &str, count: u64) -> Vec<u64> {
    let map = std::fs::read(path).expect("a readable file");
    let elf = object::File::parse(&*map).expect("an ELF file");
    let text = elf.section_by_name(".text").expect("a .text section");
    (0..count)
        .map(|i| text.address() + i * text.size() / count)
        .collect()
}

fn kernel_addresses(count: u64) -> Vec<u64> {
    (0..count)
        .map(|i| 0xffff_ffff_8100_0000 + i * 0x1000)
        .collect()
}

/// The most memory this process has had resident, KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
