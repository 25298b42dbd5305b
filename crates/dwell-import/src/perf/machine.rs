//! What processes had mapped where, and what they were called.
use super::records::Mapped;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most mappings that are copied because a child changed what it shares with its parent: a hostile file could make
/// as many as the square of its size. What is mapped beyond is left out.
const MAX_COPIED: usize = 16 << 20;

/// A file mapped executable into a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First actual address past its end.
    pub end: u64,
    /// Which module.
    pub module: usize,
    /// Actual minus stated address (wrapping).
    pub bias: u64,
    /// Where in the file the module's mapping began (wrapping, counted from address 0).
    offset: u64,
}

impl Mapping {
    /// Where in the file a part of the mapping begins.
    pub fn file_offset(&self, start: u64) -> u64 {
        start.wrapping_add(self.offset)
    }
}

/// A process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Row of `processes`, once something of it is in the recording.
    pub row: Option<u32>,
    /// Short name.
    pub name: String,
    /// Who made it.
    pub parent: u32,
    /// By first address; shared with children until one of them changes something.
    mappings: Arc<BTreeMap<u64, Mapping>>,
}

impl Process {
    /// The mapping that holds an address, and where it begins.
    pub fn find(&self, address: u64) -> Option<(u64, Mapping)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address < mapping.end).then_some((*start, *mapping))
    }

    /// Every mapping.
    pub fn mappings(&self) -> impl Iterator<Item = (u64, Mapping)> {
        self.mappings
            .iter()
            .map(|(start, mapping)| (*start, *mapping))
    }

    /// Takes what is mapped; it replaces what was there.
    fn map(&mut self, start: u64, mapping: Mapping) {
        let mappings = Arc::make_mut(&mut self.mappings);
        let overlapping: Vec<u64> = mappings
            .range(..mapping.end)
            .rev()
            .take_while(|(_, m)| m.end > start)
            .map(|(start, _)| *start)
            .collect();
        for old_start in overlapping {
            let Some(old) = mappings.remove(&old_start) else {
                continue;
            };
            if old_start < start {
                mappings.insert(old_start, Mapping { end: start, ..old });
            }
            if old.end > mapping.end {
                mappings.insert(mapping.end, old);
            }
        }
        mappings.insert(start, mapping);
    }
}

/// What a thread is called, and whose it is.
#[derive(Clone, Debug, Default)]
struct Named {
    pid: u32,
    name: String,
}

/// Every process, by its number.
#[derive(Debug, Default)]
pub struct Machine {
    processes: FxHashMap<u32, Process>,
    threads: FxHashMap<u32, Named>,
    /// Mappings copied for children.
    copied: usize,
    /// Rows given away.
    rows: u32,
}

impl Machine {
    /// The process with this number.
    pub fn process(&mut self, pid: u32) -> &mut Process {
        self.processes.entry(pid).or_default()
    }

    /// Its row, which it gets now if it has none.
    pub fn row(&mut self, pid: u32) -> u32 {
        let process = self.processes.entry(pid).or_default();
        *process.row.get_or_insert_with(|| {
            self.rows += 1;
            self.rows - 1
        })
    }

    /// The process of a thread, as far as it is known.
    pub fn process_of(&self, tid: u32) -> u32 {
        self.threads.get(&tid).map_or(tid, |t| t.pid)
    }

    /// What a thread is called; empty when nothing told.
    pub fn thread_name(&self, tid: u32) -> &str {
        if tid == 0 {
            return "swapper";
        }
        self.threads.get(&tid).map_or("", |t| &t.name)
    }

    /// A thread, and if it leads its process the process, has this name; `exec`: nothing of what was mapped
    /// still is.
    pub fn named(&mut self, pid: u32, tid: u32, name: &str, exec: bool) {
        let name = name.to_owned();
        self.threads.insert(
            tid,
            Named {
                pid,
                name: name.clone(),
            },
        );
        let process = self.process(pid);
        if pid == tid || exec {
            process.name = name;
        }
        if exec {
            process.mappings = Arc::default();
        }
    }

    /// A thread or a process was made.
    pub fn forked(&mut self, pid: u32, tid: u32, parent: u32, parent_tid: u32) {
        let name = self.thread_name(parent_tid).to_owned();
        self.threads.insert(tid, Named { pid, name });
        if pid == parent {
            return;
        }
        let maker = self.process(parent).clone();
        let child = self.process(pid);
        child.name = maker.name;
        child.mappings = maker.mappings;
        child.parent = parent;
    }

    /// A file was mapped; where it begins decides its bias.
    pub fn mapped(&mut self, mapped: &Mapped, module: usize, bias: u64) {
        let end = mapped.start.saturating_add(mapped.len);
        if end > mapped.start {
            let mapping = Mapping {
                end,
                module,
                bias,
                offset: mapped.file_offset.wrapping_sub(mapped.start),
            };
            let process = self.processes.entry(mapped.pid).or_default();
            if Arc::strong_count(&process.mappings) > 1 {
                self.copied = self.copied.saturating_add(process.mappings.len());
                if self.copied > MAX_COPIED {
                    return;
                }
            }
            process.map(mapped.start, mapping);
        }
    }

    /// All of them.
    pub fn into_processes(self) -> FxHashMap<u32, Process> {
        self.processes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_replaces_what_was_there() {
        let mut process = Process::default();
        let mapping = |end, module| Mapping {
            end,
            module,
            bias: 0,
            offset: 0,
        };
        process.map(0x1000, mapping(0x5000, 1));
        process.map(0x2000, mapping(0x3000, 2));
        let module = |p: &Process, at| p.find(at).map(|(_, m)| m.module);
        let seen: Vec<_> = [0xfff, 0x1000, 0x2000, 0x2fff, 0x3000, 0x4fff, 0x5000]
            .map(|at| module(&process, at))
            .into();
        assert_eq!(
            seen,
            [None, Some(1), Some(2), Some(2), Some(1), Some(1), None]
        );
        process.map(0, mapping(u64::MAX, 3));
        assert_eq!(process.mappings().count(), 1);
    }

    #[test]
    fn children_have_what_their_parent_had_until_they_exec() {
        let mut machine = Machine::default();
        machine.named(1, 1, "sh", false);
        let mapped = Mapped {
            pid: 1,
            start: 0x1000,
            len: 0x1000,
            ..Mapped::default()
        };
        machine.mapped(&mapped, 7, 0);
        machine.forked(2, 2, 1, 1);
        assert_eq!(machine.thread_name(2), "sh");
        assert!(machine.process(2).find(0x1000).is_some());
        machine.named(2, 2, "ls", true);
        assert!(machine.process(2).find(0x1000).is_none());
        assert!(machine.process(1).find(0x1000).is_some());
    }
}
