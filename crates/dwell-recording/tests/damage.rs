//! Damaged and hostile recordings: an error or a warning that says where, never a panic, and memory
//! within bounds.
mod common;
use common::{append, meta, tables};
use dwell_recording::rows::*;
use dwell_recording::{Recording, RecordingError, Table, Tables, Writer, decode_segment};
use peak_alloc::PeakAlloc;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Tests of this file run one at a time, so that the peak of memory is one test's own.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What decoding one segment may take at most, however few bytes it has.
const MEMORY_LIMIT: usize = 256 << 20;

/// A recording of `segments` segments; complete, or as a killed recorder leaves it.
fn record(path: &Path, segments: u32, rows: u32, complete: bool) -> Vec<Tables> {
    let mut writer = Writer::create(path, meta()).unwrap();
    let parts: Vec<Tables> = (0..segments)
        .map(|n| tables(u64::from(n), n * 1000, rows))
        .collect();
    for part in &parts {
        append(&mut writer, part).unwrap();
        writer.close_segment().unwrap();
    }
    if complete {
        writer.finish().unwrap();
    }
    parts
}

/// The file of a table in the `index`th segment with rows; the very first segment has none.
fn segment(path: &Path, table: &str, index: u32) -> PathBuf {
    path.join(format!("{table}-{:04}.parquet", index + 1))
}

fn one_at_a_time() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn a_damaged_segment_in_the_middle_is_an_error_and_at_the_torn_end_a_warning() {
    let _one = one_at_a_time();
    for (complete, damaged, rows) in [(false, 3, Some(9)), (false, 1, None), (true, 3, None)] {
        for damage in [
            Damage::Truncate,
            Damage::Empty,
            Damage::Garbage,
            Damage::Remove,
        ] {
            let folder = tempfile::tempdir().unwrap();
            let parts = record(folder.path(), 4, 3, complete);
            damage.apply(&segment(folder.path(), "samples", damaged));
            let read = Recording::open(folder.path())
                .and_then(|recording| Ok((recording.load()?, recording.warnings())));
            match (rows, read) {
                (Some(rows), Ok((all, warnings))) => {
                    let kept: Vec<SampleRow> = parts
                        .into_iter()
                        .take(3)
                        .flat_map(|part| part.samples)
                        .collect();
                    assert_eq!((all.samples.len(), all.samples), (rows, kept), "{damage:?}");
                    assert!(
                        warnings.len() == 1 && warnings[0].contains("samples"),
                        "{damage:?}: {warnings:?}"
                    );
                    assert_eq!(all.slices.len(), 12, "other tables are whole");
                }
                (None, Err(error)) => {
                    assert!(error.to_string().contains("samples"), "{damage:?}: {error}")
                }
                (wanted, read) => {
                    panic!("{damage:?}, complete {complete}: wanted {wanted:?}, got {read:?}")
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Truncate,
    Empty,
    Garbage,
    Remove,
}

impl Damage {
    fn apply(self, path: &Path) {
        let bytes = fs::read(path).unwrap();
        match self {
            Self::Truncate => fs::write(path, &bytes[..bytes.len() / 2]).unwrap(),
            Self::Empty => fs::write(path, b"").unwrap(),
            Self::Garbage => fs::write(path, b"garbage ".repeat(100)).unwrap(),
            Self::Remove => fs::remove_file(path).unwrap(),
        }
    }
}

#[test]
fn several_empty_segments_at_the_end_are_one_warning() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 6, 5, false);
    for number in 3..6 {
        fs::write(segment(folder.path(), "slices", number), b"").unwrap();
    }
    let recording = Recording::open(folder.path()).unwrap();
    assert_eq!(recording.read::<SliceRow>().unwrap().len(), 15);
    assert_eq!(recording.warnings().len(), 1);
    assert!(
        recording.warnings()[0].contains("slices-0004"),
        "{:?}",
        recording.warnings()
    );
}

#[test]
fn a_segment_that_was_never_closed_is_left_out_with_a_warning() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 2, 5, false);
    fs::copy(
        segment(folder.path(), "samples", 1),
        segment(folder.path(), "samples", 2),
    )
    .unwrap();
    let recording = Recording::open(folder.path()).unwrap();
    assert_eq!(recording.read::<SampleRow>().unwrap().len(), 10);
    assert!(
        recording.warnings()[0].contains("not closed"),
        "{:?}",
        recording.warnings()
    );
}

#[test]
fn a_segment_in_anothers_place_is_noticed() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 2, 5, true);
    fs::copy(
        segment(folder.path(), "slices", 0),
        segment(folder.path(), "samples", 0),
    )
    .unwrap();
    let error = Recording::open(folder.path())
        .unwrap()
        .read::<SampleRow>()
        .unwrap_err();
    assert!(error.to_string().contains("column"), "{error}");

    // The right table, but not the rows that meta.json counts.
    let other = tempfile::tempdir().unwrap();
    record(other.path(), 1, 4, true);
    fs::copy(
        segment(other.path(), "samples", 0),
        segment(folder.path(), "samples", 0),
    )
    .unwrap();
    let error = Recording::open(folder.path())
        .unwrap()
        .read::<SampleRow>()
        .unwrap_err();
    assert!(
        matches!(
            error,
            RecordingError::Missing {
                unit: "rows",
                expected: 10,
                found: 9,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_file_cut_at_any_length_is_an_error() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), 1, 3, false);
    for table in ["samples", "stacks"] {
        let whole = fs::read(segment(folder.path(), table, 0)).unwrap();
        for length in 0..whole.len() {
            let cut = whole[..length].to_vec();
            let refused = decode_segment::<SampleRow>(cut.clone()).is_err()
                && decode_segment::<StackRow>(cut).is_err();
            assert!(refused, "{table} of {length} bytes");
        }
    }
}

/// Decodes mutations of a file; whatever comes out, it comes out without a panic and within memory.
fn mutate<R: Table>(good: &[u8], rows: usize, rng: &mut fastrand::Rng, times: u32) -> u32 {
    assert_eq!(decode_segment::<R>(good.to_vec()).unwrap().len(), rows);
    let mut refused = 0;
    for _ in 0..times {
        let mut bytes = good.to_vec();
        for _ in 0..rng.u32(1..4) {
            mutate_once(&mut bytes, rng);
        }
        MEMORY.reset_peak_usage();
        refused += u32::from(decode_segment::<R>(bytes.clone()).is_err());
        let peak = MEMORY.peak_usage();
        assert!(
            peak < MEMORY_LIMIT,
            "{} bytes of memory for {:x?}",
            peak,
            bytes
        );
    }
    refused
}

fn mutate_once(bytes: &mut Vec<u8>, rng: &mut fastrand::Rng) {
    const EDGES: [u8; 9] = [0, 1, 2, 0x7f, 0x80, 0x81, 0xfe, 0xff, 0x15];
    if bytes.is_empty() {
        return;
    }
    let at = rng.usize(..bytes.len());
    match rng.u8(..8) {
        0..=2 => bytes[at] ^= 1 << rng.u8(..8),
        3 => bytes[at] = EDGES[rng.usize(..EDGES.len())],
        4 => {
            // A long number where a short one was.
            let number = [0xff, 0xff, 0xff, 0xff, rng.u8(..16)];
            bytes.splice(
                at..(at + 1).min(bytes.len()),
                number[..rng.usize(1..=5)].iter().copied(),
            );
        }
        5 => {
            let end = (at + rng.usize(..32)).min(bytes.len());
            let piece = bytes[at..end].to_vec();
            let to = rng.usize(..bytes.len());
            bytes.splice(to..to, piece);
        }
        6 => {
            let end = (at + rng.usize(..16)).min(bytes.len());
            bytes.drain(at..end);
        }
        _ => bytes[at] = rng.u8(..),
    }
}

/// Mutations per table; the environment may ask for more.
fn mutations() -> u32 {
    std::env::var("DWELL_MUTATIONS")
        .ok()
        .and_then(|times| times.parse().ok())
        .unwrap_or(600)
}

#[test]
fn thousands_of_mutated_segments_neither_panic_nor_take_all_memory() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for rows in [2, 40] {
        let path = folder.path().join(format!("{rows}.dwell"));
        record(&path, 1, rows, false);
        let rng = &mut fastrand::Rng::with_seed(u64::from(rows));
        macro_rules! mutate_tables {
            ($($row:ty),*) => { $(
                let good = fs::read(segment(&path, <$row>::NAME, 0)).unwrap();
                refused += mutate::<$row>(&good, rows as usize, rng, mutations());
            )* };
        }
        mutate_tables!(
            ProcessRow,
            ThreadRow,
            MappingRow,
            FrameRow,
            SymbolRow,
            StackRow,
            FutexRow,
            SiteRow,
            SiteTimeRow,
            SampleRow,
            SliceRow,
            EventRow
        );
    }
    assert!(
        refused > 12 * mutations(),
        "most mutations are noticed: {refused}"
    );
}

#[test]
fn garbage_of_any_length_is_refused() {
    let _one = one_at_a_time();
    let rng = &mut fastrand::Rng::with_seed(7);
    for length in 0..2000 {
        let mut bytes: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
        if let [.., a, b, c, d] = &mut bytes[..] {
            [*a, *b, *c, *d] = *b"PAR1";
        }
        assert!(decode_segment::<SampleRow>(bytes).is_err());
    }
}

/// The bytes of a segment with these rows.
fn encoded<R: dwell_recording::Buffered>(rows: impl IntoIterator<Item = R>) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(folder.path(), meta()).unwrap();
    writer.append(rows).unwrap();
    writer.close_segment().unwrap();
    fs::read(segment(folder.path(), R::NAME, 0)).unwrap()
}

#[test]
fn few_bytes_that_stand_for_much_are_refused_or_cheap() {
    let _one = one_at_a_time();
    // 60 000 times the same long word: 250 KB in the file, 600 MB in memory.
    let bomb = by_hand(60_000, &"x".repeat(10_000));
    assert!(bomb.len() < 300_000, "{}", bomb.len());
    MEMORY.reset_peak_usage();
    let error = decode_segment::<EventRow>(bomb).unwrap_err();
    assert!(error.contains("bytes of text"), "{error}");
    assert!(MEMORY.peak_usage() < MEMORY_LIMIT);

    // A list of zeros of the largest size that passes.
    let stack = StackRow {
        frames: vec![0; 3 << 20],
        ..StackRow::default()
    };
    let list = encoded([stack.clone()]);
    assert!(list.len() < 3 << 20, "the file is small: {}", list.len());
    MEMORY.reset_peak_usage();
    assert_eq!(decode_segment::<StackRow>(list).unwrap(), [stack]);
    assert!(MEMORY.peak_usage() < MEMORY_LIMIT);

    let error = decode_segment::<EventRow>(by_hand(300_000, "")).unwrap_err();
    assert!(error.contains("300000 rows"), "{error}");
}

/// A segment of `events` whose rows all have the kind `word`, made with the Parquet crate alone.
fn by_hand(rows: usize, word: &str) -> Vec<u8> {
    use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    let schema = "message events {
        required int64 time_ns; optional int32 thread (INTEGER(32, false));
        required binary kind (STRING); required binary detail (STRING); }";
    let schema = std::sync::Arc::new(parse_message_type(schema).unwrap());
    let mut properties = WriterProperties::builder().set_dictionary_enabled(false);
    for number in ["time_ns", "thread"] {
        properties = properties
            .set_column_encoding(number.into(), parquet::basic::Encoding::DELTA_BINARY_PACKED);
    }
    let properties = properties
        .set_column_dictionary_enabled("kind".into(), true)
        .build();
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, schema, properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let none = vec![0; rows];
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<Int64Type>()
        .write_batch(&vec![0; rows], None, None)
        .unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column
        .typed::<Int32Type>()
        .write_batch(&[], Some(&none), None)
        .unwrap();
    column.close().unwrap();
    for text in [word, ""] {
        let mut column = group.next_column().unwrap().unwrap();
        let texts = vec![ByteArray::from(text); rows];
        column
            .typed::<ByteArrayType>()
            .write_batch(&texts, None, None)
            .unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    file
}

#[test]
fn what_other_programs_write_is_refused_by_name() {
    let _one = one_at_a_time();
    assert_eq!(
        decode_segment::<EventRow>(by_hand(3, "fork")).unwrap()[2].kind,
        "fork"
    );
    let mut other = by_hand(3, "fork");
    // The same length, and no column of this table, in the schema and in the chunk's path.
    while let Some(at) = other.windows(6).position(|name| name == b"detail") {
        other[at..at + 6].copy_from_slice(b"liated");
    }
    let error = decode_segment::<EventRow>(other).unwrap_err();
    assert!(error.contains("column liated"), "{error}");
    let error = decode_segment::<SampleRow>(by_hand(3, "fork")).unwrap_err();
    assert!(error.contains("column thread has another type"), "{error}");
    assert!(decode_segment::<SampleRow>(b"PAR1".to_vec()).is_err());
}
