//! `dwell memory`: what memory cost.
use crate::cli::{MemoryArgs, RecordArgs};
use crate::{record, report, terminal};
use anyhow::Context;
use dwell_report::MemoryAnswer;
use dwell_report::terminal::Style;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Prints the answer, of a recording or of a command that is recorded first. Then it goes to standard error, so that the
/// command's own output stays clean.
pub fn memory(args: &MemoryArgs) -> anyhow::Result<ExitCode> {
    if args.cmd.is_empty() {
        let mut to = std::io::stdout();
        let style = terminal::style(&to);
        print(&report::find(&args.input)?, args, &mut to, &style)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (output, exit) = record::record_quietly(&RecordArgs::memory_of(args.cmd.clone()))?;
    let mut to = std::io::stderr();
    let style = terminal::style(&to);
    if args.json {
        print(&output, args, &mut std::io::stdout(), &style)?;
    } else {
        print(&output, args, &mut to, &style)?;
    }
    Ok(exit)
}

fn print(
    recording: &Path,
    args: &MemoryArgs,
    to: &mut impl Write,
    style: &Style,
) -> anyhow::Result<()> {
    let tables = report::load(recording)?;
    let answer = MemoryAnswer::build(&tables, args.stacks).with_context(|| {
        format!(
            "{} has no ledger of memory: `dwell record --memory` makes a recording that has one",
            recording.display()
        )
    })?;
    let text = if args.json {
        dwell_report::json::render_memory(&answer)
    } else {
        dwell_report::terminal::render_memory(&answer, style)
    };
    to.write_all(text.as_bytes())?;
    Ok(())
}
