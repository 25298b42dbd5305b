//! OpenTelemetry's profiles signal, as protobuf: a resource per process, in it one profile of `wall` time in ns.
//!
//! Samples have the attributes `thread.id`, `thread.name`, `thread.state` and where they apply `thread.blocked.reason` and
//! `syscall`; the values of a process add up to its thread time exactly. Stacks have the address their file
//! states; mappings carry the build id. A sample is all time of a thread in one state at one stack: it has no timestamps.
mod dictionary;
pub mod proto;

use crate::frames::ThreadNames;
use dictionary::Dictionary;
use dwell_analysis::{Analysis, Entry};
use prost::Message;
use proto::{
    AnyValue, InstrumentationScope, KeyValue, Profile, ProfilesData, Resource, ResourceProfiles,
    Sample, ScopeProfiles, ValueType,
};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the profiles; every process is a service.
pub fn write(analysis: &Analysis<'_>, out: &mut impl Write) -> io::Result<()> {
    write_of(analysis, None, out)
}

/// The same; all processes are of this service, if there is one.
pub fn write_of(
    analysis: &Analysis<'_>,
    service: Option<&str>,
    out: &mut impl Write,
) -> io::Result<()> {
    out.write_all(&profiles(analysis, service).encode_to_vec())
}

/// The profiles before they are encoded.
pub fn profiles(analysis: &Analysis<'_>, service: Option<&str>) -> ProfilesData {
    let mut dictionary = Dictionary::of(analysis);
    let mut by_process: BTreeMap<u32, Vec<&Entry>> = BTreeMap::new();
    for entry in &analysis.profile.entries {
        let thread = &analysis.tables.threads[entry.thread as usize];
        by_process.entry(thread.process).or_default().push(entry);
    }
    let resource_profiles = by_process
        .into_iter()
        .map(|(process, entries)| ResourceProfiles {
            resource: Some(resource(analysis, process, service)),
            scope_profiles: vec![of_process(analysis, process, &entries, &mut dictionary)],
        })
        .collect();
    ProfilesData {
        resource_profiles,
        dictionary: Some(dictionary.finish()),
    }
}

fn of_process(
    analysis: &Analysis<'_>,
    process: u32,
    entries: &[&Entry],
    dictionary: &mut Dictionary<'_, '_>,
) -> ScopeProfiles {
    let meta = &analysis.tables.meta;
    let (name, version) = meta.tool.split_once(' ').unwrap_or((&meta.tool, ""));
    let scope = InstrumentationScope {
        name: name.to_owned(),
        version: version.to_owned(),
    };
    let unit = ValueType {
        type_strindex: dictionary.string("wall"),
        unit_strindex: dictionary.string("nanoseconds"),
    };
    let start_ns = meta.clock.unix_ns(meta.start_ns);
    // Of the same window and process it is the same profile.
    let id = (u128::from(start_ns) << 64) | (u128::from(process) + 1);
    let profile = Profile {
        sample_type: Some(unit),
        samples: entries
            .iter()
            .map(|e| sample(analysis, e, dictionary))
            .collect(),
        time_unix_nano: start_ns,
        duration_nano: analysis.summary.window_ns,
        period_type: Some(unit),
        period: signed(meta.period_ns),
        profile_id: id.to_be_bytes().to_vec(),
    };
    ScopeProfiles {
        scope: Some(scope),
        profiles: vec![profile],
    }
}

fn resource(analysis: &Analysis<'_>, process: u32, service: Option<&str>) -> Resource {
    let tables = analysis.tables;
    let process = analysis.index.process(process);
    let name = dwell_analysis::groups::process_name(tables, process);
    let mut attributes = vec![
        attribute("service.name", service.unwrap_or(name)),
        attribute("host.name", tables.meta.machine.host.as_str()),
    ];
    if let Some(row) = process.map(|p| &tables.processes[p]) {
        attributes.push(attribute("process.pid", row.pid));
        attributes.push(attribute("process.executable.name", name));
        attributes.push(attribute("process.executable.path", row.exe.as_str()));
        attributes.push(attribute("process.command_line", row.command.as_str()));
    }
    Resource { attributes }
}

fn attribute(key: &str, value: impl Into<AnyValue>) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(value.into()),
    }
}

fn sample(analysis: &Analysis<'_>, entry: &Entry, dictionary: &mut Dictionary<'_, '_>) -> Sample {
    let of = ThreadNames::of(analysis, entry.thread as usize);
    let mut attribute_indices = vec![
        dictionary.attribute("thread.id", of.tid),
        dictionary.attribute("thread.name", of.thread),
        dictionary.attribute("thread.state", entry.state.name()),
    ];
    if let Some(reason) = entry.state.reason() {
        attribute_indices.push(dictionary.attribute("thread.blocked.reason", reason.name()));
    }
    let syscall = analysis.profile.syscall(entry);
    if !syscall.is_empty() {
        attribute_indices.push(dictionary.attribute("syscall", syscall));
    }
    Sample {
        stack_index: dictionary.stack(entry.stack),
        attribute_indices,
        values: vec![signed(entry.weight_ns)],
    }
}

/// OTLP's numbers are signed.
fn signed(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
