//! A thread's exact sums while they are being given to moments.
use super::Moment;
use crate::analysis::Analysis;
use crate::apportion::apportion;
use crate::names::StackRef;
use crate::profile::{Entry, SyscallId};
use crate::state::State;

/// A sum that was never seen is spread over so many places at most.
const MOST_PLACES: u64 = 16;

/// What is left of each of a thread's sums.
pub(super) struct Budget<'a> {
    entries: &'a [Entry],
    syscalls: &'a [String],
    /// In step with `entries`, ns.
    left: Vec<u64>,
}

impl<'a> Budget<'a> {
    pub fn of(analysis: &'a Analysis<'_>, thread: usize) -> Budget<'a> {
        let all = &analysis.profile.entries;
        let start = all.partition_point(|e| (e.thread as usize) < thread);
        let end = all.partition_point(|e| e.thread as usize <= thread);
        let entries = &all[start..end];
        Budget {
            entries,
            syscalls: &analysis.profile.syscalls,
            left: entries.iter().map(|e| e.weight_ns).collect(),
        }
    }

    /// The number of a system call; the largest number for one that has no time.
    pub fn syscall(&self, name: &str) -> SyscallId {
        let known = self.syscalls.iter().position(|s| s == name);
        known.map_or(SyscallId::MAX, |id| id as SyscallId)
    }

    /// Takes up to `wanted_ns` from what the thread was in this state and system call, from `stack` first. Returns the
    /// stack, that of which most is left where none is known, and how much there was.
    pub fn take(
        &mut self,
        state: State,
        syscall: SyscallId,
        stack: Option<StackRef>,
        wanted_ns: u64,
    ) -> Option<(StackRef, u64)> {
        let key = |e: &Entry| (e.state, e.syscall);
        let start = self.entries.partition_point(|e| key(e) < (state, syscall));
        let end = self.entries.partition_point(|e| key(e) <= (state, syscall));
        let own = stack.and_then(|stack| (start..end).find(|at| self.entries[*at].stack == stack));
        let first = own.or_else(|| (start..end).max_by_key(|at| self.left[*at]))?;
        let mut missing_ns = wanted_ns;
        for at in std::iter::once(first).chain(start..end) {
            let part = missing_ns.min(self.left[at]);
            self.left[at] -= part;
            missing_ns -= part;
        }
        let taken_ns = wanted_ns - missing_ns;
        (taken_ns > 0).then(|| (stack.unwrap_or(self.entries[first].stack), taken_ns))
    }

    pub fn sightings(&self) -> Sightings<'_> {
        Sightings {
            entries: self.entries,
            left: &self.left,
            seen: vec![Vec::new(); self.entries.len()],
        }
    }
}

/// When the stacks of what is left were seen, and with which weight.
pub(super) struct Sightings<'b> {
    entries: &'b [Entry],
    left: &'b [u64],
    seen: Vec<Vec<(u64, u64)>>,
}

impl Sightings<'_> {
    pub fn add(
        &mut self,
        state: State,
        syscall: SyscallId,
        stack: StackRef,
        time_ns: u64,
        weight: u64,
    ) {
        let key = |e: &Entry| (e.state, e.syscall, e.stack);
        let wanted = (state, syscall, stack);
        if let Ok(at) = self.entries.binary_search_by(|e| key(e).cmp(&wanted)) {
            self.seen[at].push((time_ns, weight));
        }
    }

    /// What is left as moments, ordered by the instants they were seen at.
    pub fn moments(self, start_ns: u64, until_ns: u64, period_ns: u64) -> Vec<Moment> {
        let mut moments = Vec::new();
        for (at, mut seen) in self.seen.into_iter().enumerate() {
            let (entry, left_ns) = (&self.entries[at], self.left[at]);
            if seen.is_empty() {
                let places = (left_ns / period_ns.max(1)).clamp(1, MOST_PLACES);
                let life_ns = until_ns.saturating_sub(start_ns);
                let instant = |i: u64| start_ns + life_ns / (2 * places) * (2 * i + 1);
                seen = (0..places).map(|i| (instant(i), 1)).collect();
            }
            let weights: Vec<u64> = seen.iter().map(|(_, weight)| *weight).collect();
            for ((instant, _), share) in seen.iter().zip(apportion(left_ns, &weights)) {
                moments.push(Moment {
                    start_ns: *instant,
                    duration_ns: share,
                    state: entry.state,
                    syscall: entry.syscall,
                    stack: entry.stack,
                    slice: None,
                });
            }
        }
        moments.retain(|m| m.duration_ns > 0);
        moments.sort_by_key(|m| m.start_ns);
        moments
    }
}
