//! Priority inversion: threads that waited while one that the scheduler prefers less held the lock.
use super::common;
use super::owners::known_holds;
use super::threads::Threads;
use crate::analysis::Analysis;
use crate::locks::add;
use dwell_recording::rows::{LockBlockRow, LockRow, block_part, event};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Like threads that waited while others held the lock which the scheduler prefers less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inversion {
    /// Who waited: position in [`crate::Groups::labels`].
    pub waiter: usize,
    /// How it is preferred: `nice 0`, `fifo 10` …
    pub waiter_priority: String,
    /// Who held the lock: position in [`crate::Groups::labels`].
    pub owner: usize,
    /// How it is preferred.
    pub owner_priority: String,
    /// Waiting, ns.
    pub waited_ns: u64,
}

/// What is known of how threads are preferred.
pub(super) struct Priorities<'t> {
    /// By position in `threads`: from when on, and how.
    of_thread: FxHashMap<usize, Vec<(u64, &'t str)>>,
}

impl<'t> Priorities<'t> {
    pub fn of(analysis: &Analysis<'t>) -> Priorities<'t> {
        let mut of_thread: FxHashMap<usize, Vec<(u64, &str)>> = FxHashMap::default();
        let events = analysis.tables.events.iter();
        for row in events.filter(|e| e.kind == event::PRIORITY) {
            if let Some(thread) = row.thread.and_then(|id| analysis.index.thread(id)) {
                let known = of_thread.entry(thread).or_default();
                known.push((row.time_ns, &row.detail));
            }
        }
        Priorities { of_thread }
    }

    /// How a thread was preferred at an instant; before anything was read, as it was read first.
    fn at(&self, thread: usize, time_ns: u64) -> &'t str {
        let Some(known) = self.of_thread.get(&thread) else {
            return event::USUAL_PRIORITY;
        };
        let before = known.iter().rev().find(|(from, _)| *from <= time_ns);
        before.or(known.first()).map_or("", |(_, how)| how)
    }

    /// The inversions of a lock, the longest first; its rows.
    pub fn inversions(
        &self,
        analysis: &Analysis<'_>,
        threads: &Threads<'_>,
        lock: &LockRow,
        rows: &[&LockBlockRow],
    ) -> Vec<Inversion> {
        // An owner of such a lock is preferred like those that wait.
        let lends = lock.mutex_type.contains("inherit") || lock.mutex_type.contains("protect");
        if self.of_thread.is_empty() || lends {
            return Vec::new();
        }
        let mut holds: Vec<(u64, u64, usize)> = known_holds(threads, rows)
            .map(|h| (h.start_ns, h.end_ns, h.thread))
            .collect();
        holds.sort_unstable();
        let mut sums: FxHashMap<(usize, &str, usize, &str), u64> = FxHashMap::default();
        for wait in rows.iter().filter(|r| r.part == block_part::WAIT) {
            let (Some(start), Some(end)) = (wait.start_ns, wait.end_ns) else {
                continue;
            };
            let Some(waiter) = threads.position(wait.process, wait.ns_tid, start) else {
                continue;
            };
            // One owner at a time: those before the first that had ended had ended too.
            let before = holds.partition_point(|h| h.0 < end);
            let overlapping = holds[..before].iter().rev().take_while(|h| h.1 > start);
            for (from, until, owner) in overlapping {
                let hows = [self.at(waiter, start), self.at(*owner, *from)];
                let [Some(wants), Some(has)] = hows.map(event::rank) else {
                    continue;
                };
                if wants > has {
                    let labels = [waiter, *owner].map(|t| analysis.groups.label_of_thread(t));
                    let key = (labels[0], hows[0], labels[1], hows[1]);
                    let ns = common((start, end), (*from, *until));
                    add(sums.entry(key).or_default(), ns);
                }
            }
        }
        let told = |((waiter, wants, owner, has), waited_ns): ((usize, &str, usize, &str), u64)| {
            Inversion {
                waiter,
                waiter_priority: wants.to_owned(),
                owner,
                owner_priority: has.to_owned(),
                waited_ns,
            }
        };
        let mut found: Vec<Inversion> = sums.into_iter().map(told).collect();
        found.sort_by(|a, b| {
            let key = |i: &Inversion| (Reverse(i.waited_ns), i.waiter, i.owner);
            let named = |i: &Inversion| (i.waiter_priority.clone(), i.owner_priority.clone());
            key(a).cmp(&key(b)).then_with(|| named(a).cmp(&named(b)))
        });
        found
    }
}
