//! Contended operations of a process whose locks are counted → rows of `lock_blocks`.
use dwell_collector::Recorder;
use dwell_locks::Kind;
use dwell_locks::blocks::{Block, Blocks, Event, Finished, Hold, HoldEnd, Wait, WaitEnd};
use dwell_recording::Word;
use dwell_recording::rows::{LockBlockRow, block_end, block_part};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::Path;

/// The locks of a process, as their contended operations come.
pub struct Following {
    pid: u32,
    process: u32,
    blocks: Blocks,
    /// Numbers in the recording of blocks that are not over.
    numbers: FxHashMap<u32, u32>,
    /// Frames of calls, by where they return to.
    frames: FxHashMap<u64, u32>,
    /// Threads that were gone when they were looked for last.
    gone: FxHashSet<u32>,
    /// Locks that rows were made for; their numbers.
    told: FxHashSet<u32>,
    /// Those of them that are new, with their addresses.
    new: Vec<(u32, u64)>,
    /// What the last row was of, and the numbers of that: most rows are of the same as the one before.
    last: Option<(Of, InRow)>,
    /// Up to when events were taken in, ns of CLOCK_BOOTTIME.
    until_ns: u64,
}

/// A block, its lock, and the lock's kind.
type Of = (u32, u64, Kind);

/// The numbers that these have in the recording.
#[derive(Clone, Copy)]
struct InRow {
    block: u32,
    lock: u32,
}

/// What rows refer to.
pub struct Numbers<'n> {
    /// The number of a lock.
    pub lock: &'n mut dyn FnMut(u64, Kind) -> u32,
    /// The next number of a block.
    pub next_block: &'n mut u32,
}

/// The next number, which is taken now.
pub fn take_number(next: &mut u32) -> u32 {
    *next += 1;
    *next - 1
}

impl Following {
    /// No operations yet.
    pub fn new(pid: u32, process: u32) -> Following {
        Following {
            pid,
            process,
            blocks: Blocks::new(),
            numbers: FxHashMap::default(),
            frames: FxHashMap::default(),
            gone: FxHashSet::default(),
            told: FxHashSet::default(),
            new: Vec::new(),
            last: None,
            until_ns: 0,
        }
    }

    /// Takes operations in; rows of what has come to its end.
    pub fn add(
        &mut self,
        events: &[Event],
        recorder: &mut Recorder,
        numbers: &mut Numbers<'_>,
    ) -> Vec<LockBlockRow> {
        events.iter().for_each(|event| self.blocks.add(event));
        let finished = self.blocks.take();
        self.rows(&finished, recorder, numbers)
    }

    /// Operations were lost since the last that were taken in.
    pub fn lost(&mut self) {
        self.blocks.lost();
    }

    /// All operations up to an instant have been taken in, ns of CLOCK_BOOTTIME.
    pub fn is_known_until(&mut self, until_ns: u64) {
        self.until_ns = self.until_ns.max(until_ns);
    }

    /// Looks after threads that seem to hold a lock for which others wait, or to wait themselves. Call it
    /// seldom: one that is missed twice is taken for dead, when all that it did has been taken in.
    pub fn look_for_dead(&mut self) {
        let task = format!("/proc/{}/task", self.pid);
        let is_numbered_alike = has_one_number(self.pid);
        let is_gone =
            |tid: &u32| is_numbered_alike && !Path::new(&task).join(tid.to_string()).exists();
        let gone: FxHashSet<u32> = self.blocks.threads().filter(is_gone).collect();
        for tid in gone.intersection(&self.gone) {
            self.blocks.died(*tid, self.until_ns);
        }
        self.gone = gone;
    }

    /// Locks that had no row the last time, and their addresses.
    pub fn take_new(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.new)
    }

    /// Rows of all that is left at an instant. Nothing can be added any more.
    pub fn finish(
        &mut self,
        now_ns: u64,
        recorder: &mut Recorder,
        numbers: &mut Numbers<'_>,
    ) -> Vec<LockBlockRow> {
        let blocks = std::mem::take(&mut self.blocks);
        let (finished, _) = blocks.finish(now_ns);
        self.rows(&finished, recorder, numbers)
    }

    fn rows(
        &mut self,
        finished: &Finished,
        recorder: &mut Recorder,
        numbers: &mut Numbers<'_>,
    ) -> Vec<LockBlockRow> {
        let all = finished.holds.len() + finished.waits.len() + finished.blocks.len();
        let mut rows = Vec::with_capacity(all);
        for hold in &finished.holds {
            let (of, returns) = (
                (hold.block, hold.lock, hold.kind),
                [hold.caller, hold.releaser],
            );
            let [frame, release_frame] = returns.map(|r| self.frame(r, recorder));
            rows.push(LockBlockRow {
                frame,
                release_frame,
                ..self.row(of, numbers, hold_row(hold))
            });
        }
        for wait in &finished.waits {
            let frame = self.frame(wait.caller, recorder);
            let of = (wait.block, wait.lock, wait.kind);
            rows.push(LockBlockRow {
                frame,
                ..self.row(of, numbers, wait_row(wait))
            });
        }
        for block in &finished.blocks {
            let of = (block.block, block.lock, block.kind);
            rows.push(self.row(of, numbers, block_row(block)));
            self.numbers.remove(&block.block);
            self.last = None;
        }
        rows
    }

    fn row(&mut self, of: Of, numbers: &mut Numbers<'_>, row: LockBlockRow) -> LockBlockRow {
        let known = self.last.filter(|(last, _)| *last == of);
        let numbers = known.map_or_else(|| self.number(of, numbers), |(_, numbers)| numbers);
        self.last = Some((of, numbers));
        LockBlockRow {
            block: numbers.block,
            process: self.process,
            lock: numbers.lock,
            ..row
        }
    }

    fn number(&mut self, (block, lock, kind): Of, numbers: &mut Numbers<'_>) -> InRow {
        let number = self.numbers.entry(block);
        let number = number.or_insert_with(|| take_number(numbers.next_block));
        let of = (numbers.lock)(lock, kind);
        if self.told.insert(of) {
            self.new.push((of, lock));
        }
        InRow {
            block: *number,
            lock: of,
        }
    }

    fn frame(&mut self, returns_to: u64, recorder: &mut Recorder) -> Option<u32> {
        let process = self.process;
        let frame = || recorder.frame_of_call(process, returns_to);
        (returns_to != 0).then(|| *self.frames.entry(returns_to).or_insert_with(frame))
    }
}

fn hold_row(hold: &Hold) -> LockBlockRow {
    LockBlockRow {
        part: block_part::HOLD.into(),
        ns_tid: hold.thread,
        start_ns: hold.since_ns,
        end_ns: hold.until_ns,
        end: Word::from(match hold.end {
            HoldEnd::Released => block_end::RELEASED,
            HoldEnd::ReleasedToWait => block_end::CONDITION,
            HoldEnd::Unseen => block_end::UNSEEN,
            HoldEnd::Died => block_end::DIED,
            HoldEnd::Open => block_end::OPEN,
        }),
        blamed_ns: hold.blamed_ns,
        ..LockBlockRow::default()
    }
}

fn wait_row(wait: &Wait) -> LockBlockRow {
    LockBlockRow {
        part: block_part::WAIT.into(),
        ns_tid: wait.thread,
        start_ns: Some(wait.since_ns),
        end_ns: Some(wait.until_ns),
        end: Word::from(match wait.end {
            WaitEnd::Acquired => block_end::ACQUIRED,
            WaitEnd::GaveUp => block_end::GAVE_UP,
            WaitEnd::Open => block_end::OPEN,
            WaitEnd::Unseen => block_end::UNSEEN,
        }),
        owner_ns_tid: wait.owner,
        unclaimed_ns: wait.unclaimed_ns,
        queue: wait.queue,
        ..LockBlockRow::default()
    }
}

fn block_row(block: &Block) -> LockBlockRow {
    let end = if block.is_whole {
        block_end::FREE
    } else {
        block_end::UNSEEN
    };
    LockBlockRow {
        part: block_part::BLOCK.into(),
        start_ns: Some(block.begin_ns),
        end_ns: Some(block.end_ns),
        end: end.into(),
        queue: block.longest_queue,
        ..LockBlockRow::default()
    }
}

/// Whether the threads of a process have the same numbers for itself as for us.
fn has_one_number(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|l| l.strip_prefix("NStgid:"));
    numbers.is_some_and(|n| n.split_whitespace().count() == 1)
}
