//! Notices that something changed in folders (inotify).
use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Folders that are watched. What changed is not told: who asks looks at the files' states, since reports may be lost.
#[derive(Debug)]
pub struct Watch {
    fd: OwnedFd,
    folders: HashMap<PathBuf, i32>,
}

const CHANGES: u32 = libc::IN_CREATE
    | libc::IN_DELETE
    | libc::IN_MOVED_FROM
    | libc::IN_MOVED_TO
    | libc::IN_MODIFY
    | libc::IN_CLOSE_WRITE
    | libc::IN_ATTRIB
    | libc::IN_MOVE_SELF
    | libc::IN_DELETE_SELF
    | libc::IN_ONLYDIR;

impl Watch {
    /// Watches nothing yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: inotify_init1 takes flags only; the descriptor is new and nobody else's.
        let fd = unsafe {
            let fd = libc::inotify_init1(libc::IN_NONBLOCK | libc::IN_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        Ok(Watch {
            fd,
            folders: HashMap::new(),
        })
    }

    /// Watches these folders and no others. A folder that is not there is left out: the nearest one above is watched.
    /// Gives whether others are watched than before: what happened there meanwhile is to be looked at.
    pub fn set(&mut self, folders: impl IntoIterator<Item = PathBuf>) -> io::Result<bool> {
        let wanted: BTreeSet<PathBuf> = folders.into_iter().filter_map(|f| nearest(&f)).collect();
        let gone: Vec<PathBuf> = self
            .folders
            .keys()
            .filter(|f| !wanted.contains(*f))
            .cloned()
            .collect();
        let mut others = !gone.is_empty();
        for folder in gone {
            let number = self.folders.remove(&folder).unwrap_or_default();
            // SAFETY: takes numbers; one that the kernel has removed itself gives an error, which is of no interest.
            unsafe { libc::inotify_rm_watch(self.fd.as_raw_fd(), number) };
        }
        for folder in wanted {
            // Those that are watched are named again, too: another folder may have the name now.
            let name = CString::new(folder.as_os_str().as_bytes())?;
            // SAFETY: the path ends with a zero.
            let number =
                unsafe { libc::inotify_add_watch(self.fd.as_raw_fd(), name.as_ptr(), CHANGES) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            others |= self.folders.insert(folder, number) != Some(number);
        }
        Ok(others)
    }

    /// The folders in which a change of a file shows: its own, and those of all links on the way.
    pub fn folders_of(path: &Path) -> Vec<PathBuf> {
        let mut folders = Vec::new();
        let mut at = path.to_owned();
        // As many as the kernel follows.
        for _ in 0..40 {
            let Some(folder) = at.parent() else { break };
            let folder = folder.to_owned();
            folders.extend(folder.canonicalize().ok());
            let Ok(link) = std::fs::read_link(&at) else {
                break;
            };
            folders.push(folder.clone());
            at = folder.join(link);
        }
        folders
    }

    /// Reads all reports; whether there was one.
    pub fn changed(&self) -> bool {
        let mut any = false;
        let mut buffer = [0u8; 8192];
        loop {
            // SAFETY: reads at most the buffer's length into it.
            let read = unsafe {
                libc::read(
                    self.fd.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                )
            };
            if read <= 0 {
                return any;
            }
            any = true;
        }
    }

    /// The descriptor to poll.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn nearest(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|f| f.is_dir()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_replaced_link_and_its_target_show() {
        let folder = std::env::temp_dir().join(format!("dwell-watch-{}", std::process::id()));
        let (a, b) = (folder.join("a"), folder.join("b"));
        fs::create_dir_all(&a).expect("made");
        fs::create_dir_all(&b).expect("made");
        fs::write(b.join("real"), "1").expect("written");
        std::os::unix::fs::symlink("../b/real", a.join("link")).expect("linked");
        let mut watch = Watch::new().expect("inotify");
        watch
            .set(Watch::folders_of(&a.join("link")))
            .expect("watched");
        assert!(!watch.changed());
        fs::write(b.join("new"), "2").expect("written");
        assert!(watch.changed(), "the target's folder");
        fs::remove_file(a.join("link")).expect("removed");
        assert!(watch.changed(), "the link's folder");
        assert!(watch.set([folder.join("none/there")]).expect("watched"));
        assert!(!watch.set([folder.join("none/there")]).expect("watched"));
        watch.changed();
        fs::write(b.join("new"), "3").expect("written");
        assert!(!watch.changed(), "no longer watched");
        fs::create_dir(folder.join("none")).expect("made");
        assert!(watch.changed(), "the folder above");
        fs::remove_dir_all(&folder).expect("removed");
    }
}
