//! What a person is told about a recording.
//!
//! These types are the JSON output as they stand: stable field names, units in the names (`_ns`,
//! `_bytes`), shares between 0 and 1. Lists are ordered, the most important first.
mod build;
mod contention;
mod deadlocks;
mod findings;
mod interpreters;
mod lock_types;
mod locks;
mod memory;
mod notes;
mod origins;
mod waits;

pub(crate) use contention::LockNames;
pub use dwell_findings::Frame;
pub use lock_types::*;
pub use memory::{
    KernelThread, Machine, MemoryAnswer, MemoryCall, MemoryComponent, MemoryCounts, MemoryStack,
};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Stacks on and off the processor, each.
    pub stacks: usize,
    /// Functions on and off the processor, each.
    pub functions: usize,
    /// Wakers, chains and long waits, each.
    pub waits: usize,
    /// Locks of each use.
    pub locks: usize,
    /// How to name the recording in hints of what to do next; none when it is not kept.
    pub recording: Option<String>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            stacks: 10,
            functions: 20,
            waits: 10,
            locks: 10,
            recording: None,
        }
    }
}

/// Everything a person is told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What was recorded.
    pub recording: Recording,
    /// What the rules say, the most severe first.
    #[serde(default)]
    pub findings: Vec<dwell_findings::Finding>,
    /// What this recording could not be asked.
    #[serde(default)]
    pub could_not_look: Vec<dwell_findings::Blind>,
    /// How all thread time divides.
    pub total: Division,
    /// How each process' thread time divides, the one with the most running time first.
    pub processes: Vec<Process>,
    /// Hottest stacks on a processor.
    pub on_cpu: Vec<Stack>,
    /// Hottest stacks off the processor; waits of idle pools are left out.
    pub off_cpu: Vec<Stack>,
    /// Functions by time with them innermost on a processor.
    pub functions_on_cpu: Vec<Function>,
    /// Functions by time with them anywhere on a blocked or runnable stack; idle pools are left out.
    pub functions_off_cpu: Vec<Function>,
    /// Who ended the waits; idle pools are left out.
    pub wakers: Vec<Woken>,
    /// What waits were really waiting for; idle pools are left out.
    pub chains: Vec<Chain>,
    /// The longest single waits; idle pools are left out.
    pub longest_waits: Vec<LongWait>,
    /// How much of the blocked time wakers and chains speak of.
    pub waits_covered_share: f64,
    /// Time that threads waited for locks, ns.
    pub locks_waited_ns: u64,
    /// Threads that waited for each other's locks when the recording ended.
    pub deadlocks: Vec<LockDeadlock>,
    /// The locks waited for longest.
    pub locks: Vec<LockAnswer>,
    /// Functions that spun longest, waiting for a lock or for news on a processor.
    pub spun: Vec<Spun>,
    /// What was done with all locks; none unless it was counted (`dwell record --locks`).
    pub lock_counts: Option<LockCounts>,
    /// What memory cost; none unless it was recorded (`dwell record --memory`).
    pub memory: Option<MemoryAnswer>,
    /// Thread pools that waited for work.
    pub idle_pools: Vec<IdlePool>,
    /// What is not in the recording.
    pub losses: Losses,
    /// Whether every thread's states add up to its lifetime.
    pub closure: Closure,
    /// Thread time in interpreters whose functions are not told, by what they interpret (`Perl`), ns.
    pub untold_ns: BTreeMap<String, u64>,
    /// What stands out, and what to do next.
    pub notes: Vec<String>,
}

/// What the rules say (`dwell findings`).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FindingsAnswer {
    /// What was recorded.
    pub recording: Recording,
    /// The most severe first.
    pub findings: Vec<dwell_findings::Finding>,
    /// Rules that need what was not recorded.
    pub could_not_look: Vec<dwell_findings::Blind>,
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// What was recorded, as a person would say it.
    pub target: String,
    /// Name and version of the recorder.
    pub tool: String,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Processor architecture.
    pub arch: String,
    /// Processors online.
    pub cpus: u32,
    /// Start of the window, ns since 1970 (UTC).
    pub start_unix_ns: u64,
    /// Length of the window, ns.
    pub window_ns: u64,
    /// Number of processes seen.
    pub processes: u64,
    /// Number of threads seen.
    pub threads: u64,
    /// Number of stacks taken.
    pub samples: u64,
    /// Mean distance between two stacks of a thread, ns of thread time.
    pub period_ns: u64,
    /// False for a recording that was cut short.
    pub complete: bool,
    /// Exit code of a launched command.
    pub exit_code: Option<i32>,
    /// CPU time of the recorder, its eBPF programs included where known, ns.
    pub recorder_cpu_ns: u64,
    /// Peak memory of the recorder, bytes.
    pub recorder_peak_rss_bytes: u64,
}

/// How the time of some threads divides. The states add up to `lifetime_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Division {
    /// Number of threads.
    pub threads: u64,
    /// Time they existed in the window, ns.
    pub lifetime_ns: u64,
    /// On a processor, ns; that of spinning is in it.
    pub running_ns: u64,
    /// On a processor in loops that only wait, ns.
    pub spinning_ns: u64,
    /// Wanting a processor, ns.
    pub runnable_ns: u64,
    /// On a processor that the machine's host or interrupts had, ns.
    pub stolen_ns: u64,
    /// Asleep for any reason, ns.
    pub blocked_ns: u64,
    /// Asleep, by reason, ns; reasons that did not occur are left out.
    pub blocked_by_reason_ns: BTreeMap<String, u64>,
    /// Could not be told apart, ns.
    pub lost_ns: u64,
    /// Processors in use on average over the window.
    pub cpus: f64,
    /// Times they went to sleep.
    pub voluntary_switches: u64,
    /// Times they were switched out while they wanted to go on.
    pub involuntary_switches: u64,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Process {
    /// Process id in the root PID namespace.
    pub pid: u32,
    /// Short name.
    pub name: String,
    /// Command line.
    pub command: String,
    /// Exit status as wait(2) encodes it, where known.
    pub exit_status: Option<i32>,
    /// How its thread time divides.
    pub division: Division,
    /// The same by thread group, the one with the most running time first.
    pub groups: Vec<Group>,
}

/// Threads of a process with the same name, numbers at its end folded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// `worker-*`.
    pub name: String,
    /// How its thread time divides.
    pub division: Division,
}

/// Time of like threads in one state at one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Short name of the process.
    pub process: String,
    /// Thread group.
    pub group: String,
    /// `running`, `spinning`, `runnable`, `blocked` or `lost`.
    pub state: String,
    /// Why blocked; empty otherwise.
    pub reason: String,
    /// System call; empty outside.
    pub syscall: String,
    /// Time, ns.
    pub time_ns: u64,
    /// Time over all thread time.
    pub share: f64,
    /// Number of waits; 0 when running.
    pub waits: u64,
    /// Mean wait, ns; 0 when unknown.
    pub mean_ns: u64,
    /// Longest single wait known, ns; 0 when unknown.
    pub max_ns: u64,
    /// Innermost first. Recursion is folded: between two calls of the same function nothing is shown.
    pub frames: Vec<Frame>,
}

/// Time of one function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Function {
    /// Which.
    pub function: Frame,
    /// Time with it innermost, by state (`blocked:lock`), ns.
    pub self_ns: BTreeMap<String, u64>,
    /// Time with it anywhere on the stack, by state, ns. A recursive function counts once.
    pub total_ns: BTreeMap<String, u64>,
}

/// Waits of one thread group for one reason ended by one waker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Woken {
    /// Who waited: `process/group`.
    pub waiter: String,
    /// Why.
    pub reason: String,
    /// Who ended the waits.
    pub waker: Party,
    /// Where the waker was most of that time, innermost first; empty when unknown.
    pub waker_frames: Vec<Frame>,
    /// Blocked time, ns.
    pub time_ns: u64,
    /// Waits kept one by one.
    pub kept_waits: u64,
    /// The longest of them, ns.
    pub max_ns: u64,
}

/// Somebody who ended a wait, or where a chain ends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Party {
    /// `thread` (recorded), `foreign` (a thread that is not recorded), `interrupt`, `nobody` (the wait
    /// had no end, or its end was not seen); at the end of a chain also `running`, `runnable` (a
    /// recorded thread that ran, or wanted a processor) and `deeper` (not followed any further).
    pub kind: String,
    /// `process/group`, a thread's name, or `[timer]`, `[irq]`, `[softirq]`.
    pub name: String,
}

/// A thread group that waited, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// `process/group`.
    pub waiter: String,
    /// Why it waited.
    pub reason: String,
}

/// Blocked time with the same chain of wakers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// Who waited for whom; the first is the one whose time this is.
    pub links: Vec<Link>,
    /// What the last one waited for.
    pub root: Party,
    /// Blocked time of the first, ns.
    pub time_ns: u64,
    /// Kept waits with a part in it.
    pub kept_waits: u64,
}

/// A long single wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LongWait {
    /// Thread id in the root PID namespace.
    pub tid: u32,
    /// `process/thread`.
    pub thread: String,
    /// Why it waited.
    pub reason: String,
    /// System call; empty outside.
    pub syscall: String,
    /// When it began, ns from the start of the window.
    pub at_ns: u64,
    /// How long it was asleep, ns.
    pub blocked_ns: u64,
    /// How long it then wanted a processor, ns.
    pub runnable_ns: u64,
    /// Who ended it.
    pub waker: Party,
    /// The waker's thread id; none for interrupts.
    pub waker_tid: Option<u32>,
    /// Where it waited, innermost first; empty when no stack was taken.
    pub frames: Vec<Frame>,
    /// Where the waker was, innermost first; empty when unknown.
    pub waker_frames: Vec<Frame>,
    /// What it was really waiting for, by time; together the whole wait.
    pub chains: Vec<Chain>,
}

/// A thread group that waited for work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IdlePool {
    /// `process/group`.
    pub group: String,
    /// How it waits.
    pub reason: String,
    /// Number of threads.
    pub threads: u64,
    /// Time it waited for work, ns.
    pub waited_ns: u64,
}

/// Lost events of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventLoss {
    /// Which events.
    pub name: String,
    /// How many were lost.
    pub lost: u64,
    /// How many were produced, where that was counted.
    pub produced: Option<u64>,
    /// Lost over produced.
    pub share: Option<f64>,
}

/// What is not in the recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// True when no event was lost and every state is known.
    pub nothing_lost: bool,
    /// Lost events.
    pub events: Vec<EventLoss>,
    /// Thread time in an unknown state, ns.
    pub unknown_state_ns: u64,
    /// Thread time without a stack, by why, ns.
    pub without_stack_ns: BTreeMap<String, u64>,
    /// Thread time whose stack is cut short, by why, ns.
    pub cut_short_ns: BTreeMap<String, u64>,
    /// Time of sites whose thread is not in the recording, ns; in no other sum.
    pub orphan_ns: u64,
}

/// Whether every thread's states add up to its lifetime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Closure {
    /// Largest |lifetime - sum of states| / lifetime of any thread.
    pub max_error_share: f64,
    /// The thread with that error; none when every thread closes exactly.
    pub worst_tid: Option<u32>,
}
