//! The engines that run a script's programs: one or both, with one answer.
use crate::enabled::Enabled;
use crate::error::TraceError;
use crate::inside::Inside;
use crate::kernel::Kernel;
use crate::maps::Drops;
use dwell_collector::clock_ns;
use dwell_script::codegen::{Generator, NAMES};
use dwell_script::schema::{AggregationId, Row};
use std::cell::RefCell;
use std::time::{Duration, Instant};

/// While both engines run, one is not looked at for so long.
const TURN: Duration = Duration::from_millis(3);
/// Bytes of the time behind each record where both engines leave records.
const STAMP: usize = 8;

/// What runs the programs. Fields drop in this order: places that are patched keep no kernel probe waiting.
#[derive(Default)]
pub(crate) struct Engines {
    pub(crate) inside: Option<Box<RefCell<Inside>>>,
    pub(crate) kernel: Option<Box<Kernel>>,
    /// Both leave records, each with its time behind it.
    pub(crate) stamped: bool,
    /// Stamped records that may not be the oldest yet.
    pub(crate) held: RefCell<Vec<Vec<u8>>>,
    pub(crate) stopped: bool,
}

impl Engines {
    /// Runs BEGIN and attaches everything else.
    pub(crate) fn start(&mut self, probes: &Enabled) -> Result<(), TraceError> {
        if let Some(kernel) = &mut self.kernel {
            kernel.begin(probes)?;
        }
        if let Some(inside) = &mut self.inside {
            inside.get_mut().begin();
        }
        if let (Some(kernel), Some(inside)) = (&self.kernel, &mut self.inside) {
            let inside = inside.get_mut();
            match inside.runs_begin() {
                true => kernel.set_variables(&inside.variables())?,
                false => inside.set_variables(&kernel.variables()?),
            }
        }
        if let Some(kernel) = &mut self.kernel {
            kernel.attach(probes)?;
        }
        match &mut self.inside {
            Some(inside) => inside.get_mut().open(),
            None => Ok(()),
        }
    }

    /// Takes the programs off their probes and runs END.
    pub(crate) fn stop(&mut self) -> Result<(), TraceError> {
        self.stopped = true;
        if let Some(kernel) = &mut self.kernel {
            kernel.detach();
        }
        if let Some(inside) = &mut self.inside {
            inside.get_mut().detach()?;
        }
        if let Some(inside) = &mut self.inside {
            inside.get_mut().end();
        }
        self.kernel.as_ref().map_or(Ok(()), |kernel| kernel.end())
    }

    /// Waits for a record that is urgent, but not longer than this; whether there is one.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool, TraceError> {
        let (kernel, inside) = match (&self.kernel, &self.inside) {
            (Some(kernel), Some(inside)) => (kernel, inside),
            (Some(kernel), None) => return kernel.wait(timeout),
            (None, Some(inside)) => return Ok(inside.borrow_mut().wait(timeout)),
            (None, None) => return Ok(false),
        };
        let end = Instant::now() + timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if kernel.wait(Duration::ZERO)? || inside.borrow_mut().wait(left.min(TURN)) {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// Gives the records that were not given yet, oldest first.
    pub(crate) fn drain(&self, take: &mut dyn FnMut(&[u8])) -> Result<(), TraceError> {
        let Some(inside) = &self.inside else {
            return self.kernel.as_ref().map_or(Ok(()), |k| k.drain(take));
        };
        // Both have given all that was sent before.
        let complete = clock_ns(libc::CLOCK_MONOTONIC);
        let mut records = self.held.take();
        let mut keep = |record: &[u8]| records.push(record.to_vec());
        if let Some(kernel) = &self.kernel {
            kernel.drain(&mut keep)?;
        }
        inside.borrow_mut().drain(&mut keep);
        if self.stamped {
            records.sort_by_key(|record| stamp(record));
            if !self.stopped {
                let later = records.partition_point(|record| stamp(record) < complete);
                *self.held.borrow_mut() = records.split_off(later);
            }
            let without = |record: &mut Vec<u8>| record.truncate(record.len() - STAMP);
            records.iter_mut().for_each(without);
        }
        // Whoever takes them may ask for aggregations meanwhile.
        records.iter().for_each(|record| take(record));
        Ok(())
    }

    /// The parts of an aggregation's rows.
    pub(crate) fn rows(
        &self,
        generator: &Generator<'_>,
        store: u32,
        aggregation: AggregationId,
    ) -> Result<Vec<Row>, TraceError> {
        let mut parts = match &self.kernel {
            Some(kernel) => kernel.rows(generator, store, aggregation)?,
            None => Vec::new(),
        };
        if let Some(inside) = &self.inside {
            parts.extend(inside.borrow().rows(generator, store, aggregation));
        }
        Ok(parts)
    }

    /// Forgets keys of a store of sums.
    pub(crate) fn remove(&self, store: u32, keys: &[Vec<u8>]) {
        if let Some(kernel) = &self.kernel {
            keys.iter().for_each(|key| kernel.remove(store, key));
        }
        if let Some(inside) = &self.inside {
            inside.borrow_mut().remove(store, keys);
        }
    }

    /// Writes a probe's name (`value`) under its number (`key`), for programs to look up.
    pub(crate) fn write_name(&self, key: &[u8], value: &[u8]) -> Result<(), TraceError> {
        if let Some(inside) = &self.inside {
            inside.borrow().set(NAMES, key, value);
        }
        let kernel = self.kernel.as_ref();
        kernel.map_or(Ok(()), |kernel| kernel.write_name(key, value))
    }

    /// What found no room.
    pub(crate) fn drops(&self) -> Result<Drops, TraceError> {
        let kernel = self.kernel.as_ref().map(|kernel| kernel.drops());
        let mut drops = kernel.transpose()?.unwrap_or_default();
        if let Some(inside) = &self.inside {
            drops += inside.borrow().drops();
        }
        Ok(drops)
    }
}

fn stamp(record: &[u8]) -> u64 {
    let stamp = record.last_chunk().expect("a time stands behind it");
    u64::from_ne_bytes(*stamp)
}
