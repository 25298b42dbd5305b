//! Which package would bring a module's debug information.
use std::fs;
use std::path::Path;

/// The Debian package with the debug information of the file at `path` (as the host sees it):
/// the name of the package that owns the file, and the suffix under which debug information is
/// published. None on other systems, and for files no package owns.
///
/// Reads the package database's file lists, some tens of milliseconds: meant for the few modules
/// a report talks about.
pub fn debug_package(path: &str) -> Option<String> {
    debug_package_in(Path::new("/var/lib/dpkg/info"), path)
}

fn debug_package_in(database: &Path, path: &str) -> Option<String> {
    // A merged /usr: the lists name whichever of the two the package was built with.
    let other = path
        .strip_prefix("/usr")
        .map_or_else(|| format!("/usr{path}"), str::to_owned);
    for entry in fs::read_dir(database).ok()?.flatten() {
        let file_name = entry.file_name();
        let Some(package) = file_name.to_str().and_then(|n| n.strip_suffix(".list")) else {
            continue;
        };
        let Ok(list) = fs::read(entry.path()) else {
            continue;
        };
        let owns = |wanted: &str| list.split(|&b| b == b'\n').any(|l| l == wanted.as_bytes());
        if owns(path) || owns(&other) {
            let name = package.split(':').next().unwrap_or(package);
            // The C library's package is older than the scheme and has a name of its own.
            return Some(if name == "libc6" {
                "libc6-dbg".into()
            } else {
                format!("{name}-dbgsym")
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owner_is_found_in_either_usr() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(
            dir.path().join("libfoo1:amd64.list"),
            "/.\n/lib/x/libfoo.so.1\n",
        )
        .unwrap();
        fs::write(
            dir.path().join("libc6:amd64.list"),
            "/.\n/usr/lib/x/libc.so.6\n",
        )
        .unwrap();
        let package = |path| debug_package_in(dir.path(), path);
        assert_eq!(
            package("/lib/x/libfoo.so.1").as_deref(),
            Some("libfoo1-dbgsym")
        );
        assert_eq!(
            package("/usr/lib/x/libfoo.so.1").as_deref(),
            Some("libfoo1-dbgsym")
        );
        assert_eq!(package("/lib/x/libc.so.6").as_deref(), Some("libc6-dbg"));
        assert_eq!(package("/lib/x/libfoo.so"), None);
        assert_eq!(package("/x/libfoo.so.1"), None);
    }
}
