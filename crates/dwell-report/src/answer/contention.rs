//! What happened on locks while somebody waited, and one lock over time.
use super::build::frames;
use super::locks::waiters;
use super::origins::Origins;
use super::waits::name as group_name;
use super::{
    ContendedLock, LockAway, LockConvoys, LockHolder, LockInversion, LockSpread, LockTimeline,
    TimelineOwner, TimelinePart,
};
use dwell_analysis::locks::contention::{
    self, Away, Contention, Convoys, Holder, Inversion, Spread,
};
use dwell_analysis::locks::{Identity, Lock, Locks, Use};
use dwell_analysis::{Analysis, State};
use dwell_recording::rows::LockRow;
use dwell_recording::tables::Tables;
use std::collections::HashMap;

/// Owners, and places where they were off the processor, told of one lock.
const HOLDERS: usize = 8;
/// Bytes of a lock in which the word lies that threads wait on.
const REACH: u64 = 40;

/// Locks that somebody waited for, the longest waited for first.
pub(super) fn contended(
    analysis: &Analysis<'_>,
    locks: &Locks,
    origins: &Origins,
    limit: usize,
) -> Vec<ContendedLock> {
    let mut told = contention::most_waited(analysis);
    told.truncate(limit);
    let waited = Waited::of(locks);
    let told = contention::contention(analysis, &told);
    told.iter()
        .map(|c| lock(analysis, &waited, origins, c))
        .collect()
}

/// What futex waits tell of locks, by process and address.
struct Waited<'l>(HashMap<(u32, u64), &'l Lock>);

impl<'l> Waited<'l> {
    fn of(locks: &'l Locks) -> Waited<'l> {
        // The waits for a semaphore or at a barrier may be told as waits for work. A lock's own come last,
        // and stay.
        let (own, others): (Vec<_>, Vec<_>) = locks.locks.iter().partition(|l| l.used == Use::Lock);
        let by_address = others
            .into_iter()
            .chain(own)
            .filter_map(|l| match l.identity {
                Identity::Word { process, address } => Some(((process, address), l)),
                Identity::Caller { .. } => None,
            });
        Waited(by_address.collect())
    }
}

fn lock(
    analysis: &Analysis<'_>,
    waited: &Waited<'_>,
    origins: &Origins,
    of: &Contention,
) -> ContendedLock {
    let row = &analysis.tables.locks[of.lock];
    let wanted_by = of
        .wanted_by
        .map(|f| analysis.names.function(f).name.clone());
    let holders = |holders: &[Holder]| {
        let told = holders.iter().take(HOLDERS);
        told.map(|h| holder(analysis, h)).collect()
    };
    let waits = waited.0.get(&(row.process, row.address));
    let away = of.held.away.iter().take(HOLDERS);
    ContendedLock {
        name: name(analysis, origins, row.process, row.address),
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
        waiters: waiters(analysis, waits.map_or(&of.spinners, |l| &l.waiters)),
        held_ns: of.held.held_ns,
        away: away
            .map(|a| self::away(analysis, a, of.held.held_ns))
            .collect(),
        held_blocked_ns: of.held.away_ns(|state| state.reason().is_some()),
        held_runnable_ns: of.held.away_ns(|state| state == State::Runnable),
        convoys: convoys(&of.convoys, &of.waits),
        inversions: of
            .inversions
            .iter()
            .take(HOLDERS)
            .map(|i| inversion(analysis, i))
            .collect(),
    }
}

fn inversion(analysis: &Analysis<'_>, of: &Inversion) -> LockInversion {
    LockInversion {
        waiter: group_name(analysis, of.waiter),
        waiter_priority: of.waiter_priority.clone(),
        owner: group_name(analysis, of.owner),
        owner_priority: of.owner_priority.clone(),
        waited_ns: of.waited_ns,
    }
}

fn away(analysis: &Analysis<'_>, of: &Away, held_ns: u64) -> LockAway {
    LockAway {
        group: group_name(analysis, of.label),
        state: of.state.name().to_owned(),
        reason: of.state.reason().map(|r| r.name().to_owned()),
        time_ns: of.ns,
        share: of.ns as f64 / held_ns.max(1) as f64,
        frames: of.path.map(|p| frames(analysis, p)).unwrap_or_default(),
    }
}

fn convoys(of: &Convoys, waits: &Spread) -> LockConvoys {
    LockConvoys {
        count: of.count,
        waited_ns: of.waited_ns,
        most_hand_offs: of.most_hand_offs,
        longest_ns: of.longest_ns,
        dominate: of.are_most_of(waits),
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
        frames: of.path.map(|p| frames(analysis, p)).unwrap_or_default(),
        at_another_lock: of.at_another_lock,
    }
}

/// Names of the locks of a recording.
pub(crate) struct LockNames(Origins);

impl LockNames {
    /// Looks up where locks come from.
    pub fn of(analysis: &Analysis<'_>) -> LockNames {
        LockNames(Origins::of(analysis))
    }

    /// What a person calls a lock.
    pub fn name(&self, analysis: &Analysis<'_>, lock: &LockRow) -> String {
        name(analysis, &self.0, lock.process, lock.address)
    }
}

/// The variable it lies in; else where it is, and who made it or wanted it first.
pub(super) fn name(
    analysis: &Analysis<'_>,
    origins: &Origins,
    process: u32,
    address: u64,
) -> String {
    let within = address..address.saturating_add(REACH);
    let futexes = analysis.tables.futexes.iter();
    // Of the words that follow the first one, in a variable that begins no later than the lock: behind it the
    // next variable may be a lock, too.
    let of_lock = futexes.filter_map(|f| {
        let is_near = f.process == process && within.contains(&f.address) && !f.symbol.is_empty();
        let offset = f
            .offset
            .unwrap_or(0)
            .checked_sub(f.address.checked_sub(address)?)?;
        is_near.then_some((f.address, f.symbol.as_str(), offset))
    });
    match of_lock.min() {
        Some((_, symbol, 0)) => return symbol.to_owned(),
        Some((_, symbol, offset)) => return format!("{symbol}+{offset:#x}"),
        None => {}
    }
    let origin = origins.name(analysis, process, address);
    origin.unwrap_or_else(|| format!("{address:#x}"))
}

/// The longest waited for of the locks that are meant, see [`LockTimeline::build`].
fn find(analysis: &Analysis<'_>, wanted: &str) -> Option<ContendedLock> {
    /// As many are named at a time.
    const NAMED: usize = 1000;
    let rows = &analysis.tables.locks;
    let is_exact = |position: &&usize| {
        let row = &rows[**position];
        format!("{:#x}", row.address) == wanted || row.lock.to_string() == wanted
    };
    let locks = Locks::of(analysis);
    let waited = Waited::of(&locks);
    let origins = Origins::of(analysis);
    let told = |positions: &[usize]| contention::contention(analysis, positions);
    let all = contention::most_waited(analysis);
    if let Some(position) = all.iter().find(is_exact) {
        let exact = told(&[*position]);
        return exact.first().map(|c| lock(analysis, &waited, &origins, c));
    }
    all.chunks(NAMED).find_map(|some| {
        let some = told(some);
        let mut some = some.iter().map(|c| lock(analysis, &waited, &origins, c));
        some.find(|l| l.name.contains(wanted))
    })
}

impl LockTimeline {
    /// One lock over time, in so many parts. `wanted` is a part of its name, its address (`0x…`) or its number;
    /// of several the one that was waited for longest. None where nobody waited for such a lock.
    pub fn build(tables: &Tables, wanted: &str, parts: usize) -> Option<LockTimeline> {
        let analysis = Analysis::of(tables);
        let lock = find(&analysis, wanted)?;
        LockTimeline::of(&analysis, lock, parts)
    }

    /// The same of a lock that is already found.
    pub fn of(analysis: &Analysis<'_>, lock: ContendedLock, parts: usize) -> Option<LockTimeline> {
        let tables = analysis.tables;
        let position = tables.locks.iter().position(|l| l.lock == lock.lock)?;
        let found = contention::timeline(analysis, &tables.locks[position], parts)?;
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
