//! The natural loops of a function.
use crate::function::Function;
use std::collections::{HashMap, HashSet};

/// Instructions of a loop at most. The longest waits that compilers make of lock code have some 60.
const MAX_BODY: usize = 256;

/// Instructions that all loops of a function may have together; past that, loops are left out.
const MAX_ALL: usize = 1 << 19;

/// All that reaches the tail of an edge without passing its header, through which alone one gets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub header: usize,
    /// Instructions, by number, in order; the header is one of them.
    pub body: Vec<usize>,
}

impl Loop {
    pub fn contains(&self, i: usize) -> bool {
        self.body.binary_search(&i).is_ok()
    }

    /// What of the loop is left when some of its instructions are never reached; none when nothing
    /// goes round any more.
    pub fn without(&self, function: &Function, avoided: &[usize]) -> Option<Loop> {
        let stays = |i: &usize| self.contains(*i) && !avoided.contains(i);
        let forward = |i: usize| function.successors(i).iter().filter(stays).collect();
        let back = |i: usize| function.predecessors(i).filter(stays).collect();
        if !stays(&self.header) {
            return None;
        }
        let reached = reach(self.header, forward);
        let turns = function
            .predecessors(self.header)
            .filter(|tail| reached.contains(tail));
        let mut body: Vec<usize> = turns
            .flat_map(|tail| reach_until(tail, self.header, &back))
            .filter(|i| reached.contains(i))
            .collect();
        body.sort_unstable();
        body.dedup();
        (!body.is_empty()).then_some(Loop {
            header: self.header,
            body,
        })
    }

    /// Whether `inner` is a smaller part of this loop.
    pub fn encloses(&self, inner: &Loop) -> bool {
        inner.body.len() < self.body.len() && inner.body.iter().all(|&i| self.contains(i))
    }
}

/// What goes round in a function.
pub(crate) struct Loops {
    /// Its natural loops, smallest first.
    pub loops: Vec<Loop>,
    /// Edges that go back, as (header, tail), in order; also those of loops that are too large.
    pub back_edges: Vec<(usize, usize)>,
}

impl Loops {
    /// An edge to an instruction that dominates its source goes back on every walk in depth, so those
    /// that go back on one are enough to try.
    pub fn of(function: &Function) -> Self {
        let mut back_edges = Vec::new();
        let mut marks = HashMap::new();
        // From the entry, and then from whatever only an indirect jump leads to.
        for first in 0..function.len() {
            let successors = |i: usize| function.successors(i).iter().collect();
            let back = |tail, header| back_edges.push((header, tail));
            walk(first, &mut marks, successors, back);
        }
        back_edges.sort_unstable();
        back_edges.dedup();
        let mut left = MAX_ALL;
        let mut loops: Vec<Loop> = back_edges
            .iter()
            .filter_map(|&(header, tail)| natural(function, tail, header, &mut left))
            .collect();
        let order = |l: &Loop| (l.body.len(), l.body[0], l.header);
        loops.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.body.cmp(&b.body)));
        loops.dedup();
        Loops { loops, back_edges }
    }
}

/// The natural loop of an edge; none when it has other ways in or is too large.
fn natural(function: &Function, tail: usize, header: usize, left: &mut usize) -> Option<Loop> {
    let mut body = HashSet::from([header]);
    let mut pending = vec![tail];
    while let Some(i) = pending.pop() {
        if !body.insert(i) {
            continue;
        }
        *left = left.checked_sub(1)?;
        let is_way_in = i == 0 || function.predecessors(i).len() == 0;
        if is_way_in || body.len() > MAX_BODY {
            return None;
        }
        pending.extend(function.predecessors(i));
    }
    let mut body: Vec<usize> = body.into_iter().collect();
    body.sort_unstable();
    Some(Loop { header, body })
}

/// All that some edges lead to, `from` included.
fn reach(from: usize, edges: impl Fn(usize) -> Vec<usize>) -> HashSet<usize> {
    reach_until(from, usize::MAX, &edges)
}

/// The same, but nothing behind `last`.
fn reach_until(from: usize, last: usize, edges: &impl Fn(usize) -> Vec<usize>) -> HashSet<usize> {
    let mut found = HashSet::new();
    let mut pending = vec![from];
    while let Some(i) = pending.pop() {
        if found.insert(i) && i != last {
            pending.extend(edges(i));
        }
    }
    found
}

/// Instructions where a loop begins on a walk from `first`.
pub(crate) fn headers(first: usize, edges: impl Fn(usize) -> Vec<usize>) -> HashSet<usize> {
    let mut found = HashSet::new();
    walk(first, &mut HashMap::new(), edges, |_, header| {
        found.insert(header);
    });
    found
}

#[derive(PartialEq)]
enum Mark {
    /// On the way from the first instruction to the present one.
    Open,
    Done,
}

/// Walks in depth from `first` through what has no mark yet, telling the edges that go back.
fn walk(
    first: usize,
    marks: &mut HashMap<usize, Mark>,
    edges: impl Fn(usize) -> Vec<usize>,
    mut back: impl FnMut(usize, usize),
) {
    if marks.contains_key(&first) {
        return;
    }
    marks.insert(first, Mark::Open);
    let mut path = vec![(first, edges(first))];
    while let Some((i, rest)) = path.last_mut() {
        let i = *i;
        let Some(next) = rest.pop() else {
            marks.insert(i, Mark::Done);
            path.pop();
            continue;
        };
        match marks.get(&next) {
            None => {
                marks.insert(next, Mark::Open);
                path.push((next, edges(next)));
            }
            Some(Mark::Open) => back(i, next),
            Some(Mark::Done) => {}
        }
    }
}
