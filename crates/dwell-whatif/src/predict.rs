//! What a change comes to, as intervals.
use crate::interval::Interval;
use crate::model::{Change, Model};
use crate::random::Random;
use crate::sim::{self, Doing, Limits, Tally};

/// How much is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Runs, each with other random numbers and with what is not known well drawn anew.
    pub runs: u32,
    /// Virtual time of a run, ns.
    pub elapsed_ns: f64,
    /// Events of a run, at most.
    pub events: u64,
    /// Where random numbers begin.
    pub seed: u64,
}

impl Default for Effort {
    fn default() -> Effort {
        Effort {
            runs: 7,
            elapsed_ns: 4e9,
            events: 120_000,
            seed: 1,
        }
    }
}

impl Effort {
    fn limits(&self) -> Limits {
        Limits {
            elapsed_ns: self.elapsed_ns,
            events: self.events,
        }
    }
}

/// Where threads' time goes: shares of threads × time, which add up to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Running without the lock.
    pub think: Interval,
    /// Running with it.
    pub hold: Interval,
    /// Spinning.
    pub spin: Interval,
    /// Taking and handing over locks, going to sleep, waking, switching.
    pub overhead: Interval,
    /// Wanting a processor.
    pub ready: Interval,
    /// Asleep for a lock.
    pub asleep: Interval,
    /// Asleep for other things.
    pub away: Interval,
}

/// What is predicted of one change.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// What was asked.
    pub change: Change,
    /// Units per second.
    pub throughput: Interval,
    /// Units per second, divided by those without the change.
    pub gain: Interval,
    /// Processors' time per unit, ns.
    pub cpu_per_unit_ns: Interval,
    /// That, divided by what it is without the change.
    pub cpu_ratio: Interval,
    /// Processors that only spin.
    pub wasted_processors: Interval,
    /// Of the time on processors: spinning.
    pub spinning_share: Interval,
    /// Waiting for the lock, per acquisition's unit, ns.
    pub waiting_per_unit_ns: Interval,
    /// Share of the time that the lock is taken (its shards' mean).
    pub utilisation: Interval,
    /// By lock, all of them: share of the time that it is taken.
    pub utilisations: Vec<Interval>,
    /// By lock: mean number of threads that wait for it.
    pub queues: Vec<Interval>,
    /// Share of the time that the lock is with a thread that does not run.
    pub stalled: Interval,
    /// Share of processors' time in use.
    pub busy: Interval,
    /// Where threads' time goes.
    pub terms: Terms,
}

/// Predicts one change.
pub fn predict(model: &Model, change: &Change, effort: Effort) -> Prediction {
    predict_all(model, std::slice::from_ref(change), effort)
        .pop()
        .expect("a change gives a prediction")
}

/// Predicts several changes, each from the same draws of what is not known.
pub fn predict_all(model: &Model, changes: &[Change], effort: Effort) -> Vec<Prediction> {
    let mut before = Vec::new();
    let mut after: Vec<Vec<Figures>> = vec![Vec::new(); changes.len()];
    for run in 0..effort.runs.max(1) {
        let seed = effort
            .seed
            .wrapping_mul(1_000_003)
            .wrapping_add(u64::from(run));
        // The first run has what is likely.
        let drawn = match run {
            0 => model.clone(),
            _ => model.drawn(&mut Random::new(seed)),
        };
        before.push(Figures::of(&drawn, effort.limits(), seed));
        for (change, runs) in changes.iter().zip(&mut after) {
            let changed = drawn.with(change);
            runs.push(Figures::of(&changed, effort.limits(), seed ^ 0x5eed));
        }
    }
    let predictions = changes.iter().zip(&after);
    predictions
        .map(|(change, runs)| {
            let deviation = deviation(model, change);
            prediction(change, runs, &before).widened(deviation)
        })
        .collect()
}

/// How wrong the model itself may be about a change.
fn deviation(model: &Model, change: &Change) -> f64 {
    let changed = model.with(change);
    let threads: usize = changed.classes.iter().map(|c| c.threads).sum();
    let in_order = changed
        .locks
        .get(change.lock)
        .is_some_and(|l| l.kind.is_in_order());
    match in_order && threads > changed.machine.processors {
        true => model.uncertainty.in_order.max(model.uncertainty.model),
        false => model.uncertainty.model,
    }
}

impl Prediction {
    /// With wider bounds of what is done and what it takes.
    fn widened(mut self, deviation: f64) -> Prediction {
        let nothing_changed = Change {
            lock: self.change.lock,
            ..Change::default()
        };
        for interval in [&mut self.throughput, &mut self.cpu_per_unit_ns] {
            *interval = interval.widened(deviation);
        }
        // As it is, it is once what it is.
        if self.change != nothing_changed {
            for interval in [&mut self.gain, &mut self.cpu_ratio] {
                *interval = interval.widened(deviation);
            }
        }
        self
    }
}

/// What one run came to.
#[derive(Clone, Debug)]
struct Figures {
    tally: Tally,
    threads: f64,
    processors: f64,
    shards: Vec<f64>,
}

impl Figures {
    fn of(model: &Model, limits: Limits, seed: u64) -> Figures {
        Figures {
            tally: sim::run(model, limits, seed),
            threads: model.classes.iter().map(|c| c.threads as f64).sum(),
            processors: model.machine.processors.max(1) as f64,
            shards: model
                .locks
                .iter()
                .map(|l| f64::from(l.shards.max(1)))
                .collect(),
        }
    }

    fn throughput(&self) -> f64 {
        over(self.tally.units, self.tally.elapsed_ns) * 1e9
    }

    fn cpu_per_unit_ns(&self) -> f64 {
        over(self.tally.busy_ns, self.tally.units)
    }

    fn utilisation(&self, lock: usize) -> f64 {
        let held = self.tally.held_ns.get(lock).copied().unwrap_or(0.0);
        let shards = self.shards.get(lock).copied().unwrap_or(1.0);
        over(held, self.tally.elapsed_ns * shards)
    }

    fn queue(&self, lock: usize) -> f64 {
        let waited = self.tally.waited_ns.get(lock).copied().unwrap_or(0.0);
        over(waited, self.tally.elapsed_ns)
    }

    fn term(&self, doing: Doing) -> f64 {
        over(self.tally.time(doing), self.tally.elapsed_ns * self.threads)
    }
}

fn over(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn prediction(change: &Change, runs: &[Figures], before: &[Figures]) -> Prediction {
    let of = |figure: &dyn Fn(&Figures) -> f64| Interval::of(runs.iter().map(figure).collect());
    let ratio = |figure: &dyn Fn(&Figures) -> f64| {
        let pairs = runs.iter().zip(before);
        Interval::of(pairs.map(|(a, b)| over(figure(a), figure(b))).collect())
    };
    let lock = change.lock;
    let locks = 0..runs[0].shards.len();
    let term = |doing: Doing| of(&|r| r.term(doing));
    let stalled = |r: &Figures| {
        let ns = r.tally.stalled_ns.get(lock).copied().unwrap_or(0.0);
        over(
            ns,
            r.tally.elapsed_ns * r.shards.get(lock).copied().unwrap_or(1.0),
        )
    };
    Prediction {
        change: change.clone(),
        throughput: of(&Figures::throughput),
        gain: ratio(&Figures::throughput),
        cpu_per_unit_ns: of(&Figures::cpu_per_unit_ns),
        cpu_ratio: ratio(&Figures::cpu_per_unit_ns),
        wasted_processors: of(&|r| over(r.tally.time(Doing::Spin), r.tally.elapsed_ns)),
        spinning_share: of(&|r| over(r.tally.time(Doing::Spin), r.tally.busy_ns)),
        waiting_per_unit_ns: of(&|r| {
            over(
                r.tally.waited_ns.get(lock).copied().unwrap_or(0.0),
                r.tally.units,
            )
        }),
        utilisation: of(&|r| r.utilisation(lock)),
        utilisations: locks.clone().map(|l| of(&|r| r.utilisation(l))).collect(),
        queues: locks.map(|l| of(&|r| r.queue(l))).collect(),
        stalled: of(&stalled),
        busy: of(&|r| over(r.tally.busy_ns, r.tally.elapsed_ns * r.processors)),
        terms: Terms {
            think: term(Doing::Think),
            hold: term(Doing::Hold),
            spin: term(Doing::Spin),
            overhead: term(Doing::Overhead),
            ready: term(Doing::Ready),
            asleep: term(Doing::Asleep),
            away: term(Doing::Away),
        },
    }
}
