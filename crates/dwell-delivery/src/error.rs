//! Why a recording was not delivered, and whether trying again may help.
use dwell_recording::RecordingError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// An error of delivering.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// The address of a destination is none.
    #[error("{address}: {reason}")]
    Address {
        /// As it was given, without a password.
        address: String,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// There was no answer.
    #[error("{to} does not answer: {reason}")]
    Unreachable {
        /// The destination.
        to: String,
        /// What was tried, and what came of it.
        reason: String,
    },
    /// The server said no.
    #[error("{to} answered {status}{}", said(.text))]
    Status {
        /// The destination.
        to: String,
        /// Status of HTTP.
        status: u16,
        /// The beginning of what it said.
        text: String,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
        /// Whether this is about the recording itself.
        minds: Minds,
    },
    /// A folder that is a store cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// The recording itself cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
}

/// Whether an answer is about the recording: then it will never be taken, however often it is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minds {
    /// No: the server is down, full, busy, or wants another key. That is put right some day.
    No,
    /// Perhaps: some servers say so when they are down.
    Perhaps,
    /// Yes.
    Yes,
}

impl DeliveryError {
    /// Whether the recording itself keeps it from being delivered.
    pub fn minds(&self) -> Minds {
        match self {
            DeliveryError::Status { minds, .. } => *minds,
            DeliveryError::Recording(_) => Minds::Yes,
            _ => Minds::No,
        }
    }

    /// How long the server asks to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            DeliveryError::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

fn said(text: &str) -> String {
    if text.is_empty() {
        String::new()
    } else {
        format!(": {text}")
    }
}
