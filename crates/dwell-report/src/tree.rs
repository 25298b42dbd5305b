//! Weighted stacks as a tree of named frames: what folded stacks and flame graphs are made from.
use crate::tree::labels::{Labels, NameId};
use dwell_analysis::{Analysis, Times};
use std::ops::Range;

pub(crate) mod labels;

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
    name: NameId,
    /// Time in it and below.
    pub total: Times,
    /// Time in it and no frame below, ns.
    pub own_ns: u64,
    /// Time in frames below that are left out, ns.
    pub narrow_ns: u64,
    /// The longest first; the box of idle pools last.
    pub children: Range<usize>,
}

/// The tree; node 0 is the root over all processes.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub nodes: Vec<Node>,
    names: Vec<String>,
}

/// The name of the box of idle pools starts so.
pub(crate) const IDLE: &str = "[idle pools: ";

/// The names of kernel functions end so.
pub(crate) const KERNEL: &str = "_[k]";

impl Tree {
    /// Frames with `least_ns` of time and more, and all processes. The time of others stays with their callers.
    pub fn of(analysis: &Analysis<'_>, shape: Shape, least_ns: u64) -> Tree {
        let mut labels = Labels::of(analysis, shape);
        let root = labels.name("all");
        let mut grow = Grow {
            items: items(analysis, shape, &mut labels),
            nodes: vec![Node::default()],
            open: Vec::new(),
            groups: Vec::new(),
            least_ns,
            labels,
        };
        grow.nodes[0].name = root;
        grow.open.push((0, 0, 0..grow.items.len()));
        while let Some((node, depth, range)) = grow.open.pop() {
            grow.divide(node, depth, range);
        }
        Tree {
            nodes: grow.nodes,
            names: grow.labels.into_names(),
        }
    }

    /// As shown, fit for one field of a folded line.
    pub fn name(&self, node: &Node) -> &str {
        &self.names[node.name as usize]
    }

    /// Every stack with its time, in the tree's order.
    pub fn lines(&self) -> Vec<(String, u64)> {
        let mut lines = Vec::new();
        let mut open: Vec<(usize, usize)> = vec![(0, 0)];
        let mut stack = String::new();
        while let Some((node, length)) = open.pop() {
            stack.truncate(length);
            let node_ref = &self.nodes[node];
            if node != 0 {
                if !stack.is_empty() {
                    stack.push(';');
                }
                stack.push_str(self.name(node_ref));
            }
            if node_ref.own_ns > 0 && node != 0 {
                lines.push((stack.clone(), node_ref.own_ns));
            }
            let children = node_ref.children.clone().rev();
            open.extend(children.map(|child| (child, stack.len())));
        }
        lines
    }
}

/// A profile's entry with what ends its stack here.
struct Item {
    /// The name at the depth that is being looked at.
    name: NameId,
    entry: u32,
    /// The state's frame below the stack's own.
    leaf: Option<NameId>,
    /// The whole stack is the box of idle pools.
    idle: bool,
}

fn items(analysis: &Analysis<'_>, shape: Shape, labels: &mut Labels<'_, '_>) -> Vec<Item> {
    let entries = analysis.profile.entries.iter().zip(&analysis.idle.folded);
    entries
        .enumerate()
        .map(|(at, (entry, idle))| Item {
            name: 0,
            entry: at as u32,
            leaf: labels.leaf(entry),
            idle: shape.fold_idle && *idle,
        })
        .collect()
}

/// The tree from the root on: what is too narrow to be kept is never looked into.
struct Grow<'a, 't> {
    items: Vec<Item>,
    nodes: Vec<Node>,
    /// Nodes to divide: the node, its depth, and what passes through it.
    open: Vec<(usize, usize, Range<usize>)>,
    /// Of the node in work: its children to be.
    groups: Vec<(Node, Range<usize>)>,
    least_ns: u64,
    labels: Labels<'a, 't>,
}

impl Grow<'_, '_> {
    /// Puts what passes through a node together by the next frame.
    fn divide(&mut self, node: usize, depth: usize, range: Range<usize>) {
        let mut start = self.bring_forward(node, depth, range.clone());
        while start < range.end {
            start = self.group(node, start, range.end);
        }
        let labels = &self.labels;
        self.groups.sort_by(|(a, _), (b, _)| {
            let key = |n: &Node| (n.name == labels.idle, std::cmp::Reverse(n.total.total()));
            let names = || labels.text(a.name).cmp(labels.text(b.name));
            key(a).cmp(&key(b)).then_with(names)
        });
        let first = self.nodes.len();
        for (child, range) in self.groups.drain(..) {
            self.open.push((self.nodes.len(), depth + 1, range));
            self.nodes.push(child);
        }
        self.nodes[node].children = first..self.nodes.len();
    }

    /// Orders `range` by the name at `depth`. What ends above it comes first and is the node's own; returns where the
    /// rest begins.
    fn bring_forward(&mut self, node: usize, depth: usize, range: Range<usize>) -> usize {
        let entries = &self.labels.analysis.profile.entries;
        let mut own = range.start;
        for at in range.clone() {
            let item = &self.items[at];
            let entry = &entries[item.entry as usize];
            match self.labels.at(item, entry, depth) {
                Some(name) => self.items[at].name = name,
                None => {
                    let node = &mut self.nodes[node];
                    node.own_ns = node.own_ns.saturating_add(entry.weight_ns);
                    self.items.swap(own, at);
                    own += 1;
                }
            }
        }
        self.items[own..range.end].sort_unstable_by_key(|item| item.name);
        own
    }

    /// Takes in the items from `start` on that share a name; returns where they end.
    fn group(&mut self, node: usize, start: usize, end: usize) -> usize {
        let entries = &self.labels.analysis.profile.entries;
        let name = self.items[start].name;
        let mut total = Times::default();
        let rest = &self.items[start..end];
        let count = rest
            .iter()
            .take_while(|item| item.name == name)
            .map(|item| &entries[item.entry as usize])
            .map(|entry| total.add(entry.state, entry.weight_ns))
            .count();
        let ns = total.total();
        if node == 0 {
            self.nodes[0].total.add_all(&total);
        }
        // What has no caller has no place to stay at.
        if ns >= self.least_ns || node == 0 {
            let child = Node {
                name,
                total,
                ..Node::default()
            };
            self.groups.push((child, start..start + count));
        } else {
            let node = &mut self.nodes[node];
            node.narrow_ns = node.narrow_ns.saturating_add(ns);
        }
        start + count
    }
}
