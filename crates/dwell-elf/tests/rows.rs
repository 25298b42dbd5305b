//! The compiled rows against gimli's own evaluation, and the cases that a row was made for.
mod common;

use common::process::Image;
use dwell_abi::unwind::*;
use dwell_elf::unwind::{self, UnwindTable};
use dwell_elf::{ElfFile, unwind::CfiSections};
use gimli::{
    BaseAddresses, CfaRule, CieOrFde, EhFrame, EndianSlice, LittleEndian, Register, RegisterRule,
    UnwindContext, UnwindSection, UnwindTableRow, X86_64,
};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// A row or its rule, spelled out.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    End,
    /// CFA = register + offset (dereferenced?); rbp as told.
    Cfa {
        register: Register,
        offset: i64,
        bp: Bp,
    },
    /// Anything that rows say by a kind of its own or not at all.
    Special,
}

#[derive(Debug, PartialEq, Eq)]
enum Bp {
    Same,
    AtCfa(i64),
}

fn of_row(table: &UnwindTable, row: &Row) -> Meaning {
    let register = |is_bp| if is_bp { X86_64::RBP } else { X86_64::RSP };
    match row.kind {
        KIND_END => Meaning::End,
        KIND_SP | KIND_BP => Meaning::Cfa {
            register: register(row.kind == KIND_BP),
            offset: i64::from(row.cfa_off8) * 8,
            bp: if row.bp_off8 == 0 {
                Bp::Same
            } else {
                Bp::AtCfa(i64::from(row.bp_off8) * 8)
            },
        },
        KIND_RULE => {
            let rule = table.rules[usize::from(row.cfa_off8 as u16)];
            let bp = match rule.bp_kind {
                BP_SAME => Bp::Same,
                BP_AT_CFA => Bp::AtCfa(rule.bp_off.into()),
                _ => return Meaning::Special,
            };
            if rule.cfa_deref == 1 {
                return Meaning::Special;
            }
            Meaning::Cfa {
                register: match rule.cfa_reg.checked_sub(REG_LEAF) {
                    Some(number) => gimli::Register(number.into()),
                    None => register(rule.cfa_reg == REG_BP),
                },
                offset: rule.cfa_off.into(),
                bp,
            }
        }
        _ => Meaning::Special,
    }
}

fn of_gimli(row: &UnwindTableRow<usize>) -> Meaning {
    match row.register(X86_64::RA) {
        Some(RegisterRule::Undefined) | None => return Meaning::End,
        Some(RegisterRule::Offset(-8)) => {}
        _ => return Meaning::Special,
    }
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else {
        return Meaning::Special;
    };
    let bp = match row.register(X86_64::RBP) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Bp::Same,
        Some(RegisterRule::Offset(at)) => Bp::AtCfa(at),
        _ => return Meaning::Special,
    };
    if register.0 >= 16 {
        return Meaning::Special;
    }
    Meaning::Cfa {
        register,
        offset,
        bp,
    }
}

/// Checks every row boundary of every function that `.eh_frame` describes; the number of rows checked.
fn agree_with_gimli(path: &str, file: &ElfFile<'_>, table: &UnwindTable) -> usize {
    let section = file.section(".eh_frame").expect(".eh_frame");
    let bytes = section.raw_bytes().expect("bytes");
    let bases = BaseAddresses::default().set_eh_frame(section.stated_address());
    let eh_frame = EhFrame::new(bytes, LittleEndian);
    let mut entries = eh_frame.entries(&bases);
    let mut context = UnwindContext::new();
    let mut checked = 0;
    while let Some(entry) = entries.next().expect("entry") {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let fde = partial
            .parse(EhFrame::<Slice<'_>>::cie_from_offset)
            .expect("FDE");
        if fde.is_signal_trampoline() {
            continue;
        }
        let mut rows = fde.rows(&eh_frame, &bases, &mut context).expect("rows");
        while let Some(row) = rows.next_row().expect("row") {
            let (start, end) = (row.start_address(), row.end_address());
            if start == end {
                continue;
            }
            for pc in [start, end - 1] {
                let ours = table
                    .lookup(pc)
                    .unwrap_or_else(|| panic!("{path}: no row at {pc:#x}"));
                assert_eq!(
                    of_row(table, &ours),
                    of_gimli(row),
                    "{path} at {pc:#x}: ours (left), gimli (right)"
                );
            }
            checked += 1;
        }
    }
    checked
}

fn check_shape(path: &str, table: &UnwindTable) {
    assert_eq!(table.rows[0].pc, 0, "{path}: the first row");
    for pair in table.rows.windows(2) {
        assert!(pair[0].pc < pair[1].pc, "{path}: not increasing: {pair:?}");
        let what = |r: &Row| (r.cfa_off8, r.kind, r.bp_off8);
        assert_ne!(what(&pair[0]), what(&pair[1]), "{path}: not joined");
    }
    let last = table.rows.last().expect("rows");
    assert!(
        u64::from(last.pc) < table.text_end - table.text_start,
        "{path}: beyond the text"
    );
    for row in table.rows.iter().filter(|r| r.kind == KIND_RULE) {
        assert!(
            usize::from(row.cfa_off8 as u16) < table.rules.len(),
            "{path}: a rule that is not there"
        );
    }
}

#[test]
fn every_file_agrees_with_gimli() {
    for (path, data) in common::installed() {
        let file = common::parse(path, &data);
        let table = unwind::compile(&file).unwrap_or_else(|e| panic!("{path}: {e}"));
        check_shape(path, &table);
        let checked = agree_with_gimli(path, &file, &table);
        println!(
            "{path}: {checked} rows of gimli, {} of ours",
            table.rows.len()
        );
        assert!(checked > 0, "{path}: nothing was checked");
    }
}

#[test]
fn the_vdso_from_memory() {
    let data = common::vdso();
    let file = common::parse("[vdso]", &data);
    let table = unwind::compile(&file).expect("compile");
    check_shape("[vdso]", &table);
    assert!(agree_with_gimli("[vdso]", &file, &table) > 0);
}

/// Without section headers, everything is found through program headers.
#[test]
fn without_section_headers() {
    for path in common::ALWAYS {
        let mut data = common::bytes(path).expect("always there");
        let whole = unwind::compile(&common::parse(path, &data)).expect("compile");
        data[40..48].fill(0); // e_shoff
        data[60..64].fill(0); // e_shnum, e_shstrndx
        let file = common::parse(path, &data);
        assert!(file.section(".eh_frame").is_none());
        let bare = unwind::compile(&file).expect("compile");
        // Undescribed code and .debug_frame may be told apart differently, described code may not.
        let differing = whole.rows.iter().filter(|row| {
            let pc = whole.text_start + u64::from(row.pc);
            matches!(row.kind, KIND_SP | KIND_BP)
                && bare
                    .lookup(pc)
                    .is_none_or(|r| (r.kind, r.cfa_off8) != (row.kind, row.cfa_off8))
        });
        assert!(differing.count() * 200 < whole.rows.len(), "{path}");
    }
}

fn row_of(path: &str, symbol: &str, skip: u64) -> Row {
    let image = Image::of(path);
    let found = image.file.symbols().find(|s| s.name == symbol.as_bytes());
    let address = found
        .unwrap_or_else(|| panic!("{path} has no {symbol}"))
        .address;
    image
        .info
        .table()
        .lookup(address + skip)
        .expect("in the text")
}

const LIBC: &str = "/lib/x86_64-linux-gnu/libc.so.6";

#[test]
fn vfork_has_its_return_address_in_rdi() {
    let table = common::process::table(LIBC);
    assert!(table.rows.iter().any(|row| row.kind == KIND_RA_RDI));
    // endbr64 (4 bytes), pop %rdi (1 byte).
    assert_eq!(row_of(LIBC, "vfork", 5).kind, KIND_RA_RDI);
}

#[test]
fn threads_begin_at_clone() {
    let table = common::process::table(LIBC);
    assert!(
        table.rows.iter().any(|row| row.kind == KIND_END),
        "clone3 has no end"
    );
}

/// Behind the system call both the caller and the new thread go on.
#[test]
fn clone_is_told_from_the_new_thread() {
    let image = Image::of(LIBC);
    let clone = image.file.symbols().find(|s| s.name == b"clone");
    let clone = clone.expect("exported").address;
    let code = image.file.bytes_from(clone).expect("its code");
    let syscall = code.windows(2).position(|b| b == [0x0f, 0x05]);
    let syscall = syscall.expect("a system call") as u64;
    let before = row_of(LIBC, "clone", syscall);
    assert_eq!((before.kind, before.cfa_off8), (KIND_SP, 1));
    let behind = row_of(LIBC, "clone", syscall + 2);
    assert_eq!((behind.kind, behind.cfa_off8), (KIND_CLONE, 1));
}

#[test]
fn one_signal_trampoline_in_libc() {
    let table = common::process::table(LIBC);
    assert_eq!(
        table
            .rows
            .iter()
            .filter(|row| row.kind == KIND_SIGNAL)
            .count(),
        1
    );
}

#[test]
fn plt_stubs() {
    let image = Image::of("/bin/bash");
    let plt = image.file.section(".plt").expect(".plt").stated_address();
    let row = image.info.table().lookup(plt + 16).expect("in the text");
    assert_eq!(row.kind, KIND_PLT);
    // `push n` ends after 11 bytes of 16 (without IBT: jmp 6, push 5) or 9 (endbr64, push).
    assert!([9, 10, 11].contains(&row.cfa_off8), "{row:?}");
}

#[test]
fn programs_begin_at_start() {
    for path in ["/bin/bash", "/usr/bin/perl"] {
        let image = Image::of(path);
        let entry = image.file.entry().expect("an entry");
        assert_eq!(
            image.info.table().lookup(entry).expect("in the text").kind,
            KIND_END,
            "{path}"
        );
    }
}

#[test]
fn the_loader_begins_at_start() {
    let image = Image::of("/lib64/ld-linux-x86-64.so.2");
    let entry = image.file.entry().expect("an entry");
    assert_eq!(
        image
            .info
            .table()
            .lookup(entry + 8)
            .expect("in the text")
            .kind,
        KIND_END
    );
}

#[test]
fn the_index_finds_what_the_search_finds() {
    for path in ["/bin/bash", LIBC] {
        let table = common::process::table(path);
        let index = table.index(INDEX_SHIFT);
        let len = table.text_end - table.text_start;
        assert_eq!(
            index.len() as u64,
            len.div_ceil(1 << INDEX_SHIFT) + 1,
            "{path}"
        );
        assert_eq!(
            *index.last().expect("not empty") as usize,
            table.rows.len(),
            "{path}"
        );
        for pc in (0..len).step_by(7) {
            let slot = (pc >> INDEX_SHIFT) as usize;
            let candidates = index[slot].saturating_sub(1) as usize..index[slot + 1] as usize;
            let by_index = table.rows[candidates]
                .iter()
                .rev()
                .find(|row| u64::from(row.pc) <= pc);
            assert_eq!(
                by_index.copied(),
                table.lookup(table.text_start + pc),
                "{path} at {pc:#x}"
            );
        }
    }
}

#[test]
fn outside_of_the_text_there_is_no_row() {
    let table = common::process::table(LIBC);
    for pc in [0, table.text_start - 1, table.text_end, u64::MAX] {
        assert_eq!(table.lookup(pc), None, "{pc:#x}");
    }
    assert_eq!(UnwindTable::default().lookup(0), None);
    assert_eq!(UnwindTable::default().index(INDEX_SHIFT), [0]);
}

#[test]
fn sections_may_outlive_the_file() {
    let owned = {
        let data = common::bytes("/bin/bash").expect("bash");
        CfiSections::find(&common::parse("/bin/bash", &data)).into_owned()
    };
    let data = common::bytes("/bin/bash").expect("bash");
    let file = common::parse("/bin/bash", &data);
    assert_eq!(unwind::compile_with(&file, &owned), unwind::compile(&file));
}
