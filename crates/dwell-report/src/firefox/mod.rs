//! The Firefox Profiler's processed format (version 70), gzipped: profiler.firefox.com opens it.
//!
//! A sample per moment, with its thread time in ms as weight; states are categories, reasons for blocking are
//! subcategories. The weights of each thread and state add up exactly but for the rounding of a double. Waits that were kept are
//! markers that name who ended them.
mod format;
mod shared;

use crate::frames::ThreadNames;
use dwell_analysis::{Analysis, Moment, Moments, Reason, State};
use flate2::Compression;
use flate2::write::GzEncoder;
use format::{Markers, Samples, Thread, Wait};
use serde_json::{Value, json};
use shared::Shared;
use std::io::{self, Write};

/// Version of the format that is written; readers upgrade it.
const VERSION: u32 = 70;

/// Writes the profile.
pub fn write(analysis: &Analysis<'_>, out: &mut impl Write) -> io::Result<()> {
    let moments = Moments::of(analysis);
    let mut shared = Shared::of(analysis);
    let threads: Vec<Thread> = (0..analysis.tables.threads.len())
        .map(|thread| of_thread(analysis, thread, moments.of_thread(thread), &mut shared))
        .collect();
    let profile = format::Profile {
        meta: meta(analysis),
        libs: [],
        shared: shared.tables(),
        threads,
    };
    let mut gzip = GzEncoder::new(out, Compression::new(4));
    serde_json::to_writer(&mut gzip, &profile).map_err(io::Error::from)?;
    gzip.finish()?;
    Ok(())
}

/// Names and colours of the categories; a state's is at [`category`].
fn categories() -> Value {
    let mut reasons = vec!["Other"];
    reasons.extend(Reason::ALL.iter().map(|reason| reason.name()));
    let of =
        |name: &str, color: &str| json!({"name": name, "color": color, "subcategories": ["Other"]});
    json!([
        of("Other", "grey"),
        of(State::Running.name(), "green"),
        of(State::Spinning.name(), "yellow"),
        of(State::Runnable.name(), "orange"),
        of(State::Stolen.name(), "magenta"),
        {"name": "blocked", "color": "blue", "subcategories": reasons},
        of(State::Lost.name(), "darkgrey"),
    ])
}

/// Category and subcategory of a state.
fn category(state: State) -> (u32, u32) {
    match state {
        State::Running => (1, 0),
        State::Spinning => (2, 0),
        State::Runnable => (3, 0),
        State::Stolen => (4, 0),
        State::Blocked(reason) => (5, 1 + reason as u32),
        State::Lost => (6, 0),
    }
}

fn meta(analysis: &Analysis<'_>) -> Value {
    let meta = &analysis.tables.meta;
    json!({
        "version": 30,
        "preprocessedProfileVersion": VERSION,
        "interval": ms(meta.period_ns),
        "startTime": ms(meta.clock.unix_ns(meta.start_ns)),
        "profilingStartTime": 0,
        "profilingEndTime": ms(meta.end_ns.saturating_sub(meta.start_ns)),
        "processType": 0,
        "product": meta.target,
        "importedFrom": meta.tool,
        "platform": "Linux",
        "oscpu": format!("Linux {} {}", meta.machine.kernel, meta.machine.arch),
        "logicalCPUs": meta.machine.cpus,
        "stackwalk": 1,
        "debug": false,
        "symbolicated": true,
        "symbolicationNotSupported": true,
        "categories": categories(),
        "markerSchema": [{
            "name": "wait",
            "tooltipLabel": "{marker.data.reason}",
            "tableLabel": "{marker.data.reason}, ended by {marker.data.waker}",
            "chartLabel": "{marker.data.reason}",
            "display": ["marker-chart", "marker-table"],
            "fields": [
                {"key": "reason", "label": "Reason", "format": "string"},
                {"key": "waker", "label": "Ended by", "format": "string"},
            ],
        }],
    })
}

fn of_thread(
    analysis: &Analysis<'_>,
    thread: usize,
    moments: &[Moment],
    shared: &mut Shared<'_, '_>,
) -> Thread {
    let row = &analysis.tables.threads[thread];
    let of = ThreadNames::of(analysis, thread);
    let from_ns = analysis.tables.meta.start_ns;
    Thread {
        process_type: "default",
        process_name: of.process.to_owned(),
        process_startup_time: 0.0,
        process_shutdown_time: None,
        register_time: since(from_ns, row.start_ns),
        unregister_time: row.ended.then(|| since(from_ns, row.until_ns)),
        paused_ranges: [],
        name: of.thread.to_owned(),
        is_main_thread: of.pid == of.tid,
        pid: of.pid.to_string(),
        // Tids are used again, and here they tell threads apart.
        tid: format!("{}.{}", of.tid, row.thread),
        samples: samples(from_ns, moments, shared),
        markers: markers(analysis, moments, shared),
    }
}

fn samples(from_ns: u64, moments: &[Moment], shared: &mut Shared<'_, '_>) -> Samples {
    Samples {
        stack: moments.iter().map(|m| shared.stack(m)).collect(),
        time: moments.iter().map(|m| since(from_ns, m.start_ns)).collect(),
        weight: moments.iter().map(|m| ms(m.duration_ns)).collect(),
        weight_type: "tracing-ms",
        length: moments.len(),
    }
}

/// The waits that were kept.
fn markers(analysis: &Analysis<'_>, moments: &[Moment], shared: &mut Shared<'_, '_>) -> Markers {
    const INTERVAL: u32 = 1;
    let tables = analysis.tables;
    let mut markers = Markers::default();
    for moment in moments {
        let (State::Blocked(reason), Some(slice)) = (moment.state, moment.slice) else {
            continue;
        };
        let syscall = &analysis.profile.syscalls[moment.syscall as usize];
        markers.data.push(Wait {
            r#type: "wait",
            reason: format!("{} {syscall}", reason.name()).trim_end().to_owned(),
            waker: tables.slices[slice as usize].waker_name.clone(),
        });
        markers.name.push(shared.string("wait"));
        markers
            .start_time
            .push(since(tables.meta.start_ns, moment.start_ns));
        markers
            .end_time
            .push(since(tables.meta.start_ns, moment.end_ns()));
        markers.phase.push(INTERVAL);
        markers.category.push(category(moment.state).0);
        markers.length += 1;
    }
    markers
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

fn since(from_ns: u64, instant_ns: u64) -> f64 {
    ms(instant_ns.saturating_sub(from_ns))
}
