//! Why a process cannot be patched or restored.
use dwell_elf::ElfError;
use std::io;
use std::time::Duration;
use thiserror::Error;

/// Why a process cannot be patched or restored. The process is as it was before, unless the message
/// says otherwise.
#[derive(Debug, Error)]
pub enum PatchError {
    /// There is no such process, or it ended meanwhile.
    #[error("process {0} has ended")]
    Ended(i32),
    /// The kernel does not let us.
    #[error(
        "may not trace process {pid}: {error} (CAP_SYS_PTRACE is needed, or the same user and an open yama.ptrace_scope)"
    )]
    NotAllowed {
        /// The process.
        pid: i32,
        /// What the kernel says.
        error: io::Error,
    },
    /// Somebody else traces it.
    #[error("process {pid} is traced by process {tracer}: end that debugger or tracer first")]
    Traced {
        /// The process.
        pid: i32,
        /// Its tracer.
        tracer: i32,
    },
    /// It runs under a seccomp filter that we may not suspend while we map memory.
    #[error(
        "process {0} runs under seccomp, which would end it for mapping memory, and may not be suspended (CAP_SYS_ADMIN is needed)"
    )]
    Seccomp(i32),
    /// A thread did not stop in time, again and again.
    #[error(
        "thread {tid} {what}; it did not stop within {limit:?} in {tries} tries, and process {pid} runs on as before: try again when the machine has less to do, or give the process more of it (renice, chrt)"
    )]
    DoesNotStop {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
        /// Its name, and what it did instead.
        what: String,
        /// How long the others were held at most.
        limit: Duration,
        /// How often it was tried.
        tries: u32,
    },
    /// Some thread stood where no thread may stand, whenever all were stopped.
    #[error(
        "in process {0} some thread always stands in code that is to be patched, and cannot be moved out of it"
    )]
    NeverClear(i32),
    /// No thread could be borrowed for a system call.
    #[error("no thread of process {pid} could be borrowed for a system call: {why}")]
    NoThread {
        /// The process.
        pid: i32,
        /// What was the matter with the last one.
        why: &'static str,
    },
    /// The kernel refused the process a system call that it made for us.
    #[error("the kernel refused process {0} a system call that it made for dwell")]
    CallRefused(i32),
    /// Wherever there was room in the process, it mapped something first, again and again.
    #[error(
        "process {0} maps memory all the time, and came first wherever dwell needed it: try again"
    )]
    Taken(i32),
    /// The process may not map memory.
    #[error("process {pid} may not map {} MiB more: {why}", .len.div_ceil(1 << 20))]
    NoMemory {
        /// The process.
        pid: i32,
        /// How many bytes.
        len: u64,
        /// Why, and what can be done.
        why: String,
    },
    /// A file of the process cannot be read as ELF.
    #[error("{path}: {error}")]
    Elf {
        /// The file.
        path: String,
        /// What is wrong.
        error: ElfError,
    },
    /// A system call of ours failed.
    #[error("{what}: {error}")]
    Io {
        /// What was being done.
        what: String,
        /// What the kernel says.
        error: io::Error,
    },
}

impl PatchError {
    /// Says what was being done when a system call failed.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> PatchError {
        let what = what.into();
        move |error| PatchError::Io { what, error }
    }
}
