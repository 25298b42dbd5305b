//! Stacks of both sides as one tree.
use super::noise::{is_chance, sampling_variance};
use std::ops::Range;

/// A stack, its frames parted by `;`, outermost first, and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub stack: String,
    pub ns: u64,
}

/// Time before and after, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Both {
    pub before: f64,
    pub after: f64,
}

impl Both {
    fn add(&mut self, more: Both) {
        self.before += more.before;
        self.after += more.after;
    }
}

/// A frame below the same callers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    pub name: String,
    /// In it and below.
    pub total: Both,
    /// In it and no frame below.
    pub own: Both,
    /// By name: what is compared stays at its place.
    pub children: Range<usize>,
}

/// The tree; node 0 is the root over all processes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DiffTree {
    pub nodes: Vec<Node>,
    /// What a sample stands for, ns.
    pub sample: Both,
}

impl DiffTree {
    /// Of stacks with their times. The same stack may be there many times.
    pub fn of(mut lines: Vec<(String, Both)>, sample: Both) -> DiffTree {
        lines.sort_by(|(a, _), (b, _)| a.split(';').cmp(b.split(';')));
        let lines: Vec<(Vec<&str>, Both)> = lines
            .iter()
            .map(|(stack, both)| (stack.split(';').collect(), *both))
            .collect();
        let root = Node {
            name: "all".to_owned(),
            ..Node::default()
        };
        let mut tree = DiffTree {
            nodes: vec![root],
            sample,
        };
        let mut open = vec![(0, 0, 0..lines.len())];
        while let Some((node, depth, range)) = open.pop() {
            let first = tree.nodes.len();
            for (name, range) in tree.divide(&lines, node, depth, range) {
                open.push((tree.nodes.len(), depth + 1, range));
                tree.nodes.push(Node {
                    name,
                    ..Node::default()
                });
            }
            tree.nodes[node].children = first..tree.nodes.len();
        }
        tree
    }

    /// Whether chance explains a difference: stacks are samples.
    pub fn is_noise(&self, both: Both) -> bool {
        let variance = sampling_variance(both.before, self.sample.before)
            + sampling_variance(both.after, self.sample.after);
        is_chance(both.before, both.after, variance)
    }

    /// Adds up what passes through a node; its children to be with their lines.
    fn divide(
        &mut self,
        lines: &[(Vec<&str>, Both)],
        node: usize,
        depth: usize,
        range: Range<usize>,
    ) -> Vec<(String, Range<usize>)> {
        let mut children: Vec<(String, Range<usize>)> = Vec::new();
        for at in range {
            let (stack, both) = &lines[at];
            let node = &mut self.nodes[node];
            node.total.add(*both);
            match (stack.get(depth), children.last_mut()) {
                (None, _) => node.own.add(*both),
                (Some(name), Some((known, range))) if known == name => range.end = at + 1,
                (Some(name), _) => children.push(((*name).to_owned(), at..at + 1)),
            }
        }
        children
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_meet_at_their_callers() {
        let line = |stack: &str, before, after| (stack.to_owned(), Both { before, after });
        let tree = DiffTree::of(
            vec![
                line("a;b;c", 1.0, 0.0),
                line("a;b c;d", 2.0, 0.0),
                line("a;b;c", 0.0, 5.0),
                line("a;b", 3.0, 1.0),
            ],
            Both {
                before: 1.0,
                after: 1.0,
            },
        );
        assert!(tree.is_noise(Both {
            before: 4.0,
            after: 0.5
        }));
        assert!(!tree.is_noise(Both {
            before: 40.0,
            after: 20.0
        }));
        let [a] = tree.nodes[0].children.clone().collect::<Vec<_>>()[..] else {
            panic!("one process: {tree:?}")
        };
        assert_eq!(
            tree.nodes[a].total,
            Both {
                before: 6.0,
                after: 6.0
            }
        );
        let children: Vec<&Node> = tree.nodes[a]
            .children
            .clone()
            .map(|n| &tree.nodes[n])
            .collect();
        assert_eq!(children.len(), 2);
        assert_eq!(children[0].name, "b");
        assert_eq!(
            children[0].own,
            Both {
                before: 3.0,
                after: 1.0
            }
        );
        assert_eq!(
            children[0].total,
            Both {
                before: 4.0,
                after: 6.0
            }
        );
        assert_eq!(children[1].name, "b c");
    }
}
