//! Unwind tables that took long to compile, kept in `$XDG_CACHE_HOME/dwell/unwind` (`~/.cache/dwell/unwind`) for the next
//! recording: a program with two hundred libraries takes more than a second of processor time otherwise, in which its
//! stacks are told by copies alone, and `dwell agent` would pay it for each window.
//!
//! A table belongs to a file by its identity, not by its build id, which anyone can give to another file. What cannot be
//! read or written is compiled as if nothing was kept.
use crate::user_cache::{make_private, user_cache};
use dwell_elf::ElfError;
use dwell_elf::unwind::UnwindTable;
use dwell_recording::{read_whole, write_whole};
use std::fs::{self, File, FileTimes, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// What compiles in less is not kept: as long as to read it.
const WORTH_KEEPING: Duration = Duration::from_millis(1);

/// Bytes of all files that stay, those that were used last.
const MOST_BYTES: u64 = 256 << 20;

/// That a file was used is told by its time of change, which is set this seldom.
const USED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// How a file begins: a mark, then what it was made of, see `key`; and how it ends: CRC-32 of all before.
const MAGIC: [u8; 8] = *b"dwelltab";
const KEY_WORDS: usize = 10;
const HEAD: usize = MAGIC.len() + 8 * KEY_WORDS;
const TAIL: usize = 4;

/// See the module's text.
#[derive(Default)]
pub struct TableCache {
    /// None: nothing is kept.
    folder: Option<PathBuf>,
    /// Our own program, which may compile otherwise than another version.
    own: [u64; 3],
    has_stored: bool,
}

impl TableCache {
    /// That of the user, if there is a place for it that only its owner can change.
    pub fn open() -> Self {
        Self::in_folder(user_cache("unwind").filter(|folder| make_private(folder).is_ok()))
    }

    fn in_folder(folder: Option<PathBuf>) -> Self {
        let own = fs::metadata("/proc/self/exe");
        TableCache {
            own: own.map_or([0; 3], |m| {
                [m.len(), m.mtime() as u64, m.mtime_nsec() as u64]
            }),
            folder,
            has_stored: false,
        }
    }

    /// The table of a file, which `compile` makes if none is kept of it.
    pub fn table(
        &mut self,
        meta: Option<&Metadata>,
        compile: impl FnOnce() -> Result<UnwindTable, ElfError>,
    ) -> Result<UnwindTable, ElfError> {
        // A file without a name is not met again.
        let Some((path, key)) = meta.filter(|m| m.nlink() > 0).and_then(|m| self.key(m)) else {
            return compile();
        };
        if let Some(table) = read(&path, &key) {
            return Ok(table);
        }
        let begin = Instant::now();
        let table = compile()?;
        if begin.elapsed() >= WORTH_KEEPING {
            self.has_stored |= write(&path, &key, &table).is_ok();
        }
        Ok(table)
    }

    /// Where the table of a file is kept, and how the kept file begins.
    fn key(&self, meta: &Metadata) -> Option<(PathBuf, Vec<u8>)> {
        let [size, changed, changed_ns] = self.own;
        let words: [u64; KEY_WORDS] = [
            size,
            changed,
            changed_ns,
            meta.dev(),
            meta.ino(),
            meta.len(),
            meta.mtime() as u64,
            meta.mtime_nsec() as u64,
            meta.ctime() as u64,
            meta.ctime_nsec() as u64,
        ];
        let path = self.folder.as_ref()?;
        let path = path.join(format!("{:x}-{:x}", meta.dev(), meta.ino()));
        let mut key = MAGIC.to_vec();
        key.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        Some((path, key))
    }

    /// Removes what was not used for longest, as far as there is too much.
    fn prune(folder: &Path, most: u64) {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
            .filter_map(|e| {
                let meta = e.metadata().ok()?;
                Some((meta.modified().ok()?, meta.len(), e.path()))
            })
            .collect();
        files.sort();
        let mut bytes: u64 = files.iter().map(|f| f.1).sum();
        for (_, size, path) in files {
            if bytes <= most {
                return;
            }
            if fs::remove_file(path).is_ok() {
                bytes -= size;
            }
        }
    }
}

impl Drop for TableCache {
    fn drop(&mut self) {
        if let Some(folder) = self.folder.as_ref().filter(|_| self.has_stored) {
            Self::prune(folder, MOST_BYTES);
        }
    }
}

fn read(path: &Path, key: &[u8]) -> Option<UnwindTable> {
    let bytes = read_whole(path, MOST_BYTES).ok()?;
    let (all, sum) = bytes.split_last_chunk::<TAIL>()?;
    if !all.starts_with(key) || crc32fast::hash(all) != u32::from_le_bytes(*sum) {
        return None;
    }
    let table = UnwindTable::from_bytes(&all[HEAD..])?;
    touch(path);
    Some(table)
}

/// Tells that a file was used.
fn touch(path: &Path) {
    let now = SystemTime::now();
    let changed = fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let age = changed.and_then(|at| now.duration_since(at).ok());
    if age.is_some_and(|age| age > USED_EVERY) {
        let times = FileTimes::new().set_modified(now);
        let _ = File::open(path).and_then(|file| file.set_times(times));
    }
}

fn write(path: &Path, key: &[u8], table: &UnwindTable) -> io::Result<()> {
    let mut bytes = key.to_vec();
    bytes.extend(table.to_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    // Other recorders write here too.
    let unfinished = path.with_extension(format!("{}.new", std::process::id()));
    write_whole(&unfinished, path, &bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_elf::{ElfFile, unwind};
    use std::cell::Cell;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn folder(name: &str) -> Folder {
        let name = format!("dwell-tables-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        make_private(&folder).expect("made");
        Folder(folder)
    }

    /// Asks for the table of a file; true if it had to be compiled.
    fn compiles(cache: &mut TableCache, file: &Path) -> bool {
        let compiled = Cell::new(false);
        let bytes = fs::read("/proc/self/exe").expect("our own program");
        let expected = unwind::compile(&ElfFile::parse(&bytes).expect("ELF")).expect("a table");
        let meta = fs::metadata(file).expect("it is there");
        let table = cache.table(Some(&meta), || {
            compiled.set(true);
            std::thread::sleep(WORTH_KEEPING);
            Ok(expected.clone())
        });
        assert_eq!(table.expect("a table"), expected);
        compiled.get()
    }

    #[test]
    fn a_table_is_kept_for_its_file_alone() {
        let folder = folder("kept");
        let kept = folder.0.join("kept");
        make_private(&kept).expect("made");
        let file = folder.0.join("file");
        fs::write(&file, "one").expect("write");
        let open = || TableCache::in_folder(Some(kept.clone()));
        assert!(compiles(&mut open(), &file), "nothing was kept");
        assert!(!compiles(&mut open(), &file), "by another recorder");
        let mut other_version = open();
        other_version.own[0] += 1;
        assert!(compiles(&mut other_version, &file));
        assert!(compiles(&mut open(), &file), "the other's");
        // The same inode with as many bytes.
        fs::write(&file, "two").expect("write");
        assert!(compiles(&mut open(), &file), "another file");
        assert!(!compiles(&mut open(), &file));
        let names = fs::read_dir(&kept).expect("read").count();
        assert_eq!(names, 1, "nothing is left of writing");
    }

    #[test]
    fn what_was_damaged_is_compiled_again() {
        let folder = folder("damaged");
        let file = Path::new("/proc/self/exe");
        let mut cache = TableCache::in_folder(Some(folder.0.clone()));
        assert!(compiles(&mut cache, file));
        let entry = fs::read_dir(&folder.0).expect("read").next();
        let path = entry.expect("one").expect("read").path();
        let good = fs::read(&path).expect("read");
        for at in [0, 20, HEAD + 3, HEAD + 100, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 4;
            fs::write(&path, bad).expect("write");
            assert!(compiles(&mut cache, file), "byte {at}");
            assert!(!compiles(&mut cache, file), "written anew");
        }
        fs::write(&path, &good[..good.len() / 2]).expect("write");
        assert!(compiles(&mut cache, file), "half of it");
    }

    #[test]
    fn what_was_used_last_stays() {
        let folder = folder("pruned");
        for (name, age) in [("old", 3), ("older", 5), ("new", 0)] {
            let path = folder.0.join(name);
            fs::write(&path, [0; 100]).expect("write");
            let when = SystemTime::now() - USED_EVERY * age;
            let file = File::options().write(true).open(&path).expect("open");
            let times = FileTimes::new().set_modified(when);
            file.set_times(times).expect("set");
        }
        TableCache::prune(&folder.0, 250);
        let left = |name| folder.0.join(name).exists();
        assert!(left("old") && left("new") && !left("older"));
        touch(&folder.0.join("old"));
        TableCache::prune(&folder.0, 100);
        assert_eq!((left("old"), left("new")), (true, false), "by its use");
    }
}
