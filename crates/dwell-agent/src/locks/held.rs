//! Locks that threads hold after a wait: their release is told. A thread alone writes what it holds.
//!
//! How a mutex was acquired is noted with it, in memory that no other thread writes, and becomes an event when the mutex
//! has been let go: writing one takes longer, as all threads do it in one place, and would be part of the hold. So is
//! how the wait for it began: while that was told, the mutex would be let go, and the thread would not wait.
use super::counters::own_block;
use super::layout::{
    EVENT_WORDS, Event, HELD, KIND_SHIFT, NO_NUMBER, State, Words, lock_of, seal_of,
};
use core::sync::atomic::{AtomicU64, Ordering};

/// A place for a lock that this thread holds.
#[derive(Clone, Copy)]
pub(super) struct Place<'s> {
    lock: &'s AtomicU64,
    /// How it was acquired, if that is still to be told.
    pub acquired: &'s Event,
}

/// Where this thread has a lock that it holds after a wait.
pub(super) fn place(state: &State, lock: u64) -> Option<Place<'_>> {
    places(state)?.find(|place| lock_of(place.lock.load(Ordering::Relaxed)).0 == lock)
}

/// A place for a lock that it has not.
pub(super) fn free_place(state: &State) -> Option<Place<'_>> {
    places(state)?.find(|place| place.lock.load(Ordering::Relaxed) == 0)
}

/// The first place of the thread of a block, if it has no lock that it holds after a wait.
pub(super) fn first(state: &State, block: usize) -> Option<Place<'_>> {
    let held = state.held.get(block)?;
    let all = held
        .iter()
        .fold(0, |all, lock| all | lock.load(Ordering::Relaxed));
    let acquired = state.totals.acquired.get(block)?.first()?;
    let place = Place {
        lock: held.first()?,
        acquired,
    };
    (all == 0).then_some(place)
}

/// A place for how this thread begins to wait.
pub(super) fn free_attempt(state: &State) -> Option<&Event> {
    attempts(state)?.iter().find(|a| a.noted().is_none())
}

/// How this thread began to wait at this time for the lock of a key, if that is still to be told.
pub(super) fn attempt(state: &State, since: u64, key: u64) -> Option<&Event> {
    let is_it = |a: &&Event| {
        a.noted()
            .is_some_and(|[time, _, its_key, ..]| (time, its_key) == (since, key))
    };
    attempts(state)?.iter().find(is_it)
}

fn attempts(state: &State) -> Option<&[Event; HELD]> {
    state.totals.attempts.get(own_block(state)?)
}

fn places(state: &State) -> Option<impl Iterator<Item = Place<'_>>> {
    let block = own_block(state)?;
    let held: &[AtomicU64; HELD] = state.held.get(block)?;
    let acquired: &[Event; HELD] = state.totals.acquired.get(block)?;
    let pairs = held.iter().zip(acquired);
    Some(pairs.map(|(lock, acquired)| Place { lock, acquired }))
}

impl Place<'_> {
    /// The lock is held.
    pub fn take(self, lock: u64) {
        self.lock.store(lock, Ordering::Relaxed);
    }

    /// It is not any more.
    pub fn free(self) {
        self.lock.store(0, Ordering::Relaxed);
    }

    /// The lock is acquired once more.
    pub fn deepen(self) {
        let deeper = self.lock.load(Ordering::Relaxed).saturating_add(ONCE);
        self.lock.store(deeper, Ordering::Relaxed);
    }

    /// Whether it is held after the next release as well, which is made now.
    pub fn leaves_once(self) -> bool {
        let held = self.lock.load(Ordering::Relaxed);
        let is_deep = held >> KIND_SHIFT != 0;
        if is_deep {
            self.lock.store(held - ONCE, Ordering::Relaxed);
        }
        is_deep
    }
}

/// Once more, in the top byte.
const ONCE: u64 = 1 << KIND_SHIFT;

impl Event {
    /// Writes it, its seal last.
    pub(super) fn write(&self, number: u64, words: &Words) {
        for (place, word) in self.places().into_iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.seal.store(seal_of(number, words), Ordering::Release);
    }

    /// Notes what is to become an event.
    pub(super) fn note(&self, words: &Words) {
        self.write(NO_NUMBER, words);
    }

    /// What is noted. It stays so until it was told.
    pub(super) fn noted(&self) -> Option<Words> {
        let is_noted = self.seal.load(Ordering::Relaxed) != 0;
        is_noted.then(|| self.places().map(|place| place.load(Ordering::Relaxed)))
    }

    /// That was told.
    pub(super) fn forget(&self) {
        self.seal.store(0, Ordering::Release);
    }

    fn places(&self) -> [&AtomicU64; EVENT_WORDS] {
        [
            &self.time,
            &self.since,
            &self.key,
            &self.caller,
            &self.threads,
        ]
    }
}
