//! The end of a recording.
use super::{Ended, Recorder};
use crate::error::CollectError;
use crate::finished::Finished;
use crate::options::Target;
use crate::poll::is_readable;
use crate::{kernel_locks, lock_owners, machine};
use dwell_abi::events::SWEEP_ALL;
use dwell_recording::rows::{EventRow, event};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

impl Recorder {
    pub(super) fn ended(&mut self) -> Option<Ended> {
        while let Some(signal) = self.signals.next() {
            match (signal, &self.launched) {
                (libc::SIGCHLD, _) => {}
                // The terminal sends Ctrl-C to the command too: it decides what to do with it.
                (libc::SIGINT, Some(_)) if self.exit_code.is_none() => {}
                (libc::SIGTERM | libc::SIGHUP, Some(launched)) => launched.signal(signal),
                _ => return Some(Ended::Signal),
            }
        }
        if let Some(launched) = &self.launched {
            self.exit_code = self.exit_code.or_else(|| launched.exit_code(false));
            if self.exit_code.is_some() {
                return Some(Ended::TargetGone);
            }
        } else if matches!(self.options.target, Target::Pids(_))
            && self.watched.iter().all(|fd| is_readable(fd.as_raw_fd()))
        {
            return Some(Ended::TargetGone);
        }
        self.options
            .duration
            .is_some_and(|d| self.started.elapsed() >= d)
            .then_some(Ended::Duration)
    }

    /// Ends the recording: takes everything back from the kernel and writes the rest.
    pub fn finish(mut self) -> Result<Finished, CollectError> {
        self.settle()?;
        self.end_ns = self.end_ns.min(machine::boottime_ns());
        self.programs.set_window(self.meta.start_ns, self.end_ns)?;
        // A recorder that was kept waiting may find the ring full: the last reports need room.
        self.pump()?;
        self.programs.sweep(SWEEP_ALL)?;
        self.programs.detach();
        self.pump()?;
        // After the sweep: what runs on by now has told its stack.
        self.take_lock_owners();
        self.take_priorities(true);
        self.take_kernel_locks()?;
        self.take_memory()?;
        self.state.close();
        self.fill_meta()?;
        let meta = &mut self.meta;
        meta.end_ns = self.end_ns;
        meta.exit_code = self.exit_code;
        self.write_segment();
        let Some(writer) = self.writer else {
            return Err(CollectError::Internal(
                "a recording without an output cannot be finished".into(),
            ));
        };
        Ok(Finished {
            launched: self.launched,
            exit_code: self.exit_code,
            write_error: self.write_error,
            problems: std::mem::take(&mut self.state.modules.problems),
            writer,
            kernel_symbols: self.kernel_symbols,
            state: self.state,
        })
    }

    /// A process that has just ended still has its last switch before it: gives it a moment, so that
    /// its sums are complete.
    fn settle(&mut self) -> Result<(), CollectError> {
        let deadline = Instant::now() + Duration::from_millis(50);
        let gone = self.gone();
        loop {
            self.pump()?;
            let seen = |pid: &u32| self.state.processes.id_of(*pid).is_none();
            if gone.iter().all(seen) || Instant::now() > deadline {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The targets that have ended.
    fn gone(&self) -> Vec<u32> {
        match &self.options.target {
            Target::Command(_) if self.exit_code.is_some() => {
                self.launched_pid().into_iter().collect()
            }
            Target::Pids(pids) => {
                let watched = pids.iter().zip(&self.watched);
                let gone = watched.filter(|(_, fd)| is_readable(fd.as_raw_fd()));
                gone.map(|(pid, _)| *pid).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Who holds the locks that threads wait for now.
    fn take_lock_owners(&mut self) {
        let time_ns = machine::boottime_ns();
        let asked = self.state.threads.alive().map(|(thread, t)| {
            let process = self.state.processes.get(t.row.process);
            (thread, process.row.pid, t.row.tid)
        });
        let told = lock_owners::held_up(asked)
            .into_iter()
            .map(|found| EventRow {
                time_ns,
                thread: Some(found.thread),
                kind: event::LOCK_OWNER.into(),
                detail: event::lock_owner(found.address, found.owner_ns_tid, found.timed),
            });
        let told = told.collect();
        self.append::<EventRow>(told);
    }

    fn take_kernel_locks(&mut self) -> Result<(), CollectError> {
        if !self.options.kernel_locks {
            return Ok(());
        }
        const WAITS: &str = "kernel_lock_waits";
        let found = kernel_locks::read(&self.programs, &mut self.state)?;
        self.meta.produced.insert(WAITS.into(), found.produced);
        self.meta.losses.insert(WAITS.into(), found.lost);
        self.append(found.rows);
        Ok(())
    }

    fn take_memory(&mut self) -> Result<(), CollectError> {
        let Some(memory) = self.memory.take() else {
            return Ok(());
        };
        const SUMS: &str = "memory_sums";
        let found = memory.end(&self.programs, &mut self.state)?;
        self.meta.produced.insert(SUMS.into(), found.produced);
        self.meta.losses.insert(SUMS.into(), found.lost);
        let skipped = found.stacks_skipped;
        self.meta
            .losses
            .insert("memory_place_stacks".into(), skipped);
        self.meta
            .losses
            .insert("memory_owners".into(), found.owners_lost);
        self.meta.memory = Some(found.costs);
        self.append(found.rows);
        Ok(())
    }
}
