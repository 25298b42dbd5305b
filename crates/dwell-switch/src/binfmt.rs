//! Entries of binfmt_misc: where a file that begins with certain bytes is to be started, the kernel starts another one,
//! in all mount namespaces, with the first one open.
//!
//! The file system is opened without being mounted anywhere, so it does not matter whether and where others have mounted
//! it. Kernels from 6.7 on forget all entries with the last mount: where nobody else has one, they end with us.
use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How many bytes of a file are compared: as many as kernels have at hand, newer ones and those before 5.2.
const LENGTHS: [usize; 2] = [256, 128];
/// The program's name stays the first argument, and the program comes open; rights are its own file's; the boosted file
/// is opened now, and so reached from everywhere.
const FLAGS: &str = "POCF";

/// An entry that leads from a program to a file.
pub(crate) struct Entry<'a> {
    pub name: String,
    /// The program.
    pub path: &'a Path,
    /// The boosted file.
    pub file: &'a Path,
}

impl Entry<'_> {
    /// From the next start on.
    pub(crate) fn set(&self) -> io::Result<()> {
        let mut first = Vec::new();
        let file = File::open(self.path)?;
        file.take(LENGTHS[0] as u64).read_to_end(&mut first)?;
        let mut last = Ok(());
        for length in LENGTHS {
            let bytes = &first[..first.len().min(length)];
            last = write(c"register", &self.line(bytes)?);
            if !matches!(&last, Err(error) if error.raw_os_error() == Some(libc::EINVAL)) {
                break;
            }
        }
        last
    }

    /// As the kernel reads it: its first byte is what divides it.
    fn line(&self, first: &[u8]) -> io::Result<Vec<u8>> {
        let (name, file) = (self.name.as_bytes(), self.file.as_os_str().as_bytes());
        let free = |c: &&u8| !name.contains(c) && !file.contains(c);
        let divider = b":|,;!%".iter().find(free);
        let divider = *divider.ok_or_else(|| io::Error::other("its name has all dividers"))?;
        let first: String = first.iter().map(|b| format!("\\x{b:02x}")).collect();
        let words = [&b""[..], name, b"M", b"0", first.as_bytes(), b"", file];
        let mut line = words.join(&divider);
        line.push(divider);
        line.extend(FLAGS.as_bytes());
        Ok(line)
    }

    pub(crate) fn unset(&self) -> io::Result<()> {
        match write(&CString::new(self.name.as_bytes())?, b"-1") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // Nothing is registered with a kernel that does not know of it.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            unset => unset,
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        let name = CString::new(self.name.as_bytes());
        let entry = name.is_ok_and(|name| is_enabled(&name).is_ok_and(|on| on));
        entry && is_enabled(c"status").is_ok_and(|on| on)
    }
}

/// Why there can be no entries here.
pub(crate) fn obstacle() -> Option<String> {
    let sealed = fs::read_to_string("/proc/sys/vm/memfd_noexec");
    match is_enabled(c"status") {
        Ok(true) if sealed.is_ok_and(|s| s.trim() == "2") => {
            Some("copies in memory cannot be run here (vm.memfd_noexec = 2), as the stock program has to be at times".into())
        }
        Ok(true) => None,
        Ok(false) => Some("binfmt_misc is switched off (/proc/sys/fs/binfmt_misc/status)".into()),
        Err(why) => Some(format!("binfmt_misc cannot be used here: {why}")),
    }
}

/// Another program that begins with the same bytes. It would run, but by a copy in memory each time.
pub(crate) fn same_beginning(path: &Path, folders: &[&str]) -> Option<PathBuf> {
    let beginning = |path: &Path| {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|f| f.take(LENGTHS[0] as u64).read_to_end(&mut bytes));
        read.is_ok().then_some(bytes)
    };
    let number = |path: &Path| {
        let state = fs::metadata(path).ok().filter(|m| m.is_file());
        state.map(|m| (m.dev(), m.ino()))
    };
    let (own, ours) = (beginning(path)?, number(path)?);
    let entries = folders.iter().filter_map(|f| fs::read_dir(f).ok());
    let files = entries.flatten().flatten().map(|e| e.path());
    let mut others = files.filter(|f| number(f).is_some_and(|n| n != ours));
    others.find(|f| beginning(f).is_some_and(|b| b == own))
}

/// Whether a file of it begins so.
fn is_enabled(name: &CStr) -> io::Result<bool> {
    let mut text = String::new();
    open(name, libc::O_RDONLY)?.read_to_string(&mut text)?;
    Ok(text.starts_with("enabled"))
}

fn write(name: &CStr, bytes: &[u8]) -> io::Result<()> {
    // One call: the kernel takes each as a whole.
    open(name, libc::O_WRONLY)?.write(bytes).map(drop)
}

/// A mount of it that nobody sees. It is kept: it may be the last.
static MOUNT: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Opens one of its files.
fn open(name: &CStr, flags: i32) -> io::Result<File> {
    let mut mount = MOUNT.lock().unwrap_or_else(PoisonError::into_inner);
    if mount.is_none() {
        *mount = Some(new_mount()?);
    }
    let folder = mount.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: the name ends with a zero.
    descriptor(unsafe { libc::openat(folder, name.as_ptr(), flags | libc::O_CLOEXEC) }.into())
        .map(File::from)
}

fn new_mount() -> io::Result<OwnedFd> {
    const CLOEXEC: i32 = 1;
    const CREATE: i32 = 6;
    let null = std::ptr::null::<u8>();
    // SAFETY: the name ends with a zero; what is not given is null or 0, as these calls want it.
    unsafe {
        let opened = libc::syscall(libc::SYS_fsopen, c"binfmt_misc".as_ptr(), CLOEXEC);
        let opened = descriptor(opened)?;
        let fd = opened.as_raw_fd();
        if libc::syscall(libc::SYS_fsconfig, fd, CREATE, null, null, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        descriptor(libc::syscall(libc::SYS_fsmount, fd, CLOEXEC, 0))
    }
}

/// What a call has opened.
fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, file: &str) -> io::Result<String> {
        let entry = Entry {
            name: name.into(),
            path: Path::new("/x"),
            file: Path::new(file),
        };
        let line = entry.line(b"\x7fE:\0")?;
        Ok(String::from_utf8(line).expect("text"))
    }

    #[test]
    fn nothing_in_a_line_is_its_divider() {
        let plain = line("a", "/b").expect("a line");
        assert_eq!(plain, r":a:M:0:\x7f\x45\x3a\x00::/b:POCF");
        let colon = line("a|", "/b:").expect("a line");
        assert_eq!(colon, r",a|,M,0,\x7f\x45\x3a\x00,,/b:,POCF");
        assert!(line(":|,", "/;!%").is_err());
    }

    #[test]
    fn programs_that_begin_alike_are_found() {
        let folder = std::env::temp_dir().join(format!("dwell-binfmt-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        let write = |name: &str, text: &[u8]| {
            fs::write(folder.join(name), text).expect("written");
            folder.join(name)
        };
        let path = write("prog", &[1; 300]);
        write("other", &[vec![1; 200], vec![2; 100]].concat());
        fs::hard_link(&path, folder.join("link")).expect("linked");
        let found = || same_beginning(&path, &[folder.to_str().expect("UTF-8"), "/none"]);
        assert_eq!(found(), None);
        let alike = write("alike", &[vec![1; 300], vec![3; 10]].concat());
        assert_eq!(found(), Some(alike));
        fs::remove_dir_all(&folder).expect("removed");
    }
}
