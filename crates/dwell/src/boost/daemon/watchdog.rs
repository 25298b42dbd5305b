//! A second process that outlives the daemon, by moments: when the daemon dies, however it dies, its end of a pipe is
//! closed, and everything is restored.
use dwell_switch::{Dirs, Instance, Journal, Restored, restore};
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The process, seen from the daemon.
pub struct Watchdog(Child);

impl Watchdog {
    pub fn start(dirs: &Dirs) -> std::io::Result<Self> {
        let child = Command::new("/proc/self/exe")
            .arg0("dwell")
            .args(["boost", "daemon", "--watchdog", "--config-dir"])
            .arg(&dirs.config)
            .arg("--state-dir")
            .arg(&dirs.state)
            .arg("--run-dir")
            .arg(&dirs.run)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Ctrl-C is for the daemon.
            .process_group(0)
            .spawn()?;
        Ok(Watchdog(child))
    }

    /// Whether it was killed.
    pub fn ended(&mut self) -> bool {
        !matches!(self.0.try_wait(), Ok(None))
    }
}

/// How long to wait for upgrades that are under way, and for the dead daemon's lock.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the second process does.
pub fn watch_over(dirs: &Dirs) -> anyhow::Result<ExitCode> {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    if dirs.journal().is_empty()? {
        return Ok(ExitCode::SUCCESS);
    }
    let end = Instant::now() + Duration::from_secs(5);
    let _instance = loop {
        match Instance::take(dirs)? {
            Ok(instance) => break instance,
            // The next daemon restores by itself. A program that the dead one was about to start may hold its lock.
            Err(_) if Instant::now() > end => return Ok(ExitCode::SUCCESS),
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let end = Instant::now() + PATIENCE;
    while !restore_all(&dirs.journal())? && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(ExitCode::SUCCESS)
}

/// Restores all that can be; whether nothing is left. The first error comes after all were tried. For the one who has the
/// right to switch programs.
pub fn restore_all(journal: &Journal) -> anyhow::Result<bool> {
    journal.remove_unfinished()?;
    let (mut done, mut first) = (true, None);
    for record in journal.records()? {
        match restore(journal, &record) {
            Ok(Restored::Done) => {}
            Ok(Restored::UpgradeUnderWay) => done = false,
            Err(error) => first = first.or(Some(error)),
        }
    }
    match first {
        Some(error) => Err(error.into()),
        None => Ok(done),
    }
}
