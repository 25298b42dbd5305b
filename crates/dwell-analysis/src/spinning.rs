//! Processor time spent waiting: which functions spun, and who called them.
use crate::analysis::Analysis;
use crate::names::{FunctionId, PathId};
use crate::state::State;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Time that like threads spun in one function called by another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spun {
    /// Position in [`crate::Groups::labels`].
    pub label: usize,
    /// The innermost function that spins; what it does to memory or the processor is left out.
    pub function: FunctionId,
    /// The function it was called by, the kernel's entries to spin locks left out; none at the end of a
    /// stack.
    pub caller: Option<FunctionId>,
    /// Where it spun, for most of the time.
    pub path: PathId,
    /// How long, ns.
    pub spun_ns: u64,
}

/// Who spun where, the longest first. The times add up to [`crate::Times::spinning`] of all threads.
pub fn spun(analysis: &Analysis<'_>) -> Vec<Spun> {
    let mut by_path: FxHashMap<(usize, PathId), u64> = FxHashMap::default();
    let entries = analysis.profile.entries.iter();
    for entry in entries.filter(|e| e.state == State::Spinning) {
        let label = analysis.groups.label_of_thread(entry.thread as usize);
        let ns = by_path.entry((label, analysis.names.path_of(entry.stack)));
        let ns = ns.or_default();
        *ns = ns.saturating_add(entry.weight_ns);
    }
    let mut by_path: Vec<_> = by_path.into_iter().collect();
    by_path.sort_unstable_by_key(|(key, ns)| (Reverse(*ns), *key));
    let mut merged: FxHashMap<_, Spun> = FxHashMap::default();
    for ((label, path), ns) in by_path {
        let Some((function, caller)) = spinner(analysis, path) else {
            continue;
        };
        let key = (label, function, caller);
        let spun = merged.entry(key).or_insert(Spun {
            label,
            function,
            caller,
            path,
            spun_ns: 0,
        });
        spun.spun_ns = spun.spun_ns.saturating_add(ns);
    }
    let mut all: Vec<Spun> = merged.into_values().collect();
    all.sort_unstable_by_key(|s| (Reverse(s.spun_ns), s.label, s.function, s.caller));
    all
}

/// The function of a path that spins, and its caller.
fn spinner(analysis: &Analysis<'_>, path: PathId) -> Option<(FunctionId, Option<FunctionId>)> {
    let path = analysis.names.path(path);
    let name = |f: &FunctionId| analysis.names.function(*f).name.as_str();
    let place = path.iter().rposition(|f| !is_operation(name(f)));
    let place = place.or(path.len().checked_sub(1))?;
    let mut callers = path[..place].iter().rev();
    let caller = callers.find(|f| !name(f).starts_with("_raw_"));
    Some((path[place], caller.copied()))
}

/// True for what inlining shows of a single instruction (a load, a `pause`), and for what gives a
/// virtual processor away.
fn is_operation(name: &str) -> bool {
    const OPERATIONS: &[&str] = &[
        "std::atomic",
        "std::__atomic",
        "std::__u::atomic",
        "std::__1::atomic",
        "std::__1::__atomic",
        "core::sync::atomic",
        "core::hint::spin_loop",
        "core::core_arch::",
        "std::hint::spin_loop",
        "_mm_pause",
        "__builtin_ia32_pause",
        "pv_wait",
        "kvm_wait",
        "native_halt",
        "native_safe_halt",
        "pv_native_safe_halt",
    ];
    OPERATIONS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::drawn;

    #[test]
    fn spinning_is_told_by_function_and_caller() {
        let tables = drawn(
            "thread | main     | main                   | main                    | worker-1 | main
             state  | spinning | spinning               | running                 | spinning | running
             time   | 30       | 50                     | 10                      | 40       | 20
             stack  | main     | main                   | main                    | main     | main
                    | lock     | lock                   | lock                    | lock     | work
                    | wait     | wait                   | wait                    | wait     |
                    |          | std::atomic<int>::load | std::atomic<int>::store |          |",
        );
        let analysis = Analysis::of(&tables);
        let name = |f: FunctionId| analysis.names.function(f).name.as_str();
        let told: Vec<_> = spun(&analysis)
            .iter()
            .map(|s| (name(s.function), s.caller.map(name), s.spun_ns / 1_000_000))
            .collect();
        // Of `main`, and of `worker-1`.
        assert_eq!(
            told,
            [("wait", Some("lock"), 80), ("wait", Some("lock"), 40)]
        );
        let total = &analysis.summary.total;
        assert_eq!(total.times.spinning(), 120_000_000);
        assert_eq!(total.times.running(), total.lifetime_ns);
        assert_eq!(analysis.summary.closure_error, 0.0);
    }

    #[test]
    fn a_spin_lock_of_the_kernel_is_told_by_who_takes_it() {
        let tables = drawn(
            "state  | spinning                | spinning
             time   | 30                      | 20
             stack  | main                    | main
                    | alloc_fd_[k]            | alloc_fd_[k]
                    | _raw_spin_lock_[k]      | _raw_spin_lock_irq_[k]
                    | pv_queued_slowpath_[k]  | pv_queued_slowpath_[k]
                    |                         | kvm_wait_[k]",
        );
        let analysis = Analysis::of(&tables);
        let name = |f: FunctionId| analysis.names.function(f).name.as_str();
        let spun = spun(&analysis);
        assert_eq!(spun.len(), 1);
        assert_eq!(name(spun[0].function), "pv_queued_slowpath");
        assert_eq!(spun[0].caller.map(name), Some("alloc_fd"));
        assert_eq!(spun[0].spun_ns, 50_000_000);
    }
}
