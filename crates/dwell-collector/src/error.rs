//! What can go wrong while recording, each with its remedy.
use std::io;

/// The remedy where the kernel wants more privilege.
pub(crate) const PRIVILEGES: &str = "run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE; `dwell doctor` tells what is missing";

/// Why a recording could not be made or went wrong.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The kernel refused the eBPF programs.
    #[error("the kernel refused to load dwell's eBPF programs: {0}\n  remedy: {PRIVILEGES}")]
    Load(libbpf_rs::Error),
    /// A program could not be attached.
    #[error(
        "the kernel refused to attach dwell's eBPF programs: {0}\n  remedy: `dwell doctor` tells which feature or capability is missing"
    )]
    Attach(libbpf_rs::Error),
    /// A map operation failed.
    #[error("an eBPF map could not be used: {0}")]
    Map(libbpf_rs::Error),
    /// A sweep over the threads failed.
    #[error("the threads of the system could not be listed: {0}")]
    Sweep(io::Error),
    /// The kernel's types do not say where it counts freed pages.
    #[error(
        "the kernel's types (/sys/kernel/btf/vmlinux) do not tell of its variables, so there is no ledger of memory here\n  remedy: record without --memory"
    )]
    FreedCounts,
    /// A system call failed.
    #[error("{what}: {error}{remedy}")]
    System {
        /// What was tried.
        what: String,
        /// What the kernel said.
        error: io::Error,
        /// What to do, with its own line break, or nothing.
        remedy: String,
    },
    /// The command could not be executed.
    #[error(
        "cannot run {command}: {error}\n  remedy: check the command's name, and that it is executable"
    )]
    Command {
        /// As it was given.
        command: String,
        /// What the kernel said.
        error: io::Error,
    },
    /// The target cannot be recorded.
    #[error("{0}")]
    Target(String),
    /// The recording could not be written.
    #[error(transparent)]
    Recording(#[from] dwell_recording::RecordingError),
    /// A mistake of ours.
    #[error("internal error: {0}")]
    Internal(String),
}

impl CollectError {
    /// The exit code shells give to a command that is not found (127) or cannot be executed (126).
    pub fn exit_code(&self) -> Option<u8> {
        match self {
            CollectError::Command { error, .. } if error.kind() == io::ErrorKind::NotFound => {
                Some(127)
            }
            CollectError::Command { .. } => Some(126),
            _ => None,
        }
    }

    pub(crate) fn load(e: libbpf_rs::Error) -> Self {
        CollectError::Load(e)
    }
    pub(crate) fn attach(e: libbpf_rs::Error) -> Self {
        CollectError::Attach(e)
    }
    pub(crate) fn map(e: libbpf_rs::Error) -> Self {
        CollectError::Map(e)
    }
    pub(crate) fn sweep(e: io::Error) -> Self {
        CollectError::Sweep(e)
    }
    /// The last system call error, with what was tried.
    pub(crate) fn system(what: impl Into<String>, remedy: &str) -> Self {
        CollectError::from_io(what, io::Error::last_os_error(), remedy)
    }
    pub(crate) fn from_io(what: impl Into<String>, error: io::Error, remedy: &str) -> Self {
        let remedy = if remedy.is_empty() {
            String::new()
        } else {
            format!("\n  remedy: {remedy}")
        };
        CollectError::System {
            what: what.into(),
            error,
            remedy,
        }
    }
}
