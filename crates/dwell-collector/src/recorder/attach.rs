//! Attaching: whom to follow, and from when on.
use super::Recorder;
use crate::error::CollectError;
use crate::launch::pidfd;
use crate::memory::Memory;
use crate::options::Target;
use crate::{kernel_locks, machine, preload};
use dwell_abi::events::{SWEEP_ADOPT, SWEEP_ALL};
use std::time::{Duration, Instant};

/// Threads that live already are adopted one after the other, a µs or two each, and all begin with the
/// window: it opens when that should be done. One that is adopted later begins later.
fn adoption_ns() -> u64 {
    10_000_000 + 5_000 * machine::threads()
}

impl Recorder {
    pub(super) fn adopt(&mut self) -> Result<(), CollectError> {
        let pids = self.target_pids()?;
        let now = machine::boottime_ns();
        for &pid in &pids {
            let process = self.state.processes.begin(pid, now);
            // A command has nothing mapped yet: it still is our own copy.
            if self.launched.is_none() {
                self.state.processes.map_all(
                    self.programs.unwind_maps(),
                    &mut self.state.modules,
                    process,
                    now,
                )?;
            }
            if !matches!(self.options.target, Target::All) {
                self.programs.add_target(pid)?;
            }
        }
        if let (Some(_), Target::Command(words)) = (&self.launched, &self.options.target)
            && let Some(executable) = preload::find_command(&words[0])
        {
            for (path, file) in preload::files_of(&executable) {
                self.state
                    .modules
                    .of_file(self.programs.unwind_maps(), file, &path)?;
            }
        }
        self.state
            .processes
            .publish(self.programs.unwind_maps(), &self.state.modules)?;
        self.programs
            .attach(self.options.clock, self.options.period_ns)?;
        self.begin_way()?;
        if self.options.kernel_locks {
            kernel_locks::attach(&mut self.programs)?;
        }
        self.open_window()?;
        if self.options.memory {
            self.memory = Some(Memory::begin(&mut self.programs)?);
        }
        Ok(())
    }

    /// Adopts the threads that live already, and returns when the window begins.
    fn open_window(&mut self) -> Result<(), CollectError> {
        let mut start_ns = machine::boottime_ns();
        if self.launched.is_none() {
            start_ns += adoption_ns();
        }
        self.meta.start_ns = start_ns;
        if let Some(duration) = self.options.duration {
            self.end_ns = start_ns.saturating_add(duration.as_nanos() as u64);
        }
        self.programs.set_window(start_ns, self.end_ns)?;
        self.state.processes.begin_window(start_ns);
        if self.launched.is_none() {
            self.programs.sweep(SWEEP_ADOPT | SWEEP_ALL)?;
            self.pump()?;
        }
        let ahead = start_ns.saturating_sub(machine::boottime_ns());
        std::thread::sleep(Duration::from_nanos(ahead));
        self.started = Instant::now();
        Ok(())
    }

    fn target_pids(&mut self) -> Result<Vec<u32>, CollectError> {
        let pids = match &self.options.target {
            Target::Pids(pids) => pids.clone(),
            Target::Cgroup(path) => crate::cgroup::processes(path)?,
            Target::Command(_) => self.launched.iter().map(|l| l.pid).collect(),
            // Read before the window begins: all their unwind tables can take seconds.
            Target::All => return Ok(crate::processes::running()),
        };
        if !matches!(self.options.target, Target::Cgroup(_)) {
            for &pid in &pids {
                let remedy = "check the process id: `pgrep -a NAME` lists them";
                self.watched.push(
                    pidfd(pid)
                        .map_err(|e| CollectError::from_io(format!("process {pid}"), e, remedy))?,
                );
            }
        }
        Ok(pids)
    }

    pub(super) fn adopt_newcomers(&mut self, cgroup: &std::path::Path) -> Result<(), CollectError> {
        let pids = crate::cgroup::processes(cgroup).unwrap_or_default();
        let new: Vec<u32> = pids
            .into_iter()
            .filter(|&pid| self.state.processes.id_of(pid).is_none())
            .collect();
        for &pid in &new {
            self.programs.add_target(pid)?;
        }
        if !new.is_empty() {
            self.programs.sweep(SWEEP_ADOPT)?;
        }
        Ok(())
    }
}
