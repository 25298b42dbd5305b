//! One daemon at a time.
use crate::journal::Dirs;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
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
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                file.read_to_string(&mut text)?;
                let pid = text.trim().parse().ok();
                return Ok(Err(Taken { pid, lock: path }));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Ok(Instance { _lock: file }))
    }
}
