//! Who made a lock. That is no operation that is counted: it gives a lock a name that has none.
use super::layout::{MADE_BITS, MADE_WAYS, Made, State, place_of};
use crate::count::owner_lives;
use crate::layout::{Link, Registers};
use core::sync::atomic::Ordering;

/// A function that makes a lock of its first argument begins.
///
/// # Safety
/// `link` must be that of a mapped arena with a [`State`]; `registers` what the stub saved at an entry.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_makes(link: *const Link, _: u64, registers: *mut Registers) {
    // SAFETY: by contract.
    let Some((state, lock)) = (unsafe { lock_of(link, registers) }) else {
        return;
    };
    let sp = registers as u64 + size_of::<Registers>() as u64;
    // SAFETY: at an entry the stack begins with the return address.
    let caller = unsafe { *(sp as *const u64) };
    let bucket = bucket(state, lock);
    let place = |wanted: u64| {
        let mut found = bucket.iter();
        found.find(|m| m.lock.load(Ordering::Relaxed) == wanted)
    };
    // Any other one is as good.
    let other = || bucket.get((lock >> 4) as usize % MADE_WAYS);
    let Some(made) = place(lock).or_else(|| place(0)).or_else(other) else {
        return;
    };
    let before = made.lock.load(Ordering::Relaxed);
    let order = Ordering::Acquire;
    let claim = made
        .lock
        .compare_exchange(before, Made::CHANGING, order, Ordering::Relaxed);
    // Two who want one place at a time: the lock of one of them stays without a name.
    if before != Made::CHANGING && claim.is_ok() {
        made.caller.store(caller, Ordering::Relaxed);
        made.lock.store(lock, Ordering::Release);
    }
}

/// A function that destroys the lock that is its first argument begins.
///
/// # Safety
/// As [`dwell_agent_makes`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_destroys(
    link: *const Link,
    _: u64,
    registers: *mut Registers,
) {
    // SAFETY: by contract.
    let Some((state, lock)) = (unsafe { lock_of(link, registers) }) else {
        return;
    };
    for made in bucket(state, lock) {
        let order = Ordering::Relaxed;
        let _ = made.lock.compare_exchange(lock, 0, order, order);
    }
}

/// The state, and the first argument; none where dwell does not listen.
///
/// # Safety
/// As [`dwell_agent_makes`].
unsafe fn lock_of<'s>(link: *const Link, registers: *mut Registers) -> Option<(&'s State, u64)> {
    // SAFETY: by contract.
    let (link, lock) = unsafe { (&*link, (*registers).rdi) };
    // SAFETY: the state is zero or written by us, and all that changes in it is atomic.
    let state = unsafe { &*(link.state as *const State) };
    // SAFETY: the arena keeps its owner's word mapped.
    let is_quiet = unsafe { !owner_lives(link.owner) } || state.settings.pid == 0;
    (!is_quiet).then_some((state, lock))
}

fn bucket(state: &State, lock: u64) -> &[Made] {
    let made = state.totals.made.get(place_of(lock, MADE_BITS));
    made.map_or(&[], |bucket| bucket.as_slice())
}
