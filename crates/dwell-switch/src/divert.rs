//! dpkg's list of diversions. No lock of dpkg is ever taken: one that is started meanwhile would fail.
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells dpkg that the package's file at `path` has another name. Renames nothing.
pub(crate) fn set(path: &Path, other: &Path) -> io::Result<()> {
    let names = names(path, other);
    let of_package = names.iter().find(|(name, _)| has_package(name));
    let (name, other) = of_package.unwrap_or(&names[0]);
    divert("--add", name, other)
}

/// Tells it that the file has its own name again, if it was told otherwise.
pub(crate) fn unset(path: &Path, other: &Path) -> io::Result<()> {
    let list = match fs::read(admin_folder().join("diversions")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        list => list?,
    };
    // Three lines each: the file's name, the other name, the package that wants it so (`:` is a person).
    let lines: Vec<&[u8]> = list.split(|b| *b == b'\n').collect();
    for (name, other) in names(path, other) {
        let ours = [name.as_os_str().as_bytes(), other.as_os_str().as_bytes()];
        if lines
            .chunks(3)
            .any(|entry| entry.get(..2) == Some(&ours[..]))
        {
            divert("--remove", &name, &other)?;
        }
    }
    Ok(())
}

/// Both names as packages may have them: where `/bin` is a link to `/usr/bin`, many have `/bin/NAME`.
fn names(path: &Path, other: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut names = vec![(path.to_owned(), other.to_owned())];
    let short = |path: &Path| {
        path.strip_prefix("/usr")
            .ok()
            .map(|p| Path::new("/").join(p))
    };
    let folder = |path: &Path| path.parent().and_then(|f| f.canonicalize().ok());
    let shorter = short(path).zip(short(other));
    names.extend(shorter.filter(|(short, _)| folder(short) == folder(path)));
    names
}

fn divert(what: &str, path: &Path, other: &Path) -> io::Result<()> {
    let output = Command::new("dpkg-divert")
        .args(["--quiet", "--local", "--no-rename", "--divert"])
        .args([other.as_os_str(), OsStr::new(what), path.as_os_str()])
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(said.trim().replace('\n', " ")))
}

/// Whether a dpkg, or what calls it, is at work: it has the diversions in memory, perhaps those of before.
pub(crate) fn dpkg_runs() -> bool {
    let locks = ["lock-frontend", "lock"];
    locks
        .iter()
        .any(|name| is_locked(&admin_folder().join(name)))
}

/// Whether a package has this file.
pub(crate) fn has_package(path: &Path) -> bool {
    let output = Command::new("dpkg-query")
        .arg("--search")
        .arg(path)
        .output();
    let listed = output.map(|o| o.stdout).unwrap_or_default();
    let listed = String::from_utf8_lossy(&listed);
    listed
        .lines()
        .any(|line| !line.starts_with("local diversion") && !line.starts_with("diversion by"))
}

/// As dpkg's own tools find it.
fn admin_folder() -> PathBuf {
    std::env::var_os("DPKG_ADMINDIR").map_or("/var/lib/dpkg".into(), PathBuf::from)
}

fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let mut lock = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: F_GETLK reads and writes one `flock`, which outlives the call; the descriptor is open.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    asked == 0 && i32::from(lock.l_type) != libc::F_UNLCK
}
