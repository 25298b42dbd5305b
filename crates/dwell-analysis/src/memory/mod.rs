//! The ledger of memory: what getting and giving back memory costs, by the stack that causes it.
//!
//! Counts are the kernel's, exact (`memory_places`). Processor time is the exact running time of the threads, divided by
//! their samples: a sample in the kernel belongs to the component that its functions tell ([`components`]). So
//! `program + memory + other work of the kernel = running time` holds to the nanosecond, and what is uncertain is only how
//! it divides. Time that other processors spend on shootdowns is measured by the clock, beside that sum; what threads of
//! the kernel spend is attributed in proportion to the pages that were allocated, in a column of its own.
pub mod components;
mod sums;

use crate::analysis::Analysis;
use crate::apportion::{apportion, scaled};
use crate::names::{FunctionId, PathId, StackRef};
use crate::state::State;
pub use components::Component;
use components::{Work, work};
use dwell_recording::rows::MemoryPlaceRow;
use dwell_recording::rows::state::RUNNING;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;
pub use sums::Sums;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Everything that is known of memory's costs.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// All time on a processor, ns: the next three together.
    pub running_ns: u64,
    /// Of it, in the program itself, or not sampled.
    pub program_ns: u64,
    /// In the kernel, for memory.
    pub memory_ns: u64,
    /// In the kernel, for anything else.
    pub other_kernel_ns: u64,
    /// What `memory_ns` divides into.
    pub components: BTreeMap<Component, u64>,
    /// Samples that `memory_ns` rests on.
    pub samples: u64,
    /// Exact sums of all places.
    pub totals: Sums,
    /// Exact numbers and times of system calls about memory, by name.
    pub calls: BTreeMap<String, Calls>,
    /// By process and user stack, the most costly first.
    pub stacks: Vec<StackCost>,
    /// The kernel's threads, and what of them these processes caused.
    pub attributed: Vec<Attributed>,
    /// Clearing as modelled: every page that was cleared was in a cache, or none was, ns.
    pub clearing_modelled_ns: Option<(u64, u64)>,
}

/// System calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// How many returned.
    pub calls: u64,
    /// Their time on a processor, ns.
    pub ns: u64,
}

/// What a user stack of a process cost.
#[derive(Clone, Debug, Default)]
pub struct StackCost {
    /// Position in `processes`; none for threads of an unknown one.
    pub process: Option<usize>,
    /// The functions, outermost first; empty where no stack was taken.
    pub path: Vec<FunctionId>,
    /// True for what a process' end gives back: it has no stack.
    pub at_end: bool,
    /// Processor time for memory, ns.
    pub ns: u64,
    /// The same by component.
    pub components: BTreeMap<Component, u64>,
    /// Exact sums.
    pub sums: Sums,
}

/// What of a thread of the kernel is attributed to the recorded processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributed {
    /// The thread's name.
    pub name: String,
    /// What it cost in the window, ns.
    pub cpu_ns: u64,
    /// The part that is attributed.
    pub charged_ns: u64,
}

/// Whose cost: a stack of a process, or its end.
type Key = (Option<usize>, bool, Vec<FunctionId>);

/// The ledger; none unless it was recorded.
pub fn ledger(analysis: &Analysis<'_>) -> Option<Ledger> {
    let costs = analysis.tables.meta.memory.as_ref()?;
    let mut ledger = Ledger::default();
    let mut stacks: FxHashMap<Key, StackCost> = FxHashMap::default();
    let callers = callers(analysis);
    add_time(&mut ledger, &mut stacks, analysis, &callers);
    for row in &analysis.tables.memory_places {
        add_place(&mut ledger, &mut stacks, analysis, row);
    }
    // What they allocate themselves they do for others.
    let of_machine = costs
        .machine_allocated_pages
        .saturating_sub(costs.kernel_allocated_pages)
        .max(1);
    let own = ledger.totals.allocated_pages.min(of_machine);
    ledger.attributed = costs
        .kernel_threads
        .iter()
        .map(|t| Attributed {
            name: t.name.clone(),
            cpu_ns: t.cpu_ns,
            charged_ns: scaled(t.cpu_ns, own, of_machine).unwrap_or(0),
        })
        .collect();
    let cleared = (ledger.totals.zeroed_pages + ledger.totals.zeroed_huge_pages) as f64;
    ledger.clearing_modelled_ns = Some((
        (cleared * costs.clear_cached_ns) as u64,
        (cleared * costs.clear_uncached_ns) as u64,
    ));
    ledger.samples = samples(analysis, &callers);
    ledger.stacks = in_order(stacks);
    Some(ledger)
}

/// Stacks on which threads worked for memory, with what they worked at, in the order of their ids; empty where the ledger was
/// not recorded. Of a stack that several processes have, the first that it was met in decides.
pub fn stacks_at_work(analysis: &Analysis<'_>) -> Vec<(PathId, Component)> {
    if analysis.tables.meta.memory.is_none() {
        return Vec::new();
    }
    let callers = callers(analysis);
    let mut works: BTreeMap<PathId, Work> = BTreeMap::new();
    let entries = analysis.profile.entries.iter();
    for entry in entries.filter(|e| e.state.on_cpu()) {
        let path = analysis.names.path_of(entry.stack);
        works.entry(path).or_insert_with(|| {
            let process = analysis.tables.threads[entry.thread as usize].process;
            let process = analysis.index.process(process);
            work_of(analysis, analysis.names.path(path), process, &callers)
        });
    }
    let works = works.into_iter();
    let of_memory = works.filter_map(|(path, work)| match work {
        Work::Memory(component) => Some((path, component)),
        _ => None,
    });
    of_memory.collect()
}

fn in_order(stacks: FxHashMap<Key, StackCost>) -> Vec<StackCost> {
    let mut stacks: Vec<(Key, StackCost)> = stacks
        .into_iter()
        .map(|(key, cost)| {
            let (process, at_end, path) = key.clone();
            (
                key,
                StackCost {
                    process,
                    path,
                    at_end,
                    ..cost
                },
            )
        })
        .collect();
    stacks.sort_unstable_by(|(a_key, a), (b_key, b)| {
        let by_cost = |c: &StackCost| {
            let pages = c.sums.allocated_pages.saturating_add(c.sums.freed_pages);
            Reverse((c.ns, pages, c.sums.minor_faults))
        };
        by_cost(a).cmp(&by_cost(b)).then_with(|| a_key.cmp(b_key))
    });
    stacks.into_iter().map(|(_, cost)| cost).collect()
}

/// User stacks, with their processes, at which calls about memory were made. What calls a thread is in tells no function of
/// the kernel's on its way in and out: there it is such a call's if its user stack is one of these.
type Callers<'a> = FxHashSet<(Option<usize>, &'a [FunctionId])>;

fn callers<'a>(analysis: &'a Analysis<'_>) -> Callers<'a> {
    let calls = analysis.tables.memory_places.iter().filter(|p| p.calls > 0);
    let stacks = calls.flat_map(|place| {
        let process = analysis.index.process(place.process);
        place.stacks.iter().map(move |id| (process, *id))
    });
    let paths = stacks.filter_map(|(process, id)| {
        let stack = StackRef::Taken(analysis.index.stack(id)? as u32);
        let path = analysis.names.path(analysis.names.path_of(stack));
        Some((process, user_part(analysis, path)))
    });
    paths.collect()
}

/// What a thread of a process is at; calls about memory are known by their callers too.
fn work_of(
    analysis: &Analysis<'_>,
    path: &[FunctionId],
    process: Option<usize>,
    callers: &Callers<'_>,
) -> Work {
    match work(analysis, path) {
        Work::Other if callers.contains(&(process, user_part(analysis, path))) => {
            Work::Memory(Component::Entry)
        }
        work => work,
    }
}

/// Divides the time on processors.
fn add_time(
    ledger: &mut Ledger,
    stacks: &mut FxHashMap<Key, StackCost>,
    analysis: &Analysis<'_>,
    callers: &Callers<'_>,
) {
    let on_cpu = |state: State| state.on_cpu();
    for entry in analysis.profile.entries.iter().filter(|e| on_cpu(e.state)) {
        let path = analysis.names.path(analysis.names.path_of(entry.stack));
        ledger.running_ns = ledger.running_ns.saturating_add(entry.weight_ns);
        let thread = &analysis.tables.threads[entry.thread as usize];
        let process = analysis.index.process(thread.process);
        let sum = match work_of(analysis, path, process, callers) {
            Work::Program => &mut ledger.program_ns,
            Work::Other => &mut ledger.other_kernel_ns,
            Work::Memory(component) => {
                let user = user_part(analysis, path).to_vec();
                let at_end = component == Component::Exit;
                let key = (process, at_end, if at_end { Vec::new() } else { user });
                let cost = stacks.entry(key).or_default();
                cost.ns = cost.ns.saturating_add(entry.weight_ns);
                *cost.components.entry(component).or_default() += entry.weight_ns;
                *ledger.components.entry(component).or_default() += entry.weight_ns;
                &mut ledger.memory_ns
            }
        };
        *sum = sum.saturating_add(entry.weight_ns);
    }
}

/// The functions of a stack that are not the kernel's.
fn user_part<'p>(analysis: &Analysis<'_>, path: &'p [FunctionId]) -> &'p [FunctionId] {
    let is_kernel = |id: &FunctionId| analysis.names.function(*id).kernel;
    let end = path.iter().position(is_kernel).unwrap_or(path.len());
    &path[..end]
}

/// Samples that lie in the kernel's work for memory.
fn samples(analysis: &Analysis<'_>, callers: &Callers<'_>) -> u64 {
    let mut of_stacks: FxHashMap<(usize, Option<usize>), u64> = FxHashMap::default();
    let samples = analysis.tables.samples.iter();
    for sample in samples.filter(|s| s.state == RUNNING) {
        if let Some(stack) = analysis.index.stack(sample.stack) {
            let thread = analysis.index.thread(sample.thread);
            let process = thread.map(|t| analysis.tables.threads[t].process);
            let process = process.and_then(|id| analysis.index.process(id));
            *of_stacks.entry((stack, process)).or_default() += 1;
        }
    }
    let in_memory = |stack: usize, process| {
        let path = analysis.names.path_of(StackRef::Taken(stack as u32));
        let path = analysis.names.path(path);
        matches!(work_of(analysis, path, process, callers), Work::Memory(_))
    };
    let counted = of_stacks.into_iter();
    let in_memory = counted.filter(|((stack, process), _)| in_memory(*stack, *process));
    in_memory.map(|(_, n)| n).sum()
}

/// Divides the exact sums of a place among its stacks.
fn add_place(
    ledger: &mut Ledger,
    stacks: &mut FxHashMap<Key, StackCost>,
    analysis: &Analysis<'_>,
    row: &MemoryPlaceRow,
) {
    let sums = Sums::of(row);
    ledger.totals.add(&sums);
    if sums.calls > 0 {
        let calls = ledger.calls.entry(row.syscall.clone()).or_default();
        calls.calls = calls.calls.saturating_add(sums.calls);
        calls.ns = calls.ns.saturating_add(sums.call_ns);
    }
    let process = analysis.index.process(row.process);
    let at_end = row.syscall == "exit";
    let mut taken: FxHashMap<Vec<FunctionId>, u64> = FxHashMap::default();
    for id in row.stacks.iter().filter(|_| !at_end) {
        if let Some(stack) = analysis.index.stack(*id) {
            let path = analysis.names.path_of(StackRef::Taken(stack as u32));
            let path = user_part(analysis, analysis.names.path(path));
            *taken.entry(path.to_vec()).or_default() += 1;
        }
    }
    if taken.is_empty() {
        taken.insert(Vec::new(), 1);
    }
    let mut taken: Vec<_> = taken.into_iter().collect();
    taken.sort_unstable();
    let weights: Vec<u64> = taken.iter().map(|(_, n)| *n).collect();
    let parts = sums.divided(|total| apportion(total, &weights), taken.len());
    for ((path, _), part) in taken.into_iter().zip(parts) {
        let cost = stacks.entry((process, at_end, path)).or_default();
        cost.sums.add(&part);
    }
}
