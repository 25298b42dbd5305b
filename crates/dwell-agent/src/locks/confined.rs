//! The target's last free instant before it forbids itself system calls: the agent's own would end it from then on.
use super::layout::State;
use crate::layout::{Link, Registers};
use crate::system::{PR_SET_SECCOMP, SECCOMP_SET_MODE_FILTER, SYS_PRCTL, SYS_SECCOMP};
use core::sync::atomic::Ordering;

/// `prctl` or `syscall` of libc begins. The number of a system call that is no option of `prctl`, and the other way
/// round, does no harm: then libc is believed about threads, as in a process that forbids itself calls.
///
/// # Safety
/// `link` must be that of a mapped arena with a [`State`]; `registers` what the stub saved at an entry.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_forbids(link: *const Link, _: u64, registers: *mut Registers) {
    // SAFETY: by contract.
    let (state, first, second) = unsafe {
        let state = &*((*link).state as *const State);
        (state, (*registers).rdi, (*registers).rsi)
    };
    let forbids = match first {
        PR_SET_SECCOMP => true,
        SYS_PRCTL => second == PR_SET_SECCOMP,
        SYS_SECCOMP => second <= SECCOMP_SET_MODE_FILTER,
        _ => false,
    };
    if forbids {
        state.confined.store(1, Ordering::SeqCst);
    }
}
