//! What each thread did when, from switches; or, where a file tells no switches, how long it was sampled.
//!
//! With switches a thread is at every instant running or off the processor, from the beginning of the window
//! (or its birth) to the end (or its death), so its states add up to its life. Without, nothing is known but
//! running time: a thread's life is that.
use super::stacks::Stacks;
use crate::ImportError;
use crate::builder::{Builder, Stay, Waker};
use dwell_recording::rows::ThreadRow;
use rustc_hash::FxHashMap;

/// A sample that comes so soon behind a switch is of the switch itself (from an interrupt that cannot be
/// masked); later it shows that a record was lost.
const SAME_SWITCH_NS: u64 = 50_000;

/// How a thread left the processor.
#[derive(Clone, Debug, Default)]
pub struct Departure {
    /// Where.
    pub stack: Option<u32>,
    /// It wanted to go on.
    pub preempted: bool,
    /// No signal ends its wait.
    pub disk_sleep: bool,
}

/// Off the processor.
#[derive(Clone, Debug, Default)]
struct Off {
    since_ns: u64,
    departure: Departure,
    woken: Option<(u64, Waker)>,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Nothing told yet.
    #[default]
    Unknown,
    Running {
        since_ns: u64,
    },
    Off(Box<Off>),
}

#[derive(Debug, Default)]
struct Thread {
    row: ThreadRow,
    state: State,
    cpu: u32,
    exits: bool,
    last_ns: u64,
    /// Stack of the switch that comes next.
    before_switch: Option<u32>,
}

/// A place where a thread leaves the processor.
type SiteKey = (usize, Option<u32>, bool, bool);

/// Every thread.
pub struct Threads {
    /// Switches tell what threads did.
    exact: bool,
    start_ns: u64,
    threads: Vec<Thread>,
    by_tid: FxHashMap<u32, usize>,
    sites: FxHashMap<SiteKey, u32>,
    /// When each processor last changed its thread, where that is told of whole processors.
    switched_ns: FxHashMap<u32, u64>,
    /// Switches that must have been and were not told.
    pub missing: u64,
}

/// What threads write to.
pub struct Into<'b> {
    /// The recording.
    pub builder: &'b mut Builder,
    /// What their stacks say.
    pub stacks: &'b Stacks,
}

impl Threads {
    /// None yet. `exact`: every switch of them is told.
    pub fn new(exact: bool, start_ns: u64) -> Self {
        Threads {
            exact,
            start_ns,
            threads: Vec::new(),
            by_tid: FxHashMap::default(),
            sites: FxHashMap::default(),
            switched_ns: FxHashMap::default(),
            missing: 0,
        }
    }

    /// Whether a thread is known and off the processor.
    pub fn is_off(&self, tid: u32) -> bool {
        let thread = self.by_tid.get(&tid).map(|t| &self.threads[*t]);
        thread.is_some_and(|t| matches!(t.state, State::Off(_)))
    }

    /// The row of a thread that is known.
    pub fn row(&self, tid: u32) -> Option<u32> {
        self.by_tid.get(&tid).map(|t| *t as u32)
    }

    /// A thread, new if it is not known.
    pub fn thread(&mut self, tid: u32, process: u32, name: &str) -> u32 {
        let next = self.threads.len();
        let position = *self.by_tid.entry(tid).or_insert(next);
        if position == next {
            self.threads.push(Thread {
                row: ThreadRow {
                    thread: next as u32,
                    process,
                    tid,
                    ns_tid: tid,
                    name: name.into(),
                    start_ns: self.start_ns,
                    ..ThreadRow::default()
                },
                last_ns: self.start_ns,
                ..Thread::default()
            });
        }
        position as u32
    }

    /// A thread that nothing else named is called so.
    pub fn name_if_none(&mut self, thread: u32, name: &str) {
        let row = &mut self.threads[thread as usize].row;
        if row.name.is_empty() {
            row.name = name.into();
        }
    }

    /// A thread has another name.
    pub fn rename(&mut self, tid: u32, name: &str) {
        if let Some(thread) = self.by_tid.get(&tid) {
            self.threads[*thread].row.name = name.into();
        }
    }

    /// A thread is made: one of the same number has ended. Whether its life begins in the window, and is told.
    pub fn born(&mut self, tid: u32, time_ns: u64) -> bool {
        self.by_tid.remove(&tid);
        self.exact && time_ns > self.start_ns
    }

    /// The life of a thread begins: it wants a processor from the start.
    pub fn begin(&mut self, tid: u32, process: u32, name: &str, time_ns: u64) {
        let thread = self.thread(tid, process, name);
        let thread = &mut self.threads[thread as usize];
        thread.row.start_ns = time_ns;
        thread.last_ns = time_ns;
        let departure = Departure {
            preempted: true,
            ..Departure::default()
        };
        thread.state = State::Off(Box::new(Off {
            since_ns: time_ns,
            departure,
            woken: None,
        }));
    }

    /// A thread begins to end.
    pub fn ends(&mut self, tid: u32, time_ns: u64) {
        if let Some(thread) = self.by_tid.get(&tid) {
            let thread = &mut self.threads[*thread];
            thread.exits = true;
            thread.last_ns = thread.last_ns.max(time_ns);
        }
    }

    /// A thread was seen running on a processor, and `weight_ns` stands for it.
    pub fn ran(
        &mut self,
        thread: u32,
        time_ns: u64,
        (cpu, weight_ns): (u32, u64),
        into: &mut Into<'_>,
    ) -> Result<(), ImportError> {
        let position = thread as usize;
        let thread = &mut self.threads[position];
        if !self.exact {
            if thread.row.running_ns == 0 {
                thread.row.start_ns = time_ns;
            }
            thread.row.running_ns = thread.row.running_ns.saturating_add(weight_ns);
            return Ok(());
        }
        thread.last_ns = thread.last_ns.max(time_ns);
        match &thread.state {
            State::Running { .. } => return Ok(()),
            State::Off(off) if time_ns.saturating_sub(off.since_ns) <= SAME_SWITCH_NS => {
                return Ok(());
            }
            _ => {}
        }
        let since_ns = self.must_run_since(position, time_ns, cpu, into)?;
        self.threads[position].state = State::Running { since_ns };
        Ok(())
    }

    /// Nobody told when a thread got the processor on which it is now: since when it must have had it. That
    /// is when it was woken, or when the processor last changed its thread if that is later. Where nothing
    /// tells of a waking the time in between is lost.
    fn must_run_since(
        &mut self,
        position: usize,
        time_ns: u64,
        cpu: u32,
        into: &mut Into<'_>,
    ) -> Result<u64, ImportError> {
        let switched_ns = self.switched_ns.get(&cpu).copied().unwrap_or(0);
        let thread = &mut self.threads[position];
        let switched_ns = switched_ns.clamp(thread.row.start_ns, time_ns.max(thread.row.start_ns));
        match std::mem::take(&mut thread.state) {
            State::Running { since_ns } => Ok(since_ns),
            State::Unknown => {
                thread.row.blocked_ns += switched_ns - thread.row.start_ns;
                Ok(switched_ns)
            }
            State::Off(off) => {
                self.missing += 1;
                let wanted_ns = match &off.woken {
                    Some((at, _)) => Some(*at),
                    None => off.departure.preempted.then_some(off.since_ns),
                };
                let known = wanted_ns.is_some();
                let since_ns = wanted_ns.unwrap_or(off.since_ns).max(switched_ns);
                let since_ns = since_ns.max(off.since_ns).min(time_ns.max(off.since_ns));
                self.stay(position, *off, since_ns, into)?;
                if known {
                    return Ok(since_ns);
                }
                self.threads[position].row.lost_ns += time_ns.saturating_sub(since_ns);
                Ok(time_ns.max(since_ns))
            }
        }
    }

    /// A processor changed its thread.
    pub fn processor_switched(&mut self, cpu: u32, time_ns: u64) {
        self.switched_ns.insert(cpu, time_ns);
    }

    /// The next switch of a thread is from here.
    pub fn before_switch(&mut self, thread: u32, stack: u32) {
        self.threads[thread as usize].before_switch = Some(stack);
    }

    /// A thread left the processor. `again`: this may be the same switch told in another way.
    pub fn left(
        &mut self,
        thread: u32,
        time_ns: u64,
        (cpu, mut departure): (u32, Departure),
        again: bool,
        into: &mut Into<'_>,
    ) -> Result<(), ImportError> {
        let position = thread as usize;
        if !self.exact || (again && matches!(self.threads[position].state, State::Off(_))) {
            return Ok(());
        }
        let since_ns = self.must_run_since(position, time_ns, cpu, into)?;
        let thread = &mut self.threads[position];
        thread.row.running_ns += time_ns.saturating_sub(since_ns);
        thread.last_ns = thread.last_ns.max(time_ns);
        departure.stack = departure.stack.or(thread.before_switch.take());
        if departure.preempted {
            thread.row.involuntary_switches += 1;
        } else {
            thread.row.voluntary_switches += 1;
        }
        thread.state = State::Off(Box::new(Off {
            since_ns: time_ns.max(since_ns),
            departure,
            woken: None,
        }));
        if thread.exits {
            thread.row.ended = true;
            let tid = thread.row.tid;
            self.by_tid.remove(&tid);
        }
        Ok(())
    }

    /// A thread that is off the processor was woken.
    pub fn woken(&mut self, tid: u32, time_ns: u64, waker: Waker) {
        let Some(thread) = self.by_tid.get(&tid) else {
            return;
        };
        if let State::Off(off) = &mut self.threads[*thread].state
            && off.woken.is_none()
            && !off.departure.preempted
        {
            off.woken = Some((time_ns, waker));
        }
    }

    /// A thread got a processor.
    pub fn got(
        &mut self,
        thread: u32,
        time_ns: u64,
        cpu: u32,
        into: &mut Into<'_>,
    ) -> Result<(), ImportError> {
        if !self.exact {
            return Ok(());
        }
        let position = thread as usize;
        let thread = &mut self.threads[position];
        thread.last_ns = thread.last_ns.max(time_ns);
        thread.cpu = cpu;
        let running = State::Running { since_ns: time_ns };
        match std::mem::take(&mut thread.state) {
            // The same switch told in another way.
            State::Running { since_ns } if time_ns.saturating_sub(since_ns) <= SAME_SWITCH_NS => {
                thread.state = State::Running { since_ns };
            }
            // Nobody told when it left the processor in between.
            State::Running { since_ns } => {
                self.missing += 1;
                thread.row.lost_ns += time_ns - since_ns;
                thread.state = running;
            }
            State::Unknown => {
                // It was off the processor all the time; nothing tells where.
                thread.row.blocked_ns += time_ns.saturating_sub(thread.row.start_ns);
                thread.state = running;
            }
            State::Off(off) => {
                thread.state = running;
                self.stay(position, *off, time_ns, into)?;
            }
        }
        Ok(())
    }

    /// A stay off the processor is over.
    fn stay(
        &mut self,
        position: usize,
        off: Off,
        until_ns: u64,
        into: &mut Into<'_>,
    ) -> Result<(), ImportError> {
        let whole_ns = until_ns.saturating_sub(off.since_ns);
        let Departure {
            stack,
            preempted,
            disk_sleep,
        } = off.departure;
        let (woken_ns, waker) = match off.woken {
            _ if preempted => (off.since_ns, None),
            Some((at, waker)) => (
                at.clamp(off.since_ns, until_ns.max(off.since_ns)),
                Some(waker),
            ),
            None => (until_ns.max(off.since_ns), None),
        };
        let blocked_ns = woken_ns - off.since_ns;
        let row = &mut self.threads[position].row;
        row.blocked_ns += blocked_ns;
        row.runnable_ns += whole_ns - blocked_ns;
        let key = (position, stack, preempted, disk_sleep);
        let site = match self.sites.get(&key) {
            Some(site) => *site,
            None => {
                let (reason, syscall) = match preempted {
                    true => ("", String::new()),
                    false => into.stacks.why(stack, disk_sleep),
                };
                let site = into.builder.site(row.thread, reason, &syscall)?;
                self.sites.insert(key, site);
                site
            }
        };
        into.builder.stay(Stay {
            thread: position as u32,
            site,
            start_ns: off.since_ns,
            blocked_ns,
            runnable_ns: whole_ns - blocked_ns,
            stack,
            cpu: self.threads[position].cpu,
            waker,
        })
    }

    /// The window ends: every thread with the sums of its life.
    pub fn finish(
        mut self,
        end_ns: u64,
        into: &mut Into<'_>,
    ) -> Result<Vec<ThreadRow>, ImportError> {
        for position in 0..self.threads.len() {
            let thread = &mut self.threads[position];
            let row = &mut thread.row;
            row.ended |= thread.exits;
            if !self.exact {
                row.until_ns = row.start_ns.saturating_add(row.running_ns);
                continue;
            }
            row.until_ns = if row.ended { thread.last_ns } else { end_ns }.max(row.start_ns);
            let until_ns = row.until_ns;
            match std::mem::take(&mut thread.state) {
                State::Unknown => row.lost_ns += until_ns - row.start_ns,
                State::Running { since_ns } => row.running_ns += until_ns.saturating_sub(since_ns),
                State::Off(off) if until_ns > off.since_ns => {
                    self.stay(position, *off, until_ns, into)?;
                }
                State::Off(_) => {}
            }
        }
        Ok(self.threads.into_iter().map(|t| t.row).collect())
    }
}
