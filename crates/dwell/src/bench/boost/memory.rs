//! Memory that a waiting process has for itself and has written to.
use super::cases::Case;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Longest time until a program waits for its input.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// Sum of `Private_Dirty` over all mappings, bytes, once the program waits for input that does not come.
pub fn private_dirty(file: &Path, name: &Path, case: &Case) -> Result<f64> {
    let mut command = super::command(file, name, case);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn()?;
    let read = wait_until_it_reads(&child).and_then(|()| sum(child.id()));
    child.kill()?;
    child.wait()?;
    read
}

/// Until the process is in read(2) or poll(2) and its processor time stands still.
fn wait_until_it_reads(child: &Child) -> Result<()> {
    let end = Instant::now() + TIME_LIMIT;
    let mut last = None;
    loop {
        std::thread::sleep(Duration::from_millis(50));
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
        // Behind the name in brackets: the state, and 11 fields later the processor times.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [state, times] = [fields.first(), fields.get(11)];
        ensure!(state != Some(&"Z"), "it ended instead of waiting");
        let now = times.map(|t| (*t).to_owned());
        if state == Some(&"S") && now.is_some() && now == last {
            return Ok(());
        }
        last = now;
        ensure!(Instant::now() < end, "it does not wait for input");
    }
}

fn sum(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    let line = text.lines().find_map(|l| l.strip_prefix("Private_Dirty:"));
    let kib: Option<f64> = line
        .and_then(|l| l.trim().strip_suffix(" kB"))
        .and_then(|n| n.parse().ok());
    Ok(kib.with_context(|| format!("no Private_Dirty in {path}"))? * 1024.0)
}
