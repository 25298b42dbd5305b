//! Locks by the time they made threads wait, from futex waits.
//!
//! - **Classes.** Every site that waits on a futex is *lock* (somebody else holds what is wanted), *idle*
//!   (it waits for work or news), *timed* (idle, with a timeout) or *unknown*, by the functions of its
//!   stack ([`kinds`]), else by its operation ([`classify`]). A site without a stack is what other sites
//!   of its word are, else what those with its program counter are. What may be either (a semaphore, a
//!   bare futex) is a lock when at least half of its waiting is ended by threads that wait there too.
//! - **Locks.** Waits of the same word are waits for the same lock; where each thread has a word of its
//!   own (parking_lot, monitors of Java), those of the same function that wanted it.
//! - **Blame.** Each wait is charged to who ended it ([`crate::waits`] gives its weight), so that blame
//!   and waiting add up. A wait that a time limit ended, and that was begun anew for the same lock, is
//!   charged to who ended the last of these. Sites without a kept wait are charged like the rest of their
//!   lock; what no waker is known of is charged to [`Waker::Nobody`].
//! - **Counts.** Where operations were counted too, a lock is told its own, and what was done with locks
//!   that nobody waited for is summed up ([`Counted`]).
pub mod classify;
pub mod contention;
mod counts;
pub mod deadlocks;
pub mod demand;
mod gil;
pub mod kernel;
pub mod kinds;
mod libraries;
mod queue;
pub(crate) mod sites;

use crate::analysis::Analysis;
use crate::apportion::{apportion, total};
use crate::names::{FunctionId, PathId, heaviest};
use crate::waits::{Wait, Waits};
use crate::wakers::{Waker, is_timer, waker_of, waker_path};
use counts::ByAddress;
pub use counts::{Counted, Counts};
pub use queue::Queue;
use rustc_hash::FxHashMap;
use sites::FutexSite;
use std::cmp::Reverse;

/// What a futex wait means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Use {
    /// Somebody else holds what is wanted.
    Lock,
    /// It waits for work or news.
    Idle,
    /// It waits for work or news, or for a time to pass.
    Timed,
    /// Nothing tells.
    Unknown,
}

impl Use {
    /// Every use, in the order answers show them.
    pub const ALL: [Use; 4] = [Use::Lock, Use::Idle, Use::Timed, Use::Unknown];

    /// Its name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Use::Lock => "lock",
            Use::Idle => "idle",
            Use::Timed => "timed",
            Use::Unknown => "unknown",
        }
    }
}

/// What tells one lock from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Identity {
    /// Its address in a process (`processes.process`), and a futex in it (position in `futexes`).
    Word {
        /// Whose memory.
        process: u32,
        /// Where it begins.
        address: u64,
    },
    /// All locks that this function of a process wants.
    Caller {
        /// Whose program.
        process: u32,
        /// Which function; none when no stack tells.
        function: Option<FunctionId>,
    },
}

/// Waits of like threads at one stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Position in [`crate::Groups::labels`].
    pub label: usize,
    /// Where they waited, when a stack was taken.
    pub path: Option<PathId>,
    /// Number of waits.
    pub waits: u64,
    /// Time, ns.
    pub waited_ns: u64,
}

/// Waits of like threads ended by one waker: an edge of who blocks whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blame {
    /// Who waited: position in [`crate::Groups::labels`].
    pub waiter: usize,
    /// Who ended the waits.
    pub waker: Waker,
    /// Where the waker was then, most of that time.
    pub path: Option<PathId>,
    /// Time charged to it, ns.
    pub blamed_ns: u64,
}

/// A lock, or something else that threads wait on.
#[derive(Clone, Debug)]
pub struct Lock {
    /// Which.
    pub identity: Identity,
    /// Position in `futexes` of a word of it, and the bytes from its start to that word.
    pub word: Option<(usize, u64)>,
    /// What the waits mean.
    pub used: Use,
    /// Whose lock: `glibc`, `Rust` …; empty when nothing tells.
    pub runtime: &'static str,
    /// What it is called there.
    pub kind: &'static str,
    /// Which function wanted it, for most of the time.
    pub caller: Option<FunctionId>,
    /// Number of waits.
    pub waits: u64,
    /// Time, ns.
    pub waited_ns: u64,
    /// The longest single wait known, ns.
    pub max_ns: u64,
    /// Who waited where, the longest first.
    pub waiters: Vec<Waiter>,
    /// Who blocked whom, the longest first; adds up to `waited_ns`.
    pub blame: Vec<Blame>,
    /// How many waited at a time, and for how long.
    pub queue: Queue,
    /// What was done with it, where that was counted.
    pub counts: Option<Counts>,
    /// Positions in `sites` of its waits.
    pub sites: Vec<usize>,
}

impl Lock {
    /// Whether threads meet at it, for the last of which the others wait: nobody holds it.
    pub fn is_barrier(&self) -> bool {
        matches!(self.kind, "barrier" | "Barrier")
    }

    /// Whether it is the lock of a Python's interpreter.
    pub fn is_gil(&self) -> bool {
        self.kind == gil::NAME
    }

    /// Time that is charged to nobody, ns.
    pub fn unattributed_ns(&self) -> u64 {
        let nobody = self.blame.iter().filter(|b| b.waker == Waker::Nobody);
        total(nobody.map(|b| b.blamed_ns))
    }
}

/// Everything that threads waited on with futexes.
#[derive(Clone, Debug, Default)]
pub struct Locks {
    /// The longest waited for first, whatever the use.
    pub locks: Vec<Lock>,
    /// What was done with all locks, waited for or not, where that was counted.
    pub counted: Option<Counted>,
}

impl Locks {
    /// Puts the futex waits of a lock together and charges them.
    pub fn of(analysis: &Analysis<'_>) -> Locks {
        let mut locks: FxHashMap<(Identity, Use, &str), Building<'_>> = FxHashMap::default();
        let mut kept = waits_by_site(&analysis.waits, analysis.tables.sites.len());
        for site in &analysis.futex_sites {
            let key = (site.identity, site.used, site.class.name);
            let building = locks.entry(key).or_default();
            let own = std::mem::take(&mut kept[site.position]);
            building.add(analysis, site, own);
        }
        let mut locks: Vec<Lock> = locks
            .into_iter()
            .map(|((identity, used, kind), building)| {
                building.finish(analysis, identity, used, kind)
            })
            .collect();
        locks.sort_by_key(|l| (Reverse(l.waited_ns), l.used, l.identity, l.kind));
        let counted = ByAddress::of(analysis.tables).tell(&mut locks);
        Locks { locks, counted }
    }

    /// Time by use, ns, in the order of [`Use::ALL`].
    pub fn by_use(&self) -> [u64; 4] {
        let mut sums = [0; 4];
        for lock in &self.locks {
            add(&mut sums[lock.used as usize], lock.waited_ns);
        }
        sums
    }

    /// Those of one use, the longest waited for first.
    pub fn of_use(&self, used: Use) -> impl Iterator<Item = &Lock> {
        self.locks.iter().filter(move |l| l.used == used)
    }
}

fn waits_by_site(waits: &Waits, sites: usize) -> Vec<Vec<Wait>> {
    let mut by_site = vec![Vec::new(); sites];
    for wait in &waits.waits {
        by_site[wait.site as usize].push(*wait);
    }
    by_site
}

/// Numbers of damaged recordings may be anything.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

type BlameKey = (usize, Waker);

#[derive(Default)]
struct Building<'a> {
    sites: Vec<&'a FutexSite>,
    kept: Vec<Wait>,
    blame: FxHashMap<BlameKey, (u64, FxHashMap<PathId, u64>)>,
    /// By label of the waiter: time of which no end is known, ns.
    uncharged: FxHashMap<usize, u64>,
}

impl<'a> Building<'a> {
    fn add(&mut self, analysis: &Analysis<'_>, site: &'a FutexSite, own: Vec<Wait>) {
        let label = analysis.groups.label_of_thread(site.thread);
        if own.is_empty() {
            add(self.uncharged.entry(label).or_default(), site.blocked_ns);
        }
        let slice_of = |wait: &Wait| &analysis.tables.slices[wait.slice as usize];
        let given_up = |wait: &Wait| site.class.tries_again && is_timer(slice_of(wait));
        for (wait, end) in own.iter().zip(ends(&own, given_up)) {
            let Some(end) = end else {
                add(self.uncharged.entry(label).or_default(), wait.charged_ns);
                continue;
            };
            let slice = slice_of(&own[end]);
            let (ns, paths) = self
                .blame
                .entry((label, waker_of(analysis, slice)))
                .or_default();
            add(ns, wait.charged_ns);
            if let Some(path) = waker_path(analysis, slice) {
                add(paths.entry(path).or_default(), wait.charged_ns);
            }
        }
        self.kept.extend(own);
        self.sites.push(site);
    }

    /// Charges what no kept wait tells of like the rest of the same waiters, else of the lock.
    fn charge_rest(&mut self) {
        let mut rest: Vec<(usize, u64)> = self.uncharged.drain().collect();
        rest.sort_unstable();
        for (label, ns) in rest {
            let mut like: Vec<BlameKey> = self
                .blame
                .keys()
                .filter(|k| k.0 == label)
                .cloned()
                .collect();
            if like.is_empty() {
                like = self.blame.keys().cloned().collect();
            }
            like.sort();
            let weights: Vec<u64> = like.iter().map(|key| self.blame[key].0).collect();
            let shares = match like.is_empty() {
                true => vec![((label, Waker::Nobody), ns)],
                false => {
                    let wakers = like.into_iter().map(|(_, waker)| (label, waker));
                    wakers.zip(apportion(ns, &weights)).collect()
                }
            };
            for (key, share) in shares {
                add(&mut self.blame.entry(key).or_default().0, share);
            }
        }
    }

    fn finish(
        mut self,
        analysis: &Analysis<'_>,
        identity: Identity,
        used: Use,
        kind: &'static str,
    ) -> Lock {
        self.charge_rest();
        let largest = self
            .sites
            .iter()
            .max_by_key(|s| (s.blocked_ns, Reverse(s.position)));
        let longest = self.kept.iter().map(Wait::blocked_ns).max();
        let mut blame: Vec<Blame> = self
            .blame
            .into_iter()
            .map(|((waiter, waker), (blamed_ns, paths))| Blame {
                waiter,
                waker,
                path: heaviest(paths),
                blamed_ns,
            })
            .filter(|b| b.blamed_ns > 0)
            .collect();
        blame.sort_by(|a, b| {
            let key = |b: &Blame| (Reverse(b.blamed_ns), b.waiter);
            key(a).cmp(&key(b)).then_with(|| a.waker.cmp(&b.waker))
        });
        Lock {
            identity,
            word: largest.and_then(|s| s.word),
            used,
            runtime: largest.map_or("", |s| s.class.runtime),
            kind,
            caller: largest.and_then(|s| s.class.caller),
            waits: total(self.sites.iter().map(|s| s.count)),
            waited_ns: total(self.sites.iter().map(|s| s.blocked_ns)),
            // A site's longest stay includes time runnable; where waits were kept they know better.
            max_ns: longest
                .unwrap_or_else(|| self.sites.iter().map(|s| s.max_ns).max().unwrap_or(0)),
            waiters: waiters(analysis, &self.sites),
            blame,
            queue: Queue::of(analysis.tables, &self.kept),
            counts: None,
            sites: self.sites.iter().map(|s| s.position).collect(),
        }
    }
}

/// By wait of a site, in order of time: which one of them ended what it was part of, if that is known. Those that were given
/// up go on with the next.
fn ends(waits: &[Wait], given_up: impl Fn(&Wait) -> bool) -> Vec<Option<usize>> {
    /// Most that a thread runs until it waits anew, ns: a few system calls.
    const BETWEEN_TRIES_NS: u64 = 200_000;
    let mut ends = vec![None; waits.len()];
    for (place, wait) in waits.iter().enumerate().rev() {
        ends[place] = if given_up(wait) {
            let next = waits.get(place + 1);
            let goes_on =
                next.is_some_and(|n| n.start_ns < wait.end_ns.saturating_add(BETWEEN_TRIES_NS));
            goes_on.then(|| ends[place + 1]).flatten()
        } else {
            Some(place)
        };
    }
    ends
}

fn waiters(analysis: &Analysis<'_>, sites: &[&FutexSite]) -> Vec<Waiter> {
    let mut sums: FxHashMap<(usize, Option<PathId>), (u64, u64)> = FxHashMap::default();
    for site in sites {
        let label = analysis.groups.label_of_thread(site.thread);
        let (waits, ns) = sums.entry((label, site.path)).or_default();
        add(waits, site.count);
        add(ns, site.blocked_ns);
    }
    let mut waiters: Vec<Waiter> = sums
        .into_iter()
        .map(|((label, path), (waits, waited_ns))| Waiter {
            label,
            path,
            waits,
            waited_ns,
        })
        .collect();
    waiters.sort_by_key(|w| (Reverse(w.waited_ns), w.label, w.path));
    waiters
}
