//! Tracepoints of the kernel: `sdt:group::event`, and `tracepoint:group::event` for those who know them by that name.
use super::glob::is_pattern;
use super::{At, Probe, matches, name};
use dwell_script::typed::ProbePattern;
use std::fs;

/// Where the kernel lists them, `group:event` a line.
const LISTS: [&str; 2] = [
    "/sys/kernel/tracing/available_events",
    "/sys/kernel/debug/tracing/available_events",
];
const PROVIDERS: [&str; 2] = ["sdt", "tracepoint"];

pub(super) fn find(pattern: &ProbePattern, found: &mut Vec<Probe>) {
    let is_named = !pattern.provider.is_empty();
    // Without a provider they are only looked through for what nothing else is called.
    if !is_named && (!found.is_empty() || pattern.name.is_empty()) {
        return;
    }
    let mut providers = PROVIDERS.into_iter();
    let Some(provider) = providers.find(|p| !is_named || *p == &*pattern.provider) else {
        return;
    };
    // The group is where dtrace has the module; some scripts have it for the function.
    let group = if pattern.module.is_empty() {
        &pattern.function
    } else {
        &pattern.module
    };
    let add = |group: &str, event: &str, found: &mut Vec<Probe>| {
        let at = At::Tracepoint(event.into());
        found.push(Probe {
            name: name(provider, group, "", event),
            at,
        });
    };
    let list = LISTS
        .into_iter()
        .find_map(|path| fs::read_to_string(path).ok());
    for line in list.iter().flat_map(|list| list.lines()) {
        if let Some((in_group, event)) = line.split_once(':')
            && matches(group, in_group)
            && matches(&pattern.name, event)
            && in_group != "syscalls"
        {
            add(in_group, event, found);
        }
    }
    if list.is_none() && is_named && !is_pattern(&pattern.name) {
        add(group, &pattern.name, found);
    }
}
