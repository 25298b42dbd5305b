//! Other profilers' files into recordings.
//!
//! Bytes in, a recording out: [`import`] finds out what a file is ([`Format`]) and writes what it tells
//! as a recording that every answer reads. What the file does not tell is not made up: a profile
//! without waits becomes a recording without waits, and what the profiler lost is lost here too,
//! by name.
//!
//! Every parser takes hostile bytes, answers with an [`ImportError`], and keeps no more in memory than a
//! small multiple of the file. `docs/import.md` says what becomes of what.
#![forbid(unsafe_code)]

mod builder;
mod error;
mod flat;
mod folded;
mod perf;
mod pprof;
mod source;

pub use error::ImportError;
pub use source::{FileSource, Source};

use dwell_recording::Overwrite;
use dwell_symbols::Symbolizer;
use std::path::Path;

/// What a file can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Written by `perf record`.
    Perf,
    /// Lines `a;b;c N`.
    Folded,
    /// `profile.proto`, gzipped or not.
    Pprof,
}

impl Format {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Format::Perf => "perf.data",
            Format::Folded => "folded stacks",
            Format::Pprof => "pprof",
        }
    }

    /// What these bytes look like.
    pub fn detect(source: &dyn Source) -> Option<Format> {
        let mut start = vec![0; source.len().min(4096) as usize];
        source.read_at(0, &mut start).ok()?;
        match start.as_slice() {
            [b'P', b'E', b'R', b'F', ..] => Some(Format::Perf),
            [b'2', b'E', b'L', b'I', b'F', b'R', b'E', b'P', ..] => Some(Format::Perf),
            [0x1f, 0x8b, ..] => Some(Format::Pprof),
            start if folded::looks_like(start) => Some(Format::Folded),
            // Field 1 with a length, as every encoder writes it first: the sample types.
            [0x0a, ..] => Some(Format::Pprof),
            _ => None,
        }
    }
}

/// What the numbers of a file without units count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Samples: each is shown as a millisecond.
    #[default]
    Samples,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    /// One of it in nanoseconds.
    pub fn ns(self) -> u64 {
        match self {
            Unit::Samples | Unit::Milliseconds => 1_000_000,
            Unit::Microseconds => 1_000,
            Unit::Nanoseconds => 1,
        }
    }
}

/// How to import.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What the file is; none: what it looks like.
    pub format: Option<Format>,
    /// What the numbers of folded stacks count.
    pub unit: Unit,
    /// Folded stacks are of threads that waited.
    pub off_cpu: bool,
    /// What the file is called, for people.
    pub name: String,
    /// The command that imports, for `meta.json`.
    pub command_line: Vec<String>,
    /// When the file was written, ns since 1970; 0 when unknown.
    pub modified_ns: u64,
    /// Where perf keeps copies of files (`~/.debug`).
    pub perf_cache: Option<std::path::PathBuf>,
}

/// What was imported.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// What the file was.
    pub format: Format,
    /// Stacks that were read.
    pub samples: u64,
    /// Threads they are of.
    pub threads: u64,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// Reads a file and writes what it tells as a recording in the folder `to`.
///
/// `symbolizer` names what the file has no names for, from files of this machine that have the recorded build
/// id. When this fails after it began to write, it leaves a recording that says that it is not complete.
pub fn import(
    source: &dyn Source,
    options: &Options,
    symbolizer: &mut Symbolizer,
    to: &Path,
    overwrite: Overwrite,
) -> Result<Imported, ImportError> {
    let format = options.format.or_else(|| Format::detect(source));
    match format.ok_or(ImportError::UnknownFormat)? {
        Format::Perf => perf::import(source, options, symbolizer, to, overwrite),
        Format::Folded => folded::import(source, options, to, overwrite),
        Format::Pprof => pprof::import(source, options, to, overwrite),
    }
}
