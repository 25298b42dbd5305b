//! The files that a process runs code of.
use dwell_elf::ElfFile;
use memmap2::Mmap;
use std::fs::File;
use std::io;

/// A process whose functions are probed.
#[derive(Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its files, the program first.
    pub modules: Vec<Module>,
}

/// A file that a process runs code of.
#[derive(Debug)]
pub struct Module {
    /// The last part of its path.
    pub name: Box<str>,
    /// Whether it is the program itself.
    pub is_program: bool,
    /// A path that leads to the file as the process has it.
    pub(super) reached_by: Box<str>,
    /// Where code of it is mapped, and what part of the file that is; none before it is executed.
    mapped: Option<(u64, u64)>,
    data: Mmap,
}

impl Process {
    /// Reads what a process has mapped.
    pub fn read(pid: u32) -> io::Result<Process> {
        let module = |found: dwell_maps::Module| {
            let mapping = found.mapping;
            let reached_by = mapping.reach(pid);
            Some(Module {
                name: mapping.file_name().into(),
                is_program: found.is_program,
                data: mapped(&reached_by)?,
                reached_by: reached_by.into(),
                mapped: Some((mapping.start, mapping.file_offset)),
            })
        };
        let modules = dwell_maps::modules(pid)?;
        let modules = modules.into_iter().filter_map(module).collect();
        Ok(Process { pid, modules })
    }

    /// A process that will execute a file, as far as can be told before: the file's functions, not those of its
    /// libraries.
    pub fn of_file(pid: u32, path: &str) -> io::Result<Process> {
        let data =
            mapped(path).ok_or_else(|| io::Error::other(format!("{path} cannot be read")))?;
        let name = path.rsplit('/').next().unwrap_or_default().into();
        let module = Module {
            name,
            is_program: true,
            reached_by: path.into(),
            mapped: None,
            data,
        };
        Ok(Process {
            pid,
            modules: vec![module],
        })
    }
}

impl Module {
    /// The file, if it can be read as one.
    pub fn elf(&self) -> Option<ElfFile<'_>> {
        ElfFile::parse(&self.data).ok()
    }

    /// Actual minus stated addresses.
    pub(super) fn bias(&self, elf: &ElfFile<'_>) -> Option<u64> {
        let (start, offset) = self.mapped?;
        elf.mapping_bias(start, offset)
    }

    /// Whether a description means it.
    pub(super) fn is_meant(&self, pattern: &str) -> bool {
        let mut names = dwell_maps::module_names(&self.name, self.is_program);
        names.any(|name| super::matches(pattern, name))
    }
}

/// A file's contents; none for what is no file that can be mapped.
fn mapped(path: &str) -> Option<Mmap> {
    let file = File::open(path).ok()?;
    // SAFETY: the file is one that the target runs; who rewrites such a file in place breaks the target as well.
    unsafe { Mmap::map(&file) }.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_have_a_program_and_a_libc() {
        let own = Process::read(std::process::id()).expect("we live");
        assert!(own.modules[0].is_program);
        assert!(
            own.modules
                .iter()
                .any(|m| m.is_meant("libc") && m.is_meant("libc.so*"))
        );
        assert!(own.modules[0].is_meant("a.out"));
    }
}
