//! A program for which the first touch of fresh memory is much of what it does.
use super::allocation_churn::RETURNED;
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::memory::MemoryUse;
use crate::recorded::Recorded;
use dwell_analysis::memory::Component;

pub(super) const NAME: &str = "first-touch";

/// Of the program's CPU time: a compiler, which is made of short lives, stays below a sixth.
const SHARE: f64 = 0.25;
/// From here on half of all.
const HIGH_SHARE: f64 = 0.5;
/// Pages touched at least: less than 64 MiB is a start-up.
const LEAST_PAGES: u64 = 16_384;

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let uses = recorded.memory.iter();
    uses.filter_map(|one| judge(recorded, one)).collect()
}

fn judge(recorded: &Recorded<'_, '_>, one: &MemoryUse) -> Option<Finding> {
    let share = one.share(one.memory_ns);
    let is_enough = one.cleared_pages() >= LEAST_PAGES && recorded.is_sampled(one.memory_ns);
    if share < SHARE || one.returned() >= RETURNED || !is_enough {
        return None;
    }
    let at_most_ns = one.memory_ns.saturating_add(one.beside_ns);
    let at_most_ns = at_most_ns.saturating_add(one.ends_ns);
    let clearing = one.at(Component::Clearing);
    let per_page = one.memory_ns / one.cleared_pages();
    let mut evidence = vec![
        Number::ns("in the kernel for memory", one.memory_ns),
        Number::share("of its CPU time", share),
        Number::count("processes", one.processes as f64),
        Number::count("pages cleared", one.cleared_pages() as f64),
        Number::ns("for each", per_page),
        Number::ns("clearing alone, by samples", clearing),
    ];
    let costs = recorded.analysis.tables.meta.memory.as_ref();
    evidence.extend(
        costs.map(|c| Number::ns("clearing a page, as calibrated", c.clear_uncached_ns as u64)),
    );
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(share, HIGH_SHARE),
        title: format!(
            "{} touches fresh memory for {:.0} % of its CPU time: {per_page} ns a page",
            one.program,
            100.0 * share
        ),
        evidence,
        stacks: recorded.memory_stacks(one, |s| s.zeroed_pages + s.zeroed_huge_pages > 0),
        remedy: "Touch less fresh memory: do many jobs in one process that keeps its memory, begin with small tables that \
                 grow, do not clear what the kernel has cleared. Where a delay is what hurts, have it ready before \
                 (MAP_POPULATE, MADV_POPULATE_WRITE): that takes as long, but nobody waits."
            .to_owned(),
        effect: Effect {
            saves: Saves::CpuTime,
            part: recorded.of_cpu_time(one.running_ns),
            of: "this program's CPU time".to_owned(),
            low: share,
            high: one.share(at_most_ns),
            how: "if none of it is fresh any more: from the kernel's work for memory to that, all that runs where pages are \
                  touched, and making and ending processes; in proportion where only some of it can be kept"
                .to_owned(),
        },
        confidence: Confidence::Medium,
        page: page(NAME),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, recorded_memory};

    const FRESH: Memory = Memory {
        program_ms: 600,
        beside_ms: 0,
        kernel_ms: 400,
        allocated: 100_000,
        freed: 0,
        shootdowns: 0,
        remote_ms: 0,
    };

    #[test]
    fn much_fresh_memory_is_told() {
        let found = recorded_memory(&FRESH, find);
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::Medium);
        assert!(finding.title.contains("4000 ns a page"), "{finding:?}");
        assert!((finding.effect.high - 0.4).abs() < 1e-6, "{finding:?}");
    }

    #[test]
    fn what_comes_back_is_the_other_rules_and_a_start_up_is_nothing() {
        let back = Memory {
            freed: 90_000,
            ..FRESH
        };
        assert_eq!(recorded_memory(&back, find), []);
        let start = Memory {
            allocated: 10_000,
            ..FRESH
        };
        assert_eq!(recorded_memory(&start, find), []);
        let little = Memory {
            kernel_ms: 150,
            ..FRESH
        };
        assert_eq!(recorded_memory(&little, find), []);
    }
}
