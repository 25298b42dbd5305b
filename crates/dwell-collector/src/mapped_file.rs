//! Opens the file of a mapping, and no other: a path may lead elsewhere by now.
use crate::machine;
use crate::perf::MapEvent;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

/// Opens the file of a mapping: by the mapping itself (deleted files too), else by its path if that
/// still is the same, unchanged file. A fresh file may have got the number of a deleted one, so what
/// was changed after it was mapped is refused; better no name than another program's.
pub fn open_mapped(event: &MapEvent) -> Option<File> {
    let MapEvent {
        pid,
        start,
        end,
        path,
        ..
    } = event;
    // Something else may be mapped there by now.
    let by_mapping = open(&dwell_maps::link(*pid, *start..*end));
    if let Some(file) = by_mapping.filter(|f| f.metadata().is_ok_and(|m| m.ino() == event.inode)) {
        return Some(file);
    }
    let same = |file: &File| is_mapped_file(file, event);
    let by_root = open(&format!("{}/root{path}", dwell_maps::folder(*pid))).filter(same);
    by_root.or_else(|| open(path).filter(same))
}

/// Opens a regular file, never waiting for the other end of a pipe.
fn open(path: &str) -> Option<File> {
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path).ok()?;
    file.metadata().is_ok_and(|m| m.is_file()).then_some(file)
}

fn is_mapped_file(file: &File, event: &MapEvent) -> bool {
    let Ok(meta) = file.metadata() else {
        return false;
    };
    let anchor = machine::clock_anchor();
    let age_ns = anchor.boottime_ns.saturating_sub(event.time);
    let mapped_ns = i128::from(anchor.realtime_ns) - i128::from(age_ns);
    let changed_ns = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
    changed_ns <= mapped_ns
        && ((meta.dev(), meta.ino()) == (event.device, event.inode)
            || mapped_identity(file).is_ok_and(|id| id == (event.device, event.inode)))
}

/// Device and inode as the kernel reports them of mappings. On some file systems (btrfs, overlays)
/// they are not those of stat(2).
fn mapped_identity(file: &File) -> io::Result<(u64, u64)> {
    const PAGE: usize = 4096;
    // SAFETY: a fresh private mapping at an address the kernel chooses; it is never read.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            PAGE,
            libc::PROT_READ,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let mapped = dwell_maps::read(std::process::id());
    // SAFETY: exactly what was mapped above, and nothing refers to it.
    unsafe { libc::munmap(base, PAGE) };
    let ours = mapped?.into_iter().find(|m| m.start == base as u64);
    ours.map(|m| (m.device, m.inode))
        .ok_or_else(|| io::ErrorKind::NotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A process that is gone had mapped this.
    fn gone(path: &std::path::Path) -> MapEvent {
        let meta = fs::metadata(path).expect("it is there");
        MapEvent {
            time: machine::boottime_ns(),
            pid: u32::MAX,
            start: 0x1000,
            end: 0x2000,
            file_offset: 0,
            device: meta.dev(),
            inode: meta.ino(),
            path: path.to_string_lossy().into_owned(),
        }
    }

    fn scratch(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("dwell-{name}-{}", std::process::id()));
        fs::write(&path, "a program").expect("write");
        path
    }

    #[test]
    fn the_same_file_is_opened_by_its_path() {
        let path = scratch("same");
        std::thread::sleep(std::time::Duration::from_millis(20)); // coarse file times
        let event = gone(&path);
        assert!(open_mapped(&event).is_some());
        let other_device = MapEvent {
            device: event.device + 1,
            ..event.clone()
        };
        assert!(open_mapped(&other_device).is_none());
        let other_inode = MapEvent {
            inode: event.inode + 1,
            ..event
        };
        assert!(open_mapped(&other_inode).is_none());
        fs::remove_file(path).expect("remove");
    }

    #[test]
    fn a_file_changed_since_is_refused() {
        let path = scratch("changed");
        std::thread::sleep(std::time::Duration::from_millis(20));
        let event = gone(&path);
        std::thread::sleep(std::time::Duration::from_millis(20));
        fs::write(&path, "another program").expect("write");
        assert!(open_mapped(&event).is_none());
        fs::remove_file(path).expect("remove");
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let path = std::env::temp_dir().join(format!("dwell-pipe-{}", std::process::id()));
        let status = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(status.expect("mkfifo").success());
        assert!(open_mapped(&gone(&path)).is_none());
        fs::remove_file(path).expect("remove");
    }

    #[test]
    fn identity_of_our_own_program() {
        let exe = File::open("/proc/self/exe").expect("open");
        let first = dwell_maps::read(std::process::id())
            .expect("maps")
            .remove(0);
        let found = mapped_identity(&exe).expect("mapped");
        assert_eq!(
            found,
            (first.device, first.inode),
            "our program comes first"
        );
    }
}
