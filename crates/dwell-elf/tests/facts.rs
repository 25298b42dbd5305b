//! What ELF files say about themselves, against readelf and against what is known of Debian's files.
mod common;

use common::programs::{LEAN, c, compile, has};
use dwell_elf::unwind::CfiSections;
use dwell_elf::{ElfError, ElfFile, ElfKind};
use std::process::Command;

fn readelf(args: &[&str]) -> String {
    let output = Command::new("readelf")
        .arg("-W")
        .args(args)
        .output()
        .expect("readelf (package binutils)");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn build_ids_are_those_of_readelf() {
    for (path, data) in common::installed() {
        let text = readelf(&["-n", path]);
        let expected = text
            .lines()
            .find_map(|l| Some(l.split_once("Build ID: ")?.1.trim().to_owned()));
        assert_eq!(
            common::parse(path, &data).build_id().map(hex),
            expected,
            "{path}"
        );
    }
}

#[test]
fn the_build_id_needs_no_section_headers() {
    let mut data = common::bytes("/bin/bash").expect("bash");
    let expected = common::parse("/bin/bash", &data).build_id().map(hex);
    assert!(expected.is_some());
    data[40..48].fill(0); // e_shoff
    data[60..64].fill(0); // e_shnum, e_shstrndx
    assert_eq!(
        common::parse("/bin/bash", &data).build_id().map(hex),
        expected
    );
}

#[test]
fn segments_translate_offsets() {
    for (path, data) in common::installed() {
        let file = common::parse(path, &data);
        let mut executable = 0;
        for segment in file.segments().filter(|s| s.file_size > 0) {
            let last = segment.file_size - 1;
            for distance in [0, last / 2, last] {
                let stated = segment.stated_address + distance;
                let offset = file.file_offset(stated).expect("in the file");
                assert_eq!(offset, segment.file_offset + distance, "{path}");
                let byte = file.bytes_at(stated, 1).expect("in the file");
                assert_eq!(byte, &data[offset as usize..][..1], "{path}");
            }
            executable += usize::from(segment.executable);
        }
        assert!(executable >= 1, "{path}");
        let text = file.segments().find(|s| s.executable).expect("text");
        assert_eq!(
            file.stated_address(text.file_offset),
            Some(text.stated_address),
            "{path}"
        );
        assert_eq!(file.stated_address(u64::MAX), None, "{path}");
    }
}

/// A mapping begins at a page, which may hold the end of the segment before.
#[test]
fn the_bias_of_a_mapping_is_that_of_its_segment() {
    let program = compile(
        "rustc",
        "sleeper.rs",
        "sleeper-rs-bias",
        &["--edition=2021"],
    );
    let data = std::fs::read(&program).expect("read");
    for (path, data) in common::installed().chain([("a Rust program", data)]) {
        let file = common::parse(path, &data);
        let text = file.segments().find(|s| s.executable).expect("text");
        let into_page = text.file_offset % 4096;
        let actual = 0x7f00_0000_0000 + text.stated_address - into_page;
        assert_eq!(
            file.mapping_bias(actual, text.file_offset - into_page),
            Some(0x7f00_0000_0000),
            "{path}"
        );
        assert_eq!(file.mapping_bias(actual, u64::MAX), None, "{path}");
    }
}

#[test]
fn kinds() {
    let kind = |path: &str| common::bytes(path).map(|data| common::parse(path, &data).kind());
    assert_eq!(kind("/bin/bash"), Some(ElfKind::PieExecutable));
    assert_eq!(
        kind("/lib/x86_64-linux-gnu/libc.so.6"),
        Some(ElfKind::SharedLibrary)
    );
    assert_eq!(
        kind("/lib64/ld-linux-x86-64.so.2"),
        Some(ElfKind::SharedLibrary)
    );
    assert_eq!(
        common::parse("[vdso]", &common::vdso()).kind(),
        ElfKind::SharedLibrary
    );
    let kind_of = |name: &str, flags: &[&str]| {
        let program = c("stacks.c", name, &[LEAN, flags].concat());
        let data = std::fs::read(&program).expect("read");
        let file = common::parse(name, &data);
        (file.kind(), file.interp().is_some())
    };
    assert_eq!(
        kind_of("stacks-kind-static", &["-static"]),
        (ElfKind::FixedExecutable, false)
    );
    assert_eq!(
        kind_of("stacks-kind-static-pie", &["-static-pie"]),
        (ElfKind::PieExecutable, false)
    );
    assert_eq!(
        kind_of("stacks-kind-no-pie", &["-no-pie"]),
        (ElfKind::FixedExecutable, true)
    );
    assert_eq!(
        kind_of("stacks-kind-pie", &["-pie"]),
        (ElfKind::PieExecutable, true)
    );
}

#[test]
fn the_interpreter() {
    let data = common::bytes("/bin/bash").expect("bash");
    assert_eq!(
        common::parse("/bin/bash", &data).interp(),
        Some(&b"/lib64/ld-linux-x86-64.so.2"[..])
    );
}

#[test]
fn functions_are_those_of_readelf() {
    let path = "/lib/x86_64-linux-gnu/libc.so.6";
    let data = common::bytes(path).expect("libc");
    let file = common::parse(path, &data);
    let ours = file.symbols().count();
    let text = readelf(&["--dyn-syms", path]);
    let theirs = text
        .lines()
        .filter(|l| (l.contains(" FUNC ") || l.contains(" IFUNC ")) && !l.contains(" UND "))
        .count();
    assert_eq!(ours, theirs);
    let malloc = file
        .symbols()
        .find(|s| s.name == b"malloc")
        .expect("malloc");
    assert!(malloc.size > 0 && !malloc.indirect);
    assert!(
        file.symbols().any(|s| s.name == b"memcpy" && s.indirect),
        "memcpy is chosen at load time"
    );
}

#[test]
fn the_debug_link() {
    let data = common::bytes("/bin/bash").expect("bash");
    let file = common::parse("/bin/bash", &data);
    let link = file.debug_link().expect("Debian's files have one");
    assert_eq!(
        link.name,
        format!("{}.debug", &hex(file.build_id().expect("build id"))[2..]).as_bytes()
    );
    let raw = file
        .section(".gnu_debuglink")
        .expect("section")
        .raw_bytes()
        .expect("bytes");
    assert_eq!(link.crc.to_le_bytes(), raw[raw.len() - 4..]);
}

#[test]
fn compressed_sections_are_the_plain_ones() {
    let plain = c("stacks.c", "stacks-plain", &[LEAN, &["-g"]].concat());
    let plain = std::fs::read(plain).expect("read");
    let plain = common::parse("plain", &plain)
        .section(".debug_info")
        .expect("section")
        .bytes()
        .expect("bytes")
        .into_owned();
    let mut compressed = 0;
    for method in ["zlib", "zstd"] {
        let source = c(
            "stacks.c",
            &format!("stacks-{method}"),
            &[LEAN, &["-g"]].concat(),
        );
        let status = Command::new("objcopy")
            .arg(format!("--compress-debug-sections={method}"))
            .arg(&source)
            .status();
        if !status.expect("objcopy (package binutils)").success() {
            eprintln!("objcopy cannot write {method}, left out");
            continue;
        }
        let data = std::fs::read(&source).expect("read");
        let section = common::parse(method, &data)
            .section(".debug_info")
            .expect("section");
        assert!(
            section.size() < plain.len() as u64,
            "{method}: not compressed"
        );
        assert_eq!(section.bytes().expect("bytes"), plain, "{method}");
        compressed += 1;
    }
    assert!(compressed > 0, "neither method was tested");
}

#[test]
fn go_is_known() {
    let Some(data) = common::bytes("/usr/local/go/bin/gofmt") else {
        return;
    };
    assert!(common::parse("gofmt", &data).is_go());
    let data = common::bytes("/bin/bash").expect("bash");
    assert!(!common::parse("bash", &data).is_go());
}

#[test]
fn musl_is_read_too() {
    if !has("musl-gcc") {
        eprintln!("musl-gcc is not installed, left out");
        return;
    }
    let program = compile(
        "musl-gcc",
        "stacks.c",
        "stacks-musl-facts",
        &[LEAN, &["-static"]].concat(),
    );
    let data = std::fs::read(program).expect("read");
    let file = common::parse("stacks-musl", &data);
    assert!(file.is_executable() && file.symbols().any(|s| s.name == b"main"));
}

#[test]
fn what_is_refused_is_named() {
    let bash = common::bytes("/bin/bash").expect("bash");
    let refused = |at: usize, value: u8| {
        let mut data = bash.clone();
        data[at] = value;
        ElfFile::parse(&data).expect_err("must be refused")
    };
    assert_eq!(refused(4, 1), ElfError::UnsupportedArch("32-bit".into()));
    assert_eq!(
        refused(5, 2),
        ElfError::UnsupportedArch("big-endian".into())
    );
    assert_eq!(
        refused(18, 183),
        ElfError::UnsupportedArch("machine number 183".into())
    );
    assert_eq!(
        refused(16, 1),
        ElfError::UnsupportedType("relocatable object".into())
    );
    assert_eq!(
        refused(16, 4),
        ElfError::UnsupportedType("core file".into())
    );
    assert!(matches!(
        ElfFile::parse(b"#!/bin/sh\n echo this is text"),
        Err(ElfError::NotElf(_))
    ));
    assert!(matches!(ElfFile::parse(b""), Err(ElfError::NotElf(_))));
    assert!(matches!(
        ElfFile::parse(&bash[..100]),
        Err(ElfError::BadProgramHeaders(_))
    ));
}

#[test]
fn a_function_that_gcc_has_split_is_found_whole() {
    let file = c("split.c", "split", LEAN);
    let data = std::fs::read(&file).expect("just compiled");
    let elf = ElfFile::parse(&data).expect("an ELF file");
    let place = |name: &str| {
        let symbol = elf.symbols().find(|s| s.name == name.as_bytes());
        let symbol = symbol.unwrap_or_else(|| panic!("{name}: split.c is compiled by gcc"));
        (symbol.address, symbol.address + symbol.size)
    };
    let sections = CfiSections::find(&elf);
    let parts = |address| {
        let parts = sections.parts_of_function(&elf, address).into_iter();
        parts.map(|part| (part.start, part.end)).collect::<Vec<_>>()
    };
    let work = place("work");
    // Not `other`, to which it jumps, too.
    assert_eq!(parts(work.0 + 8), [work, place("work.cold")]);
    // Nothing leads into the middle of it but its own jumps.
    assert_eq!(parts(place("main").0), [place("main")]);
    assert_eq!(parts(1), []);
}
