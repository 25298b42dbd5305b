//! What happens when.
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Event {
    /// The thread on a processor has done what it does; holds if nothing changed there since.
    Done { cpu: usize, stamp: u64 },
    /// The thread on a processor may have to make room for another.
    Slice { cpu: usize, stamp: u64 },
    /// A thread wants a processor again.
    Wake { thread: usize },
    /// Spinners see that a lock is free.
    Grab { instance: usize },
}

#[derive(Debug)]
struct Entry {
    at: f64,
    /// Events of one instant happen in the order in which they were planned.
    number: u64,
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest, which a heap gives first.
    fn cmp(&self, other: &Entry) -> Ordering {
        let time = other.at.total_cmp(&self.at);
        time.then_with(|| other.number.cmp(&self.number))
    }
}

/// Events to come.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Entry>,
    number: u64,
}

impl Events {
    pub fn plan(&mut self, at: f64, event: Event) {
        self.number += 1;
        let number = self.number;
        self.heap.push(Entry { at, number, event });
    }

    pub fn next(&mut self) -> Option<(f64, Event)> {
        self.heap.pop().map(|e| (e.at, e.event))
    }
}
