//! The rows of every table: what is recorded, and in which unit.
//!
//! All times are nanoseconds of CLOCK_BOOTTIME; durations are nanoseconds. Ids are dense and valid
//! within one recording only. A table is the union of its segments; where a table has a key
//! (`processes`, `threads`), a later row replaces an earlier one with the same key.
use crate::word::Word;
use serde::{Deserialize, Serialize};

/// A process (thread group) that was seen. Key: `process`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessRow {
    /// Id in this recording; an exec keeps it.
    pub process: u32,
    /// Process id in the root PID namespace.
    pub pid: u32,
    /// Process id in the process' own PID namespace.
    pub ns_pid: u32,
    /// Parent's process id in the root PID namespace, 0 when unknown.
    pub parent_pid: u32,
    /// Short name (`comm`).
    pub name: String,
    /// The command line, arguments separated by spaces.
    pub command: String,
    /// Path of the executable as the process sees it.
    pub exe: String,
    /// cgroup v2 path, empty when unknown.
    pub cgroup: String,
    /// Start of its life in the window.
    pub start_ns: u64,
    /// End of its life in the window; none while it lives.
    pub end_ns: Option<u64>,
    /// Exit status as `wait(2)` encodes it, where it is known.
    pub exit_status: Option<i32>,
}

/// A thread and its exact time, from sums kept at every switch. Key: `thread`.
///
/// Invariant: `running_ns + runnable_ns + stolen_ns + blocked_ns + lost_ns = until_ns - start_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadRow {
    /// Id in this recording (tids are reused, this is not).
    pub thread: u32,
    /// The process it belongs to (`processes.process`).
    pub process: u32,
    /// Thread id in the root PID namespace.
    pub tid: u32,
    /// Thread id in the thread's own PID namespace.
    pub ns_tid: u32,
    /// Short name (`comm`).
    pub name: String,
    /// When its accounting starts: its birth, or the start of the window.
    pub start_ns: u64,
    /// Up to when the sums hold: its death, or the last reading.
    pub until_ns: u64,
    /// True once the thread has died.
    pub ended: bool,
    /// Exact time on a processor.
    pub running_ns: u64,
    /// Exact time wanting a processor and having none.
    pub runnable_ns: u64,
    /// Time on a processor that the machine's host had (steal), or interrupts where the kernel counts these apart.
    pub stolen_ns: u64,
    /// Exact time asleep, whatever the reason.
    pub blocked_ns: u64,
    /// Time that could not be told apart (should be 0).
    pub lost_ns: u64,
    /// Times it was switched out because it went to sleep.
    pub voluntary_switches: u64,
    /// Times it was switched out while it wanted to go on.
    pub involuntary_switches: u64,
}

impl ThreadRow {
    /// Time in every state together, ns: its life in the window.
    pub fn states_ns(&self) -> u64 {
        [
            self.running_ns,
            self.runnable_ns,
            self.stolen_ns,
            self.blocked_ns,
            self.lost_ns,
        ]
        .into_iter()
        .fold(0, u64::saturating_add)
    }
}

/// A file mapped executable into a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MappingRow {
    /// `processes.process`.
    pub process: u32,
    /// First actual address.
    pub start: u64,
    /// First actual address past the end.
    pub end: u64,
    /// Offset in the file of `start`, bytes.
    pub file_offset: u64,
    /// Path as the process sees it, or a name in brackets (`[vdso]`, `[anon]`); that of the file whose code a program copied into
    /// memory without one in its place, with `file_offset` of that code.
    pub path: String,
    /// Build id in hex, empty when the file has none.
    pub build_id: String,
    /// When it was mapped, or the start of the window.
    pub start_ns: u64,
}

/// One place in code. Key: `frame`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FrameRow {
    /// Id in this recording.
    pub frame: u32,
    /// `user`, `kernel`, `jit` or `unknown` (an address in no known mapping).
    pub kind: String,
    /// Path of the module as the process sees it; `[kernel]`, `[vdso]`, `[anon]` …
    pub module: String,
    /// Build id of the module in hex, empty when it has none.
    pub build_id: String,
    /// Stated address in the module (`user`), else the actual address. For a return address this
    /// is the address of the call (return address minus one).
    pub address: u64,
    /// The process whose address space it belongs to, for `jit` and `unknown`.
    pub process: Option<u32>,
    /// Whether a thread that runs there, with this frame innermost, only waits: it is in a loop that does
    /// nothing else, or in the kernel's own. None where no running thread was seen so, where the code
    /// could not be looked at, and until the recording ends.
    pub spinning: Option<bool>,
}

/// The names of a frame: row `depth` 0 is the innermost inlined function, the last one the function
/// that has the machine code. A frame without a row has no known name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SymbolRow {
    /// `frames.frame`.
    pub frame: u32,
    /// 0 = innermost.
    pub depth: u32,
    /// Demangled name, in full.
    pub function: String,
    /// Source file, where debug information tells it.
    pub file: Option<String>,
    /// Source line, where debug information tells it.
    pub line: Option<u32>,
    /// True when it was inlined into the next row's function.
    pub inlined: bool,
}

/// A stack, user and kernel joined. Key: `stack`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StackRow {
    /// Id in this recording.
    pub stack: u32,
    /// `frames.frame`, outermost first, kernel frames last.
    pub frames: Vec<u32>,
    /// `complete`, or why the user part ends where it ends (the names of `dwell_abi::unwind::StackEnd`).
    pub end: String,
}

/// What a thread does when a stack is taken, or where its time goes.
pub mod state {
    /// On a processor.
    pub const RUNNING: &str = "running";
    /// Wants a processor, has none.
    pub const RUNNABLE: &str = "runnable";
    /// Asleep; `reason` says why.
    pub const BLOCKED: &str = "blocked";
}

/// Why a thread is blocked; empty for the other states.
pub mod reason {
    /// A futex or another lock.
    pub const LOCK: &str = "lock";
    /// Storage: read, write, fsync of a file.
    pub const IO: &str = "io";
    /// A socket.
    pub const SOCKET: &str = "socket";
    /// A pipe, FIFO, eventfd or terminal.
    pub const PIPE: &str = "pipe";
    /// poll, select, epoll.
    pub const POLL: &str = "poll";
    /// nanosleep and relatives, sigwait, pause.
    pub const SLEEP: &str = "sleep";
    /// A page fault.
    pub const FAULT: &str = "fault";
    /// Waiting for a child process.
    pub const CHILD: &str = "child";
    /// Stopped or traced.
    pub const STOPPED: &str = "stopped";
    /// Any other system call.
    pub const OTHER: &str = "other";
    /// Every reason, in the order answers show them.
    pub const ALL: [&str; 10] = [
        LOCK, IO, SOCKET, PIPE, POLL, SLEEP, FAULT, CHILD, STOPPED, OTHER,
    ];
}

/// How a thread waits on a futex: the operations of futex(2) that can wait, and futex_waitv(2).
pub mod operation {
    /// FUTEX_WAIT.
    pub const WAIT: &str = "wait";
    /// FUTEX_WAIT_BITSET.
    pub const WAIT_BITSET: &str = "wait_bitset";
    /// FUTEX_LOCK_PI.
    pub const LOCK_PI: &str = "lock_pi";
    /// FUTEX_LOCK_PI2.
    pub const LOCK_PI2: &str = "lock_pi2";
    /// FUTEX_WAIT_REQUEUE_PI.
    pub const WAIT_REQUEUE_PI: &str = "wait_requeue_pi";
    /// futex_waitv(2).
    pub const WAITV: &str = "waitv";
    /// futex_wait(2), the system call of its own.
    pub const WAIT2: &str = "wait2";
    /// An operation that does not wait on the word but slept all the same.
    pub const OTHER: &str = "other";
}

/// How a futex wait ended.
pub mod result {
    /// Somebody woke it.
    pub const WOKEN: &str = "woken";
    /// Its time was up.
    pub const TIMED_OUT: &str = "timed_out";
    /// A signal came.
    pub const INTERRUPTED: &str = "interrupted";
}

/// A place where a thread leaves the processor: one set of registers in one system call, and for a
/// futex wait one word. Key: `site`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteRow {
    /// Id in this recording.
    pub site: u32,
    /// `threads.thread`: a site belongs to one thread.
    pub thread: u32,
    /// Why it waits there (see [`reason`]); empty: it was preempted there.
    pub reason: String,
    /// Name of the system call; empty outside system calls.
    pub syscall: String,
    /// The user pc, an actual address; 0 for preemption.
    pub pc: u64,
    /// `futexes.futex` it waits on there; none for anything but a futex wait.
    pub futex: Option<u32>,
    /// How it waits on the futex (see [`operation`]); empty for anything but a futex wait.
    pub operation: String,
    /// True when the futex wait has a timeout.
    pub timed: bool,
    /// True when the futex may be shared between processes (it was not called private).
    pub shared: bool,
}

/// A word of a process' memory that threads waited on with futex(2): what locks are made of. Key: `futex`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FutexRow {
    /// Id.
    pub futex: u32,
    /// `processes.process`: whose memory.
    pub process: u32,
    /// Actual address of the word; of futex_waitv(2), of the first one.
    pub address: u64,
    /// Path of the file in whose data it lies, as the process sees it; empty for heap, stack and other memory.
    pub module: String,
    /// Build id of the module, hex; empty when it has none.
    pub build_id: String,
    /// Stated address in the module.
    pub stated: Option<u64>,
    /// Name of the variable it lies in, demangled; empty when none is known.
    pub symbol: String,
    /// Bytes from the variable's start to the word.
    pub offset: Option<u64>,
}

/// What kind of lock a [`LockRow`] is about.
pub mod lock_kind {
    /// A mutex.
    pub const MUTEX: &str = "mutex";
    /// A read-write lock, taken for reading.
    pub const READ: &str = "read";
    /// A read-write lock, taken for writing.
    pub const WRITE: &str = "write";
    /// A spin lock.
    pub const SPIN: &str = "spin";
    /// A semaphore: acquisitions are its downs.
    pub const SEMAPHORE: &str = "semaphore";
    /// A condition variable: acquisitions are waits that ended.
    pub const CONDITION: &str = "condition";
    /// A barrier: acquisitions are passages.
    pub const BARRIER: &str = "barrier";
}

/// What a process did with one of its locks, counted inside of it: exact totals since dwell attached.
/// Key: `lock`. A read-write lock has a row for reading and one for writing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockRow {
    /// Id in this recording.
    pub lock: u32,
    /// `processes.process`: whose memory.
    pub process: u32,
    /// Actual address of the lock; 0 for all locks of a kind that found no room of their own.
    pub address: u64,
    /// See [`lock_kind`].
    pub kind: String,
    /// Type of a mutex: `normal`, `recursive`, `error_checking`, `adaptive`; with ` robust`, ` inherit`
    /// or ` protect` behind where it is that. Empty for other locks and where it is not known.
    pub mutex_type: String,
    /// How often a thread acquired it that did not hold it.
    pub acquired: u64,
    /// Of these, how often it was not free at first: exact for normal mutexes, by a look before the
    /// attempt for others. None where nothing tells. Tries do not count.
    pub contended: Option<u64>,
    /// Tries that found it taken.
    pub try_fails: u64,
    /// Waits for it whose time was over. Those of semaphores are not known.
    pub timeouts: u64,
    /// Acquisitions by the thread that held it already.
    pub nested: u64,
    /// From when on the process' locks were counted.
    pub since_ns: u64,
    /// Up to when the counts hold.
    pub until_ns: u64,
}

/// What a [`LockBlockRow`] tells of a block.
pub mod block_part {
    /// The block as a whole.
    pub const BLOCK: &str = "block";
    /// A stay of the lock with a thread.
    pub const HOLD: &str = "hold";
    /// A wait of a thread for the lock.
    pub const WAIT: &str = "wait";
    /// No part of a block: the call that made the lock.
    pub const MADE: &str = "made";
}

/// How a part of a block ended.
pub mod block_end {
    /// The lock was free and nobody waited.
    pub const FREE: &str = "free";
    /// The owner let the lock go.
    pub const RELEASED: &str = "released";
    /// The owner let it go to wait for a condition.
    pub const CONDITION: &str = "condition";
    /// The owner died.
    pub const DIED: &str = "died";
    /// The waiter acquired the lock.
    pub const ACQUIRED: &str = "acquired";
    /// The waiter gave up.
    pub const GAVE_UP: &str = "gave_up";
    /// It had not ended by then.
    pub const OPEN: &str = "open";
    /// Nobody saw its end.
    pub const UNSEEN: &str = "unseen";
}

/// A part of a block: a run of events on a lock of a process, in which somebody waited, between two instants at
/// which the lock is free.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LockBlockRow {
    /// Number of the block in this recording.
    pub block: u32,
    /// `processes.process`: whose lock.
    pub process: u32,
    /// `locks.lock`.
    pub lock: u32,
    /// See [`block_part`].
    pub part: Word,
    /// Of a hold and a wait: whose, by the thread id in its own PID namespace (`threads.ns_tid`); 0 when
    /// nothing tells.
    pub ns_tid: u32,
    /// When it began; of a block, when its first waiter came. None for a hold of a thread that had acquired
    /// the lock without waiting.
    pub start_ns: Option<u64>,
    /// When it ended, or up to when it is known. None for a hold whose end nobody saw.
    pub end_ns: Option<u64>,
    /// See [`block_end`].
    pub end: Word,
    /// Of a wait: who held the lock when it began, as `ns_tid`; 0 when the lock did not tell.
    pub owner_ns_tid: u32,
    /// `frames.frame` of the call that acquired the lock, or wanted it; none when not seen.
    pub frame: Option<u32>,
    /// `frames.frame` of the call that let it go; none when not seen.
    pub release_frame: Option<u32>,
    /// Of a hold: waiting that is charged to it, of all waiters.
    pub blamed_ns: u64,
    /// Of a wait: what of it is charged to no hold.
    pub unclaimed_ns: u64,
    /// Of a wait: how many waited from its begin on, itself included. Of a block: the most at a time.
    pub queue: u32,
}

/// Waits of a process' threads for one lock of the kernel, at one place in it, over the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelLockRow {
    /// `processes.process`: whose threads.
    pub process: u32,
    /// Actual address of the lock.
    pub address: u64,
    /// `spin`, `rwlock`, `mutex`, `rwsem`, `percpu-rwsem`, `rtmutex`, `rwbase` or `semaphore`.
    pub kind: String,
    /// `read` or `write` for locks that tell these apart, else empty.
    pub access: String,
    /// `stacks.stack` of the waiter, its part in the kernel; none where there was no room for it.
    pub stack: Option<u32>,
    /// Number of waits that ended.
    pub waits: u64,
    /// Time from the beginning of these waits to their end, spinning or asleep.
    pub waited_ns: u64,
    /// The longest of them.
    pub max_ns: u64,
}

/// What a process did at one place to get memory or give it back (`dwell record --memory`), over the window. Exact
/// but for times, which say how they are measured. Pages are of 4 KiB.
///
/// Invariant: the seven kinds of faults add up to `minor_faults + major_faults`, which are the kernel's own counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryPlaceRow {
    /// `processes.process`.
    pub process: u32,
    /// System call it was in; empty for a page fault outside of calls, `exit` for the end of a thread or process.
    pub syscall: String,
    /// The user pc, an actual address; 0 for what found no room of its own.
    pub pc: u64,
    /// Page faults without storage, as getrusage counts them.
    pub minor_faults: u64,
    /// Page faults that waited for storage.
    pub major_faults: u64,
    /// Of all faults: the first touch of a page without a file.
    pub anonymous_faults: u64,
    /// A page was copied, or is no copy's any more (copy-on-write).
    pub copied_faults: u64,
    /// Pages of a file, or of memory that processes share.
    pub file_faults: u64,
    /// The first touch of a page of a stack.
    pub stack_faults: u64,
    /// The first touch of a huge page.
    pub huge_faults: u64,
    /// The kernel's own touches ahead of the program's: MAP_POPULATE, mlock.
    pub populated_faults: u64,
    /// No page was needed: one made writable, the shared page of zeroes.
    pub other_faults: u64,
    /// System calls about memory.
    pub calls: u64,
    /// Their time on a processor, by the clock.
    pub call_ns: u64,
    /// Pages that were allocated.
    pub allocated_pages: u64,
    /// Pages that were freed.
    pub freed_pages: u64,
    /// Of those allocated: cleared one by one.
    pub zeroed_pages: u64,
    /// Of those allocated: cleared as parts of huge ones.
    pub zeroed_huge_pages: u64,
    /// Times that other processors were asked to forget translations (TLB shootdowns).
    pub shootdowns: u64,
    /// Processors that did so and were in the same address space.
    pub remote_flushes: u64,
    /// Their time in that, by the clock, from the first instruction of the call's handler.
    pub remote_ns: u64,
    /// Waits for the address space's lock.
    pub mmap_waits: u64,
    /// Time of these.
    pub mmap_wait_ns: u64,
    /// Waits for spin locks of the kernel.
    pub spins: u64,
    /// Time of these.
    pub spin_ns: u64,
    /// Of these, waits for the free pages of a zone of memory.
    pub zone_waits: u64,
    /// Time of these.
    pub zone_wait_ns: u64,
    /// And waits for the lists of a control group's pages in use.
    pub list_waits: u64,
    /// Time of these.
    pub list_wait_ns: u64,
    /// Estimated: of the pages that were allocated here, how many were in use when the process used most.
    pub peak_pages: u64,
    /// `stacks.stack` of every stack taken there, its user part: one may be there more than once.
    pub stacks: Vec<u32>,
}

/// Exact sums of one site over part of the window. Sum over all rows of a site.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SiteTimeRow {
    /// `sites.site`.
    pub site: u32,
    /// When the sums were read.
    pub time_ns: u64,
    /// Exact time blocked since the previous reading.
    pub blocked_ns: u64,
    /// Exact time runnable (after waking up or after preemption) since the previous reading.
    pub runnable_ns: u64,
    /// Number of waits since the previous reading.
    pub count: u64,
    /// The longest single wait among them.
    pub max_ns: u64,
}

/// A stack that was taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampleRow {
    /// When it was taken.
    pub time_ns: u64,
    /// `threads.thread`.
    pub thread: u32,
    /// Processor number.
    pub cpu: u32,
    /// See [`state`]; `running`, or `blocked` for a wait (its runnable part is `runnable_ns` of its slice),
    /// or `runnable` for a preemption.
    pub state: String,
    /// `stacks.stack`.
    pub stack: u32,
    /// `sites.site`, for waits and preemptions.
    pub site: Option<u32>,
    /// Horvitz-Thompson weight before scaling: the thread time this stack stands for, that is its
    /// duration over its probability of being taken. 0: taken only to know the site's stack.
    pub weight_ns: u64,
}

/// One stay of a thread off the processor that is kept one by one (long ones, and those sampled).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SliceRow {
    /// `threads.thread`.
    pub thread: u32,
    /// `sites.site`.
    pub site: u32,
    /// When it left the processor.
    pub start_ns: u64,
    /// Time asleep; 0 for a preemption.
    pub blocked_ns: u64,
    /// Time runnable after that until it got a processor.
    pub runnable_ns: u64,
    /// The processor it came back on.
    pub cpu: u32,
    /// `stacks.stack`, where one was taken.
    pub stack: Option<u32>,
    /// Thread id (root namespace) of who woke it; none when not woken, or woken by an interrupt.
    pub waker_tid: Option<u32>,
    /// `threads.thread` of who woke it, when the waker is recorded too.
    pub waker_thread: Option<u32>,
    /// Short name of who woke it; `[timer]`, `[irq]`, `[softirq]` for interrupts; empty when not woken.
    pub waker_name: String,
    /// `stacks.stack` of the waker at that instant, where one was taken.
    pub waker_stack: Option<u32>,
    /// How a futex wait ended (see [`result`]), where it was seen; empty otherwise.
    pub result: String,
}

/// Kinds of [`EventRow`] whose details a reader takes apart.
pub mod event {
    /// A thread waits for a lock when the recording ends: on which word, and who holds it.
    pub const LOCK_OWNER: &str = "lock_owner";
    const TIMED: &str = " timed";
    /// How the scheduler prefers a thread, which is not the usual way, or has changed.
    pub const PRIORITY: &str = "priority";
    /// The priority of a thread of which no such row tells.
    pub const USUAL_PRIORITY: &str = "nice 0";

    /// The details of [`PRIORITY`] as a number: a thread with a higher one runs first, or gets more.
    pub fn rank(priority: &str) -> Option<i32> {
        let (class, number) = priority.split_once(' ').unwrap_or((priority, "0"));
        let number: i32 = number.parse().ok().filter(|n| (-20..100).contains(n))?;
        match class {
            "deadline" => Some(1000),
            "fifo" | "rr" => Some(100 + number),
            "nice" => Some(-number),
            "idle" => Some(-100),
            _ => None,
        }
    }

    /// The details of [`LOCK_OWNER`].
    pub fn lock_owner(address: u64, owner_ns_tid: u32, timed: bool) -> String {
        let timed = if timed { TIMED } else { "" };
        format!("{address:#x} {owner_ns_tid}{timed}")
    }

    /// Takes them apart: address of the word, number of the owner in its own PID namespace, whether the
    /// wait has a timeout.
    pub fn read_lock_owner(detail: &str) -> Option<(u64, u32, bool)> {
        let (detail, timed) = match detail.strip_suffix(TIMED) {
            Some(detail) => (detail, true),
            None => (detail, false),
        };
        let (address, owner) = detail.split_once(' ')?;
        let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
        Some((address, owner.parse().ok()?, timed))
    }
}

/// A point in time worth keeping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventRow {
    /// When.
    pub time_ns: u64,
    /// `threads.thread`, when it is about one.
    pub thread: Option<u32>,
    /// `fork`, `exec`, `exit`, `rename`, `loss` …
    pub kind: String,
    /// Free text: the child's pid, the new name, what was lost.
    pub detail: String,
}

/// What a recording is, beside many others in a store: what [`crate::Meta`] says, as a row. No recording has this table
/// itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingRow {
    /// Name and version of the program that wrote it.
    pub tool: String,
    /// The machine's host name.
    pub host: String,
    /// Its kernel (`uname -r`).
    pub kernel: String,
    /// Its architecture (`uname -m`).
    pub arch: String,
    /// Its processors that were online.
    pub cpus: u32,
    /// What was recorded, as a person would say it.
    pub target: String,
    /// The command line of the recorder, arguments separated by spaces.
    pub command_line: String,
    /// Mean distance between two stacks of one thread, in ns of thread time.
    pub period_ns: u64,
    /// Start of the window, ns of CLOCK_BOOTTIME, as all instants of the other tables.
    pub start_ns: u64,
    /// Its end, likewise.
    pub end_ns: u64,
    /// Start of the window, ns since 1970: `start_unix_ns - start_ns` is what turns the other instants into real time.
    pub start_unix_ns: u64,
    /// Its end, likewise.
    pub end_unix_ns: u64,
    /// Exit code of a launched command.
    pub exit_code: Option<i32>,
    /// False for a recording that was cut short.
    pub complete: bool,
    /// All of `meta.json`.
    pub meta: String,
}

/// The time of one thread in one state at one stack, with all names: what a recording says of stacks, to be asked without
/// the other tables. A store has it; no recording has this table itself.
///
/// The weights of a thread add up to its life in the window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProfileRow {
    /// Name of the process.
    pub process: String,
    /// Its process id in the root PID namespace.
    pub pid: u32,
    /// Name of the thread.
    pub thread: String,
    /// Its thread id in the root PID namespace.
    pub tid: u32,
    /// `running`, `spinning`, `runnable`, `stolen`, `blocked`, `lost`.
    pub state: String,
    /// Why it was blocked; empty otherwise.
    pub reason: String,
    /// In which system call; empty for none.
    pub syscall: String,
    /// The innermost function.
    pub function: String,
    /// All functions, outermost first, parted by `;`. In names, `;` is `,`; the kernel's functions end in `_[k]`.
    pub stack: String,
    /// Its share of the thread's time, ns.
    pub weight_ns: u64,
}
