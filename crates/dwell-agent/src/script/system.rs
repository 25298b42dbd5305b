//! What the kernel or the processor tells of the thread that runs.
use super::layout::State;
use super::threads::own_ids;
use core::arch::asm;

pub(super) const SYS_GETPID: u64 = 39;
pub(super) const SYS_KILL: u64 = 62;
pub(super) const SYS_GETUID: u64 = 102;
pub(super) const SYS_GETGID: u64 = 104;
pub(super) const SYS_PRCTL: u64 = 157;
pub(super) const SYS_GETTID: u64 = 186;
pub(super) const SYS_FUTEX: u64 = 202;
pub(super) const SYS_CLOCK_GETTIME: u64 = 228;
pub(super) const SYS_TGKILL: u64 = 234;
pub(super) const SYS_PROCESS_VM_READV: u64 = 310;
const PR_GET_NAME: u64 = 16;

/// A system call.
///
/// # Safety
/// Whatever the call demands.
pub(super) unsafe fn system_call(number: u64, arguments: [u64; 6]) -> u64 {
    let [a, b, c, d, e, f] = arguments;
    let result;
    // SAFETY: by contract.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a,
            in("rsi") b,
            in("rdx") c,
            in("r10") d,
            in("r8") e,
            in("r9") f,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack)
        );
    }
    result
}

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
    unsafe {
        let pid = system_call(SYS_GETPID, [0; 6]);
        system_call(SYS_KILL, [pid, signal, 0, 0, 0, 0])
    }
}
