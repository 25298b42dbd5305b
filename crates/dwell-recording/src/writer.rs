//! Writing a recording: rows are buffered, and closed as one segment after the other.
use crate::buffers::{Buffered, Buffers, ForTable, TABLES, for_each_table};
use crate::column::Values;
use crate::compact;
use crate::encode::{Format, encode};
use crate::error::RecordingError;
use crate::folder::{self, META, RESERVE};
use crate::manifest::Manifest;
use crate::meta::{FORMAT_VERSION, Meta};
use crate::rows::*;
use crate::table::{Table, keep_last};
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

/// Key in [`Meta::losses`] of the rows of a table that could not be written.
pub fn lost_rows(table: &str) -> String {
    format!("{table}_not_written")
}

/// Tables with a row per moment: what a disk without room costs first. Nothing refers to them, and the
/// exact sums are elsewhere.
const MOMENTS: [&str; 4] = [
    SampleRow::NAME,
    SliceRow::NAME,
    EventRow::NAME,
    LockBlockRow::NAME,
];
/// What else can be had from other files, mostly.
const NAMES: [&str; 1] = [SymbolRow::NAME];
/// Tables that say where: what is given up next, when memory cannot hold the rest or the recording ends.
const PLACES: [&str; 3] = [MappingRow::NAME, StackRow::NAME, FrameRow::NAME];

/// Memory of the buffered rows at which a segment is closed without being asked for.
const BUFFER_BYTES: usize = 8 << 20;
/// Buffered rows at which a segment is closed without being asked for.
const BUFFER_ROWS: usize = 1 << 16;
/// A row larger than this is refused.
const ROW_BYTES: usize = 16 << 20;
/// Rows per table that an empty buffer keeps room for; a burst gives its memory back.
const KEPT_ROWS: usize = 1 << 14;
/// Kept free for the last rows when the disk is full: the exact sums of some thousand threads.
const RESERVE_BYTES: usize = 256 << 10;

/// What to do with a recording that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// Leave it and fail.
    Refuse,
    /// Remove it first.
    Replace,
}

/// A recording being written.
///
/// Dropping it without [`Writer::finish`] leaves what a killed recorder leaves: a recording that
/// opens, short of the rows since the last closed segment, and not `complete`.
pub struct Writer {
    path: PathBuf,
    manifest: Manifest,
    buffers: Buffers,
    buffered_rows: usize,
    buffered_bytes: usize,
    /// Rows that could not be written, by table.
    lost: BTreeMap<&'static str, u64>,
    encoder: Encoder,
}

/// What encoding needs from one segment to the next.
#[derive(Default)]
pub(crate) struct Encoder {
    recording: Option<String>,
    formats: BTreeMap<&'static str, Format>,
    values: Values,
    file: Vec<u8>,
}

impl Encoder {
    /// For tables that are kept beside those of other recordings, of the recording of this name.
    pub fn beside_others(recording: &str) -> Self {
        Encoder {
            recording: Some(recording.to_owned()),
            ..Encoder::default()
        }
    }

    /// Writes rows as one file of table `R`.
    pub fn write<R: Table>(
        &mut self,
        folder: &Path,
        segment: u32,
        rows: &[R],
    ) -> Result<(), RecordingError> {
        let file = self.encoded(rows)?;
        folder::write_into(folder, &folder::segment_name(R::NAME, segment), file)
    }

    /// Rows as the bytes of a Parquet file.
    pub fn encoded<R: Table>(&mut self, rows: &[R]) -> Result<&[u8], RecordingError> {
        let format = || Format::of::<R>(self.recording.as_deref());
        let format = self.formats.entry(R::NAME).or_insert_with(format);
        encode(format, rows, &mut self.values, &mut self.file)?;
        Ok(&self.file)
    }
}

impl Writer {
    /// Starts a recording in the folder `path`, which must not exist, or be empty.
    ///
    /// `format_version` and `complete` of `meta` are set here. The first segment, with every table
    /// and no rows, is written at once.
    pub fn create(path: &Path, meta: Meta) -> Result<Self, RecordingError> {
        Self::create_with(path, meta, Overwrite::Refuse)
    }

    /// As [`Writer::create`]; `overwrite` says what becomes of a recording that is there. A folder
    /// with anything else in it is refused in any case.
    pub fn create_with(
        path: &Path,
        meta: Meta,
        overwrite: Overwrite,
    ) -> Result<Self, RecordingError> {
        fs::create_dir_all(path).map_err(|source| RecordingError::io("create", path, source))?;
        clear(path, overwrite)?;
        let reserve = path.join(RESERVE);
        fs::write(&reserve, vec![0; RESERVE_BYTES])
            .map_err(|source| RecordingError::write(&reserve, source))?;
        let meta = Meta {
            format_version: FORMAT_VERSION,
            complete: false,
            ..meta
        };
        let mut writer = Self {
            path: path.to_path_buf(),
            manifest: Manifest {
                meta,
                ..Manifest::default()
            },
            buffers: Buffers::default(),
            buffered_rows: 0,
            buffered_bytes: 0,
            lost: BTreeMap::new(),
            encoder: Encoder::default(),
        };
        writer.write_segment(Tables::All)?;
        Ok(writer)
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `meta.json` will say at the next closed segment.
    pub fn meta(&self) -> &Meta {
        &self.manifest.meta
    }

    /// The same, to be changed; keep `end_ns` and the counters current, for a recording cut short
    /// says what they were when its last segment was closed.
    pub fn meta_mut(&mut self) -> &mut Meta {
        &mut self.manifest.meta
    }

    /// Rows that could not be written so far, by table; `meta.json` says so under [`lost_rows`].
    pub fn lost(&self) -> &BTreeMap<&'static str, u64> {
        &self.lost
    }

    /// Buffers rows. Append what is referred to (frames, stacks, sites) before what refers to it.
    ///
    /// Closes a segment when the buffers are full, which is the only way it can fail on the disk;
    /// rows are then kept or counted as lost as [`Writer::close_segment`] says, and all of `rows`
    /// have been taken. A row over the size limit is not taken, nor are those after it.
    pub fn append<R: Buffered>(
        &mut self,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), RecordingError> {
        let mut closed = Ok(());
        for row in rows {
            let bytes = size_of::<R>() + row.heap_bytes();
            if bytes > ROW_BYTES {
                return Err(RecordingError::RowTooLarge {
                    table: R::NAME,
                    bytes,
                    limit: ROW_BYTES,
                });
            }
            R::buffer(&mut self.buffers).push(row);
            self.buffered_rows += 1;
            self.buffered_bytes += bytes;
            if self.is_full() {
                closed = closed.and(self.close_segment());
            }
        }
        closed
    }

    /// Writes every table that has rows, then `meta.json`, which makes them count. Call it about
    /// once a second.
    ///
    /// When it fails (a full disk), rows of `samples`, `slices`, `events` and `lock_blocks` are dropped and counted in
    /// [`Writer::lost`], and the others, which later rows refer to and which hold the exact sums, are
    /// written at once. If there is no room even for them, they are kept for the next attempt. The
    /// recording may go on.
    pub fn close_segment(&mut self) -> Result<(), RecordingError> {
        self.write_what_fits(&[&MOMENTS])
    }

    /// Writes what is buffered, and while there is no room for it, without some more tables.
    fn write_what_fits(&mut self, expendable: &[&[&str]]) -> Result<(), RecordingError> {
        let written = self.write_segment(Tables::WithRows);
        let mut in_place = written.is_ok();
        for tables in expendable {
            if !in_place {
                self.lose(tables);
                in_place = self.write_segment(Tables::WithRows).is_ok();
            }
        }
        if in_place {
            self.forget(&TABLES);
        } else {
            self.keep();
        }
        written
    }

    /// Writes one segment and, when all of it is in place, counts it in; else nothing of it stays.
    fn write_segment(&mut self, tables: Tables) -> Result<(), RecordingError> {
        let written = self.try_segment(tables);
        match &written {
            Ok(manifest) => self.manifest.clone_from(manifest),
            Err(_) => self.take_back(),
        }
        written.map(|_| ())
    }

    fn try_segment(&mut self, tables: Tables) -> Result<Manifest, RecordingError> {
        self.tell_losses();
        let mut write = WriteTables {
            path: &self.path,
            tables,
            manifest: self.manifest.clone(),
            buffers: &mut self.buffers,
            encoder: &mut self.encoder,
        };
        for_each_table(&mut write)?;
        let mut manifest = write.manifest;
        manifest.segments += u32::from(self.buffered_rows > 0 || tables == Tables::All);
        manifest.write(&self.path)?;
        Ok(manifest)
    }

    /// Ends the recording: closes the last segment, merges the small tables, marks it complete.
    ///
    /// On a full disk it still does what it can with the space it had kept, marks the recording
    /// complete with its losses, and then returns the error.
    pub fn finish(mut self) -> Result<(), RecordingError> {
        let mut closed = self.close_segment();
        let freed = folder::remove(&self.path.join(RESERVE));
        if closed.is_err() {
            // What could be kept fits now, or is lost for good: the sums last of all.
            closed = closed.and(self.write_what_fits(&[&NAMES, &PLACES]));
            self.lose(&TABLES);
        }
        self.tell_losses();
        self.manifest.meta.complete = true;
        let finished = match closed {
            Ok(()) => compact::compact(&self.path, &mut self.manifest, &mut self.encoder),
            failed => self.manifest.write(&self.path).and(failed),
        };
        finished.and(freed)
    }

    /// Removes the files of a segment that could not be written.
    fn take_back(&mut self) {
        for table in TABLES {
            // Not counted in meta.json, so a file that stays does no harm there.
            let _ = folder::remove(&folder::segment_path(
                &self.path,
                table,
                self.manifest.segments,
            ));
        }
    }

    /// Keeps what could not be written in little memory, however long that lasts: one row per key, one
    /// sum per site. When even that is too much, the sums are what is given up last.
    fn keep(&mut self) {
        let Ok(()) = for_each_table(&mut KeepLast(&mut self.buffers));
        add_up(&mut self.buffers.site_times);
        self.measure();
        for tables in [&NAMES[..], &PLACES, &TABLES] {
            if self.is_full() {
                self.lose(tables);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.buffered_rows >= BUFFER_ROWS || self.buffered_bytes >= BUFFER_BYTES
    }

    fn tell_losses(&mut self) {
        let lost = self.lost.iter().map(|(table, n)| (lost_rows(table), *n));
        self.manifest.meta.losses.extend(lost);
    }

    /// Drops the rows of these tables and counts them as lost.
    fn lose(&mut self, tables: &[&str]) {
        for (table, rows) in self.forget(tables) {
            *self.lost.entry(table).or_default() += rows;
        }
    }

    /// Drops the rows of these tables; how many there were.
    fn forget(&mut self, tables: &[&str]) -> BTreeMap<&'static str, u64> {
        let mut forget = Forget {
            tables,
            buffers: &mut self.buffers,
            rows: BTreeMap::new(),
        };
        let Ok(()) = for_each_table(&mut forget);
        let rows = forget.rows;
        self.measure();
        rows
    }

    /// Counts what is buffered anew.
    fn measure(&mut self) {
        let mut measure = Measure {
            buffers: &mut self.buffers,
            rows: 0,
            bytes: 0,
        };
        let Ok(()) = for_each_table(&mut measure);
        (self.buffered_rows, self.buffered_bytes) = (measure.rows, measure.bytes);
    }
}

/// One sum per site, of what was read at several times.
fn add_up(sums: &mut Vec<SiteTimeRow>) {
    let mut by_site: HashMap<u32, SiteTimeRow> = HashMap::with_capacity(sums.len());
    for row in sums.drain(..) {
        let sum = by_site.entry(row.site).or_default();
        *sum = SiteTimeRow {
            site: row.site,
            time_ns: row.time_ns,
            blocked_ns: sum.blocked_ns + row.blocked_ns,
            runnable_ns: sum.runnable_ns + row.runnable_ns,
            count: sum.count + row.count,
            max_ns: sum.max_ns.max(row.max_ns),
        };
    }
    sums.extend(by_site.into_values());
}

/// Makes `path` an empty folder, if that may be done.
fn clear(path: &Path, overwrite: Overwrite) -> Result<(), RecordingError> {
    let listing = folder::list(path)?;
    if let Some(found) = listing.foreign {
        return Err(RecordingError::NotEmpty {
            path: path.to_path_buf(),
            found,
        });
    }
    if !listing.ours.is_empty() && overwrite == Overwrite::Refuse {
        return Err(RecordingError::Exists {
            path: path.to_path_buf(),
        });
    }
    // meta.json first: half a recording removed is none.
    folder::remove(&path.join(META))?;
    listing
        .ours
        .iter()
        .try_for_each(|name| folder::remove(&path.join(name)))
}

/// Which tables get a file in a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tables {
    /// Every one, so that a table without rows has its columns: what `TABLE-*.parquet` names must
    /// exist for a query to run. The first segment is such.
    All,
    /// Those with rows.
    WithRows,
}

struct WriteTables<'a> {
    path: &'a Path,
    tables: Tables,
    manifest: Manifest,
    buffers: &'a mut Buffers,
    encoder: &'a mut Encoder,
}

impl ForTable<RecordingError> for WriteTables<'_> {
    fn table<R: Buffered>(&mut self) -> Result<(), RecordingError> {
        let rows = R::buffer(self.buffers);
        if rows.is_empty() && self.tables == Tables::WithRows {
            return Ok(());
        }
        let segment = self.manifest.segments;
        self.encoder.write(self.path, segment, rows)?;
        self.manifest
            .tables
            .entry(R::NAME.to_string())
            .or_default()
            .add(segment, rows.len());
        Ok(())
    }
}

struct Forget<'a> {
    tables: &'a [&'a str],
    buffers: &'a mut Buffers,
    rows: BTreeMap<&'static str, u64>,
}

impl ForTable<Infallible> for Forget<'_> {
    fn table<R: Buffered>(&mut self) -> Result<(), Infallible> {
        let rows = R::buffer(self.buffers);
        if self.tables.contains(&R::NAME) && !rows.is_empty() {
            self.rows.insert(R::NAME, rows.len() as u64);
            rows.clear();
            rows.shrink_to(KEPT_ROWS);
        }
        Ok(())
    }
}

struct KeepLast<'a>(&'a mut Buffers);

impl ForTable<Infallible> for KeepLast<'_> {
    fn table<R: Buffered>(&mut self) -> Result<(), Infallible> {
        keep_last(R::buffer(self.0));
        Ok(())
    }
}

struct Measure<'a> {
    buffers: &'a mut Buffers,
    rows: usize,
    bytes: usize,
}

impl ForTable<Infallible> for Measure<'_> {
    fn table<R: Buffered>(&mut self) -> Result<(), Infallible> {
        let rows = R::buffer(self.buffers);
        self.rows += rows.len();
        self.bytes += rows
            .iter()
            .map(|row| size_of::<R>() + row.heap_bytes())
            .sum::<usize>();
        Ok(())
    }
}
