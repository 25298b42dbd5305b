//! A script at work.
use crate::error::TraceError;
use crate::kernel_types;
use crate::links::{Link, Places};
use crate::maps::{Drops, Maps};
use crate::probes::{self, At, Code, Probe, Process, describe};
use crate::programs::Loaded;
use crate::ring::Ring;
use dwell_script::aggregate::add_rows;
use dwell_script::codegen::{Generator, Limits, MEMORY, NAMES, Numbering, SYSTEM_CALLS, Site};
use dwell_script::schema::{AggregationId, AggregationSchema, ClauseSchema, ProbeName, Row};
use dwell_script::typed::Script;
use libbpf_rs::{MapCore, MapFlags};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// What is asked of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Sizes of the script's data.
    pub limits: Limits,
    /// Bytes for records that were not read yet.
    pub buffer: u32,
    /// A description that matches nothing is no error.
    pub may_match_nothing: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: Limits::default(),
            buffer: 4 << 20,
            may_match_nothing: false,
        }
    }
}

/// The first numbers of probes, so that a probe keeps its number from script to script: BEGIN, END and ERROR, then
/// the entries and the returns of system calls, then all others as they are found.
const BEGIN: u32 = 1;
const END: u32 = 2;
const ERROR: u32 = 3;
const FIRST_SYSCALL: [u32; 2] = [4, 4 + SYSTEM_CALLS];
const FIRST_OTHER: u32 = 4 + 2 * SYSTEM_CALLS;

/// A script's programs in the kernel. Dropping it takes everything back.
pub struct Session<'s> {
    // Fields drop in this order: links before the programs and maps they hold.
    links: Vec<Link>,
    /// With the numbers of the probes that share a program.
    programs: Vec<(Group, Vec<u32>, Loaded)>,
    ring: Ring,
    maps: Maps,
    generator: Generator<'s>,
    probes: Enabled,
}

/// The probes of a script by number, and the clauses that run for each.
#[derive(Default)]
struct Enabled {
    probes: BTreeMap<u32, (Probe, Vec<usize>)>,
    numbers: HashMap<At, u32>,
}

/// Probes that share a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    site: Site,
    clauses: Vec<usize>,
    /// The only probe, where programs do not learn which one it is.
    only: Option<u32>,
}

impl Enabled {
    fn find(
        script: &Script,
        processes: &mut Vec<Process>,
        may_be_none: bool,
    ) -> Result<Self, TraceError> {
        let mut enabled = Enabled::default();
        for (index, clause) in script.clauses.iter().enumerate() {
            let found = probes::find(&clause.probe, processes)?;
            if found.is_empty() && !may_be_none {
                return Err(TraceError::NoMatch(describe(&clause.probe)));
            }
            found
                .into_iter()
                .for_each(|probe| enabled.add(probe, index));
        }
        Ok(enabled)
    }

    fn add(&mut self, probe: Probe, clause: usize) {
        let next = FIRST_OTHER + self.probes.range(FIRST_OTHER..).count() as u32;
        let number = *self
            .numbers
            .entry(probe.at.clone())
            .or_insert(match &probe.at {
                At::Begin => BEGIN,
                At::End => END,
                At::Error => ERROR,
                At::Syscall { number, returns } => FIRST_SYSCALL[usize::from(*returns)] + number,
                _ => next,
            });
        let (_, clauses) = self
            .probes
            .entry(number)
            .or_insert_with(|| (probe, Vec::new()));
        if clauses.last() != Some(&clause) {
            clauses.push(clause);
        }
    }

    /// The probes that share a program, by number.
    fn groups(&self, generator: &mut Generator<'_>) -> BTreeMap<Group, Vec<u32>> {
        let mut groups: BTreeMap<Group, Vec<u32>> = BTreeMap::new();
        for (number, (probe, clauses)) in &self.probes {
            let (site, shared) = match &probe.at {
                At::Begin => (Site::Begin, false),
                At::End => (Site::End, false),
                At::Error => continue,
                At::Profile(_) => (Site::Profile, false),
                At::Tick(_) => (Site::Tick, false),
                At::Syscall { returns: false, .. } => (Site::SyscallEntry, true),
                At::Syscall { returns: true, .. } => (Site::SyscallReturn, true),
                At::Tracepoint(_) => (Site::Tracepoint, false),
                At::Code { what, .. } => (code_site(what, generator), true),
            };
            let only = (!shared).then_some(*number);
            groups
                .entry(Group {
                    site,
                    clauses: clauses.clone(),
                    only,
                })
                .or_default()
                .push(*number);
        }
        groups
    }
}

impl<'s> Session<'s> {
    /// Finds a script's probes and loads its programs. Nothing runs yet.
    pub fn new(
        script: &'s Script,
        settings: &Settings,
        processes: &mut Vec<Process>,
    ) -> Result<Self, TraceError> {
        let probes = Enabled::find(script, processes, settings.may_match_nothing)?;
        let mut generator = Generator::new(script, &settings.limits);
        if let Some((_, clauses)) = probes.probes.get(&ERROR) {
            generator.on_errors(ERROR, clauses);
        }
        let groups = probes.groups(&mut generator);
        let mut made = Vec::new();
        for (group, numbers) in &groups {
            made.push(generator.program(group.site, &numbering(group, numbers), &group.clauses)?);
        }
        let mut stores = generator.stores();
        if let dwell_abi::program::Store::Table { entries, .. } = &mut stores[NAMES as usize] {
            *entries = probes.probes.len().max(1) as u32;
        }
        let maps = Maps::create(&stores, settings.buffer)?;
        maps.write(MEMORY, &initial_memory(&generator)?)?;
        let mut programs = Vec::new();
        for ((group, numbers), program) in groups.into_iter().zip(made) {
            let name = probes.probes[&numbers[0]].0.name.clone();
            let loaded = Loaded::load(group.site, &program, &maps, &full_name(&name))?;
            programs.push((group, numbers, loaded));
        }
        let ring = Ring::new(maps.map(dwell_script::codegen::RECORDS))?;
        let session = Session {
            links: Vec::new(),
            programs,
            ring,
            maps,
            generator,
            probes,
        };
        session.write_names()?;
        Ok(session)
    }

    /// The names that programs look up.
    fn write_names(&self) -> Result<(), TraceError> {
        let size = self.generator.string_size() as usize;
        for (number, (probe, _)) in &self.probes.probes {
            let ProbeName {
                provider,
                module,
                function,
                name,
            } = &probe.name;
            let mut value = vec![0; 4 * size];
            for (part, text) in value
                .chunks_exact_mut(size)
                .zip([provider, module, function, name])
            {
                let length = text.len().min(size - 1);
                part[..length].copy_from_slice(&text.as_bytes()[..length]);
            }
            let key = u64::from(*number).to_ne_bytes();
            let update = self.maps.map(NAMES).update(&key, &value, MapFlags::ANY);
            update.map_err(TraceError::bpf("writing the names of probes"))?;
        }
        Ok(())
    }

    /// Runs BEGIN and attaches everything else.
    pub fn start(&mut self) -> Result<(), TraceError> {
        self.run(Site::Begin)?;
        for (group, members, program) in &self.programs {
            let members: Vec<(u32, &Probe)> = members
                .iter()
                .map(|number| (*number, &self.probes.probes[number].0))
                .collect();
            attach(group.site, program, &members, &mut self.links)?;
        }
        Ok(())
    }

    /// Takes the programs off their probes and runs END. What was recorded stays readable.
    pub fn stop(&mut self) -> Result<(), TraceError> {
        self.links.clear();
        self.run(Site::End)
    }

    fn run(&self, site: Site) -> Result<(), TraceError> {
        let mut programs = self.programs.iter().filter(|p| p.0.site == site);
        programs.try_for_each(|(_, _, program)| program.run())
    }

    /// Waits for a record that is urgent, but not longer than this; whether there is one.
    pub fn wait(&self, timeout: Duration) -> Result<bool, TraceError> {
        self.ring.wait(timeout)
    }

    /// Gives the records that were not given yet, oldest first.
    pub fn drain(&self, take: &mut dyn FnMut(&[u8])) -> Result<(), TraceError> {
        self.ring.drain(take)
    }

    /// What was aggregated since the start, one row for each key.
    pub fn rows(&self, aggregation: AggregationId) -> Result<Vec<Row>, TraceError> {
        let Some(store) = self.generator.sums_store(aggregation) else {
            return Ok(Vec::new());
        };
        let schema = &self.generator.aggregations()[aggregation.0 as usize];
        let map = self.maps.map(store);
        let mut parts = Vec::new();
        crate::batches::each_entry(map, &mut |key, values| {
            parts.extend(values.filter_map(|value| self.generator.row(aggregation, key, value)));
        })?;
        Ok(add_rows(schema.function, parts))
    }

    /// Forgets keys of an aggregation.
    pub fn remove(&self, aggregation: AggregationId, keys: &[Box<[u8]>]) {
        let Some(store) = self.generator.sums_store(aggregation) else {
            return;
        };
        let map = self.maps.map(store);
        for key in keys {
            let key = self.generator.store_key(aggregation, key);
            // A key that is gone already is what was wanted.
            let _ = map.delete(&key);
        }
    }

    /// What found no room.
    pub fn drops(&self) -> Result<Drops, TraceError> {
        self.maps.drops()
    }

    /// All probes by number, with the clauses that run for them.
    pub fn probes(&self) -> impl Iterator<Item = (u32, &ProbeName, &[usize])> {
        let all = self.probes.probes.iter();
        all.map(|(number, (probe, clauses))| (*number, &probe.name, clauses.as_slice()))
    }

    /// The name of a probe as records number it.
    pub fn probe(&self, number: u32) -> Option<&ProbeName> {
        self.probes
            .probes
            .get(&number)
            .map(|(probe, _)| &probe.name)
    }

    /// The records of each clause.
    pub fn clauses(&self) -> &[ClauseSchema] {
        self.generator.clauses()
    }

    /// The aggregations by id.
    pub fn aggregations(&self) -> &[AggregationSchema] {
        self.generator.aggregations()
    }
}

fn numbering(group: &Group, numbers: &[u32]) -> Numbering {
    let calls = |first: u32| Numbering::SystemCalls {
        first,
        wanted: numbers.iter().map(|n| n - first).collect(),
    };
    match (group.site, numbers) {
        (Site::SyscallEntry, _) => calls(FIRST_SYSCALL[0]),
        (Site::SyscallReturn, _) => calls(FIRST_SYSCALL[1]),
        (_, [only]) => Numbering::One(*only),
        _ => Numbering::Cookie,
    }
}

fn attach(
    site: Site,
    program: &Loaded,
    members: &[(u32, &Probe)],
    links: &mut Vec<Link>,
) -> Result<(), TraceError> {
    let mut files: BTreeMap<(&str, u32), Places> = BTreeMap::new();
    for (number, probe) in members {
        match &probe.at {
            At::Begin | At::End | At::Error | At::Syscall { .. } => {}
            At::Tracepoint(name) => links.push(Link::tracepoint(program, name)?),
            At::Tick(period) => links.push(Link::timer(program, 0, *period)?),
            At::Profile(period) => {
                for cpu in processors() {
                    links.push(Link::timer(program, cpu, *period)?);
                }
            }
            At::Code {
                file,
                pid,
                offset,
                what,
            } => {
                let places = files.entry((file, *pid)).or_default();
                places.offsets.push(*offset);
                places.cookies.push(u64::from(*number));
                places.semaphores.push(match what {
                    Code::Static { semaphore, .. } => semaphore.unwrap_or(0),
                    _ => 0,
                });
            }
        }
    }
    for ((file, pid), places) in files {
        links.push(Link::functions(
            program,
            file,
            pid,
            &places,
            site == Site::Return,
        )?);
    }
    match site {
        Site::SyscallEntry => links.push(Link::tracepoint(program, "sys_enter")?),
        Site::SyscallReturn => links.push(Link::tracepoint(program, "sys_exit")?),
        _ => {}
    }
    Ok(())
}

fn code_site(what: &Code, generator: &mut Generator<'_>) -> Site {
    match what {
        Code::Entry => Site::Entry,
        Code::Return => Site::Return,
        Code::Instruction => Site::Offset,
        Code::Static { operands, .. } => generator.static_site(operands),
    }
}

/// The processors that are there now.
fn processors() -> Vec<u32> {
    let text =
        std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".into());
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

fn full_name(name: &ProbeName) -> String {
    let ProbeName {
        provider,
        module,
        function,
        name,
    } = name;
    format!("{provider}:{module}:{function}:{name}")
}

/// The script's memory with what programs learn from us.
fn initial_memory(generator: &Generator<'_>) -> Result<Vec<u8>, TraceError> {
    use dwell_script::codegen::control::{THREAD_POINTER, WALL_OFFSET};
    let mut memory = generator.memory().to_vec();
    if generator.needs_thread_pointer() {
        let offset = kernel_types::thread_pointer_offset()?;
        memory[THREAD_POINTER as usize..][..8].copy_from_slice(&offset.to_ne_bytes());
    }
    let clock = |id| {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the time is ours to write.
        unsafe { libc::clock_gettime(id, &mut time) };
        time.tv_sec
    };
    // Both differ by whole seconds.
    let ahead = (clock(libc::CLOCK_REALTIME) - clock(libc::CLOCK_TAI)) * 1_000_000_000;
    memory[WALL_OFFSET as usize..][..8].copy_from_slice(&ahead.to_ne_bytes());
    Ok(memory)
}
