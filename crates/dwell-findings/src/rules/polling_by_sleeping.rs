//! A thread that sleeps a little, looks whether there is something to do, and sleeps again.
//!
//! Others end a sleep early by a signal, and be it one that is ignored: the call goes on by itself then, and nobody looks.
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::recorded::Recorded;
use dwell_analysis::names::PathId;
use dwell_analysis::wakers::is_thread;
use dwell_analysis::{Reason, State};
use rustc_hash::{FxHashMap, FxHashSet};

pub(super) const NAME: &str = "polling-by-sleeping";

/// Sleeps a second from which on it costs processors something, and their power saving more.
const RATE: f64 = 50.0;
/// From here on as often as the scheduler's tick.
const HIGH_RATE: f64 = 250.0;
/// Of a round, on a processor: who computes more is paced, not polling.
const BUSY_SHARE: f64 = 0.2;
/// Of the thread's life, in this: else it is a pause between other things.
const LIFE_SHARE: f64 = 0.5;
/// Sleeps that are too few to be a habit.
const LEAST_SLEEPS: u64 = 50;
/// Of a thread's time asleep, ended by others: more is one long sleep in pieces.
const INTERRUPTED_SHARE: f64 = 0.5;

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let mut sums: FxHashMap<(u32, PathId), (u64, u64)> = FxHashMap::default();
    let entries = recorded.analysis.profile.entries.iter();
    for entry in entries.filter(|e| e.state == State::Blocked(Reason::Sleep)) {
        let path = recorded.analysis.names.path_of(entry.stack);
        let (ns, sleeps) = sums.entry((entry.thread, path)).or_default();
        *ns = ns.saturating_add(entry.weight_ns);
        *sleeps = sleeps.saturating_add(entry.waits);
    }
    let interrupted = interrupted(recorded);
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_unstable();
    sums.into_iter()
        .filter(|((thread, _), _)| !interrupted.contains(thread))
        .filter_map(|((thread, path), (ns, sleeps))| {
            judge(recorded, thread as usize, path, ns, sleeps)
        })
        .collect()
}

/// Threads whose sleeps are mostly ended by others.
fn interrupted(recorded: &Recorded<'_, '_>) -> FxHashSet<u32> {
    let analysis = recorded.analysis;
    let mut sums: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    let waits = analysis.waits.waits.iter();
    for wait in waits.filter(|w| analysis.reasons[w.site as usize] == Reason::Sleep) {
        let (ns, by_others) = sums.entry(wait.thread).or_default();
        *ns = ns.saturating_add(wait.charged_ns);
        if is_thread(&analysis.tables.slices[wait.slice as usize]) {
            *by_others = by_others.saturating_add(wait.charged_ns);
        }
    }
    let mostly = |&(_, (ns, by_others)): &(u32, (u64, u64))| {
        by_others as f64 > INTERRUPTED_SHARE * ns as f64
    };
    let threads = sums.into_iter().filter(mostly);
    threads.map(|(thread, _)| thread).collect()
}

fn judge(
    recorded: &Recorded<'_, '_>,
    thread: usize,
    path: PathId,
    ns: u64,
    sleeps: u64,
) -> Option<Finding> {
    let share = &recorded.analysis.summary.threads[thread];
    let life_ns = share.lifetime_ns.max(1);
    let rate = sleeps as f64 * 1e9 / life_ns as f64;
    let busy = share.times.running() as f64 / life_ns as f64;
    let asleep = ns as f64 / life_ns as f64;
    if sleeps < LEAST_SLEEPS || rate < RATE || busy > BUSY_SHARE || asleep < LIFE_SHARE {
        return None;
    }
    let name = recorded.name(recorded.analysis.groups.label_of_thread(thread));
    let mean_ns = ns / sleeps;
    let all_ns = recorded.analysis.summary.total.times.running().max(1);
    let of_cpu = share.times.running() as f64 / all_ns as f64;
    Some(Finding {
        rule: NAME.to_owned(),
        severity: if rate >= HIGH_RATE { Severity::Medium } else { Severity::Low },
        title: format!("{name} looks for work by sleeping {rate:.0} times a second"),
        evidence: vec![
            Number::count("sleeps", sleeps as f64),
            Number::per_second("a second", rate),
            Number::ns("mean sleep", mean_ns),
            Number::ns("what comes is noticed late, on average by", mean_ns / 2),
            Number::share("of its time on a processor", busy),
        ],
        stacks: vec![recorded.stack(format!("{name} sleeps"), path)],
        remedy: "Wait for the event itself: a condition variable, a semaphore or poll() on a descriptor (eventfd, timerfd, \
                 socket) wakes the thread when there is something to do, at once and not before."
            .to_owned(),
        effect: Effect {
            saves: Saves::CpuTime,
            part: 1.0,
            of: "the CPU time of all that was recorded".to_owned(),
            low: 0.0,
            high: of_cpu,
            how: "at most all that this thread ran; in return what it waits for is noticed up to a sleep sooner".to_owned(),
        },
        confidence: Confidence::Medium,
        page: page(NAME),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::Analysis;
    use dwell_analysis::testing::drawn;
    use dwell_recording::rows::SliceRow;

    fn found(sleeps: u32, ran_ms: u32, waker: &str) -> Vec<Finding> {
        let mut tables = drawn(&format!(
            "state | sleep clock_nanosleep | running
             time  | 900    | {ran_ms}
             waits | {sleeps} |
             stack | main   | main
                   | usleep | look"
        ));
        tables.slices.push(SliceRow {
            start_ns: tables.meta.start_ns,
            blocked_ns: 1_000_000,
            waker_name: waker.to_owned(),
            waker_tid: (!waker.starts_with('[')).then_some(77),
            ..SliceRow::default()
        });
        let analysis = Analysis::of(&tables);
        find(&Recorded::of(&analysis))
    }

    #[test]
    fn short_sleeps_are_polling() {
        let found = found(900, 100, "[timer]");
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::Medium);
        assert!(finding.title.contains("900 times a second"), "{finding:?}");
    }

    #[test]
    fn long_sleeps_and_paced_work_are_not() {
        assert_eq!(found(10, 100, "[timer]"), []);
        assert_eq!(found(900, 600, "[timer]"), []);
    }

    #[test]
    fn a_sleep_that_others_interrupt_is_not() {
        assert_eq!(found(900, 100, "child"), []);
    }
}
