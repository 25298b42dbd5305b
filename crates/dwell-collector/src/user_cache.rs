//! Where a user keeps what can be made again.
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The user's folder for what can be made again, by the XDG base directory specification: `dwell/NAME` in it.
pub fn user_cache(name: &str) -> Option<PathBuf> {
    let set = |name: &str| {
        let value = std::env::var_os(name).filter(|v| !v.is_empty());
        value.map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("dwell").join(name))
}

/// Makes a folder that only its owner can change, if it is not there; an error for one that others can change.
pub fn make_private(folder: &Path) -> io::Result<()> {
    let mut maker = DirBuilder::new();
    maker.recursive(true).mode(0o700).create(folder)?;
    let state = fs::symlink_metadata(folder)?;
    // SAFETY: geteuid has no arguments and cannot fail.
    let us = unsafe { libc::geteuid() };
    if state.is_dir() && state.uid() == us && state.mode() & 0o022 == 0 {
        return Ok(());
    }
    Err(io::Error::other("it can be changed by others"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_can_change_is_not_private() {
        let name = format!("dwell-cache-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        make_private(&folder).expect("new");
        make_private(&folder).expect("there already");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("chmod");
        assert!(make_private(&folder).is_err());
        fs::remove_dir(&folder).expect("remove");
    }
}
