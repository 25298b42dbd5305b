//! What threads ask of locks and of processors, per lock and process: what a simulation of them needs.
//!
//! - **Acquisitions** are counted, exactly, where the recording counted lock operations.
//! - **Holds** are those of blocks, that is of a lock that somebody waited for: of threads that had waited
//!   themselves. What the owner was off the processor meanwhile is told apart. Of a lock that nobody waited for no
//!   hold is known.
//! - **Threads** of a lock are those that were seen waiting for it, or holding it while others waited.
//! - **Work** is the time on processors less spinning and less the functions of locks themselves.
use super::contention::threads::Threads;
use super::contention::{Contention, contention, most_waited};
use crate::analysis::Analysis;
use crate::names::PathId;
use crate::state::{Reason, State};
use dwell_recording::rows::{block_end, block_part};
use rustc_hash::{FxHashMap, FxHashSet};

/// Holds kept of a lock: enough for a distribution.
const HOLDS: usize = 4096;

/// What is asked of a lock.
#[derive(Clone, Debug)]
pub struct LockDemand {
    /// Position in `locks`.
    pub lock: usize,
    /// Acquisitions per second.
    pub per_s: f64,
    /// Waits per second.
    pub waits_per_s: f64,
    /// Time waited per second: how many waited, on average.
    pub waiting: f64,
    /// Holds that were seen from begin to end, ns: of threads that had waited.
    pub holds_ns: Vec<u64>,
    /// Of the time in holds: share that the owner was ready, without a processor.
    pub preempted: f64,
    /// Of the time in holds: share that the owner slept.
    pub asleep: f64,
    /// Positions in `threads` of those that use it.
    pub threads: Vec<u32>,
}

/// What threads do, all of them together; in units of one: of threads, or processors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// How many threads.
    pub threads: usize,
    /// On processors, doing neither of the following.
    pub working: f64,
    /// On processors, spinning.
    pub spinning: f64,
    /// On processors, in the functions of locks, the kernel's among them.
    pub locking: f64,
    /// Wanting a processor.
    pub ready: f64,
    /// Asleep, for anything but a lock.
    pub away: f64,
    /// Asleep for locks.
    pub asleep: f64,
    /// Stacks that tell how the time on processors divides.
    pub samples: u64,
}

/// What is asked of the `most` locks that threads waited for longest, the longest first.
pub fn demands(analysis: &Analysis<'_>, most: usize) -> Vec<LockDemand> {
    let mut positions = most_waited(analysis);
    positions.truncate(most);
    let threads = Threads::of(analysis);
    contention(analysis, &positions)
        .iter()
        .map(|of| demand(analysis, &threads, of))
        .collect()
}

fn demand(analysis: &Analysis<'_>, threads: &Threads<'_>, of: &Contention) -> LockDemand {
    let row = &analysis.tables.locks[of.lock];
    let seconds = row.until_ns.saturating_sub(row.since_ns).max(1) as f64 / 1e9;
    let mut holds_ns = Vec::new();
    let mut users: FxHashSet<u32> = FxHashSet::default();
    let blocks = analysis.tables.lock_blocks.iter();
    for part in blocks.filter(|b| b.lock == row.lock && b.ns_tid != 0) {
        let at = part.start_ns.or(part.end_ns).unwrap_or(0);
        let thread = threads.position(part.process, part.ns_tid, at);
        users.extend(thread.map(|t| t as u32));
        let is_known = part.end == block_end::RELEASED || part.end == block_end::CONDITION;
        let lasted = part
            .end_ns
            .zip(part.start_ns)
            .map(|(e, s)| e.saturating_sub(s));
        if part.part == block_part::HOLD && is_known {
            holds_ns.extend(lasted);
        }
    }
    let every = holds_ns.len().div_ceil(HOLDS).max(1);
    let holds_ns = holds_ns.into_iter().step_by(every).collect();
    let held = of.held.held_ns.max(1) as f64;
    let share = |picks: fn(State) -> bool| (of.held.away_ns(picks) as f64 / held).min(1.0);
    let mut threads: Vec<u32> = users.into_iter().collect();
    threads.sort_unstable();
    LockDemand {
        lock: of.lock,
        per_s: row.acquired as f64 / seconds,
        waits_per_s: of.waits.count as f64 / seconds,
        waiting: of.waits.sum_ns as f64 / 1e9 / seconds,
        holds_ns,
        preempted: share(|state| state == State::Runnable),
        asleep: share(|state| state.reason().is_some()),
        threads,
    }
}

/// What these threads (positions in `threads`) did.
pub fn work(analysis: &Analysis<'_>, threads: &[u32]) -> Work {
    let rows = &analysis.tables.threads;
    let of: FxHashSet<u32> = threads.iter().copied().collect();
    let lifetime: u64 = threads
        .iter()
        .filter_map(|t| rows.get(*t as usize))
        .fold(0, |sum, row| sum.saturating_add(row.states_ns()));
    let window = lifetime as f64 / threads.len().max(1) as f64;
    let mut locks = LockPaths::default();
    let mut work = Work {
        threads: threads.len(),
        samples: samples(analysis, &of),
        ..Work::default()
    };
    for entry in analysis
        .profile
        .entries
        .iter()
        .filter(|e| of.contains(&e.thread))
    {
        let share = entry.weight_ns as f64 / window.max(1.0);
        let place = match entry.state {
            State::Spinning => &mut work.spinning,
            State::Running | State::Stolen => {
                match locks.has(analysis, analysis.names.path_of(entry.stack)) {
                    true => &mut work.locking,
                    false => &mut work.working,
                }
            }
            State::Runnable => &mut work.ready,
            State::Blocked(Reason::Lock) => &mut work.asleep,
            State::Blocked(_) | State::Lost => &mut work.away,
        };
        *place += share;
    }
    work
}

fn samples(analysis: &Analysis<'_>, of: &FxHashSet<u32>) -> u64 {
    let ids: FxHashSet<u32> = of
        .iter()
        .filter_map(|t| analysis.tables.threads.get(*t as usize))
        .map(|row| row.thread)
        .collect();
    let samples = analysis.tables.samples.iter();
    let running = samples.filter(|s| s.state == "running" && ids.contains(&s.thread));
    running.count() as u64
}

/// Which paths lead into functions of locks.
#[derive(Default)]
struct LockPaths(FxHashMap<PathId, bool>);

impl LockPaths {
    fn has(&mut self, analysis: &Analysis<'_>, path: PathId) -> bool {
        *self.0.entry(path).or_insert_with(|| {
            let names = &analysis.names;
            let mut functions = names.path(path).iter().map(|f| names.function(*f));
            functions.any(|f| is_of_locks(&f.name))
        })
    }
}

/// True for what a thread does for a lock and not with it.
fn is_of_locks(function: &str) -> bool {
    const PARTS: &[&str] = &["futex", "lll_lock", "lll_unlock", "lll_mutex"];
    const NAMES: &[&str] = &["mutex_lock", "mutex_unlock", "spin_lock", "spin_unlock"];
    let bare = function.trim_start_matches('_');
    let bare = bare
        .strip_prefix("GI_")
        .unwrap_or(bare)
        .trim_start_matches('_');
    let of_pthread = bare.strip_prefix("pthread_");
    PARTS.iter().any(|p| function.contains(p))
        || of_pthread.is_some_and(|f| NAMES.iter().any(|n| f.starts_with(n)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_locks_are_told_from_those_that_take_them() {
        for name in [
            "___pthread_mutex_lock",
            "__GI___pthread_mutex_unlock_usercnt",
            "pthread_spin_lock",
            "do_futex",
            "__GI___lll_lock_wait",
        ] {
            assert!(is_of_locks(name), "{name}");
        }
        for name in [
            "lock_cache",
            "pthread_create",
            "cache_mutex_lock_held",
            "main",
        ] {
            assert!(!is_of_locks(name), "{name}");
        }
    }
}
