//! A program that gets memory, gives it back, and gets it again: the kernel clears the same pages over and over.
use crate::finding::{Confidence, Effect, Finding, Number, Saves, Severity, page};
use crate::memory::MemoryUse;
use crate::recorded::Recorded;
use dwell_analysis::memory::PAGE_BYTES;

pub(super) const NAME: &str = "allocation-churn";

/// Of the program's CPU time: what a healthy allocator gives back costs a few percent.
const SHARE: f64 = 0.1;
/// From here on more than every third cycle.
const HIGH_SHARE: f64 = 0.33;
/// Of the pages that were taken, given back before the end: else the program grows, and `first-touch` speaks of it.
pub(super) const RETURNED: f64 = 0.5;
/// Pages given back in the window at least: less than 16 MiB is a start-up.
const LEAST_PAGES: u64 = 4096;

pub(super) fn find(recorded: &Recorded<'_, '_>) -> Vec<Finding> {
    let uses = recorded.memory.iter();
    uses.filter_map(|one| judge(recorded, one)).collect()
}

fn judge(recorded: &Recorded<'_, '_>, one: &MemoryUse) -> Option<Finding> {
    let share = one.share(one.memory_ns) * one.returned();
    let is_enough = one.sums.freed_pages >= LEAST_PAGES && recorded.is_sampled(one.memory_ns);
    if share < SHARE || one.returned() < RETURNED || !is_enough {
        return None;
    }
    let beside = one.share(one.memory_ns.saturating_add(one.beside_ns));
    let seconds = recorded.window_ns().max(1) as f64 / 1e9;
    let bytes = (one.sums.allocated_pages * PAGE_BYTES) as f64;
    Some(Finding {
        rule: NAME.to_owned(),
        severity: Severity::from_share(share, HIGH_SHARE),
        title: format!(
            "{} gives memory back only to get it again: {:.0} % of its CPU time",
            one.program,
            100.0 * share
        ),
        evidence: vec![
            Number::ns("in the kernel for memory", one.memory_ns),
            Number::share("of its CPU time", one.share(one.memory_ns)),
            Number::count("pages taken", one.sums.allocated_pages as f64),
            Number::share("of them given back before the end", one.returned()),
            Number::count("MB taken a second", (bytes / 1e6 / seconds).round()),
            Number::count("page faults", one.sums.faults() as f64),
            Number::count("system calls about memory", one.sums.calls as f64),
        ],
        stacks: recorded.memory_stacks(one, |s| s.faults() > 0 || s.calls > 0),
        remedy: "Keep the memory and use it again: a buffer that lives as long as its loop, or a pool. Where malloc gives it \
                 back, raise its thresholds (glibc: M_MMAP_THRESHOLD and M_TRIM_THRESHOLD; jemalloc: dirty_decay_ms)."
            .to_owned(),
        effect: Effect {
            saves: Saves::CpuTime,
            part: recorded.of_cpu_time(one.running_ns),
            of: "this program's CPU time".to_owned(),
            low: share,
            high: beside.max(share),
            how: "from the kernel's work for memory, as far as pages came back, to all that runs at these stacks: what \
                  faults and cold caches cost the program itself lies there"
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

    fn found(memory: Memory) -> Vec<Finding> {
        recorded_memory(&memory, find)
    }

    const CHURN: Memory = Memory {
        program_ms: 300,
        beside_ms: 200,
        kernel_ms: 500,
        allocated: 100_000,
        freed: 100_000,
        shootdowns: 0,
        remote_ms: 0,
    };

    #[test]
    fn what_comes_and_goes_is_told_with_what_it_costs() {
        let found = found(CHURN);
        let [finding] = found.as_slice() else {
            panic!("{found:?}")
        };
        assert_eq!(finding.severity, Severity::High);
        let [low, high] = [finding.effect.low, finding.effect.high];
        assert!((low - 0.5).abs() < 1e-6 && (high - 0.7).abs() < 1e-6);
        assert_eq!(finding.stacks[0].frames[0].function, "fill");
    }

    #[test]
    fn what_is_kept_and_what_is_little_are_not() {
        let kept = Memory {
            freed: 40_000,
            ..CHURN
        };
        assert_eq!(found(kept), []);
        let little = Memory {
            kernel_ms: 50,
            ..CHURN
        };
        assert_eq!(found(little), []);
        let short = Memory {
            allocated: 4000,
            freed: 4000,
            ..CHURN
        };
        assert_eq!(found(short), []);
    }
}
