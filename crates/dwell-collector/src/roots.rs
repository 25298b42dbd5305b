//! Other roots than ours: processes in containers. Debug files and JIT maps are looked for there,
//! also when the last process is gone.
use hashbrown::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

/// Most roots that are kept, of two descriptors each. While they are, their mounts stay too.
const MOST_ROOTS: usize = 256;

/// A root directory, kept.
#[derive(Debug)]
pub struct Root {
    directory: File,
    /// What is mounted below the root stays mounted only as long as its namespace exists.
    _namespace: File,
}

impl Root {
    /// A path by which this process finds the directory, as long as the value lives.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd()))
    }
}

/// Mount namespace, and device and inode of the root directory in it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    namespace: u64,
    device: u64,
    inode: u64,
}

impl Key {
    fn new(namespace: &Metadata, directory: &Metadata) -> Self {
        Key {
            namespace: namespace.ino(),
            device: directory.dev(),
            inode: directory.ino(),
        }
    }

    /// Of the process that has this folder under `/proc`.
    fn of(folder: &str) -> Option<Self> {
        let namespace = std::fs::metadata(format!("{folder}/ns/mnt")).ok()?;
        let directory = std::fs::metadata(format!("{folder}/root/")).ok()?;
        Some(Key::new(&namespace, &directory))
    }
}

/// All roots that are known.
pub struct Roots {
    ours: Option<Key>,
    known: HashMap<Key, Arc<Root>>,
}

impl Default for Roots {
    fn default() -> Self {
        Roots {
            ours: Key::of("/proc/self"),
            known: HashMap::new(),
        }
    }
}

impl Roots {
    /// Sets `root` to that of a process, none if it is ours. One that is gone keeps what it had.
    pub fn update(&mut self, pid: u32, root: &mut Option<Arc<Root>>) {
        let folder = dwell_maps::folder(pid);
        let Some(key) = Key::of(&folder) else {
            return;
        };
        *root = if Some(key) == self.ours {
            None
        } else {
            self.known.get(&key).cloned().or_else(|| self.open(&folder))
        };
    }

    fn open(&mut self, folder: &str) -> Option<Arc<Root>> {
        if self.known.len() >= MOST_ROOTS {
            return None;
        }
        let namespace = File::open(format!("{folder}/ns/mnt")).ok()?;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .custom_flags(libc::O_PATH | libc::O_DIRECTORY);
        let directory = options.open(format!("{folder}/root/")).ok()?;
        let key = Key::new(&namespace.metadata().ok()?, &directory.metadata().ok()?);
        let root = Arc::new(Root {
            directory,
            _namespace: namespace,
        });
        self.known.insert(key, root.clone());
        Some(root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_root_is_not_kept() {
        let mut roots = Roots::default();
        let mut root = None;
        roots.update(std::process::id(), &mut root);
        assert!(root.is_none() && roots.known.is_empty());
    }

    #[test]
    fn a_process_that_is_gone_keeps_its_root() {
        let mut roots = Roots::default();
        let kept = roots.open("/proc/self").expect("we live");
        let mut root = Some(kept.clone());
        roots.update(u32::MAX, &mut root);
        assert!(root.is_some_and(|r| r.path() == kept.path()));
        assert!(kept.path().join("proc/self").exists());
    }
}
