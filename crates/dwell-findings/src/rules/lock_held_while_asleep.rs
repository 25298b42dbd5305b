//! A lock whose owner sleeps, or waits for a disk, a socket or another process, while others wait for the lock.
use super::range;
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::queue::Model;
use crate::recorded::{LockUse, Recorded};
use dwell_analysis::Reason;

pub(super) const NAME: &str = "lock-held-while-asleep";

/// Threads that wait for the lock on average: below a twentieth nobody notices.
const WAITING: f64 = 0.05;
/// From half a thread on it is what the program does most.
const HIGH_WAITING: f64 = 0.5;
/// Of the waiting, while the owner was asleep: below half the hold itself is the matter.
const ASLEEP_SHARE: f64 = 0.5;
/// Waiting that is too short to say anything of, ns: a start-up has as much.
const LEAST_NS: u64 = 50_000_000;

/// Whether most of the waiting for a lock is for an owner that sleeps.
pub(super) fn explains(lock: &LockUse) -> bool {
    lock.asleep_ns() as f64 >= ASLEEP_SHARE * lock.lock.waited_ns as f64
}

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    recorded
        .locks
        .iter()
        .filter_map(|lock| judge(recorded, lock))
        .collect()
}

fn judge(recorded: &Recorded<'_, '_>, lock: &LockUse) -> Option<Finding> {
    let waited_ns = lock.lock.waited_ns;
    let waiting = waited_ns as f64 / recorded.window_ns().max(1) as f64;
    if waited_ns < LEAST_NS || waiting < WAITING || !explains(lock) {
        return None;
    }
    let (owner, reason) = lock
        .owner_asleep
        .iter()
        .max_by_key(|(key, ns)| (**ns, std::cmp::Reverse(**key)))
        .map(|(key, _)| *key)?;
    let asleep = lock.asleep_ns() as f64 / waited_ns as f64;
    let threads = recorded.at_a_time(&lock.threads).round().max(2.0) as u64;
    let of_life = waited_ns as f64 / recorded.undisturbed_ns(&lock.threads).max(1) as f64;
    let models = Model::of(threads, of_life.min(1.0));
    let (low, high) = range(models.iter().map(|m| m.saved_by_moving(asleep)));
    // What owners wait for may have room for one at a time itself, as the lock has.
    let low = if reason == Reason::Sleep { low } else { 0.0 };
    let waker = lock.lock.blame.iter().find(|b| b.waiter == owner);
    let owner_path = lock
        .lock
        .blame
        .iter()
        .find_map(|b| b.path)
        .or(waker.and_then(|b| b.path));
    let mut stacks = Vec::new();
    let waiter = lock
        .lock
        .waiters
        .iter()
        .find_map(|w| Some((w.label, w.path?)));
    stacks.extend(
        waiter.map(|(l, path)| recorded.stack(format!("{} waits", recorded.name(l)), path)),
    );
    stacks.extend(
        owner_path.map(|path| recorded.stack("where the owner lets it go".to_owned(), path)),
    );
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(waiting, HIGH_WAITING),
        title: format!(
            "threads wait for a lock while its owner ({}) waits too: {}",
            recorded.name(owner),
            activity(reason)
        ),
        evidence: vec![
            Number::ns("waiting for the lock", waited_ns),
            Number::ns("of it while the owner was asleep", lock.asleep_ns()),
            Number::count("threads waiting, on average", waiting),
            Number::count("waits", lock.lock.waits as f64),
        ],
        stacks,
        remedy: format!(
            "Let the lock go before {}, or do that before it is taken: copy what is needed under the lock, then wait without it.",
            activity(reason)
        ),
        effect: Effect {
            saves: Saves::Duration,
            part: 1.0,
            of: "the time these threads take for the same work".to_owned(),
            low,
            high,
            how: "closed queue with the measured share of waiting, the owner's sleep moved out of the hold; nothing at least \
                  where what it waits for serves one at a time"
                .to_owned(),
        },
        confidence: Confidence::High,
        page: page(NAME),
    })
}

fn activity(reason: Reason) -> &'static str {
    match reason {
        Reason::Sleep => "sleeping",
        Reason::Io => "reading or writing storage",
        Reason::Socket => "waiting for a socket",
        Reason::Pipe => "waiting for a pipe",
        Reason::Poll => "polling",
        Reason::Fault => "waiting for a page from storage",
        Reason::Child => "waiting for a child process",
        Reason::Lock | Reason::Condition | Reason::Stopped | Reason::Other | Reason::Unknown => {
            "a system call that waits"
        }
    }
}
