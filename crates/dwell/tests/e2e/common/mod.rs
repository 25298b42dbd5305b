//! Shared by the tests of times: runs the programs that log their own waits under the recorder, and
//! puts what they say (`Truth`) next to what the recording says (`View`).

pub use crate::shared::*;

use dwell_analysis::names::StackRef;
use dwell_analysis::{Analysis, Reason, State, Times};
use dwell_recording::Tables;
use dwell_recording::rows::ThreadRow;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub const MS: u64 = 1_000_000;

// ---- programs and recordings ----

/// The program under test with these arguments.
pub fn dwell(args: &[&str]) -> Command {
    let mut command = bare_dwell();
    command.args(args);
    command
}

/// A process in a group of its own; the group is killed when this is dropped.
pub struct Running {
    child: Child,
    /// The first line it printed, when it was waited for.
    pub first_line: String,
    rest: Option<std::thread::JoinHandle<String>>,
}

impl Running {
    /// Starts a command whose output goes nowhere.
    pub fn start(command: &mut Command) -> Self {
        let child = command
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Running {
            child,
            first_line: String::new(),
            rest: None,
        }
    }

    /// Starts a program of ours and waits for the first line it prints.
    pub fn start_ready(name: &str, args: &[&str]) -> Self {
        let mut command = Command::new(program(name));
        let mut child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let mut reader = BufReader::new(child.stdout.take().expect("piped"));
        let mut first_line = String::new();
        reader.read_line(&mut first_line).expect("a line");
        let rest = std::thread::spawn(move || std::io::read_to_string(reader).expect("text"));
        Running {
            child,
            first_line,
            rest: Some(rest),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: no memory effects; the child is not reaped yet, so the id is its own.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, signal) }, 0);
    }

    pub fn ended(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_some()
    }

    /// Waits for its good end; the rest of its output.
    pub fn end(mut self) -> String {
        let status = self.child.wait().expect("our child");
        assert!(status.success(), "{status}");
        let rest = self.rest.take();
        rest.map_or_else(String::new, |r| r.join().expect("a reader"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: no memory effects. Its group is its own, and outlives it when it left children.
        unsafe { libc::kill(-(self.pid() as i32), libc::SIGKILL) };
        let _ = self.child.wait();
    }
}

/// A recording, and what the command printed.
pub struct Recorded {
    pub tables: Tables,
    pub path: String,
    pub stdout: String,
    /// What the host took from the processors meanwhile, ns.
    pub stolen_ns: u64,
}

/// Records a program of ours from its start to its end.
#[track_caller]
pub fn launch(scratch: &Scratch, options: &[&str], name: &str, args: &[&str]) -> Recorded {
    let path = program(name);
    record(scratch, &[options, &["--", &path], args].concat())
}

/// Records a process that runs already.
#[track_caller]
pub fn attach(scratch: &Scratch, pid: u32, duration: &str) -> Recorded {
    record(scratch, &["--duration", duration, "-p", &pid.to_string()])
}

/// Records what the options say, which may end with a command.
#[track_caller]
pub fn record(scratch: &Scratch, options: &[&str]) -> Recorded {
    let path = scratch.file("x.dwell");
    let mut command = dwell(&["record", "-q", "-o", &path]);
    let stolen = StolenMeter::start();
    let output = command.args(options).output().expect("dwell runs");
    let stolen_ns = stolen.ns();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {stderr}");
    Recorded {
        tables: load(&path),
        stdout: String::from_utf8(output.stdout).expect("text"),
        path,
        stolen_ns,
    }
}

/// A recording of running processes that counts their locks.
pub struct CountedRecording {
    /// The recorder.
    pub dwell: Running,
    /// The recording.
    pub path: String,
}

impl CountedRecording {
    /// Returns when it counts.
    pub fn start(scratch: &Scratch, pids: &[i32]) -> CountedRecording {
        let path = scratch.file("x.dwell");
        let mut command = dwell(&["record", "-q", "--locks", "-o", &path]);
        for pid in pids {
            command.arg("-p").arg(pid.to_string());
        }
        let dwell = Running::start(&mut command);
        let begin = Instant::now();
        // A segment is closed a while after attaching.
        let counts = |meta: &String| {
            ["glibc", "musl"].map(|libc| meta.contains(&format!("\"libc\": \"{libc}\"")))
        };
        while fs::read_to_string(format!("{path}/meta.json"))
            .map_or(true, |meta| !counts(&meta).contains(&true))
        {
            assert!(begin.elapsed() < Duration::from_secs(60), "it attaches");
            std::thread::sleep(Duration::from_millis(20));
        }
        CountedRecording { dwell, path }
    }

    /// Waits until the processes have ended.
    pub fn finish(self) -> Tables {
        self.dwell.end();
        load(&self.path)
    }

    /// Ends it by Ctrl-C.
    pub fn interrupt(self) -> Tables {
        self.dwell.signal(libc::SIGINT);
        self.dwell.end();
        load(&self.path)
    }
}

// ---- what the programs say of themselves ----

/// A number of theirs.
#[track_caller]
pub fn number(value: &serde_json::Value, name: &str) -> u64 {
    value[name].as_u64().expect("a number")
}

/// The JSON of a program that logs its own waits (tests/programs/truth.h). Times are ns of
/// CLOCK_MONOTONIC.
#[derive(Debug, Deserialize)]
pub struct Truth {
    pub threads: Vec<ThreadTruth>,
    /// Of the program, where it tells.
    #[serde(default)]
    pub start_ns: u64,
    #[serde(default)]
    pub end_ns: u64,
    #[serde(default)]
    pub switches_per_s: f64,
    /// Processor time by function (`distribution`).
    #[serde(default)]
    pub burns: Vec<BurnTruth>,
}

/// One thread of it.
#[derive(Debug, Deserialize)]
pub struct ThreadTruth {
    pub tid: u32,
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub schedstat_run_ns: u64,
    pub run_delay_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    /// Asleep in its loop, at whatever site.
    pub blocked_ns: i64,
    /// Asleep in its loop at none of its sites.
    pub elsewhere_ns: i64,
    pub sites: Vec<SiteTruth>,
}

/// One place where it waits.
#[derive(Debug, Deserialize)]
pub struct SiteTruth {
    pub function: String,
    pub reason: String,
    pub waker: String,
    pub waits: u64,
    pub blocked_ns: i64,
}

/// Where it computes.
#[derive(Debug, Deserialize)]
pub struct BurnTruth {
    pub tid: u32,
    pub function: String,
    pub cpu_ns: u64,
}

impl Truth {
    #[track_caller]
    pub fn read(path: &str) -> Truth {
        let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
    }

    /// What the kernel's clocks leave out, ns per stay off the processor: the time from the end of a
    /// thread's processor time to the beginning of its successor's, and the like. A thread without
    /// sites never sleeps, so that all of wall - processor - run queue time it sees is of this kind.
    /// It limits how well the clocks can tell how long a thread slept.
    pub fn unaccounted_per_stay(&self) -> f64 {
        let never_sleep = self.threads.iter().filter(|t| t.sites.is_empty());
        let (mut ns, mut stays) = (0.0, 0.0);
        for thread in never_sleep {
            ns += thread.blocked_ns as f64;
            stays += (thread.voluntary + thread.involuntary) as f64;
        }
        // More than that is no property of a clock.
        if stays > 0.0 {
            (ns / stays).clamp(0.0, 4_000.0)
        } else {
            2_000.0
        }
    }
}

impl ThreadTruth {
    /// Whether the site has what the thread slept and the clocks, read around its other waits, did
    /// not see there (see truth.h): then also what it slept at places that nobody measured, such as
    /// page faults between two waits.
    pub fn has_remainder(&self, site: &SiteTruth) -> bool {
        self.sites.len() == 1 || (site.function.starts_with("serve_"))
    }
}

// ---- what the recording says ----

/// A recording that is asked by thread id and function name.
pub struct View<'t> {
    pub analysis: Analysis<'t>,
    by_tid: BTreeMap<u32, Vec<usize>>,
}

impl<'t> View<'t> {
    pub fn of(tables: &'t Tables) -> Self {
        let mut by_tid: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (position, row) in tables.threads.iter().enumerate() {
            by_tid.entry(row.tid).or_default().push(position);
        }
        View {
            analysis: Analysis::of(tables),
            by_tid,
        }
    }

    pub fn tables(&self) -> &'t Tables {
        self.analysis.tables
    }

    /// Position of a thread; the name tells two apart that had the same number one after the other.
    pub fn find(&self, tid: u32, name: &str) -> Option<usize> {
        let positions = self.by_tid.get(&tid)?;
        let named = |p: &&usize| self.tables().threads[**p].name == name;
        positions.iter().find(named).copied()
    }

    #[track_caller]
    pub fn thread(&self, tid: u32, name: &str) -> usize {
        let found = self.find(tid, name);
        found.unwrap_or_else(|| panic!("thread {name} ({tid}) is not in the recording"))
    }

    pub fn row(&self, thread: usize) -> &'t ThreadRow {
        &self.tables().threads[thread]
    }

    /// The functions of a stack, outermost first.
    pub fn functions(&self, stack: StackRef) -> impl Iterator<Item = &str> {
        let names = &self.analysis.names;
        let path = names.path(names.path_of(stack));
        path.iter().map(|id| names.function(*id).name.as_str())
    }

    pub fn contains(&self, stack: StackRef, function: &str) -> bool {
        self.functions(stack).any(|name| name == function)
    }

    /// A thread's times in the stacks that `wanted` picks.
    pub fn times(&self, thread: usize, wanted: impl Fn(StackRef) -> bool) -> Times {
        let mut times = Times::default();
        for entry in &self.analysis.profile.entries {
            if entry.thread as usize == thread && wanted(entry.stack) {
                times.add(entry.state, entry.weight_ns);
            }
        }
        times
    }

    /// A thread's times below a function.
    pub fn times_in(&self, thread: usize, function: &str) -> Times {
        self.times(thread, |stack| self.contains(stack, function))
    }

    /// The stack with this id.
    pub fn stack(&self, id: u32) -> Option<StackRef> {
        let position = self.analysis.index.stack(id)?;
        Some(StackRef::Taken(position as u32))
    }
}

pub fn blocked_for(times: &Times, reason: &str) -> u64 {
    times.get(State::Blocked(Reason::from_name(reason)))
}

// ---- closure ----

/// Every thread's states add up to its life, and so do its weighted stacks.
#[track_caller]
pub fn assert_closed(view: &View<'_>) {
    assert!(!view.tables().threads.is_empty());
    for (position, row) in view.tables().threads.iter().enumerate() {
        let life = row.until_ns - row.start_ns;
        let sum = row.states_ns();
        assert!(near(sum, life, 0.001, 0), "{sum} of {life} ns: {row:?}");
        assert!(
            row.lost_ns <= life / 1000,
            "time that is not told apart: {row:?}"
        );
        let drawn = view.analysis.profile.thread_times(position);
        assert!(near(drawn.total(), life, 0.001, 0), "{drawn:?}: {row:?}");
        assert!(
            near(drawn.running(), row.running_ns, 0.001, 1000),
            "{drawn:?}: {row:?}"
        );
        assert!(
            near(drawn.blocked(), row.blocked_ns, 0.001, 1000),
            "{drawn:?}: {row:?}"
        );
    }
}

/// Within a share of `expected` or within `ns`, whichever is more.
pub fn near(actual: u64, expected: u64, share: f64, ns: u64) -> bool {
    actual.abs_diff(expected) as f64 <= (expected as f64 * share).max(ns as f64)
}

/// The same for two clocks' views of one span, between whose readings the host may have taken a processor:
/// what it took of the whole run comes on top.
pub fn near_but_stolen(actual: u64, expected: u64, share: f64, ns: u64, stolen_ns: u64) -> bool {
    let apart = actual.abs_diff(expected).saturating_sub(stolen_ns);
    apart as f64 <= (expected as f64 * share).max(ns as f64)
}

// ---- this machine ----

/// What CLOCK_BOOTTIME, the clock of recordings, is ahead of CLOCK_MONOTONIC, ns: the time the
/// machine was suspended. Nothing but a suspension changes it.
pub fn boottime_ahead_ns() -> u64 {
    let before = clock_ns(libc::CLOCK_MONOTONIC);
    let boottime = clock_ns(libc::CLOCK_BOOTTIME);
    let after = clock_ns(libc::CLOCK_MONOTONIC);
    // Two readings are never taken at one instant: below a microsecond there is no difference.
    let ahead = boottime.saturating_sub(before.midpoint(after));
    if ahead <= (after - before).max(1_000) {
        0
    } else {
        ahead
    }
}

/// Measures how long a virtual machine's processors stand still: the kernel takes time that its host
/// reports as stolen off the processor time of whoever runs next, and a stop that the host does not
/// report falls between a thread's work and the switch that follows. A program's own clocks then tell it
/// that it slept.
pub struct StallMeter {
    stop: Arc<AtomicBool>,
    watchers: Vec<JoinHandle<u64>>,
    stolen_before: u64,
}

impl StallMeter {
    /// Begins: on every processor something of the highest priority looks once a ms what time it is.
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        // SAFETY: no memory effects.
        let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } as usize;
        let watcher = |cpu| {
            let stop = stop.clone();
            std::thread::spawn(move || watch(cpu, &stop))
        };
        StallMeter {
            watchers: (0..processors).map(watcher).collect(),
            stop,
            stolen_before: stolen_ns(),
        }
    }

    /// Ends; the time that all processors stood still, together, ns.
    pub fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        let seen = self
            .watchers
            .into_iter()
            .map(|w| w.join().expect("a watcher"));
        let seen: u64 = seen.sum();
        seen.max(stolen_ns() - self.stolen_before)
    }
}

/// Sum of all delays of a processor beyond those of any timer, ns.
fn watch(cpu: usize, stop: &AtomicBool) -> u64 {
    const PERIOD: Duration = Duration::from_millis(1);
    const USUAL: Duration = Duration::from_micros(300);
    // SAFETY: both are plain numbers, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
    param.sched_priority = 99;
    // SAFETY: valid pointers to values of the stated sizes; of this thread only.
    unsafe {
        libc::CPU_SET(cpu, &mut set);
        let pinned = libc::sched_setaffinity(0, size_of_val(&set), &set);
        let first = libc::sched_setscheduler(0, libc::SCHED_FIFO, &param);
        assert!(
            pinned == 0 && first == 0,
            "{}",
            std::io::Error::last_os_error()
        );
    }
    let mut still = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let before = Instant::now();
        std::thread::sleep(PERIOD);
        let late = before.elapsed().saturating_sub(PERIOD);
        if late > USUAL {
            still += late;
        }
    }
    still.as_nanos() as u64
}

/// `run`, `run_delay` of a thread, ns.
pub fn schedstat(pid: u32, tid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(|n| n.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Threads of a process.
pub fn tasks(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))
        .expect("a process")
        .flatten();
    entries
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .collect()
}

/// Measures up to three times, and fails with what is wrong every time. A virtual machine's
/// processors stand still now and then, for milliseconds, and the kernel's clocks do not see it
/// (stolen time that the host does not report); that hits some thread or other. An error of the
/// recorder hits the same thread or site again.
#[track_caller]
pub fn wrong_every_time(what: &str, mut measure: impl FnMut() -> BTreeMap<String, String>) {
    let mut wrong = measure();
    for round in 1..3 {
        if wrong.is_empty() {
            return;
        }
        eprintln!("{what}: measured again after round {round}: {wrong:#?}");
        let again = measure();
        wrong.retain(|name, _| again.contains_key(name));
        for (name, text) in again {
            wrong
                .entry(name)
                .and_modify(|t| *t = format!("{t}; {text}"));
        }
    }
    assert!(wrong.is_empty(), "{what}: wrong every time: {wrong:#?}");
}
