//! What is appended is what is read.
mod common;
use common::{append, meta, tables};
use dwell_recording::rows::*;
use dwell_recording::{FORMAT_VERSION, Limits, Meta, Recording, RecordingError, Tables, Writer};
use std::path::Path;

fn join(parts: &[Tables]) -> Tables {
    let mut all = Tables::default();
    for part in parts.iter().cloned() {
        all.processes.extend(part.processes);
        all.threads.extend(part.threads);
        all.mappings.extend(part.mappings);
        all.frames.extend(part.frames);
        all.symbols.extend(part.symbols);
        all.stacks.extend(part.stacks);
        all.sites.extend(part.sites);
        all.site_times.extend(part.site_times);
        all.samples.extend(part.samples);
        all.slices.extend(part.slices);
        all.events.extend(part.events);
        all.futexes.extend(part.futexes);
        all.locks.extend(part.locks);
        all.lock_blocks.extend(part.lock_blocks);
        all.kernel_locks.extend(part.kernel_locks);
        all.memory_places.extend(part.memory_places);
    }
    all.meta = Meta {
        complete: true,
        ..meta()
    };
    all
}

fn names(path: &Path, table: &str) -> Vec<String> {
    let prefix = format!("{table}-");
    let entries = std::fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = entries.filter(|name| name.starts_with(&prefix)).collect();
    names.sort();
    names
}

#[test]
fn every_table_comes_back_as_it_was_over_many_segments() {
    for seed in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.dwell");
        let mut writer = Writer::create(&path, meta()).unwrap();
        let rows = [0, 1, 3, 700][seed as usize % 4];
        let parts: Vec<Tables> = (0..5)
            .map(|n| tables(seed * 100 + n, n as u32 * 1000, rows))
            .collect();
        for part in &parts {
            append(&mut writer, part).unwrap();
            writer.close_segment().unwrap();
        }
        writer.finish().unwrap();
        let recording = Recording::open(&path).unwrap();
        assert_eq!(recording.load().unwrap(), join(&parts), "seed {seed}");
        assert_eq!(recording.warnings(), [""; 0]);
    }
}

#[test]
fn a_recording_without_rows_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let writer = Writer::create(folder.path(), Meta::default()).unwrap();
    let open = Recording::open(folder.path()).unwrap();
    assert!(!open.meta().complete);
    assert_eq!(open.load().unwrap().samples, []);
    writer.finish().unwrap();
    let done = Recording::open(folder.path()).unwrap();
    assert_eq!(
        *done.meta(),
        Meta {
            complete: true,
            format_version: FORMAT_VERSION,
            ..Meta::default()
        }
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        17,
        "meta.json and an empty file per table"
    );
}

#[test]
fn later_rows_replace_earlier_ones_and_a_complete_recording_has_one_row_per_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), meta()).unwrap();
    for second in 0..7u64 {
        let threads = [3, 1, 2].map(|thread| ThreadRow {
            thread,
            until_ns: second,
            ..ThreadRow::default()
        });
        writer.append(threads).unwrap();
        writer
            .append([ThreadRow {
                thread: 1,
                until_ns: second + 100,
                ..ThreadRow::default()
            }])
            .unwrap();
        writer
            .append([SiteTimeRow {
                site: 1,
                count: second,
                ..SiteTimeRow::default()
            }])
            .unwrap();
        writer.close_segment().unwrap();
    }
    let last = |until: [u64; 3]| [1, 2, 3].map(|t| (t, until[t as usize - 1])).to_vec();
    let pairs = |recording: &Recording| -> Vec<(u32, u64)> {
        recording
            .load()
            .unwrap()
            .threads
            .iter()
            .map(|row| (row.thread, row.until_ns))
            .collect()
    };
    let running = Recording::open(folder.path()).unwrap();
    assert_eq!(running.read::<ThreadRow>().unwrap().len(), 28);
    assert_eq!(pairs(&running), last([106, 6, 6]));
    writer.finish().unwrap();
    let done = Recording::open(folder.path()).unwrap();
    assert_eq!(pairs(&done), last([106, 6, 6]));
    assert_eq!(done.read::<ThreadRow>().unwrap().len(), 3);
    assert_eq!(names(folder.path(), "threads"), ["threads-0008.parquet"]);
    // No key: every row stays.
    assert_eq!(
        done.load()
            .unwrap()
            .site_times
            .iter()
            .map(|row| row.count)
            .collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5, 6]
    );
}

#[test]
fn full_buffers_close_segments_by_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), meta()).unwrap();
    let rows = 200_000u64;
    writer
        .append((0..rows).map(|n| SampleRow {
            time_ns: n,
            state: state::RUNNING.into(),
            ..SampleRow::default()
        }))
        .unwrap();
    assert_eq!(names(folder.path(), "samples").len(), 4);
    writer
        .append((0..5).map(|n| EventRow {
            time_ns: n,
            detail: "x".repeat(3 << 20),
            ..EventRow::default()
        }))
        .unwrap();
    assert_eq!(names(folder.path(), "events").len(), 2);
    writer.finish().unwrap();
    assert_eq!(names(folder.path(), "events").len(), 3);
    let recording = Recording::open(folder.path()).unwrap();
    let times: Vec<u64> = recording
        .read::<SampleRow>()
        .unwrap()
        .iter()
        .map(|row| row.time_ns)
        .collect();
    assert_eq!(times, (0..rows).collect::<Vec<_>>());
    assert_eq!(recording.read::<EventRow>().unwrap().len(), 5);
}

#[test]
fn a_giant_row_is_refused_and_the_limit_on_memory_holds() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), meta()).unwrap();
    let giant = EventRow {
        detail: "x".repeat(17 << 20),
        ..EventRow::default()
    };
    let error = writer.append([giant]).unwrap_err();
    assert!(
        matches!(
            error,
            RecordingError::RowTooLarge {
                table: "events",
                ..
            }
        ),
        "{error}"
    );
    writer
        .append((0..9).map(|_| EventRow {
            detail: "y".repeat(1 << 20),
            ..EventRow::default()
        }))
        .unwrap();
    writer.finish().unwrap();
    let small = Recording::open_with(
        folder.path(),
        Limits {
            table_bytes: 4 << 20,
        },
    )
    .unwrap();
    let error = small.read::<EventRow>().unwrap_err();
    assert!(
        matches!(
            error,
            RecordingError::TooBig {
                table: "events",
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(
        Recording::open(folder.path())
            .unwrap()
            .read::<EventRow>()
            .unwrap()
            .len(),
        9
    );
}

#[test]
fn ten_minutes_of_segments_read_and_end_quickly() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), meta()).unwrap();
    for n in 0..600 {
        append(&mut writer, &tables(n, n as u32 * 4, 4)).unwrap();
        writer.close_segment().unwrap();
    }
    writer.finish().unwrap();
    for table in [
        "processes",
        "threads",
        "frames",
        "symbols",
        "stacks",
        "sites",
    ] {
        assert_eq!(names(folder.path(), table).len(), 1, "{table}");
    }
    let all = Recording::open(folder.path()).unwrap().load().unwrap();
    assert_eq!(
        (all.stacks.len(), all.slices.len(), all.symbols.len()),
        (2400, 2400, 2400)
    );
}

/// Rows that come again and again take up no more than those that count.
#[test]
fn replaced_rows_are_forgotten_while_reading() {
    const LOCKS: u32 = 50_000;
    const TIMES: u64 = 12;
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), Meta::default()).unwrap();
    for time in 1..=TIMES {
        let row = |lock| LockRow {
            lock,
            acquired: time,
            ..LockRow::default()
        };
        writer.append((0..LOCKS).map(row)).unwrap();
        writer.close_segment().unwrap();
    }
    drop(writer);
    let row = size_of::<LockRow>();
    let limits = Limits {
        table_bytes: 4 * LOCKS as usize * row,
    };
    let recording = Recording::open_with(folder.path(), limits).unwrap();
    assert!(recording.read::<LockRow>().is_err());
    let locks = recording.load().unwrap().locks;
    assert_eq!(locks.len(), LOCKS as usize);
    assert!(locks.iter().all(|l| l.acquired == TIMES));
}
