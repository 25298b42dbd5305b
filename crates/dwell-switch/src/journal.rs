//! What is switched on, on disk: it outlives a killed daemon and a reboot, as the switched files do.
use crate::stamp::{Identity, Stamp};
use crate::way::Way;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The folders that are used.
#[derive(Clone, Debug)]
pub struct Dirs {
    /// Configurations.
    pub config: PathBuf,
    /// The journal.
    pub state: PathBuf,
    /// What a reboot takes away: guards, the lock, the last status.
    pub run: PathBuf,
}

impl Dirs {
    /// The file that exists as long as a boosted program may run. Each time another one: a boosted file that is still
    /// mounted somewhere must not run because a newer one may.
    pub fn new_guard(&self, name: &str) -> PathBuf {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default().as_nanos();
        self.guards().join(format!("{name}.{since}"))
    }

    /// The folder of all of them.
    pub fn guards(&self) -> PathBuf {
        self.run.join("guards")
    }

    /// The journal in these folders.
    pub fn journal(&self) -> Journal {
        Journal {
            folder: self.state.join("active"),
        }
    }
}

/// What boosting gained when it was tried.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// Median start-up of the stock program, ns.
    pub stock_ns: u64,
    /// Median start-up of the boosted one, ns.
    pub boosted_ns: u64,
    /// Median of the ratios of neighbouring runs, boosted over stock.
    pub ratio: f64,
}

/// A program that is switched, or about to be.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Record {
    /// The configuration's name.
    pub name: String,
    /// The configuration's file.
    pub config: PathBuf,
    /// The program, without links.
    pub path: PathBuf,
    /// What was there.
    pub stock: Identity,
    /// What takes its place.
    pub boosted: Identity,
    /// How it does.
    pub way: Way,
    /// The file without which the boosted program becomes the stock one.
    pub guard: PathBuf,
    /// Everything else that it was made of.
    pub stamps: Vec<Stamp>,
    /// Build id of the merged file, hexadecimal: another one when one of the merged files has another.
    pub build_id: String,
    /// Names of the merged libraries.
    pub libraries: Vec<String>,
    /// What was gained in the trial.
    pub gain: Gain,
    /// Seconds since 1970.
    pub since: u64,
}

/// The records of all that is switched.
#[derive(Clone, Debug)]
pub struct Journal {
    folder: PathBuf,
}

impl Journal {
    /// Notes a record before it is acted on.
    pub fn write(&self, record: &Record) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        write_whole(
            &self.file(&record.name),
            &serde_json::to_vec_pretty(record)?,
        )
    }

    /// Forgets a record after it was taken back.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.file(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// All records. Unreadable ones are errors: they may stand for a switched program.
    pub fn records(&self) -> io::Result<Vec<Record>> {
        let mut records = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(records),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "json") {
                // One that was taken back since the folder was listed is none.
                if let Some(bytes) = there(fs::read(&path))? {
                    records.push(serde_json::from_slice(&bytes)?);
                }
            }
        }
        records.sort_by(|a: &Record, b: &Record| a.name.cmp(&b.name));
        Ok(records)
    }

    /// Whether nothing is in it, not even a record whose writer was killed.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(there(fs::read_dir(&self.folder))?.is_none_or(|mut entries| entries.next().is_none()))
    }

    /// Removes what writers that were killed have left of records: nothing was done yet. For the one who has the right
    /// to switch programs ([`crate::Instance`]): another's may be about to become a record.
    pub fn remove_unfinished(&self) -> io::Result<()> {
        for entry in there(fs::read_dir(&self.folder))?.into_iter().flatten() {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == UNFINISHED) {
                there(fs::remove_file(path))?;
            }
        }
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.json"))
    }
}

/// What was read; none where there is no such file.
pub(crate) fn there<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Ends the names of files that are being written.
const UNFINISHED: &str = "new";

/// Writes a file that appears complete, and is on the disk.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}.{UNFINISHED}", std::process::id()));
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(folder)?.sync_all()
}
