//! What a change would do: the answer of `dwell whatif`.
mod found;
mod question;

pub use found::{Found, found};
pub use question::Question;

use dwell_analysis::Analysis;
use dwell_whatif::{Change, Effort, Interval, Machine, Prediction, Terms, predict_all, remedies};
use serde::Serialize;

/// A figure with its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Bounds {
    /// Nine in ten runs of the simulation lie between this …
    pub low: f64,
    /// The median.
    pub likely: f64,
    /// … and this.
    pub high: f64,
}

impl From<Interval> for Bounds {
    fn from(of: Interval) -> Bounds {
        Bounds {
            low: of.low,
            likely: of.likely,
            high: of.high,
        }
    }
}

/// The lock that is meant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIfLock {
    /// Its name.
    pub name: String,
    /// How it is waited for.
    pub kind: String,
    /// Threads that take it.
    pub threads: usize,
    /// Work without it per acquisition, ns.
    pub think_ns: f64,
    /// Hold, ns.
    pub hold_ns: f64,
    /// How many threads keep it taken all the time; more only wait.
    pub useful_threads: f64,
}

/// What one change would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIfRow {
    /// The change in words.
    pub what: String,
    /// Threads that take the lock.
    pub threads: usize,
    /// Units per acquisition.
    pub batch: u32,
    /// Kind of lock.
    pub kind: String,
    /// Into how many it is divided.
    pub shards: u32,
    /// Holds times this.
    pub hold: f64,
    /// Processors.
    pub processors: usize,
    /// True where there are more processors than here, so nothing of that size was measured.
    pub larger_machine: bool,
    /// Units per second; none where rates are not known.
    pub units_per_s: Option<Bounds>,
    /// Units per second over those without the change.
    pub gain: Bounds,
    /// Time on processors per unit over that without the change.
    pub cpu_ratio: Bounds,
    /// Processors that only spin.
    pub wasted_processors: Bounds,
    /// Of all processors' time: in use.
    pub busy: Bounds,
    /// Share of the time that the lock is taken.
    pub utilisation: Bounds,
    /// Time waited for the lock, per unit, ns; none where rates are not known.
    pub waiting_per_unit_ns: Option<Bounds>,
    /// Where the queue is then, if at another lock than the one that is meant.
    pub queue_at: Option<String>,
    /// Where threads' time goes, by name, shares.
    pub terms: Vec<(String, Bounds)>,
    /// Which of them are most, in words.
    pub explanation: String,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIfAnswer {
    /// What was recorded.
    pub target: String,
    /// The lock that is meant.
    pub lock: WhatIfLock,
    /// Other locks in the model.
    pub others: Vec<String>,
    /// Units per second, as recorded.
    pub recorded_per_s: Option<f64>,
    /// What the simulation makes of the recording as it is, over what was recorded.
    pub reproduced: Option<Bounds>,
    /// Processors of the recording.
    pub processors: usize,
    /// True when remedies were tried and ranked, since nothing was asked for.
    pub ranked: bool,
    /// As it is.
    pub now: WhatIfRow,
    /// Changes, in the order asked for, or the best first.
    pub rows: Vec<WhatIfRow>,
    /// What is not known.
    pub notes: Vec<String>,
    /// Where the costs of locks and of the scheduler come from; empty where they are not measured ones.
    pub costs: String,
}

impl WhatIfAnswer {
    /// Computes it. `machine` is what the locks' costs were measured on. Fails with what to do about it.
    pub fn build(
        analysis: &Analysis<'_>,
        machine: Machine,
        question: &Question,
    ) -> Result<WhatIfAnswer, String> {
        let lock = question.lock.as_deref();
        let found = found(analysis, machine, lock, question.rate)?;
        let mut answer = WhatIfAnswer::of(&found, question)?;
        answer.target = analysis.tables.meta.target.clone();
        Ok(answer)
    }

    /// The same, of a model.
    pub fn of(found: &Found, question: &Question) -> Result<WhatIfAnswer, String> {
        let effort = Effort::default();
        let changes = question.changes(found.lock)?;
        let now = Change {
            lock: found.lock,
            ..Change::default()
        };
        let now = &predict_all(&found.model, &[now], effort)[0];
        let rows = match changes.is_empty() {
            true => remedies(&found.model, found.lock, effort)
                .into_iter()
                .map(|r| row(found, r.what, &r.prediction))
                .collect(),
            false => predict_all(&found.model, &changes, effort)
                .iter()
                .map(|p| row(found, question::words(&p.change), p))
                .collect(),
        };
        let reproduced = found.recorded_per_s.map(|recorded| {
            let ratio = now.throughput.scaled(1.0 / recorded.max(1e-9));
            Bounds::from(ratio)
        });
        let mut notes = found.notes.clone();
        if let Some(ratio) = reproduced.filter(|r| (r.likely - 1.0).abs() > 0.15) {
            notes.push(format!(
                "simulated as it is the program does {:.2} times what was recorded: the model misses something, so ratios \
                 are worth more than rates",
                ratio.likely
            ));
        }
        let (think_ns, hold_ns) = found
            .model
            .think_and_hold_ns(found.lock)
            .unwrap_or_default();
        let meant = &found.model.locks[found.lock];
        let moved_ns = found.model.machine.cost(meant.kind).moved_ns;
        notes.extend(short_turns(think_ns + hold_ns, moved_ns));
        let others = found.model.locks.iter().enumerate();
        Ok(WhatIfAnswer {
            target: String::new(),
            lock: WhatIfLock {
                name: meant.name.clone(),
                kind: meant.kind.name().to_owned(),
                threads: found.model.threads_of(found.lock),
                think_ns,
                hold_ns,
                useful_threads: found.model.useful_threads(found.lock).unwrap_or(0.0),
            },
            others: others
                .filter(|(position, _)| *position != found.lock)
                .map(|(_, lock)| lock.name.clone())
                .collect(),
            recorded_per_s: found.recorded_per_s,
            reproduced,
            processors: found.model.machine.processors,
            ranked: changes.is_empty(),
            now: row(found, "as it is".to_owned(), now),
            rows,
            notes,
            costs: String::new(),
        })
    }
}

/// Turns in which a lock that moves to another processor is a good part: what it protects moves, too, and that is taken for
/// work.
const SHORT_TURNS: f64 = 10.0;

/// What to say of a thread that takes the lock every `turn_ns`, where the lock's own moving costs `moved_ns`.
fn short_turns(turn_ns: f64, moved_ns: f64) -> Option<String> {
    (turn_ns > 0.0 && turn_ns < SHORT_TURNS * moved_ns).then(|| {
        format!(
            "a thread takes this lock every {turn_ns:.0} ns: at so short turns much of its work is memory that moves between \
             processors with the lock, which is not simulated; one thread alone may do several times what is said here"
        )
    })
}

fn row(found: &Found, what: String, of: &Prediction) -> WhatIfRow {
    let changed = found.model.with(&of.change);
    let lock = &changed.locks[found.lock];
    let queues = of.queues.iter().enumerate();
    let longest = queues.max_by(|a, b| a.1.likely.total_cmp(&b.1.likely));
    let moved = longest.filter(|(l, q)| *l != found.lock && q.likely > 0.5);
    let terms = terms(&of.terms);
    WhatIfRow {
        what,
        threads: changed.threads_of(found.lock),
        batch: of.change.batch.unwrap_or(1),
        kind: lock.kind.name().to_owned(),
        shards: lock.shards,
        hold: of.change.hold.unwrap_or(1.0),
        processors: changed.machine.processors,
        larger_machine: changed.machine.processors > found.model.machine.processors,
        units_per_s: found.recorded_per_s.map(|_| of.throughput.into()),
        gain: of.gain.into(),
        cpu_ratio: of.cpu_ratio.into(),
        wasted_processors: of.wasted_processors.into(),
        busy: of.busy.into(),
        utilisation: of.utilisation.into(),
        waiting_per_unit_ns: found.recorded_per_s.map(|_| of.waiting_per_unit_ns.into()),
        queue_at: moved.map(|(l, _)| found.model.locks[l].name.clone()),
        explanation: explanation(&terms, of),
        terms,
    }
}

fn terms(of: &Terms) -> Vec<(String, Bounds)> {
    let named = [
        ("work without a lock", of.think),
        ("work with a lock", of.hold),
        ("spinning", of.spin),
        ("locking, sleeping, waking, switching", of.overhead),
        ("wanting a processor", of.ready),
        ("asleep for a lock", of.asleep),
        ("asleep for other things", of.away),
    ];
    named
        .map(|(name, share)| (name.to_owned(), share.into()))
        .to_vec()
}

/// Which terms are most.
fn explanation(terms: &[(String, Bounds)], of: &Prediction) -> String {
    let mut most: Vec<&(String, Bounds)> = terms.iter().filter(|t| t.1.likely >= 0.1).collect();
    most.sort_by(|a, b| b.1.likely.total_cmp(&a.1.likely));
    let told: Vec<String> = most
        .iter()
        .map(|(name, share)| format!("{} {:.0} %", name, share.likely * 100.0))
        .collect();
    let bound = if of.utilisation.likely > 0.9 {
        "the lock is always taken"
    } else if of.busy.likely > 0.95 {
        "the processors are the limit"
    } else {
        "neither lock nor processors are the limit"
    };
    let stalled = match of.stalled.likely {
        share if share > 0.05 => {
            format!(
                "; {:.0} % of the time its owner does not run",
                share * 100.0
            )
        }
        _ => String::new(),
    };
    format!("{bound}{stalled}; threads' time: {}", told.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_turns_are_told_of() {
        assert!(short_turns(400.0, 50.0).is_some_and(|note| note.contains("every 400 ns")));
        assert_eq!(short_turns(600.0, 50.0), None);
        assert_eq!(short_turns(0.0, 50.0), None);
    }
}
