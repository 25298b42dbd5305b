//! What an agent tells of itself: `status.json` in its spool, and `dwell agent --status`.
use anyhow::Context;
use chrono::{DateTime, Local, TimeZone, Utc};
use dwell_delivery::Destination;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Name of the file.
const FILE: &str = "status.json";

/// What is told. Times are seconds, instants seconds since 1970.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Told {
    /// When the agent was started.
    started: i64,
    /// Recordings made.
    recordings: u64,
    /// Time that was recorded, and time from the start to the end of the last recording.
    recorded_s: f64,
    elapsed_s: f64,
    /// Processor time that recording and delivering took.
    cpu_s: f64,
    /// Recordings that could not be made, and why the last could not.
    failed: u64,
    last_failure: String,
    /// Recordings that were dropped to make room.
    dropped: u64,
    /// Recordings that wait, and their size in bytes.
    waiting: u64,
    waiting_bytes: u64,
    destinations: Vec<Tally>,
}

/// Of a destination.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Tally {
    to: String,
    /// Recordings delivered.
    delivered: u64,
    /// When the last one was.
    last: Option<i64>,
    /// Recordings that will never be taken there.
    refused: u64,
    /// Why the last try failed, until one succeeds.
    failing: Option<String>,
}

/// Where both threads of an agent tell what they did; each change is written down.
#[derive(Clone)]
pub struct Board {
    path: PathBuf,
    began: Instant,
    told: Arc<Mutex<Told>>,
}

impl Board {
    /// Of an agent that starts.
    pub fn new(spool: &Path, destinations: &[Destination]) -> Self {
        let tally = |to: &Destination| Tally {
            to: to.to_string(),
            ..Tally::default()
        };
        let told = Told {
            started: Utc::now().timestamp(),
            destinations: destinations.iter().map(tally).collect(),
            ..Told::default()
        };
        Board {
            path: spool.join(FILE),
            began: Instant::now(),
            told: Arc::new(Mutex::new(told)),
        }
    }

    /// A recording of so long was made, or was not, for so much processor time.
    pub fn recorded(&self, window: Duration, cpu: Duration, failed: Option<&str>) {
        self.change(|told| {
            told.cpu_s += cpu.as_secs_f64();
            told.elapsed_s = self.began.elapsed().as_secs_f64();
            told.recorded_s += window.as_secs_f64();
            match failed {
                Some(why) => {
                    told.failed += 1;
                    why.clone_into(&mut told.last_failure);
                }
                None => told.recordings += 1,
            }
        });
    }

    /// So many were dropped.
    pub fn dropped(&self, recordings: usize) {
        self.change(|told| told.dropped += recordings as u64);
    }

    /// So many wait.
    pub fn waits(&self, recordings: usize, bytes: u64) {
        self.change(|told| (told.waiting, told.waiting_bytes) = (recordings as u64, bytes));
    }

    /// One was delivered there.
    pub fn delivered(&self, to: &str) {
        self.of(to, |tally| {
            tally.delivered += 1;
            tally.last = Some(Utc::now().timestamp());
            tally.failing = None;
        });
    }

    /// One never will be.
    pub fn refused(&self, to: &str) {
        self.of(to, |tally| tally.refused += 1);
    }

    /// Nothing can be, for now.
    pub fn failing(&self, to: &str, why: &str) {
        self.of(to, |tally| tally.failing = Some(why.to_owned()));
    }

    fn of(&self, to: &str, change: impl FnOnce(&mut Tally)) {
        self.change(|told| {
            if let Some(tally) = told.destinations.iter_mut().find(|t| t.to == to) {
                change(tally);
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Told)) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut told);
        let unfinished = self.path.with_extension("unfinished");
        let json = serde_json::to_vec_pretty(&*told).unwrap_or_default();
        // On a full disk there are other worries.
        let _ = dwell_recording::write_whole(&unfinished, &self.path, &json);
    }
}

/// Prints what the agent of a spool does.
pub fn print(spool: &Path) -> anyhow::Result<()> {
    let path = spool.join(FILE);
    let json = fs::read(&path)
        .with_context(|| format!("no agent was here yet: reading {}", path.display()))?;
    let told: Told = serde_json::from_slice(&json).context("status.json is of another version")?;
    let mut out = std::io::stdout().lock();
    let since = Local.timestamp_opt(told.started, 0).single();
    let since = since
        .map(|t| t.format("%F %T").to_string())
        .unwrap_or_default();
    let state = if is_running(spool) {
        "running"
    } else {
        "not running; it was"
    };
    writeln!(out, "Agent of {}: {state} since {since}", spool.display())?;
    writeln!(
        out,
        "  {} recordings of {} in all, {:.0} % of the time; they and their delivery cost {:.1} % of a processor",
        told.recordings,
        human(told.recorded_s),
        100.0 * told.recorded_s / told.elapsed_s.max(1e-9),
        100.0 * told.cpu_s / told.elapsed_s.max(1e-9),
    )?;
    if told.failed > 0 {
        writeln!(
            out,
            "  {} could not be made: {}",
            told.failed, told.last_failure
        )?;
    }
    let mib = told.waiting_bytes as f64 / f64::from(1 << 20);
    writeln!(
        out,
        "  {} wait ({mib:.1} MiB), {} were dropped to make room",
        told.waiting, told.dropped
    )?;
    for tally in &told.destinations {
        let last = tally.last.and_then(|t| DateTime::from_timestamp(t, 0));
        let ago = last.map(|t| {
            format!(
                ", the last {} ago",
                human((Utc::now() - t).as_seconds_f64())
            )
        });
        writeln!(
            out,
            "  {}: {} delivered{}",
            tally.to,
            tally.delivered,
            ago.unwrap_or_default()
        )?;
        if tally.refused > 0 {
            writeln!(out, "    {} were refused", tally.refused)?;
        }
        if let Some(why) = &tally.failing {
            writeln!(out, "    failing: {why}")?;
        }
    }
    Ok(())
}

/// Whether somebody holds the spool's lock.
fn is_running(spool: &Path) -> bool {
    let lock = File::open(spool.join("lock"));
    lock.is_ok_and(|lock| matches!(lock.try_lock(), Err(TryLockError::WouldBlock)))
}

fn human(seconds: f64) -> String {
    match seconds {
        s if s < 100.0 => format!("{s:.0} s"),
        s if s < 6000.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}
