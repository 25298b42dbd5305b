//! System calls, as the agent makes them: without libc, and without touching errno.
use core::arch::asm;

pub(crate) const SYS_NANOSLEEP: u64 = 35;
pub(crate) const SYS_GETPID: u64 = 39;
pub(crate) const SYS_KILL: u64 = 62;
pub(crate) const SYS_GETUID: u64 = 102;
pub(crate) const SYS_GETGID: u64 = 104;
pub(crate) const SYS_PRCTL: u64 = 157;
pub(crate) const SYS_GETTID: u64 = 186;
pub(crate) const SYS_FUTEX: u64 = 202;
pub(crate) const SYS_CLOCK_GETTIME: u64 = 228;
pub(crate) const SYS_TGKILL: u64 = 234;
pub(crate) const SYS_PROCESS_VM_READV: u64 = 310;
pub(crate) const SYS_SECCOMP: u64 = 317;
pub(crate) const PR_SET_SECCOMP: u64 = 22;
/// Also `SECCOMP_SET_MODE_STRICT`, which is 0.
pub(crate) const SECCOMP_SET_MODE_FILTER: u64 = 1;

/// A system call.
///
/// # Safety
/// Whatever the call demands.
pub(crate) unsafe fn system_call(number: u64, arguments: [u64; 6]) -> u64 {
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

/// The process that this thread belongs to.
pub(crate) fn getpid() -> u64 {
    // SAFETY: touches no memory.
    unsafe { system_call(SYS_GETPID, [0; 6]) }
}

/// This thread's number.
pub(crate) fn gettid() -> u32 {
    // SAFETY: touches no memory.
    unsafe { system_call(SYS_GETTID, [0; 6]) as u32 }
}
