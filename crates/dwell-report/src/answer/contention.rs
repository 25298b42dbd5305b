//! What happened on locks while somebody waited, and one lock over time.
use super::waits::name as group_name;
use super::{ContendedLock, LockHolder, LockSpread, LockTimeline, TimelineOwner, TimelinePart};
use dwell_analysis::Analysis;
use dwell_analysis::locks::contention::{self, Contention, Holder, Spread};
use dwell_recording::rows::LockRow;
use dwell_recording::tables::Tables;

/// Owners told of one lock.
const HOLDERS: usize = 8;
/// Bytes of a lock in which the word lies that threads wait on.
const REACH: u64 = 40;

/// Locks that somebody waited for, the longest waited for first.
pub(super) fn contended(analysis: &Analysis<'_>, limit: usize) -> Vec<ContendedLock> {
    let all = contention::contention(analysis);
    all.iter().take(limit).map(|c| lock(analysis, c)).collect()
}

fn lock(analysis: &Analysis<'_>, of: &Contention) -> ContendedLock {
    let row = &analysis.tables.locks[of.lock];
    let wanted_by = of
        .wanted_by
        .map(|f| analysis.names.function(f).name.clone());
    let holders = |holders: &[Holder]| {
        let told = holders.iter().take(HOLDERS);
        told.map(|h| holder(analysis, h)).collect()
    };
    ContendedLock {
        name: name(analysis, row, wanted_by.as_deref()),
        lock: row.lock,
        address: format!("{:#x}", row.address),
        kind: row.kind.clone(),
        blocks: of.blocks,
        gave_up: of.gave_up,
        wait: spread(&of.waits),
        hold: spread(&of.holds),
        longest_queue: of.longest_queue,
        unclaimed_ns: of.unclaimed_ns,
        wanted_by,
        owners: holders(&of.owners),
        held_at_begin: holders(&of.found),
    }
}

fn spread(of: &Spread) -> LockSpread {
    LockSpread {
        count: of.count,
        sum_ns: of.sum_ns,
        mean_ns: of.mean_ns(),
        p99_ns: of.p99_ns,
        max_ns: of.max_ns,
    }
}

fn holder(analysis: &Analysis<'_>, of: &Holder) -> LockHolder {
    LockHolder {
        group: of.label.map(|label| group_name(analysis, label)),
        function: of.function.map(|f| analysis.names.function(f).name.clone()),
        times: of.times,
        waited_ns: of.ns,
    }
}

/// The variable it lies in; else where it is, and who wants it.
fn name(analysis: &Analysis<'_>, row: &LockRow, wanted_by: Option<&str>) -> String {
    let within = row.address..row.address.saturating_add(REACH);
    let mut futexes = analysis.tables.futexes.iter();
    let named = futexes
        .find(|f| f.process == row.process && within.contains(&f.address) && !f.symbol.is_empty());
    if let Some(futex) = named {
        let word = futex.address - row.address;
        return match futex.offset.unwrap_or(0).saturating_sub(word) {
            0 => futex.symbol.clone(),
            offset => format!("{}+{offset:#x}", futex.symbol),
        };
    }
    match wanted_by {
        Some(function) => format!("{:#x} in {function}", row.address),
        None => format!("{:#x}", row.address),
    }
}

impl LockTimeline {
    /// One lock over time, in so many parts. `wanted` is a part of its name, its address (`0x…`) or its number;
    /// of several the one that was waited for longest. None where nobody waited for such a lock.
    pub fn build(tables: &Tables, wanted: &str, parts: usize) -> Option<LockTimeline> {
        let analysis = Analysis::of(tables);
        let all = contention::contention(&analysis);
        let locks = all.iter().map(|c| (c.lock, lock(&analysis, c)));
        let is_exact = |l: &ContendedLock| l.address == wanted || l.lock.to_string() == wanted;
        let mut locks: Vec<(usize, ContendedLock)> = locks
            .filter(|(_, l)| is_exact(l) || l.name.contains(wanted))
            .collect();
        locks.sort_by_key(|(_, l)| !is_exact(l));
        let (position, lock) = locks.into_iter().next()?;
        let found = contention::timeline(&analysis, &tables.locks[position], parts)?;
        let share = |ns: u64| ns as f64 / found.cell_ns as f64;
        let owner = |o: &contention::TimelineOwner| TimelineOwner {
            thread: o.thread.map_or_else(
                || "not known".to_owned(),
                |t| tables.threads[t].name.clone(),
            ),
            tid: o.ns_tid,
            held_ns: o.held_ns,
        };
        Some(LockTimeline {
            at_ns: found.start_ns.saturating_sub(tables.meta.start_ns),
            part_ns: found.cell_ns,
            parts: found
                .cells
                .iter()
                .map(|cell| TimelinePart {
                    owner: cell.owner,
                    held_share: share(cell.held_ns),
                    waiting: share(cell.waited_ns),
                })
                .collect(),
            owners: found.owners.iter().map(owner).collect(),
            lock,
        })
    }
}
