//! The target's memory, which may not be there: the kernel is asked, unless it is known to be.
use super::layout::State;
use super::pages::known;
use crate::system::{SYS_PROCESS_VM_READV, system_call};

const FAULT: i64 = -14;
const PAGE: u64 = 4096;

/// Whether bytes can be read as they are: those of the state, and those from here to the end of the stack's page,
/// where the firing's own memory is.
fn is_there(state: &State, from: u64, size: u64) -> bool {
    let start = state as *const State as u64;
    let marker = 0u64;
    let here = &raw const marker as u64;
    let within = |start: u64, end: u64| from >= start && from <= end && size <= end - from;
    within(start, start + state.len) || within(here, (here | (PAGE - 1)) + 1)
}

/// Copies bytes that are there.
fn copy(to: u64, size: u64, from: u64) {
    let whole = size & !7;
    for at in (0..whole).step_by(8) {
        // SAFETY: the caller has `size` bytes at `to`; those at `from` are there.
        unsafe {
            let word = ((from + at) as *const u64).read_unaligned();
            ((to + at) as *mut u64).write_unaligned(word);
        }
    }
    for at in whole..size {
        // SAFETY: as above.
        unsafe { ((to + at) as *mut u8).write(((from + at) as *const u8).read_volatile()) };
    }
}

/// Reads as much as there is; bytes read.
pub(super) fn read(state: &State, to: u64, size: u64, from: u64) -> u64 {
    if is_there(state, from, size) {
        copy(to, size, from);
        return size;
    }
    let (local, remote) = ([to, size], [from, size]);
    let arguments = [
        state.pid,
        local.as_ptr() as u64,
        1,
        remote.as_ptr() as u64,
        1,
        0,
    ];
    // SAFETY: writes to the caller's bytes only.
    let read = unsafe { system_call(SYS_PROCESS_VM_READV, arguments) as i64 };
    read.max(0) as u64
}

fn clear(to: u64, size: u64) {
    let whole = size & !7;
    for at in (0..whole).step_by(8) {
        // SAFETY: the caller has `size` bytes at `to`. Volatile, since there is no memset.
        unsafe { ((to + at) as *mut u64).write_unaligned(core::hint::black_box(0)) };
    }
    for at in whole..size {
        // SAFETY: as above.
        unsafe { ((to + at) as *mut u8).write_volatile(0) };
    }
}

/// Reads bytes; 0, or negative if they are not all there: then there are zeros.
///
/// # Safety
/// `to` must have room for `size` bytes; `state` must be the address of a state.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_read(
    to: u64,
    size: u64,
    from: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> i64 {
    // SAFETY: by contract.
    if read(unsafe { &*state }, to, size, from) == size {
        return 0;
    }
    clear(to, size);
    FAULT
}

/// The same in a thread of the target, which need not ask for pages that are known.
///
/// # Safety
/// As [`dwell_agent_script_read`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_read_own(
    to: u64,
    size: u64,
    from: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> i64 {
    // SAFETY: by contract.
    if known(unsafe { &*state }, from) >= size {
        copy(to, size, from);
        return 0;
    }
    // SAFETY: by contract.
    unsafe { dwell_agent_script_read(to, size, from, 0, 0, state) }
}

/// Reads a string; bytes up to and with its zero, or negative if it is not there.
///
/// # Safety
/// As [`dwell_agent_script_read`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_read_string(
    to: u64,
    size: u64,
    from: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> i64 {
    // SAFETY: by contract.
    let there = read(unsafe { &*state }, to, size, from);
    // SAFETY: so many bytes have just been written.
    let end = (0..there).find(|n| unsafe { ((to + n) as *const u8).read() } == 0);
    let end = match end {
        Some(end) => end,
        None if there == size && size > 0 => size - 1,
        None => {
            clear(to, size);
            return FAULT;
        }
    };
    clear(to + end, size - end);
    end as i64 + 1
}

/// The same in a thread of the target, which need not ask for pages that are known.
///
/// # Safety
/// As [`dwell_agent_script_read`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_read_own_string(
    to: u64,
    size: u64,
    from: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> i64 {
    // SAFETY: by contract.
    let known = known(unsafe { &*state }, from).min(size);
    for n in 0..known {
        // SAFETY: there are so many bytes, and as much room.
        let byte = unsafe { ((from + n) as *const u8).read_volatile() };
        // SAFETY: as above.
        unsafe { ((to + n) as *mut u8).write_volatile(byte) };
        if byte == 0 {
            clear(to + n, size - n);
            return n as i64 + 1;
        }
    }
    // It is longer, or goes on where nothing is known.
    // SAFETY: by contract.
    unsafe { dwell_agent_script_read_string(to, size, from, 0, 0, state) }
}
