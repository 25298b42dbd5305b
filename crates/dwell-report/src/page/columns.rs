//! The recording in columns: numbers of like things one behind the other, which compress well.
use super::reduce::{self, Reduced};
use super::{MOST_ENTRIES, MOST_MOMENTS};
use dwell_analysis::locks::{Locks, Use};
use dwell_analysis::memory;
use dwell_analysis::names::{Missing, StackRef};
use dwell_analysis::{Analysis, groups};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::cmp::Reverse;

/// Every thread; all columns are in step.
#[derive(Serialize)]
pub(super) struct Threads<'a> {
    tid: Vec<u32>,
    name: Vec<&'a str>,
    pid: Vec<u32>,
    process: Vec<&'a str>,
    group: Vec<&'a str>,
    /// From the start of the window, ns.
    start: Vec<u64>,
    until: Vec<u64>,
}

/// The profile; all columns are in step.
#[derive(Default, Serialize)]
pub(super) struct Entries {
    thread: Vec<u32>,
    state: Vec<u8>,
    syscall: Vec<u32>,
    path: Vec<u32>,
    ns: Vec<u64>,
    /// 1 for waits of an idle pool.
    idle: Vec<u8>,
    waits: Vec<u64>,
    /// Entries whose stacks were left out.
    without_stack: usize,
}

/// What threads did when, thread by thread in the order of time; all columns are in step.
#[derive(Default, Serialize)]
pub(super) struct Moments<'a> {
    /// By thread: how many it has.
    count: Vec<u32>,
    /// From the end of the moment before (the thread's first: from the window's start), ns.
    gap: Vec<u64>,
    ns: Vec<u64>,
    state: Vec<u8>,
    path: Vec<u32>,
    /// Place in `wakers` and one more; 0 is none.
    waker: Vec<u32>,
    /// Place in the answer's `locks` and one more, of waits that were kept one by one; 0 is none.
    lock: Vec<u32>,
    /// `[thread or -1, name]`.
    wakers: Vec<(i64, &'a str)>,
}

pub(super) fn threads<'a>(analysis: &'a Analysis<'_>) -> Threads<'a> {
    let tables = analysis.tables;
    let from = tables.meta.start_ns;
    let group = |at: usize| &analysis.groups.groups[analysis.groups.of_thread(at)];
    let all = 0..tables.threads.len();
    let rows = &tables.threads;
    Threads {
        tid: rows.iter().map(|t| t.tid).collect(),
        name: rows.iter().map(|t| t.name.as_str()).collect(),
        pid: all
            .clone()
            .map(|t| group(t).process.map_or(0, |p| tables.processes[p].pid))
            .collect(),
        process: all
            .clone()
            .map(|t| groups::process_name(tables, group(t).process))
            .collect(),
        group: all.map(|t| group(t).name.as_str()).collect(),
        start: rows
            .iter()
            .map(|t| t.start_ns.saturating_sub(from))
            .collect(),
        until: rows
            .iter()
            .map(|t| t.until_ns.saturating_sub(from))
            .collect(),
    }
}

pub(super) fn entries(analysis: &Analysis<'_>) -> Entries {
    let names = &analysis.names;
    let lost = names.path_of(StackRef::Missing(Missing::StackLost));
    let all = &analysis.profile.entries;
    let mut by_weight: Vec<usize> = (0..all.len()).collect();
    by_weight.sort_unstable_by_key(|at| (Reverse(all[*at].weight_ns), *at));
    let cut: FxHashSet<usize> = by_weight
        .split_off(by_weight.len().min(MOST_ENTRIES))
        .into_iter()
        .collect();
    let mut entries = Entries {
        without_stack: cut.len(),
        ..Entries::default()
    };
    // Those without their stack become one where they agree in all else.
    let mut joined: FxHashMap<(u32, u8, u32, u8), usize> = FxHashMap::default();
    for (at, entry) in all.iter().enumerate() {
        let idle = u8::from(analysis.idle.folded[at]);
        let state = entry.state.index() as u8;
        let path = match cut.contains(&at) {
            true => lost,
            false => names.path_of(entry.stack),
        };
        if cut.contains(&at) {
            let key = (entry.thread, state, entry.syscall, idle);
            let place = *joined.entry(key).or_insert(entries.ns.len());
            if place < entries.ns.len() {
                entries.ns[place] = entries.ns[place].saturating_add(entry.weight_ns);
                entries.waits[place] = entries.waits[place].saturating_add(entry.waits);
                continue;
            }
        }
        entries.thread.push(entry.thread);
        entries.state.push(state);
        entries.syscall.push(entry.syscall);
        entries.path.push(path);
        entries.ns.push(entry.weight_ns);
        entries.idle.push(idle);
        entries.waits.push(entry.waits);
    }
    entries
}

/// By site the place of its lock among those told and one more; 0 is none.
pub(super) fn lock_of_sites(analysis: &Analysis<'_>, locks: &Locks, told: usize) -> Vec<u32> {
    let mut of_sites = vec![0; analysis.tables.sites.len()];
    for (lock, place) in locks.of_use(Use::Lock).take(told).zip(1..) {
        for site in &lock.sites {
            of_sites[*site] = place;
        }
    }
    of_sites
}

pub(super) fn moments<'a>(
    analysis: &'a Analysis<'_>,
    lock_of_sites: &[u32],
) -> (Moments<'a>, Reduced) {
    let tables = analysis.tables;
    let all = dwell_analysis::Moments::of(analysis);
    let threads = 0..tables.threads.len();
    let reduced = Reduced::to_fit(threads.clone().map(|t| all.of_thread(t)), MOST_MOMENTS);
    let mut columns = Moments::default();
    let mut wakers: FxHashMap<(i64, &str), u32> = FxHashMap::default();
    for thread in threads {
        let kept = reduce::joined(all.of_thread(thread), reduced.shorter_than_ns);
        columns.count.push(kept.len() as u32);
        let mut at = tables.meta.start_ns;
        for moment in &kept {
            columns.gap.push(moment.start_ns.saturating_sub(at));
            at = moment.end_ns();
            columns.ns.push(moment.duration_ns);
            columns.state.push(moment.state.index() as u8);
            columns.path.push(analysis.names.path_of(moment.stack));
            let slice = moment.slice.filter(|_| moment.state.reason().is_some());
            let slice = slice.map(|slice| &tables.slices[slice as usize]);
            let site = slice.and_then(|slice| analysis.index.site(slice.site));
            columns.lock.push(site.map_or(0, |at| lock_of_sites[at]));
            let waker = slice.map_or(0, |slice| {
                let position = slice.waker_thread.and_then(|id| analysis.index.thread(id));
                let name = slice.waker_name.as_str();
                let key = (
                    position.map_or(-1, |p| p as i64),
                    if position.is_some() { "" } else { name },
                );
                if key == (-1, "") {
                    return 0;
                }
                *wakers.entry(key).or_insert_with(|| {
                    columns.wakers.push(key);
                    columns.wakers.len() as u32
                })
            });
            columns.waker.push(waker);
        }
    }
    (columns, reduced)
}

/// Where functions begin to be used: the file and line of the symbol that has them, of the first frame met.
pub(super) fn places(analysis: &Analysis<'_>) -> Vec<(u32, String)> {
    let mut places: FxHashMap<u32, String> = FxHashMap::default();
    for frame in 0..analysis.tables.frames.len() {
        for (function, symbol) in analysis.names.frame(frame) {
            let symbol = symbol.map(|at| &analysis.tables.symbols[at as usize]);
            if let Some((file, line)) = symbol.and_then(|s| Some((s.file.as_ref()?, s.line?))) {
                places
                    .entry(function)
                    .or_insert_with(|| format!("{file}:{line}"));
            }
        }
    }
    let mut places: Vec<(u32, String)> = places.into_iter().collect();
    places.sort_unstable();
    places
}

/// Kinds of work for memory by name, and `[path, kind]` of the stacks on which it was done.
#[derive(Serialize)]
pub(super) struct MemoryWork {
    kinds: Vec<&'static str>,
    paths: Vec<(u32, usize)>,
}

pub(super) fn memory_work(analysis: &Analysis<'_>) -> MemoryWork {
    let at_work = memory::stacks_at_work(analysis);
    let mut kinds: Vec<&str> = at_work.iter().map(|(_, c)| c.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let place = |name| kinds.binary_search(&name).unwrap_or_default();
    let paths = at_work.iter().map(|(path, c)| (*path, place(c.name())));
    MemoryWork {
        paths: paths.collect(),
        kinds,
    }
}
