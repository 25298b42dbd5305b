//! Exact sums placed in time: what each thread did when.
//!
//! [`Profile`](crate::Profile) says how long each thread was in which state at which stack; most tools also
//! want to know when. [`Moments::of`] lays each thread's time from its start to its end without gaps:
//!
//! - **Kept waits** (1 ms and more, and those that were sampled) stand where they were, with the stack that was
//!   taken, or the one of that state and system call that has most time left.
//! - **The rest** is divided among the instants at which its stacks were seen, by weight, and fills what the
//!   kept waits leave in that order. What was never seen is spread evenly over the thread's life. So
//!   a moment that is no kept wait is at about its time, and its length says how much time it stands for.
//!
//! For every thread, state and system call the moments add up to the profile's sums exactly. Of waits in one system
//! call the stacks of the kept ones are told as they were, so that their shares may differ from the profile's.
mod budget;
mod fill;

use crate::analysis::Analysis;
use crate::names::StackRef;
use crate::profile::SyscallId;
use crate::state::State;
use budget::Budget;

/// Some time of a thread in one state at one stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When it began, ns.
    pub start_ns: u64,
    /// How long it was, or how much time it stands for, ns; never 0.
    pub duration_ns: u64,
    /// What the thread did.
    pub state: State,
    /// The system call it was in.
    pub syscall: SyscallId,
    /// Where.
    pub stack: StackRef,
    /// Position in `slices` of the kept wait that it is, or that it is a part of.
    pub slice: Option<u32>,
}

impl Moment {
    /// When it ended, ns.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    fn continues(&self, other: &Moment) -> bool {
        let key = |m: &Moment| (m.state, m.syscall, m.stack, m.slice);
        key(self) == key(other) && self.end_ns() == other.start_ns
    }
}

/// What every thread did when.
#[derive(Clone, Debug, Default)]
pub struct Moments {
    moments: Vec<Moment>,
    /// By thread: where its moments start.
    thread_start: Vec<usize>,
}

impl Moments {
    /// Places every thread's time.
    pub fn of(analysis: &Analysis<'_>) -> Moments {
        let mut of_thread = Recorded::of(analysis);
        let mut all = Moments::default();
        for thread in 0..analysis.tables.threads.len() {
            all.thread_start.push(all.moments.len());
            all.place(analysis, thread, &mut of_thread);
        }
        all.thread_start.push(all.moments.len());
        all
    }

    /// Those of the thread at this position, in the order of time; none overlaps the next.
    pub fn of_thread(&self, thread: usize) -> &[Moment] {
        &self.moments[self.thread_start[thread]..self.thread_start[thread + 1]]
    }

    fn place(&mut self, analysis: &Analysis<'_>, thread: usize, recorded: &mut Recorded) {
        let mut budget = Budget::of(analysis, thread);
        let fixed = recorded.kept(analysis, thread, &mut budget);
        let loose = recorded.loose(analysis, thread, &budget);
        let row = &analysis.tables.threads[thread];
        let first = self.moments.len();
        for moment in fill::between(row.start_ns, row.until_ns, &fixed, loose) {
            match self.moments[first..].last_mut() {
                Some(last) if last.continues(&moment) => {
                    last.duration_ns = last.duration_ns.saturating_add(moment.duration_ns)
                }
                _ => self.moments.push(moment),
            }
        }
    }
}

/// What the tables have of each thread, by its position and in the order of time.
struct Recorded {
    slices: Vec<Vec<u32>>,
    samples: Vec<Vec<u32>>,
}

impl Recorded {
    fn of(analysis: &Analysis<'_>) -> Recorded {
        let tables = analysis.tables;
        let none = vec![Vec::new(); tables.threads.len()];
        let mut recorded = Recorded {
            slices: none.clone(),
            samples: none,
        };
        for (row, position) in tables.slices.iter().zip(0..) {
            if let Some(thread) = analysis.index.thread(row.thread) {
                recorded.slices[thread].push(position);
            }
        }
        for (row, position) in tables.samples.iter().zip(0..) {
            if let Some(thread) = analysis.index.thread(row.thread) {
                recorded.samples[thread].push(position);
            }
        }
        recorded
    }

    /// The waits that were kept, in the places where they were. Each is at most as long as the sums allow.
    fn kept(&mut self, analysis: &Analysis<'_>, thread: usize, budget: &mut Budget) -> Vec<Moment> {
        let tables = analysis.tables;
        let row = &tables.threads[thread];
        let slices = &mut self.slices[thread];
        slices.sort_unstable_by_key(|position| tables.slices[*position as usize].start_ns);
        let mut kept = Vec::with_capacity(2 * slices.len());
        let mut free_ns = row.start_ns;
        for position in slices.iter() {
            let slice = &tables.slices[*position as usize];
            let Some(site) = analysis.index.site(slice.site) else {
                continue;
            };
            let woken_ns = slice.start_ns.saturating_add(slice.blocked_ns);
            let blocked = State::Blocked(analysis.reasons[site]);
            let parts = [
                (blocked, slice.start_ns, woken_ns),
                (
                    State::Runnable,
                    woken_ns,
                    woken_ns.saturating_add(slice.runnable_ns),
                ),
            ];
            let stack = slice.stack.map(|id| analysis.profile_stack(id));
            for (state, start_ns, end_ns) in parts {
                let start_ns = start_ns.max(free_ns);
                let wanted_ns = end_ns.min(row.until_ns).saturating_sub(start_ns);
                let syscall = budget.syscall(&tables.sites[site].syscall);
                let Some((stack, duration_ns)) = budget.take(state, syscall, stack, wanted_ns)
                else {
                    continue;
                };
                free_ns = start_ns + duration_ns;
                kept.push(Moment {
                    start_ns,
                    duration_ns,
                    state,
                    syscall,
                    stack,
                    slice: Some(*position),
                });
            }
        }
        kept
    }

    /// What is left of the sums, each piece with the instant it was seen at, in their order.
    fn loose(&self, analysis: &Analysis<'_>, thread: usize, budget: &Budget) -> Vec<Moment> {
        let tables = analysis.tables;
        let mut sightings = budget.sightings();
        for position in &self.samples[thread] {
            let sample = &tables.samples[*position as usize];
            let stack = analysis.profile_stack(sample.stack);
            let weight = sample.weight_ns.max(1);
            match sample.site.and_then(|site| analysis.index.site(site)) {
                Some(site) => {
                    let syscall = budget.syscall(&tables.sites[site].syscall);
                    let blocked = State::Blocked(analysis.reasons[site]);
                    sightings.add(blocked, syscall, stack, sample.time_ns, weight);
                    sightings.add(State::Runnable, syscall, stack, sample.time_ns, weight);
                }
                None => {
                    sightings.add(State::Running, 0, stack, sample.time_ns, weight);
                    sightings.add(State::Spinning, 0, stack, sample.time_ns, weight);
                }
            }
        }
        let row = &tables.threads[thread];
        sightings.moments(row.start_ns, row.until_ns, tables.meta.period_ns)
    }
}

#[cfg(test)]
mod tests;
