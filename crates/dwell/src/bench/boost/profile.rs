//! Recordings of programs at work, for level 4.
use super::cases::Case;
use crate::bench::process;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// As many stacks per thread-second as a thread can have.
const OPTIONS: [&str; 2] = ["-F", "999"];
/// How often a program does its work for its recording.
const TIMES: u32 = 10;

/// Whether there can be recordings here; if not, why.
pub fn can_be_recorded() -> Result<()> {
    let folder = process::scratch()?;
    process::record(&OPTIONS, &folder.path().join("true.dwell"), &["true"])
}

/// Records the stock program at the work that is measured, again and again.
pub fn record(case: &Case, stock: &Path, folder: &Path) -> Result<PathBuf> {
    let again = format!(
        "export LC_ALL=C.UTF-8; i=0; while [ $i -lt {TIMES} ]; do \"$@\"; i=$((i + 1)); done"
    );
    let stock = stock.to_string_lossy();
    let mut command = vec!["sh", "-c", &again, "sh", &stock];
    command.extend(case.args);
    let recording = folder.join("work.dwell");
    process::record(&OPTIONS, &recording, &command)?;
    Ok(recording)
}
