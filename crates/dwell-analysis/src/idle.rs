//! Thread pools that wait for work, which answers fold together and never drop.
//!
//! A thread group is *idle* when it spent at least [`IDLE_SHARE`] of its lifetime blocked in one way
//! that means waiting for work:
//!
//! - `poll`, `sleep`,
//! - `socket` in `accept` or `accept4`,
//! - `condition`; time at a futex that may be a lock is never idle,
//!
//! and when either it has several threads, or less than half of that was ended by threads of the
//! recording (what wakes a thread to end it does not count): the rest by timers, interrupts, others, or
//! not at all. A group with the first thread of its process (the program itself rather than a pool) is
//! idle only if other processes are in the recording and its process ran for less than [`QUIET_SHARE`]
//! of all running time.
//!
//! Only the waits that made it idle are folded, the rest of the group's time stays as it is.
use crate::analysis::Analysis;
use crate::profile::Entry;
use crate::state::Reason;

/// Least share of its lifetime that an idle group waits for work.
pub const IDLE_SHARE: f64 = 0.9;

/// Below this share of the recording's running time a whole process counts as a bystander.
pub const QUIET_SHARE: f64 = 0.01;

/// A thread that is woken so shortly before its death (ns) was woken to die.
const LAST_NS: u64 = 10_000_000;

/// An idle group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Position in [`crate::Groups::groups`].
    pub group: usize,
    /// How it waits for work.
    pub reason: Reason,
    /// Number of threads.
    pub threads: u64,
    /// Time folded, ns.
    pub waited_ns: u64,
}

/// The idle pools of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// The longest waiting first.
    pub pools: Vec<Pool>,
    /// In step with `Profile::entries`: true for time that is folded.
    pub folded: Vec<bool>,
}

impl Idle {
    pub(crate) fn of(analysis: &Analysis<'_>) -> Idle {
        let waits = waits_for_work(analysis);
        let mut waited = vec![[0u64; Reason::ALL.len()]; analysis.groups.groups.len()];
        for (entry, reason) in analysis.profile.entries.iter().zip(&waits) {
            if let Some(reason) = reason {
                let group = analysis.groups.of_thread(entry.thread as usize);
                let cell = &mut waited[group][*reason as usize];
                *cell = cell.saturating_add(entry.weight_ns);
            }
        }
        let pools = pools(analysis, &waited);
        let mut reason_of = vec![None; waited.len()];
        for pool in &pools {
            reason_of[pool.group] = Some(pool.reason);
        }
        let folded = analysis
            .profile
            .entries
            .iter()
            .zip(&waits)
            .map(|(entry, reason)| {
                let group = analysis.groups.of_thread(entry.thread as usize);
                reason.is_some() && *reason == reason_of[group]
            });
        Idle {
            folded: folded.collect(),
            pools,
        }
    }

    /// Number of threads in idle pools.
    pub fn threads(&self) -> u64 {
        self.pools.iter().map(|p| p.threads).sum()
    }

    /// Time folded, ns.
    pub fn waited_ns(&self) -> u64 {
        self.pools
            .iter()
            .fold(0, |sum, p| sum.saturating_add(p.waited_ns))
    }
}

/// For every entry of the profile: the reason, when it means waiting for work.
fn waits_for_work(analysis: &Analysis<'_>) -> Vec<Option<Reason>> {
    let wait = |entry: &Entry| {
        let reason = entry.state.reason()?;
        let waits = match reason {
            Reason::Condition | Reason::Poll | Reason::Sleep => true,
            Reason::Socket => analysis.profile.syscall(entry).starts_with("accept"),
            _ => false,
        };
        waits.then_some(reason)
    };
    analysis.profile.entries.iter().map(wait).collect()
}

fn pools(analysis: &Analysis<'_>, waited: &[[u64; Reason::ALL.len()]]) -> Vec<Pool> {
    let ended_from_within = ended_from_within(analysis);
    let pool = |group: usize| {
        let (place, waited_ns) = waited[group]
            .iter()
            .copied()
            .enumerate()
            .max_by_key(|(_, ns)| *ns)?;
        let share = &analysis.summary.groups[group];
        let idle = waited_ns > 0
            && waited_ns as f64 >= IDLE_SHARE * share.lifetime_ns as f64
            && (share.threads > 1 || ended_from_within[group] < waited_ns / 2)
            && (!leads(analysis, group) || is_bystander(analysis, group));
        idle.then_some(Pool {
            group,
            reason: Reason::ALL[place],
            threads: share.threads,
            waited_ns,
        })
    };
    let mut pools: Vec<Pool> = (0..waited.len()).filter_map(pool).collect();
    pools.sort_by_key(|p| std::cmp::Reverse(p.waited_ns));
    pools
}

/// By group: blocked time that threads of the recording ended, but for what woke a thread to end it, ns.
fn ended_from_within(analysis: &Analysis<'_>) -> Vec<u64> {
    let mut ended = vec![0u64; analysis.groups.groups.len()];
    for wait in &analysis.waits.waits {
        let waker = analysis.tables.slices[wait.slice as usize].waker_thread;
        let thread = wait.thread as usize;
        let row = &analysis.tables.threads[thread];
        let to_die = row.ended && row.until_ns.saturating_sub(wait.woken_ns) < LAST_NS;
        if !to_die && waker.is_some_and(|id| analysis.index.thread(id).is_some()) {
            let sum = &mut ended[analysis.groups.of_thread(thread)];
            *sum = sum.saturating_add(wait.charged_ns);
        }
    }
    ended
}

/// True for a group with the first thread of its process.
fn leads(analysis: &Analysis<'_>, group: usize) -> bool {
    let group = &analysis.groups.groups[group];
    let pid = group.process.map(|p| analysis.tables.processes[p].pid);
    group
        .threads
        .iter()
        .any(|t| Some(analysis.tables.threads[*t].tid) == pid)
}

/// True for a group of a process that hardly ran while others did.
fn is_bystander(analysis: &Analysis<'_>, group: usize) -> bool {
    let Some(process) = analysis.groups.groups[group].process else {
        return false;
    };
    let ran = analysis.summary.processes[process].times.running() as f64;
    let all = analysis.summary.total.times.running() as f64;
    analysis.tables.processes.len() > 1 && ran < QUIET_SHARE * all
}
