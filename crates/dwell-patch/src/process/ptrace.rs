//! The few ptrace requests that are used, typed.
//!
//! Two rules keep a target safe when its tracer is killed at any instant. Stops are looked at without
//! being consumed (`WNOWAIT`), so that a signal whose delivery has stopped a thread is still delivered
//! when the tracer vanishes. And threads are never stopped at system calls: a tracer that vanishes
//! there leaves the thread a SIGTRAP.
use libc::{c_int, c_long, c_void, pid_t, user_regs_struct};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::ptr::{null_mut, without_provenance_mut};

/// `PTRACE_EVENT_STOP`.
const EVENT_STOP: c_int = 128;
/// `PTRACE_O_SUSPEND_SECCOMP`.
const SUSPEND_SECCOMP: usize = 1 << 21;
/// `PTRACE_GET_RSEQ_CONFIGURATION`.
const GET_RSEQ_CONFIGURATION: c_int = 0x420f;

/// `PTRACE_GETSIGMASK`.
const GET_SIGNAL_MASK: c_int = 0x420a;
/// `PTRACE_SETSIGMASK`.
const SET_SIGNAL_MASK: c_int = 0x420b;

/// Where a traced thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// It has not stopped yet.
    Running,
    /// Stopped as asked, or with its whole process.
    Stopped,
    /// Stopped before this signal is delivered to it.
    Signal(c_int),
    /// Stopped in another way (an exec).
    Event,
    /// It has ended.
    Ended,
}

fn request(what: c_int, tid: pid_t, address: usize, data: usize) -> io::Result<c_long> {
    // SAFETY: only called with requests whose address and data are plain numbers.
    let result = unsafe {
        libc::ptrace(
            what as _,
            tid,
            without_provenance_mut::<c_void>(address),
            without_provenance_mut::<c_void>(data),
        )
    };
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Traces a thread without stopping it. No option is set: least of all that it dies with us.
pub(super) fn seize(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_SEIZE as c_int, tid, 0, 0).map(drop)
}

/// Traces a thread, which stops when it has executed a program.
pub(super) fn seize_for_exec(tid: pid_t) -> io::Result<()> {
    let options = libc::PTRACE_O_TRACEEXEC as usize;
    request(libc::PTRACE_SEIZE as c_int, tid, 0, options).map(drop)
}

/// Asks a traced thread to stop.
pub(super) fn interrupt(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_INTERRUPT as c_int, tid, 0, 0).map(drop)
}

/// Lets a stopped thread run on, delivering a signal (0 for none).
pub(super) fn resume(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_CONT as c_int, tid, 0, signal as usize).map(drop)
}

/// Lets go of a stopped thread, delivering a signal (0 for none).
pub(super) fn detach(tid: pid_t, signal: c_int) -> io::Result<()> {
    request(libc::PTRACE_DETACH as c_int, tid, 0, signal as usize).map(drop)
}

/// Suspends the seccomp filters of a stopped thread for as long as it is traced.
pub(super) fn suspend_seccomp(tid: pid_t) -> io::Result<()> {
    request(libc::PTRACE_SETOPTIONS as c_int, tid, 0, SUSPEND_SECCOMP).map(drop)
}

/// The registers of a stopped thread.
pub(super) fn registers(tid: pid_t) -> io::Result<user_regs_struct> {
    let mut registers = MaybeUninit::<user_regs_struct>::uninit();
    // SAFETY: the kernel fills the structure, which is as large as it expects.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_GETREGS,
            tid,
            null_mut::<c_void>(),
            registers.as_mut_ptr(),
        )
    };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it was filled.
    Ok(unsafe { registers.assume_init() })
}

/// Sets the registers of a stopped thread.
pub(super) fn set_registers(tid: pid_t, registers: &user_regs_struct) -> io::Result<()> {
    // SAFETY: the kernel reads the structure.
    let result = unsafe {
        libc::ptrace(
            libc::PTRACE_SETREGS,
            tid,
            null_mut::<c_void>(),
            std::ptr::from_ref(registers),
        )
    };
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The signals a stopped thread blocks: for a call with a mask of its own, those it blocks otherwise.
pub(super) fn signal_mask(tid: pid_t) -> io::Result<u64> {
    let mut mask = 0u64;
    // SAFETY: the kernel writes as many bytes as it is told.
    let result = unsafe {
        libc::ptrace(
            GET_SIGNAL_MASK as _,
            tid,
            without_provenance_mut::<c_void>(8),
            &raw mut mask,
        )
    };
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(mask)
    }
}

/// Sets the signals a stopped thread blocks.
pub(super) fn set_signal_mask(tid: pid_t, mask: u64) -> io::Result<()> {
    // SAFETY: the kernel reads as many bytes as it is told.
    let result = unsafe {
        libc::ptrace(
            SET_SIGNAL_MASK as _,
            tid,
            without_provenance_mut::<c_void>(8),
            &raw const mask,
        )
    };
    if result == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Address of a stopped thread's restartable-sequence area, none when it has none.
pub(super) fn rseq_area(tid: pid_t) -> Option<u64> {
    #[repr(C)]
    #[derive(Default)]
    struct Configuration {
        pointer: u64,
        size: u32,
        signature: u32,
        flags: u32,
        padding: u32,
    }
    let mut configuration = Configuration::default();
    // SAFETY: the kernel fills at most as many bytes as it is told.
    let result = unsafe {
        libc::ptrace(
            GET_RSEQ_CONFIGURATION as _,
            tid,
            without_provenance_mut::<c_void>(size_of::<Configuration>()),
            &raw mut configuration,
        )
    };
    (result > 0 && configuration.pointer != 0).then_some(configuration.pointer)
}

/// Looks where a traced thread is; waits for nothing.
pub(super) fn status(tid: pid_t) -> io::Result<Status> {
    let Some(info) = wait(tid, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT)? else {
        return Ok(Status::Running);
    };
    // SAFETY: the field is that of a child's state change, which this is.
    let code = unsafe { info.si_status() };
    Ok(match info.si_code {
        libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED => Status::Ended,
        _ if code >> 8 == EVENT_STOP => Status::Stopped,
        _ if code >> 8 != 0 => Status::Event,
        _ => Status::Signal(code),
    })
}

/// Takes note of a traced thread's end, which the kernel otherwise keeps for us.
pub(super) fn bury(tid: pid_t) {
    let _ = wait(tid, libc::WEXITED);
}

fn wait(tid: pid_t, options: c_int) -> io::Result<Option<libc::siginfo_t>> {
    let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
    // Only what this thread traces: a target that is our child would also tell us of its job control.
    let options = options | libc::__WALL | libc::__WNOTHREAD | libc::WNOHANG;
    // SAFETY: the kernel fills the structure.
    let result =
        unsafe { libc::waitid(libc::P_PID, tid as libc::id_t, info.as_mut_ptr(), options) };
    if result == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all zero bytes are a valid value; a call without news leaves the pid zero.
    let info = unsafe { info.assume_init() };
    // SAFETY: as above.
    let news = unsafe { info.si_pid() } != 0;
    Ok(news.then_some(info))
}
