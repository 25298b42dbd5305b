//! A recording from start to end.
use crate::error::CollectError;
use crate::finished::{Unnamed, unnamed};
use crate::kernel_marks::KernelMarks;
use crate::launch::Launched;
use crate::machine::{self, AfterWaits};
use crate::memory::{LOOK_EVERY, Memory};
use crate::options::{Options, Target, config, first_meta, running_weight_ns, window};
use crate::perf::MapEvents;
use crate::poll::poll;
use crate::priorities::Priorities;
use crate::programs::{Clock, Programs, Wanted};
use crate::signals::Signals;
use crate::state::State;
use dwell_abi::events;
use dwell_recording::meta::{CountedProcess, Meta};
use dwell_recording::{Tables, Writer};
use libbpf_rs::RingBuffer;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

mod after_waits;
mod attach;
mod ending;
mod inbox;
mod output;

use after_waits::Way;
use inbox::{EarlyMaps, open_ring};

/// How often the ring is read.
const READ_EVERY: Duration = Duration::from_millis(100);
/// The same while a target maps files, which come in series: a program that starts, a plugin with its
/// libraries. What is not known of its mappings costs it stacks.
const READ_WHILE_MAPPING: Duration = Duration::from_millis(3);
/// How often a segment is closed: what a killed recorder can lose.
const SEGMENT_EVERY: Duration = Duration::from_millis(900);

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
    /// As `/proc/kallsyms` had them at the start. To read them takes longer than all else at the end of a short
    /// recording; a longer one does without these MiB, from its first segment on.
    kernel_symbols: Option<String>,
    map_events: Vec<MapEvents>,
    early_maps: EarlyMaps,
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
    priorities: Priorities,
    memory: Option<Memory>,
    way: Way,
    cpu_at_start: u64,
}

/// Loads the programs that these options ask for.
pub(crate) fn load(options: &Options, after_waits: AfterWaits) -> Result<Programs, CollectError> {
    Programs::load(
        &config(options, after_waits),
        &window(options, after_waits),
        options.clock,
        options.ring_bytes,
        Wanted {
            kernel_locks: options.kernel_locks,
            memory: options.memory,
            switches: after_waits.switches,
        },
    )
}

impl Recorder {
    /// Attaches. When it returns, everything the target does is recorded; a command waits for
    /// [`Recorder::run`].
    pub fn start(mut options: Options) -> Result<Recorder, CollectError> {
        let files = machine::raise_file_limit();
        let signals = Signals::take()?;
        let launched = match &options.target {
            Target::Command(words) => Some(Launched::prepare(words, signals.mask_before(), files)?),
            _ => None,
        };
        // Tens of ms, and so is the kernel's proof of the programs.
        let marks = std::thread::spawn(KernelMarks::read);
        // Before the programs, so that these are reported too: stacks may show them at work.
        let map_events: Result<Vec<_>, _> = machine::online_cpus()
            .into_iter()
            .map(MapEvents::open)
            .collect();
        let map_events = map_events?;
        let after_waits = AfterWaits::of_kernel();
        let mut programs = load(&options, after_waits)?;
        let (marks, kernel_symbols) = marks.join().unwrap_or_default();
        if options.clock == Clock::Tick && marks.tick_function.is_none() {
            options.clock = Clock::Timer;
            programs = load(&options, after_waits)?;
        }
        programs.set_marks(&marks)?;
        let ring_bytes: Rc<RefCell<Vec<u8>>> = Rc::default();
        let ring = open_ring(&programs, ring_bytes.clone())?;
        let meta = first_meta(&options);
        let mut recorder = Recorder {
            state: State::new(marks, options.period_ns, running_weight_ns(&options)),
            programs,
            writer: None,
            meta,
            next_segment: Instant::now() + SEGMENT_EVERY,
            kernel_symbols: Some(kernel_symbols),
            map_events,
            early_maps: EarlyMaps::default(),
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
            priorities: Priorities::default(),
            memory: None,
            way: Way::new(after_waits),
            cpu_at_start: 0,
        };
        recorder.adopt()?;
        recorder.open_output()?;
        Ok(recorder)
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
        self.choose_way()?;
        if let Some(memory) = &mut self.memory {
            memory.look(&self.programs)?;
        }
        self.pump()?;
        if let Some(ended) = self.ended() {
            return Ok(Step::Ended(ended));
        }
        if Instant::now() < self.next_segment {
            return Ok(Step::Progress(self.progress()));
        }
        self.next_segment = Instant::now() + SEGMENT_EVERY;
        self.kernel_symbols = None;
        Ok(match self.segment()? {
            Some(rows) => Step::Rows(Box::new(rows)),
            None => Step::Progress(self.progress()),
        })
    }

    fn progress(&self) -> Progress {
        Progress {
            elapsed: self.started.elapsed(),
            threads: self.state.threads.seen(),
        }
    }

    /// Waits for something to happen.
    fn wait(&self) -> Result<(), CollectError> {
        let mut timeout = if self.mapping {
            READ_WHILE_MAPPING
        } else {
            READ_EVERY
        };
        if self.memory.is_some() {
            timeout = timeout.min(LOOK_EVERY);
        }
        if let Some(duration) = self.options.duration {
            timeout = timeout.min(duration.saturating_sub(self.started.elapsed()));
        }
        let fds = [self.ring.epoll_fd(), self.signals.raw_fd()];
        let maps = self.map_events.iter().map(MapEvents::raw_fd);
        let watched = self.watched.iter().map(AsRawFd::as_raw_fd);
        poll(fds.into_iter().chain(maps).chain(watched), timeout);
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

impl Recorder {
    /// `processes.process` of a process that lives.
    pub fn process_of(&self, pid: u32) -> Option<u32> {
        self.state.processes.id_of(pid)
    }

    /// Code at these addresses of a process is ours from now on. At those in `like_entries` the stack is as at the
    /// entry of a function, so that it is walked where it is taken.
    pub fn set_own_code(
        &mut self,
        process: u32,
        ranges: Vec<std::ops::Range<u64>>,
        like_entries: &[u64],
    ) {
        self.state.processes.hide(process, &ranges, like_entries);
        self.state.own_code.set(process, ranges);
    }

    /// `frames.frame` of the call that returns to this actual address of a process.
    pub fn frame_of_call(&mut self, process: u32, returns_to: u64) -> u32 {
        self.state.frame_of_call(process, returns_to)
    }

    /// Takes note of a word of a process, which gets the name of the variable it lies in.
    pub fn name_word(&mut self, process: u32, address: u64) {
        self.state.threads.futexes.id(process, address);
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
