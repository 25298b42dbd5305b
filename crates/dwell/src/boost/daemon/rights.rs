//! What a boosted file must have of the stock one beside its bytes: owner, permissions, and extended attributes (labels of
//! SELinux, access lists, users' own).
use anyhow::Context;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Attributes that stand for a file's very bytes: no other file can have them.
const OF_CONTENT: [&CStr; 2] = [c"security.ima", c"security.evm"];

/// Gives the boosted file all that.
pub fn take_rights(from: &Path, to: &Path) -> anyhow::Result<()> {
    let state = fs::metadata(from)?;
    std::os::unix::fs::chown(to, Some(state.uid()), Some(state.gid()))?;
    fs::set_permissions(to, state.permissions())?;
    let (from, to) = (c_path(from)?, c_path(to)?);
    let attributes = attributes(&from).context("reading extended attributes")?;
    for name in &attributes {
        let shown = name.to_string_lossy();
        anyhow::ensure!(
            !OF_CONTENT.contains(&name.as_c_str()),
            "it has a signature ({shown}), which another file cannot have"
        );
        let value = value(&from, name).with_context(|| format!("reading {shown}"))?;
        set(&to, name, &value).with_context(|| format!("giving {shown} to the boosted file"))?;
    }
    Ok(())
}

fn c_path(path: &Path) -> anyhow::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// Names of a file's attributes; none where the file system has none.
fn attributes(path: &CStr) -> io::Result<Vec<CString>> {
    // SAFETY: the path ends with a zero, and no more than the buffer's size is written.
    let list = filled(|to, size| unsafe { libc::listxattr(path.as_ptr(), to.cast(), size) });
    match list {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(Vec::new()),
        list => Ok(list?
            .split_inclusive(|byte| *byte == 0)
            .filter_map(|name| CString::from_vec_with_nul(name.to_vec()).ok())
            .collect()),
    }
}

fn value(path: &CStr, name: &CStr) -> io::Result<Vec<u8>> {
    // SAFETY: both strings end with a zero, and no more than the buffer's size is written.
    filled(|to, size| unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), to.cast(), size) })
}

fn set(path: &CStr, name: &CStr, value: &[u8]) -> io::Result<()> {
    let (from, size) = (value.as_ptr().cast(), value.len());
    // SAFETY: both strings end with a zero, and the value has that size.
    let result = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), from, size, 0) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a call writes to a buffer of the largest size that the kernel knows here.
fn filled(call: impl FnOnce(*mut u8, usize) -> isize) -> io::Result<Vec<u8>> {
    const LARGEST: usize = 64 << 10;
    let mut bytes = vec![0; LARGEST];
    let len = call(bytes.as_mut_ptr(), bytes.len());
    if len < 0 {
        return Err(io::Error::last_os_error());
    }
    bytes.truncate(len as usize);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn attributes_and_permissions_are_carried_over() {
        // Not in /tmp: memory may be mounted there, which keeps no attributes of users.
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = tempfile::tempdir_in(folder.join("../..")).expect("a folder");
        let (stock, boosted) = (folder.path().join("stock"), folder.path().join("boosted"));
        fs::write(&stock, "stock").expect("written");
        fs::write(&boosted, "boosted").expect("written");
        fs::set_permissions(&stock, fs::Permissions::from_mode(0o751)).expect("set");
        let (from, to) = (
            c_path(&stock).expect("a path"),
            c_path(&boosted).expect("a path"),
        );
        let label = (c"user.label", &b"system_u:object_r:bin_t:s0\0"[..]);
        if let Err(why) = set(&from, label.0, label.1) {
            return println!("this file system keeps no attributes: {why}");
        }
        // SAFETY: geteuid has no arguments.
        if unsafe { libc::geteuid() } == 0 {
            set(&from, c"security.selinux", label.1).expect("root may");
        }
        take_rights(&stock, &boosted).expect("carried over");
        for name in attributes(&from).expect("read") {
            assert_eq!(value(&to, &name).expect("there"), label.1, "{name:?}");
        }
        assert_eq!(
            attributes(&to).expect("read"),
            attributes(&from).expect("read")
        );
        let mode = fs::metadata(&boosted).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o751);
    }
}
