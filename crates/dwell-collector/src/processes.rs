//! Processes: who they are and what they have mapped.
mod mapping;
mod slots;

use crate::address_space::AddressSpace;
use crate::error::CollectError;
use crate::java::Java;
use crate::javascript::{self, JavaScript};
use crate::machine;
use crate::modules::Modules;
use crate::python::{self, Python};
use crate::roots::{Root, Roots};
use crate::unwind_maps::UnwindMaps;
use dwell_maps::Memory;
use dwell_recording::rows::{MappingRow, ProcessRow};
use hashbrown::{HashMap, HashSet};
pub use slots::Executor;
use slots::Slots;
use std::fs;
use std::ops::Range;
use std::sync::Arc;

/// A process that is or was followed.
pub struct Process {
    /// What is written of it.
    pub row: ProcessRow,
    /// Its executable mappings.
    pub space: AddressSpace,
    /// Its root directory, if that is not ours.
    pub root: Option<Arc<Root>>,
    renamed_at: u64,
    alive: u32,
    /// A thread of it was followed: one that ended while we attached was never part of the recording.
    followed: bool,
    dirty: bool,
    space_dirty: bool,
    mappings_wanted: bool,
    /// When they were last read anew, ns.
    mappings_read_at: u64,
    /// When the kernel side was last told of them, ns of CLOCK_BOOTTIME; 0: never.
    published_at: u64,
    /// How many did not fit its limit, at most.
    mappings_left_out: usize,
    /// Its JVM.
    pub java: Java,
    /// Its Python.
    pub python: Python,
    /// Its engine of JavaScript.
    pub javascript: JavaScript,
}

/// How long what seems to be missing is not looked for again, ns.
const NOT_BEFORE_NS: u64 = 1_000_000_000;

impl Process {
    /// Takes in code heaps of its JVM that are new.
    fn look_for_java(&mut self, maps: &UnwindMaps, modules: &Modules) -> Result<(), CollectError> {
        if self.java.is_sought()
            && self.row.end_ns.is_none()
            && self.java.look(maps, modules, &self.space, self.row.pid)?
        {
            self.space.set_code_heaps(self.java.heaps().collect());
            self.space_dirty = true;
        }
        Ok(())
    }

    /// Takes in its Python, if it has begun.
    fn look_for_python(
        &mut self,
        maps: &UnwindMaps,
        modules: &Modules,
    ) -> Result<(), CollectError> {
        if self.python.is_sought()
            && self.row.end_ns.is_none()
            && let Some(number) = self.python.look(maps, modules, &self.space, self.row.pid)?
        {
            self.space.set_python(number);
            self.space_dirty = true;
        }
        Ok(())
    }

    /// Takes in its engine of JavaScript, if it is there.
    fn look_for_javascript(&mut self, modules: &Modules) {
        if self.javascript.is_sought()
            && self.row.end_ns.is_none()
            && let Some(engine) = self.javascript.look(modules, &self.space, self.row.pid)
        {
            self.space.set_engine(engine);
            self.space_dirty = true;
        }
    }

    /// What tells what is interpreted, by its address, from what was there at other times.
    pub fn generation(&self, interpreted: u64) -> u32 {
        let memory = OfProcess(self.row.pid);
        let python = self.python.identity(&memory, interpreted);
        let identity = python.or_else(|| self.javascript.identity(&memory, interpreted));
        identity.unwrap_or_else(|| self.java.generation(interpreted))
    }
}

/// All processes.
#[derive(Default)]
pub struct Processes {
    /// By their numbers.
    processes: Slots,
    /// Mappings that did not fit the limit of their process.
    left_out: usize,
    by_pid: HashMap<u32, u32>,
    new_mappings: Vec<MappingRow>,
    roots: Roots,
    window_start_ns: u64,
}

/// The ids of all processes there are.
pub fn running() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn read_link(path: String) -> String {
    fs::read_link(path)
        .map(|p| p.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn read_text(path: String) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

impl Processes {
    /// The live process with this pid.
    pub fn id_of(&self, pid: u32) -> Option<u32> {
        self.by_pid.get(&pid).copied()
    }

    /// The last process with this pid, which may be over.
    pub fn last_of(&self, pid: u32) -> Option<u32> {
        self.id_of(pid).or_else(|| self.processes.last_of(pid))
    }

    /// The last process with this pid, as long as what it executed can get names.
    pub fn recent(&mut self, pid: u32) -> Option<&mut Process> {
        let id = self.last_of(pid)?;
        self.processes.if_kept(id)
    }

    /// The process of a thread that is kept, or any if no rows are taken.
    pub fn get(&self, id: u32) -> &Process {
        self.processes.get(id)
    }

    /// The same, to get names of what it executes.
    pub fn get_mut(&mut self, id: u32) -> &mut Process {
        self.processes.get_mut(id)
    }

    /// Who a process was, of any there was.
    pub fn executor(&self, id: u32) -> Executor {
        self.processes.executor(id)
    }

    /// The window begins: nothing that was there already is older than it.
    pub fn begin_window(&mut self, start_ns: u64) {
        self.window_start_ns = start_ns;
        for process in self.processes.kept() {
            process.row.start_ns = start_ns;
        }
        for mapping in &mut self.new_mappings {
            mapping.start_ns = start_ns;
        }
    }

    /// Begins a process that exists already: everything is read from `/proc`.
    pub fn begin(&mut self, pid: u32, start_ns: u64) -> u32 {
        let id = self.push(
            ProcessRow {
                pid,
                start_ns,
                ..ProcessRow::default()
            },
            AddressSpace::default(),
            None,
        );
        self.read_identity(id);
        id
    }

    /// Begins a process that was just forked: it is its parent's copy.
    pub fn begin_fork(
        &mut self,
        pid: u32,
        ns_pid: u32,
        parent: u32,
        name: String,
        start_ns: u64,
    ) -> u32 {
        let parent_process = self.id_of(parent).map(|id| self.get(id));
        let (java, python, javascript) = parent_process
            .map(|p| {
                (
                    p.java.of_child(),
                    p.python.of_child(),
                    p.javascript.of_child(),
                )
            })
            .unwrap_or_default();
        let (mut row, space, root) = parent_process
            .map(|p| (p.row.clone(), p.space.clone(), p.root.clone()))
            .unwrap_or_default();
        row = ProcessRow {
            pid,
            ns_pid,
            parent_pid: parent,
            name,
            start_ns,
            end_ns: None,
            exit_status: None,
            ..row
        };
        let id = self.push(row, space, root);
        let process = self.processes.get_mut(id);
        (process.java, process.python, process.javascript) = (java, python, javascript);
        id
    }

    fn push(&mut self, row: ProcessRow, space: AddressSpace, root: Option<Arc<Root>>) -> u32 {
        let id = self.processes.next();
        self.by_pid.insert(row.pid, id);
        self.processes.push(Process {
            row: ProcessRow { process: id, ..row },
            space,
            root,
            renamed_at: 0,
            alive: 0,
            followed: false,
            dirty: true,
            space_dirty: false,
            mappings_wanted: false,
            mappings_read_at: 0,
            published_at: 0,
            mappings_left_out: 0,
            java: Java::default(),
            python: Python::default(),
            javascript: JavaScript::default(),
        });
        id
    }

    /// Reads command line, executable, cgroup and root, as far as the process still lives.
    pub fn read_identity(&mut self, id: u32) {
        let process = self.processes.get_mut(id);
        let pid = process.row.pid;
        let folder = dwell_maps::folder(pid);
        let command = read_text(format!("{folder}/cmdline"));
        if !command.is_empty() {
            process.row.command = command.trim_end_matches('\0').replace('\0', " ");
        }
        let exe = read_link(format!("{folder}/exe"));
        if !exe.is_empty() {
            process.row.exe = dwell_maps::without_remark(&exe).into();
        }
        let cgroup = read_text(format!("/proc/{pid}/cgroup"));
        if let Some(path) = cgroup.lines().find_map(|l| l.strip_prefix("0::")) {
            process.row.cgroup = path.into();
        }
        let name = read_text(format!("/proc/{pid}/comm"));
        if !name.is_empty() {
            process.row.name = name.trim_end().into();
        }
        self.roots.update(pid, &mut process.root);
        process.dirty = true;
    }

    /// Sets what only the kernel's reports tell.
    pub fn report(&mut self, id: u32, ns_pid: u32, parent: u32) {
        let row = &mut self.processes.get_mut(id).row;
        let ns_pid = if ns_pid == 0 { row.ns_pid } else { ns_pid };
        if row.ns_pid != ns_pid || (row.parent_pid == 0 && parent != 0) {
            (row.ns_pid, row.parent_pid) = (ns_pid, parent);
            self.processes.get_mut(id).dirty = true;
        }
    }

    /// The process began another program.
    pub fn exec(&mut self, id: u32, name: String) {
        let process = self.processes.get_mut(id);
        process.row.name = name;
        process.space.clear_before(process.renamed_at);
        process.java = Java::default();
        process.python = Python::default();
        process.javascript = JavaScript::default();
        // What it begins with was mapped before this was told.
        let mapped =
            |is_file: fn(&str) -> bool| process.space.iter().any(|(_, m)| is_file(&m.path));
        if mapped(python::is_python) {
            process.python.wanted();
        }
        if mapped(javascript::is_engine) {
            process.javascript.wanted();
        }
        process.space_dirty = true;
        self.read_identity(id);
    }

    /// One more thread of a process lives.
    pub fn thread_begins(&mut self, id: u32) {
        let process = self.processes.get_mut(id);
        process.alive += 1;
        process.followed = true;
    }

    /// A thread of a process died. True when it was the last: a leader may die before the others.
    pub fn thread_ends(&mut self, id: u32) -> bool {
        let alive = &mut self.processes.get_mut(id).alive;
        *alive = alive.saturating_sub(1);
        *alive == 0
    }

    /// The process is over.
    pub fn end(&mut self, maps: &UnwindMaps, id: u32, time: u64, status: i32) {
        let process = self.processes.get_mut(id);
        process.row.end_ns = Some(time);
        process.row.exit_status = Some(status);
        process.dirty = true;
        process.space_dirty = false;
        process.java = Java::default();
        process.python.end();
        let pid = process.row.pid;
        maps.remove_process(pid);
        if self.by_pid.get(&pid) == Some(&id) {
            self.by_pid.remove(&pid);
        }
    }

    /// Sets a process' name (that of its first thread). The first step of an exec is a new name.
    pub fn rename(&mut self, id: u32, name: String, time: u64) {
        let process = self.processes.get_mut(id);
        process.renamed_at = process.renamed_at.max(time);
        if process.row.name != name {
            process.row.name = name;
            process.dirty = true;
        }
    }

    /// Code that the kernel side shall not unwind, since it would take what rbp holds there for a frame, but at
    /// these addresses in it, where the stack is as at a function's entry.
    pub fn hide(&mut self, id: u32, ranges: &[Range<u64>], like_entries: &[u64]) {
        let process = self.processes.get_mut(id);
        process.space.hide(ranges, like_entries);
        process.space_dirty = true;
    }

    /// The kernel side knows less of what is mapped in a process than we do: a child has what was known of its parent when
    /// it was forked.
    pub fn not_in_kernel(&mut self, id: u32) {
        let process = self.processes.get_mut(id);
        process.space_dirty |= machine::boottime_ns() >= process.published_at + NOT_BEFORE_NS;
    }

    /// Tells the kernel side of address spaces that changed.
    pub fn publish(&mut self, maps: &UnwindMaps, modules: &Modules) -> Result<(), CollectError> {
        for process in self.processes.kept() {
            process.look_for_java(maps, modules)?;
            process.look_for_python(maps, modules)?;
            process.look_for_javascript(modules);
            if std::mem::take(&mut process.space_dirty) {
                let (bytes, left_out) = process.space.to_kernel(modules);
                let more = left_out.saturating_sub(process.mappings_left_out);
                process.mappings_left_out += more;
                self.left_out += more;
                maps.set_process(process.row.pid, &bytes)?;
                process.published_at = machine::boottime_ns();
            }
        }
        Ok(())
    }

    /// Mappings that did not fit the kernel side's limit, each counted once, however often that is told.
    pub fn mappings_left_out(&self) -> u64 {
        self.left_out as u64
    }

    /// The JVM of a process.
    pub fn java(&mut self, id: u32) -> &mut Java {
        &mut self.processes.get_mut(id).java
    }

    /// The Python of a process.
    pub fn python(&mut self, id: u32) -> &mut Python {
        &mut self.processes.get_mut(id).python
    }

    /// The engine of JavaScript of a process.
    pub fn javascript(&mut self, id: u32) -> &mut JavaScript {
        &mut self.processes.get_mut(id).javascript
    }

    /// Notices where interpreters have put other code in the place of what has a name already.
    pub fn check_code(&mut self, now: u64) {
        for process in self.processes.kept() {
            let pid = process.row.pid;
            if process.row.end_ns.is_some() {
                continue;
            }
            process.python.check(pid, now);
            if process.java.check(pid, now) {
                process.space.code_has_changed();
            }
        }
    }

    /// Rows of processes that changed since the last call. Of one that ended before that little is kept, unless it is
    /// `in_use`.
    pub fn take_processes(&mut self, in_use: &HashSet<u32>) -> Vec<ProcessRow> {
        let mut rows = Vec::new();
        self.processes.retain(|process| {
            let is_new = process.followed && std::mem::take(&mut process.dirty);
            if is_new {
                rows.push(process.row.clone());
            }
            let is_over = process.row.end_ns.is_some() && !in_use.contains(&process.row.process);
            is_new || !is_over
        });
        rows
    }

    /// Mappings that are new since the last call.
    pub fn take_mappings(&mut self) -> Vec<MappingRow> {
        let processes = &self.processes;
        self.new_mappings
            .extract_if(.., |m| processes.get(m.process).followed)
            .collect()
    }
}

/// Lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads another process' memory; None when not all of it can be read.
pub fn read_memory(pid: u32, address: u64, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    (read_memory_into(pid, address, &mut bytes) == length).then_some(bytes)
}

/// Another process' memory.
pub struct OfProcess(pub u32);

impl Memory for OfProcess {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        read_memory_into(self.0, address, into) == into.len()
    }
}

/// Reads another process' memory as far as it goes; the number of bytes read.
pub fn read_memory_into(pid: u32, address: u64, bytes: &mut [u8]) -> usize {
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: address as *mut _,
        iov_len: bytes.len(),
    };
    let read = |tid: u32| {
        // SAFETY: `local` describes `bytes`, which outlives the call; the remote side is only read.
        let n = unsafe { libc::process_vm_readv(tid as libc::pid_t, &local, 1, &remote, 1, 0) };
        usize::try_from(n).ok()
    };
    let others = || Some(dwell_maps::living(pid)).filter(|tid| *tid != pid);
    read(pid).or_else(|| read(others()?)).unwrap_or(0)
}
