//! The events of contended operations: see `layout::Event`. An operation that finds its lock free, and is not
//! waited for when it releases it, comes here at no time.
//!
//! Who waits says so before it looks at the lock for the last time (`Minders::waiting`), so that a release that comes
//! later is told; who gives up leaves a note to the owner (`Minders::owed`), whose release is told as
//! well; who acquired a lock after a wait tells its own release (`held`). Numbers of threads are by the hash
//! of the lock: a release too many is told where two locks share it, and the reader knows that nobody waited.
//!
//! As little as can be is done before a thread waits for a mutex, and while it holds it: when and how both began it notes
//! in its own memory, and counts as one who waits until it has let the mutex go, which is when all is told.
use super::calls::Noted;
use super::counters::{own_block, slot};
use super::held::{self, Place};
use super::layout::{EVENTS, Event, KIND_SHIFT, Minders, NOBODY, State, WAITING_BITS, Words};
use super::layout::{kind, lock_of, place_of, what};
use super::operation::Operation;
use super::words::{is_free, mark, own_number, owner_of};
use core::sync::atomic::Ordering;

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
    add(state, lock);
    // SAFETY: by contract.
    let owner = unsafe {
        if is_mutex(kind) {
            mark(state, lock);
        }
        owner_of(state, operation, lock)
    };
    let since = now();
    let caller = caller | what::ATTEMPT << KIND_SHIFT;
    let words = [since, 0, key, caller, threads(state, owner)];
    match is_mutex(kind).then(|| held::free_attempt(state)).flatten() {
        Some(place) => place.note(&words),
        None => write(state, &words),
    }
    since
}

/// What comes of a wait for a normal mutex that has been acquired, as [`end_wait`] and the counters have it, for a thread
/// that is known here and holds nothing else that it had waited for. False for others: then nothing is done.
///
/// The mutex is held meanwhile by a thread that may just have slept, and finds no cache as it was. So this is little code,
/// and touches little memory.
///
/// # Safety
/// The mutex must be held.
pub(super) unsafe fn acquired_as_usual(state: &State, call: &Noted, caller: u64) -> bool {
    let time = now();
    let lock = call.key; // its kind is 0
    let Some(block) = own_block(state) else {
        return false;
    };
    let (Some(slot), Some(place)) = (slot(state, block, lock), held::first(state, block)) else {
        return false;
    };
    // SAFETY: by contract.
    unsafe { mark(state, lock) };
    place.take(lock);
    let caller = caller | what::ACQUIRED << KIND_SHIFT;
    let words = [time, call.since, lock, caller, threads(state, 0)];
    place.acquired.note(&words);
    slot.add_contended();
    true
}

/// Says how a wait ended.
///
/// # Safety
/// The lock must be there, and held if it was acquired.
pub(super) unsafe fn end_wait(state: &State, call: &Noted, what: u64, caller: u64) {
    let time = now();
    let (lock, kind) = lock_of(call.key);
    let words = |owner: u32| {
        let caller = caller | what << KIND_SHIFT;
        [time, call.since, call.key, caller, threads(state, owner)]
    };
    if is_mutex(kind) && what != what::GAVE_UP {
        // SAFETY: by contract; a thread that has just waited for the lock may look at it.
        unsafe { mark(state, lock) };
        if let Some(place) = hold(state, lock) {
            place.acquired.note(&words(0));
            return;
        }
    }
    let mut owner = 0;
    let mut waits_on = false;
    if is_silent(kind) {
        // Who waited for it is one whom its release concerns until it has let go itself.
        waits_on = what == what::ACQUIRED && hold(state, lock).is_some();
        if what == what::GAVE_UP {
            // SAFETY: by contract.
            owner = unsafe { owner_of(state, Operation::Write, lock) };
            if owner != 0 {
                owe(state, lock, owner);
            }
        }
    } else if is_mutex(kind) && what == what::GAVE_UP {
        // SAFETY: as above.
        owner = unsafe { owe_owner(state, lock) };
    }
    if !waits_on {
        subtract(state, lock);
    }
    tell_attempt(state, call.since, call.key);
    write(state, &words(owner));
}

/// A wait will have no end that is seen.
pub(super) fn forget_wait(state: &State, call: &Noted) {
    subtract(state, lock_of(call.key).0);
    tell_attempt(state, call.since, call.key);
}

/// A thread has its mutex again after a wait for a condition: told when others wait for it.
pub(super) fn acquired_again(state: &State, key: u64, caller: u64) {
    let (lock, _) = lock_of(key);
    if state.settings.events == 0 || !is_waited_for(state, lock) {
        return;
    }
    let caller = caller | what::ACQUIRED_AGAIN << KIND_SHIFT;
    let words = [now(), 0, key, caller, threads(state, 0)];
    add(state, lock);
    match hold(state, lock) {
        Some(place) => place.acquired.note(&words),
        None => {
            subtract(state, lock);
            write(state, &words);
        }
    }
}

/// Whether the release of a lock by this thread, which it has made or is going to make, is to be told. Asked
/// once for each, before [`released`].
pub(super) fn is_told(state: &State, lock: u64) -> bool {
    held::place(state, lock).is_some() || is_waited_for(state, lock) || is_owed(state, lock)
}

/// The same of a read-write lock or a spin lock.
pub(super) fn is_leaving_told(state: &State, lock: u64) -> bool {
    let stays = held::place(state, lock).is_some_and(Place::leaves_once);
    !stays && is_told(state, lock)
}

/// Tells that this thread released a lock and, unless that is told, how it acquired it.
pub(super) fn released(state: &State, time: u64, key: u64, what: u64, caller: u64) {
    let caller = caller | what << KIND_SHIFT;
    let release = [time, 0, key, caller, threads(state, 0)];
    match held::place(state, lock_of(key).0) {
        Some(place) => {
            tell_noted(state, place.acquired, Some(&release));
            place.free();
            subtract(state, lock_of(key).0);
        }
        None => write(state, &release),
    }
}

/// Tells how a wait began, unless that was told.
fn tell_attempt(state: &State, since: u64, key: u64) {
    if let Some(attempt) = noted_attempt(state, since, key) {
        tell_noted(state, attempt, None);
    }
}

fn noted_attempt(state: &State, since: u64, key: u64) -> Option<&Event> {
    let may_be_noted = since != 0 && is_mutex(lock_of(key).1);
    may_be_noted.then(|| held::attempt(state, since, key))?
}

/// Makes events of what is noted, of the beginning of the wait that ended so, and of what came `after`.
fn tell_noted(state: &State, noted: &Event, after: Option<&Words>) {
    let words = noted.noted();
    let attempt = words.and_then(|[_, since, key, ..]| noted_attempt(state, since, key));
    let began = attempt.and_then(Event::noted);
    // All threads take numbers in one place: one taking of several is cheaper.
    let told = [began.as_ref(), words.as_ref(), after];
    let first = reserve(state, told.iter().flatten().count() as u64);
    for (number, words) in (first..).zip(told.into_iter().flatten()) {
        write_at(state, number, words);
    }
    // After that: who reads the notes first and the events then misses none.
    noted.forget();
    if let Some(attempt) = attempt {
        attempt.forget();
    }
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
    if let Some(Minders { owed, .. }) = minders(state, lock) {
        owed.store(if to == 0 { ANYBODY } else { to }, Ordering::SeqCst);
    }
}

/// Whether there is a note to this thread; it is taken away.
fn is_owed(state: &State, lock: u64) -> bool {
    let Some(Minders { owed, .. }) = minders(state, lock) else {
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
    minders(state, lock).is_some_and(|m| m.waiting.load(Ordering::SeqCst) != 0)
}

fn minders(state: &State, lock: u64) -> Option<&Minders> {
    state.minders.get(place_of(lock, WAITING_BITS))
}

/// One thread more waits for a lock.
fn add(state: &State, lock: u64) {
    if let Some(Minders { waiting, .. }) = minders(state, lock) {
        waiting.fetch_add(1, Ordering::SeqCst);
    }
}

fn subtract(state: &State, lock: u64) {
    if let Some(Minders { waiting, .. }) = minders(state, lock) {
        waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Notes that this thread holds a lock after a wait, for which it is one who waits still. Who has no place for it
/// leaves a note for the next release, whoever makes it, and none is returned; also where the thread had the lock
/// already, by what is known: its release was not seen.
fn hold(state: &State, lock: u64) -> Option<Place<'_>> {
    if let Some(place) = held::place(state, lock) {
        tell_noted(state, place.acquired, None);
        return None;
    }
    let free = held::free_place(state);
    match free {
        Some(place) => place.take(lock),
        None => owe(state, lock, own_number(state)),
    }
    free
}

/// A thread has acquired a read-write lock for reading: maybe it reads already, after a wait.
pub(super) fn acquired_to_read(state: &State, lock: u64) {
    if state.settings.events != 0
        && is_waited_for(state, lock)
        && let Some(place) = held::place(state, lock)
    {
        place.deepen();
    }
}

/// The last word of an event: this thread, and another.
fn threads(state: &State, owner: u32) -> u64 {
    u64::from(owner) << 32 | u64::from(own_number(state))
}

/// Writes an event.
fn write(state: &State, words: &Words) {
    write_at(state, reserve(state, 1), words);
}

/// Takes numbers for events; returns the first.
fn reserve(state: &State, events: u64) -> u64 {
    state.totals.begun.fetch_add(events, Ordering::Relaxed)
}

fn write_at(state: &State, number: u64, words: &Words) {
    if let Some(event) = state.totals.events.get(number as usize % EVENTS) {
        event.write(number, words);
    }
}
