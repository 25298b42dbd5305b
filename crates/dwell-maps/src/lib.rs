//! What a process has mapped where, as the kernel's `/proc/PID/maps` tells it, and what lies there.
#![forbid(unsafe_code)]
mod memory;

pub use memory::{Kept, Memory};
use std::fs;
use std::io;
use std::ops::Range;

/// A line of `/proc/PID/maps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First actual address.
    pub start: u64,
    /// First actual address past the end.
    pub end: u64,
    /// Whether the process can read there.
    pub readable: bool,
    /// Whether code can run there.
    pub executable: bool,
    /// Whether the process can write there.
    pub writable: bool,
    /// Offset in the file, bytes.
    pub file_offset: u64,
    /// Device of the file's file system, as in `st_dev`; 0 when there is no file. On some file systems (btrfs, overlays)
    /// it is not that of stat(2).
    pub device: u64,
    /// Inode of the file, 0 when there is none.
    pub inode: u64,
    /// Path as the process sees it, with ` (deleted)` behind it if it was; a name in brackets, or nothing, for memory
    /// without a file.
    pub path: String,
}

impl Mapping {
    /// Reads a line. None for what is not one.
    pub fn parse(line: &str) -> Option<Mapping> {
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let permissions = fields.next()?.as_bytes();
        let file_offset = hex(fields.next()?)?;
        let device = device(fields.next()?)?;
        let inode = fields.next()?.parse().ok()?;
        let (start, end) = (hex(start)?, hex(end)?);
        (start < end).then(|| Mapping {
            start,
            end,
            readable: permissions.first() == Some(&b'r'),
            executable: permissions.get(2) == Some(&b'x'),
            writable: permissions.get(1) == Some(&b'w'),
            file_offset,
            device,
            inode,
            path: fields.next().unwrap_or_default().trim_start().to_owned(),
        })
    }

    /// Whether an actual address lies in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// The actual address of a byte of the file; none if it is not mapped here.
    pub fn address_of(&self, file_offset: u64) -> Option<u64> {
        let within = file_offset.checked_sub(self.file_offset)?;
        (within < self.end - self.start).then(|| self.start + within)
    }

    /// The path without the remark that it was deleted.
    pub fn file(&self) -> &str {
        without_remark(&self.path)
    }

    /// The last part of [`Mapping::file`].
    pub fn file_name(&self) -> &str {
        self.file().rsplit('/').next().unwrap_or_default()
    }

    /// A path by which we may read the file: [`Mapping::link`], or for an ordinary user its name as the process sees
    /// it, if the same file has it still.
    pub fn reach(&self, pid: u32) -> String {
        use std::os::unix::fs::MetadataExt;
        let link = self.link(pid);
        if fs::File::open(&link).is_ok() {
            return link;
        }
        let named = format!("{}/root{}", folder(pid), self.file());
        let is_it = fs::metadata(&named).is_ok_and(|file| file.ino() == self.inode);
        if is_it { named } else { link }
    }

    /// See [`link`].
    pub fn link(&self, pid: u32) -> String {
        link(pid, self.start..self.end)
    }
}

/// A path as the kernel tells it of a process' files, without the remark that the file was deleted.
pub fn without_remark(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}

/// Those of a process' mappings that are of the file which we reach by a path, see [`Mapping::reach`].
pub fn of_file<'m>(all: &'m [Mapping], pid: u32, path: &str) -> Vec<&'m Mapping> {
    let named = all.iter().find(|m| m.reach(pid) == path);
    let file = named.map(|m| (m.device, m.inode));
    let is_of_it = |m: &&Mapping| file == Some((m.device, m.inode));
    all.iter().filter(is_of_it).collect()
}

/// A file that a process runs code of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Where code of it is mapped first.
    pub mapping: Mapping,
    /// Whether it is the program itself.
    pub is_program: bool,
}

/// The files that a process runs code of, the program first, then as they lie in memory.
pub fn modules(pid: u32) -> io::Result<Vec<Module>> {
    let program = fs::read_link(format!("{}/exe", folder(pid)))?;
    let mut modules: Vec<Module> = Vec::new();
    for mapping in read(pid)? {
        let is_it =
            |m: &Module| (m.mapping.device, m.mapping.inode) == (mapping.device, mapping.inode);
        if mapping.executable && mapping.inode != 0 && !modules.iter().any(is_it) {
            let is_program = program.as_os_str() == mapping.path.as_str();
            modules.push(Module {
                mapping,
                is_program,
            });
        }
    }
    modules.sort_by_key(|module| !module.is_program);
    Ok(modules)
}

/// The folder in which the kernel shows a process' memory, program and root, see [`living`].
pub fn folder(pid: u32) -> String {
    format!("/proc/{}", living(pid))
}

/// The thread by which the kernel is asked for a process' memory, program and root: a thread that has ended has none of
/// them, so that it is another one where the first, which has the number of the process, has ended.
pub fn living(pid: u32) -> u32 {
    let has_program = |tid: &u32| fs::read_link(format!("/proc/{tid}/exe")).is_ok();
    if has_program(&pid) {
        return pid;
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten();
    let mut threads = threads.filter_map(|t| t.ok()?.file_name().to_str()?.parse().ok());
    threads.find(has_program).unwrap_or(pid)
}

/// What scripts call a file by: its name, its name up to `.so` with and without that, the program `a.out`.
pub fn module_names(file_name: &str, is_program: bool) -> impl Iterator<Item = &str> {
    let stem = file_name.find(".so");
    let names = [
        Some(file_name),
        stem.map(|at| &file_name[..at]),
        stem.map(|at| &file_name[..at + 3]),
        is_program.then_some("a.out"),
    ];
    names.into_iter().flatten()
}

/// A path that leads to the file a process has mapped at exactly these addresses, also when it was deleted or lies in
/// another mount namespace. To open it takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
pub fn link(pid: u32, mapped: Range<u64>) -> String {
    // Not with the zeros that low addresses have in front in `maps`.
    let (folder, Range { start, end }) = (folder(pid), mapped);
    format!("{folder}/map_files/{start:x}-{end:x}")
}

/// Everything a process has mapped now, by address. Empty for a kernel thread, and for a process that has ended.
pub fn read(pid: u32) -> io::Result<Vec<Mapping>> {
    let text = fs::read(format!("{}/maps", folder(pid)))?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.lines().filter_map(Mapping::parse).collect())
}

/// A device number written as `MAJOR:MINOR`, in hex.
fn device(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(':')?;
    let hex = |text| u32::from_str_radix(text, 16).ok();
    Some(libc::makedev(hex(major)?, hex(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn lines() {
        let line = "00007f00-00008000 r-xp 00001000 fe:00 1234                       /usr/lib/a b.so (deleted)";
        let found = Mapping::parse(line).expect("a line");
        assert_eq!((found.start, found.end), (0x7f00, 0x8000));
        assert!(found.readable && found.executable && !found.writable);
        assert_eq!((found.file_offset, found.inode), (0x1000, 1234));
        assert_eq!(found.device, libc::makedev(0xfe, 0));
        assert_eq!(
            (found.file(), found.file_name()),
            ("/usr/lib/a b.so", "a b.so")
        );
        assert_eq!(found.link(7), "/proc/7/map_files/7f00-8000");
        let nameless = Mapping::parse("7f00-8000 rw-p 0 00:00 0").expect("a line");
        assert_eq!((nameless.path.as_str(), nameless.executable), ("", false));
        for hostile in [
            "",
            "-",
            "a-b",
            "ffff-1 r-xp 0 0:0 0 x",
            "zz-1 r-xp",
            "1-2 x",
            "1-2 r-xp 0 fe 0 x",
        ] {
            assert_eq!(Mapping::parse(hostile), None, "{hostile}");
        }
    }

    #[test]
    fn our_own_program() {
        let all = read(std::process::id()).expect("we live");
        let here = our_own_program as fn() as usize as u64;
        let code = all.iter().find(|m| m.contains(here)).expect("our code");
        let exe = fs::metadata("/proc/self/exe").expect("our program");
        assert_eq!((code.executable, code.inode), (true, exe.ino()));
        assert!(all.is_sorted_by_key(|m| m.start));
    }
}
