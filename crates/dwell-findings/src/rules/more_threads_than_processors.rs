//! More threads of one pool want to compute than there are processors.
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::recorded::Recorded;
use dwell_analysis::State;
use dwell_analysis::hottest;

pub(super) const NAME: &str = "more-threads-than-processors";

/// Threads of the pool that ran or wanted to, for each processor: half as many again are noise of a busy machine.
const WANTED: f64 = 1.5;
/// Of the processors, what the pool must have got: else others took them, and fewer threads would get even less.
const GOT: f64 = 0.7;
/// Of the window, how long the pool must have existed: a burst of work is none of this.
const LASTED: f64 = 0.3;
/// Queueing that is too short to say anything of, ns.
const LEAST_NS: u64 = 200_000_000;

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    (0..recorded.analysis.groups.groups.len())
        .filter_map(|group| judge(recorded, group))
        .collect()
}

fn judge(recorded: &Recorded<'_, '_>, position: usize) -> Option<Finding> {
    let analysis = recorded.analysis;
    let group = &analysis.groups.groups[position];
    let times = &analysis.summary.groups[position].times;
    let rows = || group.threads.iter().map(|t| &analysis.tables.threads[*t]);
    let first = rows().map(|r| r.start_ns).min()?;
    let span_ns = rows()
        .map(|r| r.until_ns)
        .max()?
        .saturating_sub(first)
        .max(1);
    let cpus = recorded.cpus() as f64;
    let (ran, queued) = (times.running() as f64, times.runnable() as f64);
    let wanted = (ran + queued) / span_ns as f64 / cpus;
    let got = (ran + times.stolen() as f64) / span_ns as f64 / cpus;
    let lasted = span_ns as f64 / recorded.window_ns().max(1) as f64;
    let is_pool = group.threads.len() as u64 > recorded.cpus();
    let is_enough = times.runnable() >= LEAST_NS && lasted >= LASTED;
    if !is_pool || !is_enough || wanted < WANTED || got < GOT {
        return None;
    }
    let waiting = queued / (ran + queued);
    let switches = analysis.summary.groups[position].involuntary_switches;
    let mut hot = hottest::stacks(analysis, State::on_cpu).into_iter();
    let hot = hot.find(|s| s.label == group.label);
    let stacks =
        hot.map(|s| recorded.stack_of(format!("{} computes", recorded.name(group.label)), &s.path));
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::Medium,
        title: format!(
            "{} threads ({}) compute on {} processors: each waits for one {:.0} % of its time",
            group.threads.len(),
            recorded.name(group.label),
            recorded.cpus(),
            100.0 * waiting
        ),
        evidence: vec![
            Number::count("threads", group.threads.len() as f64),
            Number::count("wanting a processor at a time", wanted * cpus),
            Number::count("processors", cpus),
            Number::ns("waiting for a processor", times.runnable()),
            Number::count("switched out while they wanted to go on", switches as f64),
        ],
        stacks: stacks.into_iter().collect(),
        remedy: format!(
            "Use {} threads for this pool, the number of processors: more of them finish no sooner together, and each piece \
             of work takes longer.",
            recorded.cpus()
        ),
        effect: Effect {
            saves: Saves::Other,
            part: 1.0,
            of: "the time a single piece of work takes from begin to end".to_owned(),
            low: (1.0 - 1.0 / wanted).min(waiting),
            high: (1.0 - 1.0 / wanted).max(waiting),
            how: "the queueing for processors, as measured and as threads over processors gives it; work done in all stays \
                  the same"
                .to_owned(),
        },
        confidence: Confidence::High,
        page: page(NAME),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_analysis::Analysis;
    use dwell_analysis::testing::drawn;

    /// So many threads on four processors that each ran and queued so long.
    fn found(threads: usize, ran_ms: u32, queued_ms: u32) -> Vec<Finding> {
        let row = |name: &str, cells: &dyn Fn(usize) -> String| {
            let cells: Vec<String> = (0..threads).map(cells).collect();
            format!("{name} | {}", cells.join(" | "))
        };
        let text = [
            row("thread", &|t| format!("w-{t} | w-{t}")),
            row("state", &|_| "running | runnable".to_owned()),
            row("time", &|_| format!("{ran_ms} | {queued_ms}")),
            row("stack", &|_| "work | work".to_owned()),
        ];
        let tables = drawn(&text.join("\n"));
        let analysis = Analysis::of(&tables);
        find(&Recorded::of(&analysis))
    }

    #[test]
    fn a_pool_twice_as_large_as_the_machine_is_told() {
        let found = found(8, 500, 500);
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert!(finding.title.contains("8 threads"), "{finding:?}");
        assert!(finding.remedy.starts_with("Use 4 threads"), "{finding:?}");
        let [low, high] = [finding.effect.low, finding.effect.high];
        assert!(
            (low - 0.5).abs() < 1e-6 && (high - 0.5).abs() < 1e-6,
            "{finding:?}"
        );
    }

    #[test]
    fn a_pool_that_fits_and_processors_that_others_have_are_not_its_fault() {
        assert_eq!(found(4, 950, 50), []);
        assert_eq!(found(8, 150, 850), []);
    }
}
