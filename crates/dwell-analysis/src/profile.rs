//! Weighted stacks: where exact thread time went.
//!
//! Samples say *where* time went, exact sums say *how much*. [`Profile::of`] joins them so that
//! for every thread and every state the weights add up to the exact sum (closure):
//!
//! - **Waits.** Each site has exact blocked and runnable sums. Its samples share them in proportion
//!   to the blocked and the runnable part of their Horvitz-Thompson weights, as their slices tell them
//!   apart (equally when all weights are 0): a short sleep with a long time on the run queue does not
//!   count as a long sleep. Sites at which no stack was
//!   taken are pooled by (process, thread group, reason, system call), or, when nobody in the group
//!   has a stack there, by (process, reason, system call), or, when nobody in the process has, by those of processes and
//!   thread groups with the same names, and their time is spread over the pool's
//!   samples by weight. When the pool has none either, the time gets the pseudo stack
//!   `[no stack taken]` and keeps its reason and system call. What a thread waited beyond the sums
//!   of its sites (their records were lost) is `[site unknown]`. Sites that claim more than their
//!   thread's exact sum (they were read a little later) are scaled down to it.
//! - **Running.** What switching took where no stack can be taken belongs to the stacks at which the
//!   thread went to sleep (`switching.rs`); the rest to its samples. A thread that ran for at least [`OWN_SCALE_PERIODS`] periods is scaled on its own.
//!   Shorter ones are pooled by (process, thread group): each keeps its exact sum, and the pool's sum
//!   is spread over the pool's samples by weight. Without any sample it is spread over what samples of processes and groups
//!   with the same names stand for beyond their own time (many short processes of a script are sampled now and then
//!   only); without those it is `[not sampled]`. What falls to
//!   stacks whose innermost frame spins is [`State::Spinning`].
//! - **Lost** time of a thread is a state of its own.
mod running;
mod switching;
mod waits;

use crate::analysis::Analysis;
use crate::groups::Groups;
use crate::index::Index;
use crate::names::{Missing, StackRef};
use crate::state::{Reason, State, Times};
use dwell_recording::tables::Tables;
use rustc_hash::FxHashMap;

/// Periods a thread has to run for before its samples are scaled on their own; with fewer, their
/// number is too uncertain to say how its time divides.
pub const OWN_SCALE_PERIODS: u64 = 20;

/// Place in [`Profile::syscalls`]; 0 is none.
pub type SyscallId = u32;

/// Exact time of one thread in one state at one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Position in `threads`.
    pub thread: u32,
    /// What the thread did.
    pub state: State,
    /// The system call it was in.
    pub syscall: SyscallId,
    /// Where.
    pub stack: StackRef,
    /// How long in all, ns.
    pub weight_ns: u64,
    /// How many waits; 0 for running, and for time runnable that (in part) follows waits which are
    /// counted as blocked. A site's count is divided among its stacks by its samples.
    pub waits: u64,
    /// The longest single wait known to have had this stack, ns.
    pub max_wait_ns: u64,
}

/// Every thread's time by state and stack.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// Ordered by thread, state, system call and stack; no two alike, none with weight 0.
    pub entries: Vec<Entry>,
    /// Names of system calls; the first is empty.
    pub syscalls: Vec<String>,
    /// Time at sites whose thread or row is not in the recording, ns. It is in no entry.
    pub orphan_ns: u64,
}

impl Profile {
    /// Joins samples and exact sums, for which it needs the analysis' fields up to `reasons`.
    pub(crate) fn of(analysis: &Analysis<'_>) -> Profile {
        let mut builder = Builder::new(analysis);
        waits::add(&mut builder);
        running::add(&mut builder);
        builder.add_without_stack();
        builder.finish()
    }

    /// Name of an entry's system call, empty for none.
    pub fn syscall(&self, entry: &Entry) -> &str {
        &self.syscalls[entry.syscall as usize]
    }

    /// Sums of one thread, by its position.
    pub fn thread_times(&self, thread: usize) -> Times {
        let start = self
            .entries
            .partition_point(|e| (e.thread as usize) < thread);
        let mut times = Times::default();
        for entry in self.entries[start..]
            .iter()
            .take_while(|e| e.thread as usize == thread)
        {
            times.add(entry.state, entry.weight_ns);
        }
        times
    }
}

impl Entry {
    fn key(&self) -> (u32, State, SyscallId, StackRef) {
        (self.thread, self.state, self.syscall, self.stack)
    }
}

struct Builder<'t> {
    tables: &'t Tables,
    index: &'t Index,
    groups: &'t Groups,
    /// By position in `sites`.
    reasons: &'t [Reason],
    /// Those of the same key are put together at the end; true: its waits are counted at another key, so what is
    /// counted here does not tell the mean.
    entries: Vec<(Entry, bool)>,
    syscalls: Vec<String>,
    syscall_ids: FxHashMap<&'t str, SyscallId>,
    orphan_ns: u64,
    /// By thread: how often it left the processor at which stack. A stack may be there many times.
    departures: Vec<Vec<(StackRef, u64)>>,
}

impl<'t> Builder<'t> {
    fn new(analysis: &'t Analysis<'t>) -> Builder<'t> {
        let Analysis {
            tables,
            index,
            groups,
            reasons,
            ..
        } = analysis;
        Builder {
            tables,
            index,
            groups,
            reasons,
            entries: Vec::new(),
            syscalls: vec![String::new()],
            syscall_ids: [("", 0)].into_iter().collect(),
            orphan_ns: index.orphan_site_ns,
            departures: vec![Vec::new(); tables.threads.len()],
        }
    }

    /// A thread left the processor so many times at this stack.
    fn left_processor(&mut self, thread: usize, stack: StackRef, times: u64) {
        if times > 0 {
            self.departures[thread].push((stack, times));
        }
    }

    fn syscall(&mut self, name: &'t str) -> SyscallId {
        let syscalls = &mut self.syscalls;
        *self.syscall_ids.entry(name).or_insert_with(|| {
            syscalls.push(name.to_owned());
            syscalls.len() as SyscallId - 1
        })
    }

    /// The stack with this id.
    fn stack(&self, id: u32) -> StackRef {
        match self.index.stack(id) {
            Some(position) => StackRef::Taken(position as u32),
            None => StackRef::Missing(Missing::StackLost),
        }
    }

    /// Whether a thread that runs at this stack only waits there.
    fn spins(&self, stack: StackRef) -> bool {
        let StackRef::Taken(position) = stack else {
            return false;
        };
        let leaf = self.tables.stacks[position as usize].frames.last();
        let frame = leaf.and_then(|leaf| self.index.frame(*leaf));
        frame.is_some_and(|frame| self.tables.frames[frame].spinning == Some(true))
    }

    fn add(&mut self, entry: Entry) {
        self.add_portion(entry, false);
    }

    fn add_portion(&mut self, entry: Entry, uncounted: bool) {
        if entry.weight_ns > 0 {
            self.entries.push((entry, uncounted));
        }
    }

    /// Time of a thread without a stack.
    fn add_missing(&mut self, thread: usize, state: State, missing: Missing, weight_ns: u64) {
        self.add(Entry {
            thread: thread as u32,
            state,
            syscall: 0,
            stack: StackRef::Missing(missing),
            weight_ns,
            waits: 0,
            max_wait_ns: 0,
        });
    }

    /// The states that have none.
    fn add_without_stack(&mut self) {
        for (thread, row) in self.tables.threads.iter().enumerate() {
            self.add_missing(thread, State::Stolen, Missing::Stolen, row.stolen_ns);
            self.add_missing(thread, State::Lost, Missing::Lost, row.lost_ns);
        }
    }

    fn finish(mut self) -> Profile {
        self.entries.sort_unstable_by_key(|(entry, _)| entry.key());
        self.entries.dedup_by(|(next, uncounted), (sum, any)| {
            let same = next.key() == sum.key();
            if same {
                sum.weight_ns = sum.weight_ns.saturating_add(next.weight_ns);
                sum.waits = sum.waits.saturating_add(next.waits);
                sum.max_wait_ns = sum.max_wait_ns.max(next.max_wait_ns);
                *any |= *uncounted;
            }
            same
        });
        let entries = self.entries.into_iter().map(|(mut entry, uncounted)| {
            if uncounted {
                entry.waits = 0;
                entry.max_wait_ns = 0;
            }
            entry
        });
        Profile {
            entries: entries.collect(),
            syscalls: self.syscalls,
            orphan_ns: self.orphan_ns,
        }
    }
}

/// Adds up the weights of equal stacks.
fn by_stack(mut weights: Vec<(StackRef, u64)>) -> Vec<(StackRef, u64)> {
    weights.sort_unstable_by_key(|(stack, _)| *stack);
    weights.dedup_by(|next, sum| {
        let same = next.0 == sum.0;
        if same {
            sum.1 = sum.1.saturating_add(next.1);
        }
        same
    });
    weights
}
