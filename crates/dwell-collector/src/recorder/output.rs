//! What is written: segments, and what the recording says of itself.
use super::Recorder;
use crate::error::CollectError;
use crate::machine;
use crate::options::Target;
use dwell_abi::events::{self, SWEEP_ALL};
use dwell_recording::meta::RecorderCost;
use dwell_recording::{Buffered, Overwrite, Tables, Writer};

/// From this many threads on, those that sleep throughout are reported only with every tenth segment.
const MANY_THREADS: usize = 2000;

impl Recorder {
    /// Only now that nothing can fail any more an older recording may go.
    pub(super) fn open_output(&mut self) -> Result<(), CollectError> {
        let overwrite = if self.options.overwrite {
            Overwrite::Replace
        } else {
            Overwrite::Refuse
        };
        if let Some(launched) = &mut self.launched
            && let Target::Command(words) = &self.options.target
        {
            launched.check(&words[0])?;
        }
        if let Some(output) = &self.options.output {
            self.writer = Some(Writer::create_with(output, self.meta.clone(), overwrite)?);
        }
        self.cpu_at_start = machine::own_cpu_ns();
        Ok(())
    }

    pub(super) fn segment(&mut self) -> Result<Option<Tables>, CollectError> {
        if let Target::Cgroup(path) = self.options.target.clone() {
            self.adopt_newcomers(&path)?;
        }
        // Threads that sleep throughout are reported too, as long as they are few.
        self.segments += 1;
        let living = self.state.threads.alive().count();
        let all = living < MANY_THREADS || self.segments.is_multiple_of(10);
        self.programs.sweep(if all { SWEEP_ALL } else { 0 })?;
        self.pump()?;
        self.state.open_waits();
        self.take_priorities(false);
        self.fill_meta()?;
        self.meta.end_ns = self.end_ns.min(machine::boottime_ns());
        Ok(self.write_segment())
    }

    /// How the scheduler prefers threads that are new, or all `again`.
    pub(super) fn take_priorities(&mut self, again: bool) {
        let alive = self.state.threads.alive();
        let asked = alive.map(|(thread, t)| (thread, t.row.tid));
        let rows = self.priorities.look(machine::boottime_ns(), asked, again);
        self.append(rows);
    }

    /// Writes what was gathered, or returns it when there is nowhere to write. A disk that is full
    /// does not end the recording: the writer counts what it has to drop, and the error is told at
    /// the end.
    pub(super) fn write_segment(&mut self) -> Option<Tables> {
        let rows = self.state.take_rows();
        let Some(writer) = &mut self.writer else {
            return Some(Tables {
                meta: self.meta.clone(),
                ..rows
            });
        };
        writer.meta_mut().clone_from(&self.meta);
        let appended = append(writer, rows);
        if let Err(error) = appended.and(writer.close_segment()) {
            self.write_error.get_or_insert(error);
        }
        None
    }

    /// Takes in rows for the next segment, also such as this crate does not make.
    pub fn append<R: Buffered>(&mut self, rows: Vec<R>) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.append(rows)
        {
            self.write_error.get_or_insert(error);
        }
    }

    pub(super) fn fill_meta(&mut self) -> Result<(), CollectError> {
        let counters = self.programs.counters()?;
        let losses = self.state.losses;
        let left_out = self.state.processes.mappings_left_out();
        let meta = &mut self.meta;
        meta.recorder = RecorderCost {
            cpu_ns: machine::own_cpu_ns() - self.cpu_at_start,
            peak_rss_bytes: machine::peak_rss_bytes(),
            copied_stacks: self.state.copied_stacks,
            waits_passed_over: counters[events::COUNTER_PASSED_OVER as usize],
            bpf_ns: self.programs.run_time_ns(),
        };
        let kinds = [
            (events::RECORD_RUNNING, "running_stacks"),
            (events::RECORD_WAIT, "waits"),
            (events::RECORD_WAIT_STACK, "wait_stacks"),
            (events::RECORD_WAKER, "waker_stacks"),
            (events::RECORD_SITE, "site_sums"),
            (events::RECORD_THREAD, "thread_sums"),
            (events::RECORD_FORK, "forks"),
            (events::RECORD_EXEC, "execs"),
            (events::RECORD_RENAME, "renames"),
            (events::RECORD_CODE, "code_names"),
        ];
        let memory = (events::RECORD_MEMORY_STACK, "memory_stacks");
        let wanted = self.options.memory.then_some(memory);
        for (kind, name) in kinds.into_iter().chain(wanted) {
            meta.produced.insert(
                name.into(),
                counters[(events::COUNTER_PRODUCED + kind) as usize] - self.late[kind as usize],
            );
            meta.losses.insert(
                name.into(),
                counters[(events::COUNTER_LOST + kind) as usize],
            );
        }
        let others = [
            (
                "stacks_without_buffer",
                counters[events::COUNTER_NO_SCRATCH as usize],
            ),
            (
                "threads_not_followed",
                counters[events::COUNTER_NO_STORAGE as usize],
            ),
            (
                "stacks_of_unseen_switches",
                counters[events::COUNTER_NOT_SEEN as usize],
            ),
            (
                "wakers_of_unseen_wakings",
                counters[events::COUNTER_WAKING_NOT_SEEN as usize],
            ),
            ("records_without_thread", losses.orphans),
            ("wait_stacks_missing", losses.stacks_missing),
            ("mapping_reports", losses.map_events),
            ("mappings_left_out", left_out),
        ];
        for (name, n) in others {
            meta.losses.insert(name.into(), n);
        }
        Ok(())
    }
}

/// Appends all tables, also when one of them fails: the exact sums are small and worth having even
/// where samples found no room. The first error is returned.
fn append(writer: &mut Writer, rows: Tables) -> Result<(), dwell_recording::RecordingError> {
    let results = [
        writer.append(rows.processes),
        writer.append(rows.threads),
        writer.append(rows.mappings),
        writer.append(rows.frames),
        writer.append(rows.symbols),
        writer.append(rows.stacks),
        writer.append(rows.futexes),
        writer.append(rows.sites),
        writer.append(rows.site_times),
        writer.append(rows.samples),
        writer.append(rows.slices),
        writer.append(rows.events),
    ];
    results.into_iter().collect()
}
