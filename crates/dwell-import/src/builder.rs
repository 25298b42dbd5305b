//! A recording in the making: numbers frames and stacks, and writes rows as they come.
use crate::error::ImportError;
use dwell_recording::meta::Meta;
use dwell_recording::rows::*;
use dwell_recording::{Overwrite, Writer};
use rustc_hash::FxHashMap;
use std::path::Path;

/// The end of a stack that is not known to be cut short.
pub const COMPLETE: &str = "complete";

/// A file, or what stands for one, that frames are in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// `user`, `kernel`, `jit` or `unknown`.
    pub kind: &'static str,
    /// Path, or a name in brackets.
    pub module: String,
    /// Hex, empty when unknown.
    pub build_id: String,
    /// Whose address space, where that matters.
    pub process: Option<u32>,
}

/// One wait, or one stay on the run queue.
#[derive(Clone, Debug)]
pub struct Stay {
    /// Row of `threads`.
    pub thread: u32,
    /// Row of `sites`.
    pub site: u32,
    /// When it left the processor.
    pub start_ns: u64,
    /// Asleep.
    pub blocked_ns: u64,
    /// Wanting a processor after that.
    pub runnable_ns: u64,
    /// Where it left the processor.
    pub stack: Option<u32>,
    /// The processor it came back on.
    pub cpu: u32,
    /// Who woke it.
    pub waker: Option<Waker>,
}

/// Who woke a thread.
#[derive(Clone, Debug, Default)]
pub struct Waker {
    /// Its number; none for interrupts.
    pub tid: Option<u32>,
    /// Row of `threads`.
    pub thread: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its stack.
    pub stack: Option<u32>,
}

/// Exact sums of a site.
#[derive(Default)]
struct Sums {
    blocked_ns: u64,
    runnable_ns: u64,
    count: u64,
    max_ns: u64,
}

/// A recording in the making.
pub struct Builder {
    writer: Writer,
    places: FxHashMap<Place, u32>,
    frames: FxHashMap<(u32, u64), u32>,
    stacks: FxHashMap<(Vec<u32>, &'static str), u32>,
    sites: Vec<Sums>,
}

/// Ids are 32 bits wide; a file that would need more is refused long before by its size.
fn id(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

impl Builder {
    /// Starts the recording.
    pub fn create(to: &Path, meta: Meta, overwrite: Overwrite) -> Result<Self, ImportError> {
        Ok(Builder {
            writer: Writer::create_with(to, meta, overwrite)?,
            places: FxHashMap::default(),
            frames: FxHashMap::default(),
            stacks: FxHashMap::default(),
            sites: Vec::new(),
        })
    }

    /// What `meta.json` will say.
    pub fn meta_mut(&mut self) -> &mut Meta {
        self.writer.meta_mut()
    }

    /// The number of a place.
    pub fn place(&mut self, place: Place) -> u32 {
        let next = id(self.places.len());
        *self.places.entry(place).or_insert(next)
    }

    /// The frame at an address of a place; true when it is new.
    pub fn frame(
        &mut self,
        place_id: u32,
        place: &Place,
        address: u64,
    ) -> Result<(u32, bool), ImportError> {
        let next = id(self.frames.len());
        let frame = *self.frames.entry((place_id, address)).or_insert(next);
        if frame != next {
            return Ok((frame, false));
        }
        self.writer.append([FrameRow {
            frame,
            kind: place.kind.into(),
            module: place.module.clone(),
            build_id: place.build_id.clone(),
            address,
            process: place.process,
            spinning: None,
        }])?;
        Ok((frame, true))
    }

    /// Names of frames.
    pub fn symbols(
        &mut self,
        rows: impl IntoIterator<Item = SymbolRow>,
    ) -> Result<(), ImportError> {
        Ok(self.writer.append(rows)?)
    }

    /// The stack of these frames, outermost first.
    pub fn stack(&mut self, frames: Vec<u32>, end: &'static str) -> Result<u32, ImportError> {
        let key = (frames, end);
        if let Some(stack) = self.stacks.get(&key) {
            return Ok(*stack);
        }
        let stack = id(self.stacks.len());
        self.writer.append([StackRow {
            stack,
            frames: key.0.clone(),
            end: end.into(),
        }])?;
        self.stacks.insert(key, stack);
        Ok(stack)
    }

    /// A stack of a running thread.
    pub fn running(
        &mut self,
        time_ns: u64,
        thread: u32,
        cpu: u32,
        stack: u32,
        weight_ns: u64,
    ) -> Result<(), ImportError> {
        Ok(self.writer.append([SampleRow {
            time_ns,
            thread,
            cpu,
            state: state::RUNNING.into(),
            stack,
            site: None,
            weight_ns,
        }])?)
    }

    /// A new place where a thread leaves the processor; an empty reason: it is preempted there.
    pub fn site(&mut self, thread: u32, reason: &str, syscall: &str) -> Result<u32, ImportError> {
        let site = id(self.sites.len());
        self.sites.push(Sums::default());
        self.writer.append([SiteRow {
            site,
            thread,
            reason: reason.into(),
            syscall: syscall.into(),
            ..SiteRow::default()
        }])?;
        Ok(site)
    }

    /// A stay off the processor, in the sums of its site too.
    pub fn stay(&mut self, stay: Stay) -> Result<(), ImportError> {
        let whole = stay.blocked_ns.saturating_add(stay.runnable_ns);
        let end = stay.start_ns.saturating_add(whole);
        if let Some(sums) = self.sites.get_mut(stay.site as usize) {
            sums.blocked_ns = sums.blocked_ns.saturating_add(stay.blocked_ns);
            sums.runnable_ns = sums.runnable_ns.saturating_add(stay.runnable_ns);
            sums.count += 1;
            sums.max_ns = sums.max_ns.max(whole);
        }
        let waits = stay.blocked_ns > 0;
        if let Some(stack) = stay.stack {
            let state = if waits {
                state::BLOCKED
            } else {
                state::RUNNABLE
            };
            self.writer.append([SampleRow {
                time_ns: end,
                thread: stay.thread,
                cpu: stay.cpu,
                state: state.into(),
                stack,
                site: Some(stay.site),
                weight_ns: whole,
            }])?;
        }
        let waker = stay.waker.unwrap_or_default();
        Ok(self.writer.append([SliceRow {
            thread: stay.thread,
            site: stay.site,
            start_ns: stay.start_ns,
            blocked_ns: stay.blocked_ns,
            runnable_ns: stay.runnable_ns,
            cpu: stay.cpu,
            stack: stay.stack,
            waker_tid: waker.tid,
            waker_thread: waker.thread,
            waker_name: waker.name,
            waker_stack: waker.stack,
            result: String::new(),
        }])?)
    }

    /// Mapped files.
    pub fn mappings(
        &mut self,
        rows: impl IntoIterator<Item = MappingRow>,
    ) -> Result<(), ImportError> {
        Ok(self.writer.append(rows)?)
    }

    /// Ends the recording with the rows that came to be meanwhile.
    pub fn finish(
        mut self,
        processes: Vec<ProcessRow>,
        threads: Vec<ThreadRow>,
    ) -> Result<(), ImportError> {
        let time_ns = self.writer.meta().end_ns;
        self.writer.append(processes)?;
        self.writer.append(threads)?;
        let sums = std::mem::take(&mut self.sites);
        let rows = sums.into_iter().zip(0..).map(|(sums, site)| SiteTimeRow {
            site,
            time_ns,
            blocked_ns: sums.blocked_ns,
            runnable_ns: sums.runnable_ns,
            count: sums.count,
            max_ns: sums.max_ns,
        });
        self.writer.append(rows)?;
        Ok(self.writer.finish()?)
    }
}
