//! Who runs. Of those that want a processor the one that ran least is next; it stays for a slice while
//! others wait.
use super::events::Event;
use super::tally::Doing;
use super::thread::Place;
use super::{Run, Step};

#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub thread: Option<usize>,
    /// Since when time of it is not told yet, ns.
    pub since: f64,
    /// When its thread came.
    came: f64,
    /// Of the step that is going on: at full speed 1 ns takes so many.
    slowdown: f64,
    /// Changes with what is done there.
    pub stamp: u64,
    /// Changes with the thread.
    pub stay: u64,
}

impl Run<'_> {
    /// Puts a thread to work on its processor.
    pub(super) fn work(&mut self, thread: usize, ns: f64, doing: Doing) {
        self.change(thread, doing);
        self.threads[thread].left = Some(ns);
        self.resume(thread);
    }

    /// Plans the end of what the thread does.
    pub(super) fn resume(&mut self, thread: usize) {
        let Place::On(cpu) = self.threads[thread].place else {
            return;
        };
        let busy = self.busy;
        let own = &mut self.threads[thread];
        own.began = self.now;
        let slowdown = match own.doing {
            Doing::Think | Doing::Hold => self.model.machine.slowdown(busy),
            _ => 1.0,
        };
        let lasts = own.left.map(|ns| ns * slowdown).or(own.patience);
        let at = &mut self.cpus[cpu];
        at.stamp += 1;
        at.slowdown = slowdown;
        if let Some(ns) = lasts {
            let stamp = at.stamp;
            self.events.plan(self.now + ns, Event::Done { cpu, stamp });
        }
    }

    /// A thread wants a processor.
    pub(super) fn wake(&mut self, thread: usize) {
        self.change(thread, Doing::Ready);
        self.threads[thread].place = Place::Ready;
        let own = &mut self.threads[thread];
        // Who slept long is not let run for all that time at once.
        let floor = self.least_ran_ns - self.model.machine.slice_ns;
        own.ran_ns = own.ran_ns.max(floor);
        self.ready.push(thread);
        if self.busy < self.cpus.len()
            && let Some(cpu) = self.cpus.iter().position(|c| c.thread.is_none())
        {
            return self.dispatch(cpu);
        }
        // Whoever has had its slice makes room at once.
        let (now, slice) = (self.now, self.model.machine.slice_ns);
        let had = |cpu: &usize| now - self.cpus[*cpu].came >= slice;
        let longest = (0..self.cpus.len()).filter(had).min_by(|a, b| {
            let came = |cpu: &usize| self.cpus[*cpu].came;
            came(a).total_cmp(&came(b))
        });
        if let Some(cpu) = longest {
            self.preempt(cpu);
        }
    }

    pub(super) fn slice_ends(&mut self, cpu: usize) {
        if !self.ready.is_empty() {
            return self.preempt(cpu);
        }
        self.plan_slice(cpu);
    }

    /// Slices end at a tick, whose phase is any.
    fn plan_slice(&mut self, cpu: usize) {
        let slice = self.model.machine.slice_ns * (0.75 + 0.5 * self.random.unit());
        let stamp = self.cpus[cpu].stay;
        self.events
            .plan(self.now + slice, Event::Slice { cpu, stamp });
    }

    fn preempt(&mut self, cpu: usize) {
        let Some(thread) = self.cpus[cpu].thread else {
            return;
        };
        let slowdown = self.cpus[cpu].slowdown.max(1.0);
        let own = &self.threads[thread];
        let spent = self.now - own.began;
        let left = own.left.map(|ns| (ns - spent / slowdown).max(0.0));
        let patience = own.patience.map(|ns| (ns - spent).max(0.0));
        let was = own.doing;
        self.leave(thread, Doing::Ready);
        let own = &mut self.threads[thread];
        own.place = Place::Ready;
        own.left = left;
        own.patience = patience;
        // Goes on with the same when it is back.
        if let Some(ns) = own.left.take() {
            own.steps.push_front(Step::Run(ns, was));
        }
        self.ready.push(thread);
        if self.cpus[cpu].thread.is_none() {
            self.dispatch(cpu);
        }
    }

    /// Takes a thread off its processor and gives that to another.
    pub(super) fn leave(&mut self, thread: usize, doing: Doing) {
        let Place::On(cpu) = self.threads[thread].place else {
            return;
        };
        self.change(thread, doing);
        self.threads[thread].place = Place::Off;
        let at = &mut self.cpus[cpu];
        self.tally.busy_ns += self.now - at.since;
        at.thread = None;
        self.busy -= 1;
        at.stamp += 1;
        at.stay += 1;
        if !self.ready.is_empty() {
            self.dispatch(cpu);
        }
    }

    /// Puts the thread that ran least on a free processor.
    fn dispatch(&mut self, cpu: usize) {
        let ran = |thread: &usize| self.threads[*thread].ran_ns;
        let least = (0..self.ready.len())
            .min_by(|a, b| ran(&self.ready[*a]).total_cmp(&ran(&self.ready[*b])));
        let Some(place) = least else {
            return;
        };
        let thread = self.ready.swap_remove(place);
        self.least_ran_ns = self.least_ran_ns.max(self.threads[thread].ran_ns);
        self.change(thread, Doing::Overhead);
        self.threads[thread].place = Place::On(cpu);
        let at = &mut self.cpus[cpu];
        at.thread = Some(thread);
        self.busy += 1;
        at.since = self.now;
        at.came = self.now;
        self.plan_slice(cpu);
        let switch_ns = self.model.machine.switch_ns;
        self.tally.switch_ns += switch_ns;
        if self.threads[thread].wants.is_some() {
            self.threads[thread].steps.push_front(Step::Resume);
        }
        self.work(thread, switch_ns.max(1e-3), Doing::Overhead);
    }
}
