//! Threads that wait for a lock which a thread holds that the scheduler prefers less, and so may not let run.
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::recorded::Recorded;
use dwell_analysis::State;
use dwell_analysis::locks::contention::Contention;

pub(super) const NAME: &str = "priority-inversion";

/// Threads that wait so on average: below a fiftieth nobody notices, and who is preferred notices first.
const WAITING: f64 = 0.02;
/// From here on a preferred thread mostly waits for others that are not.
const HIGH_WAITING: f64 = 0.25;
/// Waiting that is too short to say anything of, ns.
const LEAST_NS: u64 = 20_000_000;

/// Waits for the lock: a single one is an accident.
const LEAST_WAITS: u64 = 5;

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let locks = recorded.contended.iter();
    locks.filter_map(|lock| judge(recorded, lock)).collect()
}

fn judge(recorded: &Recorded<'_, '_>, lock: &Contention) -> Option<Finding> {
    let longest = lock.inversions.first()?;
    let inverted = lock.inversions.iter().map(|i| i.waited_ns);
    let inverted_ns = inverted.fold(0, u64::saturating_add);
    let waiting = inverted_ns as f64 / recorded.window_ns().max(1) as f64;
    if inverted_ns < LEAST_NS || waiting < WAITING || lock.waits.count < LEAST_WAITS {
        return None;
    }
    let [waiter, owner] = [longest.waiter, longest.owner].map(|label| recorded.name(label));
    // What a preferred owner would not have waited for.
    let queued_ns = lock
        .held
        .away_ns(|s| matches!(s, State::Runnable | State::Stolen));
    let no_processor = (queued_ns as f64 / lock.held.held_ns.max(1) as f64).min(1.0);
    let of_waits = (inverted_ns as f64 / lock.waits.sum_ns.max(1) as f64).min(1.0);
    let held = lock.owners.iter().find(|h| h.label == Some(longest.owner));
    let wanted = lock.wanted_by.map(|f| vec![f]);
    let mut stacks = Vec::new();
    stacks.extend(wanted.map(|path| recorded.stack_of(format!("{waiter} waits"), &path)));
    let path = held.and_then(|h| h.path);
    stacks.extend(path.map(|p| recorded.stack(format!("where {owner} lets it go"), p)));
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(waiting, HIGH_WAITING),
        title: format!(
            "{waiter} ({}) waits for a lock that {owner} ({}) holds",
            longest.waiter_priority, longest.owner_priority
        ),
        evidence: vec![
            Number::ns("waiting for less preferred owners", inverted_ns),
            Number::share("of all waiting for this lock", of_waits),
            Number::count("threads waiting so, on average", waiting),
            Number::share(
                "of the holding, without a processor although it wanted one",
                no_processor,
            ),
            Number::ns("longest wait", lock.waits.max_ns),
        ],
        stacks,
        remedy: "Give the lock priority inheritance (PTHREAD_PRIO_INHERIT), which real-time priorities need and nice values \
                 ignore; or do not let a thread that gives way take a lock which others need: copy under it, compute outside."
            .to_owned(),
        effect: Effect {
            saves: Saves::Other,
            part: 1.0,
            of: "the waiting for this lock".to_owned(),
            low: of_waits * no_processor,
            high: of_waits,
            how: "from the part of these waits in which the owner wanted a processor and had none, to all of them".to_owned(),
        },
        confidence: Confidence::High,
        page: page(NAME),
    })
}
