//! A recording into a model of its threads and locks.
use crate::answer::LockNames;
use dwell_analysis::Analysis;
use dwell_analysis::locks::demand::{self, LockDemand, Work};
use dwell_analysis::spinning;
use dwell_analysis::state::State;
use dwell_recording::rows::{LockRow, lock_kind};
use dwell_whatif::{Class, Kind, Lock, Machine, Model, SpinShares, Times, Uncertainty, Visit};
use std::collections::BTreeSet;

/// Locks that are looked at; those that cost most.
const LOCKS: usize = 6;
/// Useful time that a unit is taken to need where nothing tells, ns.
const ASSUMED_UNIT_NS: f64 = 5_000.0;
/// How much times differ from one to the next where nothing tells: standard deviation over mean.
const ASSUMED_SPREAD: f64 = 0.3;

/// What a machine's speed differs by from one run to another, at least: relative standard deviation.
const LEAST_UNCERTAIN: f64 = 0.05;

/// A model, and how it came about.
#[derive(Clone, Debug)]
pub struct Found {
    /// The model: what is done per unit, which is an acquisition of the lock that is meant.
    pub model: Model,
    /// The lock that is meant: position in the model's locks.
    pub lock: usize,
    /// Units per second, as recorded or told; none where they are not known, and only ratios mean something.
    pub recorded_per_s: Option<f64>,
    /// What is not known, and what was taken for it.
    pub notes: Vec<String>,
}

/// The model of what a recording tells. `wanted` is a part of the lock's name, or of the function that spins for it; without
/// it the lock that costs most is meant. `rate` is how many units per second the program says it did, for spin locks of its
/// own. Fails with what to do about it.
pub fn found(
    analysis: &Analysis<'_>,
    machine: Machine,
    wanted: Option<&str>,
    rate: Option<f64>,
) -> Result<Found, String> {
    let demands: Vec<LockDemand> = demand::demands(analysis, LOCKS)
        .into_iter()
        .filter(|d| d.per_s > 0.0 && kind(&analysis.tables.locks[d.lock]).is_some())
        .collect();
    let names = LockNames::of(analysis);
    let name = |d: &LockDemand| names.name(analysis, &analysis.tables.locks[d.lock]);
    let spinners = Spinners::of(analysis, wanted);
    let counted = match wanted {
        Some(text) => demands.iter().position(|d| name(d).contains(text)),
        None => (!demands.is_empty()).then_some(0),
    };
    let spins_more = |d: &LockDemand| spinners.as_ref().is_some_and(|s| s.mean > d.waiting);
    match (counted, spinners.as_ref()) {
        (Some(of), _) if wanted.is_some() || !spins_more(&demands[of]) => {
            let names: Vec<String> = demands.iter().map(name).collect();
            Ok(of_counts(analysis, machine, &demands, &names, of))
        }
        (_, Some(spinners)) => Ok(of_spinning(analysis, machine, spinners, rate)),
        _ => Err(nothing(analysis, wanted, &demands, &name)),
    }
}

fn nothing(
    analysis: &Analysis<'_>,
    wanted: Option<&str>,
    demands: &[LockDemand],
    name: &dyn Fn(&LockDemand) -> String,
) -> String {
    match wanted {
        Some(text) if !demands.is_empty() => {
            let names: Vec<String> = demands.iter().map(name).collect();
            format!("no lock named {text:?} made threads wait; there are {}", names.join(", "))
        }
        _ if analysis.tables.locks.is_empty() => "nobody spun, and the recording does not count lock \
             operations: `dwell record --locks` makes one that does"
            .to_owned(),
        _ => "nobody waited for a lock of the C library and nobody spun: no change to locks would be felt".to_owned(),
    }
}

/// How a lock of the C library is waited for; none for what is no lock.
fn kind(row: &LockRow) -> Option<Kind> {
    match row.kind.as_str() {
        lock_kind::MUTEX if row.mutex_type.starts_with("adaptive") => Some(Kind::Adaptive),
        lock_kind::MUTEX | lock_kind::WRITE | lock_kind::READ => Some(Kind::Futex),
        lock_kind::SPIN => Some(Kind::Ttas),
        _ => None,
    }
}

fn of_counts(
    analysis: &Analysis<'_>,
    machine: Machine,
    demands: &[LockDemand],
    names: &[String],
    of: usize,
) -> Found {
    let rows = &analysis.tables.locks;
    let meant = &demands[of];
    let process = rows[meant.lock].process;
    let of_threads: BTreeSet<u32> = meant.threads.iter().copied().collect();
    let work = demand::work(analysis, &meant.threads);
    let mut notes = Vec::new();
    let per_unit_ns = |processors: f64| processors * 1e9 / meant.per_s;
    let busy = (work.working + work.spinning + work.locking)
        .round()
        .max(1.0);
    let slowdown = crowd(&machine, busy as usize);
    let (mut visits, mut locks, mut held_ns, mut asleep_ns, mut lock) =
        (Vec::new(), Vec::new(), 0.0, 0.0, 0);
    let mut hold_known = LEAST_UNCERTAIN;
    for (position, demand) in demands.iter().enumerate() {
        let row = &rows[demand.lock];
        let shares = demand.threads.iter().any(|t| of_threads.contains(t));
        if row.process != process || !shares {
            continue;
        }
        if position == of {
            lock = locks.len();
        }
        let name = &names[position];
        let seen = holds(demand, per_unit_ns(work.working), name, &mut notes);
        hold_known = hold_known.max(seen.uncertain);
        let per_unit = demand.per_s / meant.per_s;
        held_ns += per_unit * seen.run.mean_ns();
        asleep_ns += per_unit * seen.asleep_ns;
        visits.push(Visit {
            lock: locks.len(),
            per_unit,
            hold: seen.run.scaled(1.0 / slowdown),
            asleep: Times::fixed(seen.asleep_ns),
        });
        if row.kind == lock_kind::READ || row.kind == lock_kind::WRITE {
            notes.push(format!(
                "{name} is a read-write lock; it is simulated as if all wrote"
            ));
        }
        locks.push(Lock {
            name: name.clone(),
            kind: kind(row).unwrap_or(Kind::Futex),
            shards: 1,
        });
    }
    let think_ns = (per_unit_ns(work.working) - held_ns).max(0.0) / slowdown;
    let away_ns = (per_unit_ns(work.away) - asleep_ns).max(0.0);
    let model = Model {
        classes: vec![Class {
            name: "threads".into(),
            threads: work.threads,
            think: spread(think_ns),
            away: seldom(away_ns),
            visits,
        }],
        locks,
        machine,
        uncertainty: Uncertainty {
            think: sampled(&work),
            hold: hold_known.min(0.5),
            costs: 0.15,
            ..Uncertainty::of_model()
        },
    };
    let row = &rows[meant.lock];
    let model = match row.contended.filter(|_| row.acquired > 0) {
        Some(contended) => model.with_found_taken(lock, contended as f64 / row.acquired as f64),
        None => model,
    };
    Found {
        model,
        lock,
        recorded_per_s: Some(meant.per_s),
        notes,
    }
}

fn spread(mean_ns: f64) -> Times {
    Times::Spread {
        mean_ns,
        cv: ASSUMED_SPREAD,
    }
}

/// Sleeps that come to so much per unit: most units have none. A short one in every unit would let others run
/// each time, and threads would never be preempted.
fn seldom(mean_ns: f64) -> Times {
    /// How long a sleep is taken to be, ns, where units' shares are shorter.
    const SLEEP_NS: f64 = 1e6;
    /// Units among which there is one with a sleep, at most; what is less does not matter.
    const UNITS: usize = 1000;
    let units = (SLEEP_NS / mean_ns.max(1e-9)).floor() as usize;
    match units {
        0 | 1 => spread(mean_ns),
        2..=UNITS => {
            let mut times = vec![0.0; units];
            times[0] = mean_ns * units as f64;
            Times::Observed(times)
        }
        _ => Times::fixed(0.0),
    }
}

/// How much longer work took than on a machine that does nothing else.
fn crowd(machine: &Machine, busy: usize) -> f64 {
    let others = busy.saturating_sub(1) as f64 / machine.processors.saturating_sub(1).max(1) as f64;
    1.0 + (machine.crowded - 1.0).max(0.0) * others.min(1.0)
}

/// How well the division of the time on processors is known.
fn sampled(work: &Work) -> f64 {
    (1.0 / (work.samples.max(1) as f64).sqrt()).clamp(LEAST_UNCERTAIN, 0.3)
}

/// What is known of the holds of a lock.
struct Holds {
    run: Times,
    asleep_ns: f64,
    uncertain: f64,
}

fn holds(demand: &LockDemand, work_ns: f64, name: &str, notes: &mut Vec<String>) -> Holds {
    if demand.holds_ns.is_empty() {
        notes.push(format!(
            "no hold of {name} was seen from begin to end; a tenth of the work per unit is taken for it"
        ));
        return Holds {
            run: spread(work_ns * 0.1),
            asleep_ns: 0.0,
            uncertain: 0.5,
        };
    }
    let count = demand.holds_ns.len() as f64;
    let mut sorted: Vec<f64> = demand.holds_ns.iter().map(|ns| *ns as f64).collect();
    sorted.sort_by(f64::total_cmp);
    let mean = sorted.iter().sum::<f64>() / count;
    // Of an owner that lost its processor the hold lasts as long as others' slices: the simulation makes
    // that itself. So holds of more than eight medians are left out.
    let off = (demand.preempted + demand.asleep).min(0.95);
    let median = sorted[sorted.len() / 2];
    let on_processor: Vec<f64> = sorted
        .iter()
        .copied()
        .filter(|ns| *ns <= 8.0 * median)
        .collect();
    let asleep_ns = if demand.asleep > 0.02 {
        mean * demand.asleep
    } else {
        0.0
    };
    let run = match asleep_ns > 0.0 {
        // Then the median itself has the sleep.
        true => Times::fixed((mean * (1.0 - off)).max(1.0)),
        false => Times::Observed(on_processor),
    };
    if count < 30.0 {
        notes.push(format!(
            "only {count} holds of {name} were seen from begin to end"
        ));
    }
    Holds {
        run,
        asleep_ns,
        uncertain: (0.5 / count.sqrt()).clamp(LEAST_UNCERTAIN, 0.5),
    }
}

/// Threads that spin in one function.
struct Spinners {
    function: String,
    /// How many spun, on average.
    mean: f64,
    threads: Vec<u32>,
}

impl Spinners {
    /// Those that spun longest in one function of a program.
    fn of(analysis: &Analysis<'_>, wanted: Option<&str>) -> Option<Spinners> {
        let name = |f| analysis.names.function(f);
        let spun = spinning::spun(analysis);
        let fits = |s: &&spinning::Spun| {
            let function = name(s.function);
            let caller = s.caller.map(|c| name(c).name.as_str()).unwrap_or_default();
            let is_meant = |text: &str| function.name.contains(text) || caller.contains(text);
            !function.kernel && wanted.is_none_or(is_meant)
        };
        let most = spun.iter().find(fits)?;
        let mut by_thread: Vec<(u32, u64)> = Vec::new();
        let entries = analysis.profile.entries.iter();
        for entry in entries.filter(|e| e.state == State::Spinning) {
            let path = analysis.names.path(analysis.names.path_of(entry.stack));
            if !path.contains(&most.function) {
                continue;
            }
            match by_thread.last_mut().filter(|(t, _)| *t == entry.thread) {
                Some((_, ns)) => *ns += entry.weight_ns,
                None => by_thread.push((entry.thread, entry.weight_ns)),
            }
        }
        let total: u64 = by_thread.iter().map(|(_, ns)| ns).sum();
        let window = window_ns(analysis);
        Some(Spinners {
            function: name(most.function).name.clone(),
            mean: total as f64 / window,
            threads: by_thread.into_iter().map(|(t, _)| t).collect(),
        })
    }

    /// By its name, how the lock is waited for.
    fn kind(&self) -> Option<Kind> {
        let name = self.function.to_lowercase();
        let by_name = [
            ("mcs", Kind::Mcs),
            ("ticket", Kind::Ticket),
            ("ttas", Kind::Ttas),
            ("tas", Kind::Tas),
        ];
        let found = by_name.iter().find(|(part, _)| name.contains(part));
        found.map(|(_, kind)| *kind)
    }
}

fn window_ns(analysis: &Analysis<'_>) -> f64 {
    let meta = &analysis.tables.meta;
    meta.end_ns.saturating_sub(meta.start_ns).max(1) as f64
}

fn of_spinning(
    analysis: &Analysis<'_>,
    machine: Machine,
    spinners: &Spinners,
    rate: Option<f64>,
) -> Found {
    let elapsed_ns = window_ns(analysis);
    let work = demand::work(analysis, &spinners.threads);
    let running = work.working + work.spinning + work.locking;
    let useful_ns = (running - work.spinning) * elapsed_ns;
    let units = match rate {
        Some(rate) => rate * elapsed_ns / 1e9,
        None => useful_ns / ASSUMED_UNIT_NS,
    };
    let mut notes = vec![format!(
        "the lock that {} spins for is the program's own: its acquisitions are not counted and its holds not seen; \
         they are estimated from how much was spun",
        spinners.function
    )];
    if rate.is_none() {
        notes.push(
            "rates are not known: ratios are meant, with 5 µs of work taken for a unit; --rate UNITS_PER_SECOND tells"
                .to_owned(),
        );
    }
    let kind = spinners.kind();
    if kind.is_none() {
        notes.push(format!(
            "the name of {} does not tell the kind of lock; it is taken for test and test-and-set",
            spinners.function
        ));
    }
    let shares = SpinShares {
        threads: work.threads,
        elapsed_ns,
        running_ns: running * elapsed_ns,
        spinning_ns: work.spinning * elapsed_ns,
        units: units.max(1.0),
        kind: kind.unwrap_or(Kind::Ttas),
    };
    let mut model = Model::of_spin_shares(&shares, machine);
    model.locks[0].name = format!("the lock of {}", spinners.function);
    model.uncertainty = Uncertainty {
        think: sampled(&work),
        hold: sampled(&work).max(0.1),
        costs: 0.2,
        ..Uncertainty::of_model()
    };
    Found {
        model,
        lock: 0,
        recorded_per_s: rate,
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_keep_their_sum_and_are_seldom() {
        for mean_ns in [3e6, 4e5, 2_000.0] {
            let times = seldom(mean_ns);
            assert!((times.mean_ns() / mean_ns - 1.0).abs() < 1e-9, "{mean_ns}");
        }
        assert_eq!(seldom(20.0).mean_ns(), 0.0);
    }
}
