//! Who ended the waits.
use crate::analysis::Analysis;
use crate::names::{PathId, StackRef, heaviest};
use crate::state::{Reason, State};
use crate::waits::Wait;
use dwell_recording::rows::SliceRow;
use rustc_hash::FxHashMap;

/// Who ended a wait.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Waker {
    /// A recorded thread, by the position of its label in [`crate::Groups::labels`].
    Thread(usize),
    /// A thread that is not recorded, by its name.
    Foreign(String),
    /// `[timer]`, `[irq]`, `[softirq]`.
    Interrupt(String),
    /// Nobody yet: the wait lasted to the end of the recording, or its waker was not seen.
    Nobody,
}

/// Who ended this stay.
pub fn waker_of(analysis: &Analysis<'_>, slice: &SliceRow) -> Waker {
    if let Some(thread) = slice.waker_thread.and_then(|id| analysis.index.thread(id)) {
        return Waker::Thread(analysis.groups.label_of_thread(thread));
    }
    let name = slice.waker_name.clone();
    match (name.is_empty(), slice.waker_tid) {
        (true, None) => Waker::Nobody,
        (true, Some(tid)) => Waker::Foreign(format!("tid {tid}")),
        (false, None) => Waker::Interrupt(name),
        (false, Some(_)) => Waker::Foreign(name),
    }
}

/// Whether a time limit ended this stay, or the time that it was to last.
pub fn is_timer(slice: &SliceRow) -> bool {
    slice.waker_tid.is_none() && slice.waker_name == "[timer]"
}

/// Whether another thread ended this stay.
pub fn is_thread(slice: &SliceRow) -> bool {
    slice.waker_tid.is_some()
}

/// Waits of like threads for one reason ended by one waker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Woken {
    /// Who waited: position in [`crate::Groups::labels`].
    pub waiter: usize,
    /// Why.
    pub reason: Reason,
    /// Who ended the waits.
    pub waker: Waker,
    /// Where the waker was most of that time, when its stack was taken.
    pub waker_path: Option<PathId>,
    /// Blocked time, ns (see [`crate::waits`]).
    pub charged_ns: u64,
    /// Number of waits kept one by one.
    pub kept: u64,
    /// The longest of them, ns.
    pub max_ns: u64,
}

/// Totals per (waiter, reason, waker), the longest first.
pub fn totals(analysis: &Analysis<'_>) -> Vec<Woken> {
    let mut totals: FxHashMap<(usize, Reason, WakerKey<'_>), Total> = FxHashMap::default();
    for wait in &analysis.waits.waits {
        let slice = &analysis.tables.slices[wait.slice as usize];
        let waiter = analysis.groups.label_of_thread(wait.thread as usize);
        let reason = analysis.reasons[wait.site as usize];
        let key = (waiter, reason, waker_key(analysis, slice));
        let total = totals
            .entry(key)
            .or_insert_with(|| Total::new(waker_of(analysis, slice)));
        total.charged_ns = total.charged_ns.saturating_add(wait.charged_ns);
        total.kept += 1;
        total.max_ns = total.max_ns.max(wait.blocked_ns());
        if let Some(path) = waker_path(analysis, slice) {
            let ns = total.paths.entry(path).or_default();
            *ns = ns.saturating_add(wait.charged_ns);
        }
    }
    let mut woken: Vec<Woken> = totals
        .into_iter()
        .map(|((waiter, reason, _), total)| total.finish(waiter, reason))
        .collect();
    woken.sort_by(|a, b| {
        let key = |w: &Woken| (std::cmp::Reverse(w.charged_ns), w.waiter, w.reason);
        key(a).cmp(&key(b)).then_with(|| a.waker.cmp(&b.waker))
    });
    woken
}

/// What tells wakers apart, without allocating per wait.
type WakerKey<'a> = (Option<usize>, &'a str, Option<u32>);

fn waker_key<'a>(analysis: &Analysis<'_>, slice: &'a SliceRow) -> WakerKey<'a> {
    match slice.waker_thread.and_then(|id| analysis.index.thread(id)) {
        Some(thread) => (Some(analysis.groups.label_of_thread(thread)), "", None),
        // A nameless foreign waker is told apart by its tid, any other by its name.
        None if slice.waker_name.is_empty() => (None, "", slice.waker_tid),
        None => (None, &slice.waker_name, slice.waker_tid.map(|_| 0)),
    }
}

struct Total {
    waker: Waker,
    charged_ns: u64,
    kept: u64,
    max_ns: u64,
    paths: FxHashMap<PathId, u64>,
}

impl Total {
    fn new(waker: Waker) -> Total {
        Total {
            waker,
            charged_ns: 0,
            kept: 0,
            max_ns: 0,
            paths: FxHashMap::default(),
        }
    }

    fn finish(self, waiter: usize, reason: Reason) -> Woken {
        Woken {
            waiter,
            reason,
            waker: self.waker,
            waker_path: heaviest(self.paths),
            charged_ns: self.charged_ns,
            kept: self.kept,
            max_ns: self.max_ns,
        }
    }
}

/// Where the waker was, when its stack was taken.
pub fn waker_path(analysis: &Analysis<'_>, slice: &SliceRow) -> Option<PathId> {
    let stack = analysis.index.stack(slice.waker_stack?)?;
    Some(analysis.names.path_of(StackRef::Taken(stack as u32)))
}

/// The longest single waits, those of idle pools left out: waiting for work is what they are for.
pub fn longest<'a>(analysis: &'a Analysis<'_>, limit: usize) -> Vec<&'a Wait> {
    let mut idle = vec![None; analysis.groups.groups.len()];
    for pool in &analysis.idle.pools {
        idle[pool.group] = Some(State::Blocked(pool.reason));
    }
    let wanted = |wait: &&Wait| {
        let group = analysis.groups.of_thread(wait.thread as usize);
        idle[group] != Some(State::Blocked(analysis.reasons[wait.site as usize]))
    };
    let mut longest: Vec<&Wait> = analysis.waits.waits.iter().filter(wanted).collect();
    let key = |w: &&Wait| (std::cmp::Reverse(w.blocked_ns()), w.slice);
    if longest.len() > limit {
        longest.select_nth_unstable_by_key(limit, key);
        longest.truncate(limit);
    }
    longest.sort_unstable_by_key(key);
    longest
}
