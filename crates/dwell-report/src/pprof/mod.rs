//! pprof's `profile.proto`, gzipped.
//!
//! Every sample has three values in nanoseconds of thread time: `wall` (all of it, the default), `cpu`
//! (running) and `off_cpu` (runnable and blocked; lost time is in `wall` alone). Labels: `process`,
//! `pid`, `thread`, `tid`, `state`, and where they apply `reason` and `syscall`. Locations have the
//! address their file states, so mappings start at 0; they carry the build id. Inlined functions are
//! lines of their location. Time without a stack has a location with a name in brackets.
mod build;

use dwell_analysis::Analysis;
pub use dwell_pprof as proto;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::io::{self, Write};

/// The profile before it is encoded.
pub fn profile(analysis: &Analysis<'_>) -> proto::Profile {
    build::profile(analysis, Labels::All)
}

/// Which labels samples get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Labels {
    /// Every one.
    All,
    /// `process`, `state` and `reason`: those of few values.
    OfFewValues,
}

/// Writes the profile.
pub fn write(analysis: &Analysis<'_>, out: &mut impl Write) -> io::Result<()> {
    write_with(analysis, Labels::All, out)
}

/// Writes the profile for a server that keeps a series for each combination of labels: with `process`, `state` and
/// `reason` alone.
pub fn write_series(analysis: &Analysis<'_>, out: &mut impl Write) -> io::Result<()> {
    write_with(analysis, Labels::OfFewValues, out)
}

fn write_with(analysis: &Analysis<'_>, labels: Labels, out: &mut impl Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::new(4));
    gzip.write_all(&build::profile(analysis, labels).encode_to_vec())?;
    gzip.finish()?;
    Ok(())
}
