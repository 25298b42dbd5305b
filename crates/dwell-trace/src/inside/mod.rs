//! The engine that runs programs inside the target, as native code at patched places.
//!
//! All that a script keeps lies in one piece of memory that the target and we have mapped. What does not belong to
//! a place in the code (BEGIN, END, tick) runs here, as the same code on the same memory.
mod clock;
mod code;
mod local;
mod memory;
mod pages;
mod places;
mod records;
mod sums;
#[cfg(test)]
mod tests;
mod watchers;

use crate::error::TraceError;
use crate::maps::Drops;
use crate::probes::At;
use clock::TimeKeeper;
use code::Block;
use dwell_abi::program::{Program, Store};
use dwell_agent::script::layout::OWN_LEN;
use dwell_patch::Attachment;
use dwell_patch::process::State;
use dwell_script::codegen::{Generator, MEMORY, Site, control};
use dwell_script::schema::{AggregationId, Row};
use local::Local;
use memory::{Memory, Shape};
use pages::Watch;
pub(crate) use places::{Refused, Survey};
use records::Reader;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use sums::Removed;
use watchers::Watchers;

/// A program, and the probes it is for.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) site: Site,
    pub(crate) program: Program,
    pub(crate) members: Vec<(u32, At)>,
}

/// A script at work inside a process.
pub(crate) struct Inside {
    // Nothing may run any more when the memory goes.
    attachment: Option<Attachment>,
    watchers: Watchers,
    watch: Watch,
    pid: u32,
    local: Local,
    memory: Memory,
    shape: Shape,
    time: TimeKeeper,
    reader: Reader,
    removed: Removed,
    refused: Refused,
}

/// The script cannot run inside: why, and what can be done.
pub(crate) fn refuse(why: impl std::fmt::Display) -> TraceError {
    TraceError::NotInside(why.to_string())
}

impl Inside {
    /// What of a script could run inside.
    pub(crate) fn survey(made: &[Made], stores: &[Store]) -> Result<Survey, TraceError> {
        places::survey(made, &Shape::new(stores, 4096))
    }

    /// Patches the process, as far as that can be done. Programs do not run yet.
    pub(crate) fn new(
        survey: &Survey,
        mut made: Vec<Made>,
        stores: &[Store],
        initial: &[u8],
        ring_bytes: u32,
    ) -> Result<Inside, TraceError> {
        let pid = survey.pid;
        let time = TimeKeeper::begin();
        let shape = Shape::new(stores, ring_bytes);
        let mut watch = Watch::new(pid, &made);
        let count = made.len();
        made.extend(watch.programs());
        let block = Block::new(&made, &shape)?;
        let (numbers, mut probes) = survey.probes(&made[..count], &block);
        probes.extend(watch.probes(&block, count));
        let state = State {
            own_len: OWN_LEN,
            shared_len: shape.len,
            head: vec![0; 8],
            is_common: true,
        };
        let attachment =
            Attachment::with_programs(pid as i32, &probes, &state, Some(&block)).map_err(refuse)?;
        made.truncate(count);
        watch.attached(&attachment, numbers.len());
        let refused = places::refused(&attachment, &numbers);
        if refused.reasons.len() == numbers.len() {
            let why = refused.reasons.values().next();
            let why = why.map_or("no probe is in a process", String::as_str);
            return Err(refuse(why));
        }
        for made in &mut made {
            made.members
                .retain(|(number, _)| !refused.reasons.contains_key(number));
        }
        let shared = attachment.share_state(0).map_err(refuse)?;
        let memory = Memory::new(shared);
        shape.fill(&memory, pid);
        memory.write(shape.memory(MEMORY), initial);
        let local = Local::new(&made, &shape, &memory)?;
        let watchers = Watchers::new(pid, &places::counts(&made))?;
        Ok(Inside {
            attachment: Some(attachment),
            watchers,
            watch,
            pid,
            local,
            memory,
            shape,
            time,
            reader: Reader::default(),
            removed: Removed::default(),
            refused,
        })
    }

    /// The probes that it was made for and whose places were not patched.
    pub(crate) fn refused(&self) -> &Refused {
        &self.refused
    }

    /// Sets an entry of a table.
    pub(crate) fn set(&self, store: u32, key: &[u8], value: &[u8]) {
        sums::set(&self.memory, &self.shape, store, key, value);
    }

    /// Whether BEGIN runs here.
    pub(crate) fn runs_begin(&self) -> bool {
        self.local.has(Site::Begin)
    }

    /// Runs BEGIN.
    pub(crate) fn begin(&mut self) {
        self.time.set(self.memory.state());
        self.local.run(Site::Begin);
    }

    /// Where variables are, and their bytes: the script's memory behind the control words.
    fn variables_at(&self) -> (u64, u64) {
        let (start, size) = self.shape.memory_of(MEMORY);
        let words = u64::from(control::ZEROS);
        (start + words, size - words)
    }

    /// The script's memory behind the control words.
    pub(crate) fn variables(&self) -> Vec<u8> {
        let (at, size) = self.variables_at();
        self.memory.words(at, size)
    }

    /// Sets what [`Inside::variables`] gives, before programs run.
    pub(crate) fn set_variables(&self, variables: &[u8]) {
        let (at, size) = self.variables_at();
        assert_eq!(variables.len() as u64, size, "both engines' are alike");
        self.memory.write(at, variables);
    }

    /// Lets the programs run.
    pub(crate) fn open(&mut self) -> Result<(), TraceError> {
        self.local.start_ticks();
        let attachment = self.attachment.as_ref().expect("it was not stopped");
        attachment.write_state(0, 0, &[1]).map_err(refuse)?;
        self.watch.publish(self.pid, &self.memory);
        Ok(())
    }

    /// Gives the process its code back.
    pub(crate) fn detach(&mut self) -> Result<(), TraceError> {
        self.time.set(self.memory.state());
        pages::forget(&self.memory);
        if let Some(attachment) = self.attachment.take() {
            // A process that has ended runs nothing.
            let _ = attachment.write_state(0, 0, &[0]);
            self.watchers = Watchers::default();
            attachment.detach().map_err(refuse)?;
        }
        Ok(())
    }

    /// Runs END.
    pub(crate) fn end(&mut self) {
        self.local.run(Site::End);
        self.reader.abandon();
    }

    /// Waits for a record that is urgent, and meanwhile runs what is due.
    pub(crate) fn wait(&mut self, timeout: Duration) -> bool {
        let end = Instant::now() + timeout;
        loop {
            self.time.adjust(self.memory.state());
            let next = self.local.run_ticks().map_or(end, |next| next.min(end));
            let now = Instant::now();
            if self.is_urgent() || now >= end {
                return self.is_urgent();
            }
            records::sleep(&self.memory.state().ring.urgent, next - now);
        }
    }

    fn is_urgent(&self) -> bool {
        self.memory.state().ring.urgent.load(Ordering::Acquire) != 0
    }

    /// Gives the records that are complete, oldest first.
    pub(crate) fn drain(&mut self, take: &mut dyn FnMut(&[u8])) {
        self.reader.drain(&self.memory, take);
    }

    pub(crate) fn rows(
        &self,
        generator: &Generator<'_>,
        store: u32,
        aggregation: AggregationId,
    ) -> Vec<Row> {
        let mut parts = Vec::new();
        sums::each(&self.memory, &self.shape, store, &mut |key, value| {
            parts.extend(generator.row(aggregation, key, value));
        });
        parts
    }

    /// Forgets a key of sums.
    pub(crate) fn remove(&mut self, store: u32, keys: &[Vec<u8>]) {
        self.removed.remove(&self.memory, &self.shape, store, keys);
    }

    /// Whether programs run no more, since the target was about to forbid itself system calls.
    pub(crate) fn rests(&self) -> bool {
        self.memory.state().rests.load(Ordering::Acquire) != 0
    }

    pub(crate) fn drops(&self) -> Drops {
        let at = self.shape.memory(MEMORY);
        let word = |word: u32| self.memory.word(at + u64::from(word));
        let mut drops = Drops::read(word);
        drops.errors += self.reader.lost();
        drops
    }
}
