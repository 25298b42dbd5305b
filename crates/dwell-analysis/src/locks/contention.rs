//! What happened on locks while somebody waited (table `lock_blocks`), by lock, and one lock over time.
use super::add;
use crate::analysis::Analysis;
use crate::names::FunctionId;
use dwell_recording::rows::{LockBlockRow, LockRow, block_end, block_part};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

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
            sum_ns: super::total(lasted.iter().copied()),
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
    /// To whom the waiting is charged, the most first; with `unclaimed_ns` it adds up to the waiting.
    pub owners: Vec<Holder>,
    /// Who held it when waits began, by the waiting.
    pub found: Vec<Holder>,
}

/// Every lock that somebody waited for, the longest waited for first.
pub fn contention(analysis: &Analysis<'_>) -> Vec<Contention> {
    let mut by_lock: FxHashMap<u32, Vec<&LockBlockRow>> = FxHashMap::default();
    for row in &analysis.tables.lock_blocks {
        by_lock.entry(row.lock).or_default().push(row);
    }
    let threads = Threads::of(analysis);
    let locks = analysis.tables.locks.iter().enumerate();
    let mut found: Vec<Contention> = locks
        .filter_map(|(position, lock)| Some((position, by_lock.get(&lock.lock)?)))
        .map(|(position, rows)| one(analysis, &threads, position, rows))
        .collect();
    found.sort_by_key(|c| (Reverse(c.waits.sum_ns), c.lock));
    found
}

type Key = (Option<usize>, Option<FunctionId>);

fn one(
    analysis: &Analysis<'_>,
    threads: &Threads<'_>,
    lock: usize,
    rows: &[&LockBlockRow],
) -> Contention {
    let of = |part: &str| {
        let part = part.to_owned();
        rows.iter().copied().filter(move |r| r.part == part)
    };
    let known = |row: &LockBlockRow| {
        let is_known = row.end != block_end::UNSEEN && row.end != block_end::OPEN;
        row.end_ns?.checked_sub(row.start_ns?).filter(|_| is_known)
    };
    let lasted = |row: &LockBlockRow| row.end_ns?.checked_sub(row.start_ns?);
    let mut owners: FxHashMap<Key, (u64, u64)> = FxHashMap::default();
    // Who has a lock has one place for it in a block, mostly.
    let mut places: FxHashMap<(u32, u32), u32> = FxHashMap::default();
    for hold in of(block_part::HOLD) {
        let frame = hold.frame.or(hold.release_frame);
        if let Some(frame) = frame {
            places.insert((hold.block, hold.ns_tid), frame);
        }
        let at = hold.start_ns.or(hold.end_ns).unwrap_or(0);
        let label = threads.label(analysis, hold.process, hold.ns_tid, at);
        let function = frame.and_then(|f| function_of(analysis, f));
        let (times, ns) = owners.entry((label, function)).or_default();
        *times += 1;
        add(ns, hold.blamed_ns);
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
    let gave_up = of(block_part::WAIT).filter(|w| w.end == block_end::GAVE_UP);
    Contention {
        lock,
        blocks: of(block_part::BLOCK).count() as u64,
        waits: Spread::of(of(block_part::WAIT).filter_map(lasted).collect()),
        gave_up: gave_up.count() as u64,
        holds: Spread::of(of(block_part::HOLD).filter_map(known).collect()),
        longest_queue: rows.iter().map(|r| u64::from(r.queue)).max().unwrap_or(0),
        unclaimed_ns: super::total(of(block_part::WAIT).map(|w| w.unclaimed_ns)),
        wanted_by: wanted
            .into_iter()
            .max_by_key(|(function, ns)| (*ns, Reverse(*function)))
            .map(|(function, _)| function),
        owners: sorted(owners),
        found: sorted(found),
    }
}

fn sorted(sums: FxHashMap<Key, (u64, u64)>) -> Vec<Holder> {
    let holder = |((label, function), (times, ns))| Holder {
        label,
        function,
        times,
        ns,
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

/// Threads by process and number in their own PID namespace.
struct Threads<'t> {
    positions: FxHashMap<(u32, u32), Vec<usize>>,
    rows: &'t [dwell_recording::rows::ThreadRow],
}

impl<'t> Threads<'t> {
    fn of(analysis: &Analysis<'t>) -> Threads<'t> {
        let rows = &analysis.tables.threads;
        let mut positions: FxHashMap<(u32, u32), Vec<usize>> = FxHashMap::default();
        for (position, row) in rows.iter().enumerate() {
            // Of a thread that began in the window only the outer number may be known.
            let number = if row.ns_tid == 0 { row.tid } else { row.ns_tid };
            let of = positions.entry((row.process, number)).or_default();
            of.push(position);
        }
        Threads { positions, rows }
    }

    /// The thread that had this number at an instant, as near as may be.
    fn position(&self, process: u32, ns_tid: u32, at_ns: u64) -> Option<usize> {
        let positions = self.positions.get(&(process, ns_tid))?;
        let distance = |p: &&usize| {
            let row = &self.rows[**p];
            let before = row.start_ns.saturating_sub(at_ns);
            before.max(at_ns.saturating_sub(row.until_ns))
        };
        positions.iter().min_by_key(distance).copied()
    }

    fn label(
        &self,
        analysis: &Analysis<'_>,
        process: u32,
        ns_tid: u32,
        at_ns: u64,
    ) -> Option<usize> {
        let position = self.position(process, ns_tid, at_ns)?;
        Some(analysis.groups.label_of_thread(position))
    }
}

/// A thread that held a lock in a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineOwner {
    /// Its number in its own PID namespace, 0 when nothing tells.
    pub ns_tid: u32,
    /// Position in `threads`, when it is there.
    pub thread: Option<usize>,
    /// How long it held the lock in blocks, as far as is known, ns.
    pub held_ns: u64,
}

/// A part of a timeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimelineCell {
    /// Who held the lock longest in it, in blocks: position in [`Timeline::owners`].
    pub owner: Option<usize>,
    /// For how much of it somebody held the lock in a block, ns.
    pub held_ns: u64,
    /// Time of all waiters together in it, ns.
    pub waited_ns: u64,
}

/// A lock over time: equal parts from the first block to the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// Where it begins, ns of CLOCK_BOOTTIME.
    pub start_ns: u64,
    /// Length of a part, ns.
    pub cell_ns: u64,
    /// The parts.
    pub cells: Vec<TimelineCell>,
    /// Who held it, the longest first.
    pub owners: Vec<TimelineOwner>,
}

/// A lock over time, in so many parts; none where nobody waited for it.
pub fn timeline(analysis: &Analysis<'_>, lock: &LockRow, cells: usize) -> Option<Timeline> {
    let rows = analysis.tables.lock_blocks.iter();
    let rows: Vec<&LockBlockRow> = rows.filter(|r| r.lock == lock.lock).collect();
    let instants = rows.iter().flat_map(|r| [r.start_ns, r.end_ns]).flatten();
    let start_ns = instants.clone().min()?;
    let end_ns = instants.max()?;
    let cells = cells.max(1);
    let cell_ns = (end_ns - start_ns).div_ceil(cells as u64).max(1);
    let mut timeline = Timeline {
        start_ns,
        cell_ns,
        cells: vec![TimelineCell::default(); cells],
        owners: Vec::new(),
    };
    // A hold that began before anyone waited is drawn from there on.
    let mut begins: FxHashMap<u32, u64> = FxHashMap::default();
    for wait in rows.iter().filter(|r| r.part == block_part::WAIT) {
        let begin = begins.entry(wait.block).or_insert(u64::MAX);
        *begin = (*begin).min(wait.start_ns.unwrap_or(u64::MAX));
        timeline.spread(wait.start_ns, wait.end_ns, |cell, _, ns| {
            add(&mut cell.waited_ns, ns)
        });
    }
    let threads = Threads::of(analysis);
    let mut held: Vec<FxHashMap<u32, u64>> = vec![FxHashMap::default(); cells];
    let mut sums: FxHashMap<u32, u64> = FxHashMap::default();
    for hold in rows.iter().filter(|r| r.part == block_part::HOLD) {
        let begin = hold.start_ns.or_else(|| begins.get(&hold.block).copied());
        timeline.spread(begin, hold.end_ns, |cell, place, ns| {
            add(&mut cell.held_ns, ns);
            add(held[place].entry(hold.ns_tid).or_default(), ns);
            add(sums.entry(hold.ns_tid).or_default(), ns);
        });
    }
    let mut owners: Vec<(u32, u64)> = sums.into_iter().collect();
    owners.sort_by_key(|(tid, ns)| (Reverse(*ns), *tid));
    let position = |tid: u32| owners.iter().position(|o| o.0 == tid);
    for (cell, held) in timeline.cells.iter_mut().zip(held) {
        let longest = held
            .into_iter()
            .max_by_key(|(tid, ns)| (*ns, Reverse(*tid)));
        cell.owner = longest.and_then(|(tid, _)| position(tid));
    }
    timeline.owners = owners
        .iter()
        .map(|&(ns_tid, held_ns)| TimelineOwner {
            ns_tid,
            thread: threads.position(lock.process, ns_tid, start_ns),
            held_ns,
        })
        .collect();
    Some(timeline)
}

impl Timeline {
    /// Gives each part what it has of a stretch of time.
    fn spread(
        &mut self,
        start_ns: Option<u64>,
        end_ns: Option<u64>,
        mut give: impl FnMut(&mut TimelineCell, usize, u64),
    ) {
        let (Some(start), Some(end)) = (start_ns, end_ns) else {
            return;
        };
        let (start, end) = (
            start.saturating_sub(self.start_ns),
            end.saturating_sub(self.start_ns),
        );
        let mut from = start;
        while from < end {
            let place = (from / self.cell_ns) as usize;
            let Some(cell) = self.cells.get_mut(place) else {
                return;
            };
            let until = end.min((place as u64 + 1) * self.cell_ns);
            give(cell, place, until - from);
            from = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_recording::Tables;
    use dwell_recording::rows::{FrameRow, ProcessRow, SymbolRow, ThreadRow};

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

    #[test]
    fn a_lock_s_blocks_are_summed_up() {
        let tables = tables(&PARTS);
        let analysis = Analysis::of(&tables);
        let [lock] = &contention(&analysis)[..] else {
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
        assert_eq!(waited, contention(&analysis)[0].waits.sum_ns);
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
        assert_eq!(contention(&analysis).len(), 1);
        assert!(timeline(&analysis, &tables.locks[0], 70).is_some());
    }
}
