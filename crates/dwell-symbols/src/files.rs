//! Opening files that belong to somebody else: inside the root of the process' mount namespace,
//! never waiting on a FIFO or a device, and mapped rather than read.
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};

/// A file system tree to look for files in: the host's, or that of a process in another mount
/// namespace.
pub(crate) struct Tree {
    /// None: the host's own root.
    root: Option<OwnedFd>,
}

impl Tree {
    /// The tree this process sees.
    pub(crate) fn host() -> Self {
        Self { root: None }
    }

    /// The tree below `root` (`/proc/PID/root`, or a directory). None when it cannot be entered.
    pub(crate) fn below(root: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(root, flags, Mode::empty()).ok()?;
        Some(Self { root: Some(root) })
    }

    /// Opens a regular file for reading. Symbolic links, absolute ones too, stay inside the tree.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        let Some(root) = &self.root else {
            return open_regular(path);
        };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let fd = rustix::fs::openat2(root, path, read_flags(), Mode::empty(), resolve)?;
        only_regular(fd)
    }
}

/// Opens a regular file of the host for reading; `/proc/self/fd/N` and
/// `/proc/PID/map_files/A-B` are followed to what they stand for.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    only_regular(rustix::fs::openat(CWD, path, read_flags(), Mode::empty())?)
}

/// Without `NONBLOCK` opening a FIFO would wait for its writer for ever.
fn read_flags() -> OFlags {
    OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY
}

fn only_regular(fd: OwnedFd) -> io::Result<File> {
    let stat = rustix::fs::fstat(&fd)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(File::from(fd)),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        )),
    }
}

/// Maps `file`, read-only.
#[allow(unsafe_code)]
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the bytes are only ever read through bounds-checked parsers that hold for any
    // contents, changing ones included: nothing read once is trusted to read the same again where
    // that matters for memory safety. A file truncated while mapped raises SIGBUS: the command
    // handles it (what is gone reads as zeros).
    unsafe { Mmap::map(file) }
}

/// Gives back the memory behind `map`: what is read again comes from the page cache.
#[allow(unsafe_code)]
pub(crate) fn release(map: &Mmap) {
    // SAFETY: the mapping is private, backed by a file and never written, so a page that was
    // given back reads the same bytes again. Failure changes nothing.
    let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
}

/// The directory part of `path`, `/` when it has none.
pub(crate) fn directory(path: &Path) -> PathBuf {
    path.parent()
        .map_or_else(|| PathBuf::from("/"), Path::to_path_buf)
}
