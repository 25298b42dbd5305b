//! One daemon at a time.
use crate::journal::Dirs;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// The right to switch programs; given up when it is dropped, or when its owner dies.
#[derive(Debug)]
pub struct Instance {
    _lock: File,
}

/// Somebody else has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Process number of the owner, as it wrote it.
    pub pid: Option<u32>,
    /// The file that is locked.
    pub lock: PathBuf,
}

impl Instance {
    /// Takes it, or tells who has it.
    pub fn take(dirs: &Dirs) -> io::Result<Result<Self, Taken>> {
        fs::create_dir_all(&dirs.run)?;
        let path = dirs.run.join("lock");
        let mut options = File::options();
        let mut file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        // SAFETY: flock takes numbers; the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            let mut text = String::new();
            file.read_to_string(&mut text)?;
            let pid = text.trim().parse().ok();
            return Ok(Err(Taken { pid, lock: path }));
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Ok(Instance { _lock: file }))
    }
}
