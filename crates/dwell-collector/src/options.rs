//! What to record and how, and what follows from that.
use crate::machine::{self, AfterWaits};
use crate::programs::Clock;
use dwell_abi::events::{Config, Window};
use dwell_recording::FORMAT_VERSION;
use dwell_recording::meta::{Machine, Meta};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What to record.
#[derive(Clone, Debug)]
pub enum Target {
    /// Processes that run already.
    Pids(Vec<u32>),
    /// Every process of a cgroup (v2) and below, by its folder.
    Cgroup(PathBuf),
    /// The whole system.
    All,
    /// A command, started for it.
    Command(Vec<OsString>),
}

/// How to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to record.
    pub target: Target,
    /// Where to write. None: nowhere; [`Recorder::step`] hands the rows out.
    pub output: Option<PathBuf>,
    /// Replace a recording that is there already.
    pub overwrite: bool,
    /// Mean distance between two stacks of a thread, ns of its time.
    pub period_ns: u64,
    /// Which clock takes the stacks of running threads.
    pub clock: Clock,
    /// End after this long.
    pub duration: Option<Duration>,
    /// Waits at least this long are kept one by one, ns.
    pub slice_min_ns: u64,
    /// Bytes of the ring between kernel and recorder; a power of two.
    pub ring_bytes: u32,
    /// Sum up waits for locks of the kernel.
    pub kernel_locks: bool,
    /// Keep a ledger of what memory costs.
    pub memory: bool,
    /// The command line, for the record.
    pub command_line: Vec<String>,
}

/// Period of 99 stacks per thread-second: not a divisor of anything a program does.
pub const DEFAULT_PERIOD_NS: u64 = 10_101_010;
/// Waits from 1 ms on are kept one by one.
pub const DEFAULT_SLICE_MIN_NS: u64 = 1_000_000;
/// Of these at most so many a second, or only longer ones: what the recorder takes in at 1 % of a processor.
const SLICES_MOST_PER_S: u64 = 8_000;
/// 16 MiB hold a second of 20 000 stacks.
pub const DEFAULT_RING_BYTES: u32 = 16 << 20;

/// What a stack of a running thread stands for: the tick cannot come more often than it does.
pub(crate) fn running_weight_ns(options: &Options) -> u64 {
    match options.clock {
        Clock::Tick => options.period_ns.max(machine::tick_ns()),
        Clock::Timer => options.period_ns,
    }
}

/// What the programs are told before they are loaded.
pub(crate) fn config(options: &Options, after_waits: AfterWaits) -> Config {
    let keep = machine::tick_ns() as f64 / options.period_ns as f64;
    Config {
        period_ns: options.period_ns,
        slices_most: (SLICES_MOST_PER_S / 10 / machine::online_cpus().len() as u64).max(10),
        ring_wakeup_bytes: u64::from(options.ring_bytes) / 4,
        tick_keep: (keep.min(1.0) * f64::from(u32::MAX)) as u32,
        follow_all: u8::from(matches!(options.target, Target::All)),
        stacks_after: u8::from(after_waits.any()),
        pad: [0; 2],
    }
}

/// What they read at every switch, before the window is open.
pub(crate) fn window(options: &Options, after_waits: AfterWaits) -> Window {
    Window {
        start: 0,
        end: 0,
        slice_min_ns: options.slice_min_ns,
        tick_ns: machine::tick_ns(),
        reach: if after_waits.any() { 2 } else { 16 },
        registers_at: 0,
        only_key: 0,
        thread_shift: u64::from(u64::BITS - most_threads().ilog2()),
    }
}

/// How many threads can be followed at a time: a power of two. The table of them takes 1.3 KiB each.
fn most_threads() -> u64 {
    (2 * machine::threads())
        .clamp(1 << 14, 1 << 18)
        .next_power_of_two()
}

/// What is known when a recording begins.
pub(crate) fn first_meta(options: &Options) -> Meta {
    let [host, kernel, arch] = machine::names();
    let target = match &options.target {
        Target::Pids(pids) => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("pid {}", pids.join(", "))
        }
        Target::Cgroup(path) => format!("cgroup {}", path.display()),
        Target::All => "whole system".into(),
        Target::Command(words) => words
            .iter()
            .map(|w| w.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" "),
    };
    Meta {
        format_version: FORMAT_VERSION,
        tool: concat!("dwell ", env!("CARGO_PKG_VERSION")).into(),
        machine: Machine {
            host,
            kernel,
            arch,
            cpus: machine::online_cpus().len() as u32,
        },
        clock: machine::clock_anchor(),
        target,
        command_line: options.command_line.clone(),
        period_ns: options.period_ns,
        start_ns: machine::boottime_ns(),
        ..Meta::default()
    }
}
