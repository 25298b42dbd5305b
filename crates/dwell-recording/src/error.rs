//! What can go wrong with a recording: what, where, and the remedy.
use std::io;
use std::path::{Path, PathBuf};

/// An error of writing or reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The output exists and is a recording; the caller did not ask for it to be replaced.
    #[error("{path} is a recording already; choose another name, or ask for it to be overwritten")]
    Exists {
        /// The folder.
        path: PathBuf,
    },
    /// The output exists and holds files that are not a recording's.
    #[error(
        "{path} is not empty and holds {found}, which no recording has; choose another name, or move its contents away"
    )]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// The name of one foreign entry.
        found: String,
    },
    /// The path is not a folder with a `meta.json`.
    #[error("{path} is not a recording: {reason}; give the folder that holds meta.json (X.dwell)")]
    NotARecording {
        /// The path given.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The file system is full, or a quota is used up.
    #[error(
        "cannot write {path}: {source}; free space there or record to another folder. What was written before can be read"
    )]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file would have passed the largest size allowed.
    #[error(
        "cannot write {path}: {source}; raise the limit on file sizes (ulimit -f). What was written before can be read"
    )]
    FileTooLarge {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Any other failure of the file system.
    #[error(
        "cannot {action} {path}: {source}; check the path, its permissions and its file system"
    )]
    Io {
        /// `read`, `write`, `rename` …
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A later version of the program made it.
    #[error(
        "{path} has format version {found}, this program reads up to {supported}; read it with a newer dwell"
    )]
    NewerVersion {
        /// `meta.json`.
        path: PathBuf,
        /// Its version.
        found: u64,
        /// The newest version that can be read.
        supported: u32,
    },
    /// `meta.json` cannot be used.
    #[error(
        "{path} is damaged: {reason}; restore it from a copy, or query the Parquet files without it"
    )]
    Meta {
        /// `meta.json`.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A segment cannot be used.
    #[error("{path} is damaged: {reason}; restore the file from a copy, or record again")]
    Segment {
        /// The Parquet file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// `meta.json` counts more than there is.
    #[error(
        "{path}: table {table} has {found} {unit}, meta.json says {expected}; files are missing, restore them from a copy"
    )]
    Missing {
        /// The recording.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// `files` or `rows`.
        unit: &'static str,
        /// What `meta.json` says.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// The table would need more memory than the reader may use.
    #[error(
        "{path}: table {table} needs more than {limit} bytes of memory; query it with DuckDB, or raise the reader's limit"
    )]
    TooBig {
        /// The recording.
        path: PathBuf,
        /// The table.
        table: &'static str,
        /// [`crate::Limits::table_bytes`].
        limit: usize,
    },
    /// A row of a size that no recording needs.
    #[error(
        "a row of table {table} has {bytes} bytes, the limit is {limit}; shorten its text before it is appended"
    )]
    RowTooLarge {
        /// The table.
        table: &'static str,
        /// Size of the row in memory.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The Parquet encoder refused rows; no input makes it do so.
    #[error("cannot encode table {table}: {reason}; this is a defect of dwell, please report it")]
    Encode {
        /// The table.
        table: &'static str,
        /// What the encoder said.
        reason: String,
    },
}

impl RecordingError {
    /// The error for a failed write, told apart by its remedy.
    pub(crate) fn write(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::NoSpace { path, source }
            }
            io::ErrorKind::FileTooLarge => Self::FileTooLarge { path, source },
            _ => Self::Io {
                action: "write",
                path,
                source,
            },
        }
    }

    /// The error for any other failed operation on a path.
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io {
            action,
            path: path.to_path_buf(),
            source,
        }
    }

    /// The error for a segment that cannot be used.
    pub(crate) fn segment(path: &Path, reason: impl Into<String>) -> Self {
        Self::Segment {
            path: path.to_path_buf(),
            reason: reason.into(),
        }
    }
}
