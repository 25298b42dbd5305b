//! Merging the segments of tables with a key into one when a recording ends, so that a complete
//! recording has one row per process and thread, and few files.
//!
//! The merged file gets a new number and `meta.json` counts it in before the old files go. A crash
//! in between leaves rows twice in the folder, at most, which [`crate::Recording`] does not see and
//! which queries that keep the last row of a key do not feel. Tables without a key would feel it:
//! they are left alone.
use crate::buffers::{Buffered, ForTable, for_each_table};
use crate::error::RecordingError;
use crate::folder;
use crate::manifest::{Manifest, TableSegments};
use crate::recording::read_segment;
use crate::rows::{ProcessRow, ThreadRow};
use crate::table::{Table, keep_last};
use crate::writer::Encoder;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Tables larger than this on disk are not worth the time, except those with a row per key and segment.
const MERGE_BYTES: u64 = 4 << 20;
/// Memory of the rows in one merged file.
const FILE_BYTES: usize = 8 << 20;
/// Rows in one merged file.
const FILE_ROWS: usize = 1 << 16;

/// Merges what is worth it and writes `meta.json`. A disk without room for the merged files leaves
/// the recording unmerged, which is no loss.
pub fn compact(
    path: &Path,
    manifest: &mut Manifest,
    encoder: &mut Encoder,
) -> Result<(), RecordingError> {
    let mut merge = Merge {
        path,
        manifest: manifest.clone(),
        encoder,
        old: Vec::new(),
        new: Vec::new(),
    };
    let merged = for_each_table(&mut merge);
    let Merge {
        manifest: compacted,
        old,
        new,
        ..
    } = merge;
    let unused = match merged {
        Ok(()) => {
            *manifest = compacted;
            old
        }
        Err(RecordingError::NoSpace { .. }) => new,
        Err(error) => {
            manifest.write(path)?;
            return Err(error);
        }
    };
    manifest.write(path)?;
    unused.iter().try_for_each(|file| folder::remove(file))
}

struct Merge<'a> {
    path: &'a Path,
    manifest: Manifest,
    encoder: &'a mut Encoder,
    old: Vec<PathBuf>,
    new: Vec<PathBuf>,
}

impl ForTable<RecordingError> for Merge<'_> {
    fn table<R: Buffered>(&mut self) -> Result<(), RecordingError> {
        let Some(counts) = self.manifest.tables.get(R::NAME).copied() else {
            return Ok(());
        };
        if !R::KEYED || counts.files < 2 {
            return Ok(());
        }
        let old = self.files::<R>(counts);
        let rewritten = [ProcessRow::NAME, ThreadRow::NAME].contains(&R::NAME);
        let size: u64 = old
            .iter()
            .filter_map(|(_, path)| path.metadata().ok())
            .map(|file| file.len())
            .sum();
        if !rewritten && size > MERGE_BYTES {
            return Ok(());
        }
        let rows = last_rows::<R>(&old)?;
        self.write(&rows)?;
        self.old.extend(old.into_iter().map(|(_, path)| path));
        Ok(())
    }
}

impl Merge<'_> {
    /// The files of a table, oldest first.
    fn files<R: Table>(&self, counts: TableSegments) -> Vec<(u32, PathBuf)> {
        let numbers = counts.first..=counts.last;
        let named =
            numbers.map(|number| (number, folder::segment_path(self.path, R::NAME, number)));
        named.filter(|(_, path)| path.exists()).collect()
    }

    /// Writes the rows as new segments, which replace all others of the table.
    fn write<R: Table>(&mut self, rows: &[R]) -> Result<(), RecordingError> {
        let mut counts = TableSegments::default();
        let mut rest = rows;
        while !rest.is_empty() {
            let (file, after) = rest.split_at(fitting(rest));
            let segment = self.manifest.segments;
            self.new
                .push(folder::segment_path(self.path, R::NAME, segment));
            self.encoder.write(self.path, segment, file)?;
            counts.add(segment, file.len());
            self.manifest.segments += 1;
            rest = after;
        }
        self.manifest.tables.insert(R::NAME.to_string(), counts);
        Ok(())
    }
}

/// The last row of every key, ordered by key. Newest files first, so that no more than one row per
/// key is in memory at a time, besides one file.
fn last_rows<R: Table>(files: &[(u32, PathBuf)]) -> Result<Vec<R>, RecordingError> {
    let mut seen = HashSet::new();
    let mut rows = Vec::new();
    for (_, path) in files.iter().rev() {
        let mut file: Vec<R> = read_segment(path, &[])?;
        keep_last(&mut file);
        rows.extend(file.into_iter().filter(|row| seen.insert(row.key())));
    }
    keep_last(&mut rows);
    Ok(rows)
}

/// How many of the first rows fit one file; at least one.
fn fitting<R: Table>(rows: &[R]) -> usize {
    let mut bytes = 0;
    let fitting = rows.iter().take(FILE_ROWS).take_while(|row| {
        bytes += size_of::<R>() + row.heap_bytes();
        bytes <= FILE_BYTES
    });
    fitting.count().max(1)
}
