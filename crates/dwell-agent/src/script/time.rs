//! The time, by the processor's counter.
use super::layout::{State, counter};
use crate::system::{SYS_CLOCK_GETTIME, system_call};

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
    unsafe { &*state }.time.now().0
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
    let (ns, tai) = unsafe { &*state }.time.now();
    ns + tai
}

/// ns that the thread has run.
///
/// # Safety
/// None.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_thread_time() -> u64 {
    const CLOCK_THREAD_CPUTIME_ID: u64 = 3;
    let mut time = [0u64; 2];
    let to = &raw mut time as u64;
    // SAFETY: the time is ours to write.
    unsafe { system_call(SYS_CLOCK_GETTIME, [CLOCK_THREAD_CPUTIME_ID, to, 0, 0, 0, 0]) };
    // SAFETY: it was written behind the compiler's back.
    let [seconds, ns] = unsafe { (&raw const time).read_volatile() };
    seconds.wrapping_mul(1_000_000_000).wrapping_add(ns)
}

/// The most time that is spent at once, ns: as dtrace has it.
const MOST_SPENT: u64 = 500_000_000;

/// Spends so many ns; 0.
///
/// # Safety
/// `state` must be the address of a state.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_spend_time(
    ns: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> u64 {
    // SAFETY: by contract.
    let time = unsafe { &(*state).time };
    let wanted = (ns as i64).clamp(0, MOST_SPENT as i64);
    let (begun, _) = time.now();
    while (time.now().0.wrapping_sub(begun) as i64) < wanted {
        core::hint::spin_loop();
    }
    0
}

/// A number of 32 bits, hardly the same twice.
///
/// # Safety
/// None.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_random() -> u64 {
    super::layout::hash([counter()].into_iter()) >> 32
}
