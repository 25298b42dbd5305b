//! Whether a process still has the code of its file where a kernel probe is wanted.
//!
//! The kernel takes the instruction it displaces from the file, and goes on behind it. Where somebody else has put a
//! jump (a script inside the process, counted locks), that is in the middle of the jump: the process would crash.
use super::{At, Probe};
use crate::error::TraceError;
use dwell_maps::Mapping;
use dwell_patch::process::entry_of;
use iced_x86::{Decoder, DecoderOptions};
use std::collections::BTreeMap;
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
struct Process {
    pid: u32,
    mappings: Vec<Mapping>,
    memory: File,
    /// The program's first instruction, if known.
    entry: Option<u64>,
}

/// A file of a process: what it says, and where its code is mapped.
struct Module<'p> {
    process: &'p Process,
    file: File,
    code: Vec<&'p Mapping>,
}

/// Refuses probes at code that is not the file's any more.
pub(crate) fn check<'p>(probes: impl Iterator<Item = &'p Probe>) -> Result<(), TraceError> {
    let mut places: BTreeMap<(u32, &str), Vec<(u64, &Probe)>> = BTreeMap::new();
    for probe in probes {
        if let At::Code {
            file, pid, offset, ..
        } = &probe.at
        {
            let of_file = places.entry((*pid, file)).or_default();
            of_file.push((*offset, probe));
        }
    }
    let mut process: Option<Process> = None;
    for ((pid, file), places) in places {
        if process.as_ref().is_none_or(|p| p.pid != pid) {
            process = Process::open(pid);
        }
        // What cannot be read has ended, or is refused by the kernel.
        let Some(module) = process.as_ref().and_then(|p| Module::open(p, file)) else {
            continue;
        };
        let patched = places.iter().find(|(offset, _)| module.is_patched(*offset));
        if let Some((_, probe)) = patched {
            return Err(TraceError::Patched {
                function: probe.name.function.clone(),
                pid,
            });
        }
    }
    Ok(())
}

impl Process {
    fn open(pid: u32) -> Option<Process> {
        Some(Process {
            pid,
            mappings: dwell_maps::read(pid).ok()?,
            memory: File::open(format!("{}/mem", dwell_maps::folder(pid))).ok()?,
            entry: entry_of(pid as i32),
        })
    }
}

impl<'p> Module<'p> {
    fn open(process: &'p Process, file: &str) -> Option<Module<'p>> {
        let mut code = dwell_maps::of_file(&process.mappings, process.pid, file);
        code.retain(|m| m.executable);
        Some(Module {
            process,
            file: File::open(file).ok()?,
            code,
        })
    }

    /// Whether the instruction at an offset of the file is another one in memory.
    fn is_patched(&self, offset: u64) -> bool {
        let mut original = [0; LONGEST];
        let Ok(read) = self.file.read_at(&mut original, offset) else {
            return false;
        };
        let mut decoder = Decoder::new(64, &original[..read], DecoderOptions::NONE);
        let original = &original[..decoder.decode().len()];
        let mut addresses = self.code.iter().filter_map(|m| m.address_of(offset));
        addresses.any(|at| {
            let mut there = [0; LONGEST];
            let there = &mut there[..original.len()];
            let entry = self.process.entry;
            let naps = entry.is_some_and(|entry| at.wrapping_sub(entry) < NAP);
            !naps
                && self.process.memory.read_exact_at(there, at).is_ok()
                && !is_left(original, there)
        })
    }
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
