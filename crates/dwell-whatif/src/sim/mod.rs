//! The simulation: threads on processors, from event to event.
//!
//! Every instant of every thread is told to the [`Tally`] once, when what it does changes; so the times
//! add up to threads × elapsed, and those on processors to what processors were busy.
mod events;
mod locks;
mod scheduler;
mod tally;
mod thread;

use crate::model::Model;
use crate::random::Random;
use events::{Event, Events};
use locks::Instance;
use scheduler::Cpu;
pub(crate) use tally::{Doing, Tally};
use thread::{Place, Step, Thread};

/// How far a run goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limits {
    /// Virtual time, ns.
    pub elapsed_ns: f64,
    /// Events.
    pub events: u64,
}

/// Steps that cost no time in a row: a program without any would never end.
const FREE_STEPS: u32 = 100_000;

pub(crate) struct Run<'m> {
    model: &'m Model,
    random: Random,
    now: f64,
    events: Events,
    threads: Vec<Thread>,
    cpus: Vec<Cpu>,
    /// How many of them have a thread.
    busy: usize,
    /// How many threads wait for a processor.
    ready: usize,
    instances: Vec<Instance>,
    /// First instance and number of instances, by lock.
    shards: Vec<(usize, usize)>,
    tally: Tally,
}

/// Runs a model.
pub(crate) fn run(model: &Model, limits: Limits, seed: u64) -> Tally {
    let mut run = Run::new(model, seed);
    // Locks and queues begin empty, which is not how they are found later.
    let warm = Limits {
        elapsed_ns: limits.elapsed_ns * 0.1,
        events: limits.events / 8,
    };
    run.until(warm);
    run.settle();
    let began = run.now;
    run.tally = Tally::new(model.locks.len());
    run.until(limits);
    run.settle();
    run.tally.elapsed_ns = run.now - began;
    run.tally
}

impl<'m> Run<'m> {
    fn new(model: &'m Model, seed: u64) -> Run<'m> {
        let mut random = Random::new(seed);
        let mut instances = Vec::new();
        let mut shards = Vec::new();
        for (position, lock) in model.locks.iter().enumerate() {
            let count = lock.shards.max(1) as usize;
            shards.push((instances.len(), count));
            instances.extend((0..count).map(|_| Instance::new(position, lock.kind)));
        }
        let mut threads = Vec::new();
        for (position, class) in model.classes.iter().enumerate() {
            for _ in 0..class.threads {
                threads.push(Thread::new(threads.len(), position, class, &mut random));
            }
        }
        let mut run = Run {
            model,
            random,
            now: 0.0,
            events: Events::default(),
            cpus: (0..model.machine.processors.max(1))
                .map(|_| Cpu::default())
                .collect(),
            busy: 0,
            ready: 0,
            instances,
            shards,
            tally: Tally::new(model.locks.len()),
            threads,
        };
        for thread in 0..run.threads.len() {
            let at = run.random.unit() * 1_000.0;
            run.events.plan(at, Event::Wake { thread });
        }
        run
    }

    fn until(&mut self, limits: Limits) {
        let end = self.now + limits.elapsed_ns;
        for _ in 0..limits.events {
            let Some((at, event)) = self.events.next() else {
                break;
            };
            if at > end {
                self.events.plan(at, event);
                self.now = end;
                return;
            }
            self.now = at;
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Done { cpu, stamp } if self.cpus[cpu].stamp == stamp => self.done(cpu),
            Event::Slice { cpu, stamp } if self.cpus[cpu].stay == stamp => self.slice_ends(cpu),
            Event::Done { .. } | Event::Slice { .. } => {}
            Event::Wake { thread } => self.wake(thread),
            Event::Grab { instance } => self.grab(instance),
        }
    }

    /// What the thread on a processor did is done: its next step.
    fn done(&mut self, cpu: usize) {
        let Some(thread) = self.cpus[cpu].thread else {
            return;
        };
        if self.threads[thread].patience.is_some() && self.threads[thread].left.is_none() {
            self.gives_up_spinning(thread);
        }
        self.threads[thread].left = None;
        self.go_on(thread);
    }

    /// Takes steps until one takes time. The thread is on a processor.
    fn go_on(&mut self, thread: usize) {
        for _ in 0..FREE_STEPS {
            let Some(step) = self.threads[thread].steps.pop_front() else {
                let class = &self.model.classes[self.threads[thread].class];
                self.threads[thread].plan(class, &self.shards, &mut self.random);
                continue;
            };
            match step {
                Step::Run(ns, doing) if ns > 0.0 => return self.work(thread, ns, doing),
                Step::Run(..) => {}
                Step::Away(ns) => {
                    self.leave(thread, Doing::Away);
                    return self.events.plan(self.now + ns, Event::Wake { thread });
                }
                Step::Units(units) => self.tally.units += units,
                Step::Acquire(instance) => {
                    if !self.acquire(thread, instance) {
                        return;
                    }
                }
                Step::Park(instance) => self.park(thread, instance),
                Step::Sleep(instance) => {
                    if !self.sleep(thread, instance) {
                        return;
                    }
                }
                Step::Resume => {
                    if !self.back_for_lock(thread) {
                        return;
                    }
                }
                Step::Release(instance) => self.release(thread, instance),
            }
        }
        // A program that takes no time at all: let it take some.
        self.work(thread, 1.0, Doing::Think);
    }

    /// Notes what a thread did until now, and what it does from now on.
    fn change(&mut self, thread: usize, doing: Doing) {
        let now = self.now;
        let own = &mut self.threads[thread];
        let lasted = now - own.since;
        own.since = now;
        let was = std::mem::replace(&mut own.doing, doing);
        let on = matches!(own.place, Place::On(_));
        if on {
            own.ran_ns += lasted;
        }
        self.tally.time_ns[was as usize] += lasted;
        let waits = matches!(was, Doing::Spin | Doing::Asleep | Doing::Ready);
        if let Some(instance) = own.wants.filter(|_| waits) {
            self.tally.waited_ns[self.instances[instance].lock] += lasted;
        }
        if let Some(instance) = own.has {
            let lock = self.instances[instance].lock;
            self.tally.held_ns[lock] += lasted;
            if !on {
                self.tally.stalled_ns[lock] += lasted;
            }
        }
    }

    /// Tells what everybody did until now.
    fn settle(&mut self) {
        for thread in 0..self.threads.len() {
            let doing = self.threads[thread].doing;
            self.change(thread, doing);
        }
        for cpu in &mut self.cpus {
            if cpu.thread.is_some() {
                self.tally.busy_ns += self.now - cpu.since;
                cpu.since = self.now;
            }
        }
    }
}
