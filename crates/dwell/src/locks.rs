//! `dwell locks`: which locks cost time.
use crate::cli::LocksArgs;
use crate::{report, terminal};
use anyhow::Context;
use dwell_recording::Tables;
use dwell_report::{LockTimeline, LocksAnswer, Options};
use std::io::Write;
use std::process::ExitCode;

/// Prints the answer.
pub fn locks(args: &LocksArgs) -> anyhow::Result<ExitCode> {
    let tables = report::load(&report::find(&args.input)?)?;
    if let Some(lock) = &args.timeline {
        return timeline(&tables, lock, args.json);
    }
    let options = Options {
        locks: args.locks,
        ..Options::default()
    };
    let answer = LocksAnswer::build(&tables, &options);
    let mut to = std::io::stdout();
    let text = if args.json {
        dwell_report::json::render_locks(&answer)
    } else {
        dwell_report::terminal::render_locks(&answer, &terminal::style(&to))
    };
    to.write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one lock over time.
fn timeline(tables: &Tables, lock: &str, json: bool) -> anyhow::Result<ExitCode> {
    let mut to = std::io::stdout();
    let style = terminal::style(&to);
    let parts = dwell_report::terminal::timeline_parts(&style);
    let timeline = LockTimeline::build(tables, lock, parts).with_context(|| {
        format!(
            "no waits for a lock {lock:?} are known: `dwell record --locks` makes a recording that has them, \
             and `dwell locks` names the locks"
        )
    })?;
    let text = if json {
        dwell_report::json::render_timeline(&timeline)
    } else {
        dwell_report::terminal::render_timeline(&timeline, &style)
    };
    to.write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
