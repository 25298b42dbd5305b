//! A process and the files it has mapped, with the places they were loaded at.
use std::cell::OnceCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use dwell_elf::ElfFile;
use dwell_symbols::{Options, Symbolizer};

use crate::files::Files;

/// A process, as it is when it is read.
#[derive(Debug)]
pub struct Process {
    pub(crate) pid: u32,
    /// Its files, the program first, then as they lie in memory.
    pub(crate) modules: Vec<Module>,
}

/// A file that a process has mapped.
#[derive(Debug)]
pub(crate) struct Module {
    /// The last part of its path.
    pub(crate) name: String,
    /// Its path as the process sees it.
    path: String,
    pub(crate) is_program: bool,
    pid: u32,
    /// A path that leads to the file as the process has it.
    reached_by: PathBuf,
    /// Where it is mapped executable: the address, and the offset in the file.
    mapped: (u64, u64),
    files: OnceCell<Option<Files>>,
}

impl Process {
    /// Reads what a process has mapped. Files are read when something in them is asked for.
    pub fn read(pid: u32) -> io::Result<Process> {
        let module = |dwell_maps::Module {
                          mapping,
                          is_program,
                      }| Module {
            name: mapping.file_name().to_owned(),
            is_program,
            pid,
            reached_by: mapping.reach(pid).into(),
            mapped: (mapping.start, mapping.file_offset),
            files: OnceCell::new(),
            path: mapping.path,
        };
        let modules = dwell_maps::modules(pid)?.into_iter().map(module).collect();
        Ok(Process { pid, modules })
    }

    /// Eight bytes of its memory, which are there afterwards: a program that probes it cannot wait for a page.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.touch(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Makes the pages of a variable present.
    pub(crate) fn make_present(&self, address: u64, size: u64) {
        const PAGE: u64 = 4096;
        const MOST: u64 = 64 << 20;
        let end = address.saturating_add(size.clamp(1, MOST));
        let mut at = address;
        while at < end {
            if self.touch(at, &mut [0]).is_none() {
                return;
            }
            at = (at / PAGE + 1).saturating_mul(PAGE);
        }
    }

    fn touch(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let memory = File::open(format!("{}/mem", dwell_maps::folder(self.pid))).ok()?;
        memory.read_exact_at(bytes, address).ok()
    }
}

impl Module {
    /// Its contents and its debug information; none if it cannot be read.
    pub(crate) fn files(&self) -> Option<&Files> {
        let read = || {
            let root = PathBuf::from(dwell_maps::folder(self.pid)).join("root");
            let module = dwell_symbols::Module {
                file: &self.reached_by,
                path: &self.path,
                build_id: None,
                root: Some(&root),
            };
            let data = Symbolizer::new(Options::default()).debug_data(&module)?;
            Some(Files::new(data))
        };
        self.files.get_or_init(read).as_ref()
    }

    /// Actual minus stated addresses.
    pub(crate) fn bias(&self) -> Option<u64> {
        let elf = ElfFile::parse(self.files()?.data.file()).ok()?;
        elf.mapping_bias(self.mapped.0, self.mapped.1)
    }

    /// Whether a script means it by a name.
    pub(crate) fn is_meant(&self, name: &str) -> bool {
        dwell_maps::module_names(&self.name, self.is_program).any(|own| own == name)
    }
}
