//! Files that lie: no panic, no hang, no more memory than they deserve.
mod support;

use std::time::{Duration, Instant};

use support::{Lab, Random, addresses, names};

#[test]
fn damaged_programs_harm_nobody() {
    let lab = Lab::new();
    let mut random = Random(0x2545_F491_4F6C_DD1D);
    for flags in [["-g", "-gdwarf-5", "-O2"], ["-g", "-gdwarf-4", "-gz"]] {
        let program = lab.compile("inlined.c", &flags);
        let all = addresses(&program, ".text", 16);
        let whole = std::fs::read(&program).unwrap();
        let started = Instant::now();
        for _ in 0..400 {
            let mut bytes = whole.clone();
            random.mutate(&mut bytes);
            let damaged = lab.write("damaged", &bytes);
            assert_eq!(names(&damaged, &all, &[]).len(), all.len());
        }
        assert!(started.elapsed() < Duration::from_secs(60));
    }
}

/// Damage where it hurts: within the debug sections only.
#[test]
fn damaged_debug_sections_harm_nobody() {
    use object::{Object, ObjectSection};
    let lab = Lab::new();
    let mut random = Random(0xDEAD_BEEF_CAFE_F00D);
    let program = lab.compile("templates.cpp", &["-g", "-O2"]);
    let all = addresses(&program, ".text", 64);
    let whole = std::fs::read(&program).unwrap();
    let elf = object::File::parse(&*whole).unwrap();
    let ranges: Vec<_> = elf
        .sections()
        .filter(|s| {
            s.name()
                .is_ok_and(|n| n.starts_with(".debug") || n.ends_with("symtab"))
        })
        .filter_map(|s| s.file_range())
        .collect();
    assert!(ranges.len() >= 6);
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..20 {
            let (start, length) = ranges[random.below(ranges.len())];
            let at = start as usize + random.below(length as usize);
            bytes[at] = random.below(256) as u8;
        }
        let damaged = lab.write("damaged", &bytes);
        assert_eq!(names(&damaged, &all, &[]).len(), all.len());
    }
}

#[test]
fn a_section_that_promises_gigabytes_is_not_unpacked() {
    use object::{Object, ObjectSection};
    let lab = Lab::new();
    let program = lab.compile("inlined.c", &["-g", "-gz=zlib", "-O2"]);
    let mut bytes = std::fs::read(&program).unwrap();
    let elf = object::File::parse(&*bytes).unwrap();
    let (start, _) = elf
        .section_by_name(".debug_info")
        .unwrap()
        .file_range()
        .unwrap();
    // The size follows the type and a reserved word.
    let size = start as usize + 8;
    bytes[size..size + 8].copy_from_slice(&(200u64 << 20).to_le_bytes());
    let bomb = lab.write("bomb", &bytes);
    let all = addresses(&program, ".text", 16);
    let mut symbolizer = dwell_symbols::Symbolizer::new(dwell_symbols::Options::default());
    let names = symbolizer.module(&support::module(&bomb), &all);
    assert!(
        names.iter().any(|chain| !chain.is_empty()),
        "the symbol table is still good"
    );
    assert!(
        symbolizer.notes()[0].contains("compressed section"),
        "{:?}",
        symbolizer.notes()
    );
}

#[test]
fn other_files_have_no_names() {
    let lab = Lab::new();
    for contents in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 4096]] {
        let file = lab.write("file", contents);
        assert_eq!(names(&file, &[0, 1, u64::MAX], &[]), vec![vec![]; 3]);
    }
    assert_eq!(names(&lab.path("missing"), &[1], &[]), vec![vec![]]);
    assert_eq!(names(&lab.path(""), &[1], &[]), vec![vec![]]);
}
