//! The page of a comparison.
use super::shell;
use crate::diff::tree::DiffTree;
use crate::diff::{DiffAnswer, Sides};
use serde::Serialize;
use std::io::{self, Write};

/// What the page is made from.
#[derive(Serialize)]
struct Payload<'a> {
    answer: &'a DiffAnswer,
    nodes: Nodes<'a>,
}

/// The tree of both sides' stacks, the root first; all columns are in step.
#[derive(Serialize)]
struct Nodes<'a> {
    name: Vec<&'a str>,
    /// ns, in it and below.
    before: Vec<f64>,
    after: Vec<f64>,
    /// Children are those from `first` to before `end`.
    first: Vec<usize>,
    end: Vec<usize>,
    /// 1 where chance explains the difference.
    noise: Vec<u8>,
}

/// Writes the page of a comparison.
pub fn write_diff(sides: &Sides, answer: &DiffAnswer, out: &mut impl Write) -> io::Result<()> {
    let tree = sides.tree();
    let payload = Payload {
        answer,
        nodes: nodes(&tree),
    };
    shell::write(&answer.after.target, &payload, &shell::COMPARISON, out)
}

fn nodes(tree: &DiffTree) -> Nodes<'_> {
    let all = &tree.nodes;
    // A part of a ns is not seen, and makes the file long.
    let round = |ns: f64| (10.0 * ns).round() / 10.0;
    Nodes {
        name: all.iter().map(|n| n.name.as_str()).collect(),
        before: all.iter().map(|n| round(n.total.before)).collect(),
        after: all.iter().map(|n| round(n.total.after)).collect(),
        first: all.iter().map(|n| n.children.start).collect(),
        end: all.iter().map(|n| n.children.end).collect(),
        noise: all
            .iter()
            .map(|n| u8::from(tree.is_noise(n.total)))
            .collect(),
    }
}
