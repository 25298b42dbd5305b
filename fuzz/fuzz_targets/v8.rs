//! An engine that states itself rightly, and whose objects are hostile.
#![no_main]
use dwell_maps::Memory;
use dwell_v8::V8;
use libfuzzer_sys::fuzz_target;
use stated::STATED;
use std::cell::Cell;

#[path = "../../crates/dwell-v8/tests/stated/mod.rs"]
mod stated;

const NUMBERS: u64 = 0x1000;
/// What describes objects: of which type, its place says.
const MAPS: u64 = 0x10_0000;
const SHARED: u64 = 0x100_0000;
const TYPES: [u16; 8] = [262, 167, 261, 0, 8, 1, 3, 5];

struct Hostile<'d> {
    data: &'d [u8],
    reads: Cell<u32>,
}

impl Hostile<'_> {
    /// Words that make objects of hostile bytes more often than chance does.
    fn word(&self, address: u64) -> u64 {
        let at = address as usize % self.data.len();
        let byte = u64::from(self.data[at]);
        match address {
            NUMBERS..0x2000 => {
                let index = (address - NUMBERS) as usize / 8;
                STATED.get(index).map_or(0, |(_, number)| *number as u32 as u64)
            }
            SHARED => MAPS + 1,
            MAPS..0x10_1000 => u64::from(TYPES[(address >> 8) as usize % TYPES.len()]) << 32,
            _ if address.is_multiple_of(0x40) => (MAPS + (byte << 8 & 0x700)) | 1,
            _ => match byte & 3 {
                0 => (byte >> 2) << 32,
                1 => (SHARED + 0x40 * (byte >> 2)) | 1,
                2 => u64::MAX << 33 | 1,
                _ => byte.wrapping_mul(0x0101_0101_0101_0101),
            },
        }
    }
}

impl Memory for Hostile<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        for (byte, at) in into.iter_mut().zip(0..) {
            let at = address.wrapping_add(at);
            *byte = self.word(at & !7).to_le_bytes()[(at & 7) as usize];
        }
        // Not for ever: loops end, but late.
        self.reads.set(self.reads.get() + 1);
        address >> 56 != 0xff && self.reads.get() < 20_000
    }
}

fuzz_target!(|data: &[u8]| {
    if data.is_empty() {
        return;
    }
    let memory = Hostile {
        data,
        reads: Cell::new(0),
    };
    let symbols = STATED.iter().zip((NUMBERS..).step_by(8));
    let symbols = symbols.map(|((name, _), at)| (*name, at));
    let Ok(v8) = V8::read(&memory, symbols) else {
        unreachable!("it states all");
    };
    v8.for_kernel();
    v8.executed(&memory, SHARED | 1, SHARED | 1);
    for object in 0..16 {
        let shared = SHARED + 0x40 * object;
        v8.identity(&memory, shared);
        if let Some(function) = v8.function(&memory, shared) {
            function.called();
        }
    }
});
