//! The oracle for derived rows: call frame information that is there, but was not looked at.
use super::super::{CfiSections, TextRange, UnwindTable, compile};
use super::{Code, rows};
use crate::ElfFile;
use dwell_abi::unwind::{KIND_BP, KIND_NONE, KIND_SP, Row};

/// Bytes of text by how the derived row compares with the compiled one, where the latter counts from sp.
#[derive(Debug, Default)]
struct Tally {
    same: u64,
    silent: u64,
    other: u64,
}

fn compare(path: &str) -> Option<Tally> {
    let data = std::fs::read(path).ok()?;
    let file = ElfFile::parse(&data).expect("parse");
    let compiled = compile(&file).expect("compile");
    let text = TextRange::of(&file).expect("text");
    let section = file.section(".text").expect(".text");
    let code = Code {
        start: section.stated_address(),
        bytes: section.raw_bytes().expect("bytes"),
    };
    let (_, derived) = rows(&file, &[code], &[code], text)
        .pop()
        .expect("one piece");
    let derived = UnwindTable {
        rows: derived,
        ..compiled.clone()
    };
    let mut tally = Tally::default();
    for (i, row) in compiled
        .rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.kind == KIND_SP)
    {
        let end = compiled
            .rows
            .get(i + 1)
            .map_or(text.end, |next| text.start + u64::from(next.pc));
        let start = (text.start + u64::from(row.pc)).max(code.start);
        for pc in start..end.min(code.end()) {
            count(&mut tally, row, derived.lookup(pc));
        }
    }
    Some(tally)
}

fn count(tally: &mut Tally, compiled: &Row, derived: Option<Row>) {
    match derived {
        Some(row) if row.kind == KIND_SP && row.cfa_off8 == compiled.cfa_off8 => tally.same += 1,
        Some(row) if row.kind != KIND_NONE => tally.other += 1,
        _ => tally.silent += 1,
    }
}

/// What is not the same lies behind calls that do not return (`croak`, `abort` in another file): they
/// seem to continue in whatever follows, which is code that only jumps lead to.
fn check(path: &str, same_percent: u64) {
    let Some(tally) = compare(path) else {
        eprintln!("{path} is not installed, left out");
        return;
    };
    let all = tally.same + tally.silent + tally.other;
    println!(
        "{path}: {tally:?}, {:.3} % the same",
        100.0 * tally.same as f64 / all as f64
    );
    assert!(tally.same * 100 >= all * same_percent, "{path}: {tally:?}");
}

/// Stripped, large, with cold parts split off their functions.
#[test]
fn bash() {
    check("/bin/bash", 98);
}

/// Hand-written assembly, jump tables, exported symbols.
#[test]
fn libc() {
    check("/lib/x86_64-linux-gnu/libc.so.6", 93);
}

#[test]
fn perl() {
    check("/usr/bin/perl", 93);
}

/// Rows of code that no file describes: place, distance of the CFA, kind, place of the saved rbp.
fn derived(bytes: &[u8]) -> Vec<(u32, i16, u8, i8)> {
    let data = std::fs::read("/bin/bash").expect("bash");
    let file = ElfFile::parse(&data).expect("parse");
    let code = Code {
        start: 0x1000,
        bytes,
    };
    let text = TextRange {
        start: code.start,
        end: code.end(),
    };
    let pieces = rows(&file, &[code], &[code], text);
    let (_, derived) = pieces.into_iter().next_back().expect("one piece");
    let derived = derived.into_iter();
    derived
        .map(|row| (row.pc, row.cfa_off8, row.kind, row.bp_off8))
        .collect()
}

/// How much a loop pushes is not known; a frame pointer tells the frame all the same (V8 calls its functions like this).
#[test]
fn pushes_in_a_loop() {
    let derived = derived(&[
        0x55, // push %rbp
        0x48, 0x89, 0xe5, // mov %rsp,%rbp
        0x50, // 4: push %rax
        0xff, 0xc9, // dec %ecx
        0x75, 0xfb, // jne 4
        0x4c, 0x8d, 0x15, 0, 0, 0, 0, // lea 0(%rip),%r10: where it is itself
        0xff, 0xd2, // call *%rdx
        0x48, 0x89, 0xec, // mov %rbp,%rsp
        0x5d, // pop %rbp
        0xc3, // ret
    ]);
    let expected = [
        (0, 1, KIND_SP, 0),
        (1, 2, KIND_SP, -2),
        (4, 2, KIND_BP, -2),
        (22, 1, KIND_SP, 0),
    ];
    assert_eq!(derived, expected);
}

/// A return address may be taken away and put back above what was pushed meanwhile (V8 calls functions of its embedder so).
#[test]
fn a_return_address_that_moves() {
    let derived = derived(&[
        0x58, // pop %rax
        0x41, 0x52, // push %r10
        0x41, 0x52, // push %r10
        0x50, // push %rax
        0x55, // 6: push %rbp
        0x48, 0x89, 0xe5, // mov %rsp,%rbp
        0xff, 0xd2, // call *%rdx
        0xc9, // leave
        0x59, // 13: pop %rcx
        0x4c, 0x01, 0xfc, // add %r15,%rsp
        0x51, // push %rcx
        0xc3, // ret
    ]);
    let expected = [
        (0, 1, KIND_SP, 0),
        (1, 0, KIND_NONE, 0),
        (7, 2, KIND_SP, -2),
        (10, 2, KIND_BP, -2),
        (13, 1, KIND_SP, 0),
        (14, 0, KIND_NONE, 0),
    ];
    assert_eq!(derived, expected);
}

/// Or it is pushed again, and its place gets something else.
#[test]
fn a_return_address_that_is_copied() {
    let derived = derived(&[
        0x51, // push %rcx
        0x57, // push %rdi
        0xff, 0x74, 0x24, 0x10, // push 0x10(%rsp)
        0x4c, 0x89, 0x54, 0x24, 0x18, // mov %r10,0x18(%rsp)
        0x55, // 11: push %rbp
        0x48, 0x89, 0xe5, // mov %rsp,%rbp
        0xff, 0xd2, // call *%rdx
    ]);
    let expected = [
        (0, 1, KIND_SP, 0),
        (1, 2, KIND_SP, 0),
        (2, 3, KIND_SP, 0),
        (6, 1, KIND_SP, 0),
        (12, 2, KIND_SP, -2),
        (15, 2, KIND_BP, -2),
    ];
    assert_eq!(derived, expected);
}

#[test]
fn nothing_to_derive() {
    let data = std::fs::read("/bin/bash").expect("bash");
    let file = ElfFile::parse(&data).expect("parse");
    assert!(!CfiSections::find(&file).is_empty());
    assert!(rows(&file, &[], &[], TextRange { start: 0, end: 0 }).is_empty());
}
