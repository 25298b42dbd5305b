//! Compiles the unwind rows of files and prints what they cost: `rows FILE…`.
use dwell_abi::unwind::*;
use dwell_elf::{ElfFile, unwind};
use std::time::Instant;

const KINDS: [(u8, &str); 11] = [
    (KIND_END, "end"),
    (KIND_SP, "sp"),
    (KIND_BP, "bp"),
    (KIND_PLT, "plt"),
    (KIND_SIGNAL, "signal"),
    (KIND_RULE, "rule"),
    (KIND_RA_RDI, "rdi"),
    (KIND_NONE, "none"),
    (KIND_UNSUPPORTED, "unsupported"),
    (KIND_FP, "fp"),
    (KIND_CLONE, "clone"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args().skip(1) {
        let data = std::fs::read(&path)?;
        let file = ElfFile::parse(&data)?;
        let start = Instant::now();
        let table = unwind::compile(&file)?;
        let first = start.elapsed();
        let start = Instant::now();
        let again = unwind::compile(&file)?;
        assert_eq!(table, again);
        println!(
            "{path}: {} rows, {} rules, {} bytes, {:.1} ms ({:.1} ms again), text {} bytes",
            table.rows.len(),
            table.rules.len(),
            table.size(),
            first.as_secs_f64() * 1e3,
            start.elapsed().as_secs_f64() * 1e3,
            table.text_end - table.text_start,
        );
        for (kind, name) in KINDS {
            let rows = table.rows.iter().filter(|r| r.kind == kind).count();
            let bytes: u64 = table
                .rows
                .iter()
                .enumerate()
                .filter(|(_, r)| r.kind == kind)
                .map(|(i, r)| {
                    let next = table
                        .rows
                        .get(i + 1)
                        .map_or(table.text_end - table.text_start, |n| n.pc.into());
                    next - u64::from(r.pc)
                })
                .sum();
            if rows > 0 {
                println!("  {name:12} {rows:9} rows {bytes:12} bytes");
            }
        }
    }
    Ok(())
}
