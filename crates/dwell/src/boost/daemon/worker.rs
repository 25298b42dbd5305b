//! What takes long is done beside the daemon's loop, one after the other: changes and crashes cannot wait for it.
use super::replay::{Blame, replay};
use super::staging::{self, Staged};
use dwell_collector::Crash;
use dwell_switch::{Config, Dirs, RolledBack, Stamp};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Something to do.
pub enum Job {
    /// Make and try a boosted program, which is where the path says.
    Stage(PathBuf, Config),
    /// Tell whether one that was rolled back would be another today.
    Identify(RolledBack),
    /// Run the stock program, which is where the path says, as it was run when it crashed boosted.
    Replay(String, PathBuf, Crash),
}

/// What was done.
pub enum Done {
    Staged(PathBuf, Staged),
    /// The configuration's name, whether it would be another, and the program's state when this was looked at.
    Identified(RolledBack, bool),
    /// The configuration's name, how it crashed, and whose fault it seems.
    Replayed(String, Crash, Blame),
}

/// The thread that works.
pub struct Worker {
    jobs: Sender<Job>,
    done: Receiver<Done>,
    bell: UnixStream,
}

impl Worker {
    pub fn start(dirs: &Dirs) -> anyhow::Result<Self> {
        let (jobs, to_do) = channel();
        let (report, done) = channel();
        let (bell, mut ring) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        let dirs = dirs.clone();
        std::thread::Builder::new()
            .name("booster".into())
            .spawn(move || {
                for job in to_do {
                    let done = match job {
                        Job::Stage(path, config) => {
                            Done::Staged(path, staging::stage(&dirs, config))
                        }
                        Job::Identify(aside) => {
                            let other = is_another(&aside);
                            Done::Identified(aside, other)
                        }
                        Job::Replay(name, stock, crash) => {
                            let blame = replay(&stock, &crash);
                            Done::Replayed(name, crash, blame)
                        }
                    };
                    if report.send(done).is_err() || ring.write_all(&[0]).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Worker { jobs, done, bell })
    }

    pub fn give(&self, job: Job) {
        // It ends only with the daemon.
        let _ = self.jobs.send(job);
    }

    /// All that was done meanwhile.
    pub fn take(&mut self) -> Vec<Done> {
        let _ = self.bell.read(&mut [0; 64]);
        self.done.try_iter().collect()
    }

    /// A descriptor that is readable when something was done.
    pub fn raw_fd(&self) -> RawFd {
        self.bell.as_raw_fd()
    }
}

fn is_another(aside: &RolledBack) -> bool {
    let Some((config, id)) = aside.config.as_ref().zip(aside.build_id.as_ref()) else {
        return false;
    };
    staging::build_id_now(config).is_ok_and(|now| now != *id)
}

/// What decides whether it would be another.
pub fn inputs_of(aside: &RolledBack) -> Vec<Stamp> {
    let program = aside.config.iter().map(|c| Stamp::of(&c.elf_path));
    program
        .chain([Stamp::of(Path::new(super::super::subject::LOADER_CACHE))])
        .collect()
}
