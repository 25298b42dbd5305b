//! Where the functions of undescribed code begin.
use super::Code;
use crate::{ElfFile, ElfKind};
use iced_x86::{Code as Code64, Decoder, DecoderOptions, Instruction};
use std::ops::Range;

/// Most bytes of other code that are searched for calls; this costs about 4 ns per byte.
const MAX_SEARCHED: usize = 16 << 20;
/// Less undescribed code than this (`.init`, `.fini`, a few stubs) is not worth that search.
const MIN_WORTH_SEARCH: usize = 4096;

/// Sorted stated addresses where functions begin.
#[derive(Debug)]
pub(super) struct Entries {
    addresses: Vec<u64>,
    /// Sorted stated addresses of data that code takes; jump tables begin (and end) there.
    data: Vec<u64>,
    /// Where the program begins.
    pub program: Option<u64>,
}

impl Entries {
    pub fn contains(&self, address: u64) -> bool {
        self.addresses.binary_search(&address).is_ok()
    }

    /// Bytes from `table` to the next address that code takes.
    pub fn room_at(&self, table: u64) -> u64 {
        let next = self.data.partition_point(|&a| a <= table);
        self.data.get(next).map_or(u64::MAX, |&a| a - table)
    }

    /// Every entry, in order.
    pub fn all(&self) -> &[u64] {
        &self.addresses
    }

    /// From `address` to the next entry.
    pub fn function_at(&self, address: u64) -> Range<u64> {
        let next = self.addresses.partition_point(|&a| a <= address);
        address..self.addresses.get(next).copied().unwrap_or(u64::MAX)
    }
}

/// Finds the functions that begin in one of the (sorted) `unknown` pieces of code.
pub(super) fn find(file: &ElfFile<'_>, all: &[Code<'_>], unknown: &[Code<'_>]) -> Entries {
    if unknown.is_empty() {
        return Entries {
            addresses: Vec::new(),
            data: Vec::new(),
            program: file.entry(),
        };
    }
    let is_unknown = |address: u64| {
        let next = unknown.partition_point(|code| code.end() <= address);
        unknown.get(next).is_some_and(|code| code.contains(address))
    };
    let mut addresses: Vec<u64> = file
        .symbols()
        .filter(|s| !is_cold_part(s.name))
        .map(|s| s.address)
        .filter(|&a| is_unknown(a))
        .collect();
    addresses.extend(file.entry().filter(|&a| is_unknown(a)));
    addresses.sort_unstable();
    let named = addresses.clone();
    // Where functions have names, a number that looks like an address within one is a number.
    let is_named = |address: u64| {
        let before = named.partition_point(|&a| a <= address);
        let code = unknown.partition_point(|code| code.end() <= address);
        before > 0 && unknown[code].start <= named[before - 1]
    };
    let mut data = Vec::new();
    let is_fixed = file.kind() == ElfKind::FixedExecutable;
    let mut budget = MAX_SEARCHED;
    let is_worth_search =
        unknown.iter().map(|code| code.bytes.len()).sum::<usize>() >= MIN_WORTH_SEARCH;
    for code in if is_worth_search { all } else { unknown } {
        let searched = &code.bytes[..code.bytes.len().min(budget)];
        budget -= searched.len();
        references(
            &Code {
                bytes: searched,
                ..*code
            },
            is_fixed,
            &mut |target, is_number| {
                if is_unknown(target) {
                    if is_number && is_named(target) {
                        return;
                    }
                    &mut addresses
                } else {
                    &mut data
                }
                .push(target);
            },
        );
    }
    for list in [&mut addresses, &mut data] {
        list.sort_unstable();
        list.dedup();
    }
    Entries {
        addresses,
        data,
        program: file.entry(),
    }
}

/// `f.cold`, which gcc splits off `f`, begins in the middle of a frame: `f` jumps to it.
fn is_cold_part(name: &[u8]) -> bool {
    name.windows(5).any(|window| window == b".cold")
}

/// Reports the target of every direct call and of every address taken, by decoding one instruction
/// after the other, and whether it was a number. (Searching the bytes for the opcodes instead finds too many in immediates.)
fn references(code: &Code<'_>, is_fixed: bool, found: &mut impl FnMut(u64, bool)) {
    let mut decoder = Decoder::with_ip(64, code.bytes, code.start, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        match instruction.code() {
            Code64::Call_rel32_64 => found(instruction.near_branch_target(), false),
            // Without position independence, code takes addresses by immediates.
            Code64::Mov_r32_imm32 | Code64::Mov_rm64_imm32 if is_fixed => {
                found(instruction.immediate(1), true)
            }
            Code64::Lea_r64_m if instruction.is_ip_rel_memory_operand() => {
                let address = instruction.ip_rel_memory_address();
                // What asks where it is itself (V8, for its profiler) begins nothing.
                if address != instruction.next_ip() {
                    found(address, false);
                }
            }
            _ => {}
        }
    }
}
