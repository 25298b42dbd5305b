//! What waits were really waiting for: chains of wakers followed to their root.
//!
//! Thread A slept over [t0, t1] and B woke it. B's own waits in that time are followed in turn: the
//! time from B's last wake-up e to t1 is B's own (B was running, or runnable until it got a
//! processor); while B slept before e, whoever woke B at e is to blame, and so on through C, D …;
//! then what B did before that sleep. So each wait divides completely into segments, each with a
//! *root*: a running thread, a thread that had no processor, an interrupt, a thread that is not
//! recorded, or nobody. Segments of all waits are added up by path, and the totals of all paths are
//! the total of all waits. A wait too short to be kept looks like running: no path is longer than what
//! was recorded.
use crate::analysis::Analysis;
use crate::apportion::apportion;
use crate::state::Reason;
use crate::waits::Wait;
use crate::wakers::{Waker, waker_of};
use dwell_recording::rows::SliceRow;
use rustc_hash::FxHashMap;

/// Wakers followed at most.
pub const MAX_HOPS: usize = 8;

/// Segments of one wait that are always followed.
pub const LEAST_SEGMENTS: usize = 64;

/// Segments of all waits that are followed beyond these, divided among the waits by their length, so that a wait for a thread
/// with many sleeps is followed through and the whole stays cheap. What is beyond ends as [`Root::Deeper`].
pub const SHARED_SEGMENTS: usize = 4_000_000;

/// A thread that waited, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Link {
    /// Position in [`crate::Groups::labels`].
    pub label: usize,
    /// Why it waited.
    pub reason: Reason,
}

/// Where a chain ends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Root {
    /// A thread that ran, by label.
    Running(usize),
    /// A thread that wanted a processor and had none, by label.
    Runnable(usize),
    /// An interrupt or a thread that is not recorded, or nobody.
    Waker(Waker),
    /// More wakers than [`MAX_HOPS`], or more segments than are followed.
    Deeper,
}

/// Blocked time with the same chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Who waited for whom, the first waiter first.
    pub links: Vec<Link>,
    /// What the last link waited for.
    pub root: Root,
    /// Blocked time, ns (see [`crate::waits`]).
    pub charged_ns: u64,
    /// Number of kept waits with a part in it.
    pub kept: u64,
}

/// The chains of all waits, the longest first.
pub fn chains(analysis: &Analysis<'_>) -> Vec<Chain> {
    let mut totals: FxHashMap<NodeId, (u64, u64)> = FxHashMap::default();
    let mut walk = Walk::new(analysis);
    for wait in &analysis.waits.waits {
        walk.follow(wait);
        let lengths: Vec<u64> = walk.segments.iter().map(|(_, ns)| *ns).collect();
        for ((node, _), ns) in walk
            .segments
            .iter()
            .zip(apportion(wait.charged_ns, &lengths))
        {
            let (charged_ns, kept) = totals.entry(*node).or_default();
            *charged_ns = charged_ns.saturating_add(ns);
            *kept += 1;
        }
    }
    let mut chains: Vec<Chain> = totals
        .into_iter()
        .map(|(node, (charged_ns, kept))| walk.chain(node, charged_ns, kept))
        .collect();
    sort(&mut chains);
    chains
}

/// The chains of one wait, the longest first; they add up to its blocked time.
pub fn chains_of(analysis: &Analysis<'_>, wait: &Wait) -> Vec<Chain> {
    Follower::new(analysis).chains_of(wait)
}

/// The same for many waits, which is quicker where they follow each other.
pub struct Follower<'a, 't>(Walk<'a, 't>);

impl<'a, 't> Follower<'a, 't> {
    /// Follows waits of a recording.
    pub fn new(analysis: &'a Analysis<'t>) -> Follower<'a, 't> {
        Follower(Walk::new(analysis))
    }

    /// See [`chains_of`].
    pub fn chains_of(&mut self, wait: &Wait) -> Vec<Chain> {
        self.0.follow(wait);
        let segments = self.0.segments.iter();
        let mut chains: Vec<Chain> = segments
            .map(|(node, ns)| self.0.chain(*node, *ns, 1))
            .collect();
        sort(&mut chains);
        chains
    }
}

/// What `partition_point` gives, found in steps that double away from `near`.
fn partition_near<T>(all: &[T], near: usize, is_before: impl Fn(&T) -> bool) -> usize {
    let near = near.min(all.len());
    let mut step = 1;
    if near < all.len() && is_before(&all[near]) {
        let mut low = near + 1;
        while low < all.len() && is_before(&all[(low + step - 1).min(all.len() - 1)]) {
            low = (low + step).min(all.len());
            step *= 2;
        }
        let high = (low + step).min(all.len());
        return low + all[low..high].partition_point(is_before);
    }
    let mut high = near;
    while high > 0 && !is_before(&all[high.saturating_sub(step)]) {
        high = high.saturating_sub(step);
        step *= 2;
    }
    let low = high.saturating_sub(step);
    low + all[low..high].partition_point(is_before)
}

fn sort(chains: &mut [Chain]) {
    chains.sort_by(|a, b| {
        let by_time = b.charged_ns.cmp(&a.charged_ns);
        by_time
            .then_with(|| a.links.cmp(&b.links))
            .then_with(|| a.root.cmp(&b.root))
    });
}

type NodeId = u32;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    Link(Link),
    Root(Root),
}

/// Follows waits; paths are shared in a tree of steps.
struct Walk<'a, 't> {
    analysis: &'a Analysis<'t>,
    nodes: Vec<(Option<NodeId>, Step)>,
    ids: FxHashMap<(Option<NodeId>, Step), NodeId>,
    strangers: FxHashMap<(NodeId, &'a str, Option<u32>), NodeId>,
    /// Path and length of every segment of the wait followed last.
    segments: Vec<(NodeId, u64)>,
    /// Segments that this may have.
    limit: usize,
    /// By thread: where its waits were looked at last. Waits that follow each other have wakers that do.
    near: Vec<u32>,
}

impl<'a, 't> Walk<'a, 't> {
    fn new(analysis: &'a Analysis<'t>) -> Walk<'a, 't> {
        Walk {
            analysis,
            nodes: Vec::new(),
            ids: FxHashMap::default(),
            strangers: FxHashMap::default(),
            segments: Vec::new(),
            limit: LEAST_SEGMENTS,
            near: vec![0; analysis.tables.threads.len()],
        }
    }

    fn follow(&mut self, wait: &Wait) {
        self.segments.clear();
        let share = wait.blocked_ns() as f64 / self.analysis.waits.kept_ns.max(1) as f64;
        self.limit = LEAST_SEGMENTS + (share * SHARED_SEGMENTS as f64) as usize;
        self.slept(None, wait, wait.start_ns, wait.woken_ns, 0);
        self.segments.sort_unstable();
        self.segments.dedup_by(|next, sum| {
            let same = next.0 == sum.0;
            if same {
                sum.1 += next.1;
            }
            same
        });
    }

    /// Divides the part [from, to] of a wait.
    fn slept(&mut self, parent: Option<NodeId>, wait: &Wait, from: u64, to: u64, hops: usize) {
        let label = self.analysis.groups.label_of_thread(wait.thread as usize);
        let link = Link {
            label,
            reason: self.analysis.reasons[wait.site as usize],
        };
        let path = self.node(parent, Step::Link(link));
        let slice = &self.analysis.tables.slices[wait.slice as usize];
        let waker = slice
            .waker_thread
            .and_then(|id| self.analysis.index.thread(id));
        match waker {
            Some(_) if hops >= MAX_HOPS => self.end(path, Root::Deeper, to - from),
            Some(waker) => self.acted(path, waker, from, to, hops + 1),
            None => {
                let root = self.stranger(path, slice);
                self.segments
                    .extend((to > from).then_some((root, to - from)));
            }
        }
    }

    /// Divides what `thread` did over [from, to], back from the instant at which it woke somebody.
    fn acted(&mut self, path: NodeId, thread: usize, from: u64, mut to: u64, hops: usize) {
        let label = self.analysis.groups.label_of_thread(thread);
        let waits = self.analysis.waits.of_thread(thread);
        let mut next = partition_near(waits, self.near[thread] as usize, |w| w.woken_ns <= to);
        self.near[thread] = next as u32;
        while to > from && next > 0 {
            if self.segments.len() >= self.limit {
                return self.end(path, Root::Deeper, to - from);
            }
            next -= 1;
            let wait = &waits[next];
            if wait.woken_ns <= from {
                break;
            }
            if wait.start_ns >= to {
                continue;
            }
            let woken = wait.woken_ns.min(to);
            let ran_from = wait.end_ns.clamp(woken, to);
            self.end(path, Root::Running(label), to - ran_from);
            self.end(path, Root::Runnable(label), ran_from - woken);
            let slept_from = wait.start_ns.max(from);
            self.slept(Some(path), wait, slept_from, woken, hops);
            to = slept_from;
        }
        // It may just have got its processor back at `from`.
        let runnable_to = match next.checked_sub(1).map(|i| &waits[i]) {
            Some(wait) if wait.woken_ns <= from => wait.end_ns.clamp(from, to),
            _ => from,
        };
        self.end(path, Root::Running(label), to - runnable_to);
        self.end(path, Root::Runnable(label), runnable_to - from);
    }

    /// The end of a chain at a waker that is not recorded; spares the name's copy when it is known.
    fn stranger(&mut self, path: NodeId, slice: &'a SliceRow) -> NodeId {
        let key = (path, slice.waker_name.as_str(), slice.waker_tid);
        if let Some(node) = self.strangers.get(&key) {
            return *node;
        }
        let waker = waker_of(self.analysis, slice);
        let node = self.node(Some(path), Step::Root(Root::Waker(waker)));
        self.strangers.insert(key, node);
        node
    }

    fn end(&mut self, path: NodeId, root: Root, ns: u64) {
        if ns > 0 {
            let node = self.node(Some(path), Step::Root(root));
            self.segments.push((node, ns));
        }
    }

    fn node(&mut self, parent: Option<NodeId>, step: Step) -> NodeId {
        let nodes = &mut self.nodes;
        *self.ids.entry((parent, step)).or_insert_with_key(|key| {
            nodes.push(key.clone());
            nodes.len() as NodeId - 1
        })
    }

    fn chain(&self, node: NodeId, charged_ns: u64, kept: u64) -> Chain {
        let &(mut parent, ref root) = &self.nodes[node as usize];
        let Step::Root(root) = root else {
            unreachable!("segments end in a root")
        };
        let mut links = Vec::new();
        while let Some(node) = parent {
            let (above, step) = &self.nodes[node as usize];
            if let Step::Link(link) = step {
                links.push(*link);
            }
            parent = *above;
        }
        links.reverse();
        Chain {
            links,
            root: root.clone(),
            charged_ns,
            kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wherever_one_begins_the_same_place_is_found() {
        for len in 0..40 {
            let all: Vec<usize> = (0..len).collect();
            for near in 0..len + 3 {
                for wanted in 0..=len {
                    assert_eq!(partition_near(&all, near, |n| *n < wanted), wanted);
                }
            }
        }
    }
}
