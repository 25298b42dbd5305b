//! Births, deaths and names of threads and processes.
use super::State;
use crate::error::CollectError;
use crate::perf::MapEvent;
use crate::records::comm;
use crate::unwind_maps::UnwindMaps;
use dwell_abi::events::*;
use dwell_abi::unwind::StackEnd;
use dwell_recording::rows::{EventRow, ThreadRow};

impl State {
    /// Takes in a new mapping. False: its process is not known (yet).
    pub fn map_event(&mut self, maps: &UnwindMaps, event: &MapEvent) -> Result<bool, CollectError> {
        let Some(process) = self.processes.id_of(event.pid) else {
            return Ok(false);
        };
        self.processes
            .map(maps, &mut self.modules, process, event)?;
        Ok(true)
    }

    pub(super) fn thread_report(
        &mut self,
        maps: &UnwindMaps,
        record: Box<ThreadRecord>,
    ) -> Result<(), CollectError> {
        let thread = match self.threads.id_of(record.tid) {
            Some(thread) => thread,
            // A sweep may report a thread just after it died.
            None if self.threads.has_ended(record.tid, record.start) => return Ok(()),
            None if record.ended != 0 && record.running + record.runnable + record.blocked == 0 => {
                return Ok(());
            }
            None => self.discover(maps, &record)?,
        };
        let process = self.threads.get_mut(thread).row.process;
        self.processes
            .report(process, record.ns_tgid, record.parent);
        let (ended, leader, time, status) = (
            record.ended != 0,
            record.tid == record.tgid,
            record.time,
            record.exit_code,
        );
        let name = comm(&record.comm);
        if leader {
            self.processes.rename(process, name.clone(), 0);
        }
        self.threads.report(thread, record, name);
        if ended {
            // It died on its way out.
            self.flush_owed(thread, StackEnd::NoUser);
            self.event(time, Some(thread), "exit", String::new());
            if self.processes.thread_ends(process) {
                self.processes.end(maps, process, time, status);
                self.threads.futexes.forget(process);
            }
        }
        Ok(())
    }

    /// A thread that lived before the recording began.
    fn discover(&mut self, maps: &UnwindMaps, record: &ThreadRecord) -> Result<u32, CollectError> {
        let process = match self.processes.id_of(record.tgid) {
            Some(process) => process,
            None => {
                let process = self.processes.begin(record.tgid, record.start);
                if record.site_flags & SITE_KTHREAD == 0 {
                    self.processes
                        .map_all(maps, &mut self.modules, process, record.start)?;
                }
                process
            }
        };
        Ok(self.begin_thread(ThreadRow {
            process,
            tid: record.tid,
            ns_tid: record.ns_tid,
            name: comm(&record.comm),
            start_ns: record.start,
            until_ns: record.start,
            ..ThreadRow::default()
        }))
    }

    pub(super) fn task(&mut self, record: &TaskRecord) {
        let name = comm(&record.comm);
        match record.kind {
            RECORD_FORK => {
                let process = match self.processes.id_of(record.tgid) {
                    Some(process) if record.tid != record.tgid => process,
                    _ => self.processes.begin_fork(
                        record.tgid,
                        record.ns_tid,
                        record.other_tgid,
                        name.clone(),
                        record.time,
                    ),
                };
                let thread = self.begin_thread(ThreadRow {
                    process,
                    tid: record.tid,
                    ns_tid: record.ns_tid,
                    name,
                    start_ns: record.time,
                    until_ns: record.time,
                    ..ThreadRow::default()
                });
                let parent = self.threads.id_of(record.other_tid);
                self.event(
                    record.time,
                    parent,
                    "fork",
                    format!("thread {thread}, tid {}", record.tid),
                );
            }
            RECORD_EXEC => {
                self.threads.change_tid(record.other_tid, record.tid);
                if let Some(process) = self.processes.id_of(record.tgid) {
                    self.threads.futexes.forget(process);
                    self.processes.exec(process, name.clone());
                }
                let thread = self
                    .threads
                    .id_of(record.tid)
                    .or_else(|| self.begin_launched(record, &name));
                if let Some(thread) = thread {
                    self.threads.forget_stacks(thread);
                }
                self.event(record.time, thread, "exec", name);
            }
            _ => {
                let leader = self
                    .processes
                    .id_of(record.tgid)
                    .filter(|_| record.tid == record.tgid);
                if let Some(process) = leader {
                    self.processes.rename(process, name.clone(), record.time);
                }
                // One that is just being adopted will be reported with this name.
                if let Some(thread) = self.threads.id_of(record.tid) {
                    self.threads.rename(thread, name.clone());
                    self.event(record.time, Some(thread), "rename", name);
                }
            }
        }
    }

    fn begin_thread(&mut self, row: ThreadRow) -> u32 {
        self.processes.thread_begins(row.process);
        self.threads.begin(row)
    }

    /// The first thread of a launched command: its life begins with its exec.
    fn begin_launched(&mut self, record: &TaskRecord, name: &str) -> Option<u32> {
        let process = self.processes.id_of(record.tgid)?;
        Some(self.begin_thread(ThreadRow {
            process,
            tid: record.tid,
            ns_tid: record.ns_tid,
            name: name.into(),
            start_ns: record.time,
            until_ns: record.time,
            ..ThreadRow::default()
        }))
    }

    fn event(&mut self, time_ns: u64, thread: Option<u32>, kind: &str, detail: String) {
        self.events.push(EventRow {
            time_ns,
            thread,
            kind: kind.into(),
            detail,
        });
    }
}
