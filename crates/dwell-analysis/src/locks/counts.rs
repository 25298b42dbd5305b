//! What was done with locks, counted inside the processes (table `locks`), beside what was waited.
use super::{Identity, Lock, add};
use dwell_recording::Tables;
use dwell_recording::rows::{LockRow, lock_kind};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Bytes from a lock's beginning in which a word that is waited on may lie, where the functions that
/// wait do not tell the lock's beginning: a mutex of glibc or musl has 40.
const REACH: u64 = 40;

/// Operations on one lock, or on many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times that a thread acquired it that did not hold it.
    pub acquired: u64,
    /// Of these, times that it was not free at first; none where nothing tells.
    pub contended: Option<u64>,
    /// Tries that found it taken.
    pub try_fails: u64,
    /// Waits whose time was over.
    pub timeouts: u64,
    /// Acquisitions by the thread that held it.
    pub nested: u64,
}

impl Counts {
    fn add(&mut self, row: &LockRow) {
        add(&mut self.acquired, row.acquired);
        add(&mut self.try_fails, row.try_fails);
        add(&mut self.timeouts, row.timeouts);
        add(&mut self.nested, row.nested);
        if let Some(contended) = row.contended {
            add(self.contended.get_or_insert(0), contended);
        }
    }
}

/// What was counted in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Number of locks.
    pub locks: u64,
    /// What was done with them.
    pub counts: Counts,
    /// Number of those that no thread waited for.
    pub unwaited_locks: u64,
    /// What was done with these.
    pub unwaited: Counts,
}

/// By process and address: what was counted there.
pub(super) struct ByAddress<'t> {
    rows: BTreeMap<(u32, u64), Vec<&'t LockRow>>,
}

impl<'t> ByAddress<'t> {
    pub fn of(tables: &'t Tables) -> ByAddress<'t> {
        let mut rows: BTreeMap<(u32, u64), Vec<&LockRow>> = BTreeMap::new();
        for row in &tables.locks {
            rows.entry((row.process, row.address))
                .or_default()
                .push(row);
        }
        ByAddress { rows }
    }

    /// Tells each lock what was counted of it, and what was counted in all: none where nothing was.
    pub fn tell(&self, locks: &mut [Lock]) -> Option<Counted> {
        let mut waited: FxHashSet<u32> = FxHashSet::default();
        for lock in locks {
            let rows = self.find(lock);
            if rows.is_empty() {
                continue;
            }
            let mut counts = Counts::default();
            rows.iter().for_each(|row| counts.add(row));
            lock.counts = Some(counts);
            waited.extend(rows.iter().map(|row| row.lock));
        }
        if self.rows.is_empty() {
            return None;
        }
        let mut sums = Counted::default();
        for rows in self.rows.values() {
            // Conditions and barriers are no locks; what found no room of its own is at address 0.
            let locks = || rows.iter().filter(|row| is_lock(row));
            let is_waited = locks().any(|row| waited.contains(&row.lock));
            for row in locks() {
                sums.counts.add(row);
                if !is_waited {
                    sums.unwaited.add(row);
                }
            }
            let one = u64::from(locks().next().is_some());
            sums.locks += one;
            sums.unwaited_locks += if is_waited { 0 } else { one };
        }
        Some(sums)
    }

    /// The rows of the lock that threads waited for.
    fn find(&self, lock: &Lock) -> Vec<&'t LockRow> {
        let Identity::Word { process, address } = lock.identity else {
            return Vec::new();
        };
        let wanted: fn(&LockRow) -> bool = match lock.kind {
            "cond" => |row| row.kind == lock_kind::CONDITION,
            "barrier" => |row| row.kind == lock_kind::BARRIER,
            _ => is_lock,
        };
        let lowest = address.saturating_sub(REACH - 1).max(1);
        let nearest = self.rows.range((process, lowest)..=(process, address));
        let mut found = nearest.rev().map(|(_, rows)| {
            let rows = rows.iter().filter(|row| wanted(row));
            rows.copied().collect::<Vec<_>>()
        });
        found.find(|rows| !rows.is_empty()).unwrap_or_default()
    }
}

fn is_lock(row: &LockRow) -> bool {
    row.kind != lock_kind::CONDITION && row.kind != lock_kind::BARRIER
}
