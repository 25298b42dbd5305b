//! What processes map: their code, as the kernel reports it, or read from `/proc`.
use super::{NOT_BEFORE_NS, Processes, hex, read_memory};
use crate::address_space::{AddressSpace, Mapped, is_code, mapped_before};
use crate::copied_code;
use crate::error::CollectError;
use crate::java;
use crate::javascript;
use crate::mapped_file::open_mapped;
use crate::modules::{ModuleId, Modules};
use crate::perf::MapEvent;
use crate::python;
use crate::unwind_maps::UnwindMaps;
use dwell_recording::rows::MappingRow;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// How files begin that are in memory alone: programs, or code made at run time.
const IN_MEMORY: &str = "/memfd:";

/// What is shown for memory without a file.
const ANONYMOUS: &str = "[anon]";

/// A mapping's path as it is shown, by what the kernel tells of it.
fn shown_path(path: &str) -> &str {
    let is_file =
        path.starts_with('/') && !path.starts_with("//") && !path.starts_with("/dev/zero");
    if is_file || path.starts_with('[') {
        path
    } else {
        ANONYMOUS
    }
}

fn is_elf(file: &File) -> bool {
    let mut magic = [0; 4];
    file.read_exact_at(&mut magic, 0).is_ok() && &magic == b"\x7fELF"
}

impl Processes {
    /// Takes in a new mapping; reads the module when it is new.
    pub fn map(
        &mut self,
        maps: &UnwindMaps,
        modules: &mut Modules,
        id: u32,
        event: &MapEvent,
    ) -> Result<(), CollectError> {
        let space = &self.get(id).space;
        let is_copy = |space: &AddressSpace| {
            let known = space.find(event.start);
            known.is_some_and(|(_, m)| m.is_copy && event.end <= m.end)
        };
        if shown_path(&event.path) == ANONYMOUS && space.has_module(event.start..event.end) {
            // A copy of that file's code, or code made where a library was: what lies around it tells.
            if is_copy(space) {
                self.mappings_wanted(id);
                return Ok(());
            }
            self.map_all(maps, modules, id, event.time)?;
            if is_copy(&self.get(id).space) {
                return Ok(());
            }
        }
        self.place(maps, modules, id, event)
    }

    fn place(
        &mut self,
        maps: &UnwindMaps,
        modules: &mut Modules,
        id: u32,
        event: &MapEvent,
    ) -> Result<(), CollectError> {
        let process = self.processes.get_mut(id);
        let mut new = Mapped {
            end: event.end,
            file_offset: event.file_offset,
            module: None,
            path: shown_path(&event.path).into(),
            time: event.time,
            is_copy: false,
        };
        if process.space.has(event.start, &new) {
            return Ok(());
        }
        match new.path.as_str() {
            "[vdso]" => {
                let (pid, length) = (process.row.pid, (event.end - event.start) as usize);
                new.module = modules.vdso(maps, || read_memory(pid, event.start, length))?;
            }
            path if path.starts_with('[') => {}
            _ => new.module = self.module_of(maps, modules, id, event)?,
        }
        self.insert(modules, id, event.start, new);
        Ok(())
    }

    fn insert(&mut self, modules: &Modules, id: u32, start: u64, new: Mapped) {
        let build_id = new
            .module
            .map_or(String::new(), |m| hex(&modules.get(m).build_id));
        self.new_mappings.push(MappingRow {
            process: id,
            start,
            end: new.end,
            file_offset: new.file_offset,
            path: new.path.clone(),
            build_id,
            start_ns: new.time.max(self.window_start_ns),
        });
        let process = self.processes.get_mut(id);
        if java::is_library(&new.path) {
            process.java.wanted();
        } else if new.module.is_none() {
            process.java.mapped(start);
        }
        if python::is_python(&new.path) {
            process.python.wanted();
        }
        if javascript::is_engine(&new.path) {
            process.javascript.wanted();
        }
        process.space.insert(start, new);
        process.space_dirty = true;
    }

    /// The module of a file mapping, none when the file is out of reach.
    fn module_of(
        &mut self,
        maps: &UnwindMaps,
        modules: &mut Modules,
        id: u32,
        event: &MapEvent,
    ) -> Result<Option<ModuleId>, CollectError> {
        let Some(file) = open_mapped(event) else {
            return Ok(None);
        };
        if event.path.starts_with(IN_MEMORY) && !is_elf(&file) {
            return Ok(None);
        }
        let next = modules.next_id();
        let module = modules.of_file(maps, file, &event.path)?;
        if module == next {
            // The mapping of an exec is reported before the exec, after which identities are read.
            let process = self.processes.get_mut(id);
            self.roots.update(process.row.pid, &mut process.root);
            modules.set_root(module, process.root.clone());
        }
        Ok(Some(module))
    }

    /// Reads all mappings of a process from `/proc`.
    pub fn map_all(
        &mut self,
        maps: &UnwindMaps,
        modules: &mut Modules,
        id: u32,
        time: u64,
    ) -> Result<(), CollectError> {
        let pid = self.get(id).row.pid;
        let all = dwell_maps::read(pid).unwrap_or_default();
        let code = all.iter().zip(copied_code::between(&all));
        for (mapping, between) in code.filter(|(m, _)| is_code(m)) {
            let new = match between {
                Some(between) => self.copy_of(maps, modules, id, (mapping, time), between)?,
                None => None,
            };
            match new {
                Some(new) if self.get(id).space.has(mapping.start, &new) => {}
                Some(new) => self.insert(modules, id, mapping.start, new),
                None => self.place(maps, modules, id, &mapped_before(pid, time, mapping))?,
            }
        }
        Ok(())
    }

    /// Memory without a file that has a copy of the code that belongs there, if that is what it is.
    fn copy_of(
        &mut self,
        maps: &UnwindMaps,
        modules: &mut Modules,
        id: u32,
        (copy, time): (&dwell_maps::Mapping, u64),
        between: [&dwell_maps::Mapping; 2],
    ) -> Result<Option<Mapped>, CollectError> {
        let below = mapped_before(self.get(id).row.pid, time, between[0]);
        let module = self.module_of(maps, modules, id, &below)?;
        Ok(module.and_then(|module| {
            Some(Mapped {
                end: copy.end,
                file_offset: copied_code::file_offset(copy, between, modules.get(module))?,
                module: Some(module),
                path: below.path,
                time,
                is_copy: true,
            })
        }))
    }

    /// A stack of the process leads to where nothing is known to be mapped: a report may have been lost.
    pub fn mappings_wanted(&mut self, id: u32) {
        self.processes.get_mut(id).mappings_wanted = true;
    }

    /// The same where it is not known of which process.
    pub fn all_mappings_wanted(&mut self) {
        for process in self.processes.kept() {
            process.mappings_wanted = process.row.end_ns.is_none();
        }
    }

    /// Reads again what is mapped in processes where something seems to be missing.
    pub fn find_missing(
        &mut self,
        maps: &UnwindMaps,
        modules: &mut Modules,
        now: u64,
    ) -> Result<(), CollectError> {
        let wanted = |id: &u32| {
            let process = self.processes.get(*id);
            process.mappings_wanted && now >= process.mappings_read_at + NOT_BEFORE_NS
        };
        let wanted: Vec<u32> = self.by_pid.values().copied().filter(wanted).collect();
        for id in wanted {
            let process = self.processes.get_mut(id);
            process.mappings_wanted = false;
            process.mappings_read_at = now;
            self.map_all(maps, modules, id, now)?;
        }
        Ok(())
    }
}
