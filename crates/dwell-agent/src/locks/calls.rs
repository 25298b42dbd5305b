//! Calls that go on into the real function, from their entry to their return.
//!
//! A call is told from all others under way by the place of its return address. Those that never return
//! (longjmp, cancellation) leave a note behind, which the next call at the same place replaces.
use super::counters::{Counters, Event, own_block, this_thread, tid_by_libc};
use super::layout::{CALL_BITS, Call, State, key_of, kind, libc, lock_of, place_of};
use super::operation::{CONTENDED, EBUSY, Operation, Outcome};
use crate::count::owner_lives;
use crate::layout::{Link, Registers};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

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
const ANSWERED: u64 = 1 << 63;
/// The bits of a glibc mutex' kind that must be 0 for the plain algorithm: type, robust, priority
/// inheritance and ceiling, elision.
const GLIBC_PLAIN: u32 = 0x17f;
/// The same of a musl mutex.
const MUSL_PLAIN: u32 = 0xf;

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
    // SAFETY: the lock is the argument of a function that is going to read it as well.
    let kind = unsafe { kind_of(state.settings.libc, operation, lock) };
    let key = key_of(lock, kind);
    let mut is_contended = number & CONTENDED != 0;
    let is_plain = kind == 0 && matches!(operation, Operation::Lock | Operation::TryLock);
    let counters = Counters::of(state, key);
    if is_plain && !is_contended {
        // SAFETY: as above; a plain mutex of this libc.
        match unsafe { take_plain(state, lock) } {
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
    let call = Call {
        sp: AtomicU64::new(sp),
        key: AtomicU64::new(key),
        mutex: AtomicU64::new(arguments_at.rsi),
        operation: AtomicU64::new(operation as u64 | if is_contended { CONTENDED } else { 0 }),
    };
    note(state, &call);
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
    let Some((key, mutex, number)) = take_note(state, sp) else {
        return;
    };
    let Some(operation) = Operation::of(number) else {
        return;
    };
    let outcome = operation.outcome(result);
    if operation == Operation::Condition && state.settings.libc == libc::GLIBC {
        // SAFETY: whoever waits for a condition holds the mutex when that is over.
        unsafe { reacquired(state, mutex, outcome) };
    }
    let counters = Counters::of(state, key);
    match outcome {
        Outcome::Acquired => {
            // SAFETY: the lock is held, so it is there.
            if operation.is_mutex() && unsafe { is_nested(state.settings.libc, key) } {
                counters.add(Event::Nested);
                return;
            }
            counters.add(Event::Acquired);
            if number & CONTENDED != 0 {
                counters.add(Event::Contended);
            }
        }
        Outcome::Failed => counters.add(Event::Failed),
        Outcome::TimedOut => counters.add(Event::TimedOut),
        Outcome::Nothing => {}
    }
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
    let counters = Counters::of(state, key_of(at.rdi, kind));
    match operation.outcome(at.rax as i32) {
        Outcome::Acquired => counters.add(Event::Acquired),
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

/// After a wait for a condition its mutex has been acquired anew, however the wait ended. musl does
/// that by its own `pthread_mutex_lock`, which is hooked.
///
/// # Safety
/// `mutex` must be a glibc mutex.
unsafe fn reacquired(state: &State, mutex: u64, outcome: Outcome) {
    if matches!(outcome, Outcome::Acquired | Outcome::TimedOut) {
        // SAFETY: by contract.
        let kind = unsafe { kind_of(libc::GLIBC, Operation::Lock, mutex) };
        Counters::of(state, key_of(mutex, kind)).add(Event::Acquired);
    }
}

/// The word at an address.
///
/// # Safety
/// It must be mapped and aligned.
unsafe fn word(address: u64) -> u32 {
    // SAFETY: by contract.
    unsafe { (*(address as *const AtomicU32)).load(Ordering::Relaxed) }
}

/// The kind of a lock.
///
/// # Safety
/// `lock` must be what the operation's function takes.
unsafe fn kind_of(whose: u64, operation: Operation, lock: u64) -> u64 {
    match operation {
        Operation::Read | Operation::TryRead => kind::READ,
        Operation::Write | Operation::TryWrite => kind::WRITE,
        Operation::Spin | Operation::TrySpin => kind::SPIN,
        Operation::Condition => kind::CONDITION,
        Operation::Barrier => kind::BARRIER,
        Operation::Down | Operation::TryDown => kind::SEMAPHORE,
        Operation::Lock | Operation::TryLock | Operation::TimedLock => match whose {
            libc::GLIBC => {
                // SAFETY: by contract; the layout is part of glibc's ABI.
                let bits = u64::from(unsafe { word(lock + 16) });
                // 16, 32 and 64: robust, priority inheritance and ceiling.
                bits & kind::TYPE | bits >> 2 & (kind::ROBUST | kind::INHERIT | kind::PROTECT)
            }
            libc::MUSL => {
                // SAFETY: by contract; the layout is part of musl's ABI.
                let bits = u64::from(unsafe { word(lock) });
                bits & (kind::TYPE | kind::ROBUST | kind::INHERIT)
            }
            _ => kind::MUTEX,
        },
    }
}

/// Takes a plain mutex as libc would; false when it is taken, none when only libc itself can tell.
///
/// # Safety
/// `lock` must be a mutex of this libc, of kind 0.
unsafe fn take_plain(state: &State, lock: u64) -> Option<bool> {
    let take = |at: u64, value: u32| {
        // SAFETY: the mutex' own word.
        let word = unsafe { &*(at as *const AtomicU32) };
        word.compare_exchange(0, value, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    };
    match state.settings.libc {
        // A thread whose number is not sure has no block.
        libc::GLIBC => {
            own_block(state)?;
            // SAFETY: as `kind_of`.
            if unsafe { word(lock + 16) } & GLIBC_PLAIN != 0 {
                return None;
            }
            let taken = take(lock, 1);
            if taken {
                let tid = tid_by_libc(state.settings.tid_offset);
                // SAFETY: who holds the mutex alone writes its owner and its number of users.
                unsafe {
                    (*((lock + 8) as *const AtomicU32)).store(tid, Ordering::Relaxed);
                    let users = &*((lock + 12) as *const AtomicU32);
                    users.store(
                        users.load(Ordering::Relaxed).wrapping_add(1),
                        Ordering::Relaxed,
                    );
                }
            }
            Some(taken)
        }
        libc::MUSL => {
            // SAFETY: as `kind_of`.
            let is_plain = unsafe { word(lock) } & MUSL_PLAIN == 0;
            is_plain.then(|| take(lock + 4, EBUSY as u32))
        }
        _ => None,
    }
}

/// Whether a lock that is not taken by the quick way looks taken, by another thread. A look before the
/// real attempt: it may have changed by then.
///
/// # Safety
/// `lock` must be what the operation's function takes.
unsafe fn is_taken(state: &State, operation: Operation, lock: u64) -> bool {
    let settings = &state.settings;
    let is_glibc = settings.libc == libc::GLIBC;
    // SAFETY: by contract; the layouts are part of the libcs' ABIs.
    unsafe {
        match operation {
            Operation::Lock | Operation::TimedLock if is_glibc => {
                let is_mine =
                    settings.tid_offset != 0 && word(lock + 8) == tid_by_libc(settings.tid_offset);
                word(lock) != 0 && !is_mine
            }
            Operation::Lock | Operation::TimedLock if settings.libc == libc::MUSL => {
                word(lock + 4) != 0 && !is_mine_by_musl(lock)
            }
            // Readers are counted from bit 3 on; bit 1 says that a writer has or wants it.
            Operation::Read if is_glibc => word(lock) & 2 != 0,
            Operation::Write if is_glibc => word(lock) & 2 != 0 || word(lock) >> 3 != 0,
            Operation::Spin if is_glibc => word(lock) != 1,
            Operation::Down if is_glibc => word(lock) == 0,
            _ => false,
        }
    }
}

/// Whether this thread holds a musl mutex that knows its owner: the thread is told by the number that
/// musl keeps 48 bytes behind its fs base. Only ever a hint.
///
/// # Safety
/// `lock` must be a musl mutex.
unsafe fn is_mine_by_musl(lock: u64) -> bool {
    const TID: u64 = 48;
    const TID_BITS: u32 = 0x3fff_ffff;
    // SAFETY: the thread's control block reaches farther; the lock by contract.
    unsafe { word(lock + 4) & TID_BITS == word(this_thread() + TID) }
}

/// Whether a mutex that has just been acquired was this thread's already.
///
/// # Safety
/// The mutex must be held.
unsafe fn is_nested(whose: u64, key: u64) -> bool {
    let (lock, kind) = lock_of(key);
    if kind > kind::TYPE + kind::ROBUST + kind::INHERIT + kind::PROTECT
        || kind & kind::TYPE != kind::RECURSIVE
    {
        return false;
    }
    // SAFETY: by contract; glibc counts from 1, musl from 0.
    unsafe {
        match whose {
            libc::GLIBC => word(lock + 4) > 1,
            libc::MUSL => word(lock + 20) > 0,
            _ => false,
        }
    }
}

fn bucket(state: &State, sp: u64) -> &[Call] {
    // Return addresses lie 16 bytes apart; stacks often megabytes.
    let place = place_of(sp >> 4 ^ sp >> 20, CALL_BITS);
    state.calls.get(place).map_or(&[], |b| b.as_slice())
}

/// Remembers a call. What is still noted at its place belongs to a call that never returned.
fn note(state: &State, call: &Call) {
    let order = Ordering::Relaxed;
    let sp = call.sp.load(order);
    let bucket = bucket(state, sp);
    let is_mine = |c: &&Call| c.sp.load(order) == sp;
    let is_free = |c: &&Call| c.sp.compare_exchange(0, sp, order, order).is_ok();
    let known = bucket.iter().find(is_mine);
    let place = known.or_else(|| bucket.iter().find(is_free)).or_else(|| {
        // Full, most likely of calls that never returned.
        let turn = state.totals.forgotten.fetch_add(1, order) as usize % super::layout::CALL_WAYS;
        let oldest = bucket.get(turn)?;
        oldest.sp.store(sp, order);
        Some(oldest)
    });
    let Some(place) = place else {
        return;
    };
    let mut operation = call.operation.load(order);
    // musl goes on from `pthread_mutex_lock` into `pthread_mutex_timedlock`, by a jump.
    let before = place.operation.load(order);
    let goes_on = known.is_some()
        && place.key.load(order) == call.key.load(order)
        && Operation::of(before) == Some(Operation::Lock)
        && Operation::of(operation) == Some(Operation::TimedLock);
    if goes_on {
        operation |= before & CONTENDED;
    }
    place.key.store(call.key.load(order), order);
    place.mutex.store(call.mutex.load(order), order);
    place.operation.store(operation, order);
}

/// What was noted of the call that returns now: its key, its second argument, its operation.
fn take_note(state: &State, sp: u64) -> Option<(u64, u64, u64)> {
    let order = Ordering::Relaxed;
    let found = bucket(state, sp).iter().find(|c| c.sp.load(order) == sp)?;
    let noted = (
        found.key.load(order),
        found.mutex.load(order),
        found.operation.load(order),
    );
    found.sp.store(0, order);
    Some(noted)
}
