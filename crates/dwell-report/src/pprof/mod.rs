//! pprof's `profile.proto`, gzipped.
//!
//! Every sample has three values in nanoseconds of thread time: `wall` (all of it, the default), `cpu`
//! (running) and `off_cpu` (runnable and blocked; lost time is in `wall` alone). Labels: `process`,
//! `pid`, `thread`, `tid`, `state`, and where they apply `reason` and `syscall`. Locations have the
//! address their file states, so mappings start at 0; they carry the build id. Inlined functions are
//! lines of their location. Time without a stack has a location with a name in brackets.
mod build;
pub mod proto;

use dwell_analysis::Analysis;
use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use std::io::{self, Write};

/// The profile before it is encoded.
pub fn profile(analysis: &Analysis<'_>) -> proto::Profile {
    build::profile(analysis)
}

/// Writes the profile.
pub fn write(analysis: &Analysis<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut gzip = GzEncoder::new(out, Compression::new(4));
    gzip.write_all(&profile(analysis).encode_to_vec())?;
    gzip.finish()?;
    Ok(())
}
