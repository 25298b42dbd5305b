//! What comes from the kernel: records by the ring, mappings by perf, merged by time.
use super::Recorder;
use crate::error::CollectError;
use crate::machine;
use crate::perf::{MapEvent, Reports};
use crate::programs::Programs;
use crate::records::Record;
use crate::state::State;
use dwell_abi::events;
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
        let mut reports = Reports {
            maps: std::mem::take(&mut self.early_maps),
            ..Reports::default()
        };
        for events in &mut self.map_events {
            events.drain(&mut reports);
        }
        self.state.losses.map_events += reports.lost;
        self.state.kernel_code.extend(reports.kernel);
        let mut maps = reports.maps;
        maps.sort_by_key(|m| m.time);
        let now = machine::boottime_ns();
        self.mapping = false;
        let mut maps = maps.into_iter().peekable();
        let mut taken = 0;
        // Not more than the ring holds: whoever is faster than we are shall not keep us here.
        while taken <= self.options.ring_bytes as usize {
            let bytes = self.take_batch()?;
            taken += bytes.len();
            let is_last = bytes.len() < BATCH_BYTES;
            self.take_in_records(&bytes, &mut maps, now)?;
            *self.ring_bytes.borrow_mut() = bytes;
            if is_last {
                break;
            }
        }
        for event in maps {
            self.map(event, now)?;
        }
        let State {
            processes, modules, ..
        } = &mut self.state;
        processes.find_missing(&self.programs, modules, reports.lost > 0, now)?;
        self.state
            .processes
            .publish(&self.programs, &self.state.modules)
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
        now: u64,
    ) -> Result<(), CollectError> {
        let mut at = 0;
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
                self.map(event, now)?;
            }
            self.state.record(&self.programs, record)?;
        }
        Ok(())
    }

    /// A mapping of a process that is not known yet may be that of a child whose birth is still in
    /// the ring: it is tried again for a while.
    fn map(&mut self, event: MapEvent, now: u64) -> Result<(), CollectError> {
        const PATIENCE_NS: u64 = 1_000_000_000;
        if event.time > self.end_ns {
            return Ok(());
        }
        if self.state.map_event(&self.programs, &event)? {
            self.mapping = true;
        } else if event.time + PATIENCE_NS > now {
            self.early_maps.push(event);
        }
        Ok(())
    }

    /// True for what happened after the window. The stack of a wait that ended in it may come later.
    fn is_late(&self, record: &Record<'_>) -> bool {
        let threads = &self.state.threads;
        let owes = |tid| {
            let thread = threads.id_of(tid).map(|id| threads.get(id));
            thread.is_some_and(|thread| thread.owed.is_some())
        };
        record.time() > self.end_ns
            && !matches!(record, Record::Stack(head, _)
                if head.kind == events::RECORD_WAIT_STACK && owes(head.tid))
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
