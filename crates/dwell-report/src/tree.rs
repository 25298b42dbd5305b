//! Weighted stacks as a tree of named frames: what folded stacks and flame graphs are made from.
use dwell_analysis::names::{Function, StackRef};
use dwell_analysis::{Analysis, Entry, State, Times};
use rustc_hash::FxHashMap;

/// What the tree shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Processes by pid and threads by tid, rather than all with the same name together.
    pub per_thread: bool,
    /// Waits of idle pools in one box instead of their stacks.
    pub fold_idle: bool,
}

/// A frame below the same callers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// As shown, fit for one field of a folded line.
    pub name: String,
    /// Time in it and below.
    pub total: Times,
    /// Time in it and no frame below.
    pub own: Times,
    /// The longest first; the box of idle pools last.
    pub children: Vec<usize>,
}

/// The tree; node 0 is the root over all processes.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub nodes: Vec<Node>,
}

impl Tree {
    pub fn of(analysis: &Analysis<'_>, shape: Shape) -> Tree {
        let mut grow = Grow::new(analysis, shape);
        let mut path = Vec::new();
        for (entry, idle) in analysis.profile.entries.iter().zip(&analysis.idle.folded) {
            path.clear();
            if shape.fold_idle && *idle {
                path.push(grow.idle);
            } else {
                grow.path_of(entry, &mut path);
            }
            grow.add(&path, entry.state, entry.weight_ns);
        }
        grow.finish()
    }
}

/// The name of the box of idle pools starts so.
pub(crate) const IDLE: &str = "[idle pools: ";

/// The names of kernel functions end so.
pub(crate) const KERNEL: &str = "_[k]";

type NameId = u32;

struct Grow<'a, 't> {
    analysis: &'a Analysis<'t>,
    shape: Shape,
    nodes: Vec<Node>,
    /// (parent, name) -> node.
    places: FxHashMap<(usize, NameId), usize>,
    names: Vec<String>,
    name_ids: FxHashMap<String, NameId>,
    /// By function.
    functions: Vec<NameId>,
    idle: NameId,
    /// By thread: the frames above its stacks.
    heads: FxHashMap<u32, [Option<NameId>; 3]>,
}

impl<'a, 't> Grow<'a, 't> {
    fn new(analysis: &'a Analysis<'t>, shape: Shape) -> Grow<'a, 't> {
        let mut grow = Grow {
            analysis,
            shape,
            nodes: vec![Node {
                name: "all".to_owned(),
                ..Node::default()
            }],
            places: FxHashMap::default(),
            names: Vec::new(),
            name_ids: FxHashMap::default(),
            functions: Vec::new(),
            idle: 0,
            heads: FxHashMap::default(),
        };
        let functions = analysis.names.functions.iter();
        grow.functions = functions.map(|f| grow.name(&function_name(f))).collect();
        let threads = analysis.idle.threads();
        let plural = if threads == 1 { "" } else { "s" };
        grow.idle = grow.name(&format!("{IDLE}{threads} thread{plural}]"));
        grow
    }

    fn name(&mut self, name: &str) -> NameId {
        let name = fit_name(name);
        let names = &mut self.names;
        *self.name_ids.entry(name).or_insert_with_key(|name| {
            names.push(name.clone());
            names.len() as NameId - 1
        })
    }

    fn path_of(&mut self, entry: &Entry, path: &mut Vec<NameId>) {
        let heads = match self.heads.get(&entry.thread) {
            Some(heads) => *heads,
            None => {
                let heads = self.heads_of(entry.thread as usize);
                self.heads.insert(entry.thread, heads);
                heads
            }
        };
        path.extend(heads.into_iter().flatten());
        let frames = self
            .analysis
            .names
            .path(self.analysis.names.path_of(entry.stack));
        path.extend(frames.iter().map(|f| self.functions[*f as usize]));
        if let Some(leaf) = state_frame(entry, self.analysis.profile.syscall(entry)) {
            path.push(self.name(&leaf));
        }
    }

    /// Process, thread group and, where wanted, thread.
    fn heads_of(&mut self, thread: usize) -> [Option<NameId>; 3] {
        let analysis = self.analysis;
        let group = &analysis.groups.groups[analysis.groups.of_thread(thread)];
        let process = dwell_analysis::groups::process_name(analysis.tables, group.process);
        if !self.shape.per_thread {
            return [Some(self.name(process)), Some(self.name(&group.name)), None];
        }
        let row = &analysis.tables.threads[thread];
        let pid = group
            .process
            .map_or(0, |p| analysis.tables.processes[p].pid);
        let process = self.name(&format!("{process} ({pid})"));
        let group = self.name(&group.name);
        [
            Some(process),
            Some(group),
            Some(self.name(&format!("{} ({})", row.name, row.tid))),
        ]
    }

    fn add(&mut self, path: &[NameId], state: State, ns: u64) {
        let mut at = 0;
        self.nodes[0].total.add(state, ns);
        for name in path {
            let next = match self.places.get(&(at, *name)) {
                Some(next) => *next,
                None => self.new_child(at, *name),
            };
            self.nodes[next].total.add(state, ns);
            at = next;
        }
        self.nodes[at].own.add(state, ns);
    }

    fn new_child(&mut self, parent: usize, name: NameId) -> usize {
        let child = self.nodes.len();
        self.nodes.push(Node {
            name: self.names[name as usize].clone(),
            ..Node::default()
        });
        self.nodes[parent].children.push(child);
        self.places.insert((parent, name), child);
        child
    }

    fn finish(mut self) -> Tree {
        for node in 0..self.nodes.len() {
            let mut children = std::mem::take(&mut self.nodes[node].children);
            children.sort_by(|a, b| {
                let key = |n: &Node| (n.name.starts_with(IDLE), std::cmp::Reverse(n.total.total()));
                let (a, b) = (&self.nodes[*a], &self.nodes[*b]);
                key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
            });
            self.nodes[node].children = children;
        }
        Tree { nodes: self.nodes }
    }
}

fn function_name(function: &Function) -> String {
    if function.kernel {
        format!("{}{KERNEL}", function.name)
    } else {
        function.name.clone()
    }
}

/// The frame that says what a thread did at the end of a stack: `[blocked: lock futex]`, `[runnable]`,
/// `[spinning]`; none while it ran otherwise, and none where the stack says so already.
fn state_frame(entry: &Entry, syscall: &str) -> Option<String> {
    match (entry.state, syscall) {
        (State::Running, _) => None,
        (State::Spinning, _) => Some("[spinning]".to_owned()),
        (State::Lost, _) => {
            (!matches!(entry.stack, StackRef::Missing(_))).then(|| "[lost]".to_owned())
        }
        (State::Runnable, _) => Some("[runnable]".to_owned()),
        (State::Blocked(reason), "") => Some(format!("[blocked: {}]", reason.name())),
        (State::Blocked(reason), syscall) => {
            Some(format!("[blocked: {} {syscall}]", reason.name()))
        }
    }
}

/// A name that is one field of a folded line: no `;`, no line breaks, not empty, and no number after a
/// blank at its end, which readers would take for a count.
fn fit_name(name: &str) -> String {
    let mut name: String = name
        .trim()
        .chars()
        .map(|c| {
            if c == ';' {
                ','
            } else if c.is_control() {
                ' '
            } else {
                c
            }
        })
        .collect();
    if name.starts_with('#') {
        name.insert(0, '_');
    }
    if let Some((start, last)) = name.rsplit_once(' ')
        && last.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        name = format!("{start}_{last}");
    }
    if name.is_empty() {
        "[unnamed]".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_a_field() {
        assert_eq!(fit_name("<[u8; 4] as T>::f"), "<[u8, 4] as T>::f");
        assert_eq!(fit_name("worker 12"), "worker_12");
        assert_eq!(fit_name(" a\nb "), "a b");
        assert_eq!(fit_name("# x"), "_# x");
        assert_eq!(fit_name("\n"), "[unnamed]");
    }
}
