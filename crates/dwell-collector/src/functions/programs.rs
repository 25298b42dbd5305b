//! The programs at the functions: load, attach, read, detach. See `bpf/functions.bpf.c`.
use super::error::FunctionsError;
use super::names;
use crate::error::CollectError;
use crate::programs::{Embedded, add_target, info, map, program, quiet_libbpf};
use crate::records::words;
use libbpf_rs::{Link, Map, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::AsFd;

static OBJECT: &Embedded<[u8]> = &Embedded(*include_bytes!(concat!(
    env!("OUT_DIR"),
    "/functions.bpf.o"
)));

/// Functions that can be traced at once (`FUNCTIONS` in C).
pub const MAX_FUNCTIONS: usize = 64;
/// Maps that the programs of all functions use together.
const SHARED: [&str; 6] = ["sums", "calls", "callers", "stacks", "targets", "busy"];
/// Words of `struct function_sums` before the buckets.
const SUMS: usize = 8;
/// Buckets of the histogram: by the highest bit of a time in ns.
const BUCKETS: usize = 64;

/// Programs at functions, counting since [`Functions::attach`]. Dropping it takes everything back.
pub struct Functions {
    traced: Vec<Traced>,
}

/// What was counted of one function.
#[derive(Clone, Debug, Default)]
pub struct FunctionCalls {
    /// Its name.
    pub name: String,
    /// Calls that were counted.
    pub calls: u64,
    /// Of these, calls that have returned and were timed.
    pub timed: u64,
    /// Time between entry and return of all timed calls, ns, what they call included.
    pub total_ns: u64,
    /// The longest of them, ns.
    pub max_ns: u64,
    /// Timed calls by the highest bit of their ns: entry `n` counts those from 2^n to 2^(n+1).
    pub buckets: Vec<u64>,
    /// Where calls came from, most calls first.
    pub callers: Vec<Callers>,
    /// Calls that the kernel kept from our program, since it ran on that processor already. With
    /// processes to select these are of any process.
    pub missed: u64,
    /// Calls while one of our programs ran: from within it, or by an interrupt. They are in no count.
    pub own: u64,
    /// Counted calls that found no room to be timed.
    pub untimed: u64,
    /// Counted calls without a known caller.
    pub without_caller: u64,
    /// Returns of calls that began before we were there, or whose entry was missed.
    pub unknown_returns: u64,
}

impl FunctionCalls {
    /// Counted calls that had not returned at the end (or whose return was missed).
    pub fn unfinished(&self) -> u64 {
        self.calls.saturating_sub(self.timed + self.untimed)
    }
}

/// Calls from one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Callers {
    /// Kernel addresses, innermost first: of our program, of the function, of its caller and so on.
    pub frames: Vec<u64>,
    /// Calls that were counted.
    pub calls: u64,
    /// Time of those that have returned, ns.
    pub total_ns: u64,
}

impl Functions {
    /// Puts programs at functions. `pids` (processes, all their threads) select calls; none is all.
    /// A function named twice is traced once.
    pub fn attach(names: &[String], pids: &[u32]) -> Result<Functions, FunctionsError> {
        let mut wanted: Vec<&str> = Vec::new();
        for name in names {
            if !wanted.contains(&name.as_str()) {
                wanted.push(name);
            }
        }
        if wanted.len() > MAX_FUNCTIONS {
            return Err(FunctionsError::TooMany(wanted.len()));
        }
        let mut traced: Vec<Traced> = Vec::new();
        for (index, name) in (0..).zip(&wanted) {
            let owner = Owner {
                first: traced.first().map(|t| &t.object),
                filtered: !pids.is_empty(),
            };
            let one = Traced::load(name, index, Some(&owner)).map_err(|f| explain(name, f))?;
            if index == 0 {
                select(&one.object, pids)?;
            }
            traced.push(one);
        }
        for one in &mut traced {
            if let Err(failure) = one.attach() {
                return Err(explain(&one.name, failure));
            }
        }
        Ok(Functions { traced })
    }

    /// Takes the programs back; what they counted stays readable.
    pub fn detach(&mut self) {
        for one in &mut self.traced {
            one.detach();
        }
    }

    /// What was counted, in the order the functions were named.
    pub fn read(&self) -> Result<Vec<FunctionCalls>, CollectError> {
        let Some(first) = self.traced.first() else {
            return Ok(Vec::new());
        };
        let mut callers = callers(&first.object)?;
        let mut all = Vec::new();
        for (index, one) in (0u32..).zip(&self.traced) {
            let mut calls = sums(&map(&first.object, "sums")?, index)?;
            calls.name.clone_from(&one.name);
            calls.missed = one.missed();
            calls.callers = callers.remove(&index).unwrap_or_default();
            calls
                .callers
                .sort_by_key(|c| (std::cmp::Reverse(c.calls), c.frames.clone()));
            all.push(calls);
        }
        Ok(all)
    }
}

/// Tells what a failure means for a function.
pub(super) fn explain(name: &str, failure: Failure) -> FunctionsError {
    if let Err(unsupported) = super::support::probe() {
        return unsupported;
    }
    let near = || names::near(name);
    let why = match failure {
        Failure::NoSuchFunction if !names::is_symbol(name) => {
            return FunctionsError::Unknown {
                name: name.into(),
                near: near(),
            };
        }
        Failure::NoSuchFunction => {
            "the kernel has no type information for it (compilers make such parts of functions)"
                .into()
        }
        _ if names::is_traceable(name) == Some(false) => {
            "the kernel does not let it be traced (notrace)".into()
        }
        failure => failure.to_string(),
    };
    FunctionsError::Refused {
        name: name.into(),
        why,
        near: near(),
    }
}

/// Whose maps a function's programs use, and what all of them do alike.
pub(super) struct Owner<'a> {
    first: Option<&'a Object>,
    filtered: bool,
}

/// Programs of one function.
pub(super) struct Traced {
    // Fields drop in this order: links before the object whose programs they hold.
    links: Vec<Link>,
    object: Object,
    name: String,
    /// Entries that the kernel kept from the program, as of its end.
    missed: Option<u64>,
}

/// Why a function's programs are not there.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error("no such function")]
    NoSuchFunction,
    #[error("the kernel refused the programs: {0}")]
    Load(libbpf_rs::Error),
    #[error("the kernel refused to attach a program to a function: {0}")]
    Attach(libbpf_rs::Error),
}

impl Traced {
    /// Loads the programs of a function, the `index`-th.
    pub fn load(name: &str, index: u32, owner: Option<&Owner<'_>>) -> Result<Traced, Failure> {
        quiet_libbpf();
        let mut open = ObjectBuilder::default()
            .open_memory(&OBJECT.0)
            .map_err(Failure::Load)?;
        // `function` and `filtered`, which lie in this order.
        let [a, b, c, d] = index.to_ne_bytes();
        let filtered = owner.is_some_and(|o| o.filtered);
        set_constants(&mut open, &[a, b, c, d, filtered.into()]).map_err(Failure::Load)?;
        if let Some(first) = owner.and_then(|o| o.first) {
            share_maps(&mut open, first).map_err(Failure::Load)?;
        }
        for mut program in open.progs_mut() {
            let named = program.set_attach_target(0, Some(name.to_owned()));
            named.map_err(|_| Failure::NoSuchFunction)?;
        }
        let object = open.load().map_err(Failure::Load)?;
        Ok(Traced {
            links: Vec::new(),
            object,
            name: name.to_owned(),
            missed: None,
        })
    }

    /// Attaches them: the exit first, so that no counted call ends unseen.
    pub fn attach(&mut self) -> Result<(), Failure> {
        for name in ["on_exit", "on_entry"] {
            let program = program(&self.object, name).map_err(|_| Failure::NoSuchFunction)?;
            self.links
                .push(program.attach_trace().map_err(Failure::Attach)?);
        }
        Ok(())
    }

    fn detach(&mut self) {
        self.missed = Some(self.missed());
        // The entry first: the last one attached.
        while self.links.pop().is_some() {}
    }

    fn missed(&self) -> u64 {
        self.missed
            .unwrap_or_else(|| missed(&self.object, "on_entry"))
    }
}

/// Fills the constants of an object, from the first on.
pub(super) fn set_constants(open: &mut OpenObject, values: &[u8]) -> Result<(), libbpf_rs::Error> {
    for mut map in open.maps_mut() {
        if map.name().to_string_lossy().ends_with(".rodata") {
            let initial = map.initial_value_mut();
            let mut bytes = initial.map(|b| b.to_vec()).unwrap_or_default();
            bytes[..values.len()].copy_from_slice(values);
            map.set_initial_value(&bytes)?;
        }
    }
    Ok(())
}

/// Calls that the kernel kept from a program, since it ran on that processor already.
pub(super) fn missed(object: &Object, name: &str) -> u64 {
    let mut programs = object.progs().filter(|p| p.autoload());
    let found = programs.find(|p| p.name() == OsStr::new(name));
    let info = found.and_then(|p| info(p.as_fd()));
    info.map_or(0, |i| i.recursion_misses)
}

fn share_maps(open: &mut OpenObject, first: &Object) -> Result<(), libbpf_rs::Error> {
    for mut map in open.maps_mut() {
        let name = map.name().to_owned();
        if let Some(shared) = first.maps().find(|m| m.name() == name)
            && SHARED.iter().any(|s| name == OsStr::new(s))
        {
            map.reuse_fd(MapHandle::try_from(&shared)?.as_fd())?;
        }
    }
    Ok(())
}

pub(super) fn select(object: &Object, pids: &[u32]) -> Result<(), CollectError> {
    pids.iter().try_for_each(|&pid| add_target(object, pid))
}

/// `struct function_sums`, added up over the processors.
fn sums(map: &Map<'_>, index: u32) -> Result<FunctionCalls, CollectError> {
    let values = map.lookup_percpu(&index.to_ne_bytes(), MapFlags::ANY);
    let values = values.map_err(CollectError::map)?.unwrap_or_default();
    let mut all = FunctionCalls {
        buckets: vec![0; BUCKETS],
        ..FunctionCalls::default()
    };
    for bytes in values {
        let values: Vec<u64> = words(&bytes).collect();
        let (sums, buckets) = values.split_at(SUMS);
        all.calls += sums[0];
        all.timed += sums[1];
        all.total_ns += sums[2];
        all.max_ns = all.max_ns.max(sums[3]);
        all.own += sums[4];
        all.untimed += sums[5];
        all.without_caller += sums[6];
        all.unknown_returns += sums[7];
        for (sum, n) in all.buckets.iter_mut().zip(buckets) {
            *sum += n;
        }
    }
    Ok(all)
}

/// Callers by the index of the function.
fn callers(object: &Object) -> Result<HashMap<u32, Vec<Callers>>, CollectError> {
    let (callers, stacks) = (map(object, "callers")?, map(object, "stacks")?);
    let mut all: HashMap<u32, Vec<Callers>> = HashMap::new();
    for key in callers.keys() {
        let values = callers.lookup_percpu(&key, MapFlags::ANY);
        let values = values.map_err(CollectError::map)?.unwrap_or_default();
        let [function, stack] = [0, 4].map(|at| key[at..at + 4].to_vec());
        let frames = stacks
            .lookup(&stack, MapFlags::ANY)
            .map_err(CollectError::map)?;
        let frames = frames.unwrap_or_default();
        let sum = |at: usize| values.iter().filter_map(|v| words(v).nth(at)).sum();
        let function = u32::from_ne_bytes(function.try_into().expect("four bytes"));
        all.entry(function).or_default().push(Callers {
            frames: words(&frames).take_while(|pc| *pc != 0).collect(),
            calls: sum(0),
            total_ns: sum(1),
        });
    }
    Ok(all)
}
