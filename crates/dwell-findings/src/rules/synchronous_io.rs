//! A thread that answers requests and waits for storage before it does.
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::recorded::Recorded;
use dwell_analysis::names::PathId;
use dwell_analysis::{Reason, State};
use rustc_hash::FxHashMap;

pub(super) const NAME: &str = "synchronous-io";

/// Of the time from a request to being ready for the next one.
const SHARE: f64 = 0.25;
/// From here on the disk is most of an answer.
const HIGH_SHARE: f64 = 0.5;
/// Requests and waits for storage that are too few to be a habit.
const LEAST_WAITS: u64 = 20;
/// Waiting for storage that is too short to say anything of, ns.
const LEAST_NS: u64 = 50_000_000;

/// What a thread waited for.
#[derive(Default)]
struct Waited {
    requests: u64,
    requests_ns: u64,
    storage: u64,
    storage_ns: u64,
    paths: FxHashMap<PathId, u64>,
}

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let threads = &recorded.analysis.tables.threads;
    let mut waited: Vec<Waited> = threads.iter().map(|_| Waited::default()).collect();
    for entry in &recorded.analysis.profile.entries {
        let one = &mut waited[entry.thread as usize];
        match entry.state {
            State::Blocked(Reason::Poll | Reason::Socket) => {
                one.requests = one.requests.saturating_add(entry.waits);
                one.requests_ns = one.requests_ns.saturating_add(entry.weight_ns);
            }
            State::Blocked(Reason::Io | Reason::Fault) => {
                one.storage = one.storage.saturating_add(entry.waits);
                one.storage_ns = one.storage_ns.saturating_add(entry.weight_ns);
                let path = recorded.analysis.names.path_of(entry.stack);
                *one.paths.entry(path).or_default() += entry.weight_ns;
            }
            _ => {}
        }
    }
    let all = waited.iter().enumerate();
    all.filter_map(|(thread, one)| judge(recorded, thread, one))
        .collect()
}

fn judge(recorded: &Recorded<'_, '_>, thread: usize, waited: &Waited) -> Option<Finding> {
    let busy_ns = recorded
        .undisturbed_ns(&[thread])
        .saturating_sub(waited.requests_ns);
    let share = waited.storage_ns as f64 / busy_ns.max(1) as f64;
    let is_enough = waited.requests.min(waited.storage) >= LEAST_WAITS;
    if share < SHARE || !is_enough || waited.storage_ns < LEAST_NS {
        return None;
    }
    let share = share.min(1.0);
    let name = recorded.name(recorded.analysis.groups.label_of_thread(thread));
    let longest = waited.paths.iter().max_by_key(|(path, ns)| (**ns, **path));
    let (path, longest_ns) = longest.map(|(path, ns)| (*path, *ns))?;
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(share, HIGH_SHARE),
        title: format!(
            "{name} waits for storage before it answers: {:.0} % of the time that a request takes",
            100.0 * share
        ),
        evidence: vec![
            Number::count("waits for storage", waited.storage as f64),
            Number::ns("in all", waited.storage_ns),
            Number::ns("each", waited.storage_ns / waited.storage),
            Number::count("waits for requests", waited.requests as f64),
            Number::ns("busy between them, in all", busy_ns),
            Number::share("of it for storage", share),
        ],
        stacks: vec![recorded.stack(format!("{name} waits for storage"), path)],
        remedy: "Let another thread write and answer before, where the answer does not promise that the data is safe; where it \
                 does, sync once for all requests that wait meanwhile. Read ahead, or in other threads, what answers need."
            .to_owned(),
        effect: Effect {
            saves: Saves::Other,
            part: 1.0,
            of: "the time from a request to this thread's being ready for the next".to_owned(),
            low: (longest_ns as f64 / busy_ns.max(1) as f64).min(share),
            high: share,
            how: "the waits for storage moved out of the way: those at the place that waits longest, and all of them"
                .to_owned(),
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

    /// A thread that waits for requests by a call, so often, and for storage so long.
    fn found(waits_for: &str, requests: u32, storage_ms: u32) -> Vec<Finding> {
        let tables = drawn(&format!(
            "state | {waits_for} | running | io fdatasync
             time  | 400         | 200     | {storage_ms}
             waits | {requests}  |         | 100
             stack | main        | main    | main
                   | serve       | serve   | journal"
        ));
        let analysis = Analysis::of(&tables);
        find(&Recorded::of(&analysis))
    }

    #[test]
    fn a_server_that_syncs_is_told() {
        let found = found("poll epoll_wait", 100, 300);
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::High);
        assert!((finding.effect.high - 0.6).abs() < 1e-6, "{finding:?}");
        assert_eq!(finding.stacks[0].frames[0].function, "journal");
    }

    #[test]
    fn who_serves_nobody_and_who_rarely_waits_are_not() {
        assert_eq!(found("sleep nanosleep", 100, 300), []);
        assert_eq!(found("poll epoll_wait", 3, 300), []);
        assert_eq!(found("poll epoll_wait", 100, 40), []);
    }
}
