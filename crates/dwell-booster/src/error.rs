//! What is refused, and why.
use dwell_elf::ElfError;

/// Why a program is left as it is. The texts say what was found and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A script: its interpreter is the program.
    #[error("{path} is a script run by {interpreter}; boost that instead")]
    Script {
        /// The file.
        path: String,
        /// The path after `#!`.
        interpreter: String,
    },
    /// Not an x86-64 ELF file for 64 bits.
    #[error("{path}: {error}")]
    NotElf {
        /// The file.
        path: String,
        /// What is wrong.
        error: ElfError,
    },
    /// An ELF file whose tables contradict each other.
    #[error("{path} is damaged: {why}; reinstall it")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Nothing is linked at run time.
    #[error("{path} is statically linked: there is nothing to merge")]
    Static {
        /// The file.
        path: String,
    },
    /// A library was named where a program is wanted.
    #[error("{path} is a shared library; name a program that uses it")]
    Library {
        /// The file.
        path: String,
    },
    /// Go keeps tables of its own of where its code is.
    #[error("{path} is a Go program, whose runtime keeps its own tables of its code")]
    Go {
        /// The file.
        path: String,
    },
    /// Another loader than glibc's.
    #[error("{path} is run by {loader}; only glibc's ld-linux-x86-64.so.2 is known")]
    Loader {
        /// The file.
        path: String,
        /// `PT_INTERP`.
        loader: String,
    },
    /// The kernel gives who runs it other rights.
    #[error("{path} has {what}: a program that gains privileges is never replaced")]
    Privileged {
        /// The file.
        path: String,
        /// "a set-user-ID bit", "file capabilities", ...
        what: &'static str,
    },
    /// A library that was not found.
    #[error("{needed_by} needs {name}, which was not found; install it")]
    Missing {
        /// The library's name.
        name: String,
        /// Who needs it.
        needed_by: String,
    },
    /// Relocations that write into code.
    #[error("{path} has relocations in its code (DT_TEXTREL), so its code cannot be shared")]
    TextRelocations {
        /// The file.
        path: String,
    },
    /// A relocation that this version cannot resolve ahead of time.
    #[error("{path} has a relocation of type {kind} at {stated:#x}, which is not supported: {why}")]
    Relocation {
        /// The file.
        path: String,
        /// Its number in the x86-64 ABI.
        kind: u32,
        /// Stated address of the place.
        stated: u64,
        /// What about it.
        why: String,
    },
    /// A symbol that no library defines.
    #[error("{path} needs the symbol {symbol}, which none of its libraries defines")]
    Undefined {
        /// The file.
        path: String,
        /// The symbol's name.
        symbol: String,
    },
    /// Something in the file that merging would change.
    #[error("{path} cannot be merged: {why}")]
    Unsupported {
        /// The file.
        path: String,
        /// What was found.
        why: String,
    },
    /// No library would be merged.
    #[error("{path} needs only libraries that stay as they are: there is nothing to merge")]
    Nothing {
        /// The file.
        path: String,
    },
    /// The output did not stand its own examination: a fault of ours, never an input's.
    #[error("the merged file failed its check and was discarded: {0}; please report this")]
    Check(String),
}

impl Refusal {
    pub(crate) fn damaged(path: &str, why: &str) -> Self {
        Refusal::Damaged {
            path: path.into(),
            why: why.into(),
        }
    }

    pub(crate) fn unsupported(path: &str, why: impl Into<String>) -> Self {
        Refusal::Unsupported {
            path: path.into(),
            why: why.into(),
        }
    }

    pub(crate) fn not_elf(path: &str, data: &[u8], error: ElfError) -> Self {
        match data.strip_prefix(b"#!") {
            Some(rest) => Refusal::Script {
                path: path.into(),
                interpreter: interpreter(rest),
            },
            None => Refusal::NotElf {
                path: path.into(),
                error,
            },
        }
    }

    /// One word for tables and statistics.
    pub fn kind(&self) -> &'static str {
        match self {
            Refusal::Script { .. } => "script",
            Refusal::NotElf { .. } => "not-elf",
            Refusal::Damaged { .. } => "damaged",
            Refusal::Static { .. } => "static",
            Refusal::Library { .. } => "library",
            Refusal::Go { .. } => "go",
            Refusal::Loader { .. } => "loader",
            Refusal::Privileged { .. } => "privileged",
            Refusal::Missing { .. } => "missing-library",
            Refusal::TextRelocations { .. } => "text-relocations",
            Refusal::Relocation { .. } => "relocation",
            Refusal::Undefined { .. } => "undefined-symbol",
            Refusal::Unsupported { .. } => "unsupported",
            Refusal::Nothing { .. } => "nothing-to-merge",
            Refusal::Check(_) => "check",
        }
    }
}

fn interpreter(line: &[u8]) -> String {
    let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
    let words = String::from_utf8_lossy(&line[..line.len().min(4096)]).into_owned();
    words.split_whitespace().next().unwrap_or("?").to_owned()
}
