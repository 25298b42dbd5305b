//! The recordings' unwinder for the programs of scripts: a function that is appended to them, and what it reads kept
//! up to date while they run.
use crate::error::CollectError;
use crate::machine;
use crate::modules::Modules;
use crate::perf::{LifeEvent, LifeStep, MapEvent, MapEvents, Reports};
use crate::poll::poll;
use crate::preload;
use crate::processes::{self, OfProcess, Processes};
use crate::programs::{Embedded, map, program, quiet_libbpf};
use crate::unwind_maps::{FirstChunk, UnwindMaps};
use dwell_abi::events::{NO_BYTECODE, compiled, interpreted};
use dwell_maps::Mapping;
use libbpf_rs::{AsRawLibbpf, Link, MapCore, MapFlags, Object, ObjectBuilder, OpenObject};
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::PathBuf;
use std::time::Duration;

static OBJECT: &Embedded<[u8]> =
    &Embedded(*include_bytes!(concat!(env!("OUT_DIR"), "/ustack.bpf.o")));
/// `SCRATCH_LEVELS` of `ustack.bpf.c`.
const SCRATCH_LEVELS: u32 = 4;

/// A function for other programs to append to their code and call: `(to, bytes)`, the memory zero, gives the bytes of
/// the frames. See `ustack()` in `ustack.bpf.c`.
#[derive(Clone, Debug)]
pub struct Subprogram {
    /// Its instructions and those of all it calls; it begins with the first. They stay right wherever they go as a
    /// whole, as long as the [`UserStacks`] that they are of live.
    pub code: Vec<u64>,
    /// Where functions begin, as an instruction's number, and their types in `btf`.
    pub functions: Vec<(u32, u32)>,
    /// The type of a program that calls it.
    pub caller_type: u32,
    /// The types.
    pub btf: RawFd,
}

/// User stacks of processes, as far as they are followed.
pub struct UserStacks {
    // Fields drop in this order: links before the object whose programs they hold.
    _links: Vec<Link>,
    object: Object,
    subprogram: Subprogram,
    maps: UnwindMaps,
    processes: Processes,
    modules: Modules,
    reports: Vec<MapEvents>,
    /// Every process is followed.
    all: bool,
    /// Stacks that ended where nothing is known, when that was looked at last.
    unknown: u64,
    /// What words of stacks stand for, by process: it may be over when that is asked for.
    named: HashMap<(u32, u64), Method>,
}

/// What runs at a word of a stack: in which language, its name, and the distance from the start of what was compiled, bytes.
type Method = (&'static str, String, u64);

/// More are not kept: a script that meets so many prints them while they live, or not at all.
const MAX_NAMED: usize = 1 << 16;

/// What code is called that is gone, as its process may be.
const GONE: &str = "[gone]";

impl UserStacks {
    /// Loads the unwinder. No process is followed yet.
    pub fn load() -> Result<Self, CollectError> {
        quiet_libbpf();
        // Before anything is read of processes: what happens meanwhile is reported.
        let reports = machine::online_cpus()
            .into_iter()
            .map(MapEvents::open_with_lives)
            .collect::<Result<_, _>>()?;
        let mut open = ObjectBuilder::default()
            .open_memory(&OBJECT.0)
            .map_err(CollectError::load)?;
        let chunk = UnwindMaps::prepare(&mut open)?;
        for mut map in open.maps_mut() {
            if map.name() == "scratches" {
                map.set_max_entries(machine::possible_cpus() * SCRATCH_LEVELS)
                    .map_err(CollectError::load)?;
            }
        }
        let subprogram = take_subprogram(&mut open)?;
        let object = open.load().map_err(CollectError::load)?;
        let chunk = FirstChunk::put(map(&object, "chunks")?.as_fd(), chunk)?;
        let maps = UnwindMaps::of(&object, chunk)?;
        let links = ["on_fork", "on_rename"]
            .into_iter()
            .map(|name| {
                program(&object, name)?
                    .attach()
                    .map_err(CollectError::attach)
            })
            .collect::<Result<_, _>>()?;
        Ok(UserStacks {
            _links: links,
            object,
            subprogram,
            maps,
            processes: Processes::default(),
            modules: Modules::new(),
            reports,
            all: false,
            unknown: 0,
            named: HashMap::new(),
        })
    }

    /// The function that takes the current thread's stack.
    pub fn subprogram(&self) -> &Subprogram {
        &self.subprogram
    }

    /// Makes stacks of a process whole, and of its children. Its program's files are read, also those that it has
    /// yet to map: it may stand at its first instruction.
    pub fn follow(&mut self, pid: u32) -> Result<(), CollectError> {
        self.begin(pid)?;
        let folder = PathBuf::from(dwell_maps::folder(pid));
        if let Ok(executable) = std::fs::read_link(folder.join("exe")) {
            let root = folder.join("root");
            let inside = executable.strip_prefix("/").unwrap_or(&executable);
            for (path, file) in preload::files_of(&root.join(inside)) {
                self.modules.of_file(&self.maps, file, &path)?;
            }
        }
        self.publish()
    }

    /// Makes stacks of all processes whole.
    pub fn follow_all(&mut self) -> Result<(), CollectError> {
        self.all = true;
        for pid in processes::running() {
            self.begin(pid)?;
        }
        self.publish()
    }

    fn begin(&mut self, pid: u32) -> Result<(), CollectError> {
        if self.processes.id_of(pid).is_some() {
            return Ok(());
        }
        let now = machine::boottime_ns();
        let id = self.processes.begin(pid, now);
        self.processes
            .map_all(&self.maps, &mut self.modules, id, now)
    }

    /// The code of a process that is or was followed, and by which path we can read each file, deleted or not.
    pub fn mappings(&self, pid: u32) -> Vec<(Mapping, PathBuf)> {
        let Some(id) = self.processes.last_of(pid) else {
            return Vec::new();
        };
        let mapped = self.processes.get(id).space.iter();
        let files = mapped.filter_map(|(start, mapped)| {
            let mapping = Mapping {
                start,
                end: mapped.end,
                readable: true,
                executable: true,
                writable: false,
                file_offset: mapped.file_offset,
                device: 0,
                inode: 0,
                path: mapped.path.clone(),
            };
            let module = self.modules.get(mapped.module?);
            Some((mapping, module.readable_path()))
        });
        files.collect()
    }

    /// What a process executes, or executed, at an actual address of a JVM's code, or by a word that tells of what is
    /// interpreted: in which language, its name, and the distance from the start of what was compiled, bytes. Of a place that
    /// several methods were put into it is the outermost one.
    pub fn method_at(&mut self, pid: u32, word: u64) -> Option<Method> {
        let id = self.processes.last_of(pid)?;
        if let Some(known) = self.named.get(&(id, word)) {
            return Some(known.clone());
        }
        let (language, name, distance) = self.find_method(pid, id, word)?;
        Some((language, name.unwrap_or_else(|| GONE.into()), distance))
    }

    /// Names what the kernel side met in stacks, while it is there.
    fn name_told(&mut self) -> Result<(), CollectError> {
        let map = map(&self.object, "told_words")?;
        let told: Vec<Vec<u8>> = map.keys().collect();
        for key in &told {
            // One that is gone already is what was wanted.
            let _ = map.delete(key);
        }
        for key in told {
            let (Some(word), Some(pid)) = (key.first_chunk(), key[8..].first_chunk()) else {
                continue;
            };
            let (word, pid) = (u64::from_ne_bytes(*word), u32::from_ne_bytes(*pid));
            if self.named.len() < MAX_NAMED
                && let Some(id) = self.processes.last_of(pid)
                && let Some((language, Some(name), distance)) = self.find_method(pid, id, word)
            {
                self.named.insert((id, word), (language, name, distance));
            }
        }
        Ok(())
    }

    /// The same by what the process has now; without a name what is not there any more.
    fn find_method(
        &mut self,
        pid: u32,
        id: u32,
        word: u64,
    ) -> Option<(&'static str, Option<String>, u64)> {
        let memory = OfProcess(pid);
        if let Some((code, place)) = interpreted(word) {
            let place = place.unwrap_or(NO_BYTECODE);
            let python = self.processes.python(id);
            if python.is_known() {
                let code = python.code_by_place(&memory, code, place);
                return Some(("python", code.map(|code| code.function), 0));
            }
            let javascript = self.processes.javascript(id);
            if javascript.is_known() {
                let function = javascript.function_by_place(&memory, code, place);
                let function = function.map(|function| function.called().into());
                return Some(("javascript", function, 0));
            }
        }
        let java = self.processes.java(id);
        let methods = java.methods(&memory, word);
        let start = java.start_of(pid, word);
        let (address, _) = compiled(word);
        let distance = start.map_or(0, |start| address - start);
        Some(("java", Some(methods.last()?.full_name()), distance))
    }

    /// Waits until something becomes of processes or `other` is readable, at most this long (whole ms), and does
    /// what [`UserStacks::update`] does.
    pub fn wait(&mut self, other: RawFd, timeout: Duration) -> Result<(), CollectError> {
        let own = self.reports.iter().map(MapEvents::raw_fd);
        poll(own.chain([other]), timeout);
        self.update()
    }

    /// Takes in what became of processes. To be called often: stacks end in what is not known yet.
    pub fn update(&mut self) -> Result<(), CollectError> {
        let mut reports = Reports::default();
        for ring in &mut self.reports {
            ring.drain(&mut reports);
        }
        let mut lives = reports.lives;
        lives.sort_by_key(|event| event.time);
        reports.maps.sort_by_key(|event| event.time);
        let mut lives = lives.into_iter().peekable();
        for event in &reports.maps {
            while let Some(life) = lives.next_if(|life| life.time <= event.time) {
                self.live(life)?;
            }
            self.map(event)?;
        }
        for life in lives {
            self.live(life)?;
        }
        self.find_missing(reports.lost > 0)?;
        self.name_told()?;
        // They are rows for recordings only.
        self.processes.take_mappings();
        self.publish()
    }

    fn live(&mut self, event: LifeEvent) -> Result<(), CollectError> {
        let LifeEvent { time, pid, step } = event;
        let known = self.processes.id_of(pid);
        match (step, known) {
            (LifeStep::Fork(parent), None) if self.processes.id_of(parent).is_some() => {
                let name = String::new();
                self.processes.begin_fork(pid, pid, parent, name, time);
            }
            (LifeStep::Exec(name), Some(id)) => {
                self.processes.rename(id, name.clone(), time);
                self.processes.exec(id, name);
            }
            (LifeStep::Exit, Some(id)) if is_over(pid) => {
                self.processes.end(&self.maps, id, time, 0);
            }
            _ => {}
        }
        Ok(())
    }

    fn map(&mut self, event: &MapEvent) -> Result<(), CollectError> {
        let id = match self.processes.id_of(event.pid) {
            Some(id) => id,
            None if self.all => return self.begin(event.pid),
            None => return Ok(()),
        };
        self.processes.map(&self.maps, &mut self.modules, id, event)
    }

    /// Reads everything anew where stacks ended in what is not known, at most once a second.
    fn find_missing(&mut self, lost: bool) -> Result<(), CollectError> {
        let found = map(&self.object, "data.unknown")?
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(CollectError::map)?
            .unwrap_or_default();
        let unknown = found.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b));
        if lost || unknown != self.unknown {
            self.unknown = unknown;
            self.processes.all_mappings_wanted();
        }
        let now = machine::boottime_ns();
        self.processes
            .find_missing(&self.maps, &mut self.modules, now)
    }

    fn publish(&mut self) -> Result<(), CollectError> {
        self.processes.publish(&self.maps, &self.modules)
    }
}

/// Whether a process whose first thread has ended is over: others may go on, and one of them may have begun another
/// program, in which it is the first.
fn is_over(pid: u32) -> bool {
    let first = pid.to_string();
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.all(|thread| thread.file_name().to_str() == Some(&first))
        && dwell_maps::read(pid).unwrap_or_default().is_empty()
}

/// Has libbpf put together the program that stands for all callers, takes what it calls, and leaves it out.
fn take_subprogram(open: &mut OpenObject) -> Result<Subprogram, CollectError> {
    /// First byte of a call; the second is 0x10 if it is that of a function.
    const CALL: u64 = 0x85;
    let load = |code: i32| match code {
        0 => Ok(()),
        code => Err(CollectError::load(libbpf_rs::Error::from_raw_os_error(
            -code,
        ))),
    };
    // SAFETY: the object is open and not loaded yet, which is when it may be prepared.
    load(unsafe { libbpf_sys::bpf_object__prepare(open.as_libbpf_object().as_ptr()) })?;
    // SAFETY: the object is prepared.
    let btf = unsafe { libbpf_sys::bpf_object__btf_fd(open.as_libbpf_object().as_ptr()) };
    let mut stub = open
        .progs_mut()
        .find(|program| program.name() == "stub")
        .ok_or_else(|| CollectError::Internal("ustack.bpf.o has no stub".into()))?;
    let at = stub.as_libbpf_object().as_ptr();
    // SAFETY: both arrays belong to the prepared program, have these lengths and are copied here; an instruction is 8
    // bytes without padding.
    let (code, functions) = unsafe {
        let instructions = libbpf_sys::bpf_program__insns(at).cast::<u64>();
        let count = libbpf_sys::bpf_program__insn_cnt(at) as usize;
        let infos = libbpf_sys::bpf_program__func_info(at);
        let info_count = libbpf_sys::bpf_program__func_info_cnt(at) as usize;
        if instructions.is_null() || infos.is_null() {
            return Err(CollectError::Internal("ustack.bpf.o tells no types".into()));
        }
        let infos = std::slice::from_raw_parts(infos, info_count);
        let functions: Vec<_> = infos.iter().map(|f| (f.insn_off, f.type_id)).collect();
        let mut code = vec![0u64; count];
        for (number, word) in code.iter_mut().enumerate() {
            *word = instructions.add(number).read_unaligned();
        }
        (code, functions)
    };
    stub.set_autoload(false);
    let [(_, caller_type), (first, _), ..] = functions[..] else {
        return Err(CollectError::Internal("the stub calls nothing".into()));
    };
    let is_call = |word: u64| word & 0xff == CALL && word >> 12 & 0xf == 1;
    let call = code.iter().position(|word| is_call(*word));
    let called = call.map(|at| at as i64 + 1 + i64::from((code[at] >> 32) as i32));
    if called != Some(i64::from(first)) {
        return Err(CollectError::Internal("the stub calls another".into()));
    }
    Ok(Subprogram {
        code: code[first as usize..].to_vec(),
        functions: functions[1..]
            .iter()
            .map(|(at, kind)| (at - first, *kind))
            .collect(),
        caller_type,
        btf: btf.as_raw_fd(),
    })
}
