//! What a machine allows, asked of the machine itself.
use crate::functions;
use crate::kernel_marks::KernelMarks;
use crate::machine::{self, AfterWaits};
use crate::options::{Options, Target};
use crate::programs::Clock;
use crate::{perf, recorder};
use std::path::Path;

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As wanted.
    Good,
    /// Recording works, with less.
    Reduced,
    /// Recording does not work.
    Missing,
}

impl Verdict {
    /// `ok`, `reduced` or `missing`.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Good => "ok",
            Verdict::Reduced => "reduced",
            Verdict::Missing => "missing",
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub struct Check {
    /// What.
    pub what: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub detail: String,
    /// What to do about it; empty when nothing is to be done.
    pub remedy: String,
}

fn check(what: &'static str, verdict: Verdict, detail: impl Into<String>, remedy: &str) -> Check {
    let remedy = if verdict == Verdict::Good {
        String::new()
    } else {
        remedy.into()
    };
    Check {
        what,
        verdict,
        detail: detail.into(),
        remedy,
    }
}

fn or(good: bool, otherwise: Verdict) -> Verdict {
    if good { Verdict::Good } else { otherwise }
}

/// Looks at everything a recording needs. The programs are loaded for a moment and taken back.
pub fn examine() -> Vec<Check> {
    let [_, kernel, arch] = machine::names();
    let (marks, _) = KernelMarks::read();
    let mut checks = vec![
        check(
            "processor",
            or(arch == "x86_64", Verdict::Missing),
            arch,
            "dwell records on x86_64 only",
        ),
        check(
            "kernel",
            or(is_at_least(&kernel, 5, 17), Verdict::Missing),
            kernel.clone(),
            "Linux 5.17 or newer has what the unwinder needs (bpf_loop)",
        ),
    ];
    checks.extend(capabilities());
    let btf = Path::new("/sys/kernel/btf/vmlinux").exists();
    checks.push(check(
        "kernel type information",
        or(btf, Verdict::Missing),
        "/sys/kernel/btf/vmlinux",
        "use a kernel built with CONFIG_DEBUG_INFO_BTF=y",
    ));
    let symbols = marks.tick_function.is_some();
    checks.push(check(
        "kernel symbols",
        or(symbols, Verdict::Reduced),
        if symbols {
            "readable"
        } else {
            "hidden: kernel frames stay unnamed, the clock is a timer of our own"
        },
        "sysctl kernel.kptr_restrict=0, or run as root",
    ));
    let after = AfterWaits::of_kernel();
    checks.push(check(
        "stacks after waits",
        or(after.any(), Verdict::Reduced),
        match (after.switches, after.task_work) {
            (true, true) => "by sched_exit_tp or by task_work, whichever is cheaper",
            (true, false) => "by sched_exit_tp",
            (false, true) => "by task_work",
            (false, false) => "missing: waits' stacks are taken before the wait, which costs more; a wait that is much longer than usual shows the stack its site had last",
        },
        "Linux 6.15 or newer tells when a thread runs again, so that its stack can be taken then",
    ));
    let clock = machine::online_cpus()
        .first()
        .map(|&cpu| perf::open_clock(cpu, 10_000_000));
    let clock_works = matches!(clock, Some(Ok(_)));
    checks.push(check(
        "perf events",
        or(clock_works, Verdict::Missing),
        if clock_works { "usable" } else { "refused" },
        "run as root or with CAP_PERFMON; in a container allow perf_event_open",
    ));
    checks.push(load(&marks, after));
    checks.push(kernel_functions());
    checks
}

/// `CapEff` bits of <linux/capability.h>.
const CAPABILITIES: [(&str, u32, &str); 3] = [
    ("CAP_BPF", 39, "load the eBPF programs"),
    ("CAP_PERFMON", 38, "trace the kernel and read its clock"),
    ("CAP_SYS_PTRACE", 19, "read the memory of other processes"),
];

fn capabilities() -> Vec<Check> {
    let bits = machine::effective_capabilities().unwrap_or(0);
    let admin = bits >> 21 & 1 == 1;
    let one = |&(name, bit, why): &(&'static str, u32, &str)| {
        let have = bits >> bit & 1 == 1 || (admin && bit != 19);
        check(
            name,
            or(have, Verdict::Missing),
            why,
            "run as root, or: setcap cap_bpf,cap_perfmon,cap_sys_ptrace=ep $(which dwell)",
        )
    };
    CAPABILITIES.iter().map(one).collect()
}

fn load(marks: &KernelMarks, after_waits: AfterWaits) -> Check {
    let clock = if marks.tick_function.is_some() {
        Clock::Tick
    } else {
        Clock::Timer
    };
    let options = Options {
        target: Target::Pids(Vec::new()),
        output: None,
        overwrite: false,
        period_ns: 1 << 40,
        clock,
        duration: None,
        slice_min_ns: 1 << 40,
        ring_bytes: 1 << 20,
        kernel_locks: false,
        memory: false,
        command_line: Vec::new(),
    };
    let loaded = recorder::load(&options, after_waits);
    let loaded = loaded.and_then(|mut p| p.attach(clock, options.period_ns));
    match loaded {
        Ok(_) => check("eBPF programs", Verdict::Good, "load and attach", ""),
        Err(error) => check(
            "eBPF programs",
            Verdict::Missing,
            error.to_string().lines().next().unwrap_or_default(),
            "DWELL_DEBUG_BPF=1 dwell doctor shows what the kernel said",
        ),
    }
}

fn kernel_functions() -> Check {
    let what = "kernel functions";
    match functions::support::probe() {
        Ok(()) => check(what, Verdict::Good, "can be traced (fentry)", ""),
        Err(error) => check(
            what,
            Verdict::Reduced,
            format!("`dwell functions` cannot: {}", error.reason()),
            functions::REQUIREMENTS,
        ),
    }
}

fn is_at_least(release: &str, major: u32, minor: u32) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (major, minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases() {
        assert!(is_at_least("6.18.44-fc", 5, 17) && is_at_least("5.17", 5, 17));
        assert!(!is_at_least("5.16.20", 5, 17) && !is_at_least("", 5, 17));
    }
}
