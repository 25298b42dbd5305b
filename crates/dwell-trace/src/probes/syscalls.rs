//! System calls.
use super::glob::is_pattern;
use super::{At, Probe, matches, name};
use dwell_script::typed::ProbePattern;
use syscalls::x86_64::Sysno;

/// The module under which the kernel's own probes are.
const MODULE: &str = "vmlinux";

pub(super) fn find(pattern: &ProbePattern, found: &mut Vec<Probe>) {
    if !matches(&pattern.provider, "syscall") || !matches(&pattern.module, MODULE) {
        return;
    }
    let wanted = |call: &Sysno| matches(&pattern.function, call.name());
    let calls = Sysno::iter().filter(wanted);
    let calls: Vec<Sysno> = if is_pattern(&pattern.function) {
        calls.collect()
    } else {
        calls.take(1).collect()
    };
    for call in calls {
        for (text, returns) in [("entry", false), ("return", true)] {
            if matches(&pattern.name, text) {
                let number = call.id() as u32;
                let name = name("syscall", MODULE, call.name(), text);
                found.push(Probe {
                    name,
                    at: At::Syscall { number, returns },
                });
            }
        }
    }
}
