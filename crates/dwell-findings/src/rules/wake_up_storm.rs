//! Threads that are woken thousands of times a second and do next to nothing each time.
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, Stack, page};
use crate::recorded::Recorded;
use dwell_analysis::names::PathId;
use dwell_analysis::wakers::{Waker, totals};
use dwell_analysis::{Reason, State};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;

pub(super) const NAME: &str = "wake-up-storm";

/// Times a second that a thread is woken: as often as a fast network's interrupts.
const RATE: f64 = 2000.0;
/// Times in all: less is a start-up.
const LEAST_WAKES: u64 = 2000;
/// What it runs each time at most, ns: a switch there and back costs some microseconds.
const STAY_NS: u64 = 100_000;
/// Of these threads' CPU time, going to sleep and waking up.
const SHARE: f64 = 0.25;
/// From here on half of it.
const HIGH_SHARE: f64 = 0.5;
/// What is left of going to sleep and waking up when as many units are taken together as the remedy says, as a part of
/// the work.
const LEFT: f64 = 0.1;

/// Like threads that are woken too often.
#[derive(Default)]
struct Storm {
    threads: Vec<usize>,
    wakes: u64,
    ran_ns: u64,
    switching_ns: u64,
    paths: FxHashMap<PathId, u64>,
}

/// Of one thread.
#[derive(Clone, Default)]
struct Woken {
    wakes: u64,
    switching_ns: u64,
    paths: FxHashMap<PathId, u64>,
}

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let storms = storms(recorded);
    let storms = storms.iter();
    storms
        .filter_map(|(label, storm)| judge(recorded, *label, storm))
        .collect()
}

/// By label.
fn storms(recorded: &Recorded<'_, '_>) -> BTreeMap<usize, Storm> {
    let analysis = recorded.analysis;
    let mut storms: BTreeMap<usize, Storm> = BTreeMap::new();
    for (thread, woken) in woken(recorded).into_iter().enumerate() {
        let share = &analysis.summary.threads[thread];
        let rate = woken.wakes as f64 * 1e9 / share.lifetime_ns.max(1) as f64;
        let ran_ns = share.times.running();
        let stay_ns = ran_ns / woken.wakes.max(1);
        if rate < RATE || woken.wakes < LEAST_WAKES || stay_ns > STAY_NS {
            continue;
        }
        let label = analysis.groups.label_of_thread(thread);
        let storm = storms.entry(label).or_default();
        storm.threads.push(thread);
        storm.wakes += woken.wakes;
        storm.ran_ns += ran_ns;
        storm.switching_ns += woken.switching_ns;
        for (path, ns) in woken.paths {
            *storm.paths.entry(path).or_default() += ns;
        }
    }
    storms
}

/// By thread: waits for other threads and for timers. Pipes and files are read as fast as they come.
fn woken(recorded: &Recorded<'_, '_>) -> Vec<Woken> {
    let analysis = recorded.analysis;
    let mut woken = vec![Woken::default(); analysis.tables.threads.len()];
    let mut sleeps: Vec<FxHashSet<PathId>> =
        vec![FxHashSet::default(); analysis.tables.threads.len()];
    let waits_for = [
        Reason::Lock,
        Reason::Condition,
        Reason::Poll,
        Reason::Socket,
        Reason::Sleep,
    ];
    for entry in &analysis.profile.entries {
        let path = analysis.names.path_of(entry.stack);
        let one = &mut woken[entry.thread as usize];
        match entry.state {
            State::Blocked(reason) if waits_for.contains(&reason) => {
                one.wakes = one.wakes.saturating_add(entry.waits);
                *one.paths.entry(path).or_default() += entry.weight_ns;
                sleeps[entry.thread as usize].insert(path);
            }
            _ => {}
        }
    }
    for entry in analysis.profile.entries.iter().filter(|e| e.state.on_cpu()) {
        let path = analysis.names.path_of(entry.stack);
        let leaf = analysis.names.path(path).last();
        let in_kernel = leaf.is_some_and(|f| analysis.names.function(*f).kernel);
        let one = &mut woken[entry.thread as usize];
        if in_kernel || sleeps[entry.thread as usize].contains(&path) {
            one.switching_ns = one.switching_ns.saturating_add(entry.weight_ns);
        }
    }
    woken
}

fn judge(recorded: &Recorded<'_, '_>, label: usize, storm: &Storm) -> Option<Finding> {
    let share = (storm.switching_ns as f64 / storm.ran_ns.max(1) as f64).min(1.0);
    if share < SHARE || !recorded.is_sampled(storm.switching_ns) {
        return None;
    }
    let name = recorded.name(label);
    let lives_ns = recorded.lifetime_ns(&storm.threads).max(1);
    let rate = storm.wakes as f64 * 1e9 / lives_ns as f64;
    // After b units in one: switching / b = LEFT * work.
    let work = (1.0 - share).max(0.01);
    // A hair less, so that rounding errors do not make 41 of 40.
    let batch = (share / (LEFT * work) - 1e-6).ceil().max(2.0);
    let samples = storm.ran_ns as f64 / recorded.analysis.tables.meta.period_ns.max(1) as f64;
    let uncertain = 2.0 * (share * (1.0 - share) / samples.max(1.0)).sqrt();
    let saved = |share: f64| (share.clamp(0.0, 1.0)) * (1.0 - 1.0 / batch);
    let path = storm.paths.iter().max_by_key(|(path, ns)| (**ns, **path));
    let mut stacks: Vec<Stack> = path
        .map(|(path, _)| recorded.stack(format!("{name} sleeps"), *path))
        .into_iter()
        .collect();
    stacks.extend(waker(recorded, label));
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(share, HIGH_SHARE),
        title: format!(
            "{name} is woken {rate:.0} times a second: {:.0} % of its CPU time is sleeping and waking",
            100.0 * share
        ),
        evidence: vec![
            Number::count("threads", storm.threads.len() as f64),
            Number::count("wake-ups", storm.wakes as f64),
            Number::per_second("of a thread", rate),
            Number::ns(
                "on a processor each time",
                storm.ran_ns / storm.wakes.max(1),
            ),
            Number::ns(
                "of it in the kernel",
                storm.switching_ns / storm.wakes.max(1),
            ),
            Number::count("units each time that make it a tenth", batch),
        ],
        stacks,
        remedy: format!(
            "Hand over {batch:.0} units of work each time, or wake the thread only when its queue was empty and let it take \
             all that is there; where a timer wakes it, let one timer serve many purposes."
        ),
        effect: Effect {
            saves: Saves::CpuTime,
            part: recorded.of_cpu_time(storm.ran_ns),
            of: "these threads' CPU time for the same work".to_owned(),
            low: saved(share - uncertain),
            high: saved(share + uncertain),
            how: format!(
                "their time in the kernel, by samples within two standard errors, paid once for {batch:.0} units; who wakes \
                 them saves as well"
            ),
        },
        confidence: Confidence::Medium,
        page: page(NAME),
    })
}

/// Who wakes these threads most.
fn waker(recorded: &Recorded<'_, '_>, label: usize) -> Option<Stack> {
    let woken = totals(recorded.analysis).into_iter();
    let mut woken: Vec<_> = woken.filter(|w| w.waiter == label).collect();
    woken.sort_by_key(|w| std::cmp::Reverse(w.kept));
    let first = woken.iter().find(|w| w.waker_path.is_some())?;
    let who = match &first.waker {
        Waker::Thread(label) => recorded.name(*label),
        Waker::Foreign(name) | Waker::Interrupt(name) => name.clone(),
        Waker::Nobody => return None,
    };
    Some(recorded.stack(format!("{who} wakes it"), first.waker_path?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::Analysis;
    use dwell_analysis::testing::drawn;

    /// A second in which a thread waits so often and runs so long in the kernel and outside.
    fn found(wakes: u32, kernel_ms: u32, work_ms: u32) -> Vec<Finding> {
        let rest = 1000 - kernel_ms - work_ms;
        let tables = drawn(&format!(
            "state | lock futex | running      | running
             time  | {rest}     | {kernel_ms}  | {work_ms}
             waits | {wakes}    |              |
             stack | main       | main         | main
                   | sem_wait   | sem_wait     | use
                   |            | futex_wait_[k] |"
        ));
        let analysis = Analysis::of(&tables);
        find(&Recorded::of(&analysis))
    }

    #[test]
    fn a_thread_that_mostly_wakes_up_is_told_how_much_to_take_at_once() {
        let found = found(20_000, 400, 100);
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::High);
        // 0.8 of it switches; a tenth of the 0.2 that are work is a fortieth of that.
        assert!(
            finding.remedy.starts_with("Hand over 40 units"),
            "{finding:?}"
        );
        let effect = &finding.effect;
        let exact = 0.8 * 39.0 / 40.0;
        assert!(effect.low < exact && exact < effect.high, "{finding:?}");
        assert!(effect.high - effect.low < 0.25, "{finding:?}");
    }

    #[test]
    fn rare_wake_ups_long_stays_and_much_work_are_not() {
        assert_eq!(found(1000, 400, 100), []);
        assert_eq!(found(2500, 400, 100), []);
        assert_eq!(found(20_000, 100, 500), []);
    }
}
