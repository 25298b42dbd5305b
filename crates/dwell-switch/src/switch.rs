//! A program is switched on, looked at and taken back, whichever way.
use crate::bind::Bound;
use crate::binfmt::Entry;
use crate::exchange;
use crate::journal::{Journal, Record};
use crate::stamp::{Identity, Stamp};
use crate::way::Way;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Why a program could not be switched.
#[derive(thiserror::Error, Debug)]
pub enum SwitchError {
    /// Another program has the path.
    #[error("{0} was replaced meanwhile")]
    Replaced(PathBuf),
    /// Nothing to go back to.
    #[error(
        "{stock} is gone, which {path} was before it was boosted: reinstall the package that it belongs to"
    )]
    StockGone {
        /// The program.
        path: PathBuf,
        /// Where the stock one was.
        stock: PathBuf,
    },
    /// Others exchange the files all the time.
    #[error("{0} is being changed all the time")]
    Restless(PathBuf),
    /// The file system does not exchange names.
    #[error(
        "the file system of {0} cannot exchange two names (renameat2): programs on it cannot be switched"
    )]
    NoExchange(PathBuf),
    /// The system says no.
    #[error("{what} {path}: {error}")]
    System {
        /// What was done.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

/// What became of a program that was to be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// The stock program, or a newer one, has its path; nothing of ours is left.
    Done,
    /// A newer program has the path, but its package is being unpacked and may take it back: to be asked again.
    UpgradeUnderWay,
}

/// Puts the boosted file, which was made at [`Way::made_at`], in the stock program's place. After an error nothing of it
/// is left.
pub fn activate(journal: &Journal, record: &Record) -> Result<(), SwitchError> {
    let noted = journal.write(record);
    noted.map_err(|error| system("writing the journal for", &record.path, error))?;
    let path = &record.path;
    let done = match Means::of(record) {
        Means::Exchange => exchange::put(record),
        Means::Mount(bound) => bound
            .set()
            .map_err(|error| system("mounting for a service", path, error)),
        Means::Entry(entry) => entry
            .set()
            .map_err(|error| system("registering with binfmt_misc", path, error)),
    };
    if done.is_err() {
        restore(journal, record)?;
    }
    done
}

/// Takes a program back, whatever of it was done; forgets the record.
pub fn restore(journal: &Journal, record: &Record) -> Result<Restored, SwitchError> {
    // From now on each start is the stock program's, whatever else has to wait.
    remove(&record.guard)?;
    match Means::of(record) {
        Means::Mount(bound) => {
            let unset = bound.unset();
            unset.map_err(|error| system("taking back the mount of", &record.path, error))?;
            remove(bound.file)?;
        }
        Means::Entry(entry) => {
            let unset = entry.unset();
            unset.map_err(|error| system("taking back the entry of", &record.path, error))?;
            remove(entry.file)?;
        }
        Means::Exchange => {
            if exchange::take_back(record)? == Restored::UpgradeUnderWay {
                return Ok(Restored::UpgradeUnderWay);
            }
        }
    }
    sync(&record.path)?;
    let forgotten = journal.remove(&record.name);
    forgotten.map_err(|error| system("forgetting", &record.path, error))?;
    Ok(Restored::Done)
}

/// Whether starts of the program come to the boosted file, and may.
pub fn is_on(record: &Record) -> bool {
    record.guard.exists() && misplaced(record).is_none()
}

/// What is not as it was since a program was switched on.
pub fn changed(record: &Record) -> Option<PathBuf> {
    let stamps = record.stamps.iter().find(|s| !s.holds());
    misplaced(record).or_else(|| stamps.map(Stamp::path).map(Path::to_owned))
}

/// What is not where it has to be.
fn misplaced(record: &Record) -> Option<PathBuf> {
    let (path, made_at) = (&record.path, record.way.made_at(&record.path));
    let (at_path, beside) = match Means::of(record) {
        Means::Mount(bound) if !bound.is_set() => return Some(made_at),
        Means::Entry(entry) if !entry.is_set() => return Some(made_at),
        Means::Mount(_) | Means::Entry(_) => (record.stock, record.boosted),
        Means::Exchange => (record.boosted, record.stock),
    };
    let wanted = [(path.clone(), at_path), (made_at, beside)];
    let wrong = wanted
        .into_iter()
        .find(|(path, wanted)| Identity::of(path) != Some(*wanted));
    wrong.map(|(path, _)| path)
}

/// What a way is gone by.
enum Means<'a> {
    Exchange,
    Mount(Bound<'a>),
    Entry(Entry<'a>),
}

impl<'a> Means<'a> {
    fn of(record: &'a Record) -> Self {
        match &record.way {
            Way::Exchange | Way::Divert => Means::Exchange,
            Way::Bind {
                unit,
                file,
                stock_folder,
            } => Means::Mount(Bound {
                unit,
                path: &record.path,
                file,
                stock_folder,
            }),
            Way::Binfmt { file } => {
                // The guard's name is no other's.
                let name = record.guard.file_name().unwrap_or_default();
                Means::Entry(Entry {
                    name: format!("dwell-boost-{}", name.to_string_lossy()),
                    path: &record.path,
                    file,
                })
            }
        }
    }
}

pub(crate) fn remove(path: &Path) -> Result<(), SwitchError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(system("removing", path, error))
        }
        _ => Ok(()),
    }
}

pub(crate) fn sync(path: &Path) -> Result<(), SwitchError> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    match File::open(folder).and_then(|f| f.sync_all()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(system("writing back", folder, error))
        }
        _ => Ok(()),
    }
}

pub(crate) fn system(what: &'static str, path: &Path, error: io::Error) -> SwitchError {
    SwitchError::System {
        what,
        path: path.to_owned(),
        error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::stock_path;
    use crate::journal::{Dirs, Gain};

    struct Case {
        dirs: Dirs,
        folder: PathBuf,
        record: Record,
    }

    impl Case {
        /// A stock program, a boosted one beside it, and a record; nothing is switched.
        fn new(name: &str) -> Self {
            let folder =
                std::env::temp_dir().join(format!("dwell-switch-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(folder.join("run/guards")).expect("made");
            let dirs = Dirs {
                config: folder.join("config"),
                state: folder.join("state"),
                run: folder.join("run"),
            };
            let path = folder.join("prog");
            fs::write(&path, "stock").expect("written");
            fs::write(stock_path(&path), "boosted").expect("written");
            let guard = dirs.new_guard("prog");
            fs::write(&guard, "").expect("written");
            let identity = |path: &Path| Identity::of(path).expect("there");
            let record = Record {
                name: "prog".into(),
                config: folder.join("config/prog.toml"),
                stock: identity(&path),
                boosted: identity(&stock_path(&path)),
                way: Way::Exchange,
                guard,
                path,
                stamps: Vec::new(),
                build_id: String::new(),
                libraries: Vec::new(),
                gain: Gain {
                    stock_ns: 2,
                    boosted_ns: 1,
                    ratio: 0.5,
                },
                since: 0,
            };
            Case {
                dirs,
                folder,
                record,
            }
        }

        fn at_path(&self) -> String {
            fs::read_to_string(&self.record.path).unwrap_or_default()
        }

        fn activate(&self) {
            activate(&self.dirs.journal(), &self.record).expect("switched");
            assert_eq!(self.at_path(), "boosted");
        }

        fn restore(&self) -> Restored {
            restore(&self.dirs.journal(), &self.record).expect("restored")
        }

        fn nothing_is_left(&self) {
            assert_eq!(self.dirs.journal().records().expect("read"), []);
            let names = fs::read_dir(&self.folder).expect("there").flatten();
            let hidden: Vec<_> = names
                .map(|e| e.file_name())
                .filter(|n| n.to_string_lossy().starts_with('.'))
                .collect();
            assert!(hidden.is_empty(), "{hidden:?}");
            assert!(!self.record.guard.exists());
        }
    }

    impl Drop for Case {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }

    #[test]
    fn there_and_back() {
        let case = Case::new("back");
        case.activate();
        assert_eq!(
            case.dirs.journal().records().expect("read"),
            std::slice::from_ref(&case.record)
        );
        assert_eq!(case.restore(), Restored::Done);
        assert_eq!(case.at_path(), "stock");
        case.nothing_is_left();
        assert_eq!(case.restore(), Restored::Done);
        assert_eq!(case.at_path(), "stock");
    }

    /// Killed while the journal was written.
    #[test]
    fn an_unfinished_record_is_cleaned_up() {
        let case = Case::new("unfinished");
        let journal = case.dirs.journal();
        assert!(journal.is_empty().expect("read"));
        journal.remove_unfinished().expect("no folder yet");
        journal.write(&case.record).expect("written");
        let folder = case.dirs.state.join("active");
        let unfinished = folder.join(".prog.json.1.new");
        fs::write(&unfinished, "{").expect("written");
        journal.remove_unfinished().expect("removed");
        assert!(!unfinished.exists() && !journal.is_empty().expect("read"));
        journal.remove(&case.record.name).expect("removed");
        fs::write(&unfinished, "{").expect("written");
        assert!(!journal.is_empty().expect("read"));
        assert_eq!(journal.records().expect("read"), []);
        journal.remove_unfinished().expect("removed");
        assert!(journal.is_empty().expect("read"));
    }

    /// Killed after the journal was written, before the exchange.
    #[test]
    fn a_record_without_deeds_is_cleaned_up() {
        let case = Case::new("early");
        case.dirs.journal().write(&case.record).expect("written");
        case.restore();
        assert_eq!(case.at_path(), "stock");
        case.nothing_is_left();
    }

    #[test]
    fn an_upgrade_wins() {
        let case = Case::new("upgrade");
        case.activate();
        let new = case.folder.join("prog.dpkg-new");
        fs::write(&new, "new").expect("written");
        fs::hard_link(&case.record.path, case.folder.join("prog.dpkg-tmp")).expect("linked");
        fs::rename(&new, &case.record.path).expect("renamed over the boosted program");
        assert_eq!(case.restore(), Restored::UpgradeUnderWay);
        fs::remove_file(case.folder.join("prog.dpkg-tmp")).expect("removed");
        assert_eq!(case.restore(), Restored::Done);
        assert_eq!(case.at_path(), "new");
        case.nothing_is_left();
    }

    /// The package manager gives up and puts back what it found, which was the boosted program.
    #[test]
    fn an_upgrade_taken_back_is_survived() {
        let case = Case::new("taken-back");
        case.activate();
        let old = case.folder.join("prog.dpkg-tmp");
        fs::hard_link(&case.record.path, &old).expect("linked");
        fs::write(case.folder.join("prog.dpkg-new"), "new").expect("written");
        fs::rename(case.folder.join("prog.dpkg-new"), &case.record.path).expect("renamed");
        assert_eq!(case.restore(), Restored::UpgradeUnderWay);
        fs::rename(&old, &case.record.path).expect("put back");
        assert_eq!(case.restore(), Restored::Done);
        assert_eq!(case.at_path(), "stock");
        case.nothing_is_left();
    }

    /// A new version arrives between the trial and the exchange, or between a look and an exchange.
    #[test]
    fn a_version_that_comes_in_between_survives() {
        let case = Case::new("between");
        fs::remove_file(&case.record.path).expect("removed");
        fs::write(&case.record.path, "newer").expect("written");
        let error = activate(&case.dirs.journal(), &case.record).expect_err("replaced");
        assert!(matches!(error, SwitchError::Replaced(_)), "{error}");
        assert_eq!(case.at_path(), "newer");
        case.nothing_is_left();

        let case = Case::new("between-back");
        case.activate();
        let stock = stock_path(&case.record.path);
        // As if an upgrade had come just before the exchange of `restore`: the stock program has the path, the new
        // one the hidden name, and the boosted one is gone.
        fs::rename(&stock, &case.record.path).expect("renamed");
        fs::write(&stock, "newer").expect("written");
        assert_eq!(case.restore(), Restored::Done);
        assert_eq!(case.at_path(), "newer");
        case.nothing_is_left();
    }

    #[test]
    fn a_removed_program_stays_removed() {
        let case = Case::new("removed");
        case.activate();
        fs::remove_file(&case.record.path).expect("removed");
        assert_eq!(case.restore(), Restored::Done);
        assert!(!case.record.path.exists());
        case.nothing_is_left();
    }

    #[test]
    fn a_lost_stock_program_is_told() {
        let case = Case::new("lost");
        case.activate();
        fs::remove_file(stock_path(&case.record.path)).expect("removed");
        let error = restore(&case.dirs.journal(), &case.record).expect_err("lost");
        assert!(error.to_string().contains("reinstall"), "{error}");
        assert_eq!(case.at_path(), "boosted");
    }

    #[test]
    fn one_instance() {
        let case = Case::new("instance");
        let first = crate::Instance::take(&case.dirs)
            .expect("io")
            .expect("free");
        let second = crate::Instance::take(&case.dirs)
            .expect("io")
            .expect_err("taken");
        assert_eq!(second.pid, Some(std::process::id()));
        drop(first);
        assert!(crate::Instance::take(&case.dirs).expect("io").is_ok());
    }

    /// Who takes a program back looks at the records while the daemon removes them.
    #[test]
    fn records_are_read_while_others_come_and_go() {
        let case = Case::new("busy");
        let journal = case.dirs.journal();
        let busy = std::thread::spawn({
            let (journal, record) = (journal.clone(), case.record.clone());
            move || {
                for _ in 0..300 {
                    journal.write(&record).expect("written");
                    journal.remove(&record.name).expect("removed");
                }
            }
        });
        while !busy.is_finished() {
            assert!(journal.records().expect("read").len() <= 1);
        }
        busy.join().expect("done");
        fs::remove_dir_all(&case.folder).expect("removed");
    }
}
