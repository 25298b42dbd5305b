//! `dwell report`: the answer of a recording.
use crate::cli::{Input, ReportArgs};
use crate::{naming, terminal, view};
use anyhow::{Context, bail};
use dwell_recording::{Recording, Tables};
use dwell_report::Analysis;
use dwell_report::terminal::Style;
use dwell_report::{Answer, Options};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Prints it.
pub fn report(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let path = find(&args.input)?;
    if let Some(file) = &args.html {
        let html = view::html(&Analysis::of(&load(&path)?))?;
        fs::write(file, html).with_context(|| format!("writing {}", file.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut to = std::io::stdout();
    let style = (!args.json).then(|| terminal::style(&to));
    print(&path, &mut to, style, args.stacks)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the answer of the recording at `path`, as text in a style, without one as JSON; with so many stacks of each
/// kind.
pub fn print(
    path: &Path,
    to: &mut impl Write,
    style: Option<Style>,
    stacks: Option<usize>,
) -> anyhow::Result<()> {
    let tables = load(path)?;
    let mut options = Options::default();
    options.stacks = stacks.unwrap_or(options.stacks);
    let answer = Answer::build(&tables, &options);
    let text = match style {
        Some(mut style) => {
            style.stacks = stacks.unwrap_or(style.stacks);
            dwell_report::terminal::render(&answer, &style)
        }
        None => dwell_report::json::render(&answer),
    };
    to.write_all(text.as_bytes())?;
    Ok(())
}

/// Reads a recording; what a person should know of its state goes to standard error.
pub fn load(path: &Path) -> anyhow::Result<Tables> {
    let recording = Recording::open(path)?;
    let mut tables = recording.load()?;
    if !tables.meta.complete {
        naming::name_tables(&mut tables);
    }
    for warning in recording.warnings() {
        eprintln!("dwell: warning: {warning}");
    }
    Ok(tables)
}

/// The recording that is meant: the one named, else the newest in this folder.
pub fn find(input: &Input) -> anyhow::Result<PathBuf> {
    if let Some(path) = &input.recording {
        return Ok(path.clone());
    }
    let entries = fs::read_dir(".").context("reading this folder")?;
    let recordings = entries
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "dwell"));
    let newest = recordings.max_by_key(|p| {
        fs::metadata(p.join("meta.json"))
            .and_then(|m| m.modified())
            .ok()
    });
    let Some(newest) = newest else {
        bail!("no recording here: name one, or make one with `dwell record`");
    };
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_stacks_are_shown_as_are_asked_for() {
        let recording = Path::new("../dwell-recording/tests/recordings/version-5.dwell");
        let lines = |stacks| {
            let mut text = Vec::new();
            print(recording, &mut text, Some(Style::default()), stacks).expect("it is printed");
            text.split(|byte| *byte == b'\n').count()
        };
        assert!(lines(Some(1)) < lines(None) && lines(None) < lines(Some(20)));
        assert!(lines(Some(9)) < lines(Some(20)));
        let mut json = Vec::new();
        print(recording, &mut json, None, Some(15)).expect("it is printed");
        let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
        assert_eq!(json["off_cpu"].as_array().map(Vec::len), Some(15));
    }
}
