//! The stacks and functions that most thread time went to.
use crate::analysis::Analysis;
use crate::names::{FunctionId, Names, PathId};
use crate::profile::SyscallId;
use crate::state::{State, Times};
use rustc_hash::{FxHashMap, FxHashSet};

/// Time of like threads in one state at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotStack {
    /// Position in [`crate::Groups::labels`].
    pub label: usize,
    /// What the threads did.
    pub state: State,
    /// The system call they were in.
    pub syscall: SyscallId,
    /// Where: functions, outermost first, recursion folded (see [`loop_erased`]).
    pub path: Vec<FunctionId>,
    /// How long in all, ns.
    pub weight_ns: u64,
    /// How many waits; 0 on a processor.
    pub waits: u64,
    /// The longest single wait, ns.
    pub max_wait_ns: u64,
    /// True for the waits of an idle pool.
    pub idle: bool,
}

/// Stacks that differ only in addresses or in the depth of a recursion joined, the longest first.
pub fn stacks(analysis: &Analysis<'_>, wanted: impl Fn(State) -> bool) -> Vec<HotStack> {
    let shapes = Shapes::of(&analysis.names);
    let mut merged: FxHashMap<(usize, State, SyscallId, u32, bool), HotStack> =
        FxHashMap::default();
    let entries = analysis.profile.entries.iter().zip(&analysis.idle.folded);
    for (entry, idle) in entries.filter(|(e, _)| wanted(e.state)) {
        let label = analysis.groups.label_of_thread(entry.thread as usize);
        let shape = shapes.of_path[analysis.names.path_of(entry.stack) as usize];
        let key = (label, entry.state, entry.syscall, shape, *idle);
        let stack = merged.entry(key).or_insert_with(|| HotStack {
            label,
            state: entry.state,
            syscall: entry.syscall,
            path: shapes.shapes[shape as usize].clone(),
            weight_ns: 0,
            waits: 0,
            max_wait_ns: 0,
            idle: *idle,
        });
        stack.weight_ns = stack.weight_ns.saturating_add(entry.weight_ns);
        stack.waits = stack.waits.saturating_add(entry.waits);
        stack.max_wait_ns = stack.max_wait_ns.max(entry.max_wait_ns);
    }
    let mut stacks: Vec<HotStack> = merged.into_values().collect();
    stacks.sort_unstable_by(|a, b| {
        let key = |s: &HotStack| {
            (
                std::cmp::Reverse(s.weight_ns),
                s.label,
                s.state,
                s.syscall,
                s.idle,
            )
        };
        key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path))
    });
    stacks
}

/// A path without what a recursion adds: where a function is met again, what lies between is left
/// out. `main search search qsearch eval` becomes `main search qsearch eval`, whatever the depth.
pub fn loop_erased(path: &[FunctionId]) -> Vec<FunctionId> {
    let mut kept: Vec<FunctionId> = Vec::with_capacity(path.len());
    for function in path {
        match kept.iter().position(|known| known == function) {
            Some(place) => kept.truncate(place + 1),
            None => kept.push(*function),
        }
    }
    kept
}

/// The distinct loop-erased paths.
struct Shapes {
    shapes: Vec<Vec<FunctionId>>,
    /// By path.
    of_path: Vec<u32>,
}

impl Shapes {
    fn of(names: &Names) -> Shapes {
        let mut ids: FxHashMap<Vec<FunctionId>, u32> = FxHashMap::default();
        let mut shapes = Vec::new();
        let of_path = (0..names.path_count()).map(|path| {
            let shape = loop_erased(names.path(path as PathId));
            *ids.entry(shape).or_insert_with_key(|shape| {
                shapes.push(shape.clone());
                shapes.len() as u32 - 1
            })
        });
        Shapes {
            of_path: of_path.collect(),
            shapes,
        }
    }
}

/// Time of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotFunction {
    /// Which.
    pub function: FunctionId,
    /// Time with it innermost.
    pub own: Times,
    /// Time with it anywhere on the stack; counted once where it calls itself.
    pub total: Times,
}

/// Every function of the profile, in no order. Waits of idle pools are left out when asked.
pub fn functions(analysis: &Analysis<'_>, with_idle: bool) -> Vec<HotFunction> {
    let mut by_path = vec![Times::default(); analysis.names.path_count()];
    for (entry, idle) in analysis.profile.entries.iter().zip(&analysis.idle.folded) {
        if with_idle || !idle {
            let path = analysis.names.path_of(entry.stack);
            by_path[path as usize].add(entry.state, entry.weight_ns);
        }
    }
    let mut functions: FxHashMap<FunctionId, HotFunction> = FxHashMap::default();
    let mut seen = FxHashSet::default();
    for (path, times) in by_path
        .iter()
        .enumerate()
        .filter(|(_, times)| times.total() > 0)
    {
        let path = analysis.names.path(path as PathId);
        seen.clear();
        for function in path.iter().copied().filter(|f| seen.insert(*f)) {
            hot(&mut functions, function).total.add_all(times);
        }
        if let Some(innermost) = path.last() {
            hot(&mut functions, *innermost).own.add_all(times);
        }
    }
    functions.into_values().collect()
}

fn hot(
    functions: &mut FxHashMap<FunctionId, HotFunction>,
    function: FunctionId,
) -> &mut HotFunction {
    functions.entry(function).or_insert(HotFunction {
        function,
        own: Times::default(),
        total: Times::default(),
    })
}
