//! The processes of a cgroup and of those below it.
use crate::error::CollectError;
use std::fs;
use std::path::Path;

/// Process ids, root namespace. An error when the folder is no cgroup (v2).
pub fn processes(path: &Path) -> Result<Vec<u32>, CollectError> {
    let file = path.join("cgroup.procs");
    let remedy =
        "give the folder of a cgroup v2, such as /sys/fs/cgroup/system.slice/nginx.service";
    let text = fs::read_to_string(&file)
        .map_err(|e| CollectError::from_io(format!("reading {}", file.display()), e, remedy))?;
    let mut pids: Vec<u32> = text
        .lines()
        .filter_map(|l| l.parse().ok())
        .filter(|&pid| pid != 0)
        .collect();
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            pids.extend(processes(&entry.path()).unwrap_or_default());
        }
    }
    Ok(pids)
}
