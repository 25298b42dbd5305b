//! Reading a recording: complete, cut short, older, damaged or hostile.
use crate::decode::{MAX_FILE_BYTES, decode};
use crate::error::RecordingError;
use crate::folder;
use crate::manifest::{Manifest, TableSegments};
use crate::meta::Meta;
use crate::table::{Table, keep_last};
use crate::tables::Tables;
use crate::upgrade;
use crate::whole::read_whole;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How much memory reading may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all rows of one table, bytes.
    pub table_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            table_bytes: 4 << 30,
        }
    }
}

/// A recording that was opened. Nothing but `meta.json` is read until tables are asked for.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    manifest: Manifest,
    version: u32,
    /// Numbers of the segments that count, in order.
    segments: BTreeMap<&'static str, Vec<u32>>,
    warnings: Mutex<Vec<String>>,
    limits: Limits,
}

impl Recording {
    /// Opens the recording in the folder `path`.
    ///
    /// One of an older format version is upgraded as it is read; a newer one is refused. Files that
    /// `meta.json` counts and that are not there are an error, or a warning when they are the last
    /// of a recording that was cut short.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        Self::open_with(path, Limits::default())
    }

    /// As [`Recording::open`], with other limits on memory.
    pub fn open_with(path: impl AsRef<Path>, limits: Limits) -> Result<Self, RecordingError> {
        let path = path.as_ref().to_path_buf();
        let (manifest, version) = Manifest::read(&path)?;
        let mut recording = Self {
            segments: folder::list(&path)?.segments,
            path,
            manifest,
            version,
            warnings: Mutex::default(),
            limits,
        };
        recording.keep_counted()?;
        Ok(recording)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The contents of `meta.json`.
    pub fn meta(&self) -> &Meta {
        &self.manifest.meta
    }

    /// What is not as it should be and yet does not keep the recording from being read, so far:
    /// more may be found as tables are read.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Every row of a table, its segments joined in order, nothing replaced yet.
    ///
    /// A damaged segment is an error, unless the recording was cut short and no later segment of
    /// the table is sound: then it is a warning, and the rows before it are returned.
    pub fn read<R: Table>(&self) -> Result<Vec<R>, RecordingError> {
        self.read_forgetting(|_| false)
    }

    /// The same; `forget` is called after each segment and may take out rows, and then returns true.
    fn read_forgetting<R: Table>(
        &self,
        mut forget: impl FnMut(&mut Vec<R>) -> bool,
    ) -> Result<Vec<R>, RecordingError> {
        let absent = upgrade::absent_columns(R::NAME, self.version);
        let numbers = self.segments.get(R::NAME).map_or(&[][..], Vec::as_slice);
        let mut rows: Vec<R> = Vec::new();
        let (mut bytes, mut found) = (0usize, 0usize);
        for (index, number) in numbers.iter().enumerate() {
            match read_segment::<R>(&self.segment_path::<R>(*number), &absent) {
                Ok(more) => {
                    bytes += memory(&more);
                    if bytes > self.limits.table_bytes {
                        return Err(self.too_big::<R>());
                    }
                    found += more.len();
                    rows.extend(more);
                    if forget(&mut rows) {
                        bytes = memory(&rows);
                    }
                }
                Err(error) if self.is_torn_end::<R>(&numbers[index + 1..], &absent) => {
                    self.warn(format!("table {} ends early: {error}", R::NAME));
                    return Ok(rows);
                }
                Err(error) => return Err(error),
            }
        }
        self.check_rows::<R>(found)?;
        Ok(rows)
    }

    /// The whole recording; in tables with a key the last row of every key, ordered by key.
    pub fn load(&self) -> Result<Tables, RecordingError> {
        Ok(Tables {
            meta: self.manifest.meta.clone(),
            processes: self.last()?,
            threads: self.last()?,
            mappings: self.last()?,
            frames: self.last()?,
            symbols: self.last()?,
            stacks: self.last()?,
            sites: self.last()?,
            futexes: self.last()?,
            locks: self.last()?,
            lock_blocks: self.last()?,
            kernel_locks: self.last()?,
            memory_places: self.last()?,
            site_times: self.last()?,
            samples: self.last()?,
            slices: self.last()?,
            events: self.last()?,
        })
    }

    /// In a table with a key the last row of every key, ordered by key; else all rows.
    pub(crate) fn last<R: Table>(&self) -> Result<Vec<R>, RecordingError> {
        /// Fewer rows are not worth looking through.
        const MANY: usize = 1 << 16;
        // What was replaced is forgotten whenever it may be half of all.
        let mut enough = MANY;
        let mut rows = self.read_forgetting(|rows: &mut Vec<R>| {
            let is_due = R::KEYED && rows.len() >= enough;
            if is_due {
                keep_last(rows);
                enough = MANY.max(2 * rows.len());
            }
            is_due
        })?;
        keep_last(&mut rows);
        Ok(rows)
    }

    /// Forgets files that `meta.json` does not count: never closed, or merged into others. Checks
    /// that those it counts are there.
    fn keep_counted(&mut self) -> Result<(), RecordingError> {
        let mut warnings = Vec::new();
        for (table, numbers) in &mut self.segments {
            let counted = self
                .manifest
                .tables
                .get(*table)
                .filter(|counted| counted.files > 0);
            let found = numbers.len();
            numbers.retain(|number| counted.is_some_and(|c| (c.first..=c.last).contains(number)));
            if found > numbers.len() && !self.manifest.meta.complete {
                warnings.push(format!(
                    "table {table}: the last segment was not closed; it is left out"
                ));
            }
        }
        for table in crate::buffers::TABLES {
            let counted = self.manifest.tables.get(table).copied().unwrap_or_default();
            warnings.extend(self.check_files(table, counted)?);
        }
        self.warnings = Mutex::new(warnings);
        Ok(())
    }

    /// Checks the number of files of a table; the warning, if that is all that is needed.
    fn check_files(
        &self,
        table: &'static str,
        counted: TableSegments,
    ) -> Result<Option<String>, RecordingError> {
        let numbers = self.segments.get(table).map_or(&[][..], Vec::as_slice);
        let found = numbers.len() as u64;
        if found == counted.files {
            return Ok(None);
        }
        if !self.manifest.meta.complete && numbers.last() != Some(&counted.last) {
            return Ok(Some(format!(
                "table {table}: the last of {} files are missing, {found} are there",
                counted.files
            )));
        }
        Err(self.missing(table, "files", counted.files, found))
    }

    /// Checks that a table that is there in full has the rows `meta.json` says.
    fn check_rows<R: Table>(&self, found: usize) -> Result<(), RecordingError> {
        let counted = self
            .manifest
            .tables
            .get(R::NAME)
            .copied()
            .unwrap_or_default();
        let files = self.segments.get(R::NAME).map_or(0, Vec::len);
        if files as u64 == counted.files && found as u64 != counted.rows {
            return Err(self.missing(R::NAME, "rows", counted.rows, found as u64));
        }
        Ok(())
    }

    /// Whether a damaged segment, with these after it, is the torn end of a recording cut short. A
    /// machine that lost power may have left several segments empty.
    fn is_torn_end<R: Table>(&self, after: &[u32], absent: &[&str]) -> bool {
        let mut after = after.iter();
        !self.manifest.meta.complete
            && after
                .all(|number| read_segment::<R>(&self.segment_path::<R>(*number), absent).is_err())
    }

    fn segment_path<R: Table>(&self, number: u32) -> PathBuf {
        folder::segment_path(&self.path, R::NAME, number)
    }

    fn missing(
        &self,
        table: &'static str,
        unit: &'static str,
        expected: u64,
        found: u64,
    ) -> RecordingError {
        RecordingError::Missing {
            path: self.path.clone(),
            table,
            unit,
            expected,
            found,
        }
    }

    fn too_big<R: Table>(&self) -> RecordingError {
        RecordingError::TooBig {
            path: self.path.clone(),
            table: R::NAME,
            limit: self.limits.table_bytes,
        }
    }

    fn warn(&self, warning: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }
}

/// Reads one file of a table.
pub fn read_segment<R: Table>(path: &Path, absent: &[&str]) -> Result<Vec<R>, RecordingError> {
    let file = read_whole(path, MAX_FILE_BYTES)
        .map_err(|source| RecordingError::io("read", path, source))?;
    decode(file, absent).map_err(|reason| RecordingError::segment(path, reason))
}

/// What rows take up, bytes.
fn memory<R: Table>(rows: &[R]) -> usize {
    let bytes = rows.iter().map(|row| size_of::<R>() + row.heap_bytes());
    bytes.sum()
}
