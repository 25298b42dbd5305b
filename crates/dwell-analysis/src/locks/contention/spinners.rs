//! Where threads were that waited for a lock without leaving the processor: those of spin locks have no futex whose
//! waits would tell.
use super::{lasted, threads::Threads};
use crate::analysis::Analysis;
use crate::apportion::apportion;
use crate::locks::{Waiter, add};
use crate::names::{PathId, StackRef};
use dwell_recording::rows::{LockBlockRow, block_part, state};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Waits of like threads.
#[derive(Default)]
struct Spun {
    waits: u64,
    ns: u64,
    /// How often they were seen at each stack meanwhile.
    seen: FxHashMap<PathId, u64>,
}

/// Who waited where on a lock with these rows, the longest first. Times are exact by like threads; their stacks, and
/// how they share the time, are those of the samples that lie in the waits.
pub(super) fn spinners(
    analysis: &Analysis<'_>,
    threads: &Threads<'_>,
    rows: &[&LockBlockRow],
) -> Vec<Waiter> {
    let mut by_label: FxHashMap<usize, Spun> = FxHashMap::default();
    let mut by_thread: FxHashMap<usize, Vec<(u64, u64)>> = FxHashMap::default();
    for wait in rows.iter().filter(|r| r.part == block_part::WAIT) {
        let (Some(start), Some(ns)) = (wait.start_ns, lasted(wait)) else {
            continue;
        };
        let Some(thread) = threads.position(wait.process, wait.ns_tid, start) else {
            continue;
        };
        let spun = by_label.entry(analysis.groups.label_of_thread(thread));
        let spun = spun.or_default();
        spun.waits += 1;
        add(&mut spun.ns, ns);
        let waits = by_thread.entry(thread).or_default();
        waits.push((start, start + ns));
    }
    by_thread
        .values_mut()
        .for_each(|waits| waits.sort_unstable());
    for sample in &analysis.tables.samples {
        if sample.state != state::RUNNING {
            continue;
        }
        let waits = |thread: usize| Some((thread, by_thread.get(&thread)?));
        let Some((thread, waits)) = analysis.index.thread(sample.thread).and_then(waits) else {
            continue;
        };
        let begun = waits.partition_point(|(start, _)| *start <= sample.time_ns);
        let is_in_wait = begun > 0 && sample.time_ns <= waits[begun - 1].1;
        let stack = analysis.index.stack(sample.stack).filter(|_| is_in_wait);
        let label = analysis.groups.label_of_thread(thread);
        if let (Some(stack), Some(spun)) = (stack, by_label.get_mut(&label)) {
            let path = analysis.names.path_of(StackRef::Taken(stack as u32));
            *spun.seen.entry(path).or_default() += 1;
        }
    }
    let mut waiters: Vec<Waiter> = by_label
        .into_iter()
        .flat_map(|(label, spun)| told(label, spun))
        .collect();
    waiters.sort_by_key(|w| (Reverse(w.waited_ns), w.label, w.path));
    waiters
}

fn told(label: usize, spun: Spun) -> Vec<Waiter> {
    let mut seen: Vec<(Option<PathId>, u64)> =
        spun.seen.into_iter().map(|(p, n)| (Some(p), n)).collect();
    seen.sort_unstable();
    if seen.is_empty() {
        seen.push((None, 1));
    }
    let weights: Vec<u64> = seen.iter().map(|(_, n)| *n).collect();
    let times = apportion(spun.ns, &weights).into_iter();
    let waits = apportion(spun.waits, &weights).into_iter();
    let told = seen.into_iter().zip(times.zip(waits));
    told.map(|((path, _), (waited_ns, waits))| Waiter {
        label,
        path,
        waits,
        waited_ns,
    })
    .collect()
}
