//! The state of the lock hooks: what dwell and the agent agree on. It lies in the memory that an arena's
//! hooks share, zero but for [`Settings`] at its head.
//!
//! A lock is counted under its *key*: its address and, in the top byte, its *kind*. Counts are in three
//! places. Every thread has a block of slots of its own, which it alone writes, by single unlocked
//! instructions: exact whatever signal handlers interrupt it. A slot that has a key keeps it, so that
//! no instant exists at which a count could go to a wrong one. What finds no slot is counted in the
//! shared table by locked instructions, and what finds no place there in `others`, by kind.
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Logarithm of the number of threads that have a block at a time.
pub const BLOCK_BITS: u32 = 9;
/// Threads that have a block at a time.
pub const BLOCKS: usize = 1 << BLOCK_BITS;
/// Logarithm of the number of slots of a block.
pub const SLOT_BITS: u32 = 10;
/// Slots of a block.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// Further blocks for a thread whose own has no room for a lock; bits of its address tell in which it has its slot.
pub const FURTHER: usize = 8;
/// How many blocks of all may be further ones: the others are for threads that have none yet.
pub const MOST_FURTHER: u64 = BLOCKS as u64 / 4;
/// Logarithm of the number of entries of the shared table.
pub const SHARED_BITS: u32 = 16;
/// Entries of the shared table.
pub const SHARED: usize = 1 << SHARED_BITS;
/// Entries of a 64th of the shared table.
pub const SHARED_PART: usize = SHARED / 64;
/// Places for a thread's block, and for a key in it: of a block, what lies beyond the first two is found by a longer way.
pub const WAYS: usize = 4;
/// Entries of the shared table that are looked at for a key.
pub const PROBES: usize = 16;
/// Logarithm of the number of buckets of calls under way.
pub const CALL_BITS: u32 = 10;
/// Buckets of calls under way.
pub const CALL_BUCKETS: usize = 1 << CALL_BITS;
/// Calls in a bucket.
pub const CALL_WAYS: usize = 4;
/// Logarithm of the number of entries that tell of threads waiting.
pub const WAITING_BITS: u32 = 12;
/// Entries that tell of threads waiting.
pub const WAITING: usize = 1 << WAITING_BITS;
/// Logarithm of the number of buckets of locks that were made.
pub const MADE_BITS: u32 = 12;
/// Buckets of locks that were made.
pub const MADE_BUCKETS: usize = 1 << MADE_BITS;
/// Locks that were made, of a bucket that are kept: later ones replace others.
pub const MADE_WAYS: usize = 4;
/// Locks that a thread holds after a wait, and whose release is owed an event.
pub const HELD: usize = 8;
/// Logarithm of the number of events that are kept.
pub const EVENT_BITS: u32 = 17;
/// Events that are kept: later ones replace the oldest.
pub const EVENTS: usize = 1 << EVENT_BITS;
/// Multiplier of all hashes (2³² / golden ratio).
pub const HASH: u32 = 0x9e37_79b1;
/// Bits of a thread's address that are the same for most threads.
pub const THREAD_SHIFT: u32 = 12;
/// Where a key's kind begins; addresses of programs have fewer bits.
pub const KIND_SHIFT: u32 = 56;

/// Kinds of locks, the top byte of a key. A mutex has a sum of the first five; a kind of 0 is a normal
/// mutex.
pub mod kind {
    /// The bits that hold a mutex' type: 0 normal, 1 recursive, 2 error-checking, 3 adaptive.
    pub const TYPE: u64 = 3;
    /// The type of a recursive mutex.
    pub const RECURSIVE: u64 = 1;
    /// A robust mutex.
    pub const ROBUST: u64 = 4;
    /// A mutex with priority inheritance.
    pub const INHERIT: u64 = 8;
    /// A mutex with a priority ceiling.
    pub const PROTECT: u64 = 16;
    /// A mutex of a libc whose layout is not known.
    pub const MUTEX: u64 = 32;
    /// A read-write lock, taken for reading.
    pub const READ: u64 = 33;
    /// A read-write lock, taken for writing.
    pub const WRITE: u64 = 34;
    /// A spin lock.
    pub const SPIN: u64 = 35;
    /// A condition variable: its waits.
    pub const CONDITION: u64 = 36;
    /// A barrier: its passages.
    pub const BARRIER: u64 = 37;
    /// A semaphore: its downs.
    pub const SEMAPHORE: u64 = 38;
    /// Added to the kind of a recursive mutex: its acquisitions by the thread that holds it already.
    pub const NESTED: u64 = 64;
    /// Past all kinds.
    pub const END: usize = (NESTED + MUTEX) as usize;
}

/// Functions of libc that wait by trying again and again.
pub const INSIDE: usize = 6;

/// Whose locks they are: the values of [`Settings::libc`].
pub mod libc {
    /// Nothing is known of their layout.
    pub const UNKNOWN: u64 = 0;
    /// glibc.
    pub const GLIBC: u64 = 1;
    /// musl.
    pub const MUSL: u64 = 2;
}

/// What dwell tells the agent before the first hook runs.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// One of [`libc`].
    pub libc: u64,
    /// Distance of a thread's number from its fs base, glibc; 0 when it is not known.
    pub tid_offset: u64,
    /// The process: not that of its children. 0 where nothing is counted.
    pub pid: u64,
    /// Actual addresses, each with a length in bytes: tries from there are libc's own, while it waits,
    /// and no operation of the program.
    pub inside: [[u64; 2]; INSIDE],
    /// Whether contended operations write events: 1, or 0.
    pub events: u64,
    /// Whether what takes a mutex again after a wait for a condition is hooked: 1, or 0.
    pub retakes: u64,
    /// Distance of the word from a thread's fs base that tells whether it is to be cancelled, glibc.
    pub cancel_offset: u64,
    /// Its bits that tell.
    pub cancel_mask: u64,
    /// What they are when it is.
    pub cancelled: u64,
    /// Whether the process had forbidden itself system calls (seccomp) before: 1, or 0.
    pub was_confined: u64,
    /// Distance of the head of a thread's list of robust mutexes (set_robust_list(2)) from its fs base, glibc; 0 when it is
    /// not known.
    pub robust_offset: u64,
}

/// A lock in a thread's block.
#[repr(C)]
#[derive(Debug)]
pub struct Slot {
    /// 0 in a free slot.
    pub key: AtomicU64,
    /// How often it was acquired.
    pub acquired: AtomicU64,
    /// Of these, how often it was not free.
    pub contended: AtomicU64,
    /// Tries that found it taken.
    pub failed: AtomicU64,
}

/// A lock in the shared table.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Shared {
    /// As in [`Slot`].
    pub key: AtomicU64,
    /// As in [`Slot`].
    pub acquired: AtomicU64,
    /// As in [`Slot`].
    pub contended: AtomicU64,
    /// As in [`Slot`].
    pub failed: AtomicU64,
    /// Waits that ended because their time was over.
    pub timeouts: AtomicU64,
}

/// A call under way that is counted when it returns.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// The address of its return address, which tells it from all others; 0 when free.
    pub sp: AtomicU64,
    /// Its lock.
    pub key: AtomicU64,
    /// The mutex of a wait for a condition; where such a wait returns to, of taking its mutex again.
    pub detail: AtomicU64,
    /// The operation, as the entry said.
    pub operation: AtomicU64,
    /// When it found the lock taken, in ticks of the time stamp counter; 0 when it did not, or when no
    /// events are written.
    pub since: AtomicU64,
}

/// Who minds that a lock is released; none where both words are 0, which is asked at once.
#[repr(C, align(8))]
#[derive(Debug)]
pub struct Minders {
    /// How many threads wait for the lock, or hold it after a wait.
    pub waiting: AtomicU32,
    /// The owner from whom a thread wanted the lock that gave up, 0 for none: its release is told. All bits for an
    /// owner that is not known.
    pub owed: AtomicU32,
}

/// A lock that was made by a call, and not destroyed since.
#[repr(C)]
#[derive(Debug)]
pub struct Made {
    /// Its address; 0 when free, [`Made::CHANGING`] while it is written.
    pub lock: AtomicU64,
    /// Where the call returns to.
    pub caller: AtomicU64,
}

impl Made {
    /// No address of a lock.
    pub const CHANGING: u64 = 1;
}

/// What an event tells: its top byte of `caller`.
pub mod what {
    /// A thread wants a lock that is taken, and is going to wait.
    pub const ATTEMPT: u64 = 1;
    /// It has the lock.
    pub const ACQUIRED: u64 = 2;
    /// It has the lock because the owner of a robust mutex has died.
    pub const INHERITED: u64 = 3;
    /// It has given up: its time was over, or the lock refused it.
    pub const GAVE_UP: u64 = 4;
    /// A thread has let a lock go that somebody waits for, or that it had waited for itself.
    pub const RELEASED: u64 = 5;
    /// The same, to wait for a condition.
    pub const RELEASED_TO_WAIT: u64 = 6;
    /// A thread has the lock again after a wait for a condition, while others wait for the lock. It found it
    /// free, or how long it waited for the lock itself is not known.
    pub const ACQUIRED_AGAIN: u64 = 7;
    /// A thread did not wait after all: it was the last to come to a barrier.
    pub const PASSED: u64 = 8;
}

/// A contended operation. Its words but the seal are plain data in this order.
#[repr(C)]
#[derive(Debug)]
pub struct Event {
    /// [`seal_of`] its number and its words: tells that it is whole. A slot that is being written, or was
    /// written by two threads at once, has another.
    pub seal: AtomicU64,
    /// When, in ticks of the time stamp counter.
    pub time: AtomicU64,
    /// Of the end of a wait: when it began; else 0.
    pub since: AtomicU64,
    /// The lock's key.
    pub key: AtomicU64,
    /// Where the function returns to, and in the top byte one of [`what`].
    pub caller: AtomicU64,
    /// The thread's number as libc knows it and, in the upper half, that of the owner: of an attempt, and of
    /// a wait that was given up. 0 where the lock does not name it.
    pub threads: AtomicU64,
}

/// The owner of a lock that is free.
pub const NOBODY: u32 = u32::MAX;

/// Words of an event behind its seal.
pub const EVENT_WORDS: usize = size_of::<Event>() / 8 - 1;

/// The words of an event behind its seal.
pub type Words = [u64; EVENT_WORDS];

/// The seal of the event of this number (from 0) with these words.
pub const fn seal_of(number: u64, words: &Words) -> u64 {
    let mut seal = number.wrapping_add(1);
    let mut word = 0;
    while word < EVENT_WORDS {
        seal = seal.rotate_left(11) ^ words[word];
        word += 1;
    }
    seal
}

/// The number that the event of a [`Totals::acquired`] has in its seal.
pub const NO_NUMBER: u64 = u64::MAX - 1;

/// Everything. What comes before the totals is the process' own, and zero in a child that it forks: a
/// child has no settings, which keeps the agent quiet there, and no block, which keeps the quick way
/// from the totals that it shares.
#[repr(C, align(4096))]
pub struct State {
    /// What dwell says.
    pub settings: Settings,
    /// The thread (fs base) that owns a block, 0 for none; of a further one with its number, from 1 on, in the bits that
    /// are 0 in all of these. It is kept for good: the next thread there goes on in it.
    pub threads: [AtomicU64; BLOCKS],
    /// Calls under way, by the hash of their sp.
    pub calls: [[Call; CALL_WAYS]; CALL_BUCKETS],
    /// Who minds that a lock is released, by the hash of its address.
    pub minders: [Minders; WAITING],
    /// Locks that the thread of a block holds after a wait, 0 for none; in the top byte how often it has acquired
    /// them since then, beside the first time.
    pub held: [[AtomicU64; HELD]; BLOCKS],
    /// Where the latest wait for a condition of the thread of a block returns to.
    pub conditions: [AtomicU64; BLOCKS],
    /// How many further blocks were taken.
    pub further: AtomicU64,
    /// Not 0 since the process was about to forbid itself system calls.
    pub confined: AtomicU32,
    /// What was counted.
    pub totals: Totals,
}

/// What was counted: shared with dwell, which reads it after the end of the process as well.
#[repr(C, align(4096))]
pub struct Totals {
    /// Calls under way that were forgotten for others: what they acquired is not counted.
    pub forgotten: AtomicU64,
    /// How often a thread looked for a block in vain.
    pub homeless: AtomicU64,
    /// Releases of mutexes that nobody held.
    pub released_free: AtomicU64,
    /// Events that were begun: the number of the next one. It lies in the place of its number, modulo
    /// [`EVENTS`].
    pub begun: AtomicU64,
    /// Which 64ths of the shared table have ever been used, a bit each: it is large, and mostly empty.
    pub shared_parts: AtomicU64,
    /// Locks that were made, by the hash of their address.
    pub made: [[Made; MADE_WAYS]; MADE_BUCKETS],
    /// Other than 0 where a block was ever taken.
    pub taken: [AtomicU64; BLOCKS],
    /// How the locks of [`State::held`] were acquired, where that is told only with their release: it is
    /// written while they are held, so it is written where no other thread writes. Sealed with [`NO_NUMBER`].
    pub acquired: [[Event; HELD]; BLOCKS],
    /// How the waits for mutexes began that a thread is in, or after which it has not let the mutex go yet. Written
    /// here and sealed as above, since a thread is not to come to its wait later than it would alone.
    pub attempts: [[Event; HELD]; BLOCKS],
    /// What found no place in the shared table, by kind.
    pub others: [Shared; kind::END],
    /// Locks of all threads.
    pub shared: [Shared; SHARED],
    /// Locks by thread.
    pub blocks: [[Slot; SLOTS]; BLOCKS],
    /// The latest events.
    pub events: [Event; EVENTS],
}

const _: () = assert!(size_of::<Slot>() == 32 && size_of::<Shared>() == 64);
/// The project's bound for what counting locks may take of a target's memory, bytes.
const MEMORY: usize = 32 << 20;
const _: () = assert!(size_of::<State>() <= MEMORY);

/// The key of a lock.
pub const fn key_of(address: u64, kind: u64) -> u64 {
    address | kind << KIND_SHIFT
}

/// The address and the kind of a key.
pub const fn lock_of(key: u64) -> (u64, u64) {
    (key & ((1 << KIND_SHIFT) - 1), key >> KIND_SHIFT)
}

/// The first place for `value` among `1 << bits`.
pub const fn place_of(value: u64, bits: u32) -> usize {
    ((value as u32).wrapping_mul(HASH) >> (32 - bits)) as usize
}
