//! Releases of mutexes, read-write locks and spin locks that somebody waits for, or may wait for.
//!
//! A plain mutex is released by `entries`, as libc would do it; what comes here after that has released it
//! already and never looks at it again: it may be gone. Mutexes with an owner and a plain word are released
//! here. All others libc releases itself, after it was told.
use super::calls::ANSWERED;
use super::counters::{tid_by_libc, wake};
use super::events::{self, now};
use super::layout::{State, key_of, kind, libc, lock_of, what};
use super::operation::{EPERM, Operation};
use super::words::{GLIBC_OTHER_WORD, GLIBC_SHARED, MUSL_SHARED};
use super::words::{is_nested, is_writing, kind_of, own_number, owner_of, word};
use crate::count::owner_lives;
use crate::layout::Link;
use core::sync::atomic::{AtomicU32, Ordering};

/// The type of a mutex, of either libc.
const TYPE: u32 = 3;
const RECURSIVE: u32 = 1;
const ERROR_CHECKING: u32 = 2;

/// A glibc mutex of this kind was released; its word was neither 0 nor 1 but `was`, or it was free.
///
/// # Safety
/// `link` must be that of a mapped arena with a [`State`].
pub(super) unsafe extern "C" fn glibc_released(
    link: *const Link,
    lock: u64,
    kind: u32,
    was: u32,
    caller: u64,
) {
    let time = now();
    // SAFETY: by contract.
    unsafe {
        tell(
            link,
            time,
            key_of(lock, u64::from(kind & TYPE)),
            was,
            caller,
        )
    };
    if was == 2 {
        wake(lock, kind & GLIBC_SHARED == 0);
    }
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
    caller: u64,
    waiters: u32,
) {
    const HAS_WAITERS: u32 = 1 << 31;
    let time = now();
    // SAFETY: by contract.
    unsafe { tell(link, time, key_of(lock, 0), was, caller) };
    if waiters != 0 || was & HAS_WAITERS != 0 {
        wake(lock + 4, kind & MUSL_SHARED == 0);
    }
}

/// Tells of the release of a mutex, whose word was `was`.
///
/// # Safety
/// As [`glibc_released`].
unsafe fn tell(link: *const Link, time: u64, key: u64, was: u32, caller: u64) {
    // SAFETY: by contract.
    let (link, state) = unsafe { (&*link, &*((*link).state as *const State)) };
    // SAFETY: the arena keeps its owner's word mapped.
    let is_quiet = state.settings.pid == 0 || unsafe { !owner_lives(link.owner) };
    if is_quiet {
        return;
    }
    if was == 0 {
        state.totals.released_free.fetch_add(1, Ordering::Relaxed);
    } else if state.settings.events != 0 && events::is_told(state, lock_of(key).0) {
        events::released(state, time, key, what::RELEASED, caller);
    }
}

/// Releases a mutex that is not plain, or leaves that to libc.
///
/// # Safety
/// `lock` must be the argument of a function that releases a mutex.
pub(super) unsafe fn unlock(state: &State, lock: u64, caller: u64) -> u64 {
    let whose = state.settings.libc;
    // SAFETY: by contract.
    let is_ours = unsafe { whose == libc::GLIBC && word(lock + 16) & GLIBC_OTHER_WORD == 0 };
    if is_ours && state.settings.tid_offset != 0 {
        // SAFETY: by contract.
        return ANSWERED | u64::from(unsafe { unlock_glibc(state, lock, caller) });
    }
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
    0
}

/// Releases a glibc mutex with a plain word as libc would, and returns what it would.
///
/// # Safety
/// As [`unlock`], of such a mutex.
unsafe fn unlock_glibc(state: &State, lock: u64, caller: u64) -> u32 {
    let order = Ordering::Relaxed;
    // SAFETY: the layout is part of glibc's ABI; who holds the mutex alone writes these.
    unsafe {
        let field = |offset| &*((lock + offset) as *const AtomicU32);
        let (count, owner, users) = (field(4), field(8), field(12));
        let kind = word(lock + 16);
        let key = key_of(lock, kind_of(libc::GLIBC, Operation::Lock, lock));
        let is_mine = owner.load(order) == tid_by_libc(state.settings.tid_offset);
        match kind & TYPE {
            RECURSIVE if !is_mine => return EPERM as u32,
            RECURSIVE => {
                let left = count.load(order).wrapping_sub(1);
                count.store(left, order);
                if left != 0 {
                    return 0;
                }
            }
            ERROR_CHECKING if !is_mine || word(lock) == 0 => return EPERM as u32,
            _ => {}
        }
        owner.store(0, order);
        users.store(users.load(order).wrapping_sub(1), order);
        let was = field(0).swap(0, Ordering::Release);
        let time = now();
        if state.settings.events != 0 && events::is_told(state, lock) {
            events::released(state, time, key, what::RELEASED, caller);
        }
        if was == 2 {
            wake(lock, kind & GLIBC_SHARED == 0);
        }
    }
    0
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
