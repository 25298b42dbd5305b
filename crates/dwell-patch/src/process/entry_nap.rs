//! A nap before a program's first instruction: a jump there leads to code of ours in bytes that nothing uses,
//! which sleeps a while, does what the jump has displaced, and goes on. Should nobody come, the program begins
//! a little later, and is none the worse for it.
use super::entry::entry_of;
use super::slack::Slack;
use super::space::{Space, mapping_at};
use super::threads::Sleep;
use super::{PatchError, jump};
use dwell_agent::layout::JUMP_LEN;
use iced_x86::{
    BlockEncoder, BlockEncoderOptions, Code, Decoder, DecoderOptions, FlowControl, Instruction,
    InstructionBlock, Mnemonic,
};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// How long it takes when nobody comes, s.
const SECONDS: u64 = 3;
/// Bytes of the longest code: the nap, what is displaced and made to fit, and the way back.
const ROOM: usize = 128;
const PAGE: u64 = 4096;
const BITS: u32 = 64;
/// Bytes of `endbr64`.
const LANDING_PAD_LEN: u64 = 4;

/// A nap that is planned or put before an entry.
pub(super) struct EntryNap {
    entry: u64,
    /// Where the jump is: at the entry, or behind its landing pad.
    at: u64,
    original: [u8; JUMP_LEN],
    jump: [u8; JUMP_LEN],
    slack: Slack,
    code: Vec<u8>,
    /// Behind the system call.
    behind: u64,
}

impl EntryNap {
    /// A nap before this entry; none where there is no room for it.
    pub fn plan(space: &Space, entry: u64) -> Result<Option<EntryNap>, PatchError> {
        let mappings = space.mappings()?;
        let program = mapping_at(&mappings, entry).filter(|m| m.executable && !m.writable);
        let slack = program.and_then(|m| Slack::behind(space, m));
        let Some(slack) = slack.filter(|s| s.len() >= ROOM) else {
            return Ok(None);
        };
        let mut bytes = [0; 32];
        let got = space.read_some(entry, &mut bytes);
        Ok(EntryNap::of(entry, &bytes[..got], slack))
    }

    fn of(entry: u64, bytes: &[u8], slack: Slack) -> Option<EntryNap> {
        let displaced = displaced(entry, bytes)?;
        let (first, last) = (displaced.first()?, displaced.last()?);
        let at = first.ip();
        if at / PAGE != (at + JUMP_LEN as u64 - 1) / PAGE {
            return None;
        }
        let from = (at - entry) as usize;
        let original = bytes.get(from..from + JUMP_LEN)?.try_into().ok()?;
        let mut code = nap();
        let behind = slack.start + code.len() as u64;
        let begin = slack.start + size_of::<[u64; 2]>() as u64;
        let back = Instruction::with_branch(Code::Jmp_rel32_64, last.next_ip()).ok()?;
        let rest: Vec<Instruction> = displaced.iter().copied().chain([back]).collect();
        let block = InstructionBlock::new(&rest, behind);
        code.extend(
            BlockEncoder::encode(BITS, block, BlockEncoderOptions::NONE)
                .ok()?
                .code_buffer,
        );
        let jump = jump(at, begin)?;
        (code.len() <= slack.len()).then_some(EntryNap {
            entry,
            at,
            original,
            jump,
            slack,
            code,
            behind,
        })
    }

    /// The program's first instruction.
    pub fn entry(&self) -> u64 {
        self.entry
    }

    /// Puts it before the entry of a stopped process.
    pub fn put(&self, space: &Space) -> Result<(), PatchError> {
        space.write(self.slack.start, &self.code)?;
        space.write(self.at, &self.jump)
    }

    /// Gives a stopped process, of which no thread is there, its own bytes back.
    pub fn take_back(&self, space: &Space) -> Result<(), PatchError> {
        space.write(self.at, &self.original)?;
        self.slack.restore(space)
    }

    /// Whether the first thread of the process naps.
    pub fn is_taken(&self, pid: i32) -> bool {
        Sleep::of(pid).is_some_and(|s| s.at.pc == self.behind)
    }

    /// Whether a thread that stands at this address is about to nap, naps, or has not yet done what was
    /// displaced.
    pub fn is_at(&self, pc: u64) -> bool {
        (self.slack.start..=self.behind).contains(&pc)
    }
}

/// Gives a stopped process the begin of its program back, where a dwell that was killed has left a nap in these bytes,
/// which are going to be others: the program may not have come to its entry yet.
pub(super) fn forget_left_behind(space: &Space, slack: &Range<u64>) -> Result<(), PatchError> {
    let mappings = space.mappings()?;
    let entry = entry_of(space.pid);
    let program = entry.and_then(|entry| Some((entry, mapping_at(&mappings, entry)?)));
    let Some((entry, program)) = program else {
        return Ok(());
    };
    for at in [entry, entry + LANDING_PAD_LEN] {
        let mut now = [0; JUMP_LEN];
        let is_read = space.read_some(at, &mut now) == JUMP_LEN;
        let leads_there = slack.clone().any(|to| jump(at, to) == Some(now));
        if is_read && leads_there {
            let offset = program.file_offset + (at - program.start);
            let file = space.open_mapped(program);
            let mut original = [0; JUMP_LEN];
            file.and_then(|file| file.read_exact_at(&mut original, offset))
                .map_err(PatchError::io("reading the program"))?;
            return space.write(at, &original);
        }
    }
    Ok(())
}

/// The whole instructions that a jump at an entry displaces, behind a landing pad; none where one of them cannot
/// be moved.
fn displaced(entry: u64, bytes: &[u8]) -> Option<Vec<Instruction>> {
    let mut found: Vec<Instruction> = Vec::new();
    for instruction in Decoder::with_ip(BITS, bytes, entry, DecoderOptions::NONE) {
        if found.is_empty() && instruction.mnemonic() == Mnemonic::Endbr64 {
            continue;
        }
        let goes_on = matches!(
            instruction.flow_control(),
            FlowControl::Next | FlowControl::UnconditionalBranch
        );
        if instruction.is_invalid() || !goes_on {
            return None;
        }
        found.push(instruction);
        if instruction.next_ip() - found[0].ip() >= JUMP_LEN as u64 {
            return Some(found);
        }
        if instruction.flow_control() != FlowControl::Next {
            return None; // what follows is not of the same way
        }
    }
    None
}

/// A timespec and the call that sleeps as long. A program begins with its stack pointer and rdx, which stay.
fn nap() -> Vec<u8> {
    let mut code = Vec::new();
    for word in [SECONDS, 0] {
        code.extend(word.to_le_bytes());
    }
    let back = -(code.len() as i32 + 7);
    code.extend([0x48, 0x8d, 0x3d]); // lea back(%rip),%rdi
    code.extend(back.to_le_bytes());
    code.extend([0x31, 0xf6]); // xor %esi,%esi
    code.push(0xb8); // mov $number,%eax
    code.extend((libc::SYS_nanosleep as u32).to_le_bytes());
    code.extend([0x0f, 0x05]); // syscall
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_instructions_are_displaced_behind_a_landing_pad() {
        let lengths = |bytes: &[u8]| {
            let found = displaced(0x1000, bytes)?;
            Some((found[0].ip(), found.len()))
        };
        // glibc: endbr64; xor %ebp,%ebp; mov %rdx,%r9; pop %rsi
        let glibc = [0xf3, 0x0f, 0x1e, 0xfa, 0x31, 0xed, 0x49, 0x89, 0xd1, 0x5e];
        assert_eq!(lengths(&glibc), Some((0x1004, 2)));
        // musl: xor %rbp,%rbp; mov %rsp,%rdi
        let musl = [0x48, 0x31, 0xed, 0x48, 0x89, 0xe7];
        assert_eq!(lengths(&musl), Some((0x1000, 2)));
        // Go: jmp, 5 bytes, and one of 2
        assert_eq!(lengths(&[0xe9, 0, 1, 0, 0]), Some((0x1000, 1)));
        assert_eq!(lengths(&[0xeb, 0x10, 0x90, 0x90, 0x90]), None);
    }

    #[test]
    fn the_nap_reads_its_own_length() {
        let code = nap();
        let mut decoder = Decoder::with_ip(BITS, &code[16..], 16, DecoderOptions::NONE);
        assert_eq!(decoder.decode().ip_rel_memory_address(), 0);
        let calls = decoder.iter().filter(|i| i.mnemonic() == Mnemonic::Syscall);
        assert_eq!(calls.count(), 1);
    }
}
