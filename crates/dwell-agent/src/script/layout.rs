//! The state of a script: what dwell and the operations agree on.
//!
//! It is one piece of memory that both have mapped, at addresses of their own: what is in it is told by its
//! distance from the start, bytes.
use crate::layout::STRIPE_HASH;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicU64, fence};

/// The head of a state.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct State {
    /// Bytes of the whole.
    pub len: u64,
    /// The target, as it knows itself.
    pub pid: u64,
    /// Records.
    pub ring: Ring,
    /// Threads.
    pub threads: Threads,
    /// Memory for the values of all tables.
    pub pool: Pool,
    /// Time.
    pub time: Time,
    /// What the target's threads read without asking the kernel.
    pub pages: Pages,
    /// Not 0 once the target was about to forbid itself system calls: programs rest since.
    pub rests: AtomicU32,
}

/// Bytes in front of the state that are the target's own, and zero in its children. Programs run while the first is not 0.
pub const OWN_LEN: u64 = 4096;

/// Records one behind the other, as often around as need be. A record is a head of 8 bytes, see [`head_of`], and
/// its data, rounded up to 8 bytes. What has no record yet is zero.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Ring {
    /// Where it is.
    pub start: u64,
    /// Bytes, a power of two.
    pub size: u64,
    /// Bytes that were ever reserved by writers.
    pub reserved: AtomicU64,
    /// Bytes that were ever read.
    pub read: AtomicU64,
    /// Not 0 while a record is to be read at once: a futex.
    pub urgent: AtomicU32,
}

/// The head of a record that begins after so many bytes: its length in the low half, and what tells it from data.
pub fn head_of(position: u64, len: u32) -> u64 {
    let mark = (position >> 3) as u32 ^ 0x5ea1_ed01;
    u64::from(mark) << 32 | u64::from(len)
}

/// Places for threads: a power of two.
pub const THREADS: u64 = 1 << THREAD_BITS;
/// Logarithm of [`THREADS`].
pub const THREAD_BITS: u32 = 12;
/// Logarithm of the most bytes of each part of the pool.
pub const MOST_POOL_BITS: u32 = 25;

/// Places for threads.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Threads {
    /// Where they are: [`Thread`]s.
    pub start: u64,
    /// Where each has its own memory, in the same order.
    pub memory: u64,
    /// Bytes of it.
    pub memory_size: u64,
    /// 1 once a thread of the target had a control block: all that come later have one, and it is quicker to ask
    /// than the processor.
    pub have_control_blocks: AtomicU32,
}

/// A thread that has been seen. Its place stays its own until another one has the same address.
#[repr(C, align(32))]
#[derive(Debug, Default)]
pub struct Thread {
    /// The fs base, by which a thread is known; 0 for nobody.
    pub address: AtomicU64,
    /// Its number.
    pub tid: AtomicU32,
    /// The process' number.
    pub pid: AtomicU32,
    /// 1 if libc keeps the thread's number at [`TID_IN_CONTROL_BLOCK`].
    pub is_in_control_block: AtomicU32,
}

/// Where glibc has a thread's number, from its fs base. Taken only where it was seen to be right.
pub const TID_IN_CONTROL_BLOCK: u64 = 0x2d0;

/// Threads that have a part of the pool to themselves.
pub const OWNERS: usize = 16;

/// Which of `2^bits` places is a thread's, by its fs base: the upper bits of a product of 32 bits.
pub const fn place_of(address: u64, bits: u32) -> u64 {
    let product = ((address >> PLACE_SHIFT) as u32).wrapping_mul(STRIPE_HASH);
    (product >> (32 - bits)) as u64
}

/// Low bits of fs bases that tell nothing.
pub const PLACE_SHIFT: u32 = 6;

/// Memory that is handed out once, never taken back. It has several parts, all alike, that are added up: the first
/// is for whoever changes it by locked instructions, the others for a thread each, which needs no locked ones. A
/// part is its thread's for good, so that no interruption sends a sum astray.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Pool {
    /// Where it is.
    pub start: u64,
    /// Bytes of each part: a power of two.
    pub part: u64,
    /// Bytes of each part that are handed out, or were asked for in vain. The first eight are nobody's.
    pub used: AtomicU64,
    /// The fs base of the thread that has the part after this one's number; 0 for nobody yet.
    pub owners: [AtomicU64; OWNERS],
}

/// Values by key.
#[repr(C)]
#[derive(Debug, Default, Clone, Copy)]
pub struct Table {
    /// Where its [`Slot`]s are, each with the key behind it.
    pub start: u64,
    /// How many, a power of two.
    pub slots: u64,
    /// Bytes of a slot and its key.
    pub slot_size: u64,
    /// Bytes of a key, a multiple of 8.
    pub key: u64,
    /// Bytes of a value, a multiple of 8.
    pub value: u64,
    /// 1 if each part has a value of its own, and their sum is what counts.
    pub is_sums: u64,
    /// Of sums whose key is a number: where the values of the first [`DIRECT`] are noted, each 4 bytes as in
    /// [`Slot::value`]; else 0. Aggregations without keys are found there.
    pub direct: u64,
    /// Where a byte for each [`BLOCK`] slots is not 0 once one of them was used: who reads the table looks only there.
    pub marks: u64,
}

/// Slots that share a mark.
pub const BLOCK: u64 = 64;

/// Keys that are noted.
pub const DIRECT: u64 = 64;

/// A slot of a table.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Slot {
    /// Of [`slot`], the rest is a part of the key's hash.
    pub word: AtomicU32,
    /// Where its value is in each part of the pool, bytes / 8; 0 for nowhere yet.
    pub value: AtomicU32,
}

/// What becomes of slots.
pub mod slot {
    /// Never used.
    pub const EMPTY: u32 = 0;
    /// Somebody is writing the key.
    pub const BUSY: u32 = 1;
    /// It has a key and a value.
    pub const LIVE: u32 = 2;
    /// It has a key that was deleted.
    pub const DEAD: u32 = 3;
    /// Of sums: the value is zero again, and nobody adds to it.
    pub const REUSABLE: u32 = 4;
    /// The bits that tell which.
    pub const KIND: u32 = 7;
}

/// Slots that are looked at for a key.
pub const WINDOW: u64 = 128;

/// The hash of a key's words.
pub fn hash(words: impl Iterator<Item = u64>) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = words.fold(0, |hash: u64, word| {
        let mixed = (hash ^ word).wrapping_mul(MULTIPLIER);
        mixed ^ mixed >> 29
    });
    mixed.wrapping_mul(MULTIPLIER) ^ mixed >> 32
}

/// The clock: dwell keeps it right by filling in the clock that is not in use, and then counting on. Who finds that
/// it was counted on meanwhile reads the time again: a thread may be stopped in the middle for any time.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Time {
    /// How often it was set; the lowest bit is the number of the one in use.
    pub settings: AtomicU64,
    /// Both.
    pub clocks: [Clock; 2],
}

impl Time {
    /// The clock of a setting.
    pub fn clock(&self, setting: u64) -> &Clock {
        let [first, second] = &self.clocks;
        if setting & 1 == 0 { first } else { second }
    }

    /// CLOCK_MONOTONIC, ns, and what CLOCK_TAI is ahead.
    pub fn now(&self) -> (u64, u64) {
        loop {
            let setting = self.settings.load(Acquire);
            let clock = self.clock(setting);
            let now = (clock.at(counter()), clock.tai.load(Relaxed));
            fence(Acquire);
            if self.settings.load(Relaxed) == setting {
                return now;
            }
        }
    }
}

/// The processor's counter, read when all that comes before in the program has been done. Else the processor reads it
/// well ahead, and two readings with a hundred instructions between them may show the same.
pub fn counter() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a register that every processor of ours has.
    unsafe {
        core::arch::asm!("lfence", "rdtsc", out("eax") low, out("edx") high, options(nostack, preserves_flags));
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Ranges of pages.
pub const PAGE_RANGES: usize = 16;

/// Pages of the target that can be read, and stay so as long as nobody asks the kernel to take them away, which we see.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Pages {
    /// Of [`pages`].
    pub state: AtomicU32,
    /// First addresses and ends; zeros behind the last.
    pub ranges: [[AtomicU64; 2]; PAGE_RANGES],
}

/// What is known of [`Pages`].
pub mod pages {
    /// Nothing yet.
    pub const UNKNOWN: u32 = 0;
    /// They are there.
    pub const THERE: u32 = 1;
    /// One of them may be gone, for good.
    pub const GONE: u32 = 2;
}

/// How the time is computed from the processor's counter.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Clock {
    /// The counter at an instant.
    pub counter: AtomicU64,
    /// CLOCK_MONOTONIC then, ns.
    pub ns: AtomicU64,
    /// ns of a step of the counter, times 2³².
    pub ns_per_step: AtomicU64,
    /// What CLOCK_TAI is ahead, ns.
    pub tai: AtomicU64,
}

impl Clock {
    /// CLOCK_MONOTONIC when the counter is this, ns.
    pub fn at(&self, counter: u64) -> u64 {
        // Another processor's counter may be behind.
        let steps = counter.wrapping_sub(self.counter.load(Relaxed)) as i64;
        let ns = (i128::from(steps) * i128::from(self.ns_per_step.load(Relaxed))) >> 32;
        self.ns.load(Relaxed).wrapping_add(ns as u64)
    }
}
