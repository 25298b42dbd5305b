//! Files that appear complete or not at all.
use anyhow::Context;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A complete executable file that has no name of its own yet; removed when it is given up.
///
/// Whoever is killed leaves at most that file, which the next one removes.
#[derive(Debug)]
pub struct Pending {
    temporary: PathBuf,
    committed: bool,
}

/// End of the names of files in the making.
const SUFFIX: &str = ".dwell-new";

/// Bytes to be written at once. File systems that can keep a file in larger pieces of memory than pages keep it in what is
/// written at once, and a page fault maps a piece as a whole where it lies within one range and one page table: of
/// larger ones fewer do.
pub const PIECE: usize = 256 << 10;
/// The same where huge pages of memory can hold the file's: each is mapped by one entry.
pub const HUGE_PIECE: usize = 2 << 20;

impl Pending {
    /// Writes the bytes beside `to`, as many at once as `piece` says.
    pub fn write(to: &Path, bytes: &[u8], piece: usize) -> anyhow::Result<Self> {
        let name = to
            .file_name()
            .context("a file is to be named, not a folder")?;
        let folder = folder(to);
        let start = format!(".{}.", name.to_string_lossy());
        remove_left_over(folder, &start);
        let pending = Pending {
            temporary: folder.join(format!("{start}{}{SUFFIX}", std::process::id())),
            committed: false,
        };
        let written = write_new(&pending.temporary, bytes, piece);
        written.with_context(|| format!("writing {}", pending.temporary.display()))?;
        Ok(pending)
    }

    /// Where it is meanwhile.
    pub fn path(&self) -> &Path {
        &self.temporary
    }

    /// Gives it its name, in place of what had it, once all of it is on the disk. `to` is on the same file system.
    pub fn commit(mut self, to: &Path) -> io::Result<()> {
        File::open(&self.temporary)?.sync_all()?;
        fs::rename(&self.temporary, to)?;
        self.committed = true;
        File::open(folder(to))?.sync_all()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.committed {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

fn write_new(path: &Path, bytes: &[u8], piece: usize) -> io::Result<()> {
    let _ = fs::remove_file(path);
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o755)
        .open(path)?;
    bytes
        .chunks(piece)
        .try_for_each(|piece| file.write_all(piece))
}

/// Removes files that dead processes left.
fn remove_left_over(folder: &Path, start: &str) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let middle = name
            .strip_prefix(start)
            .and_then(|n| n.strip_suffix(SUFFIX));
        let owner = middle.and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
