//! Who gets a lock.
//!
//! - *In order* (tickets, MCS): a release hands the lock to who came first, whether it runs or not.
//! - *Spun for* (TAS, TTAS, the first part of an adaptive mutex): a release leaves the lock free; spinners
//!   that run see that a hand-over later, and who comes by before takes it.
//! - *Slept for* (mutexes): a release leaves it free too, and wakes one; the woken tries again.
use super::events::Event;
use super::tally::Doing;
use super::thread::Place;
use super::{Run, Step};
use crate::machine::Kind;
use crate::times::Times;
use std::collections::VecDeque;

/// A lock, or a shard of one.
#[derive(Debug)]
pub(super) struct Instance {
    /// Position in the model's locks.
    pub lock: usize,
    kind: Kind,
    owner: Option<usize>,
    /// Who waits in order, or sleeps.
    queue: VecDeque<usize>,
    /// Who spins, in no order.
    spinners: Vec<usize>,
    /// The mark in a mutex' word: somebody may sleep.
    contended: bool,
    /// The processor that had it last.
    last_cpu: Option<usize>,
    /// Spinners will look at it.
    grab_planned: bool,
}

impl Instance {
    pub fn new(lock: usize, kind: Kind) -> Instance {
        Instance {
            lock,
            kind,
            owner: None,
            queue: VecDeque::new(),
            spinners: Vec::new(),
            contended: false,
            last_cpu: None,
            grab_planned: false,
        }
    }
}

impl Run<'_> {
    /// Wants a lock; false if the thread has to wait.
    pub(super) fn acquire(&mut self, thread: usize, instance: usize) -> bool {
        let Place::On(cpu) = self.threads[thread].place else {
            return false;
        };
        let at = &mut self.instances[instance];
        self.tally.acquisitions[at.lock] += 1;
        // While spinners take the lock's line from each other, only who had it last is before them.
        let is_open = !at.grab_planned || at.last_cpu == Some(cpu);
        if at.owner.is_none() && is_open {
            self.take(thread, instance);
            return true;
        }
        self.tally.found_taken[at.lock] += 1;
        match at.kind {
            Kind::Ticket | Kind::Mcs => at.queue.push_back(thread),
            Kind::Tas | Kind::Ttas => at.spinners.push(thread),
            Kind::Adaptive => {
                at.spinners.push(thread);
                self.threads[thread].patience = Some(self.model.machine.spin_ns);
            }
            Kind::Futex => {
                self.go_to_sleep(thread, instance);
                return true;
            }
        }
        self.change(thread, Doing::Spin);
        self.threads[thread].wants = Some(instance);
        self.threads[thread].left = None;
        self.resume(thread);
        false
    }

    /// Takes a free lock, at its price.
    fn take(&mut self, thread: usize, instance: usize) {
        let Place::On(cpu) = self.threads[thread].place else {
            return;
        };
        self.own(thread, instance);
        let at = &self.instances[instance];
        let costs = self.model.machine.cost(at.kind);
        let price = match at.last_cpu {
            Some(last) if last != cpu => costs.moved_ns,
            _ => costs.alone_ns,
        };
        self.instances[instance].last_cpu = Some(cpu);
        let steps = &mut self.threads[thread].steps;
        steps.push_front(Step::Run(price, Doing::Overhead));
    }

    fn own(&mut self, thread: usize, instance: usize) {
        let doing = self.threads[thread].doing;
        self.change(thread, doing);
        self.instances[instance].owner = Some(thread);
        let own = &mut self.threads[thread];
        own.has = Some(instance);
        own.wants = None;
        own.patience = None;
    }

    /// Enters the kernel to sleep for a mutex, marked so that its release will wake somebody.
    fn go_to_sleep(&mut self, thread: usize, instance: usize) {
        self.instances[instance].contended = true;
        let enter_ns = self.model.machine.enter_ns;
        let steps = &mut self.threads[thread].steps;
        steps.push_front(Step::Park(instance));
        steps.push_front(Step::Run(enter_ns, Doing::Overhead));
    }

    /// In the kernel: goes to sleep if the lock is still taken. It can be woken from here on, long before it sleeps.
    pub(super) fn park(&mut self, thread: usize, instance: usize) {
        let at = &mut self.instances[instance];
        at.contended = true;
        if at.owner.is_none() {
            return self.take(thread, instance);
        }
        at.queue.push_back(thread);
        let sleep_ns = self.model.machine.sleep_ns;
        let own = &mut self.threads[thread];
        own.woken = false;
        own.steps.push_front(Step::Sleep(instance));
        own.steps.push_front(Step::Run(sleep_ns, Doing::Overhead));
    }

    /// Leaves the processor, unless somebody has woken it on the way. True if it is still there.
    pub(super) fn sleep(&mut self, thread: usize, instance: usize) -> bool {
        self.threads[thread].wants = Some(instance);
        if std::mem::take(&mut self.threads[thread].woken) {
            return self.back_for_lock(thread);
        }
        self.leave(thread, Doing::Asleep);
        false
    }

    /// On a processor again, and was waiting for a lock: false if it goes on doing so.
    pub(super) fn back_for_lock(&mut self, thread: usize) -> bool {
        let Some(instance) = self.threads[thread].wants else {
            return true;
        };
        if self.threads[thread].has == Some(instance) {
            self.own(thread, instance);
            return true;
        }
        let at = &mut self.instances[instance];
        let spins = at.spinners.iter().position(|t| *t == thread);
        if at.owner.is_none() && !at.kind.is_in_order() {
            if let Some(place) = spins {
                at.spinners.swap_remove(place);
            } else {
                at.contended = true;
            }
            self.take(thread, instance);
            return true;
        }
        if spins.is_none() && !at.kind.is_in_order() {
            self.go_to_sleep(thread, instance);
            return true;
        }
        self.change(thread, Doing::Spin);
        self.threads[thread].left = None;
        self.resume(thread);
        false
    }

    /// An adaptive mutex was spun for long enough.
    pub(super) fn gives_up_spinning(&mut self, thread: usize) {
        self.threads[thread].patience = None;
        let Some(instance) = self.threads[thread].wants else {
            return;
        };
        self.instances[instance].spinners.retain(|t| *t != thread);
        self.go_to_sleep(thread, instance);
    }

    pub(super) fn release(&mut self, thread: usize, instance: usize) {
        let doing = self.threads[thread].doing;
        self.change(thread, doing);
        self.threads[thread].has = None;
        let at = &mut self.instances[instance];
        at.owner = None;
        if at.kind.is_in_order() {
            return self.hand_over(instance);
        }
        if at.kind.sleeps() && std::mem::take(&mut at.contended) && !at.queue.is_empty() {
            let wake_ns = self.model.machine.wake_ns;
            let steps = &mut self.threads[thread].steps;
            steps.push_front(Step::Run(wake_ns, Doing::Overhead));
            self.wake_one(instance);
        }
        self.plan_grab(instance);
    }

    /// To whoever came first.
    fn hand_over(&mut self, instance: usize) {
        let spinning = self.spinning(instance, true);
        let at = &mut self.instances[instance];
        let Some(next) = at.queue.pop_front() else {
            return;
        };
        at.owner = Some(next);
        let kind = at.kind;
        let doing = self.threads[next].doing;
        if let (Place::On(cpu), Doing::Spin) = (self.threads[next].place, doing) {
            self.instances[instance].last_cpu = Some(cpu);
            self.own(next, instance);
            let handoff = self.model.machine.handoff_ns(kind, spinning);
            self.work(next, handoff.max(1e-3), Doing::Spin);
        } else {
            // It will find out when it runs.
            self.change(next, doing);
            self.threads[next].has = Some(instance);
        }
    }

    /// Wakes who has slept longest for a mutex.
    fn wake_one(&mut self, instance: usize) {
        let Some(thread) = self.instances[instance].queue.pop_front() else {
            return;
        };
        if self.threads[thread].place != Place::Off {
            // It was still about to sleep.
            self.threads[thread].woken = true;
            return;
        }
        // An idle processor has to be called first, which takes now longer and now shorter: were it always the same, threads
        // could come when the lock is taken, over and over.
        let latency = match self.cpus.iter().any(|c| c.thread.is_none()) {
            true => {
                let mean_ns = self.model.machine.wake_latency_ns;
                Times::Spread { mean_ns, cv: 0.5 }.draw(&mut self.random)
            }
            false => self.model.machine.wake_ns,
        };
        self.events.plan(self.now + latency, Event::Wake { thread });
    }

    /// How many spin for a lock on a processor.
    fn spinning(&self, instance: usize, in_order: bool) -> usize {
        let at = &self.instances[instance];
        let runs = |t: &&usize| {
            let own = &self.threads[**t];
            own.doing == Doing::Spin && matches!(own.place, Place::On(_))
        };
        match in_order {
            true => at.queue.iter().filter(runs).count(),
            false => at.spinners.iter().filter(runs).count(),
        }
    }

    fn plan_grab(&mut self, instance: usize) {
        let spinning = self.spinning(instance, false);
        let at = &mut self.instances[instance];
        if spinning == 0 || at.grab_planned {
            return;
        }
        at.grab_planned = true;
        let handoff = self.model.machine.handoff_ns(at.kind, spinning);
        self.events
            .plan(self.now + handoff, Event::Grab { instance });
    }

    /// One of those that spin takes the lock, if it is still free.
    pub(super) fn grab(&mut self, instance: usize) {
        let at = &mut self.instances[instance];
        at.grab_planned = false;
        if at.owner.is_some() {
            return;
        }
        let threads = &self.threads;
        let runs = |place: &usize| {
            let own = &threads[at.spinners[*place]];
            own.doing == Doing::Spin && matches!(own.place, Place::On(_))
        };
        let running: Vec<usize> = (0..at.spinners.len()).filter(runs).collect();
        if running.is_empty() {
            return;
        }
        let place = running[self.random.below(running.len())];
        let thread = at.spinners.swap_remove(place);
        if let Place::On(cpu) = threads[thread].place {
            at.last_cpu = Some(cpu);
            // What was planned for it (the end of its patience) no longer holds.
            self.cpus[cpu].stamp += 1;
        }
        self.own(thread, instance);
        self.go_on(thread);
    }
}
