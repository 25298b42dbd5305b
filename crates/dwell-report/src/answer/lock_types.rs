//! What is told about locks: the shapes alone; what fills them lies in `locks`, `contention` and `deadlocks`.
use super::{Frame, Party, Recording};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// Acquisitions by threads that held the lock already.
    pub nested: u64,
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
    /// No stack was taken here: `frames` are where they let another lock go in that function.
    #[serde(default)]
    pub at_another_lock: bool,
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
    /// Times that the thread acquired it that held it already; none unless that was counted.
    pub nested: Option<u64>,
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
