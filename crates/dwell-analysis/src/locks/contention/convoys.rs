//! Convoys: a queue that never empties, because those who had the lock come back before all others had it.
use super::Spread;
use dwell_recording::rows::{LockBlockRow, block_end, block_part};
use rustc_hash::{FxHashMap, FxHashSet};

/// Fewest times that the lock must have gone from waiter to waiter without getting free.
const HAND_OFFS: u64 = 8;
/// How often each waiter of a block waited at least, on average: a crowd that comes once and drains is no convoy.
const TURNS: u64 = 2;

/// The convoys of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Convoys {
    /// Blocks in which it went from waiter to waiter again and again.
    pub count: u64,
    /// Waiting in these, ns.
    pub waited_ns: u64,
    /// How often it was acquired after a wait in the longest of them, without getting free.
    pub most_hand_offs: u64,
    /// How long the longest lasted, ns.
    pub longest_ns: u64,
}

impl Convoys {
    /// True when most of a lock's waiting is in convoys.
    pub fn are_most_of(&self, waits: &Spread) -> bool {
        self.count > 0 && self.waited_ns >= waits.sum_ns - self.waited_ns.min(waits.sum_ns)
    }

    /// The convoys among the blocks of one lock.
    pub(super) fn of(rows: &[&LockBlockRow]) -> Convoys {
        let mut blocks: FxHashMap<u32, Building> = FxHashMap::default();
        for row in rows
            .iter()
            .filter(|r| r.part == block_part::WAIT || r.part == block_part::BLOCK)
        {
            blocks.entry(row.block).or_default().add(row);
        }
        let mut convoys = Convoys::default();
        for block in blocks.values().filter(|b| b.is_convoy()) {
            convoys.count += 1;
            super::add(&mut convoys.waited_ns, block.waited_ns);
            convoys.most_hand_offs = convoys.most_hand_offs.max(block.hand_offs);
            let lasted = block.until_ns.saturating_sub(block.since_ns);
            convoys.longest_ns = convoys.longest_ns.max(lasted);
        }
        convoys
    }
}

#[derive(Default)]
struct Building {
    hand_offs: u64,
    waiters: FxHashSet<u32>,
    waited_ns: u64,
    since_ns: u64,
    until_ns: u64,
}

impl Building {
    fn add(&mut self, row: &LockBlockRow) {
        let (Some(start), Some(end)) = (row.start_ns, row.end_ns) else {
            return;
        };
        self.since_ns = match self.until_ns {
            0 => start,
            _ => self.since_ns.min(start),
        };
        self.until_ns = self.until_ns.max(end);
        if row.part == block_part::WAIT {
            self.waiters.insert(row.ns_tid);
            self.hand_offs += u64::from(row.end == block_end::ACQUIRED);
            super::add(&mut self.waited_ns, end.saturating_sub(start));
        }
    }

    fn is_convoy(&self) -> bool {
        let waiters = self.waiters.len() as u64;
        self.hand_offs >= HAND_OFFS.max(TURNS * waiters) && waiters > 1
    }
}
