//! `meta.json`: what a recording is, how it was made, and what it lost.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// The version this program writes. A reader upgrades older ones and refuses newer ones.
pub const FORMAT_VERSION: u32 = 8;

/// The contents of `meta.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// See [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Name and version of the program that wrote it.
    pub tool: String,
    /// The machine it was made on.
    pub machine: Machine,
    /// The two clocks read at the same instant.
    pub clock: ClockAnchor,
    /// What was recorded, as a person would say it: `stockfish bench`, `pid 4711`, `whole system`.
    pub target: String,
    /// The command line of the recorder.
    pub command_line: Vec<String>,
    /// Mean distance between two stacks of one thread, in ns of thread time.
    pub period_ns: u64,
    /// Start of the window, ns of CLOCK_BOOTTIME.
    pub start_ns: u64,
    /// End of the window; for a recording cut short, the last instant it knows of.
    pub end_ns: u64,
    /// False while recording, and for a recording that was cut short.
    pub complete: bool,
    /// Exit code of a launched command (128 + signal when a signal ended it).
    pub exit_code: Option<i32>,
    /// Every loss by name: events that were produced and are not in the tables.
    pub losses: BTreeMap<String, u64>,
    /// Counts of events produced, by the same kind of name, so that a share can be told.
    pub produced: BTreeMap<String, u64>,
    /// What the recorder itself cost.
    pub recorder: RecorderCost,
    /// Processes whose lock operations were counted inside of them, or should have been.
    pub counted: Vec<CountedProcess>,
    /// What the ledger of memory needs beside `memory_places`; none unless it was recorded.
    pub memory: Option<MemoryCosts>,
}

impl Meta {
    /// Length of the window.
    pub fn window(&self) -> Duration {
        Duration::from_nanos(self.end_ns.saturating_sub(self.start_ns))
    }
}

/// What memory costs on this machine, and who works for it beside those that ask for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryCosts {
    /// Clearing a page of 4 KiB that is in a cache, ns, as measured when the recording began.
    pub clear_cached_ns: f64,
    /// Clearing a page of 4 KiB that is in none, ns, likewise.
    pub clear_uncached_ns: f64,
    /// Pages that the whole machine allocated in the window.
    pub machine_allocated_pages: u64,
    /// Of them, those that threads of the kernel allocated.
    pub kernel_allocated_pages: u64,
    /// Pages that it freed.
    pub machine_freed_pages: u64,
    /// The kernel's threads that work for memory, with what they did in the window.
    pub kernel_threads: Vec<KernelThreadCost>,
}

/// What a thread of the kernel cost in the window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelThreadCost {
    /// Its name: `kswapd0`, `kcompactd0`, `khugepaged` …
    pub name: String,
    /// Its time on a processor, ns.
    pub cpu_ns: u64,
}

/// How the locks of a process were counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CountedProcess {
    /// `processes.process`.
    pub process: u32,
    /// Process id in the root PID namespace.
    pub pid: u32,
    /// Whose lock functions: `glibc`, `musl`, `unknown`; empty when they were not counted.
    pub libc: String,
    /// What attaching cost the process.
    pub attach: HeldThreads,
    /// What detaching cost it; none when it had ended before, and while it is being counted.
    pub detach: Option<HeldThreads>,
    /// Calls whose outcome was not seen: what they acquired is missing in the counts.
    pub forgotten: u64,
    /// Contended operations that were written down, for `lock_blocks`.
    pub events: u64,
    /// Of these, how many were overwritten before they were read.
    pub lost_events: u64,
    /// Releases of mutexes that nobody held.
    pub released_free: u64,
    /// What was not counted, with the reason, for people.
    pub missed: Vec<String>,
}

/// What holding all threads of a process still cost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldThreads {
    /// Longest single time, ns.
    pub longest_ns: u64,
    /// How often.
    pub times: u32,
    /// Threads held the last time.
    pub threads: u32,
}

/// The machine a recording was made on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -m`.
    pub arch: String,
    /// Processors online.
    pub cpus: u32,
}

/// Two clocks read together, to turn CLOCK_BOOTTIME into real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClockAnchor {
    /// CLOCK_BOOTTIME, ns.
    pub boottime_ns: u64,
    /// CLOCK_REALTIME, ns since 1970.
    pub realtime_ns: u64,
}

impl ClockAnchor {
    /// Real time, ns since 1970, of an instant of CLOCK_BOOTTIME.
    pub fn unix_ns(&self, instant_ns: u64) -> u64 {
        self.realtime_ns
            .wrapping_add(instant_ns)
            .wrapping_sub(self.boottime_ns)
    }
}

/// What the recorder itself cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecorderCost {
    /// CPU time of the recorder process while it recorded, ns; loading and naming are left out.
    pub cpu_ns: u64,
    /// Its peak resident memory, bytes.
    pub peak_rss_bytes: u64,
    /// CPU time of the eBPF programs, ns, where the kernel tells it.
    pub bpf_ns: Option<u64>,
    /// Stacks that the eBPF programs could not walk to their end: copies of them were, which costs a hundred times as
    /// much. Many at the start of a program and where code has no tables, few elsewhere.
    #[serde(default)]
    pub copied_stacks: u64,
    /// Waits that would have been kept for their length if there had not been too many, see `slices`: the sums of their
    /// sites have them, and samples stand for them.
    #[serde(default)]
    pub waits_passed_over: u64,
}
