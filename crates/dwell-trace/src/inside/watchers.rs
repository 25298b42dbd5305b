//! Counts of watchers: by them a program learns whether somebody listens to a static probe.
use super::refuse;
use crate::error::TraceError;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// A probe's count: a file of the process, and where in it.
pub(super) type Count<'p> = (&'p str, u64);

/// Counts that are one higher than they would be without us, until this is dropped. If we are killed they stay so:
/// the program then computes what nobody reads.
#[derive(Default)]
pub(super) struct Watchers {
    pid: u32,
    addresses: Vec<u64>,
}

impl Watchers {
    /// Adds one to the counts of these probes, each once.
    pub(super) fn new(pid: u32, counts: &[Count<'_>]) -> Result<Watchers, TraceError> {
        let mut watchers = Watchers {
            pid,
            addresses: Vec::new(),
        };
        let failed = |error: io::Error| refuse(format_args!("counting its watchers: {error}"));
        if counts.is_empty() {
            return Ok(watchers);
        }
        let mappings = dwell_maps::read(pid).map_err(failed)?;
        let memory = memory(pid).map_err(failed)?;
        for (file, offset) in counts {
            // The program's own copy of the page: where the file is mapped to be written.
            let mut mapped = dwell_maps::of_file(&mappings, pid, file).into_iter();
            let place = mapped.find_map(|m| m.address_of(*offset).filter(|_| m.writable));
            let Some(address) = place.filter(|at| !watchers.addresses.contains(at)) else {
                continue;
            };
            add(&memory, address, 1).map_err(failed)?;
            watchers.addresses.push(address);
        }
        Ok(watchers)
    }
}

impl Drop for Watchers {
    fn drop(&mut self) {
        if self.addresses.is_empty() {
            return;
        }
        // A process that has ended counts nothing.
        let Ok(memory) = memory(self.pid) else { return };
        for address in &self.addresses {
            let _ = add(&memory, *address, u16::MAX);
        }
    }
}

fn memory(pid: u32) -> io::Result<File> {
    let path = format!("{}/mem", dwell_maps::folder(pid));
    OpenOptions::new().read(true).write(true).open(path)
}

fn add(memory: &File, address: u64, by: u16) -> io::Result<()> {
    let mut count = [0; 2];
    memory.read_exact_at(&mut count, address)?;
    let count = u16::from_ne_bytes(count).wrapping_add(by);
    memory.write_all_at(&count.to_ne_bytes(), address)
}
