//! The kernel engine: a script's programs loaded, attached, and read.
use crate::enabled::{Enabled, Group};
use crate::error::TraceError;
use crate::inside::Made;
use crate::kernel_types::Account;
use crate::links::{Link, Places};
use crate::maps::{Drops, Maps};
use crate::probes::{At, Code, Probe};
use crate::programs::Loaded;
use crate::ring::Ring;
use crate::thread_time;
use dwell_abi::program::Store;
use dwell_collector::{UserStacks, online_cpus};
use dwell_maps::Mapping;
use dwell_script::codegen::{Generator, MEMORY, NAMES, RECORDS, Site, control};
use dwell_script::schema::{AggregationId, ProbeName, Row};
use dwell_script::typed::Script;
use libbpf_rs::{MapCore, MapFlags};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Programs in the kernel.
pub(crate) struct Kernel {
    // Fields drop in this order: links before the programs and maps they hold.
    links: Vec<Link>,
    /// With the numbers of the probes that share a program.
    programs: Vec<(Site, Vec<u32>, Loaded)>,
    ring: Ring,
    maps: Maps,
    /// The unwinder, if a program takes user stacks.
    stacks: Option<RefCell<UserStacks>>,
}

impl Kernel {
    pub(crate) fn load(
        made: &[(Group, Made)],
        stores: &[Store],
        memory: &[u8],
        buffer: u32,
        probes: &Enabled,
        script: &Script,
    ) -> Result<Kernel, TraceError> {
        let stacks = crate::stacks::load(made, script)?;
        let user_stack = stacks.as_ref().map(UserStacks::subprogram);
        let with_times = made.iter().any(|(_, m)| thread_time::is_asked(&m.program));
        let maps = Maps::create(stores, buffer, with_times)?;
        maps.write(MEMORY, memory)?;
        let mut programs = Vec::new();
        for (group, made) in made {
            let name = probes.probes[&made.members[0].0].0.name.clone();
            let name = full_name(&name);
            let loaded = Loaded::load(group.site, &made.program, &maps, user_stack, &name)?;
            let numbers = made.members.iter().map(|(number, _)| *number).collect();
            programs.push((group.site, numbers, loaded));
        }
        let ring = Ring::new(maps.map(RECORDS))?;
        Ok(Kernel {
            links: Vec::new(),
            programs,
            ring,
            maps,
            stacks: stacks.map(RefCell::new),
        })
    }

    /// Runs BEGIN.
    pub(crate) fn begin(&mut self, probes: &Enabled) -> Result<(), TraceError> {
        let numbers = self.programs.iter().flat_map(|(_, numbers, _)| numbers);
        crate::probes::patched::check(numbers.map(|n| &probes.probes[n].0))?;
        self.run(Site::Begin)
    }

    /// Puts the programs to their probes.
    pub(crate) fn attach(&mut self, probes: &Enabled) -> Result<(), TraceError> {
        // First: a thread that asks is looked after from then on.
        if let Some(table) = self.maps.thread_times() {
            let program = thread_time::keeping(table, &Account::find()?);
            let loaded = Loaded::load(Site::Tracepoint, &program, &self.maps, None, "vtimestamp")?;
            self.links.push(Link::tracepoint(&loaded, "sched_switch")?);
        }
        for (site, numbers, program) in &self.programs {
            let members: Vec<(u32, &Probe)> = numbers
                .iter()
                .map(|number| (*number, &probes.probes[number].0))
                .collect();
            attach(*site, program, &members, &mut self.links)?;
        }
        self.update_stacks()
    }

    /// Takes in what processes mapped meanwhile.
    fn update_stacks(&self) -> Result<(), TraceError> {
        if let Some(stacks) = &self.stacks {
            stacks.borrow_mut().update()?;
        }
        Ok(())
    }

    /// Takes the programs off their probes.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// Runs END.
    pub(crate) fn end(&self) -> Result<(), TraceError> {
        self.run(Site::End)
    }

    /// The script's memory behind the control words.
    pub(crate) fn variables(&self) -> Result<Vec<u8>, TraceError> {
        let memory = self.maps.read(MEMORY)?;
        Ok(memory[control::ZEROS as usize..].to_vec())
    }

    /// Sets what [`Kernel::variables`] gives.
    pub(crate) fn set_variables(&self, variables: &[u8]) -> Result<(), TraceError> {
        let mut memory = self.maps.read(MEMORY)?;
        memory[control::ZEROS as usize..].copy_from_slice(variables);
        self.maps.write(MEMORY, &memory)
    }

    fn run(&self, site: Site) -> Result<(), TraceError> {
        let mut programs = self.programs.iter().filter(|p| p.0 == site);
        programs.try_for_each(|(_, _, program)| program.run())
    }

    pub(crate) fn rows(
        &self,
        generator: &Generator<'_>,
        store: u32,
        aggregation: AggregationId,
    ) -> Result<Vec<Row>, TraceError> {
        let map = self.maps.map(store);
        let mut parts = Vec::new();
        crate::batches::each_entry(map, &mut |key, values| {
            parts.extend(values.filter_map(|value| generator.row(aggregation, key, value)));
        })?;
        Ok(parts)
    }

    /// A probe's name (`value`) under its number (`key`), for programs to look up.
    pub(crate) fn write_name(&self, key: &[u8], value: &[u8]) -> Result<(), TraceError> {
        let update = self.maps.map(NAMES).update(key, value, MapFlags::ANY);
        update.map_err(TraceError::bpf("writing the names of probes"))
    }

    /// Forgets a key of a store; one that is gone already is what was wanted.
    pub(crate) fn remove(&self, store: u32, key: &[u8]) {
        let _ = self.maps.map(store).delete(key);
    }

    /// See [`crate::Session::wait`].
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool, TraceError> {
        let Some(stacks) = &self.stacks else {
            return self.ring.wait(timeout);
        };
        let until = Instant::now() + timeout;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            stacks.borrow_mut().wait(self.ring.descriptor(), left)?;
            if self.ring.wait(Duration::ZERO)? {
                return Ok(true);
            }
            if left.is_zero() {
                return Ok(false);
            }
        }
    }

    /// See [`crate::Session::drain`].
    pub(crate) fn drain(&self, take: &mut dyn FnMut(&[u8])) -> Result<(), TraceError> {
        self.ring.drain(take)
    }

    /// See [`crate::Session::method_at`].
    pub(crate) fn method_at(&self, pid: u32, word: u64) -> Option<(&'static str, String, u64)> {
        let stacks = self.stacks.as_ref()?;
        stacks.borrow_mut().method_at(pid, word)
    }

    /// See [`crate::Session::mappings`].
    pub(crate) fn mappings(&self, pid: u32) -> Vec<(Mapping, PathBuf)> {
        let stacks = self.stacks.as_ref();
        stacks.map_or(Vec::new(), |stacks| stacks.borrow().mappings(pid))
    }

    /// What found no room.
    pub(crate) fn drops(&self) -> Result<Drops, TraceError> {
        self.maps.drops()
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
                for cpu in online_cpus() {
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

fn full_name(name: &ProbeName) -> String {
    let ProbeName {
        provider,
        module,
        function,
        name,
    } = name;
    format!("{provider}:{module}:{function}:{name}")
}
