//! One lock over time.
use super::owners::Begins;
use super::threads::Threads;
use crate::analysis::Analysis;
use crate::locks::add;
use dwell_recording::rows::{LockBlockRow, LockRow, block_part};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// A thread that held a lock in a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineOwner {
    /// Its number in its own PID namespace, 0 when nothing tells.
    pub ns_tid: u32,
    /// Position in `threads`, when it is there.
    pub thread: Option<usize>,
    /// How long it held the lock in blocks, as far as is known, ns.
    pub held_ns: u64,
}

/// A part of a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineCell {
    /// Who held the lock longest in it, in blocks: position in [`Timeline::owners`].
    pub owner: Option<usize>,
    /// For how much of it somebody held the lock in a block, ns.
    pub held_ns: u64,
    /// Time of all waiters together in it, ns.
    pub waited_ns: u64,
}

/// A lock over time: equal parts from the first block to the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Where it begins, ns of CLOCK_BOOTTIME.
    pub start_ns: u64,
    /// Length of a part, ns.
    pub cell_ns: u64,
    /// The parts.
    pub cells: Vec<TimelineCell>,
    /// Who held it, the longest first.
    pub owners: Vec<TimelineOwner>,
}

/// A lock over time, in so many parts; none where nobody waited for it.
pub fn timeline(analysis: &Analysis<'_>, lock: &LockRow, cells: usize) -> Option<Timeline> {
    let rows = analysis.tables.lock_blocks.iter();
    let rows: Vec<&LockBlockRow> = rows.filter(|r| r.lock == lock.lock).collect();
    let instants = rows.iter().flat_map(|r| [r.start_ns, r.end_ns]).flatten();
    let start_ns = instants.clone().min()?;
    let end_ns = instants.max()?;
    let cells = cells.max(1);
    let cell_ns = (end_ns - start_ns).div_ceil(cells as u64).max(1);
    let mut timeline = Timeline {
        start_ns,
        cell_ns,
        cells: vec![TimelineCell::default(); cells],
        owners: Vec::new(),
    };
    let begins = Begins::of(&rows);
    for wait in rows.iter().filter(|r| r.part == block_part::WAIT) {
        timeline.spread(wait.start_ns, wait.end_ns, |cell, _, ns| {
            add(&mut cell.waited_ns, ns)
        });
    }
    let threads = Threads::of(analysis);
    let mut held: Vec<FxHashMap<u32, u64>> = vec![FxHashMap::default(); cells];
    let mut sums: FxHashMap<u32, u64> = FxHashMap::default();
    for hold in rows.iter().filter(|r| r.part == block_part::HOLD) {
        timeline.spread(begins.of_hold(hold), hold.end_ns, |cell, place, ns| {
            add(&mut cell.held_ns, ns);
            add(held[place].entry(hold.ns_tid).or_default(), ns);
            add(sums.entry(hold.ns_tid).or_default(), ns);
        });
    }
    let mut owners: Vec<(u32, u64)> = sums.into_iter().collect();
    owners.sort_by_key(|(tid, ns)| (Reverse(*ns), *tid));
    let position = |tid: u32| owners.iter().position(|o| o.0 == tid);
    for (cell, held) in timeline.cells.iter_mut().zip(held) {
        let longest = held
            .into_iter()
            .max_by_key(|(tid, ns)| (*ns, Reverse(*tid)));
        cell.owner = longest.and_then(|(tid, _)| position(tid));
    }
    timeline.owners = owners
        .iter()
        .map(|&(ns_tid, held_ns)| TimelineOwner {
            ns_tid,
            thread: threads.position(lock.process, ns_tid, start_ns),
            held_ns,
        })
        .collect();
    Some(timeline)
}

impl Timeline {
    /// Gives each part what it has of a stretch of time.
    fn spread(
        &mut self,
        start_ns: Option<u64>,
        end_ns: Option<u64>,
        mut give: impl FnMut(&mut TimelineCell, usize, u64),
    ) {
        let (Some(start), Some(end)) = (start_ns, end_ns) else {
            return;
        };
        let (start, end) = (
            start.saturating_sub(self.start_ns),
            end.saturating_sub(self.start_ns),
        );
        let mut from = start;
        while from < end {
            let place = (from / self.cell_ns) as usize;
            let Some(cell) = self.cells.get_mut(place) else {
                return;
            };
            let until = end.min((place as u64 + 1) * self.cell_ns);
            give(cell, place, until - from);
            from = until;
        }
    }
}
