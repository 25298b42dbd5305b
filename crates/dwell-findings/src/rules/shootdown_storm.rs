//! Changes of an address space that interrupt the processors on which its other threads run, over and over.
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::memory::MemoryUse;
use crate::recorded::Recorded;
use dwell_analysis::memory::Component;

pub(super) const NAME: &str = "shootdown-storm";

/// Shootdowns a second from which on it is a habit: the end of a large mapping has a few.
const RATE: f64 = 1000.0;
/// Of the program's CPU time, sending them and being interrupted by them.
const SHARE: f64 = 0.05;
/// Or the calls that send them, where they are not made to give memory back: samples are too few to tell sending from the
/// rest of a call that takes a microsecond or two.
const CALLS_SHARE: f64 = 0.25;
/// From here on every fifth cycle.
const HIGH_SHARE: f64 = 0.2;

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let uses = recorded.memory.iter();
    uses.filter_map(|one| judge(recorded, one)).collect()
}

fn judge(recorded: &Recorded<'_, '_>, one: &MemoryUse) -> Option<Finding> {
    let rate = one.sums.shootdowns as f64 * 1e9 / recorded.window_ns().max(1) as f64;
    let sending_ns = one.at(Component::Shootdown);
    let cost_ns = sending_ns.saturating_add(one.sums.remote_ns);
    let share = one.share(cost_ns);
    // Who changes many pages in one call saves the calls as well.
    let calls_ns = recorded.memory_ns_at(one, |s| s.shootdowns > 0);
    let calls_ns = calls_ns.saturating_add(one.sums.remote_ns);
    let gives_back = one.sums.freed_pages >= one.sums.shootdowns;
    let is_much = share >= SHARE || (!gives_back && one.share(calls_ns) >= CALLS_SHARE);
    if rate < RATE || !is_much || !recorded.is_sampled(one.memory_ns) {
        return None;
    }
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(share, HIGH_SHARE),
        title: format!(
            "{} interrupts its other processors {rate:.0} times a second to change its mappings",
            one.program
        ),
        evidence: vec![
            Number::count("shootdowns", one.sums.shootdowns as f64),
            Number::per_second("a second", rate),
            Number::count("processors interrupted", one.sums.remote_flushes as f64),
            Number::ns("their time", one.sums.remote_ns),
            Number::ns("sending them and waiting, by samples", sending_ns),
            Number::share("of its CPU time", share),
        ],
        stacks: recorded.memory_stacks(one, |s| s.shootdowns > 0),
        remedy: "Change many pages in one call (munmap, mprotect, madvise), and keep memory instead of giving it back page by \
                 page (allocators: a longer decay); do that in a process of its own, or on the same processor, if it must be \
                 often."
            .to_owned(),
        effect: Effect {
            saves: Saves::CpuTime,
            part: recorded.of_cpu_time(one.running_ns),
            of: "this program's CPU time".to_owned(),
            low: share,
            high: one.share(calls_ns).max(share),
            how: "from sending shootdowns and being interrupted by them to all of the calls that send them"
                .to_owned(),
        },
        confidence: Confidence::High,
        page: page(NAME),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Memory, recorded_memory};

    const STORM: Memory = Memory {
        program_ms: 700,
        beside_ms: 0,
        kernel_ms: 300,
        allocated: 10,
        freed: 10,
        shootdowns: 50_000,
        remote_ms: 250,
    };

    #[test]
    fn a_storm_is_told_with_what_it_takes_from_others() {
        let found = recorded_memory(&STORM, find);
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::High);
        let [low, high] = [finding.effect.low, finding.effect.high];
        assert!((low - 0.25).abs() < 1e-6 && (high - 0.55).abs() < 1e-6);
    }

    #[test]
    fn calls_that_give_nothing_back_are_told_by_their_own_cost() {
        let calls = Memory {
            remote_ms: 1,
            ..STORM
        };
        let found = recorded_memory(&calls, find);
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::Medium);
    }

    #[test]
    fn a_few_and_cheap_ones_are_not() {
        let few = Memory {
            shootdowns: 500,
            ..STORM
        };
        assert_eq!(recorded_memory(&few, find), []);
        let cheap = Memory {
            remote_ms: 40,
            freed: 50_000,
            ..STORM
        };
        assert_eq!(recorded_memory(&cheap, find), []);
    }
}
