//! Any bytes as `.eh_frame` (and the last quarter as code): they are compiled
//! and stacks are walked with them; as a table that was stored, too.
#![no_main]

use dwell_abi::unwind::KIND_RULE;
use dwell_elf::ElfFile;
use dwell_elf::step::{Module, Registers, Stepper, UnwindInfo};
use dwell_elf::table_step::{self, CoreRegs, TableModule};
use dwell_elf::unwind::UnwindTable;
use libfuzzer_sys::fuzz_target;

/// Stated address of the code.
const TEXT: u64 = 0x1_0000;
/// Stated address of `.eh_frame_hdr`, which `.eh_frame` follows.
const FRAMES: u64 = 0x1000_0000;

/// An ELF file without sections, whose `.eh_frame` is found through its header.
fn elf(code: &[u8], eh_frame: &[u8]) -> Vec<u8> {
    let headers = 64 + 3 * 56;
    let frames_offset = headers + code.len() as u64;
    let mut frames = vec![1, 0x03, 0xff, 0xff]; // version, absolute 4-byte pointer, no table
    frames.extend((FRAMES as u32 + 8).to_le_bytes());
    frames.extend(eh_frame);
    let mut data = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    data.extend([3, 0, 62, 0, 1, 0, 0, 0]); // ET_DYN, x86-64, version 1
    [TEXT, 64, 0]
        .iter()
        .for_each(|word| data.extend(word.to_le_bytes()));
    data.extend([0, 0, 0, 0, 64, 0, 56, 0, 3, 0, 64, 0, 0, 0, 0, 0]);
    let segments: [(u32, u32, u64, u64, usize); 3] = [
        (1, 5, headers, TEXT, code.len()),
        (1, 4, frames_offset, FRAMES, frames.len()),
        (0x6474_e550, 4, frames_offset, FRAMES, frames.len()),
    ];
    for (kind, flags, offset, address, size) in segments {
        data.extend(kind.to_le_bytes());
        data.extend(flags.to_le_bytes());
        let size = size as u64;
        [offset, address, address, size, size, 1]
            .iter()
            .for_each(|word| data.extend(word.to_le_bytes()));
    }
    data.extend(code);
    data.extend(frames);
    data
}

fuzz_target!(|data: &[u8]| {
    let _ = UnwindTable::from_bytes(data);
    let (eh_frame, code) = data.split_at(data.len() - data.len() / 4);
    if code.is_empty() {
        return;
    }
    let bytes = elf(code, eh_frame);
    let file = ElfFile::parse(&bytes).expect("the made-up file is right");
    let info = UnwindInfo::new(&file).expect("so few bytes make no table too large");
    let table = info.table();
    assert!(table.rows.windows(2).all(|pair| pair[0].pc < pair[1].pc));
    for row in table.rows.iter().filter(|row| row.kind == KIND_RULE) {
        assert!(usize::from(row.cfa_off8 as u16) < table.rules.len());
    }
    let stored = UnwindTable::from_bytes(&table.to_bytes());
    assert_eq!(stored.as_ref(), Some(table));
    let (start, end) = (table.text_start, table.text_end);
    let mut stepper = Stepper::new(vec![Module {
        start,
        end,
        bias: 0,
        info: Some(&info),
    }]);
    let modules = [TableModule {
        start,
        end,
        bias: 0,
        table: Some(table),
    }];
    let length = end - start;
    // The stack holds addresses of the code.
    let mut read =
        |address: u64| (address % 3 != 0).then_some(start + address.wrapping_mul(31) % length);
    for step in 0..16 {
        let pc = start + length * step / 16;
        let mut frames = Vec::new();
        stepper.walk(
            &Registers::new(pc, 0x7000_0000, 0x7000_0010),
            &mut read,
            32,
            &mut frames,
        );
        frames.clear();
        let regs = CoreRegs {
            pc,
            sp: 0x7000_0000,
            bp: 0x7000_0010,
            leaf: Registers::from_dwarf_order([pc; Registers::COUNT]),
            is_return_address: false,
        };
        table_step::walk(&modules, regs, &mut read, 32, &mut frames);
        assert!(frames.len() <= 32);
    }
});
