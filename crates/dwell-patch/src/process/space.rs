//! The memory of a process: what is mapped where, and its bytes.
use super::PatchError;
pub(super) use dwell_maps::Mapping;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The threads of a process that have not ended.
pub(super) fn threads(pid: i32) -> Result<Vec<i32>, PatchError> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(|_| PatchError::Ended(pid))?;
    let numbers = tasks.filter_map(|t| t.ok()?.file_name().to_str()?.parse().ok());
    Ok(numbers.collect())
}

/// The value of a field of `/proc/PID/task/TID/status`.
pub(super) fn status_field(pid: i32, tid: i32, name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/status")).ok()?;
    let line = text
        .lines()
        .find(|l| l.starts_with(name) && l[name.len()..].starts_with(':'))?;
    Some(line[name.len() + 1..].trim().to_owned())
}

/// Whether a thread is dead, waiting to be buried.
pub(super) fn is_zombie(pid: i32, tid: i32) -> bool {
    status_field(pid, tid, "State").is_none_or(|s| s.starts_with(['Z', 'X']))
}

/// A process' memory. It stays that of the program that ran when this was opened: after an exec it
/// reads as empty.
pub(super) struct Space {
    pub pid: i32,
    memory: File,
}

impl Space {
    pub fn open(pid: i32) -> Result<Self, PatchError> {
        if threads(pid)?.into_iter().all(|tid| is_zombie(pid, tid)) {
            return Err(PatchError::Ended(pid));
        }
        let path = format!("{}/mem", dwell_maps::folder(pid as u32));
        let memory = OpenOptions::new().read(true).write(true).open(path);
        let memory = memory.map_err(|error| PatchError::NotAllowed { pid, error })?;
        Ok(Space { pid, memory })
    }

    /// What is mapped, by address.
    pub fn mappings(&self) -> Result<Vec<Mapping>, PatchError> {
        dwell_maps::read(self.pid as u32).map_err(|_| PatchError::Ended(self.pid))
    }

    /// A file that is mapped, also when it was deleted or lies in another mount namespace.
    pub fn open_mapped(&self, mapping: &Mapping) -> io::Result<File> {
        File::open(mapping.reach(self.pid as u32))
    }

    pub fn read(&self, address: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(bytes, address)
    }

    /// Reads as much as there is.
    pub fn read_some(&self, address: u64, bytes: &mut [u8]) -> usize {
        self.memory.read_at(bytes, address).unwrap_or(0)
    }

    pub fn read_u64(&self, address: u64) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Writes, also where the process itself may not (its code becomes a copy of its own). Bytes
    /// within one page are written at once.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), PatchError> {
        let what = || {
            format!(
                "writing {} bytes at {address:#x} of process {}",
                bytes.len(),
                self.pid
            )
        };
        self.memory
            .write_all_at(bytes, address)
            .map_err(|error| PatchError::Io {
                what: what(),
                error,
            })
    }

    /// Writes words of 8 bytes, as [`Self::write`] writes bytes.
    pub fn write_words(&self, address: u64, words: &[u64]) -> Result<(), PatchError> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.write(address, &bytes)
    }
}

/// The mapping that contains an address.
pub(super) fn mapping_at(mappings: &[Mapping], address: u64) -> Option<&Mapping> {
    let next = mappings.partition_point(|m| m.start <= address);
    mappings[..next].last().filter(|m| m.contains(address))
}
