//! Reads the records that programs handed over.
use super::memory::Memory;
use dwell_agent::script::layout::head_of;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A record that is not complete after so long will not be: whoever wrote it has gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// What has been read.
#[derive(Default)]
pub(super) struct Reader {
    /// Since when which record is awaited.
    awaited: Option<(u64, Instant)>,
    /// Nobody writes any more.
    is_abandoned: bool,
    lost: u64,
}

/// Waits for a word to become other than zero.
pub(super) fn sleep(word: &AtomicU32, longest: Duration) {
    let time = libc::timespec {
        tv_sec: longest.as_secs() as i64,
        tv_nsec: longest.subsec_nanos().into(),
    };
    // SAFETY: the word and the time are there until the call returns.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, 0, &time) };
}

impl Reader {
    /// Nobody writes any more: what is not complete never will be.
    pub(super) fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// Records that were begun and never completed.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    pub(super) fn drain(&mut self, memory: &Memory, take: &mut dyn FnMut(&[u8])) {
        let ring = &memory.state().ring;
        ring.urgent.store(0, Ordering::Release);
        let end = ring.reserved.load(Ordering::Acquire);
        let mut at = ring.read.load(Ordering::Relaxed);
        while at < end {
            let word = word_at(memory, at).load(Ordering::Acquire);
            let len = word as u32;
            if word != head_of(at, len) || word == 0 {
                let Some(next) = self.next(memory, at, end) else {
                    break;
                };
                clear(memory, at, next);
                at = next;
                ring.read.store(at, Ordering::Release);
                continue;
            }
            self.awaited = None;
            let next = at + 8 + u64::from(len).next_multiple_of(8);
            let words = (at + 8..next).step_by(8);
            let words = words.map(|n| word_at(memory, n).load(Ordering::Relaxed));
            let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
            bytes.truncate(len as usize);
            clear(memory, at, next);
            at = next;
            ring.read.store(at, Ordering::Release);
            take(&bytes);
        }
    }

    /// Where the record after one that is not complete begins; none while there is hope.
    fn next(&mut self, memory: &Memory, at: u64, end: u64) -> Option<u64> {
        let (_, since) = *self.awaited.get_or_insert_with(|| (at, Instant::now()));
        if !self.is_abandoned && since.elapsed() < PATIENCE {
            return None;
        }
        self.awaited = None;
        self.lost += 1;
        let is_head = |n: &u64| {
            let word = word_at(memory, *n).load(Ordering::Acquire);
            word != 0 && word == head_of(*n, word as u32) && u64::from(word as u32) <= end - n
        };
        let mut later = (at + 8..end).step_by(8);
        Some(later.find(is_head).unwrap_or(end))
    }
}

fn word_at(memory: &Memory, position: u64) -> &AtomicU64 {
    let ring = &memory.state().ring;
    let at = memory.at(ring.start + (position & (ring.size - 1)));
    // SAFETY: within the memory, aligned, and only ever used so by who writes records.
    unsafe { &*at.cast::<AtomicU64>() }
}

/// Writers expect zeros.
fn clear(memory: &Memory, from: u64, to: u64) {
    (from..to)
        .step_by(8)
        .for_each(|at| word_at(memory, at).store(0, Ordering::Relaxed));
}
