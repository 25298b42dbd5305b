//! What happened on locks while somebody waited (table `lock_blocks`), by lock, and one lock over time.
mod convoys;
mod inversions;
mod owners;
mod spinners;
pub(in crate::locks) mod threads;
mod timeline;

use super::{Waiter, add};
use crate::analysis::Analysis;
use crate::apportion::total;
use crate::names::{FunctionId, PathId};
pub use convoys::Convoys;
use dwell_recording::rows::{LockBlockRow, block_end, block_part, lock_kind};
pub use inversions::Inversion;
use inversions::Priorities;
use owners::Releases;
pub use owners::{Away, Held};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use threads::Threads;
pub use timeline::{Timeline, TimelineCell, TimelineOwner, timeline};

/// How long something lasted, over many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many.
    pub count: u64,
    /// All together, ns.
    pub sum_ns: u64,
    /// 99 of 100 were no longer, ns.
    pub p99_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
}

impl Spread {
    fn of(mut lasted: Vec<u64>) -> Spread {
        lasted.sort_unstable();
        let last = lasted.len().saturating_sub(1);
        let place = (lasted.len() * 99).div_ceil(100).saturating_sub(1);
        Spread {
            count: lasted.len() as u64,
            sum_ns: total(lasted.iter().copied()),
            p99_ns: lasted.get(place).copied().unwrap_or(0),
            max_ns: lasted.get(last).copied().unwrap_or(0),
        }
    }

    /// The mean, ns.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count).unwrap_or(0)
    }
}

/// Like threads in one function, and what is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Position in [`crate::Groups::labels`]; none where nothing tells.
    pub label: Option<usize>,
    /// The function that acquired the lock, or let it go, when that was seen.
    pub function: Option<FunctionId>,
    /// Where they let it go, most of the time, when a stack was taken.
    pub path: Option<PathId>,
    /// None was taken: it is where they let another lock go in that function.
    pub at_another_lock: bool,
    /// How many holds, or waits.
    pub times: u64,
    /// Waiting, ns.
    pub ns: u64,
}

/// A lock that somebody waited for.
#[derive(Clone, Debug)]
pub struct Contention {
    /// Position in `locks`.
    pub lock: usize,
    /// Blocks that are over.
    pub blocks: u64,
    /// Its waits.
    pub waits: Spread,
    /// How many of them were given up.
    pub gave_up: u64,
    /// Holds whose begin and end are known: of threads that had waited.
    pub holds: Spread,
    /// How many waited at a time.
    pub longest_queue: u64,
    /// Waiting that is charged to no hold, ns.
    pub unclaimed_ns: u64,
    /// Which function wanted it, for most of the waiting.
    pub wanted_by: Option<FunctionId>,
    /// Who waited where, of locks that are waited for on the processor, the longest first.
    pub spinners: Vec<Waiter>,
    /// To whom the waiting is charged, the most first; with `unclaimed_ns` it adds up to the waiting.
    pub owners: Vec<Holder>,
    /// Who held it when waits began, by the waiting.
    pub found: Vec<Holder>,
    /// What its owners did meanwhile.
    pub held: Held,
    /// When it went from waiter to waiter.
    pub convoys: Convoys,
    /// Who waited while somebody held it that the scheduler prefers less, the longest first.
    pub inversions: Vec<Inversion>,
}

/// The locks that somebody waited for, the longest waited for first: by position in `locks`.
pub fn most_waited(analysis: &Analysis<'_>) -> Vec<usize> {
    let mut waited: FxHashMap<u32, u64> = FxHashMap::default();
    for row in &analysis.tables.lock_blocks {
        let sum = waited.entry(row.lock).or_default();
        if row.part == block_part::WAIT {
            add(sum, lasted(row).unwrap_or(0));
        }
    }
    let locks = analysis.tables.locks.iter().enumerate();
    let mut found: Vec<(u64, usize)> = locks
        .filter_map(|(position, lock)| Some((waited.remove(&lock.lock)?, position)))
        .collect();
    found.sort_unstable_by_key(|(ns, position)| (Reverse(*ns), *position));
    found.into_iter().map(|(_, position)| position).collect()
}

/// What happened on the locks at these positions in `locks`, in their order.
pub fn contention(analysis: &Analysis<'_>, positions: &[usize]) -> Vec<Contention> {
    let number = |position: &usize| analysis.tables.locks[*position].lock;
    let places: FxHashMap<u32, usize> = positions.iter().map(number).zip(0..).collect();
    let mut rows: Vec<(usize, Vec<&LockBlockRow>)> =
        positions.iter().map(|p| (*p, Vec::new())).collect();
    for row in &analysis.tables.lock_blocks {
        if let Some(place) = places.get(&row.lock) {
            rows[*place].1.push(row);
        }
    }
    let threads = Threads::of(analysis);
    let releases = Releases::of(analysis, positions);
    let mut held = owners::held(analysis, &threads, &rows);
    let priorities = Priorities::of(analysis);
    let inversions = |lock: usize, rows: &[&LockBlockRow]| {
        priorities.inversions(analysis, &threads, &analysis.tables.locks[lock], rows)
    };
    rows.iter()
        .map(|(lock, rows)| Contention {
            held: held.remove(lock).unwrap_or_default(),
            inversions: inversions(*lock, rows),
            ..one(analysis, &threads, &releases, *lock, rows)
        })
        .collect()
}

fn lasted(row: &LockBlockRow) -> Option<u64> {
    row.end_ns?.checked_sub(row.start_ns?)
}

/// Length of what two stretches of time have in common, ns.
fn common(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

type Key = (Option<usize>, Option<FunctionId>);

fn one(
    analysis: &Analysis<'_>,
    threads: &Threads<'_>,
    releases: &Releases,
    lock: usize,
    rows: &[&LockBlockRow],
) -> Contention {
    let of = |part: &'static str| rows.iter().copied().filter(move |r| r.part == part);
    let known = |row: &LockBlockRow| {
        let is_known = row.end != block_end::UNSEEN && row.end != block_end::OPEN;
        lasted(row).filter(|_| is_known)
    };
    let mut owners: FxHashMap<Key, (u64, u64)> = FxHashMap::default();
    let mut released: FxHashMap<Key, FxHashMap<FunctionId, u64>> = FxHashMap::default();
    // Who has a lock has one place for it in a block, mostly.
    let mut places: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    for hold in of(block_part::HOLD) {
        let frame = hold.frame.or(hold.release_frame);
        if let Some(frame) = frame {
            places.insert((hold.block, hold.ns_tid), frame);
        }
        let at = hold.start_ns.or(hold.end_ns).unwrap_or(0);
        let label = threads.label(analysis, hold.process, hold.ns_tid, at);
        let key = (label, frame.and_then(|f| function_of(analysis, f)));
        let (times, ns) = owners.entry(key).or_default();
        *times += 1;
        add(ns, hold.blamed_ns);
        if let Some(function) = hold.release_frame.and_then(|f| function_of(analysis, f)) {
            let of = released.entry(key).or_default();
            add(of.entry(function).or_default(), hold.blamed_ns);
        }
    }
    let mut found: FxHashMap<Key, (u64, u64)> = FxHashMap::default();
    let mut wanted: FxHashMap<FunctionId, u64> = FxHashMap::default();
    for wait in of(block_part::WAIT) {
        let owner = wait.owner_ns_tid;
        let at = wait.start_ns.unwrap_or(0);
        let label = threads.label(analysis, wait.process, owner, at);
        let place = places.get(&(wait.block, owner));
        let function = place.and_then(|f| function_of(analysis, *f));
        let (times, ns) = found.entry((label, function)).or_default();
        *times += 1;
        add(ns, lasted(wait).unwrap_or(0));
        if let Some(function) = wait.frame.and_then(|f| function_of(analysis, f)) {
            add(
                wanted.entry(function).or_default(),
                lasted(wait).unwrap_or(0),
            );
        }
    }
    let path = |(label, function): Key| {
        let released = released.get(&(label, function)).and_then(most);
        releases.path(analysis, lock, label?, function, released)
    };
    let gave_up = of(block_part::WAIT).filter(|w| w.end == block_end::GAVE_UP);
    Contention {
        lock,
        blocks: of(block_part::BLOCK).count() as u64,
        waits: Spread::of(of(block_part::WAIT).filter_map(lasted).collect()),
        gave_up: gave_up.count() as u64,
        holds: Spread::of(of(block_part::HOLD).filter_map(known).collect()),
        longest_queue: rows.iter().map(|r| u64::from(r.queue)).max().unwrap_or(0),
        unclaimed_ns: total(of(block_part::WAIT).map(|w| w.unclaimed_ns)),
        wanted_by: most(&wanted),
        spinners: match analysis.tables.locks[lock].kind == lock_kind::SPIN {
            true => spinners::spinners(analysis, threads, rows),
            false => Vec::new(),
        },
        owners: sorted(owners, path),
        found: sorted(found, path),
        held: Held::default(),
        convoys: Convoys::of(rows),
        inversions: Vec::new(),
    }
}

/// The function with the most.
fn most(sums: &FxHashMap<FunctionId, u64>) -> Option<FunctionId> {
    let most = sums
        .iter()
        .max_by_key(|(function, ns)| (**ns, Reverse(**function)));
    most.map(|(function, _)| *function)
}

fn sorted(
    sums: FxHashMap<Key, (u64, u64)>,
    path: impl Fn(Key) -> Option<(PathId, bool)>,
) -> Vec<Holder> {
    let holder = |((label, function), (times, ns))| {
        let path = path((label, function));
        Holder {
            label,
            function,
            path: path.map(|(path, _)| path),
            at_another_lock: path.is_some_and(|(_, elsewhere)| elsewhere),
            times,
            ns,
        }
    };
    let mut holders: Vec<Holder> = sums.into_iter().map(holder).collect();
    holders.sort_by_key(|h| (Reverse(h.ns), Reverse(h.times), h.label, h.function));
    holders
}

/// The function that has a call, before inlining: the one that a person looks for.
fn function_of(analysis: &Analysis<'_>, frame: u32) -> Option<FunctionId> {
    let position = analysis.index.frame(frame)?;
    analysis.names.frame(position).map(|(f, _)| f).next_back()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Reason, State};
    use dwell_recording::Tables;
    use dwell_recording::rows::{
        EventRow, FrameRow, FutexRow, LockRow, ProcessRow, SampleRow, SiteRow, SiteTimeRow,
        SliceRow, StackRow, SymbolRow, ThreadRow, event,
    };

    /// `(part, thread, start, end, how, owner, blamed, unclaimed)` in one block.
    type Part = (
        &'static str,
        u32,
        Option<u64>,
        u64,
        &'static str,
        u32,
        u64,
        u64,
    );

    fn tables(parts: &[Part]) -> Tables {
        let row = |&(
            part,
            ns_tid,
            start_ns,
            end_ns,
            end,
            owner_ns_tid,
            blamed_ns,
            unclaimed_ns,
        ): &Part| {
            LockBlockRow {
                process: 1,
                lock: 7,
                part: part.into(),
                ns_tid,
                start_ns,
                end_ns: Some(end_ns),
                end: end.into(),
                owner_ns_tid,
                frame: (part != "block").then_some(ns_tid),
                blamed_ns,
                unclaimed_ns,
                queue: u32::from(part != "hold"),
                ..LockBlockRow::default()
            }
        };
        let ids = [10, 11, 12];
        Tables {
            processes: vec![ProcessRow {
                process: 1,
                name: "server".into(),
                ..ProcessRow::default()
            }],
            threads: ids
                .map(|id| ThreadRow {
                    thread: id,
                    process: 1,
                    tid: 4000 + id,
                    ns_tid: id,
                    name: format!("thread-{}", ["a", "b", "c"][id as usize - 10]),
                    until_ns: 10_000,
                    ..ThreadRow::default()
                })
                .to_vec(),
            frames: ids
                .map(|frame| FrameRow {
                    frame,
                    ..FrameRow::default()
                })
                .to_vec(),
            symbols: ids
                .map(|frame| SymbolRow {
                    frame,
                    function: format!("function{frame}"),
                    ..SymbolRow::default()
                })
                .to_vec(),
            locks: vec![LockRow {
                lock: 7,
                process: 1,
                address: 0x1000,
                kind: "mutex".into(),
                ..LockRow::default()
            }],
            lock_blocks: parts.iter().map(row).collect(),
            ..Tables::default()
        }
    }

    const PARTS: [Part; 6] = [
        ("hold", 10, None, 2_000, "released", 0, 1_000, 0),
        ("wait", 11, Some(1_000), 2_100, "acquired", 10, 0, 100),
        ("wait", 12, Some(1_500), 2_500, "gave_up", 10, 0, 100),
        ("hold", 11, Some(2_100), 4_000, "released", 0, 900, 0),
        ("block", 0, Some(1_000), 4_000, "free", 0, 0, 0),
        ("hold", 12, Some(4_500), 5_000, "open", 0, 0, 0),
    ];

    fn contended(analysis: &Analysis<'_>) -> Vec<Contention> {
        contention(analysis, &most_waited(analysis))
    }

    #[test]
    fn a_lock_s_blocks_are_summed_up() {
        let tables = tables(&PARTS);
        let analysis = Analysis::of(&tables);
        let [lock] = &contended(&analysis)[..] else {
            panic!("one lock");
        };
        assert_eq!((lock.blocks, lock.gave_up, lock.longest_queue), (1, 1, 1));
        let Spread {
            count,
            sum_ns,
            p99_ns,
            max_ns,
        } = lock.waits;
        assert_eq!((count, sum_ns, p99_ns, max_ns), (2, 2_100, 1_100, 1_100));
        // Those of which one end is not known do not count.
        assert_eq!((lock.holds.count, lock.holds.mean_ns()), (1, 1_900));
        let name = |h: &Holder| {
            let label = &analysis.groups.labels[h.label.expect("a thread")];
            let function = &analysis
                .names
                .function(h.function.expect("a function"))
                .name;
            (label.short(), function.clone(), h.times, h.ns)
        };
        let owners: Vec<_> = lock.owners.iter().map(name).collect();
        assert_eq!(owners[0].1, "function10");
        assert_eq!((owners[0].2, owners[0].3), (1, 1_000));
        let blamed: u64 = lock.owners.iter().map(|o| o.ns).sum();
        assert_eq!(blamed + lock.unclaimed_ns, lock.waits.sum_ns);
        let found: Vec<_> = lock.found.iter().map(name).collect();
        assert_eq!(
            (found.len(), found[0].1.as_str(), found[0].2),
            (1, "function10", 2)
        );
    }

    /// A wait of a thread at a site of its own: `(thread, reason, on the lock, start, blocked, runnable, waker)`.
    type Away = (u32, &'static str, bool, u64, u64, u64, Option<u32>);

    fn add_away(tables: &mut Tables, stays: &[Away]) {
        tables.futexes = vec![FutexRow {
            futex: 3,
            process: 1,
            address: 0x1000,
            ..FutexRow::default()
        }];
        tables.stacks = (10..13)
            .map(|stack| StackRow {
                stack,
                frames: vec![stack],
                end: "complete".into(),
            })
            .collect();
        for (site, &(thread, reason, on_lock, start_ns, blocked_ns, runnable_ns, waker_thread)) in
            (0..).zip(stays)
        {
            tables.sites.push(SiteRow {
                site,
                thread,
                reason: reason.into(),
                futex: on_lock.then_some(3),
                ..SiteRow::default()
            });
            tables.site_times.push(SiteTimeRow {
                site,
                blocked_ns,
                runnable_ns,
                count: 1,
                ..SiteTimeRow::default()
            });
            tables.slices.push(SliceRow {
                thread,
                site,
                start_ns,
                blocked_ns,
                runnable_ns,
                stack: Some(thread),
                waker_thread,
                waker_stack: waker_thread,
                ..SliceRow::default()
            });
        }
    }

    #[test]
    fn owners_whose_stack_was_not_taken_are_told_by_another_lock() {
        let mut tables = tables(&PARTS);
        // Another lock, on whose waiter's wake-up a stack was taken.
        add_away(
            &mut tables,
            &[(11, "lock", true, 1_000, 1_050, 50, Some(10))],
        );
        tables.futexes[0].address = 0x2000;
        let mut other = tables.locks[0].clone();
        (other.lock, other.address) = (8, 0x2000);
        tables.locks.push(other);
        tables.lock_blocks.push(LockBlockRow {
            lock: 8,
            ..tables.lock_blocks[1].clone()
        });
        let analysis = Analysis::of(&tables);
        let lock = contended(&analysis).remove(0);
        assert_eq!(analysis.tables.locks[lock.lock].lock, 7);
        let told = |o: &Holder| (o.path.is_some(), o.at_another_lock);
        let told: Vec<_> = lock.owners.iter().map(told).collect();
        // The threads of the others, and other functions, were not seen.
        let not = (false, false);
        assert_eq!(told, [(true, true), not, not], "{:?}", lock.owners);
    }

    /// A lock of a program's own, around one of libc.
    #[test]
    fn owners_that_let_a_lock_go_in_another_function_are_told_there() {
        let mut tables = tables(&PARTS);
        add_away(
            &mut tables,
            &[(11, "lock", true, 1_000, 1_050, 50, Some(10))],
        );
        let told = |tables: &Tables| {
            let analysis = Analysis::of(tables);
            let owner = contended(&analysis).remove(0).owners[0];
            owner.path.is_some() && !owner.at_another_lock
        };
        tables.lock_blocks[0].frame = Some(12);
        assert!(!told(&tables));
        tables.lock_blocks[0].release_frame = Some(10);
        assert!(told(&tables));
    }

    #[test]
    fn owners_are_told_where_they_were() {
        let mut tables = tables(&PARTS);
        let stays = [
            (11, "lock", true, 1_000, 1_050, 50, Some(10)),
            (11, "io", false, 2_000, 600, 300, None),
            (11, "", false, 3_900, 0, 100, None),
            (12, "lock", true, 1_500, 900, 0, Some(11)),
            (12, "sleep", false, 4_500, 500, 0, None),
        ];
        add_away(&mut tables, &stays);
        let analysis = Analysis::of(&tables);
        let lock = contended(&analysis).remove(0);
        let leaf = |path: Option<PathId>| {
            let path = analysis.names.path(path.expect("a path"));
            let function = *path.last().expect("a function");
            analysis.names.function(function).name.clone()
        };
        // Each was seen to wake a waiter from the function in which it held the lock.
        let owners: Vec<_> = lock.owners.iter().map(|o| o.function).collect();
        for (owner, name) in lock.owners.iter().zip(["function10", "function11"]) {
            assert_eq!(leaf(owner.path), name, "{owners:?}");
        }
        assert_eq!(lock.owners[2].path, None);
        // From the first wait to 2000, from 2100 to 4000, from 4500 to the end at 5000.
        assert_eq!(lock.held.held_ns, 1_000 + 1_900 + 500);
        let away = lock.held.away.iter();
        let away: Vec<_> = away.map(|a| (a.state, leaf(a.path), a.ns)).collect();
        let io = State::Blocked(Reason::Io);
        let sleep = State::Blocked(Reason::Sleep);
        let wanted = [
            (io, "function11".to_owned(), 500),
            (sleep, "function12".to_owned(), 500),
            (State::Runnable, "function11".to_owned(), 400),
        ];
        assert_eq!(away, wanted);
        assert_eq!(lock.held.away_ns(|s| s.reason().is_some()), 1_000);
    }

    /// Who waits for a spin lock is seen running.
    #[test]
    fn spinners_are_told_where_they_were() {
        let mut tables = tables(&PARTS);
        tables.locks[0].kind = "spin".into();
        let sample = |thread, time_ns, stack| SampleRow {
            thread,
            time_ns,
            stack,
            state: "running".into(),
            ..SampleRow::default()
        };
        // `add_away` makes the stacks.
        add_away(&mut tables, &[]);
        tables.samples.extend([
            sample(11, 1_500, 11),
            sample(11, 1_600, 10),
            sample(11, 1_700, 11),
            sample(11, 9_000, 12),
        ]);
        let analysis = Analysis::of(&tables);
        let lock = contended(&analysis).remove(0);
        let told: u64 = lock.spinners.iter().map(|w| w.waited_ns).sum();
        assert_eq!(told, lock.waits.sum_ns);
        let waits: u64 = lock.spinners.iter().map(|w| w.waits).sum();
        assert_eq!(waits, lock.waits.count);
        let leaf = |path: PathId| {
            let function = *analysis.names.path(path).last().expect("a function");
            analysis.names.function(function).name.clone()
        };
        let seen = lock.spinners.iter();
        let seen: Vec<_> = seen
            .filter_map(|w| Some((leaf(w.path?), w.waited_ns)))
            .collect();
        // Two of its three samples in waits are there.
        assert_eq!(seen.len(), 2, "{seen:?}");
        assert_eq!((&*seen[0].0, &*seen[1].0), ("function11", "function10"));
        assert!(seen[0].1.abs_diff(2 * seen[1].1) <= 2, "{seen:?}");
    }

    /// A thread that took the lock between two others is not taken to have had it all the time.
    #[test]
    fn of_holds_without_a_begin_only_the_first_counts() {
        let mut parts = PARTS.to_vec();
        parts.insert(4, ("hold", 12, None, 4_400, "released", 0, 0, 0));
        let lock = |parts: &[Part]| {
            let tables = tables(parts);
            contended(&Analysis::of(&tables)).remove(0).held.held_ns
        };
        assert_eq!(lock(&parts), lock(&PARTS));
    }

    /// A clock that is a little ahead makes a wait before the hold reach into it.
    #[test]
    fn waits_next_to_a_hold_are_not_in_it() {
        let mut tables = tables(&PARTS);
        add_away(
            &mut tables,
            &[
                (11, "poll", false, 1_000, 1_000, 200, None),
                (11, "poll", false, 3_950, 1_000, 0, None),
            ],
        );
        let analysis = Analysis::of(&tables);
        assert_eq!(contended(&analysis).remove(0).held.away, []);
    }

    #[test]
    fn owners_are_away_no_longer_than_they_hold() {
        let mut tables = tables(&PARTS);
        add_away(&mut tables, &[(11, "io", false, 2_100, 1_000, 0, None)]);
        // It stands for many of its kind.
        tables.site_times[0].blocked_ns = 1_000_000;
        let analysis = Analysis::of(&tables);
        let lock = contended(&analysis).remove(0);
        assert_eq!(lock.held.away_ns(|_| true), lock.held.held_ns);
    }

    #[test]
    fn waiting_for_one_that_is_preferred_less_is_an_inversion() {
        let mut tables = tables(&PARTS);
        let mut prefer = |thread: u32, time_ns: u64, how: &str| {
            tables.events.push(EventRow {
                time_ns,
                thread: Some(thread),
                kind: event::PRIORITY.into(),
                detail: how.into(),
            });
        };
        prefer(10, 1_500, "nice 19");
        prefer(12, 1_000, "fifo 3");
        prefer(12, 4_000, "idle");
        let found = |tables: &Tables| -> Vec<_> {
            let analysis = Analysis::of(tables);
            let found = contended(&analysis).remove(0).inversions.into_iter();
            let told = |i: Inversion| (i.waiter_priority, i.owner_priority, i.waited_ns);
            found.map(told).collect()
        };
        let wanted = [
            // From 1000 to 2000 a usual one waited for one that is nice, from 1500 on also another.
            ("nice 0", "nice 19", 1_000),
            ("fifo 3", "nice 19", 500),
            // From 2100 to 2500 that waited for a usual one.
            ("fifo 3", "nice 0", 400),
        ];
        let wanted = wanted.map(|(w, o, ns)| (w.to_owned(), o.to_owned(), ns));
        assert_eq!(found(&tables), wanted);
        tables.locks[0].mutex_type = "normal inherit".into();
        assert_eq!(found(&tables), []);
    }

    #[test]
    fn a_convoy_is_told_from_a_crowd() {
        let turns = |turns: u64| -> Vec<Part> {
            let wait = |n: u64| {
                let tid = 10 + (n % 3) as u32;
                (
                    "wait",
                    tid,
                    Some(n * 100),
                    n * 100 + 250,
                    "acquired",
                    0,
                    0,
                    250,
                )
            };
            (0..turns).map(wait).collect()
        };
        let convoys = |parts: &[Part]| {
            let tables = tables(parts);
            contended(&Analysis::of(&tables)).remove(0).convoys
        };
        let found = convoys(&turns(9));
        assert_eq!(
            (found.count, found.most_hand_offs, found.longest_ns),
            (1, 9, 1_050)
        );
        assert_eq!(found.waited_ns, 9 * 250);
        assert_eq!(convoys(&turns(7)).count, 0);
        // Each waits once.
        let mut crowd = turns(9);
        for (n, part) in (0..).zip(&mut crowd) {
            part.1 = 100 + n;
        }
        assert_eq!(convoys(&crowd).count, 0);
    }

    #[test]
    fn a_timeline_has_owners_and_waiting() {
        let tables = tables(&PARTS);
        let analysis = Analysis::of(&tables);
        let timeline = timeline(&analysis, &tables.locks[0], 4).expect("somebody waited");
        assert_eq!((timeline.start_ns, timeline.cell_ns), (1_000, 1_000));
        let tids: Vec<u32> = timeline.owners.iter().map(|o| o.ns_tid).collect();
        assert_eq!(tids, [11, 10, 12]);
        let cells: Vec<_> = timeline
            .cells
            .iter()
            .map(|c| (c.owner, c.held_ns, c.waited_ns))
            .collect();
        let wanted = [
            (Some(1), 1_000, 1_500),
            (Some(0), 900, 600),
            (Some(0), 1_000, 0),
            (Some(2), 500, 0),
        ];
        assert_eq!(cells, wanted);
        let waited: u64 = timeline.cells.iter().map(|c| c.waited_ns).sum();
        assert_eq!(waited, contended(&analysis)[0].waits.sum_ns);
    }

    #[test]
    fn rows_that_point_nowhere_do_no_harm() {
        let mut tables = tables(&PARTS);
        for row in &mut tables.lock_blocks {
            row.frame = Some(99);
            row.ns_tid = 99;
            row.start_ns = Some(u64::MAX);
        }
        tables.lock_blocks[0].lock = 8;
        let analysis = Analysis::of(&tables);
        assert_eq!(contended(&analysis).len(), 1);
        assert!(timeline(&analysis, &tables.locks[0], 70).is_some());
    }
}
