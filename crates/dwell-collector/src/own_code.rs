//! Code that dwell has put into a process, which its stacks may pass through. It has no unwind information
//! and needs none: it calls nothing of the process, so it is the innermost part of a stack, and the first
//! return address beyond it is that of whoever called the hooked function.
use crate::address_space::AddressSpace;
use dwell_elf::step::Registers;
use hashbrown::HashMap;
use std::ops::Range;

/// Words of a stack that our code uses at most: what a stub saves, and the frames of a handler.
const MOST_WORDS: u64 = 128;

/// Where our code is, by process.
#[derive(Default)]
pub struct OwnCode {
    ranges: HashMap<u32, Vec<Range<u64>>>,
}

impl OwnCode {
    /// Our code in a process from now on.
    pub fn set(&mut self, process: u32, ranges: Vec<Range<u64>>) {
        self.ranges.insert(process, ranges);
    }

    /// Whether an address of a process is in it.
    pub fn contains(&self, process: u32, address: u64) -> bool {
        let ranges = self.ranges.get(&process);
        ranges.is_some_and(|ranges| ranges.iter().any(|r| r.contains(&address)))
    }

    /// Registers in our code, as they are when it has returned to its caller's call; none when they are not
    /// in it, or nothing like that is on the stack. `word` reads memory.
    pub fn left(
        &self,
        process: u32,
        space: &AddressSpace,
        registers: &[u64; 17],
        word: impl Fn(u64) -> Option<u64>,
    ) -> Option<[u64; 17]> {
        let pc = registers[usize::from(Registers::RIP)];
        if !self.contains(process, pc) {
            return None;
        }
        let is_code = |address| {
            let mapped = space.find(address);
            mapped.is_some_and(|(_, mapped)| mapped.module.is_some())
        };
        let (at, address) = first_return(registers[usize::from(Registers::RSP)], is_code, word)?;
        let mut left = *registers;
        left[usize::from(Registers::RSP)] = at + 8;
        // Within the call, as everywhere in stacks.
        left[usize::from(Registers::RIP)] = address - 1;
        Some(left)
    }
}

/// The first word from `sp` on that is an address behind a call, and where it is.
fn first_return(
    sp: u64,
    is_code: impl Fn(u64) -> bool,
    word: impl Fn(u64) -> Option<u64>,
) -> Option<(u64, u64)> {
    let places = (0..MOST_WORDS).map(|n| (sp & !7) + 8 * n);
    let mut words = places.map_while(|at| Some((at, word(at)?)));
    words.find(|(_, address)| {
        let before = || word(address.wrapping_sub(8));
        is_code(*address) && before().is_some_and(|code| ends_with_call(code.to_le_bytes()))
    })
}

/// Whether code ends with a call: `call rel32`, or `call` by a register or memory.
fn ends_with_call(code: [u8; 8]) -> bool {
    const CALL_BY: u8 = 2; // the middle field of its ModRM byte
    let by = |len: usize| code[8 - len] == 0xff && code[9 - len] >> 3 & 7 == CALL_BY;
    code[3] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_bytes() {
        for code in [
            [0, 0, 0, 0xe8, 1, 2, 3, 4],       // call rel32
            [0, 0, 0, 0, 0, 0, 0xff, 0xd0],    // call *%rax
            [0, 0, 0, 0, 0, 0x41, 0xff, 0xd4], // call *%r12
            [0, 0, 0, 0, 0, 0xff, 0x50, 0x18], // call *0x18(%rax)
            [0, 0, 0xff, 0x15, 1, 2, 3, 4],    // call *x(%rip)
        ] {
            assert!(ends_with_call(code), "{code:x?}");
        }
        assert!(!ends_with_call([0x90; 8]));
        assert!(!ends_with_call([0, 0, 0, 0, 0, 0, 0xff, 0xe0]), "a jump");
    }

    /// A handler's frames: a word of ours, data, an address in code but behind no call, then the caller.
    #[test]
    fn the_caller_is_the_first_behind_a_call() {
        const SP: u64 = 0x7ffc_0000_1000;
        let stack = [0x7000, 42, 0x1100, 0x1200, 0x1300];
        let word = |address: u64| match address {
            SP.. => stack.get(((address - SP) / 8) as usize).copied(),
            0x11f8 | 0x12f8 => Some(u64::from_le_bytes([0, 0, 0, 0xe8, 0, 0, 0, 0])),
            _ => Some(0),
        };
        let is_code = |address: u64| (0x1000..0x2000).contains(&address);
        assert_eq!(first_return(SP, is_code, word), Some((SP + 24, 0x1200)));
        assert_eq!(first_return(SP + 40, is_code, word), None);
    }
}
