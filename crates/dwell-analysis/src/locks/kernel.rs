//! Locks of the kernel that threads waited for: by kind and by the function that wanted them.
use super::add;
use crate::analysis::Analysis;
use crate::apportion::total;
use crate::names::{FunctionId, PathId, StackRef, heaviest};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Waits for locks of the kernel of one kind that one function wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLock {
    /// Number of processes whose threads waited.
    pub processes: u64,
    /// `mutex`, `rwsem write` …
    pub kind: String,
    /// Which function of the kernel wanted it; none when no stack was kept.
    pub caller: Option<FunctionId>,
    /// Number of different locks.
    pub locks: u64,
    /// Number of waits.
    pub waits: u64,
    /// Time, ns.
    pub waited_ns: u64,
    /// The longest single wait, ns.
    pub max_ns: u64,
    /// Where most of that time was waited.
    pub path: Option<PathId>,
}

/// The longest waited for first.
pub fn kernel_locks(analysis: &Analysis<'_>) -> Vec<KernelLock> {
    let mut groups: FxHashMap<(String, Option<FunctionId>), Group> = FxHashMap::default();
    for row in &analysis.tables.kernel_locks {
        let stack = row.stack.and_then(|id| analysis.index.stack(id));
        let path = stack.map(|s| analysis.names.path_of(StackRef::Taken(s as u32)));
        let caller = path.and_then(|path| caller(analysis, path));
        let kind = match row.access.as_str() {
            "" => row.kind.clone(),
            access => format!("{} {access}", row.kind),
        };
        let group = groups.entry((kind, caller)).or_default();
        group.processes.insert(row.process);
        group.locks.insert(row.address);
        add(&mut group.waits, row.waits);
        group.max_ns = group.max_ns.max(row.max_ns);
        add(group.paths.entry(path).or_default(), row.waited_ns);
    }
    let mut locks: Vec<KernelLock> = groups
        .into_iter()
        .map(|((kind, caller), group)| KernelLock {
            processes: group.processes.len() as u64,
            kind,
            caller,
            locks: group.locks.len() as u64,
            waits: group.waits,
            waited_ns: total(group.paths.values().copied()),
            max_ns: group.max_ns,
            path: heaviest(group.paths).flatten(),
        })
        .collect();
    locks.sort_by(|a, b| {
        let key = |l: &KernelLock| (Reverse(l.waited_ns), l.caller);
        key(a).cmp(&key(b)).then_with(|| a.kind.cmp(&b.kind))
    });
    locks
}

#[derive(Default)]
struct Group {
    processes: FxHashSet<u32>,
    locks: FxHashSet<u64>,
    waits: u64,
    max_ns: u64,
    paths: FxHashMap<Option<PathId>, u64>,
}

/// The innermost function that is no part of a lock, nor of what looks at it.
fn caller(analysis: &Analysis<'_>, path: PathId) -> Option<FunctionId> {
    let path = analysis.names.path(path).iter().rev();
    let mut functions = path.map(|f| (*f, &analysis.names.function(*f).name));
    let found = functions.find(|(_, name)| !is_part_of_lock(name));
    found.map(|(function, _)| function)
}

/// Whether a function of the kernel is one of those that take locks, or of the tracing that sees it.
pub fn is_part_of_lock(function: &str) -> bool {
    const STARTS: [&str; 24] = [
        "bpf_",
        "traceiter_",
        "trace_contention_",
        "probestub_",
        "queued_",
        "native_queued_",
        "pv_queued_",
        "raw_",
        "do_raw_",
        "mutex_",
        "ww_mutex_",
        "rwsem_",
        "down_",
        "up_",
        "percpu_down_",
        "percpu_rwsem_",
        "rt_mutex_",
        "rt_spin_",
        "rtlock_",
        "rwbase_",
        "osq_",
        "mmap_read_lock",
        "mmap_write_lock",
        "mmap_lock_",
    ];
    let plain = function.trim_start_matches('_');
    plain == "down" || STARTS.iter().any(|start| plain.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::is_part_of_lock;

    #[test]
    fn locks_are_told_from_those_who_want_them() {
        for part in [
            "__pv_queued_spin_lock_slowpath",
            "native_queued_spin_lock_slowpath",
            "_raw_spin_lock_irqsave",
            "__mutex_lock.constprop.0",
            "rwsem_down_write_slowpath",
            "down_read_killable",
            "__percpu_down_read",
            "__traceiter_contention_begin",
            "bpf_prog_0123456789abcdef_on_contention_begin",
        ] {
            assert!(is_part_of_lock(part), "{part}");
        }
        for caller in [
            "pipe_write",
            "ext4_file_write_iter",
            "vm_mmap_pgoff",
            "unix_stream_sendmsg",
        ] {
            assert!(!is_part_of_lock(caller), "{caller}");
        }
    }
}
