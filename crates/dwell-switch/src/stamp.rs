//! What tells whether a file is still the one that it was.
use serde::{Deserialize, Serialize};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A file's state. Who changes a file changes its `ctime`, whatever else is set back.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    path: PathBuf,
    /// Device, inode, size, seconds and nanoseconds of change; none when there is no such file.
    state: Option<(u64, u64, u64, i64, i64)>,
}

impl Stamp {
    /// The state now; links are followed.
    pub fn of(path: &Path) -> Self {
        let state = |m: Metadata| (m.dev(), m.ino(), m.size(), m.ctime(), m.ctime_nsec());
        Stamp {
            path: path.to_owned(),
            state: fs::metadata(path).ok().map(state),
        }
    }

    /// Whether it is still so.
    pub fn holds(&self) -> bool {
        *self == Stamp::of(&self.path)
    }

    /// The file's name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Device, inode, size, seconds and nanoseconds of change; none when there was no such file.
    pub fn state(&self) -> Option<(u64, u64, u64, i64, i64)> {
        self.state
    }

    /// When the file was changed last: seconds and nanoseconds since 1970.
    pub fn changed(&self) -> Option<(i64, i64)> {
        self.state.map(|(.., seconds, ns)| (seconds, ns))
    }
}

/// A file whatever its name is: renaming changes the `ctime`, but nothing here.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    mtime: (i64, i64),
}

impl Identity {
    /// What has the name; links are not followed.
    pub fn of(path: &Path) -> Option<Self> {
        let m = fs::symlink_metadata(path).ok()?;
        Some(Identity {
            device: m.dev(),
            inode: m.ino(),
            size: m.size(),
            mtime: (m.mtime(), m.mtime_nsec()),
        })
    }

    /// Device and inode, as `stat` tells them.
    pub fn number(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}
