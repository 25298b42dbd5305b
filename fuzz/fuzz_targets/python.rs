//! A Python whose runtime leads to a thread, and whose everything else is hostile.
#![no_main]
use dwell_maps::Memory;
use dwell_python::{Python, SYMBOLS};
use libfuzzer_sys::fuzz_target;
use std::cell::Cell;

const RUNTIME: u64 = 0x10_0000;
const INTERPRETER: u64 = 0x20_0000;
const STATE: u64 = 0x30_0000;
const THREAD: u64 = 0x40_0000;
const VERSION: u64 = 0x50_0000;
const CODE_TYPE: u64 = 0x60_0000;
const CODE: u64 = 0x70_0000;

struct Hostile<'d> {
    version: u8,
    data: &'d [u8],
    reads: Cell<u32>,
}

impl Hostile<'_> {
    /// What is right, by where it is: as 3.10 to 3.12 have it.
    fn right(&self, address: u64) -> Option<u64> {
        let (interpreters, threads, thread_id) = match self.version {
            10 => (32, 8, 176),
            11 => (40, 16, 152),
            _ => (40, 72, 136),
        };
        Some(match address {
            VERSION => 0x0300_0000 | u64::from(self.version) << 16,
            _ if address == RUNTIME + interpreters => INTERPRETER,
            _ if address == INTERPRETER + threads => STATE,
            _ if address == STATE + thread_id => THREAD,
            THREAD => THREAD,
            _ if address == THREAD + 0x310 => STATE,
            _ if address == CODE + 8 => CODE_TYPE,
            RUNTIME => u64::from_le_bytes(*b"xdebugpy"),
            _ => return None,
        })
    }
}

impl Memory for Hostile<'_> {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        // Whatever an address is, something is there, but for some.
        let from = address as usize % self.data.len();
        let hostile = self.data.iter().cycle().skip(from);
        into.iter_mut()
            .zip(hostile)
            .for_each(|(to, from)| *to = *from);
        if let (Some(right), Ok(place)) = (self.right(address), into.try_into()) {
            let place: &mut [u8; 8] = place;
            *place = right.to_le_bytes();
        }
        // Not for ever: loops end, but late.
        self.reads.set(self.reads.get() + 1);
        address >> 56 != 0xff && self.reads.get() < 20_000
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((version, data)) = data.split_first() else {
        return;
    };
    if data.is_empty() {
        return;
    }
    let memory = Hostile {
        version: 10 + version % 6,
        data,
        reads: Cell::new(0),
    };
    let addresses = [RUNTIME, VERSION, CODE_TYPE];
    let symbol = |name: &str| {
        let at = SYMBOLS.iter().position(|symbol| *symbol == name)?;
        addresses.get(at).copied()
    };
    let Ok(python) = Python::read(&memory, symbol) else {
        return;
    };
    python.for_kernel();
    python.executed_by(&memory, u32::from(*version));
    let executed = python.executed(&memory).into_iter().take(4);
    for code in executed.chain([CODE]) {
        if let Some(source) = python.source(&memory, code) {
            source.at(None);
            source.at(Some(u32::from(*version)));
        }
    }
});
