//! Releases of mutexes, read-write locks and spin locks that somebody waits for, or may wait for.
//!
//! A mutex with a plain word is released by `entries`, as libc would do it; what comes here after that has released it
//! already and never looks at it again: it may be gone. Whether the release is to be told is asked before a waiter is
//! woken, who may change the answer; it is told afterwards. All other locks libc releases itself, after that was told.
use super::events::{self, now};
use super::layout::{State, key_of, kind, libc, lock_of, what};
use super::operation::Operation;
use super::words::{GLIBC_SHARED, MUSL_SHARED};
use super::words::{is_nested, is_writing, kind_of, own_number, owner_of};
use crate::count::owner_lives;
use crate::layout::Link;
use core::sync::atomic::Ordering;

/// The type of a mutex, of either libc.
const TYPE: u32 = 3;

/// The operation of futex that wakes a thread, which waits in this process or in any; 0 where none is to be woken.
const fn waking(is_wanted: bool, is_shared: bool) -> u32 {
    const FUTEX_WAKE: u32 = 1;
    const FUTEX_PRIVATE: u32 = 128;
    match (is_wanted, is_shared) {
        (false, _) => 0,
        (true, false) => FUTEX_WAKE | FUTEX_PRIVATE,
        (true, true) => FUTEX_WAKE,
    }
}

/// What is still to be done of a release.
#[repr(C)]
pub(super) struct Released {
    /// How a thread is to be woken by the mutex' word; 0 when none is.
    waking: u64,
    /// When it was, where it is to be told; else 0.
    time: u64,
}

/// A glibc mutex was released; its word was neither 0 nor 1 but `was`, or it was free. `kind` is its kind.
///
/// # Safety
/// `link` must be that of a mapped arena with a [`State`].
pub(super) unsafe extern "C" fn glibc_released(
    link: *const Link,
    lock: u64,
    kind: u32,
    was: u32,
) -> Released {
    let waking = waking(was == 2, kind & GLIBC_SHARED != 0);
    // SAFETY: by contract.
    unsafe { released(link, lock, was, waking) }
}

/// The same of a normal musl mutex; `waiters` is what it said of their number before.
///
/// # Safety
/// As [`glibc_released`].
pub(super) unsafe extern "C" fn musl_released(
    link: *const Link,
    lock: u64,
    kind: u32,
    was: u32,
    waiters: u32,
) -> Released {
    const HAS_WAITERS: u32 = 1 << 31;
    let is_waking = waiters != 0 || was & HAS_WAITERS != 0;
    let waking = waking(is_waking, kind & MUSL_SHARED != 0);
    // SAFETY: by contract.
    unsafe { released(link, lock, was, waking) }
}

/// # Safety
/// As [`glibc_released`].
unsafe fn released(link: *const Link, lock: u64, was: u32, waking: u32) -> Released {
    let time = now();
    // SAFETY: by contract.
    let state = unsafe { listening(link) }.filter(|s| s.settings.events != 0 || was == 0);
    let is_told = state.is_some_and(|state| match was {
        0 => {
            state.totals.released_free.fetch_add(1, Ordering::Relaxed);
            false
        }
        _ => events::is_told(state, lock),
    });
    Released {
        waking: waking.into(),
        time: if is_told { time } else { 0 },
    }
}

/// Tells of the release of a mutex, after it has woken who waits. In the top byte of `key` is the mutex' kind.
///
/// # Safety
/// As [`glibc_released`].
pub(super) unsafe extern "C" fn tell_release(link: *const Link, time: u64, key: u64, caller: u64) {
    let (lock, kind) = lock_of(key);
    let key = key_of(lock, kind & u64::from(TYPE));
    // SAFETY: by contract.
    if let Some(state) = unsafe { listening(link) } {
        events::released(state, time, key, what::RELEASED, caller);
    }
}

/// The state, where dwell listens.
///
/// # Safety
/// As [`glibc_released`].
unsafe fn listening<'s>(link: *const Link) -> Option<&'s State> {
    // SAFETY: by contract.
    let (link, state) = unsafe { (&*link, &*((*link).state as *const State)) };
    // SAFETY: the arena keeps its owner's word mapped.
    let is_quiet = state.settings.pid == 0 || unsafe { !owner_lives(link.owner) };
    (!is_quiet).then_some(state)
}

/// A mutex is going to be released that `entries` leaves to libc.
///
/// # Safety
/// `lock` must be the argument of a function that releases a mutex.
pub(super) unsafe fn unlock(state: &State, lock: u64, caller: u64) {
    let whose = state.settings.libc;
    // SAFETY: by contract.
    unsafe {
        let kind = kind_of(whose, Operation::Lock, lock);
        let key = key_of(lock, kind);
        let owner = owner_of(state, Operation::Lock, lock);
        let is_last = owner == own_number(state) && !is_nested(whose, key);
        if state.settings.events != 0 && is_last && events::is_told(state, lock) {
            events::released(state, now(), key, what::RELEASED, caller);
        }
    }
}

/// A read-write lock is going to be let go, which somebody may wait for. Readers are not known by the lock: who
/// is not its writer reads.
///
/// # Safety
/// `lock` must be the argument of a function that lets a read-write lock go.
pub(super) unsafe fn leave(state: &State, lock: u64, caller: u64) {
    if state.settings.events != 0 && events::is_leaving_told(state, lock) {
        // SAFETY: by contract.
        let kind = match unsafe { is_writing(state, lock) } {
            true => kind::WRITE,
            false => kind::READ,
        };
        events::released(state, now(), key_of(lock, kind), what::RELEASED, caller);
    }
}

/// A spin lock is going to be let go, which somebody may wait for.
pub(super) fn leave_spin(state: &State, lock: u64, caller: u64) {
    if state.settings.events != 0 && events::is_leaving_told(state, lock) {
        let key = key_of(lock, kind::SPIN);
        events::released(state, now(), key, what::RELEASED, caller);
    }
}

/// A thread is going to wait for a condition and, for that, to release its mutex. musl does so by its own
/// `pthread_mutex_unlock`, which is hooked.
///
/// # Safety
/// `mutex` must be held, as the function demands that waits for a condition.
pub(super) unsafe fn unlock_to_wait(state: &State, mutex: u64, caller: u64) {
    let is_wanted = state.settings.events != 0 && state.settings.libc == libc::GLIBC;
    if is_wanted && events::is_told(state, mutex) {
        // SAFETY: by contract.
        let kind = unsafe { kind_of(libc::GLIBC, Operation::Lock, mutex) };
        let key = key_of(mutex, kind);
        events::released(state, now(), key, what::RELEASED_TO_WAIT, caller);
    }
}
