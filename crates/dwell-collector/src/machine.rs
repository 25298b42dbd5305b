//! Facts of the machine: processors, clocks, kernel functions.
use crate::modules::map_file;
use dwell_recording::meta::ClockAnchor;
use std::fs;

/// Numbers of the processors that are online.
pub fn online_cpus() -> Vec<u32> {
    parse_cpu_list(
        &fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".into()),
    )
}

/// The capabilities that this process has now, a bit each, as <linux/capability.h> numbers them; none where /proc does
/// not tell.
pub fn effective_capabilities() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// One more than the highest processor number the kernel may ever use.
pub fn possible_cpus() -> u32 {
    let text =
        fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_else(|_| "0".into());
    parse_cpu_list(&text).last().map_or(1, |n| n + 1)
}

/// Parses the kernel's list format (`0-3,8`).
fn parse_cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            cpus.extend(first..=last.min(first + 65536));
        }
    }
    cpus
}

/// CLOCK_BOOTTIME, ns.
pub fn boottime_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

/// CLOCK_REALTIME, ns since 1970.
pub fn realtime_ns() -> u64 {
    clock_ns(libc::CLOCK_REALTIME)
}

/// A clock of the kernel's, such as `CLOCK_MONOTONIC`, ns.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid timespec to write to; a clock that is not there leaves it zero.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Both clocks, read together.
pub fn clock_anchor() -> ClockAnchor {
    ClockAnchor {
        boottime_ns: boottime_ns(),
        realtime_ns: realtime_ns(),
    }
}

/// CPU time of this process, ns.
pub fn own_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Time between two ticks of the scheduler, ns: the resolution of the coarse clocks.
pub fn tick_ns() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is a valid timespec to write to.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut t) };
    (t.tv_nsec as u64).max(1_000_000)
}

/// Lets this process open as many files as it may (every module stays open); returns the limit that
/// was in force before.
pub fn raise_file_limit() -> libc::rlimit {
    let mut before = libc::rlimit {
        rlim_cur: 1024,
        rlim_max: 1024,
    };
    // SAFETY: both calls get a valid rlimit; a refusal leaves the limit as it was.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) == 0 {
            let raised = libc::rlimit {
                rlim_cur: before.rlim_max,
                ..before
            };
            libc::setrlimit(libc::RLIMIT_NOFILE, &raised);
        }
    }
    before
}

/// Peak resident memory of this process, bytes.
pub fn peak_rss_bytes() -> u64 {
    // SAFETY: rusage is plain integers, and getrusage fills it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_maxrss as u64 * 1024
}

/// Threads of the whole system; 0 when it does not say.
pub fn threads() -> u64 {
    // "0.43 1.58 3.08 1/80 2127": those that run, of all
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let all = load.split(['/', ' ']).nth(4);
    all.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Host name, kernel release, machine name.
pub fn names() -> [String; 3] {
    let read = |file: &str| {
        std::fs::read_to_string(format!("/proc/sys/kernel/{file}"))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    [
        read("hostname"),
        read("osrelease"),
        std::env::consts::ARCH.to_owned(),
    ]
}

/// Switches of all processors since the machine started; 0: not known.
pub fn switches() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let switches = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    switches.and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// How the kernel lets eBPF programs take the user stack of a wait that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AfterWaits {
    /// It tells that a thread runs again after a switch (Linux 6.15).
    pub switches: bool,
    /// It gives a thread work to do on its way back to user space (Linux 6.18).
    pub task_work: bool,
}

impl AfterWaits {
    /// What the running kernel has. `DWELL_STACKS_BEFORE=1` says neither: to try what an older one would do.
    pub fn of_kernel() -> Self {
        const TYPES: &str = "/sys/kernel/btf/vmlinux";
        if std::env::var_os("DWELL_STACKS_BEFORE").is_some() {
            return Self::of(&[]);
        }
        // Mapped where the kernel allows that (Linux 6.16): it can be read by pages only, and is some MiB.
        let mapped = fs::File::open(TYPES).ok().and_then(|f| map_file(&f));
        match mapped {
            Some(types) => Self::of(&types),
            None => Self::of(&fs::read(TYPES).unwrap_or_default()),
        }
    }

    /// By the kernel's description of its types (BTF), in which names are strings that end with a NUL.
    fn of(types: &[u8]) -> Self {
        let has = |name: &[u8]| memchr::memmem::find(types, name).is_some();
        AfterWaits {
            switches: has(b"\0btf_trace_sched_exit_tp\0"),
            task_work: has(b"\0bpf_task_work_schedule_resume_impl\0"),
        }
    }

    /// Either way.
    pub fn any(self) -> bool {
        self.switches || self.task_work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists() {
        assert_eq!(parse_cpu_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(parse_cpu_list("0"), [0]);
        assert_eq!(parse_cpu_list(""), [] as [u32; 0]);
    }
}
