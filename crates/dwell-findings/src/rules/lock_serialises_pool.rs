//! Like threads that mostly wait for one lock: they work one after the other.
use super::{lock_held_while_asleep, range};
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::queue::Model;
use crate::recorded::{LockUse, Recorded};

pub(super) const NAME: &str = "lock-serialises-pool";

/// Of the threads' lives but for queueing for processors, which a busy machine adds. Two threads that are in the lock half of the time wait a fifth of it.
const WAITING_SHARE: f64 = 0.25;
/// From here on most threads wait at any instant.
const HIGH_SHARE: f64 = 0.5;
/// Waiting that is too short to say anything of, ns.
const LEAST_NS: u64 = 100_000_000;
/// Into how many locks it is divided for the prediction: the least that helps.
const SHARDS: f64 = 2.0;

const REMEDY: &str = "Hold the lock for less, or divide what it guards into parts with a lock each; a pool of fewer threads \
                      loses nothing until then.";
const REMEDY_OF_GIL: &str = "Give the work to processes (multiprocessing, ProcessPoolExecutor), to code that works without the GIL \
                             (NumPy; zlib and hashlib with large inputs; nogil in Cython), or to a free-threaded Python. \
                             More threads gain nothing.";

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    recorded
        .locks
        .iter()
        .filter_map(|lock| judge(recorded, lock))
        .collect()
}

fn judge(recorded: &Recorded<'_, '_>, lock: &LockUse) -> Option<Finding> {
    let waited_ns = lock.lock.waited_ns;
    let label = lock.lock.waiters.first()?.label;
    // Who comes once, at the end, is not of the pool.
    let label_of = |t: &usize| recorded.analysis.groups.label_of_thread(*t);
    let pool: Vec<usize> = lock
        .threads
        .iter()
        .copied()
        .filter(|t| label_of(t) == label)
        .collect();
    let lived_ns = recorded.undisturbed_ns(&pool);
    let share = (waited_ns as f64 / lived_ns.max(1) as f64).min(1.0);
    let threads = recorded.at_a_time(&pool).round() as u64;
    let is_known = waited_ns >= LEAST_NS && threads >= 2;
    if !is_known || share < WAITING_SHARE || lock_held_while_asleep::explains(lock) {
        return None;
    }
    let (what, remedy, parts) = match lock.lock.is_gil() {
        false => ("one lock", REMEDY, "locks"),
        true => (
            "the GIL, the lock of Python's interpreter",
            REMEDY_OF_GIL,
            "processes",
        ),
    };
    let models = Model::of(threads, share);
    let capacity = capacity(recorded, &pool, lived_ns, threads);
    let (low, high) = range(models.iter().map(|m| m.saved_by_shards(SHARDS, capacity)));
    let path = lock.lock.waiters.iter().find_map(|w| w.path);
    let holder = lock.lock.blame.iter().find_map(|b| b.path);
    let mut stacks = Vec::new();
    stacks.extend(path.map(|p| recorded.stack(format!("{} waits", recorded.name(label)), p)));
    stacks.extend(holder.map(|p| recorded.stack("where the owner lets it go".to_owned(), p)));
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(share, HIGH_SHARE),
        title: format!(
            "{threads} threads ({}) work one after the other: {:.0} % of their time is waiting for {what}",
            recorded.name(label),
            100.0 * share
        ),
        evidence: vec![
            Number::ns("waiting for the lock", waited_ns),
            Number::share("of these threads' time", share),
            Number::count("threads", threads as f64),
            Number::count(
                "of which the lock lets work",
                threads as f64 * (1.0 - share),
            ),
            Number::count("waits", lock.lock.waits as f64),
        ],
        stacks,
        remedy: remedy.to_owned(),
        effect: Effect {
            saves: Saves::Duration,
            part: 1.0,
            of: "the time these threads take for the same work".to_owned(),
            low,
            high,
            how: format!(
                "closed queue with the measured share of waiting, two {parts} instead of one, no more than the processors allow"
            ),
        },
        confidence: Confidence::High,
        page: page(NAME),
    })
}

/// How many times as much the machine's processors could do as these threads do now.
fn capacity(recorded: &Recorded<'_, '_>, pool: &[usize], lived_ns: u64, threads: u64) -> f64 {
    let running = |t: &usize| recorded.analysis.summary.threads[*t].times.running();
    let ran_ns: u64 = pool.iter().map(running).fold(0, u64::saturating_add);
    let cpus_used = threads as f64 * ran_ns as f64 / lived_ns.max(1) as f64;
    recorded.cpus() as f64 / cpus_used.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::Analysis;
    use dwell_analysis::testing::TablesBuilder;

    const MS: u64 = 1_000_000;

    /// What is told of threads that wait in a function for each other half of their time, with or without work in the
    /// other half: otherwise they sleep.
    fn findings(function: &str, works: bool) -> Vec<Finding> {
        let mut builder = TablesBuilder::new();
        let process = builder.process("demo");
        let threads = [0; 4].map(|_| builder.new_thread(process, "worker"));
        for (number, &thread) in threads.iter().enumerate() {
            let site = builder.site(thread, "lock", "futex", "");
            builder.on_futex(site, 0x1000, "wait", false);
            let sleep = builder.site(thread, "sleep", "nanosleep", "");
            let stack = builder.stack(&["main", "work", function]);
            // Who waits does so while its neighbours do the other thing.
            for turn in number..number + 100 {
                if turn % 2 == 0 {
                    builder.waited(site, 10 * MS, 0, 1);
                    builder.kept(site, 10 * MS, Some(stack), Some(threads[(number + 1) % 4]));
                } else if works {
                    builder.ran(thread, 10 * MS);
                } else {
                    builder.waited(sleep, 10 * MS, 0, 1);
                    builder.kept(sleep, 10 * MS, None, None);
                }
            }
            builder.sample(thread, "blocked", stack, Some(site), 500 * MS);
        }
        let analysis = Analysis::of(&builder.tables);
        let recorded = Recorded::of(&analysis);
        let rules = [find(&recorded), lock_held_while_asleep::find(&recorded)];
        rules.into_iter().flatten().collect()
    }

    fn found(function: &str, works: bool) -> Vec<String> {
        let findings = findings(function, works).into_iter();
        findings.map(|f| f.rule).collect()
    }

    #[test]
    fn the_lock_of_an_interpreter_has_a_remedy_of_its_own() {
        for (function, word) in [("take_gil", "ProcessPool"), ("pthread_mutex_lock", "parts")] {
            let found = findings(function, true);
            let [finding] = &found[..] else {
                panic!("{found:?}");
            };
            assert!(finding.remedy.contains(word), "{finding:?}");
        }
    }

    #[test]
    fn a_barrier_is_no_lock_that_somebody_holds() {
        assert_eq!(found("pthread_mutex_lock", true), [NAME]);
        assert_eq!(
            found("pthread_mutex_lock", false),
            [lock_held_while_asleep::NAME]
        );
        for function in [
            "pthread_barrier_wait",
            "gomp_team_barrier_wait_end",
            "std::sync::barrier::Barrier::wait",
        ] {
            assert_eq!(found(function, true), [""; 0], "{function}");
            assert_eq!(found(function, false), [""; 0], "{function}");
        }
    }
}
