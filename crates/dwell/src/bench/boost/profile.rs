//! Recordings of programs at work, for level 4.
use super::cases::Case;
use crate::bench::process::scratch;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Stacks per thread-second: as many as a thread can have.
const FREQUENCY: &str = "999";
/// How often a program does its work for its recording.
const TIMES: u32 = 10;

/// Whether there can be recordings here; if not, why.
pub fn can_be_recorded() -> Result<()> {
    let folder = scratch()?;
    dwell_record(&folder.path().join("true.dwell"), &["true"]).map(drop)
}

/// Records the stock program at the work that is measured, again and again.
pub fn record(case: &Case, stock: &Path, folder: &Path) -> Result<PathBuf> {
    let again = format!("i=0; while [ $i -lt {TIMES} ]; do \"$@\" < /dev/null; i=$((i + 1)); done");
    let stock = stock.to_string_lossy();
    let mut command = vec!["sh", "-c", &again, "sh", &stock];
    command.extend(case.args);
    dwell_record(&folder.join("work.dwell"), &command)
}

fn dwell_record(to: &Path, command: &[&str]) -> Result<PathBuf> {
    let ended = Command::new(std::env::current_exe()?)
        .args(["record", "-q", "-F", FREQUENCY, "-o"])
        .arg(to)
        .arg("--")
        .args(command)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    ensure!(
        ended.status.success(),
        "recording failed: {}",
        String::from_utf8_lossy(&ended.stderr)
    );
    Ok(to.to_owned())
}
