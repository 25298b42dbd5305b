//! Records on their way to dwell: room is reserved by one exchange, and the head is written last.
use super::layout::{State, head_of};
use crate::system::{SYS_FUTEX, system_call};
use core::sync::atomic::{AtomicU64, Ordering};

const NO_ROOM: i64 = -11;
/// Attempts to reserve, while others do.
const ATTEMPTS: u32 = 1000;
const FORCE_WAKEUP: u64 = 2;
const FUTEX_WAKE: u64 = 1;

/// Hands a record over; 0, or negative if there is no room.
///
/// # Safety
/// The record must be there, up to the next multiple of 8 bytes; `state` must be the address of a state.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_record(
    _: u64,
    record: *const u64,
    size: u64,
    flags: u64,
    _: u64,
    state: *const State,
) -> i64 {
    // SAFETY: by contract.
    let state = unsafe { &*state };
    let words = size.div_ceil(8);
    let Some(position) = reserve(state, 8 + words * 8) else {
        return NO_ROOM;
    };
    for n in 0..words {
        // SAFETY: by contract.
        let word = unsafe { record.add(n as usize).read() };
        word_at(state, position + 8 + n * 8).store(word, Ordering::Relaxed);
    }
    word_at(state, position).store(head_of(position, size as u32), Ordering::Release);
    if flags == FORCE_WAKEUP {
        wake(state);
    }
    0
}

fn word_at(state: &State, position: u64) -> &AtomicU64 {
    let ring = &state.ring;
    let at = state as *const State as u64 + ring.start + (position & (ring.size - 1));
    // SAFETY: the state has so many bytes there, and positions are multiples of 8.
    unsafe { &*(at as *const AtomicU64) }
}

fn reserve(state: &State, len: u64) -> Option<u64> {
    let ring = &state.ring;
    let mut position = ring.reserved.load(Ordering::Relaxed);
    for _ in 0..ATTEMPTS {
        if position + len > ring.read.load(Ordering::Acquire) + ring.size {
            return None;
        }
        let order = Ordering::Relaxed;
        match ring
            .reserved
            .compare_exchange_weak(position, position + len, order, order)
        {
            Ok(_) => return Some(position),
            Err(other) => position = other,
        }
    }
    None
}

fn wake(state: &State) {
    state.ring.urgent.store(1, Ordering::Release);
    let word = state.ring.urgent.as_ptr() as u64;
    // SAFETY: waking touches no memory.
    unsafe { system_call(SYS_FUTEX, [word, FUTEX_WAKE, 1, 0, 0, 0]) };
}
