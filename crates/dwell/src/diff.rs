//! `dwell diff`: what changed between recordings.
use crate::{report, terminal};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use dwell_report::diff::{Per, Run, Sides};
use dwell_report::{Analysis, DiffAnswer};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code when it got worse by more than was asked for.
const WORSE: u8 = 1;

/// What `--help` says at its end.
pub const EXAMPLES: &str = "\
Recordings of commands that ended are compared by the run, others by the second. Record each side several times to
tell a change from chance: the noise is half the interval that the true change is in with 95 % probability.

Exit code: with --fail-above, 1 when the runs take longer or need more CPU time by more than that, and chance does not
explain it.

Examples:
  dwell diff before.dwell after.dwell
  dwell diff before.dwell after.dwell --html diff.html      a page with a differential flame graph; or --svg
  dwell diff main-*.dwell --after branch-*.dwell --fail-above 5%
  dwell diff before.dwell after.dwell --work 120000,180000  per request, of which the recordings saw so many
  dwell diff before.dwell after.dwell --json | jq '.functions[0] | {function, own}'";

/// `dwell diff`.
#[derive(Args, Debug)]
pub struct DiffArgs {
    /// The recording before and the one after; with --after, recordings before.
    #[arg(value_name = "RECORDING", required = true)]
    pub recordings: Vec<PathBuf>,
    /// Recordings after.
    #[arg(long, value_name = "RECORDING", num_args = 1..)]
    pub after: Vec<PathBuf>,
    /// What times are divided by, so that recordings can be compared.
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "work")]
    pub per: Option<PerChoice>,
    /// Compare by the unit of work: how many were done during each recording, in their order.
    #[arg(long, value_name = "UNITS,UNITS", value_delimiter = ',', value_parser = parse_units)]
    pub work: Vec<f64>,
    /// End with exit code 1 when it got worse by more than this: 5%.
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub fail_above: Option<f64>,
    /// Print JSON with the same content.
    #[arg(long)]
    pub json: bool,
    /// Write a differential flame graph.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write a page for the browser: the same tables, and the flame graph of both sides.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// See `DiffArgs::per`.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerChoice {
    /// Nothing: each recording is of a run that did the same work.
    Run,
    /// The length of the recording.
    Second,
    /// All thread time: how it divides.
    ThreadTime,
}

/// Prints it, and draws it where asked.
pub fn diff(args: &DiffArgs) -> anyhow::Result<ExitCode> {
    let (before, after) = sides(args)?;
    let before = before
        .iter()
        .map(|path| run(path))
        .collect::<Result<Vec<_>, _>>()?;
    let after = after
        .iter()
        .map(|path| run(path))
        .collect::<Result<Vec<_>, _>>()?;
    let per = per(args, &before, &after)?;
    let sides = Sides::new(before, after, per);
    let answer = DiffAnswer::of(&sides);
    if let Some(file) = &args.svg {
        draw(&sides, &answer, file).with_context(|| format!("writing {}", file.display()))?;
    }
    if let Some(file) = &args.html {
        let mut html = Vec::new();
        dwell_report::page::write_diff(&sides, &answer, &mut html)?;
        fs::write(file, html).with_context(|| format!("writing {}", file.display()))?;
    }
    let mut to = std::io::stdout();
    let text = match args.json {
        true => dwell_report::json::render_diff(&answer),
        false => dwell_report::terminal::render_diff(&answer, &terminal::style(&to)),
    };
    to.write_all(text.as_bytes())?;
    Ok(verdict(args, &answer))
}

/// The recordings of each side.
fn sides(args: &DiffArgs) -> anyhow::Result<(&[PathBuf], &[PathBuf])> {
    match (args.recordings.as_slice(), args.after.as_slice()) {
        ([before, after], []) => Ok((std::slice::from_ref(before), std::slice::from_ref(after))),
        (_, []) => {
            bail!("name the recording before and the one after, or several: BEFORE… --after AFTER…")
        }
        sides => Ok(sides),
    }
}

fn per(args: &DiffArgs, before: &[Run], after: &[Run]) -> anyhow::Result<Per> {
    let recordings = before.len() + after.len();
    if !args.work.is_empty() {
        if args.work.len() != recordings {
            bail!(
                "--work needs a number for each of the {recordings} recordings, those before first"
            );
        }
        return Ok(Per::Work(args.work.clone()));
    }
    Ok(match args.per {
        None => Per::fitting(before.iter().chain(after)),
        Some(PerChoice::Run) => Per::Run,
        Some(PerChoice::Second) => Per::Second,
        Some(PerChoice::ThreadTime) => Per::ThreadTime,
    })
}

fn run(path: &Path) -> anyhow::Result<Run> {
    let tables = report::load(path)?;
    Ok(Run::of(&Analysis::of(&tables)))
}

fn draw(sides: &Sides, answer: &DiffAnswer, file: &Path) -> anyhow::Result<()> {
    let mut to = BufWriter::new(File::create(file)?);
    dwell_report::svg::write_diff(sides, answer, &mut to)?;
    to.flush()?;
    Ok(())
}

fn verdict(args: &DiffArgs, answer: &DiffAnswer) -> ExitCode {
    let Some(limit) = args.fail_above else {
        return ExitCode::SUCCESS;
    };
    let worse = answer.worse_by(limit);
    for measure in &worse {
        let what = match measure.name.as_str() {
            "duration" => "it takes",
            _ => "it needs CPU time",
        };
        let by = measure
            .change
            .share
            .map_or("from none".to_owned(), |share| {
                format!("{:.1} %", 100.0 * share)
            });
        eprintln!(
            "dwell: {what} {by} more than before; {:.1} % were allowed",
            100.0 * limit
        );
    }
    if worse.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(WORSE)
    }
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(percent) if percent >= 0.0 && percent.is_finite() => Ok(percent / 100.0),
        _ => Err("not a percentage; write 5%".to_owned()),
    }
}

fn parse_units(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(units) if units > 0.0 && units.is_finite() => Ok(units),
        _ => Err("not a number above zero".to_owned()),
    }
}
