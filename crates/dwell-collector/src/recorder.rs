//! A recording from start to end.
use crate::error::CollectError;
use crate::finished::{Finished, Unnamed, unnamed};
use crate::kernel_marks::KernelMarks;
use crate::launch::{Launched, pidfd};
use crate::perf::{MapEvent, MapEvents, Reports};
use crate::programs::{Clock, Programs};
use crate::records::Record;
use crate::signals::Signals;
use crate::state::State;
use crate::{kernel_locks, machine, preload};
use dwell_abi::events::{self, Config, SWEEP_ADOPT, SWEEP_ALL};
use dwell_recording::meta::{CountedProcess, Machine, Meta, RecorderCost};
use dwell_recording::rows::LockRow;
use dwell_recording::{FORMAT_VERSION, Overwrite, Table, Tables, Writer};
use libbpf_rs::{RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

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
    /// The command line, for the record.
    pub command_line: Vec<String>,
}

/// Period of 99 stacks per thread-second: not a divisor of anything a program does.
pub const DEFAULT_PERIOD_NS: u64 = 10_101_010;
/// Waits from 1 ms on are kept one by one: at most 1 000 a second and thread.
pub const DEFAULT_SLICE_MIN_NS: u64 = 1_000_000;
/// 16 MiB hold a second of 20 000 stacks.
pub const DEFAULT_RING_BYTES: u32 = 16 << 20;

/// Threads that live already are adopted one after the other, a µs or two each, and all begin with the
/// window: it opens when that should be done. One that is adopted later begins later.
const ADOPTION_NS: u64 = 20_000_000;
/// How often the ring is read.
const READ_EVERY: Duration = Duration::from_millis(100);
/// The same while a target maps files, which come in series: a program that starts, a plugin with its
/// libraries. What is not known of its mappings costs it stacks.
const READ_WHILE_MAPPING: Duration = Duration::from_millis(3);
/// How often a segment is closed: what a killed recorder can lose.
const SEGMENT_EVERY: Duration = Duration::from_millis(900);

/// From this many threads on, those that sleep throughout are reported only with every tenth segment.
const MANY_THREADS: usize = 2000;

/// Why a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The target is gone.
    TargetGone,
    /// The duration is over.
    Duration,
    /// A signal asked for it.
    Signal,
}

/// A recording in progress.
pub struct Recorder {
    programs: Programs,
    state: State,
    writer: Option<Writer>,
    meta: Meta,
    next_segment: Instant,
    map_events: Vec<MapEvents>,
    early_maps: Vec<MapEvent>,
    /// A target mapped something in the last round.
    mapping: bool,
    /// End of the window: what happens later is no part of the recording.
    end_ns: u64,
    /// Records later than that, by kind.
    late: [u64; events::COUNTER_LOST as usize],
    ring: RingBuffer<'static>,
    ring_bytes: Rc<RefCell<Vec<u8>>>,
    signals: Signals,
    launched: Option<Launched>,
    watched: Vec<OwnedFd>,
    options: Options,
    started: Instant,
    exit_code: Option<i32>,
    write_error: Option<dwell_recording::RecordingError>,
    segments: u64,
    cpu_at_start: u64,
}

impl Recorder {
    /// Attaches. When it returns, everything the target does is recorded; a command waits for
    /// [`Recorder::run`].
    pub fn start(options: Options) -> Result<Recorder, CollectError> {
        let files = machine::raise_file_limit();
        let signals = Signals::take()?;
        let launched = match &options.target {
            Target::Command(words) => Some(Launched::prepare(words, signals.mask_before(), files)?),
            _ => None,
        };
        let marks = KernelMarks::read();
        let clock = if options.clock == Clock::Tick && marks.tick_function.is_none() {
            Clock::Timer
        } else {
            options.clock
        };
        let options = Options { clock, ..options };
        // Before the programs, so that these are reported too: stacks may show them at work.
        let map_events: Result<Vec<_>, _> = machine::online_cpus()
            .into_iter()
            .map(MapEvents::open)
            .collect();
        let map_events = map_events?;
        let programs = Programs::load(
            config(&options, &marks),
            clock,
            options.ring_bytes,
            options.kernel_locks,
        )?;
        let ring_bytes: Rc<RefCell<Vec<u8>>> = Rc::default();
        let ring = open_ring(&programs, ring_bytes.clone())?;
        let meta = first_meta(&options);
        let mut recorder = Recorder {
            state: State::new(marks, options.period_ns, running_weight_ns(&options)),
            programs,
            writer: None,
            meta,
            next_segment: Instant::now() + SEGMENT_EVERY,
            map_events,
            early_maps: Vec::new(),
            mapping: false,
            end_ns: u64::MAX,
            late: Default::default(),
            ring,
            ring_bytes,
            signals,
            launched,
            watched: Vec::new(),
            options,
            started: Instant::now(),
            exit_code: None,
            write_error: None,
            segments: 0,
            cpu_at_start: 0,
        };
        recorder.adopt()?;
        recorder.open_output()?;
        Ok(recorder)
    }

    /// Only now that nothing can fail any more an older recording may go.
    fn open_output(&mut self) -> Result<(), CollectError> {
        let overwrite = if self.options.overwrite {
            Overwrite::Replace
        } else {
            Overwrite::Refuse
        };
        if let Some(launched) = &mut self.launched
            && let Target::Command(words) = &self.options.target
        {
            launched.check(&words[0])?;
        }
        if let Some(output) = &self.options.output {
            self.writer = Some(Writer::create_with(output, self.meta.clone(), overwrite)?);
        }
        self.cpu_at_start = machine::own_cpu_ns();
        Ok(())
    }

    fn adopt(&mut self) -> Result<(), CollectError> {
        let pids = self.target_pids()?;
        let now = machine::boottime_ns();
        for &pid in &pids {
            let process = self.state.processes.begin(pid, now);
            // A command has nothing mapped yet: it still is our own copy.
            if self.launched.is_none() {
                self.state.processes.map_all(
                    &self.programs,
                    &mut self.state.modules,
                    process,
                    now,
                )?;
            }
            if !matches!(self.options.target, Target::All) {
                self.programs.add_target(pid)?;
            }
        }
        if let (Some(_), Target::Command(words)) = (&self.launched, &self.options.target)
            && let Some(executable) = preload::find_command(&words[0])
        {
            for (path, file) in preload::files_of(&executable) {
                self.state.modules.of_file(&self.programs, file, &path)?;
            }
        }
        self.state
            .processes
            .publish(&self.programs, &self.state.modules)?;
        self.programs
            .attach(self.options.clock, self.options.period_ns)?;
        if self.options.kernel_locks {
            kernel_locks::attach(&mut self.programs)?;
        }
        self.open_window()
    }

    /// Adopts the threads that live already, and returns when the window begins.
    fn open_window(&mut self) -> Result<(), CollectError> {
        let mut start_ns = machine::boottime_ns();
        if self.launched.is_none() {
            start_ns += ADOPTION_NS;
        }
        self.meta.start_ns = start_ns;
        if let Some(duration) = self.options.duration {
            self.end_ns = start_ns.saturating_add(duration.as_nanos() as u64);
        }
        self.programs.set_window(start_ns, self.end_ns)?;
        self.state.processes.begin_window(start_ns);
        if self.launched.is_none() {
            self.programs.sweep(SWEEP_ADOPT | SWEEP_ALL)?;
            self.pump()?;
        }
        let ahead = start_ns.saturating_sub(machine::boottime_ns());
        std::thread::sleep(Duration::from_nanos(ahead));
        self.started = Instant::now();
        Ok(())
    }

    fn target_pids(&mut self) -> Result<Vec<u32>, CollectError> {
        let pids = match &self.options.target {
            Target::Pids(pids) => pids.clone(),
            Target::Cgroup(path) => crate::cgroup::processes(path)?,
            Target::Command(_) => self.launched.iter().map(|l| l.pid).collect(),
            // Read before the window begins: all their unwind tables can take seconds.
            Target::All => return Ok(crate::processes::running()),
        };
        if !matches!(self.options.target, Target::Cgroup(_)) {
            for &pid in &pids {
                let remedy = "check the process id: `pgrep -a NAME` lists them";
                self.watched.push(
                    pidfd(pid)
                        .map_err(|e| CollectError::from_io(format!("process {pid}"), e, remedy))?,
                );
            }
        }
        Ok(pids)
    }

    /// The process id of a launched command.
    pub fn launched_pid(&self) -> Option<u32> {
        self.launched.as_ref().map(|l| l.pid)
    }

    /// Lets a launched command run.
    pub fn go(&mut self) -> Result<(), CollectError> {
        match (&mut self.launched, &self.options.target) {
            (Some(launched), Target::Command(words)) => launched.go(&words[0]),
            _ => Ok(()),
        }
    }

    /// Records for up to a tenth of a second and says what has come of it. Call it until it says
    /// [`Step::Ended`].
    pub fn step(&mut self) -> Result<Step, CollectError> {
        self.wait()?;
        self.programs.change_clock()?;
        self.pump()?;
        if let Some(ended) = self.ended() {
            return Ok(Step::Ended(ended));
        }
        if Instant::now() < self.next_segment {
            return Ok(Step::Progress(self.progress()));
        }
        self.next_segment = Instant::now() + SEGMENT_EVERY;
        Ok(match self.segment()? {
            Some(rows) => Step::Rows(Box::new(rows)),
            None => Step::Progress(self.progress()),
        })
    }

    fn progress(&self) -> Progress {
        Progress {
            elapsed: self.started.elapsed(),
            threads: self.state.threads.len(),
        }
    }

    fn ended(&mut self) -> Option<Ended> {
        while let Some(signal) = self.signals.next() {
            match (signal, &self.launched) {
                (libc::SIGCHLD, _) => {}
                // The terminal sends Ctrl-C to the command too: it decides what to do with it.
                (libc::SIGINT, Some(_)) if self.exit_code.is_none() => {}
                (libc::SIGTERM | libc::SIGHUP, Some(launched)) => launched.signal(signal),
                _ => return Some(Ended::Signal),
            }
        }
        if let Some(launched) = &self.launched {
            self.exit_code = self.exit_code.or_else(|| launched.exit_code(false));
            if self.exit_code.is_some() {
                return Some(Ended::TargetGone);
            }
        } else if matches!(self.options.target, Target::Pids(_))
            && self.watched.iter().all(|fd| is_readable(fd.as_raw_fd()))
        {
            return Some(Ended::TargetGone);
        }
        self.options
            .duration
            .is_some_and(|d| self.started.elapsed() >= d)
            .then_some(Ended::Duration)
    }

    /// Waits for something to happen.
    fn wait(&self) -> Result<(), CollectError> {
        let mut timeout = if self.mapping {
            READ_WHILE_MAPPING
        } else {
            READ_EVERY
        };
        if let Some(duration) = self.options.duration {
            timeout = timeout.min(duration.saturating_sub(self.started.elapsed()));
        }
        let fds = [self.ring.epoll_fd(), self.signals.raw_fd()];
        let maps = self.map_events.iter().map(MapEvents::raw_fd);
        let watched = self.watched.iter().map(AsRawFd::as_raw_fd);
        poll(fds.into_iter().chain(maps).chain(watched), timeout);
        Ok(())
    }

    /// Takes in what has come: mappings and records in the order of their times.
    fn pump(&mut self) -> Result<(), CollectError> {
        let mut reports = Reports {
            maps: std::mem::take(&mut self.early_maps),
            ..Reports::default()
        };
        for events in &mut self.map_events {
            events.drain(&mut reports);
        }
        self.state.losses.map_events += reports.lost;
        self.state.kernel_code.extend(reports.kernel);
        let mut maps = reports.maps;
        maps.sort_by_key(|m| m.time);
        let now = machine::boottime_ns();
        self.mapping = false;
        self.ring.consume().map_err(CollectError::Map)?;
        let bytes = std::mem::take(&mut *self.ring_bytes.borrow_mut());
        let mut rest = maps.into_iter().peekable();
        let mut at = 0;
        while let Some((record, next)) = next_record(&bytes, at) {
            at = next;
            let Some(record) = Record::parse(record) else {
                continue;
            };
            if self.is_late(&record) {
                self.late[record.kind() as usize] += 1;
                continue;
            }
            while let Some(event) = rest.next_if(|m| m.time <= record.time()) {
                self.map(event, now)?;
            }
            self.state.record(&self.programs, record)?;
        }
        for event in rest {
            self.map(event, now)?;
        }
        let mut bytes = bytes;
        bytes.clear();
        *self.ring_bytes.borrow_mut() = bytes;
        let State {
            processes, modules, ..
        } = &mut self.state;
        processes.find_missing(&self.programs, modules, reports.lost > 0, now)?;
        self.state
            .processes
            .publish(&self.programs, &self.state.modules)
    }

    /// A mapping of a process that is not known yet may be that of a child whose birth is still in
    /// the ring: it is tried again for a while.
    fn map(&mut self, event: MapEvent, now: u64) -> Result<(), CollectError> {
        const PATIENCE_NS: u64 = 1_000_000_000;
        if event.time > self.end_ns {
            return Ok(());
        }
        if self.state.map_event(&self.programs, &event)? {
            self.mapping = true;
        } else if event.time + PATIENCE_NS > now {
            self.early_maps.push(event);
        }
        Ok(())
    }

    /// True for what happened after the window. The stack of a wait that ended in it may come later.
    fn is_late(&self, record: &Record<'_>) -> bool {
        let threads = &self.state.threads;
        let owes = |tid| {
            let thread = threads.id_of(tid).map(|id| threads.get(id));
            thread.is_some_and(|thread| thread.owed.is_some())
        };
        record.time() > self.end_ns
            && !matches!(record, Record::Stack(head, _)
                if head.kind == events::RECORD_WAIT_STACK && owes(head.tid))
    }

    fn segment(&mut self) -> Result<Option<Tables>, CollectError> {
        if let Target::Cgroup(path) = self.options.target.clone() {
            self.adopt_newcomers(&path)?;
        }
        // Threads that sleep throughout are reported too, as long as they are few.
        self.segments += 1;
        let all = self.state.threads.len() < MANY_THREADS || self.segments.is_multiple_of(10);
        self.programs.sweep(if all { SWEEP_ALL } else { 0 })?;
        self.pump()?;
        self.state.open_waits();
        self.fill_meta()?;
        self.meta.end_ns = self.end_ns.min(machine::boottime_ns());
        Ok(self.write_segment())
    }

    /// Writes what was gathered, or returns it when there is nowhere to write. A disk that is full
    /// does not end the recording: the writer counts what it has to drop, and the error is told at
    /// the end.
    fn write_segment(&mut self) -> Option<Tables> {
        let rows = self.state.take_rows();
        let Some(writer) = &mut self.writer else {
            return Some(Tables {
                meta: self.meta.clone(),
                ..rows
            });
        };
        writer.meta_mut().clone_from(&self.meta);
        let appended = append(writer, rows);
        if let Err(error) = appended.and(writer.close_segment()) {
            self.write_error.get_or_insert(error);
        }
        None
    }

    fn adopt_newcomers(&mut self, cgroup: &std::path::Path) -> Result<(), CollectError> {
        let pids = crate::cgroup::processes(cgroup).unwrap_or_default();
        let new: Vec<u32> = pids
            .into_iter()
            .filter(|&pid| self.state.processes.id_of(pid).is_none())
            .collect();
        for &pid in &new {
            self.programs.add_target(pid)?;
        }
        if !new.is_empty() {
            self.programs.sweep(SWEEP_ADOPT)?;
        }
        Ok(())
    }

    /// Ends the recording: takes everything back from the kernel and writes the rest.
    pub fn finish(mut self) -> Result<Finished, CollectError> {
        self.settle()?;
        self.end_ns = self.end_ns.min(machine::boottime_ns());
        self.programs.set_window(self.meta.start_ns, self.end_ns)?;
        // A recorder that was kept waiting may find the ring full: the last reports need room.
        self.pump()?;
        self.programs.sweep(SWEEP_ALL)?;
        self.programs.detach();
        self.pump()?;
        self.take_kernel_locks()?;
        self.state.close();
        self.fill_meta()?;
        let meta = &mut self.meta;
        meta.end_ns = self.end_ns;
        meta.exit_code = self.exit_code;
        self.write_segment();
        let Some(writer) = self.writer else {
            return Err(CollectError::Internal(
                "a recording without an output cannot be finished".into(),
            ));
        };
        Ok(Finished {
            launched: self.launched,
            exit_code: self.exit_code,
            write_error: self.write_error,
            problems: std::mem::take(&mut self.state.modules.problems),
            writer,
            state: self.state,
        })
    }

    /// A process that has just ended still has its last switch before it: gives it a moment, so that
    /// its sums are complete.
    fn settle(&mut self) -> Result<(), CollectError> {
        let deadline = Instant::now() + Duration::from_millis(50);
        let gone = self.gone();
        loop {
            self.pump()?;
            let seen = |pid: &u32| self.state.processes.id_of(*pid).is_none();
            if gone.iter().all(seen) || Instant::now() > deadline {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The targets that have ended.
    fn gone(&self) -> Vec<u32> {
        match &self.options.target {
            Target::Command(_) if self.exit_code.is_some() => {
                self.launched_pid().into_iter().collect()
            }
            Target::Pids(pids) => {
                let watched = pids.iter().zip(&self.watched);
                let gone = watched.filter(|(_, fd)| is_readable(fd.as_raw_fd()));
                gone.map(|(pid, _)| *pid).collect()
            }
            _ => Vec::new(),
        }
    }

    fn take_kernel_locks(&mut self) -> Result<(), CollectError> {
        if !self.options.kernel_locks {
            return Ok(());
        }
        const WAITS: &str = "kernel_lock_waits";
        let found = kernel_locks::read(&self.programs, &mut self.state)?;
        self.meta.produced.insert(WAITS.into(), found.produced);
        self.meta.losses.insert(WAITS.into(), found.lost);
        self.take_in(found.rows);
        Ok(())
    }

    /// Rows for the next segment.
    fn take_in<R: Table>(&mut self, rows: Vec<R>) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.append(rows)
        {
            self.write_error.get_or_insert(error);
        }
    }

    fn fill_meta(&mut self) -> Result<(), CollectError> {
        let counters = self.programs.counters()?;
        let losses = self.state.losses;
        let left_out = self.state.processes.mappings_left_out;
        let meta = &mut self.meta;
        meta.recorder = RecorderCost {
            cpu_ns: machine::own_cpu_ns() - self.cpu_at_start,
            peak_rss_bytes: machine::peak_rss_bytes(),
            bpf_ns: self.programs.run_time_ns(),
        };
        let kinds = [
            (events::RECORD_RUNNING, "running_stacks"),
            (events::RECORD_WAIT, "waits"),
            (events::RECORD_WAIT_STACK, "wait_stacks"),
            (events::RECORD_WAKER, "waker_stacks"),
            (events::RECORD_SITE, "site_sums"),
            (events::RECORD_THREAD, "thread_sums"),
            (events::RECORD_FORK, "forks"),
            (events::RECORD_EXEC, "execs"),
            (events::RECORD_RENAME, "renames"),
        ];
        for (kind, name) in kinds {
            meta.produced.insert(
                name.into(),
                counters[(events::COUNTER_PRODUCED + kind) as usize] - self.late[kind as usize],
            );
            meta.losses.insert(
                name.into(),
                counters[(events::COUNTER_LOST + kind) as usize],
            );
        }
        let others = [
            (
                "stacks_without_buffer",
                counters[events::COUNTER_NO_SCRATCH as usize],
            ),
            (
                "threads_not_followed",
                counters[events::COUNTER_NO_STORAGE as usize],
            ),
            (
                "stacks_of_unseen_switches",
                counters[events::COUNTER_NOT_SEEN as usize],
            ),
            ("records_without_thread", losses.orphans),
            ("wait_stacks_missing", losses.stacks_missing),
            ("mapping_reports", losses.map_events),
            ("mappings_left_out", left_out),
        ];
        for (name, n) in others {
            meta.losses.insert(name.into(), n);
        }
        Ok(())
    }
}

/// How far a recording is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Time since it began.
    pub elapsed: Duration,
    /// Threads seen so far.
    pub threads: usize,
}

/// What a [`Recorder::step`] came to.
pub enum Step {
    /// Nothing to tell.
    Progress(Progress),
    /// The rows of about a second, for a recording that is not written.
    Rows(Box<Tables>),
    /// It is over: call [`Recorder::finish`], or drop the recorder.
    Ended(Ended),
}

/// Appends all tables, also when one of them fails: the exact sums are small and worth having even
/// where samples found no room. The first error is returned.
fn append(writer: &mut Writer, rows: Tables) -> Result<(), dwell_recording::RecordingError> {
    let results = [
        writer.append(rows.processes),
        writer.append(rows.threads),
        writer.append(rows.mappings),
        writer.append(rows.frames),
        writer.append(rows.stacks),
        writer.append(rows.futexes),
        writer.append(rows.sites),
        writer.append(rows.site_times),
        writer.append(rows.samples),
        writer.append(rows.slices),
        writer.append(rows.events),
    ];
    results.into_iter().collect()
}

impl Recorder {
    /// `processes.process` of a process that lives.
    pub fn process_of(&self, pid: u32) -> Option<u32> {
        self.state.processes.id_of(pid)
    }

    /// Code at these addresses of a process is ours from now on.
    pub fn set_own_code(&mut self, process: u32, ranges: Vec<std::ops::Range<u64>>) {
        self.state.own_code.set(process, ranges);
    }

    /// Takes rows in that this crate does not make, for the next segment.
    pub fn append_locks(&mut self, rows: Vec<LockRow>) {
        self.take_in(rows);
    }

    /// Says how locks are counted.
    pub fn set_counted(&mut self, counted: Vec<CountedProcess>) {
        self.meta.counted = counted;
    }

    /// Those of these frames that want a name.
    pub fn unnamed(&self, frames: &BTreeSet<u32>) -> Vec<Unnamed> {
        unnamed(&self.state, frames.iter().copied())
    }
}

/// The ring; reading it appends every record after its length.
fn open_ring(
    programs: &Programs,
    into: Rc<RefCell<Vec<u8>>>,
) -> Result<RingBuffer<'static>, CollectError> {
    let map = programs.ring()?;
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&map, move |record| {
            let mut bytes = into.borrow_mut();
            bytes.extend_from_slice(&(record.len() as u64).to_ne_bytes());
            bytes.extend_from_slice(record);
            0
        })
        .map_err(CollectError::Map)?;
    builder.build().map_err(CollectError::Map)
}

/// What a stack of a running thread stands for: the tick cannot come more often than it does.
fn running_weight_ns(options: &Options) -> u64 {
    match options.clock {
        Clock::Tick => options.period_ns.max(machine::tick_ns()),
        Clock::Timer => options.period_ns,
    }
}

/// What the programs are told before they are loaded.
pub(crate) fn config(options: &Options, marks: &KernelMarks) -> Config {
    let keep = machine::tick_ns() as f64 / options.period_ns as f64;
    Config {
        period_ns: options.period_ns,
        slice_min_ns: options.slice_min_ns,
        tick_function: marks.tick_function.unwrap_or(u64::MAX),
        bh_enable_start: marks.bh_enable.start,
        bh_enable_len: marks.bh_enable.end - marks.bh_enable.start,
        entry_start: marks.entry.start,
        entry_len: marks.entry.end - marks.entry.start,
        ring_wakeup_bytes: u64::from(options.ring_bytes) / 4,
        tick_keep: (keep.min(1.0) * f64::from(u32::MAX)) as u32,
        follow_all: u8::from(matches!(options.target, Target::All)),
        stacks_after: u8::from(machine::has_switched()),
        pad: [0; 2],
    }
}

fn first_meta(options: &Options) -> Meta {
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

fn next_record(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let length = u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?) as usize;
    Some((bytes.get(at + 8..at + 8 + length)?, at + 8 + length))
}

fn poll(fds: impl Iterator<Item = RawFd>, timeout: Duration) {
    let mut fds: Vec<libc::pollfd> = fds
        .map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: `fds` is a valid array of its length; an interruption only means an early return.
    unsafe {
        libc::poll(
            fds.as_mut_ptr(),
            fds.len() as libc::nfds_t,
            timeout.as_millis() as i32,
        )
    };
}

fn is_readable(fd: RawFd) -> bool {
    let mut poll = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one valid pollfd; returns at once.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}
