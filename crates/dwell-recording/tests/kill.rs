//! A recorder killed at any instant leaves a recording that opens, short of its unclosed segment only.
mod common;
use common::meta;
use dwell_recording::rows::*;
use dwell_recording::{Recording, Writer};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const FOLDER: &str = "DWELL_TEST_KILL_FOLDER";
const KILLS: u64 = 50;

/// The recorder that gets killed: it says on its output how many rows are safe.
#[test]
fn child_recorder() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let mut out = std::io::stdout();
    writeln!(out).unwrap();
    let mut writer = Writer::create(Path::new(&folder), meta()).unwrap();
    for second in 0.. {
        let rows = second * 50..(second + 1) * 50;
        writer
            .append(rows.clone().map(|n| StackRow {
                stack: n,
                frames: vec![n; 5],
                end: "complete".into(),
            }))
            .unwrap();
        writer
            .append([ThreadRow {
                thread: 1,
                until_ns: u64::from(rows.end),
                ..ThreadRow::default()
            }])
            .unwrap();
        writer
            .append(rows.clone().map(|n| SampleRow {
                time_ns: n.into(),
                stack: n,
                ..SampleRow::default()
            }))
            .unwrap();
        writer.meta_mut().end_ns = rows.end.into();
        writer.close_segment().unwrap();
        writeln!(out, "safe {}", rows.end).unwrap();
        // Endings, with their merged tables, get their share of the kills.
        if second % 8 == 7 {
            writer.finish().unwrap();
            writeln!(out, "finished").unwrap();
            std::thread::sleep(Duration::from_secs(60));
            return;
        }
    }
}

fn spawn(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_recorder", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What the child said before it died: rows that are safe, and whether it had finished.
fn last_words(child: &mut Child) -> (u32, bool) {
    let (mut safe, mut finished) = (0, false);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        finished |= line == "finished";
        if let Some(rows) = line.strip_prefix("safe ") {
            safe = rows.parse().unwrap();
        }
    }
    (safe, finished)
}

#[test]
fn killed_fifty_times_it_opens_and_has_every_closed_segment() {
    let rng = &mut fastrand::Rng::with_seed(50);
    let (mut cut_short, mut with_rows) = (0, 0);
    for round in 0..KILLS {
        let folder = tempfile::tempdir().unwrap();
        let mut child = spawn(folder.path());
        while !folder.path().join("meta.json").exists() {
            std::thread::sleep(Duration::from_micros(50));
        }
        std::thread::sleep(Duration::from_micros(rng.u64(..12_000)));
        child.kill().unwrap();
        let (safe, finished) = last_words(&mut child);
        child.wait().unwrap();

        let recording =
            Recording::open(folder.path()).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let all = recording
            .load()
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        let times: Vec<u64> = all.samples.iter().map(|row| row.time_ns).collect();
        assert_eq!(
            times,
            (0..times.len() as u64).collect::<Vec<_>>(),
            "round {round}: rows in order, none twice"
        );
        assert!(
            times.len() >= safe as usize,
            "round {round}: {} of {safe} rows",
            times.len()
        );
        assert_eq!(times.len() % 50, 0, "round {round}: whole segments only");
        assert_eq!(
            all.stacks
                .iter()
                .map(|row| u64::from(row.stack))
                .collect::<Vec<_>>(),
            times,
            "round {round}"
        );
        let until: Vec<u64> = all.threads.iter().map(|row| row.until_ns).collect();
        assert!(
            times.is_empty() || until == [times.len() as u64],
            "round {round}: {until:?}"
        );
        assert!(
            times.is_empty() || recording.meta().end_ns == times.len() as u64,
            "round {round}"
        );
        assert!(recording.meta().complete || !finished, "round {round}");
        cut_short += u32::from(!recording.meta().complete);
        with_rows += u32::from(!times.is_empty() && !recording.meta().complete);
    }
    println!("{cut_short} of {KILLS} cut short, {with_rows} of them with rows");
    assert!(
        with_rows >= 10,
        "the kills fell between segments: {with_rows} of {KILLS}"
    );
}
