//! The time, by the processor's counter.
use super::layout::{Clock, State};
use core::sync::atomic::Ordering;

fn counter() -> u64 {
    // SAFETY: reads a register that every processor of ours has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn clock(state: &State) -> &Clock {
    let [first, second] = &state.time.clocks;
    match state.time.current.load(Ordering::Acquire) {
        0 => first,
        _ => second,
    }
}

/// CLOCK_MONOTONIC, ns.
///
/// # Safety
/// `state` must be the address of a state.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_time(
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> u64 {
    // SAFETY: by contract.
    clock(unsafe { &*state }).at(counter())
}

/// CLOCK_TAI, ns.
///
/// # Safety
/// `state` must be the address of a state.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_wall_time(
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> u64 {
    // SAFETY: by contract.
    let clock = clock(unsafe { &*state });
    clock.at(counter()) + clock.tai.load(Ordering::Relaxed)
}

/// A number of 32 bits, hardly the same twice.
///
/// # Safety
/// None.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_random() -> u64 {
    super::layout::hash([counter()].into_iter()) >> 32
}
