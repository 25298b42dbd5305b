//! Which locks cost time, and who held others up.
use super::build::{frame, frames};
use super::contention::contended;
use super::deadlocks::deadlocks;
use super::origins::Origins;
use super::waits::{name as group_name, party};
use super::{
    Blame, BlockedBy, CountedProcess, Frame, KernelLockPlace, KernelLocks, LockAnswer, LockCounts,
    LocksAnswer, Options, Spun, Waiter,
};
use dwell_analysis::Analysis;
use dwell_analysis::apportion::total;
use dwell_analysis::locks::kernel::{self, KernelLock};
use dwell_analysis::locks::{self, Identity, Lock, Locks, Use};
use dwell_analysis::spinning;
use dwell_analysis::wakers::Waker;
use dwell_recording::meta;
use dwell_recording::rows::ProcessRow;
use dwell_recording::tables::Tables;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Waiters and edges told of one lock.
const PARTIES: usize = 12;

impl LocksAnswer {
    /// Computes the answer of a recording.
    pub fn build(tables: &Tables, options: &Options) -> LocksAnswer {
        let analysis = Analysis::of(tables);
        LocksAnswer::of(&analysis, options)
    }

    /// The same, with the analysis done before.
    pub fn of(analysis: &Analysis<'_>, options: &Options) -> LocksAnswer {
        LocksAnswer::with(analysis, &Locks::of(analysis), options)
    }

    /// The same, with the locks found before.
    pub fn with(analysis: &Analysis<'_>, locks: &Locks, options: &Options) -> LocksAnswer {
        let origins = Origins::of(analysis);
        let by_use = locks.by_use();
        let waited_ns = by_use[Use::Lock as usize];
        let all = total(by_use.iter().copied());
        let unknown = by_use[Use::Unknown as usize];
        let told = |used: Use| {
            let of_use = locks.of_use(used).take(options.locks);
            of_use.map(|l| lock(analysis, &origins, l)).collect()
        };
        LocksAnswer {
            recording: super::build::recording(analysis),
            thread_time_ns: analysis.summary.total.lifetime_ns,
            futex_ns: Use::ALL
                .iter()
                .map(|used| (used.name().to_owned(), by_use[*used as usize]))
                .collect(),
            classified_share: match all {
                0 => 1.0,
                all => 1.0 - unknown as f64 / all as f64,
            },
            waited_ns,
            blamed_ns: total(
                locks
                    .of_use(Use::Lock)
                    .flat_map(|l| &l.blame)
                    .map(|b| b.blamed_ns),
            ),
            unattributed_ns: total(locks.of_use(Use::Lock).map(Lock::unattributed_ns)),
            count: locks.of_use(Use::Lock).count() as u64,
            spun_ns: analysis.summary.total.times.spinning(),
            spun: spun(analysis, options.locks),
            lock_counts: lock_counts(analysis, locks),
            deadlocks: deadlocks(analysis, &origins),
            contended: contended(analysis, locks, &origins, options.locks),
            kernel: kernel_locks(analysis, options.locks),
            blocks: blocks(analysis, locks),
            locks: told(Use::Lock),
            unknown: told(Use::Unknown),
            waiting_for_work: Use::ALL[1..3].iter().flat_map(|u| told(*u)).collect(),
        }
    }
}

/// Who spun longest.
fn spun(analysis: &Analysis<'_>, limit: usize) -> Vec<Spun> {
    let total_ns = analysis.summary.total.times.total().max(1);
    let all = spinning::spun(analysis).into_iter().take(limit);
    all.map(|spun| Spun {
        group: group_name(analysis, spun.label),
        function: frame(analysis, spun.function),
        caller: spun.caller.map(|caller| frame(analysis, caller)),
        time_ns: spun.spun_ns,
        share: spun.spun_ns as f64 / total_ns as f64,
        frames: frames(analysis, spun.path),
    })
    .collect()
}

/// Who blocks whom over all locks, the most first.
fn blocks(analysis: &Analysis<'_>, locks: &Locks) -> Vec<BlockedBy> {
    let mut edges: BTreeMap<(usize, &Waker), u64> = BTreeMap::new();
    for blame in locks.of_use(Use::Lock).flat_map(|l| &l.blame) {
        let ns = edges.entry((blame.waiter, &blame.waker)).or_default();
        *ns = ns.saturating_add(blame.blamed_ns);
    }
    let edge = |((waiter, waker), waited_ns): ((usize, &Waker), u64)| BlockedBy {
        waiter: group_name(analysis, waiter),
        waker: party(analysis, waker),
        waited_ns,
    };
    let mut edges: Vec<BlockedBy> = edges.into_iter().map(edge).collect();
    edges.sort_by_key(|e| Reverse(e.waited_ns));
    edges
}

fn lock(analysis: &Analysis<'_>, origins: &Origins, lock: &Lock) -> LockAnswer {
    let caller = lock.caller.map(|f| Frame {
        function: analysis.names.function(f).name.clone(),
        kernel: false,
    });
    let queue = &lock.queue;
    LockAnswer {
        name: name(analysis, origins, lock),
        process: process(analysis, lock),
        address: match lock.identity {
            Identity::Word { address, .. } => Some(format!("{address:#x}")),
            Identity::Caller { .. } => None,
        },
        runtime: lock.runtime.to_owned(),
        kind: lock.kind.to_owned(),
        used: lock.used.name().to_owned(),
        caller,
        waits: lock.waits,
        waited_ns: lock.waited_ns,
        mean_ns: lock.waited_ns.checked_div(lock.waits).unwrap_or(0),
        max_ns: lock.max_ns,
        acquired: lock.counts.map(|c| c.acquired),
        contended: lock.counts.and_then(|c| c.contended),
        nested: lock.counts.map(|c| c.nested),
        contended_share: lock.counts.and_then(|c| share(c.contended?, c.acquired)),
        waited_share: lock.counts.and_then(|c| share(lock.waits, c.acquired)),
        kept_waits: queue.kept,
        p50_ns: queue.p50_ns,
        p90_ns: queue.p90_ns,
        p99_ns: queue.p99_ns,
        queue_longest: queue.longest,
        queue_mean: queue.mean,
        handed_on_share: queue.handed_on,
        convoy: queue.is_convoy(),
        unattributed_ns: lock.unattributed_ns(),
        waiters: waiters(analysis, &lock.waiters),
        blame: lock
            .blame
            .iter()
            .take(PARTIES)
            .map(|b| Blame {
                waiter: group_name(analysis, b.waiter),
                waker: party(analysis, &b.waker),
                blamed_ns: b.blamed_ns,
                frames: b.path.map(|p| frames(analysis, p)).unwrap_or_default(),
            })
            .collect(),
    }
}

/// Who waited where, the longest first.
pub(super) fn waiters(analysis: &Analysis<'_>, waiters: &[locks::Waiter]) -> Vec<Waiter> {
    let told = waiters.iter().take(PARTIES);
    told.map(|w| Waiter {
        group: group_name(analysis, w.label),
        waits: w.waits,
        waited_ns: w.waited_ns,
        frames: w.path.map(|p| frames(analysis, p)).unwrap_or_default(),
    })
    .collect()
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// What was counted; none where nothing was meant to be.
fn lock_counts(analysis: &Analysis<'_>, locks: &Locks) -> Option<LockCounts> {
    let counted = &analysis.tables.meta.counted;
    if counted.is_empty() && locks.counted.is_none() {
        return None;
    }
    let sums = locks.counted.unwrap_or_default();
    let process = |one: &meta::CountedProcess| {
        let position = analysis.index.process(one.process);
        let row = position.map(|p| &analysis.tables.processes[p]);
        CountedProcess {
            name: row.map_or_else(String::new, |row| row.name.clone()),
            pid: one.pid,
            libc: one.libc.clone(),
            attach_pause_ns: one.attach.longest_ns,
            detach_pause_ns: one.detach.map(|d| d.longest_ns),
            forgotten: one.forgotten,
            events: one.events,
            lost_events: one.lost_events,
            released_free: one.released_free,
            missed: one.missed.clone(),
        }
    };
    Some(LockCounts {
        locks: sums.locks,
        acquired: sums.counts.acquired,
        contended: sums.counts.contended.unwrap_or(0),
        nested: sums.counts.nested,
        try_fails: sums.counts.try_fails,
        unwaited_locks: sums.unwaited_locks,
        unwaited_acquired: sums.unwaited.acquired,
        processes: counted.iter().map(process).collect(),
    })
}

/// What was waited for locks of the kernel; none where that was not recorded.
fn kernel_locks(analysis: &Analysis<'_>, limit: usize) -> Option<KernelLocks> {
    const WAITS: &str = "kernel_lock_waits";
    let meta = &analysis.tables.meta;
    meta.produced.get(WAITS)?;
    let locks = kernel::kernel_locks(analysis);
    Some(KernelLocks {
        waits: total(locks.iter().map(|l| l.waits)),
        waited_ns: total(locks.iter().map(|l| l.waited_ns)),
        lost: meta.losses.get(WAITS).copied().unwrap_or(0),
        places: locks
            .iter()
            .take(limit)
            .map(|l| place(analysis, l))
            .collect(),
    })
}

fn place(analysis: &Analysis<'_>, lock: &KernelLock) -> KernelLockPlace {
    let frames = lock.path.map(|p| frames(analysis, p)).unwrap_or_default();
    let own = frames
        .iter()
        .position(|f| !kernel::is_part_of_lock(&f.function));
    KernelLockPlace {
        processes: lock.processes,
        kind: lock.kind.clone(),
        caller: lock.caller.map(|f| analysis.names.function(f).name.clone()),
        locks: lock.locks,
        waits: lock.waits,
        waited_ns: lock.waited_ns,
        mean_ns: lock.waited_ns.checked_div(lock.waits).unwrap_or(0),
        max_ns: lock.max_ns,
        frames: frames[own.unwrap_or(0)..].to_vec(),
    }
}

/// The variable it lies in; else where it is, and who made it, wanted it first or wants it; else who wants it. The lock of a
/// process' interpreter everybody knows by name.
fn name(analysis: &Analysis<'_>, origins: &Origins, lock: &Lock) -> String {
    if lock.is_gil() {
        return match process_row(analysis, lock) {
            Some(row) => format!("the GIL of {} {}", row.name, row.pid),
            None => "the GIL".to_owned(),
        };
    }
    let caller = lock
        .caller
        .map(|f| analysis.names.function(f).name.as_str());
    let Identity::Word { process, address } = lock.identity else {
        return match caller {
            Some(caller) => format!("in {caller}"),
            None => "[no stack taken]".to_owned(),
        };
    };
    if let Some((futex, within)) = lock.word {
        let row = &analysis.tables.futexes[futex];
        if !row.symbol.is_empty() {
            return match row.offset.unwrap_or(0).saturating_sub(within) {
                0 => row.symbol.clone(),
                offset => format!("{}+{offset:#x}", row.symbol),
            };
        }
        if let Some(stated) = row.stated {
            let file = row.module.rsplit('/').next().unwrap_or_default();
            return format!("[{file}+{:#x}]", stated.saturating_sub(within));
        }
    }
    if let Some(name) = origins.name(analysis, process, address) {
        return name;
    }
    match caller {
        Some(caller) => format!("{address:#x} in {caller}"),
        None => format!("{address:#x}"),
    }
}

fn process(analysis: &Analysis<'_>, lock: &Lock) -> String {
    process_row(analysis, lock).map_or_else(String::new, |row| row.name.clone())
}

fn process_row<'a>(analysis: &Analysis<'a>, lock: &Lock) -> Option<&'a ProcessRow> {
    let (Identity::Word { process, .. } | Identity::Caller { process, .. }) = lock.identity;
    let position = analysis.index.process(process)?;
    Some(&analysis.tables.processes[position])
}
