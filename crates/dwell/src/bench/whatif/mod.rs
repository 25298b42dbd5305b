//! How right `dwell whatif` is: a program is recorded once, with one number of threads, batch, kind of lock
//! and shard; a grid of others is predicted from that, and then run.
//!
//! The runs of a cell are spread over the time, so that what else the machine does meets all cells alike;
//! the median counts. A run while others used the processors is made again. The program and all its threads are put before
//! other sessions' programs (the scheduler's groups), since a rival for the processors is not what is predicted.
//!
//! A cell is what goes on for long: with more threads than processors a lock that is handed over in order does well until
//! one of its waiters loses its processor, some tenths of a second, and then never again.
mod published;
mod report;
mod scalability;

use super::process;
use super::programs::test_programs;
use super::statistics::median;
use crate::cli::BenchWhatifArgs;
use crate::whatif::calibration;
use crate::whatif::disturbance::Watch;
use anyhow::{Context, Result, ensure};
use dwell_report::whatif::{Bounds, Question, found};
use dwell_whatif::{Change, Effort, Kind, predict_all};
pub use published::Published;
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
    hold_percent: 100,
};
/// Turns of a hold, and of the work on a unit: a lock that three threads saturate.
const HOLD: u32 = 3000;
const THINK: &str = "think=6000";
/// Others' share of the processors from which on a run is made again, and how often that is tried.
const DISTURBED: f64 = 0.04;
const ATTEMPTS: u32 = 3;
/// Threads, batch, shards and hold in percent of cells that are no part of the grid, each with all kinds of lock.
const HELD_OUT: [(usize, u32, u32, u32); 8] = [
    (2, 6, 1, 300),
    (3, 2, 4, 100),
    (3, 24, 1, 100),
    (5, 8, 2, 150),
    (6, 1, 3, 50),
    (7, 3, 1, 100),
    (10, 6, 1, 100),
    (16, 2, 2, 100),
];

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
    let changes = changes(args)?;
    let cells: Option<Vec<Cell>> = changes.iter().map(cell).collect();
    let cells = cells.context("every cell says everything")?;
    progress(&format!("recording {}", RECORDED.words()));
    let folder = tempfile::tempdir()?;
    let recording = record(&program, folder.path(), args.recorded)?;
    let tables = crate::report::load(&recording)?;
    let calibration = calibration::told(&mut *progress);
    let machine = crate::whatif::machine(&calibration, &tables);
    progress(&format!("predicting {} cells", cells.len()));
    let analysis = dwell_report::Analysis::of(&tables);
    let found = found(&analysis, machine, None, None).map_err(anyhow::Error::msg)?;
    let changes: Vec<Change> = changes
        .into_iter()
        .map(|change| Change {
            lock: found.lock,
            ..change
        })
        .collect();
    let predicted = predict_all(&found.model, &changes, Effort::default());
    let predicted = predicted.iter().map(|p| Bounds::from(p.throughput));
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
        scalability: None,
    });
    let mut rows: Vec<Row> = rows.collect();
    if !args.held_out {
        scalability::fit(&mut rows);
    }
    Ok(WhatIfReport::new(rows, calibration.words()))
}

/// What is predicted: threads × batch × kind × shards, or what was held out.
fn changes(args: &BenchWhatifArgs) -> Result<Vec<Change>> {
    if args.held_out {
        let of = |(threads, batch, shards, percent): (usize, u32, u32, u32)| {
            Kind::ALL.map(|kind| Change {
                threads: Some(threads),
                batch: Some(batch),
                kind: Some(kind),
                shards: Some(shards),
                hold: Some(f64::from(percent) / 100.0),
                ..Change::default()
            })
        };
        return Ok(HELD_OUT.into_iter().flat_map(of).collect());
    }
    let (threads, batches, shards): (&[usize], &[u32], &[u32]) = match args.small {
        true => (&[1, 4], &[1, 8], &[1]),
        false => (&[1, 2, 4, 8], &[1, 4, 16], &[1, 4]),
    };
    let question = Question {
        threads: threads.to_vec(),
        batches: batches.to_vec(),
        kinds: Kind::ALL.to_vec(),
        shards: shards.to_vec(),
        ..Question::default()
    };
    question.changes(0).map_err(anyhow::Error::msg)
}

fn cell(change: &Change) -> Option<Cell> {
    Some(Cell {
        threads: change.threads?,
        batch: change.batch?,
        kind: change.kind?,
        shards: change.shards?,
        hold_percent: (change.hold.unwrap_or(1.0) * 100.0).round() as u32,
    })
}

/// Puts this session's processes before those of others, where the scheduler groups them; without the right to
/// it, or without groups, nothing changes.
fn prefer_us() {
    let _ = std::fs::write("/proc/self/autogroup", "-20");
}

fn arguments(cell: &Cell, seconds: f64, settle_ms: u32) -> [String; 8] {
    [
        format!("threads={}", cell.threads),
        format!("batch={}", cell.batch),
        format!("kind={}", cell.kind.name()),
        format!("shards={}", cell.shards),
        format!("hold={}", HOLD * cell.hold_percent / 100),
        THINK.to_owned(),
        format!("seconds={seconds}"),
        format!("settle={settle_ms}"),
    ]
}

fn record(program: &Path, folder: &Path, seconds: f64) -> Result<PathBuf> {
    let recording = folder.join("convoy.dwell");
    let mut command = vec![program.to_string_lossy().into_owned()];
    command.extend(arguments(&RECORDED, seconds, 20));
    process::record(&["--locks"], &recording, &command)?;
    Ok(recording)
}

/// What a cell does, by the calmest of a few runs.
fn units_per_s(program: &Path, cell: &Cell, seconds: f64) -> Result<f64> {
    let is_crowded = cell.threads > calibration::processors();
    let (seconds, settle_ms) = match cell.kind.is_in_order() && is_crowded {
        true => (seconds.max(1.0), 1_000),
        false => (seconds, 100),
    };
    let mut calmest = (f64::INFINITY, 0.0);
    for _ in 0..ATTEMPTS {
        let watch = Watch::begin();
        let output = Command::new(program)
            .args(arguments(cell, seconds, settle_ms))
            .output()?;
        let others = watch.others();
        ensure!(output.status.success(), "{} failed", program.display());
        let told: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let units = told["units_per_s"].as_f64().context("units_per_s")?;
        if others < calmest.0 {
            calmest = (others, units);
        }
        if others <= DISTURBED {
            break;
        }
    }
    Ok(calmest.1)
}
