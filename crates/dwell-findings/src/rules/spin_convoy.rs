//! Threads that take work, a unit at a time, from a queue behind a lock that they spin for.
use super::range;
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::queue::{Model, batch_that_leaves_room};
use crate::recorded::Recorded;
use dwell_analysis::State;
use dwell_analysis::names::{FunctionId, PathId};
use dwell_analysis::spinning::spun;
use rustc_hash::FxHashMap;

pub(super) const NAME: &str = "spin-convoy";

/// Of the threads' CPU time. Two threads whose holds are half of what they do spin a fifth of it; adaptive mutexes in
/// healthy programs stay at a few percent.
const SPUN_SHARE: f64 = 0.15;
/// From here on more than every third processor is wasted.
const HIGH_SHARE: f64 = 0.3;
/// A thread takes part when it spins that part of its CPU time.
const TAKES_PART: f64 = 0.05;
/// What the functions of OpenMP's libraries are called. Distributions ship them without names; what spins there mostly waits for
/// all to arrive.
const OPENMP: &[&str] = &[
    "gomp_",
    "do_spin",
    "__kmp",
    "[libgomp",
    "[libomp",
    "[libiomp5",
];

/// Like threads that spin in one function.
struct Convoy {
    label: usize,
    function: FunctionId,
    path: PathId,
    longest_ns: u64,
    spun_ns: u64,
}

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let threads = threads_that_spin(recorded);
    let convoys = convoys(recorded);
    convoys
        .iter()
        .filter_map(|convoy| judge(recorded, convoy, threads.get(&convoy.label)?))
        .collect()
}

/// Whether a function spins until all threads have come, as far as its name tells. That is not waiting for a lock: batches
/// would not help.
fn waits_for_all(name: &str) -> bool {
    let is_openmp = OPENMP.iter().any(|part| name.contains(part));
    name.contains("barrier") || (is_openmp && !name.contains("lock"))
}

fn convoys(recorded: &Recorded<'_, '_>) -> Vec<Convoy> {
    let mut by_function: FxHashMap<(usize, FunctionId), Convoy> = FxHashMap::default();
    for spun in spun(recorded.analysis) {
        let function = recorded.analysis.names.function(spun.function);
        if function.kernel || waits_for_all(&function.name) {
            continue;
        }
        let key = (spun.label, spun.function);
        let convoy = by_function.entry(key).or_insert(Convoy {
            label: spun.label,
            function: spun.function,
            path: spun.path,
            longest_ns: 0,
            spun_ns: 0,
        });
        convoy.spun_ns = convoy.spun_ns.saturating_add(spun.spun_ns);
        if spun.spun_ns > convoy.longest_ns {
            (convoy.longest_ns, convoy.path) = (spun.spun_ns, spun.path);
        }
    }
    let mut convoys: Vec<Convoy> = by_function.into_values().collect();
    convoys.sort_unstable_by_key(|c| (c.label, c.function));
    convoys
}

/// By label: the threads that take part.
fn threads_that_spin(recorded: &Recorded<'_, '_>) -> FxHashMap<usize, Vec<usize>> {
    let analysis = recorded.analysis;
    let mut by_label: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    for (position, share) in analysis.summary.threads.iter().enumerate() {
        let spun = share.times.get(State::Spinning) as f64;
        if spun > 0.0 && spun >= TAKES_PART * share.times.running() as f64 {
            let label = analysis.groups.label_of_thread(position);
            by_label.entry(label).or_default().push(position);
        }
    }
    by_label
}

fn judge(recorded: &Recorded<'_, '_>, convoy: &Convoy, threads: &[usize]) -> Option<Finding> {
    let running = |t: &usize| recorded.analysis.summary.threads[*t].times.running();
    let ran_ns = threads.iter().map(running).fold(0, u64::saturating_add);
    let share = convoy.spun_ns as f64 / ran_ns.max(1) as f64;
    let at_a_time = recorded.at_a_time(threads).round() as u64;
    if at_a_time < 2 || share < SPUN_SHARE || !recorded.is_sampled(convoy.spun_ns) {
        return None;
    }
    // Who has no processor does not spin.
    let spinners = at_a_time.min(recorded.cpus());
    let share = share.min(1.0);
    let models = Model::of(spinners, share);
    let batch = batch_that_leaves_room(spinners, share);
    let (low, high) = match batch {
        // A processor that spins for the lock takes the memory that it is in, and what it guards, away from the owner, and
        // samples do not tell fetching it from spinning. If all that was told is fetching, it is still done once for each
        // acquisition. If all is waiting, holds are long only because they are fought for, and only the work is left.
        Some(batch) => {
            let at_most = models.iter().map(Model::saved_at_most);
            let fetched = share * (1.0 - 1.0 / batch as f64);
            let acquiring = at_the_lock(recorded, convoy, threads) as f64 / ran_ns.max(1) as f64;
            let (low, high) = range(at_most.chain([fetched, acquiring.min(1.0)]));
            // The share of spinning is known to a fifth, and so is the rest of the work.
            (0.8 * low, 1.0 - 0.8 * (1.0 - high))
        }
        // Nearly all is done in the lock: without the loop its waiters give their processors back, no more.
        None => (0.0, share),
    };
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(share, HIGH_SHARE),
        title: format!(
            "{at_a_time} threads ({}) spin for a lock: {:.0} % of their CPU time",
            recorded.name(convoy.label),
            100.0 * share
        ),
        evidence: evidence(convoy, at_a_time, spinners, share, batch),
        stacks: vec![recorded.stack(
            format!("{} spins", recorded.name(convoy.label)),
            convoy.path,
        )],
        remedy: remedy(at_a_time, recorded.cpus(), batch),
        effect: effect(batch, recorded.of_cpu_time(ran_ns), low, high),
        confidence: Confidence::Medium,
        page: page(NAME),
    })
}

/// What these threads ran in the function that spins and in its caller itself: acquiring, and what is done with the lock held.
fn at_the_lock(recorded: &Recorded<'_, '_>, convoy: &Convoy, threads: &[usize]) -> u64 {
    let analysis = recorded.analysis;
    let spins = analysis.names.path(convoy.path);
    let at = spins.iter().rposition(|f| *f == convoy.function);
    let caller = at.and_then(|at| spins.get(at.checked_sub(1)?));
    let entries = analysis.profile.entries.iter();
    let of_these = entries.filter(|e| e.state.on_cpu() && threads.contains(&(e.thread as usize)));
    let at_it = of_these.filter(|e| {
        let path = analysis.names.path(analysis.names.path_of(e.stack));
        path.contains(&convoy.function) || (path.last().is_some() && path.last() == caller)
    });
    at_it.map(|e| e.weight_ns).fold(0, u64::saturating_add)
}

fn evidence(
    convoy: &Convoy,
    threads: u64,
    on_cpu: u64,
    share: f64,
    batch: Option<u64>,
) -> Vec<Number> {
    let mut numbers = vec![
        Number::ns("spinning", convoy.spun_ns),
        Number::share("of these threads' CPU time", share),
        Number::count("threads", threads as f64),
        Number::count("on processors at a time", on_cpu as f64),
        Number::count(
            "of which the work outside keeps busy",
            on_cpu as f64 * (1.0 - share),
        ),
    ];
    numbers.extend(batch.map(|b| Number::count("units per acquisition that end it", b as f64)));
    numbers
}

fn remedy(threads: u64, cpus: u64, batch: Option<u64>) -> String {
    let fewer = match threads > cpus {
        true => format!(
            " Use no more than {cpus} threads: an owner without a processor keeps all others spinning."
        ),
        false => String::new(),
    };
    match batch {
        Some(batch) => format!(
            "Take {batch} units of work, or half of what is left, each time the lock is acquired; with N threads the work \
             of one acquisition must last N times as long as acquiring and holding it.{fewer}"
        ),
        None => format!(
            "Do less while the lock is held: next to nothing is done outside of it. Then take many units of work each time, \
             and wait in a mutex instead of a loop.{fewer}"
        ),
    }
}

fn effect(batch: Option<u64>, part: f64, low: f64, high: f64) -> Effect {
    let saves = Saves::CpuTime;
    match batch {
        Some(batch) => Effect {
            saves,
            part,
            of: "the CPU time these threads need for the same work".to_owned(),
            low,
            high,
            how: format!(
                    "from the spinning alone, still paid once for {batch} units, to all but the work outside of the lock: in \
                     a closed queue with this share of waiting, or in functions that neither acquire nor hold it; a hold \
                     that nobody fights for costs next to nothing"
                ),
        },
        None => Effect {
            saves,
            part,
            of: "these threads' CPU time".to_owned(),
            low,
            high,
            how: "at most all of the spinning, if waiters sleep instead; the work itself gets no faster".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::Analysis;
    use dwell_analysis::testing::drawn;

    fn found(spun_ms: u32, function: &str) -> Vec<Finding> {
        let tables = drawn(&format!(
            "thread | w-1 | w-1 | w-2 | w-2
             state  | running | spinning | running | spinning
             time   | 600 | {spun_ms} | 600 | {spun_ms}
             stack  | work | work | work | work
                    | clear | {function} | clear | {function}"
        ));
        let analysis = Analysis::of(&tables);
        find(&Recorded::of(&analysis))
    }

    #[test]
    fn a_convoy_is_told_with_the_batch_that_leaves_room() {
        let found = found(400, "lock");
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::High);
        // Two threads, 40 % spinning: w/h = 2 * 0.6 - 1 = 0.2, and (2 * 2 - 1) / 0.2 = 15.
        assert!(finding.remedy.starts_with("Take 15 units"), "{finding:?}");
        // Spinning is paid once in 15 units at worst; a unit takes two holds now, of which 0.2 are work. Both within a fifth.
        let [low, high] = [finding.effect.low, finding.effect.high];
        assert!(
            (low - 0.8 * 0.4 * 14.0 / 15.0).abs() < 1e-6 && (high - 0.92).abs() < 1e-6,
            "{finding:?}"
        );
    }

    #[test]
    fn a_little_spinning_and_barriers_are_nothing() {
        assert_eq!(found(60, "lock"), []);
        for barrier in [
            "gomp_barrier_wait",
            "[libgomp.so.1.0.0+0x1f780]",
            "Barrier::barrier_wait(std::unique_lock<std::mutex>&)",
        ] {
            assert_eq!(found(400, barrier), []);
        }
    }

    #[test]
    fn locks_of_openmp_are_locks() {
        for lock in ["gomp_mutex_lock_slow", "__kmp_acquire_queuing_lock"] {
            assert_eq!(found(400, lock).len(), 1, "{lock}");
        }
    }
}
