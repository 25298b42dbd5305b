//! Where counts are: see `layout`.
use super::layout::{
    BLOCK_BITS, FURTHER, MOST_FURTHER, PROBES, SHARED, SHARED_BITS, SHARED_PART, SLOT_BITS, Shared,
    Slot, State, THREAD_SHIFT, WAYS, kind, libc, lock_of, place_of,
};
use crate::system::{getpid, gettid};
use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Acquired,
    Contended,
    Failed,
    TimedOut,
}

/// The fs base of this thread: what libc knows it by.
pub(super) fn this_thread() -> u64 {
    let address: u64;
    // SAFETY: the first word of a thread's control block holds its own address, in every libc.
    unsafe { asm!("mov {}, fs:0", out(reg) address, options(nostack, readonly, pure)) };
    address
}

/// The number that libc believes this thread has.
pub(super) fn tid_by_libc(offset: u64) -> u32 {
    let tid: u32;
    // SAFETY: dwell has found the offset in libc itself; the control block is readable there.
    unsafe { asm!("mov {:e}, fs:[{}]", out(reg) tid, in(reg) offset, options(nostack, readonly)) };
    tid
}

/// Adds one, by a single instruction: exact for memory that one thread writes, its signal handlers
/// included.
fn bump(counter: &AtomicU64) {
    // SAFETY: an aligned word of ours.
    unsafe { asm!("inc qword ptr [{}]", in(reg) counter.as_ptr(), options(nostack)) };
}

/// A place to count one key in.
pub(super) enum Counters<'s> {
    /// In a block of this thread.
    Own(&'s Slot, &'s State),
    Shared(&'s Shared),
}

impl<'s> Counters<'s> {
    /// The place of a key.
    pub fn of(state: &'s State, key: u64) -> Counters<'s> {
        let own = block(state).and_then(|block| {
            let further = || slot(state, further_block(state, key)?, key);
            slot(state, block, key).or_else(further)
        });
        match own {
            Some(slot) => Counters::Own(slot, state),
            None => Counters::Shared(shared(state, key)),
        }
    }

    pub fn add(&self, event: Event) {
        let slot = match self {
            Counters::Own(slot, state) => match event {
                Event::Acquired => return bump(&slot.acquired),
                Event::Contended => return bump(&slot.contended),
                Event::Failed => return bump(&slot.failed),
                _ => shared(state, slot.key.load(Ordering::Relaxed)),
            },
            Counters::Shared(shared) => shared,
        };
        let counter = match event {
            Event::Acquired => &slot.acquired,
            Event::Contended => &slot.contended,
            Event::Failed => &slot.failed,
            Event::TimedOut => &slot.timeouts,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// A key's slot in a block, taken when there is a free one.
pub(super) fn slot(state: &State, block: usize, key: u64) -> Option<&Slot> {
    let slots = state.totals.blocks.get(block)?;
    let first = place_of(lock_of(key).0, SLOT_BITS);
    ways(first).find_map(|place| {
        let slot = slots.get(place)?;
        is_taken(&slot.key, key).then_some(slot)
    })
}

impl Slot {
    /// Counts an acquisition after a wait.
    pub(super) fn add_contended(&self) {
        bump(&self.acquired);
        bump(&self.contended);
    }
}

/// A key's entry in the shared table, or that of all others of its kind.
fn shared(state: &State, key: u64) -> &Shared {
    let (address, kind) = lock_of(key);
    let first = place_of(address ^ address >> 32 ^ kind << 3, SHARED_BITS);
    let mut places = (0..PROBES).map(|n| (first + n) % SHARED);
    let found = places.find_map(|place| {
        let entry = state.totals.shared.get(place)?;
        is_taken(&entry.key, key).then_some((entry, 1 << (place / SHARED_PART)))
    });
    if let Some((entry, part)) = found {
        let parts = &state.totals.shared_parts;
        // Before anything is counted there.
        if parts.load(Ordering::Relaxed) & part == 0 {
            parts.fetch_or(part, Ordering::Relaxed);
        }
        return entry;
    }
    // No kind lies beyond the table; the first stands in for what cannot be.
    &state.totals.others[if (kind as usize) < kind::END {
        kind as usize
    } else {
        0
    }]
}

/// Whether a place is this key's, now at the latest.
fn is_taken(place: &AtomicU64, key: u64) -> bool {
    match place.load(Ordering::Relaxed) {
        0 => match place.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(now) => now == key,
        },
        now => now == key,
    }
}

/// The places for something whose first one is `first`.
fn ways(first: usize) -> impl Iterator<Item = usize> {
    (0..WAYS).map(move |way| first ^ way)
}

/// This thread's block, if it has one.
pub(super) fn own_block(state: &State) -> Option<usize> {
    let thread = this_thread();
    find_block(state, place_of(thread >> THREAD_SHIFT, BLOCK_BITS), thread)
}

/// This thread's block, taken where one is free.
fn block(state: &State) -> Option<usize> {
    own_block(state).or_else(|| take_own_block(state))
}

/// The further block of this thread for a key, taken where one is free: an entry that threads share costs several times
/// as much, most of all where they count the same lock.
fn further_block(state: &State, key: u64) -> Option<usize> {
    let thread = this_thread();
    let number = place_of(lock_of(key).0, SLOT_BITS + FURTHER.ilog2()) % FURTHER + 1;
    let name = thread | number as u64;
    // Else it could be another thread's name.
    if !thread.is_multiple_of(2 * FURTHER as u64) {
        return None;
    }
    let first = place_of((thread >> THREAD_SHIFT) + number as u64, BLOCK_BITS);
    find_block(state, first, name).or_else(|| {
        if state.further.load(Ordering::Relaxed) >= MOST_FURTHER {
            return None;
        }
        let taken = take_block(state, first, name)?;
        state.further.fetch_add(1, Ordering::Relaxed);
        Some(taken)
    })
}

/// The block that has this name, whose first place is `first`.
fn find_block(state: &State, first: usize, name: u64) -> Option<usize> {
    ways(first).find(|&place| {
        let owner = state.threads.get(place);
        owner.is_some_and(|o| o.load(Ordering::Relaxed) == name)
    })
}

/// Gives a free one that name.
fn take_block(state: &State, first: usize, name: u64) -> Option<usize> {
    ways(first).find(|&place| {
        let there = state.threads.get(place).zip(state.totals.taken.get(place));
        let Some((owner, taken)) = there else {
            return false;
        };
        // Before it has a name: a signal handler may leave by a jump right after that, and the thread counts there ever after.
        if owner.load(Ordering::Relaxed) == 0 {
            taken.store(1, Ordering::Release);
        }
        is_taken(owner, name)
    })
}

/// How seldom a thread asks the kernel whether it can have a block, once one could not.
const SELDOM: u64 = 64;

fn take_own_block(state: &State) -> Option<usize> {
    let homeless = &state.totals.homeless;
    let is_turn = homeless.load(Ordering::Relaxed).is_multiple_of(SELDOM);
    if !is_turn || !is_known(state) {
        homeless.fetch_add(1, Ordering::Relaxed);
        return None;
    }
    let thread = this_thread();
    let taken = take_block(state, place_of(thread >> THREAD_SHIFT, BLOCK_BITS), thread);
    if taken.is_none() {
        homeless.fetch_add(1, Ordering::Relaxed);
    }
    taken
}

/// Whether libc knows this thread by its right number, and it is one of the process we were told of. A
/// child of vfork is not: it runs on its parent's thread. Where system calls may be forbidden, which would end the
/// process, libc is believed.
fn is_known(state: &State) -> bool {
    let settings = &state.settings;
    let has_number = settings.libc != libc::GLIBC || settings.tid_offset != 0;
    if settings.was_confined != 0 || state.confined.load(Ordering::Relaxed) != 0 {
        return has_number;
    }
    let is_ours = getpid() == settings.pid;
    let is_right = settings.libc != libc::GLIBC || tid_by_libc(settings.tid_offset) == gettid();
    has_number && is_ours && is_right
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Settings, key_of};
    use super::*;
    use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

    /// A state as dwell maps it.
    fn state() -> Box<State> {
        let layout = Layout::new::<State>();
        // SAFETY: a state of zeroes is one that nothing was counted in; it is that large.
        let mut state = unsafe {
            let memory = alloc_zeroed(layout).cast::<State>();
            if memory.is_null() {
                handle_alloc_error(layout);
            }
            Box::from_raw(memory)
        };
        state.settings = Settings {
            libc: libc::UNKNOWN,
            pid: u64::from(std::process::id()),
            ..Settings::default()
        };
        state
    }

    fn acquired(state: &State) -> [u64; 3] {
        let count = |c: &AtomicU64| c.load(Ordering::Relaxed);
        let slots = state
            .totals
            .blocks
            .iter()
            .flatten()
            .map(|s| count(&s.acquired));
        let shared = state.totals.shared.iter().map(|s| count(&s.acquired));
        let others = state.totals.others.iter().map(|s| count(&s.acquired));
        [slots.sum(), shared.sum(), others.sum()]
    }

    /// However many locks there are, each acquisition is somewhere.
    #[test]
    fn a_million_locks_take_no_more_memory() {
        const LOCKS: u64 = 1_000_000;
        const THREADS: u64 = 3;
        let state = state();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let state = &state;
                scope.spawn(move || {
                    for lock in 0..LOCKS {
                        let address = 0x5555_0000_0000 + (lock + thread) * 40;
                        Counters::of(state, key_of(address, lock % 3)).add(Event::Acquired);
                    }
                });
            }
        });
        let [own, shared, others] = acquired(&state);
        assert_eq!(own + shared + others, THREADS * LOCKS);
        let parts = state.totals.shared_parts.load(Ordering::Relaxed);
        let used = |place: usize| state.totals.shared[place].key.load(Ordering::Relaxed) != 0;
        assert!((0..SHARED).all(|place| !used(place) || parts >> (place / SHARED_PART) & 1 == 1));
        assert!(
            own > 0 && shared > 0 && others > 0,
            "{own} {shared} {others}"
        );
    }

    /// Of thousands of locks that several threads use, most are counted where only one of them writes.
    #[test]
    fn what_a_block_has_no_room_for_is_in_a_further_one() {
        const LOCKS: u64 = 4_000;
        const THREADS: u64 = 3;
        let state = state();
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for lock in (0..LOCKS).chain(0..LOCKS) {
                        let key = key_of(0x5555_0000_0000 + lock * 64, 0);
                        Counters::of(&state, key).add(Event::Acquired);
                    }
                });
            }
        });
        let [own, shared, others] = acquired(&state);
        assert_eq!([own + shared, others], [2 * THREADS * LOCKS, 0]);
        assert!(own > 9 * shared, "{own} {shared}");
        let further = state.further.load(Ordering::Relaxed);
        assert!(
            (1..=THREADS * FURTHER as u64).contains(&further),
            "{further}"
        );
    }

    /// Threads add to one lock's count, each in a block of its own.
    #[test]
    fn threads_do_not_share_what_they_write() {
        const EACH: u64 = 100_000;
        let state = state();
        let key = key_of(0x7fff_1234_5678, kind::SPIN);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let counters = Counters::of(&state, key);
                        assert!(matches!(counters, Counters::Own(..)));
                        counters.add(Event::Acquired);
                        counters.add(Event::Failed);
                    }
                });
            }
        });
        let slots = state.totals.blocks.iter().flatten();
        let mine = slots.filter(|s| s.key.load(Ordering::Relaxed) == key);
        let counts = mine.map(|s| s.failed.load(Ordering::Relaxed));
        assert_eq!(counts.sum::<u64>(), 4 * EACH);
        assert_eq!(acquired(&state), [4 * EACH, 0, 0]);
    }

    /// Whoever sees that a block has a name sees that it is read: the thread may leave at any instant by a jump.
    #[test]
    fn a_block_is_marked_before_it_has_a_name() {
        for _ in 0..200 {
            let state = state();
            let (is_watched, address) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    address.store(this_thread(), Ordering::Relaxed);
                    while is_watched.load(Ordering::Relaxed) == 0 {
                        std::hint::spin_loop();
                    }
                    take_own_block(&state);
                });
                while address.load(Ordering::Relaxed) == 0 {
                    std::hint::spin_loop();
                }
                let thread = address.load(Ordering::Relaxed);
                let place = place_of(thread >> THREAD_SHIFT, BLOCK_BITS);
                let (name, taken) = (&state.threads[place], &state.totals.taken[place]);
                is_watched.store(1, Ordering::Relaxed);
                while name.load(Ordering::Acquire) == 0 {}
                assert_eq!(taken.load(Ordering::Relaxed), 1);
            });
        }
    }
}
