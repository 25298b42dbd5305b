//! Threads and their programs, locks, and what may change about them.
use crate::closed;
use crate::machine::{Kind, Machine};
use crate::random::Random;
use crate::sim::{self, Doing, Limits};
use crate::times::Times;

/// A lock that threads take.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// What a person calls it.
    pub name: String,
    /// How it is waited for.
    pub kind: Kind,
    /// Into how many it is divided; each acquisition takes one of them.
    pub shards: u32,
}

/// That threads take a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Position in [`Model::locks`].
    pub lock: usize,
    /// Acquisitions per unit of work.
    pub per_unit: f64,
    /// How long the lock is held, running at full speed.
    pub hold: Times,
    /// How long its owner sleeps with it, beside that.
    pub asleep: Times,
}

/// Threads with the same program.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// What a person calls them.
    pub name: String,
    /// How many.
    pub threads: usize,
    /// Time on a processor without a lock, per unit of work, at full speed.
    pub think: Times,
    /// Time asleep (I/O, timers), per unit of work, without a lock.
    pub away: Times,
    /// The locks they take.
    pub visits: Vec<Visit>,
}

/// How well a model's numbers are known: relative standard deviations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Uncertainty {
    /// Of the time without a lock.
    pub think: f64,
    /// Of holds.
    pub hold: f64,
    /// Of the machine's costs.
    pub costs: f64,
    /// Of what the model makes of all that: how wrong it is even if the rest is right.
    pub model: f64,
    /// The same where a lock is handed over in order to threads that may have no processor: all hangs on when slices end.
    pub in_order: f64,
}

/// A program on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Its threads.
    pub classes: Vec<Class>,
    /// Its locks.
    pub locks: Vec<Lock>,
    /// What it runs on.
    pub machine: Machine,
    /// How well all this is known.
    pub uncertainty: Uncertainty,
}

/// What a profile tells of threads that take a unit of work per acquisition of one spin lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpinShares {
    /// Number of threads.
    pub threads: usize,
    /// How long they were at it, by the clock, ns.
    pub elapsed_ns: f64,
    /// Their time on processors, ns.
    pub running_ns: f64,
    /// Of that: spinning for the lock, ns.
    pub spinning_ns: f64,
    /// Units done meanwhile.
    pub units: f64,
    /// How the lock is waited for.
    pub kind: Kind,
}

/// What is to be different. What is none stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    /// The lock that is meant: position in [`Model::locks`].
    pub lock: usize,
    /// Number of threads that take the lock, of all classes together.
    pub threads: Option<usize>,
    /// Units of work per acquisition, of one now.
    pub batch: Option<u32>,
    /// How much of a hold is done once per unit rather than once per acquisition, 0 to 1: what a larger batch makes longer.
    pub hold_per_unit: f64,
    /// Another kind of lock.
    pub kind: Option<Kind>,
    /// Into how many the lock is divided.
    pub shards: Option<u32>,
    /// Holds times this.
    pub hold: Option<f64>,
    /// Number of processors.
    pub processors: Option<usize>,
}

impl Visit {
    /// Mean time that the lock is held, ns.
    fn held_ns(&self) -> f64 {
        self.hold.mean_ns() + self.asleep.mean_ns()
    }
}

/// Threads that do a unit per acquisition of one lock.
fn spinners(shares: &SpinShares, machine: Machine, useful_ns: f64, hold_ns: f64) -> Model {
    let spread = |mean_ns: f64| Times::Spread { mean_ns, cv: 0.3 };
    Model {
        classes: vec![Class {
            name: "threads".into(),
            threads: shares.threads,
            think: spread((useful_ns - hold_ns).max(0.0)),
            away: Times::fixed(0.0),
            visits: vec![Visit {
                lock: 0,
                per_unit: 1.0,
                hold: spread(hold_ns),
                asleep: Times::fixed(0.0),
            }],
        }],
        locks: vec![Lock {
            name: "lock".into(),
            kind: shares.kind,
            shards: 1,
        }],
        machine,
        uncertainty: Uncertainty {
            think: 0.05,
            hold: 0.05,
            costs: 0.2,
            ..Uncertainty::of_model()
        },
    }
}

impl Uncertainty {
    /// What is not known even if all that a recording can tell is: how wrong predictions for other cells than the
    /// recorded one were in `dwell bench whatif`, most of it the drift of the machine's own speed.
    pub fn of_model() -> Uncertainty {
        Uncertainty {
            model: 0.07,
            in_order: 0.25,
            ..Uncertainty::default()
        }
    }
}

/// Of the time on processors: spinning.
fn spinning_share(model: &Model) -> f64 {
    let limits = Limits {
        elapsed_ns: 2e9,
        events: 150_000,
    };
    let tally = sim::run(model, limits, 1);
    tally.time(Doing::Spin) / tally.busy_ns.max(1.0)
}

impl Model {
    /// From shares of a profile.
    ///
    /// Where every thread has a processor the lock is taken to be saturated, which much spinning shows: then a unit takes
    /// a hold and a hand-over. A hand-over is spent spinning; what remains of the useful time beside the hold is
    /// work without the lock. Where there are more threads than processors, or little spinning, the hold is the
    /// one with which a simulation spins as much.
    pub fn of_spin_shares(shares: &SpinShares, machine: Machine) -> Model {
        let spinning = shares.spinning_ns / shares.running_ns.max(1.0);
        let is_saturated = spinning > 0.3 && shares.threads <= machine.processors;
        let useful_ns = (shares.running_ns - shares.spinning_ns).max(0.0) / shares.units;
        if is_saturated {
            let turn_ns = shares.elapsed_ns / shares.units;
            let waiters = shares.threads as f64 * spinning;
            let handoff_ns = machine.handoff_ns(shares.kind, waiters as usize);
            // A hand-over cannot be all of it: the least that a lock protects is a few instructions.
            let hold_ns = (turn_ns - handoff_ns).max(turn_ns / 10.0).min(useful_ns);
            return spinners(shares, machine, useful_ns, hold_ns);
        }
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..10 {
            let middle = (low + high) / 2.0;
            let model = spinners(shares, machine.clone(), useful_ns, useful_ns * middle);
            match spinning_share(&model) < spinning {
                true => low = middle,
                false => high = middle,
            }
        }
        spinners(shares, machine, useful_ns, useful_ns * (low + high) / 2.0)
    }

    /// The model with a change made.
    pub fn with(&self, change: &Change) -> Model {
        let mut model = self.clone();
        if let Some(processors) = change.processors {
            model.machine.processors = processors.max(1);
        }
        if let Some(lock) = model.locks.get_mut(change.lock) {
            lock.kind = change.kind.unwrap_or(lock.kind);
            lock.shards = change.shards.unwrap_or(lock.shards).max(1);
        }
        if let Some(threads) = change.threads {
            model.set_threads(change.lock, threads);
        }
        let batch = f64::from(change.batch.unwrap_or(1).max(1));
        let longer = 1.0 + change.hold_per_unit * (batch - 1.0);
        let hold = change.hold.unwrap_or(1.0).max(0.0) * longer;
        for visit in model.visits_mut(change.lock) {
            visit.per_unit /= batch;
            visit.hold = visit.hold.scaled(hold);
            visit.asleep = visit.asleep.scaled(hold);
        }
        model
    }

    fn visits_mut(&mut self, lock: usize) -> impl Iterator<Item = &mut Visit> {
        let visits = self.classes.iter_mut().flat_map(|c| &mut c.visits);
        visits.filter(move |v| v.lock == lock)
    }

    /// Divides `threads` over the classes that take the lock, as they are divided now.
    fn set_threads(&mut self, lock: usize, threads: usize) {
        let takes = |c: &Class| c.visits.iter().any(|v| v.lock == lock);
        let now = self.threads_of(lock);
        let (mut left, mut left_now) = (threads, now);
        for class in self.classes.iter_mut().filter(|c| takes(c)) {
            let own = class.threads;
            class.threads = (left * own + left_now / 2)
                .checked_div(left_now)
                .unwrap_or(0);
            left -= class.threads.min(left);
            left_now -= own;
        }
    }

    /// How many threads take the lock.
    pub fn threads_of(&self, lock: usize) -> usize {
        let takes = |c: &&Class| c.visits.iter().any(|v| v.lock == lock);
        self.classes.iter().filter(takes).map(|c| c.threads).sum()
    }

    /// Mean time without and with the lock per acquisition, as if nobody waited, ns.
    pub fn think_and_hold_ns(&self, lock: usize) -> Option<(f64, f64)> {
        let (mut think, mut hold, mut acquisitions) = (0.0, 0.0, 0.0);
        for class in &self.classes {
            let threads = class.threads as f64;
            let own: f64 = class.visits.iter().map(|v| v.per_unit * v.held_ns()).sum();
            let unit = class.think.mean_ns() + class.away.mean_ns() + own;
            for visit in class.visits.iter().filter(|v| v.lock == lock) {
                let held = visit.per_unit * visit.held_ns();
                hold += threads * held;
                think += threads * (unit - held);
                acquisitions += threads * visit.per_unit;
            }
        }
        (acquisitions > 0.0).then(|| (think / acquisitions, hold / acquisitions))
    }

    /// How many threads keep the lock taken ([`closed::useful_threads`]), a hand-over counted to the hold.
    pub fn useful_threads(&self, lock: usize) -> Option<f64> {
        let (think, hold) = self.think_and_hold_ns(lock)?;
        let kind = self.locks.get(lock)?.kind;
        let threads = self.threads_of(lock).min(self.machine.processors);
        let turn = hold + self.machine.handoff_ns(kind, threads.saturating_sub(1));
        Some(closed::useful_threads(think, turn))
    }

    /// A model whose numbers differ by as much as they are not known.
    pub(crate) fn drawn(&self, random: &mut Random) -> Model {
        let mut model = self.clone();
        let think = random.factor(self.uncertainty.think);
        for class in &mut model.classes {
            class.think = class.think.scaled(think);
            for visit in &mut class.visits {
                let hold = random.factor(self.uncertainty.hold);
                visit.hold = visit.hold.scaled(hold);
            }
        }
        let machine = &mut model.machine;
        for costs in &mut machine.costs {
            let factor = random.factor(self.uncertainty.costs);
            costs.alone_ns *= factor;
            costs.moved_ns *= factor;
            costs.handoff_ns *= factor;
            costs.per_waiter_ns *= factor;
        }
        for ns in [
            &mut machine.switch_ns,
            &mut machine.wake_latency_ns,
            &mut machine.wake_ns,
            &mut machine.enter_ns,
            &mut machine.sleep_ns,
            &mut machine.spin_ns,
        ] {
            *ns *= random.factor(self.uncertainty.costs);
        }
        model
    }
}
