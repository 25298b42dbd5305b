//! Adds up what the agent has counted in a process.
use dwell_agent::locks::layout::{
    BLOCKS, KIND_SHIFT, MADE_BUCKETS, MADE_WAYS, Made, SHARED_PART, SLOTS, Settings, Shared, Slot,
    Totals, kind, lock_of,
};
use rustc_hash::FxHashMap;
use std::io;
use std::mem::{offset_of, size_of};

/// The type of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MutexType {
    /// Knows nothing of its owner.
    Normal,
    /// May be acquired again by its owner.
    Recursive,
    /// Refuses its owner.
    ErrorChecking,
    /// Spins before it sleeps.
    Adaptive,
}

/// What kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A mutex.
    Mutex {
        /// Its type.
        of_type: MutexType,
        /// Survives the death of its owner.
        is_robust: bool,
        /// Lends its owner the priority of those who wait.
        inherits: bool,
        /// Raises its owner to a fixed priority.
        protects: bool,
    },
    /// A mutex of a libc whose layout is not known.
    UnknownMutex,
    /// A read-write lock, taken for reading.
    Read,
    /// A read-write lock, taken for writing.
    Write,
    /// A spin lock.
    Spin,
    /// A condition variable: acquisitions are waits that ended.
    Condition,
    /// A barrier: acquisitions are passages.
    Barrier,
    /// A semaphore.
    Semaphore,
}

impl Kind {
    pub(crate) fn of(number: u64) -> Option<Kind> {
        Some(match number {
            kind::MUTEX => Kind::UnknownMutex,
            kind::READ => Kind::Read,
            kind::WRITE => Kind::Write,
            kind::SPIN => Kind::Spin,
            kind::CONDITION => Kind::Condition,
            kind::BARRIER => Kind::Barrier,
            kind::SEMAPHORE => Kind::Semaphore,
            0..kind::MUTEX => Kind::Mutex {
                of_type: match number & kind::TYPE {
                    0 => MutexType::Normal,
                    kind::RECURSIVE => MutexType::Recursive,
                    2 => MutexType::ErrorChecking,
                    _ => MutexType::Adaptive,
                },
                is_robust: number & kind::ROBUST != 0,
                inherits: number & kind::INHERIT != 0,
                protects: number & kind::PROTECT != 0,
            },
            _ => return None,
        })
    }
}

/// What was done with a lock since dwell attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTotal {
    /// Its address; 0 for all locks of a kind that found no room of their own.
    pub address: u64,
    /// What kind it is. A read-write lock appears twice.
    pub kind: Kind,
    /// How often a thread acquired it that did not hold it.
    pub acquired: u64,
    /// Of these, how often it was not free at first: exactly so for normal mutexes, and by a look before
    /// the attempt for all others. Tries do not count.
    pub contended: u64,
    /// Tries that found it taken.
    pub try_fails: u64,
    /// Waits whose time was over. Those of semaphores are not known.
    pub timeouts: u64,
    /// Acquisitions by its owner.
    pub nested: u64,
}

impl LockTotal {
    /// A lock with which nothing was done.
    pub fn none(address: u64, kind: Kind) -> LockTotal {
        LockTotal {
            address,
            kind,
            acquired: 0,
            contended: 0,
            try_fails: 0,
            timeouts: 0,
            nested: 0,
        }
    }
}

/// All locks of a process, at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// By address and kind.
    pub locks: Vec<LockTotal>,
    /// Calls that were forgotten while under way: what they acquired is missing above.
    pub forgotten: u64,
    /// Releases of normal mutexes that nobody held: errors of the program.
    pub released_free: u64,
}

impl Snapshot {
    /// The sum of a count over all locks.
    pub fn sum(&self, count: impl Fn(&LockTotal) -> u64) -> u64 {
        self.locks.iter().map(count).sum()
    }
}

/// Counts of one key: in the order of [`LockTotal`].
type Counts = [u64; 5];

/// Reads the totals of all states of a process: `memory` is told which of them, and where in it.
pub(crate) fn read(
    states: usize,
    memory: impl Fn(usize, usize, &mut [u8]) -> io::Result<()>,
) -> io::Result<Snapshot> {
    let mut sums = Sums::default();
    for state in 0..states {
        sums.state(|offset, bytes| memory(state, offset, bytes))?;
    }
    let mut locks: Vec<LockTotal> = sums.of_key.into_iter().filter_map(total).collect();
    locks.sort_unstable_by_key(|l| (l.address, l.kind));
    Ok(Snapshot {
        locks,
        forgotten: sums.forgotten,
        released_free: sums.released_free,
    })
}

fn total((key, counts): (u64, Counts)) -> Option<LockTotal> {
    let (address, kind) = lock_of(key);
    let [acquired, contended, try_fails, timeouts, nested] = counts;
    Some(LockTotal {
        address,
        kind: Kind::of(kind)?,
        acquired,
        contended,
        try_fails,
        timeouts,
        nested,
    })
}

#[derive(Default)]
struct Sums {
    of_key: FxHashMap<u64, Counts>,
    forgotten: u64,
    released_free: u64,
}

impl Sums {
    fn state(&mut self, read: impl Fn(usize, &mut [u8]) -> io::Result<()>) -> io::Result<()> {
        let words = |offset: usize, count: usize| -> io::Result<Vec<u64>> {
            let mut bytes = vec![0; count * 8];
            read(offset, &mut bytes)?;
            let (words, _) = bytes.as_chunks();
            Ok(words.iter().copied().map(u64::from_le_bytes).collect())
        };
        self.forgotten += words(offset_of!(Totals, forgotten), 1)?[0];
        self.released_free += words(offset_of!(Totals, released_free), 1)?[0];
        const SHARED_WORDS: usize = size_of::<Shared>() / 8;
        let others = words(offset_of!(Totals, others), kind::END * SHARED_WORDS)?;
        let (others, _) = others.as_chunks::<SHARED_WORDS>();
        for (number, entry) in others.iter().enumerate() {
            self.add(
                dwell_agent::locks::layout::key_of(0, number as u64),
                &entry[1..5],
            );
        }
        let parts = words(offset_of!(Totals, shared_parts), 1)?[0];
        for part in (0..64).filter(|part| parts >> part & 1 != 0) {
            let offset = offset_of!(Totals, shared) + part * SHARED_PART * size_of::<Shared>();
            let shared = words(offset, SHARED_PART * SHARED_WORDS)?;
            let (shared, _) = shared.as_chunks::<SHARED_WORDS>();
            for entry in shared {
                self.add(entry[0], &entry[1..5]);
            }
        }
        let taken = words(offset_of!(Totals, taken), BLOCKS)?;
        const SLOT_WORDS: usize = size_of::<Slot>() / 8;
        const BLOCK_WORDS: usize = SLOTS * SLOT_WORDS;
        for (number, _) in taken.iter().enumerate().filter(|(_, t)| **t != 0) {
            let offset = offset_of!(Totals, blocks) + number * BLOCK_WORDS * 8;
            let block = words(offset, BLOCK_WORDS)?;
            let (slots, _) = block.as_chunks::<SLOT_WORDS>();
            for slot in slots {
                self.add(slot[0], &slot[1..]);
            }
        }
        Ok(())
    }

    fn add(&mut self, key: u64, counts: &[u64]) {
        if counts.iter().all(|&c| c == 0) {
            return;
        }
        const IS_NESTED: u64 = kind::NESTED << KIND_SHIFT;
        let sums = self.of_key.entry(key & !IS_NESTED).or_default();
        if key & IS_NESTED != 0 {
            sums[4] += counts[0];
            return;
        }
        for (sum, count) in sums.iter_mut().zip(counts) {
            *sum += count;
        }
    }
}

/// Where calls return to that made locks, of one state, by the address of the lock.
pub(crate) fn makers(
    memory: impl Fn(usize, &mut [u8]) -> io::Result<()>,
) -> io::Result<Vec<(u64, u64)>> {
    const LEN: usize = MADE_BUCKETS * MADE_WAYS * size_of::<Made>();
    // What is written meanwhile differs the second time.
    let mut tables = [vec![0; LEN], vec![0; LEN]];
    for table in &mut tables {
        memory(offset_of!(Totals, made), table)?;
    }
    let [first, second] = tables.map(words);
    let pairs = first.into_iter().zip(second).filter(|(a, b)| a == b);
    let made = pairs.map(|([lock, caller], _)| (lock, caller));
    Ok(made.filter(|(lock, _)| *lock > Made::CHANGING).collect())
}

/// Pairs of words.
fn words(bytes: Vec<u8>) -> Vec<[u64; 2]> {
    let (pairs, _) = bytes.as_chunks::<16>();
    let word = |half: &[u8]| u64::from_le_bytes(half.try_into().unwrap_or_default());
    pairs
        .iter()
        .map(|pair| [word(&pair[..8]), word(&pair[8..])])
        .collect()
}

/// The settings as the agent reads them.
pub(crate) fn bytes_of(settings: &Settings) -> Vec<u8> {
    let head = [settings.libc, settings.tid_offset, settings.pid];
    let inside = settings.inside.iter().flatten();
    let words = head
        .iter()
        .chain(inside)
        .chain([&settings.events, &settings.retakes])
        .chain([&settings.cancel_offset, &settings.cancel_mask])
        .chain([&settings.cancelled, &settings.was_confined])
        .chain([&settings.robust_offset]);
    words.flat_map(|w| w.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_agent::locks::layout::key_of;

    #[test]
    fn settings_are_written_as_they_lie() {
        let settings = Settings {
            libc: 1,
            tid_offset: 2,
            pid: 3,
            inside: std::array::from_fn(|n| [4 + 2 * n as u64, 5 + 2 * n as u64]),
            events: 16,
            retakes: 17,
            cancel_offset: 18,
            cancel_mask: 19,
            cancelled: 20,
            was_confined: 21,
            robust_offset: 22,
        };
        let bytes = bytes_of(&settings);
        assert_eq!(bytes.len(), size_of::<Settings>());
        let (words, _) = bytes.as_chunks();
        let words = words.iter().copied().map(u64::from_le_bytes);
        assert!(words.eq(1..=bytes.len() as u64 / 8));
    }

    #[test]
    fn kinds_have_names() {
        for number in 0..=kind::SEMAPHORE {
            assert!(Kind::of(number).is_some(), "{number}");
        }
        assert_eq!(Kind::of(kind::SEMAPHORE + 1), None);
    }

    #[test]
    fn what_is_acquired_again_is_no_lock_of_its_own() {
        let mut sums = Sums::default();
        let recursive = kind::RECURSIVE | kind::ROBUST;
        sums.add(key_of(64, recursive), &[5, 4, 3, 2]);
        sums.add(key_of(64, recursive | kind::NESTED), &[7, 0, 0, 0]);
        sums.add(key_of(64, recursive | kind::NESTED), &[1, 0, 0]);
        let found: Vec<_> = sums.of_key.into_iter().filter_map(total).collect();
        let expected = LockTotal {
            acquired: 5,
            contended: 4,
            try_fails: 3,
            timeouts: 2,
            nested: 8,
            ..LockTotal::none(64, Kind::of(recursive).unwrap())
        };
        assert_eq!(found, [expected]);
    }
}
