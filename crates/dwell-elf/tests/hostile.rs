//! Damaged files: whatever the bytes, an answer comes, soon, and without a panic.
mod common;

use dwell_elf::step::{Module, Registers, Stepper, UnwindInfo};
use dwell_elf::table_step::{self, CoreRegs, TableModule};
use dwell_elf::{ElfFile, unwind};
use std::time::{Duration, Instant};

/// No case may take longer (unoptimised, on a busy machine); the files used take some 10 ms.
const MAX_TIME: Duration = Duration::from_secs(60);

/// xorshift64*: small, seeded, good enough to choose bytes.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// Interesting values more often than others.
    fn byte(&mut self) -> u8 {
        const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, 0xfe, 8, 0x10];
        if self.below(2) == 0 {
            EDGES[self.below(8)]
        } else {
            self.next() as u8
        }
    }
}

/// Does everything the crate offers with `data`.
fn exercise(data: &[u8], random: &mut Random) {
    let Ok(file) = ElfFile::parse(data) else {
        return;
    };
    let _ = (
        file.build_id(),
        file.interp(),
        file.debug_link(),
        file.gnu_debugdata(),
        file.is_go(),
        file.kind(),
    );
    file.symbols().take(10_000).for_each(drop);
    for (_, section) in file.sections().take(100) {
        let _ = section.bytes();
    }
    let _ = (
        file.stated_address(random.next()),
        file.file_offset(random.next()),
        file.bytes_at(random.next(), 16),
    );
    let Ok(info) = UnwindInfo::new(&file) else {
        return;
    };
    let table = info.table();
    assert!(table.rows.len() <= unwind::MAX_ROWS);
    assert!(
        table.rows.windows(2).all(|pair| pair[0].pc < pair[1].pc),
        "rows are not sorted"
    );
    // An index over a hostile 4 GiB of text is 64 MiB, allowed but slow to fill again and again.
    if table.text_end - table.text_start < 1 << 24 {
        let _ = table.index(dwell_abi::unwind::INDEX_SHIFT);
    }
    walk(&info, random);
}

/// Walks stacks of noise through whatever was compiled.
fn walk(info: &UnwindInfo<'_>, random: &mut Random) {
    let table = info.table();
    let (start, end) = (table.text_start, table.text_end.max(table.text_start + 1));
    let mut stepper = Stepper::new(vec![Module {
        start,
        end,
        bias: 0,
        info: Some(info),
    }]);
    let modules = [TableModule {
        start,
        end,
        bias: 0,
        table: Some(table),
    }];
    for _ in 0..20 {
        let pc = start + random.next() % (end - start);
        let (sp, bp) = (random.next() & !7, random.next() & !7);
        let seed = random.next();
        let mut read = |address: u64| {
            let noise = Random(seed ^ address | 1).next();
            // Sometimes an address within the text, sometimes one of the stack, sometimes nothing.
            match noise % 4 {
                0 => None,
                1 => Some(sp.wrapping_add(noise >> 40)),
                _ => Some(start + noise % (end - start)),
            }
        };
        let mut frames = Vec::new();
        stepper.walk(&Registers::new(pc, sp, bp), &mut read, 64, &mut frames);
        assert!(frames.len() <= 64);
        frames.clear();
        let regs = CoreRegs {
            pc,
            sp,
            bp,
            leaf: Registers::from_dwarf_order([pc; Registers::COUNT]),
            is_return_address: false,
        };
        table_step::walk(&modules, regs, &mut read, 64, &mut frames);
        assert!(frames.len() <= 64);
    }
}

fn timed(what: &str, data: &[u8], random: &mut Random) {
    let start = Instant::now();
    exercise(data, random);
    assert!(
        start.elapsed() < MAX_TIME,
        "{what} took {:?}",
        start.elapsed()
    );
}

/// A range of the file, to damage it there.
fn range_of(file: &ElfFile<'_>, section: &str) -> Option<std::ops::Range<usize>> {
    let bytes = file.section(section)?.raw_bytes()?;
    let start = bytes.as_ptr() as usize - file.data().as_ptr() as usize;
    Some(start..start + bytes.len())
}

/// Damages `cases` copies of a file in places that matter.
fn damage(path: &str, original: &[u8], cases: usize) {
    let mut random = Random(0x5eed_0000 + original.len() as u64);
    let file = common::parse(path, original);
    let headers = 0..64 + 56 * 16;
    let table = original.len().saturating_sub(64 * 40)..original.len();
    let mut places = vec![headers, table, 0..original.len()];
    places.extend(
        [
            ".eh_frame",
            ".eh_frame_hdr",
            ".dynsym",
            ".note.gnu.build-id",
            ".dynamic",
        ]
        .iter()
        .filter_map(|s| range_of(&file, s)),
    );
    for case in 0..cases {
        let mut data = original.to_vec();
        let place = &places[random.below(places.len())];
        for _ in 0..1 + random.below(24) {
            let at = (place.start + random.below(place.len())).min(data.len() - 1);
            data[at] = random.byte();
        }
        if random.below(8) == 0 {
            data.truncate(random.below(original.len()));
        }
        timed(&format!("{path}, case {case}"), &data, &mut random);
    }
}

#[test]
fn the_vdso_damaged() {
    damage("[vdso]", &common::vdso(), 3000);
}

#[test]
fn a_small_library_damaged() {
    let data =
        common::bytes("/usr/lib/x86_64-linux-gnu/libgcc_s.so.1").unwrap_or_else(common::vdso);
    damage("libgcc_s", &data, 300);
}

#[test]
fn the_loader_damaged() {
    damage(
        "ld.so",
        &common::bytes("/lib64/ld-linux-x86-64.so.2").expect("ld.so"),
        200,
    );
}

/// Code without call frame information goes through the decoder.
#[test]
fn musl_damaged() {
    let Some(data) = common::bytes("/lib/ld-musl-x86_64.so.1") else {
        return;
    };
    damage("musl", &data, 100);
}

#[test]
fn every_length_of_a_truncated_file() {
    let data = common::vdso();
    let mut random = Random(7);
    for len in 0..data.len() {
        if len < 1024 || len % 7 == 0 {
            timed(&format!("{len} bytes"), &data[..len], &mut random);
        }
    }
}

/// A CIE of a megabyte that thousands of FDEs refer to must not be evaluated for each.
#[test]
fn one_large_cie_for_many_functions() {
    let data = synthetic(&large_cie(1 << 20, 20_000));
    timed("large CIE", &data, &mut Random(1));
}

/// Overlapping functions: each byte has one row, the count stays that of the entries.
#[test]
fn overlapping_functions() {
    let mut section = cie(&[]);
    for i in 0..20_000u32 {
        fde(
            &mut section,
            i % 4096,
            1 << 20,
            &[0x41, 0x0e, (i % 100) as u8],
        );
    }
    let data = synthetic(&section);
    timed("overlaps", &data, &mut Random(1));
    let file = ElfFile::parse(&data).expect("parse");
    let table = unwind::compile(&file).expect("compile");
    assert!(table.rows.len() < 20_000, "{}", table.rows.len());
}

/// Code that is nothing but indirect jumps, each of which might have a table.
#[test]
fn jumps_without_end() {
    let mut code = Vec::new();
    for _ in 0..40_000 {
        // lea 0x10(%rip), %rax; jmp *%rax; je .+2; call .+2
        code.extend([
            0x48, 0x8d, 0x05, 0x10, 0, 0, 0, 0xff, 0xe0, 0x74, 0x02, 0xe8, 2, 0, 0, 0,
        ]);
    }
    let data = elf(&code, &[]);
    timed("jumps", &data, &mut Random(1));
}

/// `.eh_frame` CIE with the given initial instructions.
fn cie(instructions: &[u8]) -> Vec<u8> {
    // version 1, augmentation "zR", code factor 1, data factor -8, column 16, absolute 4-byte addresses
    let mut body = vec![0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x03];
    body.extend([0x0c, 7, 8, 0x90, 1]); // def_cfa rsp+8; offset rip at cfa-8
    body.extend(instructions);
    let mut section = (body.len() as u32).to_le_bytes().to_vec();
    section.extend(body);
    section
}

fn fde(section: &mut Vec<u8>, start: u32, len: u32, instructions: &[u8]) {
    let mut body = (section.len() as u32 + 4).to_le_bytes().to_vec();
    body.extend((TEXT as u32 + start).to_le_bytes());
    body.extend(len.to_le_bytes());
    body.push(0);
    body.extend(instructions);
    section.extend((body.len() as u32).to_le_bytes());
    section.extend(body);
}

fn large_cie(bytes: usize, functions: u32) -> Vec<u8> {
    let mut section = cie(&vec![0; bytes]);
    for i in 0..functions {
        fde(&mut section, i * 16, 16, &[0x41, 0x0e, 16]);
    }
    section
}

/// Stated address of the code in made-up files.
const TEXT: u64 = 0x1_0000;

fn synthetic(eh_frame: &[u8]) -> Vec<u8> {
    elf(&vec![0x90; 1 << 20], eh_frame)
}

/// An ELF file with one executable segment for `code` and `.eh_frame` found through its header.
fn elf(code: &[u8], eh_frame: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 3 * 56;
    let frame_at = TEXT + 0x1000_0000;
    let mut header_section = vec![1, 0x03, 0xff, 0xff]; // version, absolute 4-byte pointer, no table
    header_section.extend((frame_at as u32 + 8).to_le_bytes());
    header_section.extend(eh_frame);
    let code_at = HEADERS;
    let frame_offset = code_at + code.len() as u64;
    let mut data = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    data.extend([3, 0, 62, 0, 1, 0, 0, 0]); // ET_DYN, x86-64, version 1
    for word in [TEXT, 64, 0] {
        data.extend(word.to_le_bytes());
    }
    data.extend([0, 0, 0, 0, 64, 0, 56, 0, 3, 0, 64, 0, 0, 0, 0, 0]);
    let mut segment = |kind: u32, flags: u32, offset: u64, address: u64, size: u64| {
        data.extend(kind.to_le_bytes());
        data.extend(flags.to_le_bytes());
        for word in [offset, address, address, size, size, 1] {
            data.extend(word.to_le_bytes());
        }
    };
    segment(1, 5, code_at, TEXT, code.len() as u64);
    segment(1, 4, frame_offset, frame_at, header_section.len() as u64);
    segment(
        0x6474_e550,
        4,
        frame_offset,
        frame_at,
        header_section.len() as u64,
    );
    data.extend(code);
    data.extend(header_section);
    data
}

/// The made-up file is one that is read: otherwise the tests above would prove nothing.
#[test]
fn the_made_up_file_is_right() {
    let mut section = cie(&[]);
    fde(&mut section, 16, 16, &[0x44, 0x0e, 16]); // after 4 bytes: CFA = rsp + 16
    let data = synthetic(&section);
    let table = unwind::compile(&ElfFile::parse(&data).expect("parse")).expect("compile");
    let offset = |pc: u64| table.lookup(TEXT + pc).expect("in the text").cfa_off8;
    assert_eq!((offset(16), offset(20)), (1, 2));
}
