//! What a person is told about a recording.
//!
//! These types are the JSON output as they stand: stable field names, units in the names (`_ns`,
//! `_bytes`), shares between 0 and 1. Lists are ordered, the most important first.
mod build;
mod contention;
mod deadlocks;
mod locks;
mod memory;
mod notes;
mod origins;
mod waits;

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
    /// What stands out, and what to do next.
    pub notes: Vec<String>,
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

/// A frame of a shown stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Frame {
    /// Demangled name in full.
    pub function: String,
    /// True in the kernel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel: bool,
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

/// What a person is told about memory (`dwell record --memory`). Times are of threads on a processor, by samples scaled to
/// the exact running time, unless they say otherwise; counts are exact; pages are of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryAnswer {
    /// What was recorded.
    pub recording: Recording,
    /// Exact time on a processor, ns: the next three together.
    pub running_ns: u64,
    /// Of it, in programs.
    pub program_ns: u64,
    /// In the kernel, for memory.
    pub memory_ns: u64,
    /// In the kernel, for anything else.
    pub other_kernel_ns: u64,
    /// Samples that `memory_ns` and its components rest on.
    pub memory_samples: u64,
    /// What `memory_ns` divides into, the largest first.
    pub components: Vec<MemoryComponent>,
    /// Exact counts.
    pub counts: MemoryCounts,
    /// Exact: system calls about memory, the most costly first.
    pub calls: Vec<MemoryCall>,
    /// Exact: bytes of fresh pages that were cleared.
    pub zeroed_bytes: u64,
    /// These over the time that clearing took, GB/s; none where no sample met it.
    pub zeroed_gb_per_cpu_second: Option<f64>,
    /// Modelled: the time that clearing takes if all pages are in a cache, ns.
    pub clearing_modelled_cached_ns: u64,
    /// Modelled: the same if none is.
    pub clearing_modelled_uncached_ns: u64,
    /// The machine.
    pub machine: Machine,
    /// Threads of the kernel that work for memory.
    pub kernel_threads: Vec<KernelThread>,
    /// User stacks, the most costly first.
    pub stacks: Vec<MemoryStack>,
}

/// A part of the kernel's work for memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryComponent {
    /// What it is.
    pub name: String,
    /// Time, ns.
    pub time_ns: u64,
}

/// System calls of one kind about memory. Exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryCall {
    /// The call.
    pub name: String,
    /// How many returned.
    pub calls: u64,
    /// Time in them on a processor by the clock, ns.
    pub time_ns: u64,
}

/// Exact counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryCounts {
    /// Page faults without storage, as the kernel counts them.
    pub minor_faults: u64,
    /// Page faults that waited for storage.
    pub major_faults: u64,
    /// Both by kind: `anonymous`, `copied`, `file`, `stack`, `huge`, `populated`, `other`.
    pub faults_by_kind: BTreeMap<String, u64>,
    /// Pages allocated.
    pub allocated_pages: u64,
    /// Pages freed.
    pub freed_pages: u64,
    /// Of those allocated, cleared one by one.
    pub zeroed_pages: u64,
    /// Of those allocated, cleared as parts of huge ones.
    pub zeroed_huge_pages: u64,
    /// System calls about memory.
    pub calls: u64,
    /// Time in them on a processor by the clock, ns.
    pub calls_ns: u64,
    /// TLB shootdowns that were asked for.
    pub shootdowns: u64,
    /// Times that another processor obeyed.
    pub remote_flushes: u64,
    /// Time of the other processors in that, by the clock, ns; in no other time here.
    pub remote_ns: u64,
    /// Waits for the address space's lock.
    pub mmap_lock_waits: u64,
    /// Their time by the clock, ns.
    pub mmap_lock_wait_ns: u64,
    /// Waits for spin locks of the kernel.
    pub spin_lock_waits: u64,
    /// Their time by the clock, ns.
    pub spin_lock_wait_ns: u64,
}

/// What the machine can do, and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Clearing pages that are in a cache, measured when the recording began, GB/s.
    pub clears_cached_gb_per_s: f64,
    /// The same for pages that are in none.
    pub clears_uncached_gb_per_s: f64,
    /// Pages that all of the machine allocated.
    pub allocated_pages: u64,
    /// Pages that it freed.
    pub freed_pages: u64,
}

/// A thread of the kernel that works for memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelThread {
    /// Its name.
    pub name: String,
    /// Its time on a processor in the window, ns.
    pub cpu_ns: u64,
    /// Attributed: the part in proportion to the recorded processes' share of the pages allocated.
    pub attributed_ns: u64,
}

/// What a user stack cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryStack {
    /// Short name of the process.
    pub process: String,
    /// Time, ns.
    pub time_ns: u64,
    /// What it divides into.
    pub components: Vec<MemoryComponent>,
    /// Exact counts.
    pub counts: MemoryCounts,
    /// The stack, innermost first.
    pub frames: Vec<Frame>,
}

/// What a person is told about locks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LocksAnswer {
    /// What was recorded.
    pub recording: Recording,
    /// Time that all threads existed, ns.
    pub thread_time_ns: u64,
    /// Time waited on futexes by what the wait means, ns: `lock`, `idle`, `timed`, `unknown`.
    pub futex_ns: BTreeMap<String, u64>,
    /// The part of that time whose meaning is known.
    pub classified_share: f64,
    /// Time waited for locks, ns.
    pub waited_ns: u64,
    /// Time charged to those who ended the waits for locks, ns; with `unattributed_ns` in it, it is
    /// `waited_ns`.
    pub blamed_ns: u64,
    /// The part of it that is charged to nobody, ns.
    pub unattributed_ns: u64,
    /// Number of locks that were waited for.
    pub count: u64,
    /// Time on a processor in loops that only wait, ns; it is in none of the times above.
    pub spun_ns: u64,
    /// The functions that spun longest.
    pub spun: Vec<Spun>,
    /// What was done with all locks; none unless it was counted (`dwell record --locks`).
    pub lock_counts: Option<LockCounts>,
    /// Threads that waited for each other's locks when the recording ended.
    pub deadlocks: Vec<LockDeadlock>,
    /// What happened on locks while somebody waited, the longest waited for first (`dwell record --locks`).
    pub contended: Vec<ContendedLock>,
    /// Waits for locks of the kernel; none unless these were recorded (`dwell record --locks`).
    pub kernel: Option<KernelLocks>,
    /// Who blocks whom, over all locks.
    pub blocks: Vec<BlockedBy>,
    /// The locks waited for longest.
    pub locks: Vec<LockAnswer>,
    /// What else was waited on, and may be locks.
    pub unknown: Vec<LockAnswer>,
    /// What was waited on for work, news or a time.
    pub waiting_for_work: Vec<LockAnswer>,
}

/// Time that like threads spun in one function called by another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spun {
    /// Who spun: `process/group`.
    pub group: String,
    /// The innermost function that spins; atomic operations inlined into it are left out.
    pub function: Frame,
    /// The function that called it; of the kernel's spin locks, the one that takes the lock.
    pub caller: Option<Frame>,
    /// Time, ns.
    pub time_ns: u64,
    /// Time over all thread time.
    pub share: f64,
    /// Where, for most of the time, innermost first.
    pub frames: Vec<Frame>,
}

/// Waits for locks of the kernel. On hardware a spin lock tells only of those that queue behind the
/// first waiter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelLocks {
    /// Number of waits.
    pub waits: u64,
    /// Time, spinning or asleep, ns.
    pub waited_ns: u64,
    /// Waits that were seen and found no room; they are in no number here.
    pub lost: u64,
    /// The places waited at longest.
    pub places: Vec<KernelLockPlace>,
}

/// Waits for locks of the kernel of one kind that one function wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelLockPlace {
    /// Number of processes whose threads waited.
    pub processes: u64,
    /// `spin`, `mutex`, `rwsem write` …
    pub kind: String,
    /// The function of the kernel that wanted it; none when no stack was kept.
    pub caller: Option<String>,
    /// Number of different locks.
    pub locks: u64,
    /// Number of waits.
    pub waits: u64,
    /// Time, ns.
    pub waited_ns: u64,
    /// Mean wait, ns.
    pub mean_ns: u64,
    /// The longest single wait, ns.
    pub max_ns: u64,
    /// Where most of the time was waited, in the kernel, innermost first, from the caller on.
    pub frames: Vec<Frame>,
}

/// What was done with locks, waited for or not, counted inside the processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockCounts {
    /// Number of locks that were used.
    pub locks: u64,
    /// Acquisitions of these.
    pub acquired: u64,
    /// Acquisitions of locks that were not free at first; a lock of which that is not known counts 0.
    pub contended: u64,
    /// Tries that found a lock taken.
    pub try_fails: u64,
    /// Number of locks that no thread waited for.
    pub unwaited_locks: u64,
    /// Acquisitions of these.
    pub unwaited_acquired: u64,
    /// How each process was counted.
    pub processes: Vec<CountedProcess>,
}

/// How the locks of a process were counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedProcess {
    /// Short name.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Whose functions were hooked; empty when none were.
    pub libc: String,
    /// Longest time that all its threads were held to attach, ns.
    pub attach_pause_ns: u64,
    /// The same to detach; none when it had ended.
    pub detach_pause_ns: Option<u64>,
    /// Calls whose outcome was not seen.
    pub forgotten: u64,
    /// Contended operations that were written down.
    pub events: u64,
    /// Of these, how many were overwritten before they were read.
    pub lost_events: u64,
    /// Releases of mutexes that nobody held.
    pub released_free: u64,
    /// What was not counted, and why.
    pub missed: Vec<String>,
}

/// How long something lasted, over many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockSpread {
    /// How many.
    pub count: u64,
    /// All together, ns.
    pub sum_ns: u64,
    /// The mean, ns.
    pub mean_ns: u64,
    /// 99 of 100 were no longer, ns.
    pub p99_ns: u64,
    /// The longest, ns.
    pub max_ns: u64,
}

/// Like threads that held a lock, in one function.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockHolder {
    /// `process/group`; none where nothing tells.
    pub group: Option<String>,
    /// The function that acquired the lock, or let it go.
    pub function: Option<String>,
    /// How many holds, or waits that found it held so.
    pub times: u64,
    /// Waiting that is charged to these holds, or that began then, ns.
    pub waited_ns: u64,
    /// Where they let it go, most of the time, innermost first; empty when no stack was taken.
    pub frames: Vec<Frame>,
}

/// What happened on a lock while somebody waited for it, seen inside the process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ContendedLock {
    /// What it is called: a variable, or its address and who wants it.
    pub name: String,
    /// `locks.lock`.
    pub lock: u32,
    /// Its address.
    pub address: String,
    /// `mutex`, `read`, `write`, `semaphore`.
    pub kind: String,
    /// Times that it was free before somebody came to wait and free again after.
    pub blocks: u64,
    /// Waits that were given up.
    pub gave_up: u64,
    /// Waits.
    pub wait: LockSpread,
    /// Holds of threads that had waited.
    pub hold: LockSpread,
    /// How many waited at a time.
    pub longest_queue: u64,
    /// Waiting that is charged to no hold, ns.
    pub unclaimed_ns: u64,
    /// The function that wanted it, for most of the waiting.
    pub wanted_by: Option<String>,
    /// To whom the waiting is charged; with `unclaimed_ns`, and those not told of, it is the waiting.
    pub owners: Vec<LockHolder>,
    /// Who held it when waits began.
    pub held_at_begin: Vec<LockHolder>,
    /// Who waited, and where.
    pub waiters: Vec<Waiter>,
    /// How long threads that are known held it while somebody waited, ns; `away` is a part of it.
    pub held_ns: u64,
    /// Where its owners were off the processor while they held it, the longest first.
    pub away: Vec<LockAway>,
    /// Time that its owners were blocked, ns: asleep, in I/O, waiting for another lock …
    pub held_blocked_ns: u64,
    /// Time that its owners wanted a processor and had none, ns.
    pub held_runnable_ns: u64,
    /// When it went from waiter to waiter without getting free.
    pub convoys: LockConvoys,
    /// Who waited while somebody held it that the scheduler prefers less, the longest first.
    pub inversions: Vec<LockInversion>,
}

/// Like threads that waited while others held the lock which the scheduler prefers less.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockInversion {
    /// Who waited: `process/group`.
    pub waiter: String,
    /// How it is preferred: `nice 0`, `fifo 10`, `rr 10`, `idle`, `deadline`.
    pub waiter_priority: String,
    /// Who held the lock.
    pub owner: String,
    /// How it is preferred.
    pub owner_priority: String,
    /// Waiting, ns.
    pub waited_ns: u64,
}

/// Like owners of a lock that were off the processor at one stack while they held it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockAway {
    /// Who: `process/group`.
    pub group: String,
    /// `blocked` or `runnable`.
    pub state: String,
    /// Why it was blocked; none when it was runnable.
    pub reason: Option<String>,
    /// Time, ns; estimated where not every wait was kept one by one.
    pub time_ns: u64,
    /// The part of the time that the lock was held.
    pub share: f64,
    /// Where, innermost first; empty when no stack was taken.
    pub frames: Vec<Frame>,
}

/// Convoys of a lock: blocks in which it went from waiter to waiter, and each came back before the queue was empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockConvoys {
    /// How many.
    pub count: u64,
    /// Waiting in them, ns.
    pub waited_ns: u64,
    /// How often it was acquired after a wait in the longest of them.
    pub most_hand_offs: u64,
    /// How long the longest lasted, ns.
    pub longest_ns: u64,
    /// True when most of the waiting is in them.
    pub dominate: bool,
}

/// Threads each of which waits for a lock that the next one holds, the last one for one that the first holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockDeadlock {
    /// The circle; one thread alone waits for a lock that it holds itself.
    pub threads: Vec<StuckThread>,
    /// Threads outside of it that wait for locks of those in it, directly or not.
    pub behind: Vec<LockThread>,
}

/// A thread that has to do with a lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockThread {
    /// Its name.
    pub name: String,
    /// Its id in its own PID namespace.
    pub tid: u32,
}

/// A thread that waits for a lock and will not get it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StuckThread {
    /// Which.
    pub thread: LockThread,
    /// Short name of its process.
    pub process: String,
    /// The lock: a variable, else its address.
    pub lock: String,
    /// Where the lock is.
    pub address: String,
    /// Who holds it.
    pub held_by: LockThread,
    /// How long it has waited, ns; none where that is not known.
    pub waited_ns: Option<u64>,
    /// Where it waits, innermost first; empty when no stack was taken.
    pub frames: Vec<Frame>,
}

/// A thread that held a lock in a timeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelineOwner {
    /// Its name.
    pub thread: String,
    /// Its id in its own PID namespace.
    pub tid: u32,
    /// How long it held the lock while somebody waited, ns.
    pub held_ns: u64,
}

/// A part of a timeline.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelinePart {
    /// Who held the lock longest in it: position in `owners`.
    pub owner: Option<usize>,
    /// For which share of it somebody held the lock.
    pub held_share: f64,
    /// How many threads waited, on average.
    pub waiting: f64,
}

/// One lock over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockTimeline {
    /// Which.
    pub lock: ContendedLock,
    /// Where it begins, ns from the start of the window.
    pub at_ns: u64,
    /// Length of a part, ns.
    pub part_ns: u64,
    /// The parts.
    pub parts: Vec<TimelinePart>,
    /// Who held it, the longest first.
    pub owners: Vec<TimelineOwner>,
}

/// Like threads that waited for locks, and who ended that.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BlockedBy {
    /// Who waited: `process/group`.
    pub waiter: String,
    /// Who ended the waits.
    pub waker: Party,
    /// Time, ns.
    pub waited_ns: u64,
}

/// A lock, or something else that threads wait on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockAnswer {
    /// Its variable (`cache_lock`, `locks+0x28`), else its address and who wants it, else who wants it.
    pub name: String,
    /// Short name of the process.
    pub process: String,
    /// Where it begins in the process' memory; none where threads wait on words of their own.
    pub address: Option<String>,
    /// Whose lock: `glibc`, `musl`, `C++`, `Rust`, `parking_lot`, `Go`, `Java`, `Python` …; empty when
    /// nothing tells.
    pub runtime: String,
    /// What it is called there.
    pub kind: String,
    /// `lock`, `idle`, `timed` or `unknown`.
    #[serde(rename = "use")]
    pub used: String,
    /// The function that wanted it, for most of the time.
    pub caller: Option<Frame>,
    /// Number of waits.
    pub waits: u64,
    /// Time waited, ns.
    pub waited_ns: u64,
    /// Mean wait, ns.
    pub mean_ns: u64,
    /// The longest single wait known, ns.
    pub max_ns: u64,
    /// Times that a thread acquired it that did not hold it; none unless that was counted.
    pub acquired: Option<u64>,
    /// Of these, times that it was not free at first; none where nothing tells.
    pub contended: Option<u64>,
    /// The part of the acquisitions that found it not free.
    pub contended_share: Option<f64>,
    /// Waits per acquisition.
    pub waited_share: Option<f64>,
    /// Waits kept one by one: what the next fields rest on.
    pub kept_waits: u64,
    /// Median wait, ns; 0 without kept waits.
    pub p50_ns: u64,
    /// The wait that nine in ten do not exceed, ns.
    pub p90_ns: u64,
    /// The wait that 99 in 100 do not exceed, ns.
    pub p99_ns: u64,
    /// Most threads known to wait at a time.
    pub queue_longest: u32,
    /// Threads known to wait on average, while any did.
    pub queue_mean: f64,
    /// The part of the waiting ended by who had waited just before.
    pub handed_on_share: f64,
    /// True when threads queue for it all the time and hand it on.
    pub convoy: bool,
    /// Time charged to nobody, ns.
    pub unattributed_ns: u64,
    /// Who waited, and where.
    pub waiters: Vec<Waiter>,
    /// Who blocked whom, and where the waker was then.
    pub blame: Vec<Blame>,
}

/// Like threads that waited at one stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Waiter {
    /// `process/group`.
    pub group: String,
    /// Number of waits.
    pub waits: u64,
    /// Time, ns.
    pub waited_ns: u64,
    /// Where, innermost first; empty when no stack was taken.
    pub frames: Vec<Frame>,
}

/// Waits of like threads that one waker ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Blame {
    /// Who waited: `process/group`.
    pub waiter: String,
    /// Who ended the waits.
    pub waker: Party,
    /// Time charged to it, ns.
    pub blamed_ns: u64,
    /// Where it was then, innermost first; empty when unknown.
    pub frames: Vec<Frame>,
}
