//! `dwell findings`: what an expert would say.
use crate::cli::{FindingsArgs, RecordArgs};
use crate::{record, report, terminal};
use anyhow::bail;
use dwell_findings::{Severity, rules};
use dwell_report::FindingsAnswer;
use dwell_report::terminal::Style;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Exit code when there is a finding of the severity asked for.
const FOUND: u8 = 1;

/// Prints the findings, of a recording or of a command that is recorded first. Then they go to standard error, so that the
/// command's own output stays clean.
pub fn findings(args: &FindingsArgs) -> anyhow::Result<ExitCode> {
    check_rule(args.rule.as_deref())?;
    if args.cmd.is_empty() {
        let mut to = std::io::stdout();
        let style = terminal::style(&to);
        let failed = print(&report::find(&args.input)?, args, &mut to, &style)?;
        return Ok(if failed {
            ExitCode::from(FOUND)
        } else {
            ExitCode::SUCCESS
        });
    }
    let (output, exit) = record::record_quietly(&RecordArgs {
        locks: args.locks,
        memory: args.memory,
        ..RecordArgs::memory_of(args.cmd.clone())
    })?;
    let mut to = std::io::stderr();
    let style = terminal::style(&to);
    let failed = match args.json {
        true => print(&output, args, &mut std::io::stdout(), &style)?,
        false => print(&output, args, &mut to, &style)?,
    };
    // A command that failed itself is told first.
    Ok(if failed && exit == ExitCode::SUCCESS {
        ExitCode::from(FOUND)
    } else {
        exit
    })
}

fn check_rule(rule: Option<&str>) -> anyhow::Result<()> {
    let Some(rule) = rule else { return Ok(()) };
    let names: Vec<&str> = rules::ALL.iter().map(|r| r.name).collect();
    if !names.contains(&rule) {
        bail!("no rule {rule:?}; there are {}", names.join(", "));
    }
    Ok(())
}

/// Prints; true when `--fail-on` is met.
fn print(
    recording: &Path,
    args: &FindingsArgs,
    to: &mut impl Write,
    style: &Style,
) -> anyhow::Result<bool> {
    let answer = FindingsAnswer::build(&report::load(recording)?, args.rule.as_deref());
    let text = if args.json {
        dwell_report::json::render_findings(&answer)
    } else {
        dwell_report::terminal::render_findings(&answer, style)
    };
    to.write_all(text.as_bytes())?;
    let limit = args.fail_on.map(Severity::from);
    Ok(limit.is_some_and(|limit| answer.findings.iter().any(|f| f.severity >= limit)))
}
