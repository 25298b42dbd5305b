//! Whether a process still has the code of its file where a kernel probe is wanted.
//!
//! The kernel takes the instruction it displaces from the file, and goes on behind it. Where somebody else has put a
//! jump (a script inside the process, counted locks), that is in the middle of the jump: the process would crash.
use super::{At, Probe};
use crate::error::TraceError;
use dwell_maps::Mapping;
use iced_x86::{Decoder, DecoderOptions};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Longest instruction.
const LONGEST: usize = 15;
/// What a kernel probe puts in the place of a first byte.
const BREAKPOINT: u8 = 0xcc;
/// What some kernels replace by a call.
const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0, 0];

/// Bytes at a program's first instruction by which we have it wait for us. No thread comes there twice.
const NAP: u64 = 32;

/// A process whose memory is looked at.
struct Memory {
    pid: u32,
    mappings: Vec<Mapping>,
    memory: File,
    /// The program's first instruction, if known.
    entry: Option<u64>,
}

/// Refuses probes at code that is not the file's any more.
pub(crate) fn check<'p>(probes: impl Iterator<Item = &'p Probe>) -> Result<(), TraceError> {
    let mut process: Option<Memory> = None;
    for probe in probes {
        let At::Code {
            file, pid, offset, ..
        } = &probe.at
        else {
            continue;
        };
        if process.as_ref().is_none_or(|p| p.pid != *pid) {
            process = Memory::open(*pid);
        }
        // What cannot be read has ended, or is refused by the kernel.
        let Some(process) = &process else { continue };
        if process.is_patched(file, *offset) {
            return Err(TraceError::Patched {
                function: probe.name.function.clone(),
                pid: *pid,
            });
        }
    }
    Ok(())
}

impl Memory {
    fn open(pid: u32) -> Option<Memory> {
        Some(Memory {
            pid,
            mappings: dwell_maps::read(pid).ok()?,
            memory: File::open(format!("/proc/{pid}/mem")).ok()?,
            entry: entry(pid),
        })
    }

    /// Whether an instruction of a file, reached by the path of its first mapping, is another one in memory.
    fn is_patched(&self, file: &str, offset: u64) -> bool {
        let named = self.mappings.iter().find(|m| m.link(self.pid) == file);
        let Some(named) = named else {
            return false;
        };
        let is_same = |m: &&Mapping| {
            let end = m.file_offset + (m.end - m.start);
            let has_it = (m.file_offset..end).contains(&offset);
            m.executable && has_it && (m.device, m.inode) == (named.device, named.inode)
        };
        let mut original = [0; LONGEST];
        let read = File::open(file).and_then(|f| f.read_at(&mut original, offset));
        let Ok(read) = read else {
            return false;
        };
        let mut decoder = Decoder::new(64, &original[..read], DecoderOptions::NONE);
        let len = decoder.decode().len();
        let original = &original[..len];
        let mut mappings = self.mappings.iter().filter(is_same);
        mappings.any(|m| {
            let mut there = [0; LONGEST];
            let there = &mut there[..len];
            let at = m.start + (offset - m.file_offset);
            let naps = self.entry.is_some_and(|entry| at.wrapping_sub(entry) < NAP);
            !naps && self.memory.read_exact_at(there, at).is_ok() && !is_left(original, there)
        })
    }
}

/// What the kernel told a program of where it begins.
fn entry(pid: u32) -> Option<u64> {
    const AT_ENTRY: u64 = 9;
    let told = std::fs::read(format!("/proc/{pid}/auxv")).ok()?;
    let words: Vec<u64> = told
        .as_chunks::<8>()
        .0
        .iter()
        .map(|w| u64::from_ne_bytes(*w))
        .collect();
    let pairs = words.as_chunks::<2>().0.iter();
    pairs.into_iter().find(|p| p[0] == AT_ENTRY).map(|p| p[1])
}

/// Whether nobody but the kernel has changed an instruction.
fn is_left(original: &[u8], there: &[u8]) -> bool {
    there == original
        || original == NOP5
        || there.first() == Some(&BREAKPOINT) && there[1..] == original[1..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_changes_are_none() {
        let push: &[u8] = &[0x41, 0x54];
        assert!(is_left(push, push) && is_left(push, &[BREAKPOINT, 0x54]));
        assert!(!is_left(push, &[0xe9, 0x10]) && !is_left(push, &[BREAKPOINT, 0x10]));
        assert!(is_left(&NOP5, &[0xe8, 1, 2, 3, 4]));
    }
}
