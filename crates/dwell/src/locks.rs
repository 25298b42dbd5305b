//! `dwell locks`: which locks cost time.
use crate::cli::LocksArgs;
use crate::{report, terminal};
use dwell_report::{LocksAnswer, Options};
use std::io::Write;
use std::process::ExitCode;

/// Prints the answer.
pub fn locks(args: &LocksArgs) -> anyhow::Result<ExitCode> {
    let tables = report::load(&report::find(&args.input)?)?;
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
