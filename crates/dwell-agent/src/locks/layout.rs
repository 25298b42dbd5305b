//! The state of the lock hooks: what dwell and the agent agree on. It lies in the memory that an arena's
//! hooks share, zero but for [`Settings`] at its head.
//!
//! A lock is counted under its *key*: its address and, in the top byte, its *kind*. Counts are in three
//! places. Every thread has a block of slots of its own, which it alone writes, by single unlocked
//! instructions: exact whatever signal handlers interrupt it. A slot that has a key keeps it, so that
//! no instant exists at which a count could go to a wrong one. What finds no slot is counted in the
//! shared table by locked instructions, and what finds no place there in `others`, by kind.
use core::sync::atomic::AtomicU64;

/// Logarithm of the number of threads that have a block at a time.
pub const BLOCK_BITS: u32 = 9;
/// Threads that have a block at a time.
pub const BLOCKS: usize = 1 << BLOCK_BITS;
/// Logarithm of the number of slots of a block.
pub const SLOT_BITS: u32 = 10;
/// Slots of a block.
pub const SLOTS: usize = 1 << SLOT_BITS;
/// Logarithm of the number of entries of the shared table.
pub const SHARED_BITS: u32 = 16;
/// Entries of the shared table.
pub const SHARED: usize = 1 << SHARED_BITS;
/// Places for a thread's block, and for a key in it: what lies beyond the first two is found by a
/// longer way.
pub const WAYS: usize = 4;
/// Entries of the shared table that are looked at for a key.
pub const PROBES: usize = 16;
/// Logarithm of the number of buckets of calls under way.
pub const CALL_BITS: u32 = 10;
/// Buckets of calls under way.
pub const CALL_BUCKETS: usize = 1 << CALL_BITS;
/// Calls in a bucket.
pub const CALL_WAYS: usize = 4;
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
    /// Past all kinds.
    pub const END: usize = 39;
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
    /// Acquisitions by a thread that held it already.
    pub nested: AtomicU64,
}

/// A call under way that is counted when it returns.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// The address of its return address, which tells it from all others; 0 when free.
    pub sp: AtomicU64,
    /// Its lock.
    pub key: AtomicU64,
    /// The mutex of a wait for a condition.
    pub mutex: AtomicU64,
    /// The operation, as the entry said.
    pub operation: AtomicU64,
}

/// Everything. What comes before the totals is the process' own, and zero in a child that it forks: a
/// child has no settings, which keeps the agent quiet there, and no block, which keeps the quick way
/// from the totals that it shares.
#[repr(C, align(4096))]
pub struct State {
    /// What dwell says.
    pub settings: Settings,
    /// The thread (fs base) that owns a block, 0 for none. It is kept for good: the next thread there
    /// goes on in it.
    pub threads: [AtomicU64; BLOCKS],
    /// Calls under way, by the hash of their sp.
    pub calls: [[Call; CALL_WAYS]; CALL_BUCKETS],
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
    /// Other than 0 where a block was ever taken.
    pub taken: [AtomicU64; BLOCKS],
    /// What found no place in the shared table, by kind.
    pub others: [Shared; kind::END],
    /// Locks of all threads.
    pub shared: [Shared; SHARED],
    /// Locks by thread.
    pub blocks: [[Slot; SLOTS]; BLOCKS],
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
