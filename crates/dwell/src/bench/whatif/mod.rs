//! How right `dwell whatif` is: a program is recorded once, with one number of threads, batch, kind of lock
//! and shard; a grid of others is predicted from that, and then run.
//!
//! The runs of a cell are spread over the time, so that what else the machine does meets all cells alike;
//! the median counts. The program and all its threads are put before other sessions' programs (the
//! scheduler's groups), since a rival for the processors is not what is predicted.
mod report;
mod scalability;

use super::programs::test_programs;
use super::statistics::median;
use crate::cli::BenchWhatifArgs;
use anyhow::{Context, Result, ensure};
use dwell_report::whatif::{Question, WhatIfAnswer};
use dwell_whatif::Kind;
pub use report::WhatIfReport;
use report::{Cell, Row};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is recorded.
const RECORDED: Cell = Cell {
    threads: 4,
    batch: 1,
    kind: Kind::Futex,
    shards: 1,
};
/// Turns of a hold, and of the work on a unit: a lock that three threads saturate.
const HOLD: &str = "hold=3000";
const THINK: &str = "think=6000";

/// Measures.
pub fn run(args: &BenchWhatifArgs, progress: &mut dyn FnMut(&str)) -> Result<WhatIfReport> {
    ensure!(args.rounds > 0, "at least one round is needed");
    let program = test_programs(args.programs.as_deref()).join("convoy");
    ensure!(
        program.exists(),
        "{} is not there: `make programs` builds it",
        program.display()
    );
    prefer_us();
    let cells = cells(args.small)?;
    progress(&format!("recording {}", RECORDED.words()));
    let folder = tempfile::tempdir()?;
    let recording = record(&program, folder.path(), args.recorded)?;
    let tables = crate::report::load(&recording)?;
    let machine = crate::whatif::machine(&tables)?;
    progress(&format!("predicting {} cells", cells.len()));
    let answer = WhatIfAnswer::build(
        &dwell_report::Analysis::of(&tables),
        machine,
        &question(args.small),
    );
    let answer = answer.map_err(anyhow::Error::msg)?;
    ensure!(
        answer.rows.len() == cells.len(),
        "a prediction for each cell"
    );
    let predicted: Option<Vec<_>> = answer.rows.iter().map(|r| r.units_per_s).collect();
    let predicted = predicted.context("acquisitions are counted")?;
    let mut real = vec![Vec::new(); cells.len()];
    for round in 0..args.rounds {
        progress(&format!("running round {} of {}", round + 1, args.rounds));
        for (cell, real) in cells.iter().zip(&mut real) {
            real.push(units_per_s(&program, cell, args.seconds)?);
        }
    }
    let rows = cells.into_iter().zip(predicted).zip(real);
    let rows = rows.map(|((cell, predicted), real)| Row {
        cell,
        predicted,
        real: median(&real),
        runs: real,
        scalability: f64::NAN,
    });
    let mut rows: Vec<Row> = rows.collect();
    scalability::fit(&mut rows);
    Ok(WhatIfReport::new(rows))
}

/// Threads × batch × kind × shards.
fn question(small: bool) -> Question {
    let (threads, batches, shards): (&[usize], &[u32], &[u32]) = match small {
        true => (&[1, 4], &[1, 8], &[1]),
        false => (&[1, 2, 4, 8], &[1, 4, 16], &[1, 4]),
    };
    Question {
        threads: threads.to_vec(),
        batches: batches.to_vec(),
        kinds: Kind::ALL.to_vec(),
        shards: shards.to_vec(),
        ..Question::default()
    }
}

/// Its combinations, in the order of their predictions.
fn cells(small: bool) -> Result<Vec<Cell>> {
    let changes = question(small).changes(0).map_err(anyhow::Error::msg)?;
    let cell = |c: &dwell_whatif::Change| {
        Some(Cell {
            threads: c.threads?,
            batch: c.batch?,
            kind: c.kind?,
            shards: c.shards?,
        })
    };
    let cells: Option<Vec<Cell>> = changes.iter().map(cell).collect();
    cells.context("every cell says everything")
}

/// Puts this session's processes before those of others, where the scheduler groups them; without the right to
/// it, or without groups, nothing changes.
fn prefer_us() {
    let _ = std::fs::write("/proc/self/autogroup", "-20");
}

fn arguments(cell: &Cell, seconds: f64) -> [String; 5] {
    [
        format!("threads={}", cell.threads),
        format!("batch={}", cell.batch),
        format!("kind={}", cell.kind.name()),
        format!("shards={}", cell.shards),
        format!("seconds={seconds}"),
    ]
}

fn record(program: &Path, folder: &Path, seconds: f64) -> Result<PathBuf> {
    let recording = folder.join("convoy.dwell");
    let output = Command::new(std::env::current_exe()?)
        .args(["record", "--locks", "-q", "-o"])
        .arg(&recording)
        .arg("--")
        .arg(program)
        .args(arguments(&RECORDED, seconds))
        .args([HOLD, THINK])
        .output()?;
    ensure!(
        output.status.success(),
        "recording failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(recording)
}

fn units_per_s(program: &Path, cell: &Cell, seconds: f64) -> Result<f64> {
    let output = Command::new(program)
        .args(arguments(cell, seconds))
        .args([HOLD, THINK])
        .output()?;
    ensure!(output.status.success(), "{} failed", program.display());
    let told: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    told["units_per_s"].as_f64().context("units_per_s")
}
