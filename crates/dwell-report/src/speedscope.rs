//! speedscope's own file format: one profile per thread, its stacks in the order of time.
//!
//! Weights are ns of thread time and add up to each thread's time exactly. The innermost frame of time that a thread
//! did not run says why, as in [folded](crate::folded) stacks.
use crate::frames::{Frames, ThreadNames};
use dwell_analysis::{Analysis, Moments};
use serde::Serialize;
use std::io::{self, Write};

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    name: &'a str,
    exporter: &'a str,
    shared: Shared<'a>,
    profiles: Vec<Profile>,
}

#[derive(Serialize)]
struct Shared<'a> {
    frames: Vec<Frame<'a>>,
}

#[derive(Serialize)]
struct Frame<'a> {
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    r#type: &'static str,
    name: String,
    unit: &'static str,
    start_value: u64,
    end_value: u64,
    samples: Vec<Vec<u32>>,
    weights: Vec<u64>,
}

/// Writes the file.
pub fn write(analysis: &Analysis<'_>, out: &mut impl Write) -> io::Result<()> {
    let moments = Moments::of(analysis);
    let mut frames = Frames::of(analysis);
    let threads = 0..analysis.tables.threads.len();
    let profiles = threads
        .filter(|thread| !moments.of_thread(*thread).is_empty())
        .map(|thread| profile(analysis, thread, &moments, &mut frames))
        .collect();
    let meta = &analysis.tables.meta;
    let file = File {
        schema: "https://www.speedscope.app/file-format-schema.json",
        name: &meta.target,
        exporter: &meta.tool,
        shared: Shared {
            frames: frames.names.iter().map(|name| Frame { name }).collect(),
        },
        profiles,
    };
    serde_json::to_writer(out, &file).map_err(io::Error::from)
}

fn profile(
    analysis: &Analysis<'_>,
    thread: usize,
    moments: &Moments,
    frames: &mut Frames<'_, '_>,
) -> Profile {
    let of = ThreadNames::of(analysis, thread);
    let moments = moments.of_thread(thread);
    let weights: Vec<u64> = moments.iter().map(|m| m.duration_ns).collect();
    Profile {
        r#type: "sampled",
        name: format!("{} ({}) {} ({})", of.process, of.pid, of.thread, of.tid),
        unit: "nanoseconds",
        start_value: 0,
        end_value: weights.iter().fold(0, |sum, ns| sum.saturating_add(*ns)),
        samples: moments.iter().map(|m| frames.of_moment(m)).collect(),
        weights,
    }
}
