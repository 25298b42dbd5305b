//! Recordings that wait to be delivered, in a folder of bounded size.
//!
//! ```text
//! lock                     held by the one who spools
//! making/NAME.dwell        being recorded
//! waiting/NAME/NAME.dwell  made; `delivered` beside it lists, by line, where it is already
//! ```
//!
//! A recording is moved whole. So whoever is killed, and whenever, leaves at most one that was cut short; it waits with
//! the others when the spool is opened again.
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A folder of recordings that wait.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    limit: u64,
    /// Held while this lives.
    _lock: File,
}

/// A recording that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    folder: PathBuf,
}

/// An error of the spool, with the file.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// Somebody else spools there.
    #[error("{0} is another agent's: end that one, or choose another folder with --spool")]
    Taken(PathBuf),
    /// A failure of the file system.
    #[error("{action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SpoolError {
    let path = path.to_owned();
    move |source| SpoolError::Io {
        action,
        path,
        source,
    }
}

impl Spool {
    /// Opens the folder, makes it if needed, and takes what an earlier owner left. All that waits takes up `limit` bytes at
    /// most.
    pub fn open(path: &Path, limit: u64) -> Result<Self, SpoolError> {
        for folder in ["making", "waiting"].map(|name| path.join(name)) {
            fs::create_dir_all(&folder).map_err(failed("cannot make", &folder))?;
        }
        let lock = path.join("lock");
        let file = File::create(&lock).map_err(failed("cannot make", &lock))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(SpoolError::Taken(path.to_owned())),
            Err(TryLockError::Error(source)) => return Err(failed("cannot lock", &lock)(source)),
        }
        let spool = Spool {
            path: path.to_owned(),
            limit,
            _lock: file,
        };
        for left in listed(&spool.path.join("making"))? {
            spool.take(&left)?;
        }
        Ok(spool)
    }

    /// Where to make the recording of this name.
    pub fn to_make(&self, name: &str) -> PathBuf {
        self.path.join("making").join(format!("{name}.dwell"))
    }

    /// A recording that was made waits from now on; one that has no `meta.json` is none, and is removed.
    pub fn take(&self, made: &Path) -> Result<(), SpoolError> {
        if !made.join("meta.json").exists() {
            return fs::remove_dir_all(made).map_err(failed("cannot remove", made));
        }
        let name = made.file_stem().unwrap_or_default();
        let folder = self.path.join("waiting").join(name);
        fs::create_dir_all(&folder).map_err(failed("cannot make", &folder))?;
        let to = folder.join(made.file_name().unwrap_or_default());
        fs::rename(made, &to).map_err(failed("cannot move", made))
    }

    /// All that wait, by name: oldest first where names are instants.
    pub fn waiting(&self) -> Result<Vec<Waiting>, SpoolError> {
        let folders = listed(&self.path.join("waiting"))?;
        Ok(folders
            .into_iter()
            .map(|folder| Waiting { folder })
            .collect())
    }

    /// How much they take up, bytes.
    pub fn bytes(&self) -> u64 {
        size(&self.path.join("waiting"))
    }

    /// Drops the oldest until the rest is within the limit; these are gone.
    pub fn drop_oldest(&self) -> Result<Vec<Waiting>, SpoolError> {
        let mut dropped = Vec::new();
        let mut bytes = self.bytes();
        for waiting in self.waiting()? {
            if bytes <= self.limit {
                break;
            }
            bytes = bytes.saturating_sub(size(&waiting.folder));
            waiting.remove()?;
            dropped.push(waiting);
        }
        Ok(dropped)
    }
}

impl Waiting {
    /// Its name.
    pub fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// The recording.
    pub fn recording(&self) -> PathBuf {
        self.folder.join(format!("{}.dwell", self.name()))
    }

    /// Whether it was delivered there.
    pub fn is_delivered(&self, to: &str) -> bool {
        let delivered = fs::read_to_string(self.folder.join("delivered"));
        delivered.unwrap_or_default().lines().any(|line| line == to)
    }

    /// It was delivered there, or never will be.
    pub fn set_delivered(&self, to: &str) -> Result<(), SpoolError> {
        let path = self.folder.join("delivered");
        let mut file = File::options()
            .append(true)
            .create(true)
            .open(&path)
            .map_err(failed("cannot make", &path))?;
        writeln!(file, "{to}").map_err(failed("cannot write", &path))
    }

    /// It does not wait any longer. One that is gone already is gone.
    pub fn remove(&self) -> Result<(), SpoolError> {
        match fs::remove_dir_all(&self.folder) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                Err(failed("cannot remove", &self.folder)(source))
            }
            _ => Ok(()),
        }
    }
}

/// What a folder holds, by name.
fn listed(path: &Path) -> Result<Vec<PathBuf>, SpoolError> {
    let entries = fs::read_dir(path).and_then(|entries| entries.map(|e| Ok(e?.path())).collect());
    let mut paths: Vec<PathBuf> = entries.map_err(failed("cannot read", path))?;
    paths.sort();
    Ok(paths)
}

/// Bytes of all files below; what goes meanwhile counts nothing.
fn size(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => size(&entry.path()),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.flatten().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(spool: &Spool, name: &str, bytes: usize) -> PathBuf {
        let path = spool.to_make(name);
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("meta.json"), vec![0; bytes]).expect("a file");
        path
    }

    fn names(waiting: &[Waiting]) -> Vec<String> {
        waiting.iter().map(Waiting::name).collect()
    }

    #[test]
    fn the_oldest_goes_first() {
        let scratch = tempfile::tempdir().expect("a folder");
        let spool = Spool::open(scratch.path(), 2500).expect("a spool");
        for name in ["3", "1", "2"] {
            spool.take(&make(&spool, name, 1000)).expect("taken");
        }
        assert_eq!(names(&spool.waiting().expect("a list")), ["1", "2", "3"]);
        assert_eq!(spool.bytes(), 3000);
        assert_eq!(names(&spool.drop_oldest().expect("dropped")), ["1"]);
        assert_eq!(spool.drop_oldest().expect("nothing"), []);
        assert_eq!(names(&spool.waiting().expect("a list")), ["2", "3"]);
    }

    #[test]
    fn what_was_left_waits_and_delivery_is_remembered() {
        let scratch = tempfile::tempdir().expect("a folder");
        let spool = Spool::open(scratch.path(), u64::MAX).expect("a spool");
        spool.take(&make(&spool, "1", 10)).expect("taken");
        let [first] = &spool.waiting().expect("a list")[..] else {
            panic!("one waits");
        };
        first.set_delivered("s3://a/").expect("written");
        make(&spool, "2", 10);
        // Not even begun.
        fs::create_dir(spool.to_make("3")).expect("a folder");
        let again = Spool::open(scratch.path(), u64::MAX);
        assert!(matches!(again, Err(SpoolError::Taken(_))));
        drop(spool);
        let spool = Spool::open(scratch.path(), u64::MAX).expect("a spool");
        let waiting = spool.waiting().expect("a list");
        assert_eq!(names(&waiting), ["1", "2"]);
        assert!(waiting[0].is_delivered("s3://a/") && !waiting[0].is_delivered("s3://b/"));
        assert!(!waiting[1].is_delivered("s3://a/"));
        assert!(waiting[1].recording().join("meta.json").exists());
        waiting[0].remove().expect("removed");
        waiting[0].remove().expect("removed already");
        assert_eq!(names(&spool.waiting().expect("a list")), ["2"]);
    }
}
