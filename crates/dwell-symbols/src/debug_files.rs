//! Where the debug information of a module lies, if not in the module itself.
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use object::Object;

use crate::elf::Elf;
use crate::files::{self, Tree};
use crate::symbolizer::Options;

/// What a debug file must fit.
pub(crate) struct Wanted<'a> {
    /// Build id of the module.
    pub(crate) build_id: Option<&'a [u8]>,
    /// `.gnu_debuglink` of the module: a file name, and the CRC-32 of that file.
    pub(crate) link: Option<(&'a [u8], u32)>,
    /// Path of the module as its process sees it.
    pub(crate) path: &'a Path,
}

/// A debug file that fits.
pub(crate) struct Found {
    pub(crate) map: Mmap,
    /// Its path in the tree it was found in.
    pub(crate) path: PathBuf,
}

/// The trees to look in, and the directories that hold debug files in each.
pub(crate) struct Places<'a> {
    pub(crate) trees: Vec<Tree>,
    pub(crate) directories: &'a [PathBuf],
}

impl<'a> Places<'a> {
    /// The root of the process' mount namespace first, then the host's.
    pub(crate) fn new(root: Option<&Path>, directories: &'a [PathBuf]) -> Self {
        let own = root.and_then(Tree::below);
        Self {
            trees: own.into_iter().chain([Tree::host()]).collect(),
            directories,
        }
    }

    /// The debug file of a module: by build id, then by its debug link.
    pub(crate) fn find(&self, wanted: &Wanted<'_>) -> Option<Found> {
        let by_id = wanted.build_id.and_then(|id| self.find_build(id, &[]));
        by_id.or_else(|| {
            let (name, crc) = wanted.link?;
            let candidates = linked_paths(wanted.path, name, self.directories);
            self.first(&candidates, |map, elf| {
                match (wanted.build_id, elf.build_id()) {
                    (Some(wanted), Some(id)) => wanted == id,
                    _ => crc32fast::hash(map) == crc,
                }
            })
        })
    }

    /// The file that a debug file shares entries with (`.gnu_debugaltlink`, written by `dwz`).
    pub(crate) fn find_shared(&self, debug: &Path, name: &[u8], build_id: &[u8]) -> Option<Found> {
        // An absolute name replaces the directory.
        let beside = files::directory(debug).join(OsStr::from_bytes(name));
        self.find_build(build_id, &[beside])
    }

    /// A file with this build id, in the directories of debug files or at one of `others`.
    fn find_build(&self, id: &[u8], others: &[PathBuf]) -> Option<Found> {
        let hex = hex(id);
        let (first, rest) = hex
            .split_at_checked(2)
            .filter(|(_, rest)| !rest.is_empty())?;
        let name = format!(".build-id/{first}/{rest}.debug");
        let mut candidates: Vec<_> = self.directories.iter().map(|d| d.join(&name)).collect();
        candidates.extend_from_slice(others);
        self.first(&candidates, |_, elf| elf.build_id() == Some(id))
    }

    /// The first candidate in the first tree that is an ELF file with names in it and fits.
    fn first(&self, paths: &[PathBuf], fits: impl Fn(&[u8], &Elf<'_>) -> bool) -> Option<Found> {
        let mut tried = self
            .trees
            .iter()
            .flat_map(|tree| paths.iter().map(move |p| (tree, p)));
        tried.find_map(|(tree, path)| {
            let map = files::map(&tree.open(path).ok()?).ok()?;
            let elf = Elf::parse(&map)?;
            let useful = (elf.has_dwarf() || elf.has_symtab()) && fits(&map, &elf);
            useful.then(|| Found {
                path: path.clone(),
                map,
            })
        })
    }
}

/// What `read` makes of the debug file of a module of this machine, given the module's path and bytes; none when no
/// such file is installed.
pub fn debug_file<R>(path: &Path, module: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
    let elf = Elf::parse(module)?;
    let directories = Options::default().debug_directories;
    let found = Places::new(None, &directories).find(&wanted(&elf, path))?;
    Some(read(&found.map))
}

/// What `elf`, seen by its process at `path`, says about its debug file.
pub(crate) fn wanted<'a>(elf: &Elf<'a>, path: &'a Path) -> Wanted<'a> {
    let link = elf.file.gnu_debuglink().ok().flatten();
    Wanted {
        build_id: elf.build_id(),
        link,
        path,
    }
}

/// The places gdb looks in, in its order.
fn linked_paths(module: &Path, name: &[u8], directories: &[PathBuf]) -> Vec<PathBuf> {
    // A bare name by definition; a hostile one shall not lead elsewhere.
    let Some(name) = Path::new(OsStr::from_bytes(name)).file_name() else {
        return Vec::new();
    };
    let own = files::directory(module);
    let mut paths = vec![own.join(name), own.join(".debug").join(name)];
    for directory in directories {
        paths.extend(
            both_usr(&own)
                .iter()
                .map(|own| directory.join(own).join(name)),
        );
    }
    paths
}

/// `path` relative to the root, as it reads with and without a merged `/usr`.
fn both_usr(path: &Path) -> [PathBuf; 2] {
    let relative = path.strip_prefix("/").unwrap_or(path);
    match relative.strip_prefix("usr") {
        Ok(short) => [relative.to_path_buf(), short.to_path_buf()],
        Err(_) => [relative.to_path_buf(), Path::new("usr").join(relative)],
    }
}

/// Lower-case hex digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_links_are_looked_for_where_gdb_looks() {
        let paths = linked_paths(
            Path::new("/usr/bin/tool"),
            b"../../etc/tool.debug",
            &[PathBuf::from("/usr/lib/debug")],
        );
        let expected = [
            "/usr/bin/tool.debug",
            "/usr/bin/.debug/tool.debug",
            "/usr/lib/debug/usr/bin/tool.debug",
            "/usr/lib/debug/bin/tool.debug",
        ];
        assert_eq!(paths, expected.map(PathBuf::from));
    }

    #[test]
    fn hex_digits() {
        assert_eq!(hex(&[0, 0xab, 7]), "00ab07");
    }
}
