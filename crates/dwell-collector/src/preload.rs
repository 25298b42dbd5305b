//! Which files a command will map first, so that their unwind tables are ready before it runs.
//!
//! This is a guess that saves time: what it misses is read when it is mapped.
use crate::modules::map_file;
use dwell_elf::LOADER_FOLDERS;
use object::LittleEndian;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn, FileHeader};
use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Most files read ahead: no program that starts quickly has more.
const MOST_FILES: usize = 64;
/// Larger files cost more time than they save: a program of 100 MB takes half a second, in which it would run without its
/// stacks being known.
const MOST_BYTES: u64 = 256 << 20;

/// The file a command name stands for, as execvp(3) finds it.
pub fn find_command(name: &OsStr) -> Option<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|p| is_executable(p));
    }
    let folders: OsString = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&folders)
        .map(|folder| folder.join(name))
        .find(|p| is_executable(p))
}

/// Whether we may execute it.
pub fn is_executable(path: &Path) -> bool {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return false;
    };
    // SAFETY: `name` is a NUL-terminated string; the call only looks.
    let allowed =
        unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::X_OK, libc::AT_EACCESS) }
            == 0;
    allowed && path.metadata().is_ok_and(|m| m.is_file())
}

/// The executable, its loader and its libraries, opened.
pub fn files_of(executable: &Path) -> Vec<(String, File)> {
    let mut wanted = vec![executable.to_owned()];
    let mut seen: HashSet<PathBuf> = HashSet::new();
    let mut files = Vec::new();
    while let Some(path) = wanted.pop() {
        let Ok(path) = fs::canonicalize(&path) else {
            continue;
        };
        if files.len() >= MOST_FILES || !seen.insert(path.clone()) {
            continue;
        }
        let Ok(file) = File::open(&path) else {
            continue;
        };
        if file
            .metadata()
            .is_ok_and(|m| m.is_file() && m.len() <= MOST_BYTES)
        {
            let bytes = map_file(&file);
            wanted.extend(bytes.and_then(|bytes| needed(&bytes)).unwrap_or_default());
            files.push((path.to_string_lossy().into_owned(), file));
        }
    }
    files
}

/// Loader and libraries an ELF file names, where they are found.
fn needed(bytes: &[u8]) -> Option<Vec<PathBuf>> {
    let endian = LittleEndian;
    let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
    let mut paths = Vec::new();
    for segment in header.program_headers(endian, bytes).ok()? {
        use object::read::elf::ProgramHeader;
        if let Ok(Some(interpreter)) = segment.interpreter(endian, bytes) {
            paths.push(PathBuf::from(OsStr::from_bytes(interpreter)));
        }
    }
    let sections = header.sections(endian, bytes).ok()?;
    let (entries, link) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, link).ok()?;
    for entry in entries.iter().filter(|d| d.d_tag(endian) == DT_NEEDED) {
        let Ok(name) = entry.string(endian, strings) else {
            continue;
        };
        let name = Path::new(OsStr::from_bytes(name));
        paths.extend(
            LOADER_FOLDERS
                .iter()
                .map(|folder| Path::new(folder).join(name))
                .find(|p| p.exists()),
        );
    }
    Some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_needs_its_loader_and_libc() {
        let shell = find_command(OsStr::new("bash")).expect("bash is everywhere");
        let names: Vec<String> = files_of(&shell).into_iter().map(|f| f.0).collect();
        assert!(names.iter().any(|n| n.contains("bash")), "{names:?}");
        assert!(names.iter().any(|n| n.contains("libc.so")), "{names:?}");
        assert!(names.iter().any(|n| n.contains("ld-linux")), "{names:?}");
    }

    #[test]
    fn what_is_no_command_is_not_found() {
        assert_eq!(find_command(OsStr::new("no-such-command-anywhere")), None);
        assert!(files_of(Path::new("/dev/null")).is_empty());
        assert_eq!(needed(b"not an ELF file"), None);
    }
}
