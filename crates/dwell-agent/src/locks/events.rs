//! The events of contended operations: see [`Event`]. An operation that finds its lock free, and is not
//! waited for when it releases it, comes here at no time.
//!
//! Who waits says so before it looks at the lock for the last time (`waiting`), so that a release that comes
//! later is told; who gives up leaves a note to the owner (`owed`), whose release is told as
//! well; who acquired a lock after a wait tells its own release (`held`). Numbers of threads are by the hash
//! of the lock: a release too many is told where two locks share it, and the reader knows that nobody waited.
use super::calls::Noted;
use super::counters::own_block;
use super::layout::{EVENT_WORDS, EVENTS, Event, KIND_SHIFT, NOBODY, State, WAITING_BITS};
use super::layout::{kind, lock_of, place_of, seal_of, what};
use super::operation::Operation;
use super::words::{is_free, mark, own_number, owner_of};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The processor's time stamp counter.
pub(super) fn now() -> u64 {
    // SAFETY: reads a register that every processor of ours has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether a mutex has this kind.
fn is_mutex(kind: u64) -> bool {
    kind < kind::MUTEX
}

/// Whether a lock of this kind has an owner, and nothing in it that makes its release come to us.
fn is_silent(kind: u64) -> bool {
    matches!(kind, kind::READ | kind::WRITE | kind::SPIN)
}

/// Says that this thread is going to wait for a lock; since when, or 0 when no events are written.
///
/// # Safety
/// The lock must be there.
pub(super) unsafe fn begin_wait(state: &State, operation: u64, key: u64, caller: u64) -> u64 {
    let Some(operation) = Operation::of(operation).filter(|_| state.settings.events != 0) else {
        return 0;
    };
    let (lock, kind) = lock_of(key);
    add(&state.waiting, lock);
    // SAFETY: by contract.
    let owner = unsafe {
        if is_mutex(kind) {
            mark(state, lock);
        }
        u64::from(owner_of(state, operation, lock))
    };
    let since = now();
    write(
        state,
        [
            since,
            0,
            key,
            caller | what::ATTEMPT << KIND_SHIFT,
            owner << 32,
        ],
    );
    since
}

/// Says how a wait ended.
///
/// # Safety
/// The lock must be there, and held if it was acquired.
pub(super) unsafe fn end_wait(state: &State, call: &Noted, what: u64, caller: u64) {
    let time = now();
    let (lock, kind) = lock_of(call.key);
    let mut owner = 0;
    let mut waits_on = false;
    if is_silent(kind) {
        // Who waited for it is one whom its release concerns until it has let go itself.
        waits_on = what == what::ACQUIRED && hold(state, lock);
        if what == what::GAVE_UP {
            // SAFETY: by contract.
            owner = unsafe { owner_of(state, Operation::Write, lock) };
            if owner != 0 {
                owe(state, lock, owner);
            }
        }
    } else if is_mutex(kind) {
        // SAFETY: by contract; a thread that has just waited for the lock may look at it.
        unsafe {
            if what == what::GAVE_UP {
                owner = owe_owner(state, lock);
            } else {
                hold(state, lock);
                mark(state, lock);
            }
        }
    }
    if !waits_on {
        subtract(&state.waiting, lock);
    }
    let words = [
        time,
        call.since,
        call.key,
        caller | what << KIND_SHIFT,
        u64::from(owner) << 32,
    ];
    write(state, words);
}

/// A wait will have no end that is seen.
pub(super) fn forget_wait(state: &State, key: u64) {
    subtract(&state.waiting, lock_of(key).0);
}

/// A thread has its mutex again after a wait for a condition: told when others wait for it.
pub(super) fn acquired_again(state: &State, key: u64, caller: u64) {
    let (lock, _) = lock_of(key);
    if state.settings.events != 0 && is_waited_for(state, lock) {
        hold(state, lock);
        write(
            state,
            [
                now(),
                0,
                key,
                caller | what::ACQUIRED_AGAIN << KIND_SHIFT,
                0,
            ],
        );
    }
}

/// Says that a lock was released.
pub(super) fn released(state: &State, time: u64, key: u64, what: u64, caller: u64) {
    write(state, [time, 0, key, caller | what << KIND_SHIFT, 0]);
}

/// Whether a release of a lock by this thread is to be told, which it has made or is going to make. Asked
/// once for each.
pub(super) fn is_told(state: &State, lock: u64) -> bool {
    // Each has an effect.
    let held = let_go(state, lock);
    held || is_waited_for(state, lock) || is_owed(state, lock)
}

/// The same of a read-write lock or a spin lock.
pub(super) fn is_leaving_told(state: &State, lock: u64) -> bool {
    if leaves_once(state, lock) {
        return false;
    }
    let held = let_go(state, lock);
    if held {
        subtract(&state.waiting, lock);
    }
    held || is_waited_for(state, lock) || is_owed(state, lock)
}

/// The number that no thread has: whoever releases the lock.
const ANYBODY: u32 = u32::MAX;

/// Leaves a note to the owner of a mutex, and says who that is: 0 when the mutex does not tell, and
/// [`NOBODY`].
///
/// # Safety
/// The mutex must be there.
unsafe fn owe_owner(state: &State, lock: u64) -> u32 {
    // SAFETY: by contract.
    let (is_free, owner) = unsafe {
        let is_free = is_free(state, lock);
        (is_free, owner_of(state, Operation::Lock, lock))
    };
    if is_free {
        return NOBODY;
    }
    owe(state, lock, owner);
    owner
}

/// Leaves a note to a thread, 0 for whoever releases the lock next.
fn owe(state: &State, lock: u64, to: u32) {
    if let Some(owed) = entry(&state.owed, lock) {
        owed.store(if to == 0 { ANYBODY } else { to }, Ordering::SeqCst);
    }
}

/// Whether there is a note to this thread; it is taken away.
fn is_owed(state: &State, lock: u64) -> bool {
    let Some(owed) = entry(&state.owed, lock) else {
        return false;
    };
    let to = owed.load(Ordering::SeqCst);
    let order = Ordering::SeqCst;
    (to == ANYBODY || to != 0 && to == own_number(state))
        && owed.compare_exchange(to, 0, order, order).is_ok()
}

/// Whether somebody may be noted to wait for a lock: sure only where events are written.
pub(super) fn may_be_waited_for(state: &State, lock: u64) -> bool {
    state.settings.events == 0 || is_waited_for(state, lock)
}

fn is_waited_for(state: &State, lock: u64) -> bool {
    entry(&state.waiting, lock).is_some_and(|n| n.load(Ordering::SeqCst) != 0)
}

fn entry(table: &[AtomicU32], lock: u64) -> Option<&AtomicU32> {
    table.get(place_of(lock, WAITING_BITS))
}

fn add(table: &[AtomicU32], lock: u64) {
    if let Some(number) = entry(table, lock) {
        number.fetch_add(1, Ordering::SeqCst);
    }
}

fn subtract(table: &[AtomicU32], lock: u64) {
    if let Some(number) = entry(table, lock) {
        number.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Notes that this thread holds a lock after a wait. Who has no place for it leaves a note for the next
/// release, whoever makes it. Whether it was noted and had not been before.
fn hold(state: &State, lock: u64) -> bool {
    if held_entry(state, lock).is_some() {
        return false;
    }
    let free = held_by_me(state)
        .iter()
        .find(|h| h.load(Ordering::Relaxed) == 0);
    match free {
        Some(free) => free.store(lock, Ordering::Relaxed),
        None => owe(state, lock, own_number(state)),
    }
    free.is_some()
}

/// A thread has acquired a read-write lock for reading: maybe it reads already, after a wait.
pub(super) fn acquired_to_read(state: &State, lock: u64) {
    if state.settings.events != 0
        && is_waited_for(state, lock)
        && let Some(mine) = held_entry(state, lock)
    {
        let deeper = mine.load(Ordering::Relaxed).saturating_add(1 << KIND_SHIFT);
        mine.store(deeper, Ordering::Relaxed);
    }
}

/// Whether this thread holds a lock after a wait, and will do so after the next release as well.
fn leaves_once(state: &State, lock: u64) -> bool {
    let mine = held_entry(state, lock);
    mine.is_some_and(|mine| {
        let held = mine.load(Ordering::Relaxed);
        let is_deep = held >> KIND_SHIFT != 0;
        if is_deep {
            mine.store(held - (1 << KIND_SHIFT), Ordering::Relaxed);
        }
        is_deep
    })
}

/// Whether this thread held a lock after a wait. It does no more.
fn let_go(state: &State, lock: u64) -> bool {
    let mine = held_entry(state, lock);
    mine.inspect(|mine| mine.store(0, Ordering::Relaxed))
        .is_some()
}

fn held_by_me(state: &State) -> &[AtomicU64] {
    let held = own_block(state).and_then(|block| state.held.get(block));
    held.map_or(&[], |held| held.as_slice())
}

fn held_entry(state: &State, lock: u64) -> Option<&AtomicU64> {
    let is_it = |h: &&AtomicU64| lock_of(h.load(Ordering::Relaxed)).0 == lock;
    held_by_me(state).iter().find(is_it)
}

/// Writes an event, and with it the number of this thread.
fn write(state: &State, mut words: [u64; EVENT_WORDS]) {
    let order = Ordering::Relaxed;
    words[EVENT_WORDS - 1] |= u64::from(own_number(state));
    let number = state.totals.begun.fetch_add(1, order);
    let Some(event) = state.totals.events.get(number as usize % EVENTS) else {
        return;
    };
    let Event {
        seal,
        time,
        since,
        key,
        caller,
        threads,
    } = event;
    for (place, word) in [time, since, key, caller, threads].into_iter().zip(words) {
        place.store(word, order);
    }
    seal.store(seal_of(number, &words), Ordering::Release);
}
