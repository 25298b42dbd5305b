//! Why a process may map no more memory, and what can be done about it.
use super::space::status_field;
use std::fs;

/// Why a process may not map `len` bytes more, as far as can be told from outside; `by_segment` says that some of them
/// are a System V segment of ours.
pub(super) fn why(pid: i32, len: u64, by_segment: bool) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let exceeded = LIMITS.iter().find_map(|limit| {
        let allowed = allowed(&limits, limit.name)?;
        let used = used(pid, limit.used)?;
        let is_over = used.saturating_add(len) > allowed && (limit.is_always || used > 0);
        is_over.then(|| limit.told(pid, allowed, used, len))
    });
    if let Some(told) = exceeded {
        return told;
    }
    if let Some(told) = mappings(pid) {
        return told;
    }
    if by_segment && !same_ipc_namespace(pid) {
        return "it is in another IPC namespace than dwell: run dwell as root".into();
    }
    match number("/proc/sys/vm/overcommit_memory") {
        Some(2) => "the system promises no more memory than it has (vm.overcommit_memory=2)".into(),
        _ => "the kernel does not say why".into(),
    }
}

/// Whether a process has most of its memory locked, and so perhaps also what it maps from now on.
pub(super) fn locks_all(pid: i32) -> bool {
    let kept = used(pid, "VmLck").zip(used(pid, "VmSize"));
    kept.is_some_and(|(locked, all)| locked > all / 2)
}

/// A limit that mapping memory may exceed.
struct Limit {
    /// In `/proc/PID/limits`.
    name: &'static str,
    /// What counts towards it, in `/proc/PID/status`.
    used: &'static str,
    /// It holds also when nothing counts towards it yet.
    is_always: bool,
    /// For people.
    what: &'static str,
    /// prlimit's option.
    option: &'static str,
}

const LIMITS: [Limit; 3] = [
    Limit {
        name: "Max address space",
        used: "VmSize",
        is_always: true,
        what: "address space",
        option: "as",
    },
    Limit {
        name: "Max data size",
        used: "VmData",
        is_always: true,
        what: "data",
        option: "data",
    },
    // Only of a process that locks what it maps.
    Limit {
        name: "Max locked memory",
        used: "VmLck",
        is_always: false,
        what: "locked memory",
        option: "memlock",
    },
];

impl Limit {
    fn told(&self, pid: i32, allowed: u64, used: u64, len: u64) -> String {
        let Limit { what, option, .. } = self;
        let (allowed, used_now) = (allowed >> 20, used >> 20);
        // With room for what it does meanwhile.
        let enough = (used + len).next_multiple_of(64 << 20) + (64 << 20);
        format!(
            "its limit of {what} is {allowed} MiB, of which it uses {used_now}; raise it with `prlimit --pid {pid} --{option}={enough}`"
        )
    }
}

/// The soft limit, in bytes; none when there is none.
fn allowed(limits: &str, name: &str) -> Option<u64> {
    let line = limits.lines().find_map(|l| l.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A size of a process, in bytes.
fn used(pid: i32, field: &str) -> Option<u64> {
    let kib = status_field(pid, pid, field)?;
    Some(kib.strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Mappings are limited in number too.
fn mappings(pid: i32) -> Option<String> {
    /// How many an arena takes.
    const NEEDED: u64 = 5;
    let most = number("/proc/sys/vm/max_map_count")?;
    let now = dwell_maps::read(pid as u32).ok()?.len() as u64;
    (now + NEEDED > most).then(|| {
        format!(
            "it has {now} mappings, and no process may have more than {most}; raise that with `sysctl vm.max_map_count={}`",
            most * 2
        )
    })
}

fn same_ipc_namespace(pid: i32) -> bool {
    let of = |who: &str| fs::read_link(format!("/proc/{who}/ns/ipc")).ok();
    of("self") == of(&pid.to_string())
}

fn number(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max address space         12288000             unlimited            bytes     \n\
                      Max data size             unlimited            unlimited            bytes     \n";
        assert_eq!(allowed(limits, "Max address space"), Some(12_288_000));
        assert_eq!(allowed(limits, "Max data size"), None);
        assert_eq!(allowed(limits, "Max locked memory"), None);
    }

    #[test]
    fn what_a_process_uses_is_read() {
        let pid = std::process::id() as i32;
        assert!(used(pid, "VmSize").expect("every process has a size") > 1 << 20);
        assert_eq!(used(pid, "VmLck"), Some(0));
        assert!(!locks_all(pid));
    }
}
