//! Where owners were: when they let a lock go, and while they held it.
use super::common;
use super::threads::Threads;
use crate::analysis::Analysis;
use crate::apportion::{apportion, scaled};
use crate::locks::{add, sites};
use crate::names::{CUT_SHORT, FunctionId, PathId, StackRef};
use crate::state::{Reason, State};
use crate::wakers::waker_path;
use dwell_recording::rows::{LockBlockRow, LockRow, block_end, block_part};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Bytes of a lock among which are all words that are waited on: those of a read-write lock of glibc are the
/// third and the fourth.
const WORDS: u64 = 16;

/// What the times of locks and those of waits may differ by.
const SKEW_NS: u64 = 20_000;

/// Like owners that were off the processor at one stack while they held a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away {
    /// Position in [`crate::Groups::labels`].
    pub label: usize,
    /// Blocked for a reason, or runnable.
    pub state: State,
    /// Where, when a stack was taken.
    pub path: Option<PathId>,
    /// Time, ns; estimated where not every wait was kept one by one.
    pub ns: u64,
}

/// What owners did while they held a lock, in blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How long it was held by threads that are known, from the first wait of a block on, by holds whose begin is
    /// known, ns.
    pub held_ns: u64,
    /// What of that they were off the processor, the longest first.
    pub away: Vec<Away>,
}

impl Held {
    /// Time in states that a rule picks, ns.
    pub fn away_ns(&self, picks: impl Fn(State) -> bool) -> u64 {
        let picked = self.away.iter().filter(|a| picks(a.state));
        crate::apportion::total(picked.map(|a| a.ns))
    }
}

/// Where threads were when they ended waits for a lock.
#[derive(Default)]
pub(super) struct Releases {
    /// By position in `locks` and label.
    paths: FxHashMap<(usize, usize), Waited>,
    /// The same of all these locks together, by label.
    of_any: FxHashMap<usize, Waited>,
}

/// Waiting that ended at a stack, ns.
type Waited = FxHashMap<PathId, u64>;

impl Releases {
    /// Of the locks at these positions in `locks`.
    pub fn of(analysis: &Analysis<'_>, locks: &[usize]) -> Releases {
        let mut releases = Releases::default();
        let of_site = locks_by_site(analysis, locks);
        for wait in &analysis.waits.waits {
            let Some(locks) = of_site.get(&(wait.site as usize)) else {
                continue;
            };
            let slice = &analysis.tables.slices[wait.slice as usize];
            let waker = slice.waker_thread.and_then(|id| analysis.index.thread(id));
            let (Some(waker), Some(path)) = (waker, waker_path(analysis, slice)) else {
                continue;
            };
            let label = analysis.groups.label_of_thread(waker);
            for lock in locks {
                let of = releases.paths.entry((*lock, label)).or_default();
                add(of.entry(path).or_default(), wait.charged_ns);
            }
            let of = releases.of_any.entry(label).or_default();
            add(of.entry(path).or_default(), wait.charged_ns);
        }
        releases
    }

    /// Where threads like this let the lock go, for most of the waiting: in the function that acquired it, or in the
    /// one that let it go. Few waits are so long that a stack is taken: where none was, it is where they let another
    /// lock go in the function that acquired this one, as where each connection has a lock of its own; then the second
    /// is true.
    pub fn path(
        &self,
        analysis: &Analysis<'_>,
        lock: usize,
        label: usize,
        acquired_in: Option<FunctionId>,
        released_in: Option<FunctionId>,
    ) -> Option<(PathId, bool)> {
        let own = self.paths.get(&(lock, label));
        let Some(acquired_in) = acquired_in else {
            return Some((longest(analysis, own?, |_| true)?, false));
        };
        let within = |paths: Option<&Waited>, function: FunctionId| {
            longest(analysis, paths?, |path| path.contains(&function))
        };
        let here = within(own, acquired_in).or_else(|| within(own, released_in?));
        let elsewhere = || within(self.of_any.get(&label), acquired_in);
        here.map(|path| (path, false))
            .or_else(|| Some((elsewhere()?, true)))
    }
}

/// The stack that fits with the most waiting; one that is whole, where there is any.
fn longest(
    analysis: &Analysis<'_>,
    paths: &Waited,
    fits: impl Fn(&[FunctionId]) -> bool,
) -> Option<PathId> {
    let is_whole = |path: PathId| {
        let outermost = analysis.names.path(path).first();
        outermost.is_some_and(|f| !analysis.names.function(*f).name.starts_with(CUT_SHORT))
    };
    let fitting = paths
        .iter()
        .filter(|(path, _)| fits(analysis.names.path(**path)));
    let (path, _) = fitting.max_by_key(|(path, ns)| (is_whole(**path), **ns, **path))?;
    Some(*path)
}

/// By position in `sites`: the locks that are waited for there, by position in `locks`.
fn locks_by_site(analysis: &Analysis<'_>, locks: &[usize]) -> FxHashMap<usize, Vec<usize>> {
    let tables = analysis.tables;
    let mut by_address: BTreeMap<(u32, u64), Vec<usize>> = BTreeMap::new();
    for lock in locks {
        let LockRow {
            process, address, ..
        } = tables.locks[*lock];
        by_address
            .entry((process, address))
            .or_default()
            .push(*lock);
    }
    let of_word = |process: u32, word: u64| {
        let lowest = word.saturating_sub(WORDS - 1);
        let mut nearest = by_address.range((process, lowest)..=(process, word));
        nearest.next_back().map(|(_, locks)| locks)
    };
    let futexes = tables.futexes.iter();
    let by_futex: FxHashMap<u32, &Vec<usize>> = futexes
        .filter_map(|f| Some((f.futex, of_word(f.process, f.address)?)))
        .collect();
    let sites = tables.sites.iter().enumerate();
    sites
        .filter_map(|(position, site)| Some((position, (*by_futex.get(&site.futex?)?).clone())))
        .collect()
}

/// A stay of a lock with a thread, as far as it lies in a block.
struct Extent {
    /// Position in `threads`.
    thread: usize,
    start_ns: u64,
    end_ns: u64,
    /// Whether it began before that, or had not ended then.
    is_cut: bool,
    /// Position in `locks`.
    lock: usize,
}

impl Extent {
    fn common(&self, from_ns: u64, until_ns: u64) -> u64 {
        common((self.start_ns, self.end_ns), (from_ns, until_ns))
    }

    /// Whether a thread was off the processor while it held the lock: it takes a lock and lets it go while it runs,
    /// so such a stay lies in the hold, as exactly as two clocks agree, or reaches to where it is cut.
    fn has(&self, from_ns: u64, until_ns: u64) -> bool {
        let common = self.common(from_ns, until_ns);
        let is_most = common > 0 && common >= (until_ns - from_ns) / 2;
        is_most || self.is_cut && common >= SKEW_NS
    }
}

/// What owners did while they held locks, by position in `locks`; `rows` are those of each.
pub(super) fn held(
    analysis: &Analysis<'_>,
    threads: &Threads<'_>,
    rows: &[(usize, Vec<&LockBlockRow>)],
) -> FxHashMap<usize, Held> {
    let mut extents = Vec::new();
    for (lock, rows) in rows {
        add_extents(&mut extents, threads, *lock, rows);
    }
    extents.sort_unstable_by_key(|e| (e.thread, e.start_ns, e.end_ns, e.lock));
    let mut held: FxHashMap<usize, Held> = FxHashMap::default();
    for extent in &extents {
        let of = held.entry(extent.lock).or_default();
        add(&mut of.held_ns, extent.end_ns - extent.start_ns);
    }
    let mut sums: FxHashMap<(usize, AwayKey), u64> = FxHashMap::default();
    let stays = Stays::of(analysis);
    for own in extents.chunk_by(|a, b| a.thread == b.thread) {
        stays.overlaps(analysis, own, |lock, key, ns| {
            add(sums.entry((lock, key)).or_default(), ns);
        });
    }
    for ((lock, (label, state, path)), ns) in sums {
        let away = Away {
            label,
            state,
            path,
            ns,
        };
        held.entry(lock).or_default().away.push(away);
    }
    held.values_mut().for_each(finish);
    held
}

/// What is estimated is no longer than what is known.
fn finish(held: &mut Held) {
    held.away
        .sort_by_key(|a| (Reverse(a.ns), a.label, a.state, a.path));
    if held.away_ns(|_| true) > held.held_ns {
        let estimated: Vec<u64> = held.away.iter().map(|a| a.ns).collect();
        let shares = apportion(held.held_ns, &estimated);
        for (part, ns) in held.away.iter_mut().zip(shares) {
            part.ns = ns;
        }
    }
}

fn add_extents(
    extents: &mut Vec<Extent>,
    threads: &Threads<'_>,
    lock: usize,
    rows: &[&LockBlockRow],
) {
    let holds = known_holds(threads, rows);
    let holds = holds.filter(|h| h.start_ns < h.end_ns);
    extents.extend(holds.map(|hold| Extent {
        thread: hold.thread,
        start_ns: hold.start_ns,
        end_ns: hold.end_ns,
        is_cut: hold.row.start_ns.is_none() || hold.row.end == block_end::OPEN,
        lock,
    }));
}

/// A hold of which thread and begin are known, and up to when it lasted.
pub(super) struct KnownHold<'r> {
    row: &'r LockBlockRow,
    /// Position in `threads`.
    pub thread: usize,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// Those among the rows of one lock.
pub(super) fn known_holds<'r>(
    threads: &Threads<'_>,
    rows: &[&'r LockBlockRow],
) -> impl Iterator<Item = KnownHold<'r>> {
    let begins = Begins::of(rows);
    let holds = rows.iter().filter(|r| r.part == block_part::HOLD);
    holds
        .filter(|h| h.end != block_end::UNSEEN)
        .filter_map(move |row| {
            let start_ns = begins.of_hold(row)?;
            Some(KnownHold {
                row,
                thread: threads.position(row.process, row.ns_tid, start_ns)?,
                start_ns,
                end_ns: row.end_ns?,
            })
        })
}

/// When holds began, as far as it can be known.
pub(super) struct Begins {
    /// By block: when the first waiter came, and when the first hold ended.
    of_block: FxHashMap<u32, (u64, u64)>,
}

impl Begins {
    /// Of the blocks of one lock.
    pub fn of(rows: &[&LockBlockRow]) -> Begins {
        let mut of_block: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
        for row in rows {
            let (wait, end) = of_block.entry(row.block).or_insert((u64::MAX, u64::MAX));
            if row.part == block_part::WAIT {
                *wait = (*wait).min(row.start_ns.unwrap_or(u64::MAX));
            } else if row.part == block_part::HOLD {
                *end = (*end).min(row.end_ns.unwrap_or(0));
            }
        }
        Begins { of_block }
    }

    /// A hold that a block begins with counts from the first wait on. Of a thread that took the lock between two
    /// others, without a wait, nothing tells since when.
    pub fn of_hold(&self, hold: &LockBlockRow) -> Option<u64> {
        let first = || {
            let (wait, end) = self.of_block.get(&hold.block)?;
            (hold.end_ns == Some(*end)).then_some(*wait)
        };
        hold.start_ns.or_else(first)
    }
}

type AwayKey = (usize, State, Option<PathId>);

/// Kept stays off the processor, by thread and start.
struct Stays {
    /// Position in `threads`, start (ns) and position in `slices`.
    order: Vec<(u32, u64, u32)>,
    /// By position in `slices`: blocked time that it stands for, ns.
    charged: Vec<u64>,
    /// By position in `sites`: where it waits, for most of the time.
    site_paths: Vec<Option<PathId>>,
}

impl Stays {
    fn of(analysis: &Analysis<'_>) -> Stays {
        let slices = &analysis.tables.slices;
        let mut charged = vec![0; slices.len()];
        for wait in &analysis.waits.waits {
            charged[wait.slice as usize] = wait.charged_ns;
        }
        let mut order: Vec<(u32, u64, u32)> = (0..)
            .zip(slices)
            .filter_map(|(position, row)| {
                let thread = analysis.index.thread(row.thread)? as u32;
                Some((thread, row.start_ns, position))
            })
            .collect();
        order.sort_unstable();
        Stays {
            order,
            charged,
            site_paths: sites::paths_by_site(analysis),
        }
    }

    /// Tells for each extent of one thread, which are in the order of their starts, what it has of each stay.
    fn overlaps(
        &self,
        analysis: &Analysis<'_>,
        extents: &[Extent],
        mut tell: impl FnMut(usize, AwayKey, u64),
    ) {
        let thread = extents[0].thread as u32;
        let first = self.order.partition_point(|s| s.0 < thread);
        let own = self.order[first..].iter().take_while(|s| s.0 == thread);
        let label = analysis.groups.label_of_thread(thread as usize);
        let mut coming = extents.iter().peekable();
        let mut open: Vec<&Extent> = Vec::new();
        for (_, start_ns, position) in own {
            let slice = &analysis.tables.slices[*position as usize];
            let woken_ns = start_ns.saturating_add(slice.blocked_ns);
            let end_ns = woken_ns.saturating_add(slice.runnable_ns);
            while let Some(extent) = coming.next_if(|e| e.start_ns < end_ns) {
                open.push(extent);
            }
            open.retain(|e| e.end_ns > *start_ns);
            if open.is_empty() {
                continue;
            }
            let site = analysis.index.site(slice.site);
            let reason = site.map_or(Reason::Other, |s| analysis.reasons[s]);
            let taken = slice.stack.and_then(|id| analysis.index.stack(id));
            let taken = taken.map(|s| analysis.names.path_of(StackRef::Taken(s as u32)));
            let path = taken.or_else(|| site.and_then(|s| self.site_paths[s]));
            // What the wait stands for, per ns of it; a preemption stands for itself.
            let (charged, blocked) = match slice.blocked_ns {
                0 => (1, 1),
                blocked => (self.charged[*position as usize], blocked),
            };
            for extent in open.iter().filter(|e| e.has(*start_ns, end_ns)) {
                let within = |from: u64, until: u64| {
                    scaled(extent.common(from, until), charged, blocked).unwrap_or(0)
                };
                let asleep = within(*start_ns, woken_ns);
                if asleep > 0 {
                    let state = State::Blocked(reason);
                    tell(extent.lock, (label, state, path), asleep);
                }
                let wanting = within(woken_ns, end_ns);
                if wanting > 0 {
                    tell(extent.lock, (label, State::Runnable, path), wanting);
                }
            }
        }
    }
}
