//! A recording as one Parquet file per table: what a store of many recordings keeps.
use crate::buffers::{Buffered, ForTable, for_each_table};
use crate::error::RecordingError;
use crate::meta::Meta;
use crate::recording::Recording;
use crate::rows::RecordingRow;
use crate::table::Table;
use crate::writer::Encoder;

/// Takes a table by name, as the bytes of a Parquet file.
pub type Take<'a, E> = dyn FnMut(&'static str, &[u8]) -> Result<(), E> + 'a;

impl Recording {
    /// Hands out every table that has rows, by name, as the bytes of one Parquet file: in tables with a key the last row
    /// of every key. The last one is `recordings`, with the one row that says what the recording is. All have a further
    /// column, `recording`, which holds the recording's name.
    ///
    /// Needs memory for one table at a time. What is damaged is as [`Recording::read`] says.
    pub fn each_joined<E: From<RecordingError>>(
        &self,
        name: &str,
        take: &mut Take<'_, E>,
    ) -> Result<(), E> {
        let mut join = Join {
            recording: self,
            take,
            encoder: Encoder::beside_others(name),
        };
        for_each_table(&mut join)?;
        join.hand_out(&[RecordingRow::of(self.meta())])
    }
}

/// Rows of a further table of the recording of this name, likewise.
pub fn joined<R: Table>(name: &str, rows: &[R]) -> Result<Vec<u8>, RecordingError> {
    Ok(Encoder::beside_others(name).encoded(rows)?.to_vec())
}

struct Join<'a, E> {
    recording: &'a Recording,
    take: &'a mut Take<'a, E>,
    encoder: Encoder,
}

impl<E: From<RecordingError>> ForTable<E> for Join<'_, E> {
    fn table<R: Buffered>(&mut self) -> Result<(), E> {
        let rows: Vec<R> = self.recording.last()?;
        if rows.is_empty() {
            return Ok(());
        }
        self.hand_out(&rows)
    }
}

impl<E: From<RecordingError>> Join<'_, E> {
    fn hand_out<R: Table>(&mut self, rows: &[R]) -> Result<(), E> {
        (self.take)(R::NAME, self.encoder.encoded(rows)?)
    }
}

impl RecordingRow {
    /// What `meta.json` says.
    pub fn of(meta: &Meta) -> Self {
        RecordingRow {
            tool: meta.tool.clone(),
            host: meta.machine.host.clone(),
            kernel: meta.machine.kernel.clone(),
            arch: meta.machine.arch.clone(),
            cpus: meta.machine.cpus,
            target: meta.target.clone(),
            command_line: meta.command_line.join(" "),
            period_ns: meta.period_ns,
            start_ns: meta.start_ns,
            end_ns: meta.end_ns,
            start_unix_ns: meta.clock.unix_ns(meta.start_ns),
            end_unix_ns: meta.clock.unix_ns(meta.end_ns),
            exit_code: meta.exit_code,
            complete: meta.complete,
            meta: serde_json::to_string(meta).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::MAX_ROWS;
    use crate::meta::ClockAnchor;
    use crate::rows::{EventRow, ThreadRow};
    use crate::writer::Writer;
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};

    #[test]
    fn segments_become_one_file_with_the_last_row_of_every_key() {
        let scratch = tempfile::tempdir().expect("a folder");
        let path = scratch.path().join("x.dwell");
        let clock = ClockAnchor {
            boottime_ns: 1_000,
            realtime_ns: 5_000,
        };
        let meta = Meta {
            clock,
            start_ns: 1_100,
            target: "pid 1".into(),
            ..Meta::default()
        };
        let mut writer = Writer::create(&path, meta).expect("a recording");
        let thread = |thread, running_ns| ThreadRow {
            thread,
            running_ns,
            ..ThreadRow::default()
        };
        let event = |time_ns| EventRow {
            time_ns,
            kind: "exec".into(),
            ..EventRow::default()
        };
        for round in 1..4 {
            let threads = [thread(0, round), thread(1, 10 * round)];
            writer.append(threads).expect("rows");
            writer.append([event(round)]).expect("rows");
            writer.close_segment().expect("a segment");
        }
        // Not finished: it is as a killed recorder leaves it, with several rows of each key.
        drop(writer);
        let recording = Recording::open(&path).expect("it opens");
        let mut files = Vec::new();
        recording
            .each_joined::<RecordingError>("r1", &mut |table, bytes| {
                files.push((table, read(bytes)));
                Ok(())
            })
            .expect("all tables");
        let [threads, events, recordings] = &files[..] else {
            panic!("three tables: {files:?}");
        };
        let thread_and_time = |row: &Row| {
            (
                number(row, "thread"),
                number(row, "running_ns"),
                text(row, "recording"),
            )
        };
        assert_eq!(threads.0, "threads");
        assert_eq!(
            threads.1.iter().map(thread_and_time).collect::<Vec<_>>(),
            [(0, 3, "r1".into()), (1, 30, "r1".into())]
        );
        assert_eq!(events.0, "events");
        let times: Vec<i64> = events.1.iter().map(|row| number(row, "time_ns")).collect();
        assert_eq!(times, [1, 2, 3]);
        let ("recordings", [row]) = (recordings.0, &recordings.1[..]) else {
            panic!("one row: {recordings:?}");
        };
        assert_eq!(number(row, "start_unix_ns"), 5_100);
        assert_eq!(text(row, "target"), "pid 1");
        let meta: Meta = serde_json::from_str(&text(row, "meta")).expect("meta.json");
        assert_eq!(&meta, recording.meta());
    }

    fn read(bytes: &[u8]) -> Vec<Row> {
        let reader = SerializedFileReader::new(Bytes::copy_from_slice(bytes)).expect("Parquet");
        let rows = reader.get_row_iter(None).expect("rows");
        rows.map(|row| row.expect("a row")).collect()
    }

    fn field(row: &Row, name: &str) -> Field {
        let mut columns = row.get_column_iter();
        columns
            .find(|(column, _)| *column == name)
            .expect(name)
            .1
            .clone()
    }

    fn number(row: &Row, name: &str) -> i64 {
        match field(row, name) {
            Field::Long(n) => n,
            Field::UInt(n) => n.into(),
            other => panic!("{name}: {other:?}"),
        }
    }

    fn text(row: &Row, name: &str) -> String {
        match field(row, name) {
            Field::Str(text) => text,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn a_table_larger_than_a_segment_has_several_row_groups() {
        let mut encoder = Encoder::default();
        let rows = vec![EventRow::default(); MAX_ROWS + 1];
        let bytes = Bytes::copy_from_slice(encoder.encoded(&rows).expect("encoded"));
        let reader = SerializedFileReader::new(bytes).expect("Parquet");
        let groups = reader.metadata().row_groups();
        let rows: Vec<i64> = groups.iter().map(|g| g.num_rows()).collect();
        assert_eq!(rows, [MAX_ROWS as i64, 1]);
    }
}
