//! `dwell boost daemon`: keeps programs boosted as long as that is right, and takes it back when it is not.
//!
//! The loop waits for changes of files, crashes, work that is done and signals, and looks at everything after each.
mod arguments;
mod commands;
mod programs;
mod replay;
mod rights;
mod staging;
mod status;
mod watchdog;
mod worker;

pub use arguments::{DaemonArgs, DirArgs, StatusArgs, SwitchArgs};
pub use commands::{activate, restore, rollback};
pub use status::status;

use crate::signals::{self, Signals};
use anyhow::Context;
use dwell_collector::Crashes;
use dwell_switch::{Dirs, Instance, Watch};
use programs::{Programs, Told};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use watchdog::Watchdog;
use worker::Worker;

/// Where the daemon tells what it does.
const TOLD: &str = "status.json";

/// How long a daemon waits for its lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs until a signal ends it.
pub fn daemon(args: &DaemonArgs) -> anyhow::Result<ExitCode> {
    if args.unit {
        print!("{}", unit()?);
        return Ok(ExitCode::SUCCESS);
    }
    let dirs = args.dirs.dirs()?;
    if args.watchdog {
        return watchdog::watch_over(&dirs);
    }
    need_root()?;
    if let Some(stock) = &args.replay {
        return replay::replay_here(stock, &args.replayed);
    }
    let _instance = take_instance(&dirs)?;
    // Before threads are started: they inherit what is blocked.
    let signals = Signals::take()?;
    let mut running = Running {
        watchdog: Watchdog::start(&dirs).context("starting the watchdog")?,
        watch: Watch::new()?,
        crashes: Crashes::watch().map_err(|e| e.to_string()),
        worker: Worker::start(&dirs)?,
        programs: Programs::new(&dirs)?,
        told: Told::default(),
        signals,
        dirs,
    };
    if let Err(why) = &running.crashes {
        eprintln!("dwell: crashes of boosted programs are not seen: {why}");
    }
    let result = running.run();
    let restored = running.programs.restore_all();
    result?;
    if !restored? {
        eprintln!("dwell: an upgrade is under way: what is left goes when it is over");
    }
    Ok(ExitCode::SUCCESS)
}

/// The right to be the only one. A watchdog that cleans up after a killed daemon has it for some ms.
fn take_instance(dirs: &Dirs) -> anyhow::Result<Instance> {
    let end = Instant::now() + PATIENCE;
    loop {
        let taken = match Instance::take(dirs).context("taking the daemon's lock")? {
            Ok(instance) => return Ok(instance),
            Err(taken) => taken,
        };
        let owner = taken.pid.map(|pid| format!(" (process {pid})"));
        anyhow::ensure!(
            Instant::now() < end,
            "another one is running{}: `dwell boost status` tells what it does, and a signal (SIGTERM) ends it",
            owner.unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

struct Running {
    watchdog: Watchdog,
    watch: Watch,
    /// Or why there are none.
    crashes: Result<Crashes, String>,
    worker: Worker,
    programs: Programs,
    told: Told,
    signals: Signals,
    dirs: Dirs,
}

impl Running {
    fn run(&mut self) -> anyhow::Result<()> {
        let mut ready = false;
        loop {
            let longest = self.programs.step(&self.worker)?;
            let folders = self.programs.folders();
            let others = self.watch.set(folders).context("watching folders")?;
            if let Ok(crashes) = &mut self.crashes {
                crashes.set(self.programs.files())?;
            }
            self.tell()?;
            if !std::mem::replace(&mut ready, true) {
                crate::notify::tell("READY=1");
            }
            self.wait(if others { Duration::ZERO } else { longest });
            if self.signals.end() {
                crate::notify::tell("STOPPING=1");
                return Ok(());
            }
            if self.watchdog.ended() {
                self.watchdog = Watchdog::start(&self.dirs).context("starting the watchdog")?;
            }
            if let Ok(crashes) = &mut self.crashes {
                for crash in crashes.take()? {
                    self.programs.crashed(crash, &self.worker);
                }
            }
            for done in self.worker.take() {
                // Before it is switched on: its first process may crash.
                if let (Ok(crashes), Some(file)) = (&mut self.crashes, programs::boosted_by(&done))
                {
                    let mut files = self.programs.files();
                    files.insert(file);
                    crashes.set(files)?;
                }
                self.programs.done(done);
            }
        }
    }

    fn wait(&self, longest: Duration) {
        let mut fds = vec![
            self.signals.raw_fd(),
            self.watch.raw_fd(),
            self.worker.raw_fd(),
        ];
        fds.extend(self.crashes.as_ref().map(Crashes::raw_fd));
        signals::wait(&fds, longest.as_millis() as i32);
        if self.watch.changed() {
            // Changes come in bursts.
            std::thread::sleep(Duration::from_millis(20));
            self.watch.changed();
        }
    }

    fn tell(&mut self) -> anyhow::Result<()> {
        let mut told = self.programs.told();
        told.crashes = self.crashes.as_ref().err().cloned();
        if told != self.told {
            let temporary = self.dirs.run.join(".status.new");
            std::fs::write(&temporary, serde_json::to_vec(&told)?)?;
            std::fs::rename(&temporary, self.dirs.run.join(TOLD))?;
            self.told = told;
        }
        Ok(())
    }
}

/// Switching files of the system is root's.
fn need_root() -> anyhow::Result<()> {
    // SAFETY: geteuid has no arguments and cannot fail.
    let us = unsafe { libc::geteuid() };
    anyhow::ensure!(
        us == 0,
        "programs are switched by root only: run it with sudo"
    );
    Ok(())
}

/// The unit for systemd that is packaged, for where this dwell is.
fn unit() -> anyhow::Result<String> {
    let own = std::env::current_exe().context("finding dwell's own file")?;
    let own = own.to_str().context("dwell's own path is not UTF-8")?;
    Ok(include_str!("../../../dwell-boost.service").replace("/usr/bin/dwell", own))
}
