//! The natural loops of a function.
use crate::function::Function;
use std::collections::HashSet;

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
        let mut marks = vec![Mark::None; function.len()];
        // From the entry, and then from whatever only an indirect jump leads to.
        for first in 0..function.len() {
            let successors = |i: usize| function.successors(i).iter();
            let back = |tail, header| back_edges.push((header, tail));
            walk(first, &mut marks, successors, back);
        }
        back_edges.sort_unstable();
        back_edges.dedup();
        let mut finder = Finder {
            function,
            seen: vec![0; function.len()],
            edge: 0,
            left: MAX_ALL,
        };
        let mut loops: Vec<Loop> = back_edges
            .iter()
            .filter_map(|&(header, tail)| finder.natural(tail, header))
            .collect();
        let order = |l: &Loop| (l.body.len(), l.body[0], l.header);
        loops.sort_by(|a, b| order(a).cmp(&order(b)).then_with(|| a.body.cmp(&b.body)));
        loops.dedup();
        Loops { loops, back_edges }
    }
}

struct Finder<'f> {
    function: &'f Function,
    /// By instruction: the last edge, counted from 1, in whose loop it was seen.
    seen: Vec<usize>,
    /// The edge that is looked at.
    edge: usize,
    /// Instructions that further loops may have together.
    left: usize,
}

impl Finder<'_> {
    /// The natural loop of an edge; none when it has other ways in or is too large.
    fn natural(&mut self, tail: usize, header: usize) -> Option<Loop> {
        self.edge += 1;
        self.seen[header] = self.edge;
        let mut body = vec![header];
        let mut pending = vec![tail];
        while let Some(i) = pending.pop() {
            if std::mem::replace(&mut self.seen[i], self.edge) == self.edge {
                continue;
            }
            body.push(i);
            self.left = self.left.checked_sub(1)?;
            let is_way_in = i == 0 || self.function.predecessors(i).len() == 0;
            if is_way_in || body.len() > MAX_BODY {
                return None;
            }
            pending.extend(self.function.predecessors(i));
        }
        body.sort_unstable();
        Some(Loop { header, body })
    }
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

/// Instructions of a function, of which there are `count`, where a loop begins on a walk from `first`.
pub(crate) fn headers<E: DoubleEndedIterator<Item = usize>>(
    first: usize,
    count: usize,
    edges: impl Fn(usize) -> E,
) -> Vec<usize> {
    let mut found = Vec::new();
    walk(first, &mut vec![Mark::None; count], edges, |_, header| {
        found.push(header);
    });
    found
}

#[derive(Clone, Copy, PartialEq)]
enum Mark {
    /// Not met yet.
    None,
    /// On the way from the first instruction to the present one.
    Open,
    Done,
}

/// Walks in depth from `first` through what has no mark yet, telling the edges that go back.
fn walk<E: DoubleEndedIterator<Item = usize>>(
    first: usize,
    marks: &mut [Mark],
    edges: impl Fn(usize) -> E,
    mut back: impl FnMut(usize, usize),
) {
    if marks[first] != Mark::None {
        return;
    }
    marks[first] = Mark::Open;
    let mut path = vec![(first, edges(first))];
    while let Some((i, rest)) = path.last_mut() {
        let i = *i;
        let Some(next) = rest.next_back() else {
            marks[i] = Mark::Done;
            path.pop();
            continue;
        };
        match marks[next] {
            Mark::None => {
                marks[next] = Mark::Open;
                path.push((next, edges(next)));
            }
            Mark::Open => back(i, next),
            Mark::Done => {}
        }
    }
}
