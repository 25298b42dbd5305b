//! What can go wrong between a script and its first record.
use std::io;

/// Why a script does not run.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// No program can be made of it.
    #[error(transparent)]
    Code(#[from] dwell_script::codegen::CodeError),
    /// User stacks cannot be taken.
    #[error(transparent)]
    UserStacks(#[from] dwell_collector::CollectError),
    /// A description that matches nothing.
    #[error("probe description {description} does not match any probes")]
    NoMatch {
        /// As the script has it.
        description: String,
        /// The clause.
        clause: usize,
        /// The nearest name that there is, of the part that has none like it.
        nearest: Option<String>,
    },
    /// A description that no provider understands.
    #[error("probe description {description}: {why}")]
    Description {
        /// As the script has it.
        description: String,
        /// What is wrong with it.
        why: String,
    },
    /// The kernel refused something.
    #[error("{doing}: {error}{}", remedy(.error))]
    Kernel {
        /// What was tried.
        doing: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The kernel's verifier refused a program, which is a mistake of ours.
    #[error("the kernel refused a program for {probe}: {log}")]
    Verifier {
        /// A probe it was for.
        probe: String,
        /// The end of what the verifier said.
        log: String,
    },
    /// It can only run in the kernel, or not in this process.
    #[error("the script cannot run inside the process: {0}\n  remedy: --engine kernel, as root")]
    NotInside(String),
    /// A kernel probe would break the process.
    #[error(
        "{function} in process {pid} has been patched by another tool, maybe by another dwell: a kernel probe there \
         would break the process\n  remedy: end the other tool first"
    )]
    Patched {
        /// The function.
        function: Box<str>,
        /// The process.
        pid: u32,
    },
    /// The kernel knows a process' memory by its first thread, and calls nothing there when that has ended.
    #[error(
        "the first thread of process {pid} has ended: the kernel calls no probes in what goes on of it\n  \
         remedy: --engine process"
    )]
    FirstThreadEnded {
        /// The process.
        pid: u32,
    },
    /// It can only run inside a process.
    #[error(
        "the kernel cannot do {0}\n  remedy: probe one process' functions, and --engine process"
    )]
    NotInKernel(&'static str),
    /// A process cannot be looked at.
    #[error("process {pid}: {error}")]
    Process {
        /// Which.
        pid: u32,
        /// Why.
        error: io::Error,
    },
}

impl TraceError {
    /// What the last system call said.
    pub(crate) fn last(doing: impl Into<String>) -> Self {
        TraceError::Kernel {
            doing: doing.into(),
            error: io::Error::last_os_error(),
        }
    }

    /// A negative result of libbpf.
    pub(crate) fn code(doing: impl Into<String>, code: i32) -> Self {
        TraceError::Kernel {
            doing: doing.into(),
            error: io::Error::from_raw_os_error(-code),
        }
    }

    /// An error of libbpf's.
    pub(crate) fn bpf(doing: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> Self {
        let doing = doing.into();
        move |error| TraceError::Kernel {
            doing,
            error: io::Error::other(error.to_string()),
        }
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => {
            "\n  remedy: run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE (`dwell doctor` tells more); your own \
             processes can do with --engine process"
        }
        _ => "",
    }
}
