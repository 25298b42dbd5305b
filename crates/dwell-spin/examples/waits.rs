//! Prints every place of an ELF file that lies in a loop which only waits, loop by loop, with the
//! loop's instructions: to be read by eye, since a wrong one is worse than one that is missed.
//! `cargo run -p dwell-spin --example waits -- FILE...`; `-q` counts only.
use dwell_elf::ElfFile;
use dwell_spin::Module;
use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter};
use std::collections::BTreeMap;
use std::time::Instant;

fn main() {
    let quiet = std::env::args().any(|a| a == "-q");
    for path in std::env::args().skip(1).filter(|a| a != "-q") {
        let bytes = std::fs::read(&path).expect("the file can be read");
        let file = ElfFile::parse(&bytes).expect("an ELF file");
        let names: BTreeMap<u64, String> = file
            .symbols()
            .map(|s| (s.address, String::from_utf8_lossy(s.name).into_owned()))
            .collect();
        let module = Module::new(file);
        let again = ElfFile::parse(&bytes).expect("the same file");
        let started = Instant::now();
        let (mut places, mut slowest) = (0, (0, 0));
        let mut loops: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for range in module.functions() {
            let Some(function) = module.function(range.start) else {
                println!("{:#x} is not decoded", range.start);
                continue;
            };
            for address in function.addresses() {
                places += 1;
                let before = Instant::now();
                if let Ok(found) = module.judge(address) {
                    loops.entry(found.header).or_default().push(address);
                }
                slowest = slowest.max((before.elapsed().as_micros(), address));
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "{path}: {} functions, {places} places, {} loops that wait; {seconds:.2} s, slowest {} us at {:#x}",
            module.functions().len(),
            loops.len(),
            slowest.0,
            slowest.1,
        );
        for (header, members) in loops.iter().filter(|_| !quiet) {
            let name = names.range(..=header).next_back().map_or("?", |(_, n)| n);
            println!("  {name} {header:#x}");
            print_code(&again, members);
        }
    }
}

fn print_code(file: &ElfFile<'_>, members: &[u64]) {
    let mut formatter = GasFormatter::new();
    for &address in members {
        let bytes = file.bytes_from(address).unwrap_or_default();
        let instruction = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE).decode();
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        println!("    {address:#x} {text}");
    }
}
