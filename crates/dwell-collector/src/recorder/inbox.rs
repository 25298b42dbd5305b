//! What comes from the kernel: records by the ring, mappings by perf, merged by time.
use super::Recorder;
use crate::error::CollectError;
use crate::machine;
use crate::perf::{MapEvent, Reports};
use crate::programs::Programs;
use crate::records::Record;
use crate::state::State;
use dwell_abi::events;
use hashbrown::HashMap;
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::iter::Peekable;
use std::rc::Rc;

/// How much of the ring is copied at a time.
const BATCH_BYTES: usize = 1 << 20;
/// What the ring's callback says when that is reached.
const FULL: i32 = -libc::ENOBUFS;

impl Recorder {
    /// Takes in what has come: mappings and records in the order of their times.
    pub(super) fn pump(&mut self) -> Result<(), CollectError> {
        let mut reports = Reports::default();
        for events in &mut self.map_events {
            events.drain(&mut reports);
        }
        self.state.losses.map_events += reports.lost;
        self.state.kernel_code.extend(reports.kernel);
        let mut maps = reports.maps;
        maps.sort_by_key(|m| m.time);
        let now = machine::boottime_ns();
        self.mapping = false;
        self.state.processes.check_code(now);
        let mut maps = maps.into_iter().peekable();
        let mut taken = 0;
        // Not more than the ring holds: whoever is faster than we are shall not keep us here.
        while taken <= self.options.ring_bytes as usize {
            let bytes = self.take_batch()?;
            taken += bytes.len();
            let is_last = bytes.len() < BATCH_BYTES;
            self.take_in_records(&bytes, &mut maps)?;
            *self.ring_bytes.borrow_mut() = bytes;
            if is_last {
                break;
            }
        }
        for event in maps {
            self.map(event)?;
        }
        self.state.name_code();
        self.early_maps.forget(now);
        let State {
            processes, modules, ..
        } = &mut self.state;
        if reports.lost > 0 {
            processes.all_mappings_wanted();
        }
        processes.find_missing(self.programs.unwind_maps(), modules, now)?;
        self.publish()
    }

    fn publish(&mut self) -> Result<(), CollectError> {
        self.state
            .processes
            .publish(self.programs.unwind_maps(), &self.state.modules)
    }

    /// What the ring holds, up to somewhat more than [`BATCH_BYTES`].
    fn take_batch(&mut self) -> Result<Vec<u8>, CollectError> {
        self.ring_bytes.borrow_mut().clear();
        match self.ring.consume_raw() {
            0.. | FULL => Ok(std::mem::take(&mut *self.ring_bytes.borrow_mut())),
            error => Err(CollectError::Map(libbpf_rs::Error::from_raw_os_error(
                -error,
            ))),
        }
    }

    /// Takes in a batch of records, each after the mappings that came before it.
    fn take_in_records(
        &mut self,
        bytes: &[u8],
        maps: &mut Peekable<impl Iterator<Item = MapEvent>>,
    ) -> Result<(), CollectError> {
        let (mut at, mut is_published) = (0, true);
        while let Some((record, next)) = next_record(bytes, at) {
            at = next;
            let Some(record) = Record::parse(record) else {
                continue;
            };
            if self.is_late(&record) {
                self.late[record.kind() as usize] += 1;
                continue;
            }
            while let Some(event) = maps.next_if(|m| m.time <= record.time()) {
                self.map(event)?;
                is_published = false;
            }
            // A copied stack takes long, and there are more to come until the kernel side knows what is mapped.
            if record.is_copied_stack() && !is_published {
                self.publish()?;
                is_published = true;
            }
            let born = record.may_begin_process();
            self.state.record(self.programs.unwind_maps(), record)?;
            for event in born.map_or_else(Vec::new, |pid| self.early_maps.of(pid)) {
                self.map(event)?;
                is_published = false;
            }
        }
        Ok(())
    }

    /// Takes in a mapping.
    fn map(&mut self, event: MapEvent) -> Result<(), CollectError> {
        if event.time > self.end_ns {
            return Ok(());
        }
        if self.state.map_event(self.programs.unwind_maps(), &event)? {
            self.mapping = true;
        } else {
            self.early_maps.keep(event);
        }
        Ok(())
    }

    /// True for what happened after the window. The stack of a wait that ended in it may come later.
    fn is_late(&self, record: &Record<'_>) -> bool {
        let threads = &self.state.threads;
        let owes = |tid| {
            let thread = threads.id_of(tid).map(|id| threads.get(id));
            thread.is_some_and(|thread| !thread.owed.is_empty())
        };
        record.time() > self.end_ns
            && !matches!(record, Record::Stack(head, _)
                if head.kind == events::RECORD_WAIT_STACK && owes(head.tid))
    }
}

/// Mappings of processes that are not known: a child's, whose birth is still in the ring, or those of somebody whom
/// nobody asked for.
#[derive(Default)]
pub(super) struct EarlyMaps {
    by_pid: HashMap<u32, Vec<MapEvent>>,
    /// When old ones were last forgotten, ns.
    forgot_at: u64,
}

impl EarlyMaps {
    fn keep(&mut self, event: MapEvent) {
        self.by_pid.entry(event.pid).or_default().push(event);
    }

    /// Those of a process, which is known now.
    fn of(&mut self, pid: u32) -> Vec<MapEvent> {
        self.by_pid.remove(&pid).unwrap_or_default()
    }

    /// Forgets those whose process has not become known for a while.
    fn forget(&mut self, now: u64) {
        const PATIENCE_NS: u64 = 1_000_000_000;
        if now < self.forgot_at + PATIENCE_NS {
            return;
        }
        self.forgot_at = now;
        self.by_pid.retain(|_, events| {
            events.retain(|event| event.time + PATIENCE_NS > now);
            !events.is_empty()
        });
    }
}

/// The ring; reading it appends every record after its length.
pub(super) fn open_ring(
    programs: &Programs,
    into: Rc<RefCell<Vec<u8>>>,
) -> Result<RingBuffer<'static>, CollectError> {
    let map = programs.ring()?;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&map, move |record| {
            let mut bytes = into.borrow_mut();
            bytes.extend_from_slice(&(record.len() as u64).to_ne_bytes());
            bytes.extend_from_slice(record);
            if bytes.len() < BATCH_BYTES { 0 } else { FULL }
        })
        .map_err(CollectError::Map)?;
    builder.build().map_err(CollectError::Map)
}

fn next_record(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let length = u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?) as usize;
    Some((bytes.get(at + 8..at + 8 + length)?, at + 8 + length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(pid: u32, time: u64) -> MapEvent {
        MapEvent {
            time,
            pid,
            start: 0,
            end: 4096,
            file_offset: 0,
            device: 0,
            inode: 0,
            path: String::new(),
        }
    }

    #[test]
    fn early_mappings_wait_a_second_for_their_process() {
        const S: u64 = 1_000_000_000;
        let mut maps = EarlyMaps::default();
        for (pid, time) in [(1, 1), (2, 2), (1, 3), (3, S)] {
            maps.keep(event(pid, time));
        }
        let times = |events: Vec<MapEvent>| -> Vec<u64> { events.iter().map(|e| e.time).collect() };
        assert_eq!(times(maps.of(1)), [1, 3]);
        assert!(maps.of(1).is_empty());
        maps.forget(S + 10);
        assert!(maps.of(2).is_empty());
        assert_eq!(times(maps.of(3)), [S]);
    }
}
