//! What rules read, joined once.
use crate::finding::{Frame, Stack};
use crate::memory::MemoryUse;
use dwell_analysis::chains::Follower;
use dwell_analysis::locks::contention::{Contention, contention, most_waited};
use dwell_analysis::locks::{Lock, Locks, Use};
use dwell_analysis::memory::{self, Ledger, Sums};
use dwell_analysis::names::{FunctionId, PathId};
use dwell_analysis::{Analysis, Reason};
use rustc_hash::{FxHashMap, FxHashSet};

/// A recording with what rules read.
#[derive(Debug)]
pub struct Recorded<'a, 't> {
    /// Times and stacks.
    pub analysis: &'a Analysis<'t>,
    /// Locks that threads waited for, the longest first: what somebody holds, so no barriers.
    pub locks: Vec<LockUse>,
    /// The ledger of memory; none unless it was recorded.
    pub ledger: Option<Ledger>,
    /// The same by program.
    pub memory: Vec<MemoryUse>,
    /// Locks whose blocks were recorded; none unless locks were counted.
    pub contended: Vec<Contention>,
}

/// A lock, and the threads that wanted it.
#[derive(Clone, Debug)]
pub struct LockUse {
    /// The lock.
    pub lock: Lock,
    /// Positions of the threads that waited for it, or ended such a wait.
    pub threads: Vec<usize>,
    /// Waiting while its owner was asleep, by the owner's label and why, ns.
    pub owner_asleep: FxHashMap<(usize, Reason), u64>,
}

impl LockUse {
    /// Waiting while the owner was asleep for whatever reason, ns.
    pub fn asleep_ns(&self) -> u64 {
        self.owner_asleep
            .values()
            .sum::<u64>()
            .min(self.lock.waited_ns)
    }
}

impl<'a, 't> Recorded<'a, 't> {
    /// Joins it all.
    pub fn of(analysis: &'a Analysis<'t>) -> Recorded<'a, 't> {
        let locks = Locks::of(analysis);
        let mut follower = Follower::new(analysis);
        let locks = locks
            .of_use(Use::Lock)
            .filter(|l| !l.is_barrier())
            .map(|l| lock_use(analysis, &mut follower, l));
        let locks: Vec<LockUse> = locks.collect();
        let ledger = memory::ledger(analysis);
        let memory = ledger.iter().flat_map(|l| MemoryUse::of(analysis, l));
        let memory = memory.collect();
        let contended = contention(analysis, &most_waited(analysis));
        Recorded {
            analysis,
            locks,
            ledger,
            memory,
            contended,
        }
    }

    /// A time as a part of all CPU time.
    pub fn of_cpu_time(&self, ns: u64) -> f64 {
        let all = self.analysis.summary.total.times.running();
        (ns as f64 / all.max(1) as f64).min(1.0)
    }

    /// Processors of the machine.
    pub fn cpus(&self) -> u64 {
        u64::from(self.analysis.tables.meta.machine.cpus).max(1)
    }

    /// Length of the window, ns.
    pub fn window_ns(&self) -> u64 {
        self.analysis.summary.window_ns
    }

    /// Whether so much time has been seen often enough: a share of it is then known to a fifth.
    pub fn is_sampled(&self, ns: u64) -> bool {
        /// 1/√25 is a fifth.
        const SAMPLES: u64 = 25;
        ns >= SAMPLES.saturating_mul(self.analysis.tables.meta.period_ns)
    }

    /// Time that threads existed, ns.
    pub fn lifetime_ns(&self, threads: &[usize]) -> u64 {
        let lives = threads
            .iter()
            .map(|t| self.analysis.summary.threads[*t].lifetime_ns);
        lives.fold(0, u64::saturating_add)
    }

    /// The same, but for the time that they wanted a processor and had none: what they do of their own is a part of this.
    pub fn undisturbed_ns(&self, threads: &[usize]) -> u64 {
        let own = threads.iter().map(|t| {
            let share = &self.analysis.summary.threads[*t];
            let without = share.times.runnable().saturating_add(share.times.stolen());
            share.lifetime_ns.saturating_sub(without)
        });
        own.fold(0, u64::saturating_add)
    }

    /// How many of these threads there were at a time, on average over the time that there were any.
    pub fn at_a_time(&self, threads: &[usize]) -> f64 {
        let rows = || threads.iter().map(|t| &self.analysis.tables.threads[*t]);
        let first = rows().map(|r| r.start_ns).min().unwrap_or(0);
        let last = rows().map(|r| r.until_ns).max().unwrap_or(0);
        self.lifetime_ns(threads) as f64 / last.saturating_sub(first).max(1) as f64
    }

    /// What like threads are called.
    pub fn name(&self, label: usize) -> String {
        self.analysis.groups.labels[label].short()
    }

    /// A stack to show.
    pub fn stack(&self, label: String, path: PathId) -> Stack {
        self.stack_of(label, self.analysis.names.path(path))
    }

    /// The kernel's time for a program's memory at the stacks whose sums a rule picks, ns.
    pub fn memory_ns_at(&self, of: &MemoryUse, picks: impl Fn(&Sums) -> bool) -> u64 {
        let all = self.ledger.as_ref().map_or(&[][..], |l| &l.stacks);
        let stacks = of.stacks.iter().filter_map(|s| all.get(*s));
        let picked = stacks.filter(|s| picks(&s.sums)).map(|s| s.ns);
        picked.fold(0, u64::saturating_add)
    }

    /// The most costly stacks of a program's use of memory, of those whose sums a rule picks.
    pub fn memory_stacks(&self, of: &MemoryUse, picks: impl Fn(&Sums) -> bool) -> Vec<Stack> {
        /// More say the same.
        const SHOWN: usize = 2;
        let all = self.ledger.as_ref().map_or(&[][..], |l| &l.stacks);
        let stacks = of.stacks.iter().filter_map(|s| all.get(*s));
        let picked = stacks.filter(|s| picks(&s.sums) && !s.path.is_empty());
        let label = format!("where {} pays for it", of.program);
        picked
            .take(SHOWN)
            .map(|s| self.stack_of(label.clone(), &s.path))
            .collect()
    }

    /// The same of functions, outermost first.
    pub fn stack_of(&self, label: String, path: &[FunctionId]) -> Stack {
        let names = &self.analysis.names;
        let frame = |id: &FunctionId| {
            let function = names.function(*id);
            Frame {
                function: function.name.clone(),
                kernel: function.kernel,
            }
        };
        let frames = path.iter().rev().map(frame).collect();
        Stack { label, frames }
    }
}

/// Follows a lock's waits to what their owners did meanwhile.
fn lock_use(analysis: &Analysis<'_>, follower: &mut Follower<'_, '_>, lock: &Lock) -> LockUse {
    let sites: FxHashSet<usize> = lock.sites.iter().copied().collect();
    let rows = lock.sites.iter().map(|s| &analysis.tables.sites[*s]);
    let mut threads: FxHashSet<usize> = rows
        .filter_map(|row| analysis.index.thread(row.thread))
        .collect();
    let mut owner_asleep: FxHashMap<(usize, Reason), u64> = FxHashMap::default();
    for wait in analysis
        .waits
        .waits
        .iter()
        .filter(|w| sites.contains(&(w.site as usize)))
    {
        let slice = &analysis.tables.slices[wait.slice as usize];
        threads.extend(slice.waker_thread.and_then(|id| analysis.index.thread(id)));
        let scale = wait.charged_ns as f64 / wait.blocked_ns().max(1) as f64;
        for chain in follower.chains_of(wait) {
            // An owner that waited for the lock itself meanwhile had it from another one; who waits
            // for a condition has as a rule given it back.
            let mut owners = chain.links.iter().skip(1);
            if let Some(owner) =
                owners.find(|l| !matches!(l.reason, Reason::Lock | Reason::Condition))
            {
                let ns = owner_asleep.entry((owner.label, owner.reason)).or_default();
                *ns = ns.saturating_add((chain.charged_ns as f64 * scale) as u64);
            }
        }
    }
    let mut threads: Vec<usize> = threads.into_iter().collect();
    threads.sort_unstable();
    LockUse {
        lock: lock.clone(),
        threads,
        owner_asleep,
    }
}
