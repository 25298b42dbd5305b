//! Waits while programs count.
use crate::error::CollectError;
use crate::poll::poll;
use crate::signals::Signals;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often ended targets are looked for.
const GLANCE: Duration = Duration::from_millis(100);
/// Shorter than this nothing can wait.
const LEAST: Duration = Duration::from_millis(1);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The time is over.
    Over,
    /// Somebody wants the answer now (Ctrl-C, SIGTERM, SIGHUP).
    Interrupted,
    /// All processes that were named have ended.
    Ended,
}

/// Waits for the end of `duration`, if there is one, for Ctrl-C, or for the end of all of `pids`, if
/// there are any. A signal is taken, not passed on. `meanwhile` is called about ten times a second.
pub fn wait(
    duration: Option<Duration>,
    pids: &[u32],
    mut meanwhile: impl FnMut(),
) -> Result<Waited, CollectError> {
    let signals = Signals::take()?;
    let started = Instant::now();
    loop {
        let left = duration.map(|d| d.saturating_sub(started.elapsed()));
        if left == Some(Duration::ZERO) {
            return Ok(Waited::Over);
        }
        if !pids.is_empty() && !pids.iter().any(|pid| is_alive(*pid)) {
            return Ok(Waited::Ended);
        }
        meanwhile();
        let timeout = left.unwrap_or(GLANCE).clamp(LEAST, GLANCE);
        poll([signals.raw_fd()], timeout);
        while let Some(signal) = signals.next() {
            if signal != libc::SIGCHLD {
                return Ok(Waited::Interrupted);
            }
        }
    }
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}
