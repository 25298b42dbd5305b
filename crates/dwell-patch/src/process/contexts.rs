//! Positions that the kernel has saved on stacks: where threads go on after their signal handlers.
use super::space::{Mapping, Space, mapping_at};
use super::threads::Position;
use std::ops::Range;

/// Bytes of one stack that are looked through. Handlers that run deeper than this below the frame of
/// their signal are not known.
const MAX_STACK: u64 = 1 << 20;
/// Signal handlers interrupted by one another, each on another stack.
const MAX_STACKS: usize = 16;
const CHUNK: usize = 64 << 10;

/// The words of a signal frame around the segment registers, which tell it apart: cs 0x33, gs and fs
/// 0, ss 0x2b (`struct sigcontext`).
const SEGMENTS: u64 = 0x002b_0000_0000_0033;
const FLAGS: usize = 8;
const PC: usize = 16;
const SP: usize = 24;

/// A position saved by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    /// Address of the saved program counter.
    pub slot: u64,
    /// Its value.
    pub pc: u64,
}

/// Every saved position on the stacks of a thread that stands at `from`.
pub(super) fn saved(space: &Space, mappings: &[Mapping], from: Position) -> Vec<Saved> {
    let mut found = Vec::new();
    let mut seen: Vec<Range<u64>> = Vec::new();
    let mut stacks = vec![from.sp];
    while let Some(sp) = stacks.pop() {
        if seen.iter().any(|s| s.contains(&sp)) || seen.len() == MAX_STACKS {
            continue;
        }
        let Some(mapping) = mapping_at(mappings, sp) else {
            continue;
        };
        let range = sp & !7..mapping.end.min(sp.saturating_add(MAX_STACK));
        seen.push(range.clone());
        each_frame(space, range, |slot, pc, sp| {
            found.push(Saved { slot, pc });
            stacks.push(sp);
        });
    }
    found
}

fn each_frame(space: &Space, range: Range<u64>, mut found: impl FnMut(u64, u64, u64)) {
    let mut bytes = vec![0; CHUNK];
    let mut at = range.start;
    while at + (SP as u64) < range.end {
        let want = CHUNK.min((range.end - at) as usize);
        let got = space.read_some(at, &mut bytes[..want]) & !7;
        if got <= SP {
            return;
        }
        let word = |offset: usize| {
            bytes[offset..offset + 8]
                .iter()
                .rev()
                .fold(0, |v, &b| v << 8 | u64::from(b))
        };
        for offset in (SP..got).step_by(8) {
            // Bit 1 of the flags is always set, and none above bit 21 is.
            let is_frame = word(offset) == SEGMENTS
                && word(offset - FLAGS) & 2 != 0
                && word(offset - FLAGS) >> 22 == 0;
            if is_frame {
                found(
                    at + (offset - PC) as u64,
                    word(offset - PC),
                    word(offset - SP),
                );
            }
        }
        at += (got - SP) as u64;
    }
}
