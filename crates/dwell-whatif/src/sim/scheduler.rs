//! Who runs. Every processor has a queue of its own: of those in it the one that ran least is next, and it stays for a
//! slice while others wait there. Who is woken goes to a processor that is idle, else to the one it was on. Threads move
//! when a processor has nothing to do, or two less than another; so of three threads on two processors one has a
//! processor to itself for long, and the others take turns.
use super::events::Event;
use super::tally::Doing;
use super::thread::Place;
use super::{Run, Step};

#[derive(Debug, Default)]
pub(super) struct Cpu {
    pub thread: Option<usize>,
    /// Threads that wait for it.
    ready: Vec<usize>,
    /// Time on a processor of the thread that was put here last: where those that slept go on.
    least_ran_ns: f64,
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
        let idle = |cpu: &usize| self.cpus[*cpu].thread.is_none();
        let last = self.threads[thread].last_cpu;
        let found = match self.busy < self.cpus.len() {
            true => last
                .filter(idle)
                .or_else(|| (0..self.cpus.len()).find(idle)),
            false => None,
        };
        let shortest = || (0..self.cpus.len()).min_by_key(|cpu| self.cpus[*cpu].ready.len());
        let Some(cpu) = found.or(last).or_else(shortest) else {
            return;
        };
        self.enqueue(thread, cpu);
        if self.cpus[cpu].thread.is_none() {
            return self.dispatch(cpu);
        }
        // Whoever has had its slice makes room at once.
        if self.now - self.cpus[cpu].came >= self.model.machine.slice_ns {
            self.preempt(cpu);
        }
    }

    /// Lets a thread wait for a processor. Neither who slept long is let run for all that time at once, nor does what it
    /// had elsewhere count here.
    fn enqueue(&mut self, thread: usize, cpu: usize) {
        let slice_ns = self.model.machine.slice_ns;
        let at = &mut self.cpus[cpu];
        let own = &mut self.threads[thread];
        own.ran_ns = own
            .ran_ns
            .clamp(at.least_ran_ns - slice_ns, at.least_ran_ns + slice_ns);
        own.last_cpu = Some(cpu);
        at.ready.push(thread);
        self.ready += 1;
    }

    /// Moves a thread here from the processor that most wait for, if there are so many more than here.
    fn pull(&mut self, cpu: usize, more: usize) {
        let here = self.load(cpu);
        // Most processors have nobody waiting, most of the time.
        if self.ready == 0 {
            return;
        }
        let waited_for = (0..self.cpus.len()).filter(|c| !self.cpus[*c].ready.is_empty());
        let Some(most) = waited_for.max_by_key(|c| self.load(*c)) else {
            return;
        };
        if self.load(most) < here + more {
            return;
        }
        // The one that has waited longest is the coldest.
        let thread = self.cpus[most].ready.remove(0);
        self.ready -= 1;
        self.enqueue(thread, cpu);
    }

    /// Threads that are on a processor or wait for it.
    fn load(&self, cpu: usize) -> usize {
        let at = &self.cpus[cpu];
        at.ready.len() + usize::from(at.thread.is_some())
    }

    pub(super) fn slice_ends(&mut self, cpu: usize) {
        self.pull(cpu, 2);
        if !self.cpus[cpu].ready.is_empty() {
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
        self.vacate(thread, Doing::Ready);
        let own = &mut self.threads[thread];
        own.place = Place::Ready;
        own.left = left;
        own.patience = patience;
        // Goes on with the same when it is back.
        if let Some(ns) = own.left.take() {
            own.steps.push_front(Step::Run(ns, was));
        }
        self.cpus[cpu].ready.push(thread);
        self.ready += 1;
        self.dispatch(cpu);
    }

    /// Takes a thread off its processor and gives that to another.
    pub(super) fn leave(&mut self, thread: usize, doing: Doing) {
        if let Some(cpu) = self.vacate(thread, doing) {
            if self.cpus[cpu].ready.is_empty() {
                self.pull(cpu, 2);
            }
            self.dispatch(cpu);
        }
    }

    /// Takes a thread off its processor.
    fn vacate(&mut self, thread: usize, doing: Doing) -> Option<usize> {
        let Place::On(cpu) = self.threads[thread].place else {
            return None;
        };
        self.change(thread, doing);
        self.threads[thread].place = Place::Off;
        let at = &mut self.cpus[cpu];
        self.tally.busy_ns += self.now - at.since;
        at.thread = None;
        self.busy -= 1;
        at.stamp += 1;
        at.stay += 1;
        Some(cpu)
    }

    /// Puts the thread that ran least of those that wait for a free processor there.
    fn dispatch(&mut self, cpu: usize) {
        let ready = &self.cpus[cpu].ready;
        let ran = |thread: &usize| self.threads[*thread].ran_ns;
        let least = (0..ready.len()).min_by(|a, b| ran(&ready[*a]).total_cmp(&ran(&ready[*b])));
        let Some(place) = least else {
            return;
        };
        let thread = self.cpus[cpu].ready.remove(place);
        self.ready -= 1;
        let at = &mut self.cpus[cpu];
        at.least_ran_ns = at.least_ran_ns.max(self.threads[thread].ran_ns);
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
