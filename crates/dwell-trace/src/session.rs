//! A script at work.
use crate::error::TraceError;
use crate::inside::{Inside, Made};
use crate::kernel::Kernel;
use crate::kernel_types;
use crate::maps::Drops;
use crate::probes::{self, At, Code, Probe, Process, describe};
use dwell_abi::program::Store;
use dwell_maps::Mapping;
use dwell_script::aggregate::add_rows;
use dwell_script::codegen::{Generator, Limits, NAMES, Numbering, SYSTEM_CALLS, Site};
use dwell_script::schema::{AggregationId, AggregationSchema, ClauseSchema, ProbeName, Row};
use dwell_script::typed::Script;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
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
    /// Where programs run.
    pub engine: Engine,
}

/// Where the programs of a script run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// In the kernel.
    #[default]
    Kernel,
    /// Inside the process that all of the script's places are in, as native code.
    Process,
    /// Inside the process if the whole script can run there, else in the kernel.
    Auto,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            limits: Limits::default(),
            buffer: 4 << 20,
            may_match_nothing: false,
            engine: Engine::default(),
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

/// A script's programs at work. Dropping it takes everything back.
pub struct Session<'s> {
    running: Running,
    generator: Generator<'s>,
    probes: Enabled,
}

/// The engine that runs the programs.
enum Running {
    Kernel(Box<Kernel>),
    Inside(Box<RefCell<Inside>>),
}

/// The probes of a script by number, and the clauses that run for each.
#[derive(Default)]
pub(crate) struct Enabled {
    pub(crate) probes: BTreeMap<u32, (Probe, Vec<usize>)>,
    numbers: HashMap<At, u32>,
}

/// Probes that share a program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) site: Site,
    pub(crate) clauses: Vec<usize>,
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
    /// Finds a script's probes and makes its programs ready. Nothing runs yet.
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
        let mut made = Vec::new();
        for (group, numbers) in probes.groups(&mut generator) {
            let numbering = numbering(&group, &numbers);
            let program = generator.program(group.site, &numbering, &group.clauses)?;
            let members = numbers.iter().map(|n| (*n, probes.probes[n].0.at.clone()));
            let (site, members) = (group.site, members.collect());
            made.push((
                group,
                Made {
                    site,
                    program,
                    members,
                },
            ));
        }
        let mut stores = generator.stores();
        if let Store::Table { entries, .. } = &mut stores[NAMES as usize] {
            *entries = probes.probes.len().max(1) as u32;
        }
        let memory = initial_memory(&generator)?;
        let kernel = |made: &[(Group, Made)]| {
            let kernel = Kernel::load(made, &stores, &memory, settings.buffer, &probes, script)?;
            Ok::<_, TraceError>(Running::Kernel(Box::new(kernel)))
        };
        let inside = |made: Vec<(Group, Made)>| {
            let made: Vec<Made> = made.into_iter().map(|(_, made)| made).collect();
            let inside = Inside::new(&made, &stores, &memory, settings.buffer)?;
            Ok::<_, TraceError>(Running::Inside(Box::new(RefCell::new(inside))))
        };
        let running = match settings.engine {
            Engine::Kernel => kernel(&made)?,
            Engine::Process => inside(made)?,
            Engine::Auto => match inside(made.clone()) {
                Err(TraceError::NotInside(_)) => kernel(&made)?,
                result => result?,
            },
        };
        let session = Session {
            running,
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
            match &self.running {
                Running::Kernel(kernel) => {
                    kernel.write_name(&key, &value)?;
                }
                Running::Inside(inside) => inside.borrow().set(NAMES, &key, &value),
            }
        }
        Ok(())
    }

    /// Runs BEGIN and attaches everything else.
    pub fn start(&mut self) -> Result<(), TraceError> {
        match &mut self.running {
            Running::Kernel(kernel) => kernel.start(&self.probes),
            Running::Inside(inside) => inside.get_mut().start(),
        }
    }

    /// Takes the programs off their probes and runs END. What was recorded stays readable.
    pub fn stop(&mut self) -> Result<(), TraceError> {
        match &mut self.running {
            Running::Kernel(kernel) => kernel.stop(),
            Running::Inside(inside) => inside.get_mut().stop(),
        }
    }

    /// Waits for a record that is urgent, but not longer than this; whether there is one.
    pub fn wait(&self, timeout: Duration) -> Result<bool, TraceError> {
        match &self.running {
            Running::Kernel(kernel) => kernel.wait(timeout),
            Running::Inside(inside) => Ok(inside.borrow_mut().wait(timeout)),
        }
    }

    /// Gives the records that were not given yet, oldest first.
    pub fn drain(&self, take: &mut dyn FnMut(&[u8])) -> Result<(), TraceError> {
        match &self.running {
            Running::Kernel(kernel) => kernel.drain(take),
            Running::Inside(inside) => {
                let mut records = Vec::new();
                inside
                    .borrow_mut()
                    .drain(&mut |record| records.push(record.to_vec()));
                // Whoever takes them may ask for aggregations meanwhile.
                records.iter().for_each(|record| take(record));
                Ok(())
            }
        }
    }

    /// What was aggregated since the start, one row for each key.
    pub fn rows(&self, aggregation: AggregationId) -> Result<Vec<Row>, TraceError> {
        let Some(store) = self.generator.sums_store(aggregation) else {
            return Ok(Vec::new());
        };
        let schema = &self.generator.aggregations()[aggregation.0 as usize];
        let parts = match &self.running {
            Running::Kernel(kernel) => kernel.rows(&self.generator, store, aggregation)?,
            Running::Inside(inside) => inside.borrow().rows(&self.generator, store, aggregation),
        };
        Ok(add_rows(schema.function, parts))
    }

    /// Forgets keys of an aggregation.
    pub fn remove(&self, aggregation: AggregationId, keys: &[Box<[u8]>]) {
        let Some(store) = self.generator.sums_store(aggregation) else {
            return;
        };
        let keys = keys
            .iter()
            .map(|k| self.generator.store_key(aggregation, k));
        match &self.running {
            Running::Kernel(kernel) => keys.for_each(|key| kernel.remove(store, &key)),
            Running::Inside(inside) => {
                let keys: Vec<Vec<u8>> = keys.collect();
                inside.borrow_mut().remove(store, &keys);
            }
        }
    }

    /// What found no room.
    pub fn drops(&self) -> Result<Drops, TraceError> {
        match &self.running {
            Running::Kernel(kernel) => kernel.drops(),
            Running::Inside(inside) => Ok(inside.borrow().drops()),
        }
    }

    /// Where the programs run.
    pub fn engine(&self) -> Engine {
        match self.running {
            Running::Kernel(_) => Engine::Kernel,
            Running::Inside(_) => Engine::Process,
        }
    }

    /// The code of a process whose stacks were taken, which may be over, and by which path each file can be read.
    pub fn mappings(&self, pid: u32) -> Vec<(Mapping, PathBuf)> {
        match &self.running {
            Running::Kernel(kernel) => kernel.mappings(pid),
            Running::Inside(_) => Vec::new(),
        }
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

fn code_site(what: &Code, generator: &mut Generator<'_>) -> Site {
    match what {
        Code::Entry => Site::Entry,
        Code::Return => Site::Return,
        Code::Instruction => Site::Offset,
        Code::Static { operands, .. } => generator.static_site(operands),
    }
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
