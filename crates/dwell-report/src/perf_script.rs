//! The text of `perf script`, for what reads it: an event `wall` per moment, whose period is ns of thread time.
//!
//! Periods add up to the recording's thread time exactly. The innermost frame of time that a thread did not run says why,
//! as in [folded](crate::folded) stacks. Times are those of CLOCK_BOOTTIME. Processors are left out.
use crate::frames::{Frames, ThreadNames};
use dwell_analysis::names::{StackRef, cut_short};
use dwell_analysis::{Analysis, Moments};
use rustc_hash::FxHashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes the text, thread by thread.
pub fn write(analysis: &Analysis<'_>, out: &mut impl Write) -> io::Result<()> {
    let moments = Moments::of(analysis);
    let mut frames = Frames::of(analysis);
    let mut stacks = FxHashMap::default();
    for thread in 0..analysis.tables.threads.len() {
        let of = ThreadNames::of(analysis, thread);
        let name = one_line(of.thread);
        for moment in moments.of_thread(thread) {
            let (seconds, ns) = (
                moment.start_ns / 1_000_000_000,
                moment.start_ns % 1_000_000_000,
            );
            let (pid, tid, period) = (of.pid, of.tid, moment.duration_ns);
            writeln!(out, "{name} {pid}/{tid} {seconds}.{ns:09}: {period} wall: ")?;
            if let Some(leaf) = frames.leaf(moment) {
                out.write_all(line(0, &frames.names[leaf as usize], "[state]").as_bytes())?;
            }
            let stack = stacks
                .entry(moment.stack)
                .or_insert_with(|| text(analysis, &frames, moment.stack));
            writeln!(out, "{stack}")?;
        }
    }
    Ok(())
}

/// A stack, innermost frame first.
fn text(analysis: &Analysis<'_>, frames: &Frames<'_, '_>, stack: StackRef) -> String {
    let StackRef::Taken(position) = stack else {
        let names = &analysis.names;
        let functions = names.path(names.path_of(stack)).iter().rev();
        return functions
            .map(|f| line(0, &frames.names[*f as usize], "[state]"))
            .collect();
    };
    let row = &analysis.tables.stacks[position as usize];
    let mut text = String::new();
    for id in row.frames.iter().rev() {
        let Some(frame) = analysis.index.frame(*id) else {
            text.push_str(&line(0, "[frame lost]", "[state]"));
            continue;
        };
        let row = &analysis.tables.frames[frame];
        // Innermost first, as the frames are; all but the last were inlined into the one behind.
        let mut functions = analysis.names.frame(frame).rev().peekable();
        while let Some((function, _)) = functions.next() {
            let module = if functions.peek().is_some() {
                "inlined"
            } else {
                &row.module
            };
            text.push_str(&line(row.address, &frames.names[function as usize], module));
        }
    }
    if let Some(why) = cut_short(&row.end) {
        text.push_str(&line(0, &format!("[cut short: {why}]"), "[state]"));
    }
    if text.is_empty() {
        text.push_str(&line(0, "[no frames]", "[state]"));
    }
    text
}

fn line(address: u64, name: &str, module: &str) -> String {
    let mut line = String::new();
    let module = if module.is_empty() {
        "[unknown]"
    } else {
        module
    };
    let (name, module) = (one_line(name), one_line(module));
    writeln!(line, "\t{address:16x} {name} ({module})").expect("a string takes what is written");
    line
}

fn one_line(name: &str) -> String {
    let name = name.trim();
    if name.is_empty() {
        return "[unnamed]".to_owned();
    }
    name.replace(char::is_control, " ")
}
