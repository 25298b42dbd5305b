//! Where the programs that are run are found.
use std::path::{Path, PathBuf};

/// Folders that distributions use and that are not in every `PATH`.
const FURTHER_FOLDERS: [&str; 3] = ["/usr/games", "/usr/sbin", "/usr/local/sbin"];

/// The first of the names that is installed.
pub fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(FURTHER_FOLDERS.iter().map(PathBuf::from))
        .collect();
    names
        .iter()
        .find_map(|name| folders.iter().map(|f| f.join(name)).find(|p| p.is_file()))
}

/// A server program of PostgreSQL, which Debian keeps in a folder per version; the newest.
pub fn find_postgres(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten();
    let version = |p: &Path| {
        p.file_name()
            .and_then(|n| n.to_str())
            .and_then(|n| n.parse::<u32>().ok())
    };
    let newest = versions
        .map(|e| e.path())
        .filter(|p| version(p).is_some())
        .max_by_key(|p| version(p));
    newest
        .map(|p| p.join("bin").join(name))
        .filter(|p| p.is_file())
        .or_else(|| find(&[name]))
}

/// The folder of the test programs: the one named, or `programs` beside the executable's folder (in a
/// checkout `target/programs` beside `target/release/dwell`).
pub fn test_programs(named: Option<&Path>) -> PathBuf {
    if let Some(folder) = named {
        return folder.to_owned();
    }
    let beside = std::env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.parent()?.join("programs")));
    beside.unwrap_or_else(|| PathBuf::from("target/programs"))
}
