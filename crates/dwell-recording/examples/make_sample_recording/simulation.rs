//! Threads that run and wait, and a recorder that keeps exact sums and takes stacks by duration.
use super::world::{self, ACTORS, Actor, PLACES, Place};
use super::{PERIOD, START};
use dwell_recording::rows::*;

/// Waits at least this long are kept one by one, ns.
const KEPT_NS: u64 = 1_000_000;
/// The actor that is never switched out nor sampled until late, the one whose records were lost in part.
const BUSY: usize = 11;
const WAITER: usize = 12;
/// The end of a run at which no stack can be taken, ns.
const SWITCH_NS: u64 = 40_000;
/// Preemption's place.
const PREEMPTED: usize = PLACES.len() - 1;

/// Rows since the last second.
#[derive(Default)]
pub struct Rows {
    pub threads: Vec<ThreadRow>,
    pub sites: Vec<SiteRow>,
    pub site_times: Vec<SiteTimeRow>,
    pub samples: Vec<SampleRow>,
    pub slices: Vec<SliceRow>,
    pub events: Vec<EventRow>,
}

struct Thread {
    actor: &'static Actor,
    row: ThreadRow,
    /// Where its next action begins.
    now: u64,
    /// Thread time until the next stack is due.
    due: u64,
    /// Its sites by place, with the sums of this second.
    sites: Vec<Option<SiteTimeRow>>,
}

/// The simulated machine.
pub struct Simulation {
    rng: fastrand::Rng,
    threads: Vec<Thread>,
    rows: Rows,
    next_site: u32,
    /// Waits of all threads so far.
    pub waits: u64,
}

impl Simulation {
    /// Every thread at the start of the window, or of its life.
    pub fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let threads = ACTORS
            .iter()
            .enumerate()
            .map(|(id, actor)| Thread::new(id as u32, actor, &mut rng))
            .collect();
        Self {
            threads,
            rng,
            rows: Rows::default(),
            next_site: 0,
            waits: 0,
        }
    }

    /// Lets every thread act until `end`, and reads the sums there.
    pub fn run_until(&mut self, end: u64) {
        for id in 0..self.threads.len() {
            while self.threads[id].now < end && !self.threads[id].row.ended {
                self.act(id);
            }
            self.read(id, end);
        }
    }

    /// The rows made since the last call.
    pub fn take(&mut self) -> Rows {
        std::mem::take(&mut self.rows)
    }

    /// One stay on a processor and one off it, or one long sleep.
    fn act(&mut self, id: usize) {
        let actor = self.threads[id].actor;
        if id == BUSY {
            // Never leaves the processor; its stack cannot be read.
            self.run(id, PERIOD);
        } else if actor.places.is_empty() {
            let thread = &mut self.threads[id];
            thread.row.blocked_ns += PERIOD;
            thread.now += PERIOD;
        } else {
            let run = self.rng.u64(1..=actor.run_us * 2) * 1000;
            self.run(id, run);
            let place = if self.rng.u8(..8) == 0 {
                PREEMPTED
            } else {
                actor.places[self.rng.usize(..actor.places.len())]
            };
            self.wait(id, place);
        }
        let thread = &mut self.threads[id];
        if thread.now >= START.saturating_add(actor.life_ms.1.saturating_mul(1_000_000)) {
            thread.row.ended = true;
            let event = EventRow {
                time_ns: thread.now,
                thread: Some(id as u32),
                kind: "exit".into(),
                detail: "0".into(),
            };
            self.rows.events.push(event);
        }
    }

    fn run(&mut self, id: usize, ns: u64) {
        let thread = &mut self.threads[id];
        thread.row.running_ns += ns;
        thread.now += ns;
        if thread.owes_stack(ns.saturating_sub(SWITCH_NS)) {
            let stack = thread.actor.running[self.rng.usize(..thread.actor.running.len())];
            let sample = SampleRow {
                time_ns: thread.now,
                thread: id as u32,
                cpu: self.rng.u32(..2),
                state: state::RUNNING.into(),
                stack,
                site: None,
                weight_ns: PERIOD.max(ns),
            };
            self.rows.samples.push(sample);
        }
    }

    fn wait(&mut self, id: usize, place: usize) {
        let Place {
            stack,
            wait_us: (from, to),
            ..
        } = PLACES[place];
        let preempted = place == PREEMPTED;
        let blocked = if preempted {
            0
        } else {
            self.rng.u64(from * 1000..=to * 1000)
        };
        let runnable = self.rng.u64(if preempted {
            50_000..3_000_000
        } else {
            1_000..80_000
        });
        let site = self.site(id, place);
        self.waits += 1;
        let thread = &mut self.threads[id];
        thread.account(place, blocked, runnable);
        let start = thread.now;
        thread.now += blocked + runnable;
        let owed = thread.owes_stack(blocked + runnable);
        // The logger's writes get a stack at first sight only, with no weight.
        let first = thread.actor.name == "logger" && place == 2 && start < START + 200_000_000;
        let sampled = (owed && !(thread.actor.name == "logger" && place == 2)) || first;
        // What the waiter waits for is not known most of the time.
        let lost = id == WAITER && self.rng.u8(..4) > 0;
        // The first thread's sites are read a little later than the thread.
        let late = if id == 0 && !preempted && start < START + 100_000_000 {
            50_000
        } else {
            0
        };
        if let Some(sums) = &mut self.threads[id].sites[place] {
            sums.blocked_ns = sums.blocked_ns + late - if lost { blocked } else { 0 };
        }
        if sampled && id != WAITER {
            let sample = SampleRow {
                time_ns: start + blocked + runnable,
                thread: id as u32,
                cpu: self.rng.u32(..2),
                state: if preempted {
                    state::RUNNABLE
                } else {
                    state::BLOCKED
                }
                .into(),
                stack,
                site: Some(site),
                weight_ns: if first {
                    0
                } else {
                    PERIOD.max(blocked + runnable)
                },
            };
            self.rows.samples.push(sample);
        }
        if sampled || blocked >= KEPT_NS {
            let slice = self.slice(
                id,
                place,
                site,
                (start, blocked, runnable),
                sampled.then_some(stack),
            );
            self.rows.slices.push(slice);
        }
    }

    /// The record of one wait. Workers are woken by each other, by the logger or from outside.
    fn slice(
        &mut self,
        id: usize,
        place: usize,
        site: u32,
        times: (u64, u64, u64),
        stack: Option<u32>,
    ) -> SliceRow {
        let (start_ns, blocked_ns, runnable_ns) = times;
        let waker = match (place, self.rng.u8(..4)) {
            (PREEMPTED, _) => None,
            (0 | 1, 0..=2) => Some((id + 1) % 6),
            (2, _) => Some(if id == 4 { 0 } else { 4 }),
            _ => None,
        };
        let outside = match (place, waker) {
            (PREEMPTED, _) | (_, Some(_)) => "",
            (4, _) => "[timer]",
            (3, _) => "[softirq]",
            _ => "sshd",
        };
        SliceRow {
            thread: id as u32,
            site,
            start_ns,
            blocked_ns,
            runnable_ns,
            cpu: self.rng.u32(..2),
            stack,
            waker_tid: waker
                .map(|waker| 4000 + waker as u32)
                .or((outside == "sshd").then_some(77)),
            waker_thread: waker.map(|waker| waker as u32),
            waker_name: waker.map_or(outside, |waker| ACTORS[waker].name).into(),
            waker_stack: waker
                .filter(|_| stack.is_some())
                .map(|waker| ACTORS[waker].running[0]),
            result: match place {
                0 | 1 if stack.is_some() => result::WOKEN.into(),
                _ => String::new(),
            },
        }
    }

    /// The site of a place for this thread; a row of its own when it is new.
    fn site(&mut self, id: usize, place: usize) -> u32 {
        if let Some(sums) = &self.threads[id].sites[place] {
            return sums.site;
        }
        let site = self.next_site;
        self.next_site += 1;
        self.threads[id].sites[place] = Some(SiteTimeRow {
            site,
            ..SiteTimeRow::default()
        });
        let Place {
            reason, syscall, ..
        } = PLACES[place];
        let pc = if place == PREEMPTED {
            0
        } else {
            0x7fff_0000_1000 + place as u64
        };
        let process = self.threads[id].row.process;
        let futex = world::futexes()
            .iter()
            .find(|row| {
                syscall == "futex" && row.process == process && row.address & 1 == place as u64
            })
            .map(|row| row.futex);
        self.rows.sites.push(SiteRow {
            site,
            thread: id as u32,
            reason: reason.into(),
            syscall: syscall.into(),
            pc,
            futex,
            operation: match futex {
                Some(_) => operation::WAIT_BITSET.into(),
                None => String::new(),
            },
            timed: place == 0,
            shared: false,
        });
        site
    }

    /// Reads a thread's sums, as far as its last action went, and starts its sites' next part.
    fn read(&mut self, id: usize, end: u64) {
        let thread = &mut self.threads[id];
        if thread.row.start_ns >= end {
            return;
        }
        thread.row.until_ns = thread.now;
        self.rows.threads.push(thread.row.clone());
        for sums in thread
            .sites
            .iter_mut()
            .flatten()
            .filter(|sums| sums.count > 0)
        {
            let next = SiteTimeRow {
                site: sums.site,
                ..SiteTimeRow::default()
            };
            self.rows.site_times.push(SiteTimeRow {
                time_ns: thread.now,
                ..std::mem::replace(sums, next)
            });
        }
    }
}

impl Thread {
    fn new(id: u32, actor: &'static Actor, rng: &mut fastrand::Rng) -> Self {
        let start_ns = START + actor.life_ms.0 * 1_000_000;
        // One thread could not be told apart for its first 5 ms.
        let lost_ns = if actor.name == "timer" { 5_000_000 } else { 0 };
        // And the host had its processor for 3 ms more.
        let stolen_ns = if actor.name == "timer" { 3_000_000 } else { 0 };
        let row = ThreadRow {
            thread: id,
            process: actor.process,
            tid: 4000 + id,
            ns_tid: 10 + id,
            name: actor.name.into(),
            start_ns,
            stolen_ns,
            lost_ns,
            ..ThreadRow::default()
        };
        Self {
            actor,
            row,
            now: start_ns + stolen_ns + lost_ns,
            due: rng.u64(1..PERIOD),
            sites: vec![None; PLACES.len()],
        }
    }

    /// Counts thread time; true when a stack is owed for it.
    fn owes_stack(&mut self, ns: u64) -> bool {
        match self.due.checked_sub(ns) {
            Some(due) if due > 0 => {
                self.due = due;
                false
            }
            _ => {
                self.due = PERIOD;
                true
            }
        }
    }

    fn account(&mut self, place: usize, blocked: u64, runnable: u64) {
        self.row.blocked_ns += blocked;
        self.row.runnable_ns += runnable;
        if blocked > 0 {
            self.row.voluntary_switches += 1;
        } else {
            self.row.involuntary_switches += 1;
        }
        if let Some(sums) = &mut self.sites[place] {
            sums.blocked_ns += blocked;
            sums.runnable_ns += runnable;
            sums.count += 1;
            sums.max_ns = sums
                .max_ns
                .max(blocked.max(if blocked == 0 { runnable } else { 0 }));
        }
    }
}
