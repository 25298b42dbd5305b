//! What the kernel or the processor tells of the thread that runs.
use super::layout::State;
use super::threads::own_ids;
use crate::system::{SYS_GETGID, SYS_GETUID, SYS_KILL, SYS_PRCTL, getpid, system_call};
use core::arch::asm;

const PR_GET_NAME: u64 = 16;

/// The processor.
///
/// # Safety
/// The processor must have the instruction, which dwell has made sure of.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_processor() -> u64 {
    let number: u64;
    // SAFETY: reads a register; by contract it is there.
    unsafe { asm!("rdpid {}", out(reg) number, options(nostack, nomem)) };
    number & 0xfff
}

/// Process << 32 | thread.
///
/// # Safety
/// `state` must be the address of a state.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_ids(
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> u64 {
    // SAFETY: by contract.
    own_ids(unsafe { &*state })
}

/// Group << 32 | user.
///
/// # Safety
/// None.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_user() -> u64 {
    // SAFETY: neither touches memory.
    unsafe { system_call(SYS_GETGID, [0; 6]) << 32 | system_call(SYS_GETUID, [0; 6]) }
}

/// The thread's name into 16 bytes; 0.
///
/// # Safety
/// `to` must have room for them.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_name(to: u64) -> u64 {
    // SAFETY: by contract.
    unsafe { system_call(SYS_PRCTL, [PR_GET_NAME, to, 0, 0, 0, 0]) }
}

/// A signal to the process; 0.
///
/// # Safety
/// None.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_signal(signal: u64) -> u64 {
    // SAFETY: what becomes of the process is what the script wants.
    unsafe { system_call(SYS_KILL, [getpid(), signal, 0, 0, 0, 0]) }
}
