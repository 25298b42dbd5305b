//! Calls that go on into the real function, from their entry to their return.
//!
//! A call is told from all others under way by the place of its return address. Those that never return
//! (longjmp, cancellation) leave a note behind, which the next call at the same place replaces.
use super::counters::{Counters, Event, own_block};
use super::events;
use super::layout::{
    CALL_BITS, Call, KIND_SHIFT, State, key_of, kind, libc, lock_of, place_of, what,
};
use super::operation::{CONTENDED, EBUSY, EOWNERDEAD, Operation, Outcome, SERIAL_THREAD};
use super::release;
use super::words::{is_nested, is_taken, kind_of, take_plain};
use crate::count::owner_lives;
use crate::layout::{KEPT_LEN, Link, Registers};
use core::sync::atomic::Ordering;

/// What `dwell_enter` saves, lowest address first.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Arguments {
    resume: u64,
    r9: u64,
    r8: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
}

/// Set beside a result when the call is answered.
pub(super) const ANSWERED: u64 = 1 << 63;
/// A call that the quick way does not answer: because the lock is taken, because it is no plain mutex,
/// or because this thread has no slot for it yet.
///
/// # Safety
/// `link` must be that of a mapped arena with a [`State`]; `arguments` what the entry saved.
pub(super) unsafe extern "C" fn enter(
    link: *const Link,
    number: u64,
    arguments: *const Arguments,
) -> u64 {
    // SAFETY: by contract.
    let (link, arguments_at) = unsafe { (&*link, &*arguments) };
    // SAFETY: by contract; the state is zero or written by us, and all that changes in it is atomic.
    let state = unsafe { &*(link.state as *const State) };
    // SAFETY: the arena keeps its owner's word mapped.
    let is_quiet = unsafe { !owner_lives(link.owner) } || is_child(state);
    let Some(operation) = Operation::of(number).filter(|_| !is_quiet) else {
        return 0;
    };
    let sp = arguments as u64 + size_of::<Arguments>() as u64;
    // SAFETY: an entry's stack begins with the return address.
    if operation.is_try() && is_inside(state, unsafe { *(sp as *const u64) }) {
        return 0;
    }
    let lock = arguments_at.rdi;
    // SAFETY: as above.
    let caller = unsafe { *(sp as *const u64) };
    if operation == Operation::Unlock {
        // SAFETY: the argument of the function that releases a mutex.
        unsafe { release::unlock(state, lock, caller) };
        return 0;
    }
    if operation == Operation::Leave {
        // SAFETY: the argument of the function that lets a read-write lock go.
        unsafe { release::leave(state, lock, caller) };
        return 0;
    }
    if operation == Operation::LeaveSpin {
        release::leave_spin(state, lock, caller);
        return 0;
    }
    if operation == Operation::Condition {
        note_condition(state, caller);
        // SAFETY: who waits for a condition holds the mutex, which the function is going to release.
        unsafe { release::unlock_to_wait(state, arguments_at.rsi, caller) };
    }
    // SAFETY: the lock is the argument of a function that is going to read it as well.
    let kind = unsafe { kind_of(state.settings.libc, operation, lock) };
    let key = key_of(lock, kind);
    let mut is_contended = number & CONTENDED != 0;
    if !is_contended {
        let counters = Counters::of(state, key);
        let is_plain = kind == 0 && matches!(operation, Operation::Lock | Operation::TryLock);
        let taken = match is_plain {
            // SAFETY: as above; a plain mutex of this libc.
            true => unsafe { take_plain(state, lock) },
            false => None,
        };
        match taken {
            Some(true) => {
                counters.add(Event::Acquired);
                return ANSWERED;
            }
            Some(false) if operation.is_try() => {
                counters.add(Event::Failed);
                return ANSWERED | EBUSY as u64;
            }
            Some(false) => is_contended = true,
            None => {}
        }
    }
    // SAFETY: as above.
    is_contended |= unsafe { is_taken(state, operation, lock) };
    let is_retake = operation == Operation::Retake;
    // What takes a mutex again is called inside of libc. Whose wait for a condition that ends is not known where the
    // wait began before we came: then nobody is named.
    let caller = match operation {
        Operation::Retake => take_condition(state).unwrap_or(0),
        _ => caller,
    };
    let call = Noted {
        sp,
        key,
        detail: if is_retake { caller } else { arguments_at.rsi },
        operation: operation as u64 | if is_contended { CONTENDED } else { 0 },
        ..Noted::default()
    };
    // SAFETY: as above.
    unsafe { note(state, &call, caller) };
    0
}

/// A function of those hooked returns: the call is counted, if its entry was seen.
///
/// # Safety
/// `link` must be that of a mapped arena with a [`State`]; `registers` what the stub saved at a `ret`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_leave(
    link: *const Link,
    _site: u64,
    registers: *mut Registers,
) {
    // SAFETY: by contract.
    let (link, result) = unsafe { (&*link, (*registers).rax as i32) };
    // SAFETY: as in `enter`.
    let state = unsafe { &*(link.state as *const State) };
    let sp = registers as u64 + size_of::<Registers>() as u64;
    let Some(call) = take_note(state, sp) else {
        return;
    };
    if result == 0 && call.is_wait_for_mutex() {
        // SAFETY: at a `ret` the stack begins with the return address; where the result is 0 the mutex is held.
        let is_told = unsafe { events::acquired_as_usual(state, &call, *(sp as *const u64)) };
        if is_told {
            return;
        }
    }
    let Some(operation) = Operation::of(call.operation) else {
        return;
    };
    let caller = match operation {
        Operation::Retake => call.detail,
        // SAFETY: at a `ret` the stack begins with the return address.
        _ => unsafe { *(sp as *const u64) },
    };
    let outcome = operation.outcome(result);
    let settings = &state.settings;
    if operation == Operation::Condition && settings.libc == libc::GLIBC && settings.retakes == 0 {
        // SAFETY: whoever waits for a condition holds the mutex when that is over.
        unsafe { reacquired(state, call.detail, outcome, caller) };
    }
    // SAFETY: the lock is held, so it is there.
    let is_nested = outcome == Outcome::Acquired
        && operation.is_mutex()
        && unsafe { is_nested(state.settings.libc, call.key) };
    if operation.is_read() && outcome == Outcome::Acquired {
        // Before it is noted that it holds the lock.
        events::acquired_to_read(state, lock_of(call.key).0);
    }
    if call.since != 0 {
        let what = match outcome {
            _ if is_nested => what::GAVE_UP,
            Outcome::Acquired if result == EOWNERDEAD => what::INHERITED,
            Outcome::Acquired if is_last_at_barrier(state, operation, result) => what::PASSED,
            Outcome::Acquired => what::ACQUIRED,
            _ => what::GAVE_UP,
        };
        // SAFETY: as above.
        unsafe { events::end_wait(state, &call, what, caller) };
    } else if operation == Operation::Retake && outcome == Outcome::Acquired && !is_nested {
        events::acquired_again(state, call.key, caller);
    }
    let counters = Counters::of(state, call.key);
    match outcome {
        // In the place next to that one, where there is room: the quick way looks there.
        Outcome::Acquired if is_nested => {
            let again = call.key | kind::NESTED << KIND_SHIFT;
            Counters::of(state, again).add(Event::Acquired);
        }
        Outcome::Acquired => {
            counters.add(Event::Acquired);
            if call.operation & CONTENDED != 0 {
                counters.add(Event::Contended);
            }
        }
        Outcome::Failed => counters.add(Event::Failed),
        Outcome::TimedOut => counters.add(Event::TimedOut),
        Outcome::Nothing => {}
    }
}

/// Whether a result is that of the thread that was the last to come to a barrier. musl gives it to the first.
fn is_last_at_barrier(state: &State, operation: Operation, result: i32) -> bool {
    operation == Operation::Barrier && result == SERIAL_THREAD && state.settings.libc == libc::GLIBC
}

/// Remembers where the wait for a condition returns to that this thread begins.
fn note_condition(state: &State, caller: u64) {
    let place = own_block(state).and_then(|block| state.conditions.get(block));
    if let Some(place) = place {
        place.store(caller, Ordering::Relaxed);
    }
}

/// Where the wait for a condition returns to that this thread ends, when that is known.
fn take_condition(state: &State) -> Option<u64> {
    let place = state.conditions.get(own_block(state)?)?;
    Some(place.swap(0, Ordering::Relaxed)).filter(|caller| *caller != 0)
}

/// Whether this is a child of the process that dwell has attached to.
fn is_child(state: &State) -> bool {
    state.settings.pid == 0
}

/// Whether a try comes from libc itself.
fn is_inside(state: &State, from: u64) -> bool {
    let ranges = &state.settings.inside;
    ranges
        .iter()
        .any(|[start, len]| from.wrapping_sub(*start) < *len)
}

/// An operation whose function keeps its argument in rdi to the end returns: its entry need not be seen.
///
/// # Safety
/// As [`dwell_agent_leave`], of such a function.
unsafe fn result(link: *const Link, registers: *mut Registers, operation: Operation) {
    // SAFETY: by contract.
    let (link, at) = unsafe { (&*link, &*registers) };
    // SAFETY: as in `enter`.
    let state = unsafe { &*(link.state as *const State) };
    let sp = registers as u64 + size_of::<Registers>() as u64;
    // SAFETY: the owner's word is mapped; at a `ret` the stack begins with the return address.
    let is_own = unsafe {
        !owner_lives(link.owner)
            || is_child(state)
            || operation.is_try() && is_inside(state, *(sp as *const u64))
    };
    if is_own {
        return;
    }
    // SAFETY: no word of the lock is read for the kinds of locks that come here.
    let kind = unsafe { kind_of(state.settings.libc, operation, at.rdi) };
    let key = key_of(at.rdi, kind);
    let counters = Counters::of(state, key);
    if operation == Operation::Spin && events::may_be_waited_for(state, at.rdi) {
        // SAFETY: the lock has just been acquired.
        unsafe { end_spinning(state, sp, key, &counters) };
    }
    match operation.outcome(at.rax as i32) {
        Outcome::Acquired => {
            counters.add(Event::Acquired);
            if operation.is_read() {
                events::acquired_to_read(state, at.rdi);
            }
        }
        Outcome::Failed => counters.add(Event::Failed),
        Outcome::TimedOut | Outcome::Nothing => {}
    }
}

/// A handler at the `ret`s of a function that keeps its argument.
macro_rules! result_of {
    ($name:ident, $operation:ident) => {
        /// The function returns.
        ///
        /// # Safety
        /// As [`dwell_agent_leave`], of a function that keeps its first argument in rdi.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name(link: *const Link, _: u64, registers: *mut Registers) {
            // SAFETY: by contract.
            unsafe { result(link, registers, Operation::$operation) }
        }
    };
}

result_of!(dwell_agent_result_spin, Spin);
result_of!(dwell_agent_result_tryspin, TrySpin);
result_of!(dwell_agent_result_tryread, TryRead);
result_of!(dwell_agent_result_trywrite, TryWrite);
result_of!(dwell_agent_result_trydown, TryDown);

/// A turn of the loop in which glibc waits for a spin lock.
///
/// # Safety
/// As [`passes`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_spins(link: *const Link, _: u64, registers: *mut Registers) {
    // SAFETY: by contract.
    unsafe { passes(link, registers, Operation::Spin, CONTENDED) }
}

/// What stands in for the entry of `pthread_rwlock_tryrdlock`, where that cannot be hooked.
///
/// # Safety
/// As [`passes`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_tryread_passes(
    link: *const Link,
    _: u64,
    registers: *mut Registers,
) {
    // SAFETY: by contract.
    unsafe { passes(link, registers, Operation::TryRead, 0) }
}

/// A call of an operation passes an instruction, for the first time or again.
///
/// # Safety
/// As [`dwell_agent_leave`], at an instruction where the function has its argument in rdi still and nothing on
/// the stack.
unsafe fn passes(
    link: *const Link,
    registers: *mut Registers,
    operation: Operation,
    contended: u64,
) {
    // SAFETY: by contract.
    let (link, lock) = unsafe { (&*link, (*registers).rdi) };
    // SAFETY: as in `enter`.
    let state = unsafe { &*(link.state as *const State) };
    let sp = registers as u64 + size_of::<Registers>() as u64 + KEPT_LEN;
    // SAFETY: no word of the lock is read for the kinds of locks that come here.
    let key = key_of(lock, unsafe {
        kind_of(state.settings.libc, operation, lock)
    });
    let order = Ordering::Relaxed;
    let is_mine = |c: &Call| c.sp.load(order) == sp && c.key.load(order) == key;
    // SAFETY: the arena keeps its owner's word mapped.
    let is_quiet = unsafe { !owner_lives(link.owner) } || is_child(state);
    if is_quiet || bucket(state, sp).iter().any(is_mine) {
        return;
    }
    let call = Noted {
        sp,
        key,
        operation: operation as u64 | contended,
        ..Noted::default()
    };
    // SAFETY: the lock is there, and the return address where the stack begins.
    unsafe { note(state, &call, *(sp as *const u64)) };
}

/// A thread has a spin lock: it had waited for it, if that was noted.
///
/// # Safety
/// It must hold the lock.
unsafe fn end_spinning(state: &State, sp: u64, key: u64, counters: &Counters<'_>) {
    let Some(call) = take_note(state, sp) else {
        return;
    };
    if call.key != key {
        // Of a call that never returned.
        if call.since != 0 {
            events::forget_wait(state, &call);
        }
        return;
    }
    counters.add(Event::Contended);
    if call.since != 0 {
        // SAFETY: at a `ret` the stack begins with the return address.
        let caller = unsafe { *(sp as *const u64) };
        // SAFETY: by contract.
        unsafe { events::end_wait(state, &call, what::ACQUIRED, caller) };
    }
}

/// After a wait for a condition its mutex has been acquired anew, however the wait ended. musl does
/// that by its own `pthread_mutex_lock`, which is hooked.
///
/// # Safety
/// `mutex` must be a glibc mutex.
unsafe fn reacquired(state: &State, mutex: u64, outcome: Outcome, caller: u64) {
    if matches!(outcome, Outcome::Acquired | Outcome::TimedOut) {
        // SAFETY: by contract.
        let kind = unsafe { kind_of(libc::GLIBC, Operation::Lock, mutex) };
        let key = key_of(mutex, kind);
        events::acquired_again(state, key, caller);
        Counters::of(state, key).add(Event::Acquired);
    }
}

fn bucket(state: &State, sp: u64) -> &[Call] {
    // Return addresses lie 16 bytes apart; stacks often megabytes.
    let place = place_of(sp >> 4 ^ sp >> 20, CALL_BITS);
    state.calls.get(place).map_or(&[], |b| b.as_slice())
}

/// What is noted of a call.
#[derive(Clone, Copy, Default)]
pub(super) struct Noted {
    sp: u64,
    pub key: u64,
    /// As in [`Call`].
    detail: u64,
    operation: u64,
    /// As in [`Call`].
    pub since: u64,
}

impl Noted {
    /// Whether it waits for a normal mutex, and has told so.
    fn is_wait_for_mutex(&self) -> bool {
        let is_wait = self.operation == Operation::Lock as u64 | CONTENDED && self.since != 0;
        is_wait && lock_of(self.key).1 == 0
    }
}

/// Remembers a call, and tells that it is going to wait. What is still noted at its place belongs to a call
/// that never returned.
///
/// # Safety
/// Its lock must be there.
unsafe fn note(state: &State, call: &Noted, caller: u64) {
    let order = Ordering::Relaxed;
    let bucket = bucket(state, call.sp);
    let is_mine = |c: &&Call| c.sp.load(order) == call.sp;
    let is_free = |c: &&Call| c.sp.compare_exchange(0, call.sp, order, order).is_ok();
    let known = bucket.iter().find(is_mine);
    let place = known.or_else(|| bucket.iter().find(is_free)).or_else(|| {
        // Full, most likely of calls that never returned.
        let turn = state.totals.forgotten.fetch_add(1, order) as usize % super::layout::CALL_WAYS;
        let oldest = bucket.get(turn)?;
        oldest.sp.store(call.sp, order);
        Some(oldest)
    });
    let Some(place) = place else {
        return;
    };
    let mut operation = call.operation;
    let before = place.operation.load(order);
    let goes_on = known.is_some()
        && state.settings.libc == libc::MUSL
        && place.key.load(order) == call.key
        && Operation::of(operation)
            .is_some_and(|now| Operation::of(before).is_some_and(|o| o.goes_on_as(now)));
    if goes_on {
        operation |= before & CONTENDED;
    } else if place.since.load(order) != 0 {
        events::forget_wait(state, &noted(place));
        place.since.store(0, order);
    }
    place.key.store(call.key, order);
    place.detail.store(call.detail, order);
    place.operation.store(operation, order);
    if operation & CONTENDED != 0 && place.since.load(order) == 0 {
        // SAFETY: by contract.
        let since = unsafe { events::begin_wait(state, operation, call.key, caller) };
        place.since.store(since, order);
    }
}

/// What was noted of the call that returns now.
fn take_note(state: &State, sp: u64) -> Option<Noted> {
    let order = Ordering::Relaxed;
    let found = bucket(state, sp).iter().find(|c| c.sp.load(order) == sp)?;
    let call = noted(found);
    found.since.store(0, order);
    found.sp.store(0, order);
    Some(call)
}

fn noted(call: &Call) -> Noted {
    let order = Ordering::Relaxed;
    Noted {
        sp: call.sp.load(order),
        key: call.key.load(order),
        detail: call.detail.load(order),
        operation: call.operation.load(order),
        since: call.since.load(order),
    }
}
