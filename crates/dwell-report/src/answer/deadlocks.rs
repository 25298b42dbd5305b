//! Threads that waited for each other's locks when the recording ended.
use super::build::frames;
use super::contention::name;
use super::origins::Origins;
use super::{LockDeadlock, LockThread, StuckThread};
use dwell_analysis::Analysis;
use dwell_analysis::groups::process_name;
use dwell_analysis::locks::deadlocks::{self, Deadlock, Stuck};

/// Every deadlock.
pub(super) fn deadlocks(analysis: &Analysis<'_>, origins: &Origins) -> Vec<LockDeadlock> {
    let found = deadlocks::deadlocks(analysis);
    found.iter().map(|d| told(analysis, origins, d)).collect()
}

fn told(analysis: &Analysis<'_>, origins: &Origins, of: &Deadlock) -> LockDeadlock {
    let behind = of.behind.iter();
    LockDeadlock {
        threads: of
            .members
            .iter()
            .map(|m| stuck(analysis, origins, m))
            .collect(),
        behind: behind.map(|t| thread(analysis, *t)).collect(),
    }
}

fn stuck(analysis: &Analysis<'_>, origins: &Origins, of: &Stuck) -> StuckThread {
    let process = analysis.index.process(of.process);
    let until_ns = analysis.tables.threads[of.thread].until_ns;
    StuckThread {
        thread: thread(analysis, of.thread),
        process: process_name(analysis.tables, process).to_owned(),
        lock: name(analysis, origins, of.process, of.address),
        address: format!("{:#x}", of.address),
        held_by: thread(analysis, of.owner),
        waited_ns: of.since_ns.map(|since| until_ns.saturating_sub(since)),
        frames: of.path.map(|p| frames(analysis, p)).unwrap_or_default(),
    }
}

fn thread(analysis: &Analysis<'_>, position: usize) -> LockThread {
    let row = &analysis.tables.threads[position];
    LockThread {
        name: row.name.clone(),
        tid: if row.ns_tid == 0 { row.tid } else { row.ns_tid },
    }
}
