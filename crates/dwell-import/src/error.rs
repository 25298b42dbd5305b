//! Why a file could not be imported.
use dwell_recording::RecordingError;
use std::io;

/// Why a file could not be imported. The caller says which file.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The bytes are of no format that is known here.
    #[error(
        "not a perf.data, pprof or folded-stacks file; if it is one, name the format with --from"
    )]
    UnknownFormat,
    /// The file is of the format but is damaged, or ends too early.
    #[error("{what} (at byte {at}): the file is damaged or cut short")]
    Damaged {
        /// What does not fit.
        what: String,
        /// Where in the file.
        at: u64,
    },
    /// A kind of file that is not read here, with the remedy.
    #[error("{0}")]
    Unsupported(String),
    /// A line that is no folded stack.
    #[error(
        "line {line}: {what}; folded stacks are lines `frame;frame;frame NUMBER`, as stackcollapse-*.pl write them"
    )]
    FoldedLine {
        /// From 1.
        line: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The pprof file does not hold together.
    #[error("pprof: {0}")]
    Pprof(String),
    /// There is nothing in it.
    #[error("no sample is in it")]
    NoSamples,
    /// Reading failed.
    #[error("reading it: {0}")]
    Read(#[from] io::Error),
    /// Writing the recording failed.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

impl ImportError {
    /// Damage at a place.
    pub(crate) fn damaged(what: impl Into<String>, at: u64) -> Self {
        ImportError::Damaged {
            what: what.into(),
            at,
        }
    }
}
