//! Time on a processor: each thread's exact sum over the stacks it was seen running, and those where it
//! went to sleep.
//!
//! No stack of a running thread can be taken while interrupts are off: in the scheduler, on the way to
//! sleep. Samples alone would give that time to the program's functions, which is wrong by half for a
//! thread that runs for 20 µs at a time. [`Switching`] tells how long it is.
//!
//! A stack seen running whose innermost frame spins is time spent spinning; switching is not.
use super::switching::Switching;
use super::{Builder, Entry, OWN_SCALE_PERIODS, by_stack};
use crate::apportion::{apportion, scaled, total, transport};
use crate::names::{Missing, StackRef};
use crate::state::State;
use dwell_recording::rows::state::RUNNING;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Weighted stacks seen running.
type Stacks = Vec<(StackRef, u64)>;

/// Threads whose samples are scaled together.
struct Pool {
    /// Position in [`Groups::labels`](crate::groups::Groups::labels).
    label: usize,
    threads: Vec<usize>,
    ran_ns: u64,
    length: Length,
    samples: Stacks,
}

impl Pool {
    /// Its stacks with what their weights are beyond the time of its threads, if that is something.
    fn beyond(&self) -> impl Iterator<Item = (StackRef, u64)> {
        let stood_for = total(self.samples.iter().map(|(_, weight)| *weight));
        let rest = stood_for.saturating_sub(self.ran_ns);
        let of_others = move |weight| scaled(weight, rest, stood_for).filter(|ns| *ns > 0);
        let samples = self.samples.iter();
        samples.filter_map(move |(stack, weight)| Some((*stack, of_others(*weight)?)))
    }
}

/// How long a pool's threads ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Length {
    /// Less than a period: it may well have no sample.
    Short,
    /// Up to where it is scaled on its own: it may have none by chance.
    Middling,
    /// A thread that is scaled on its own.
    Long,
}

pub(super) fn add(builder: &mut Builder<'_>) {
    let pools = pools(builder);
    let switching = Switching::of(builder.tables);
    // By label and length: threads of pools without a sample, and what they ran.
    let mut unsampled: BTreeMap<(usize, Length), (Vec<usize>, Vec<u64>)> = BTreeMap::new();
    for pool in &pools {
        let sums = add_switching(builder, &switching, pool);
        if pool.samples.is_empty() {
            let (threads, all) = unsampled.entry((pool.label, pool.length)).or_default();
            threads.extend(&pool.threads);
            all.extend(sums);
        } else {
            spread(builder, &pool.threads, &sums, pool.samples.clone());
        }
    }
    let mut of_label: FxHashMap<usize, Vec<&Pool>> = FxHashMap::default();
    for pool in &pools {
        of_label.entry(pool.label).or_default().push(pool);
    }
    for ((label, length), (threads, sums)) in unsampled {
        // That a long one has none is not by chance.
        let stand_ins = match length {
            Length::Long => Stacks::new(),
            _ => stand_ins(&of_label[&label], length),
        };
        spread(builder, &threads, &sums, stand_ins);
    }
}

/// Every thread is in one of them.
fn pools(builder: &Builder<'_>) -> Vec<Pool> {
    let (tables, groups) = (builder.tables, builder.groups);
    let period_ns = tables.meta.period_ns;
    let own_from_ns = period_ns.saturating_mul(OWN_SCALE_PERIODS);
    let mut stacks = running_stacks(builder);
    let mut pools = Vec::new();
    let mut short: Vec<(usize, usize)> = Vec::new();
    for (thread, row) in tables.threads.iter().enumerate() {
        if row.running_ns >= own_from_ns {
            pools.push(Pool {
                label: groups.label_of_thread(thread),
                threads: vec![thread],
                ran_ns: row.running_ns,
                length: Length::Long,
                samples: std::mem::take(&mut stacks[thread]),
            });
        } else {
            short.push((groups.of_thread(thread), thread));
        }
    }
    short.sort_unstable();
    for pool in short.chunk_by(|a, b| a.0 == b.0) {
        let threads: Vec<usize> = pool.iter().map(|(_, thread)| *thread).collect();
        let samples = threads.iter().flat_map(|t| std::mem::take(&mut stacks[*t]));
        let ran_ns = total(threads.iter().map(|t| tables.threads[*t].running_ns));
        pools.push(Pool {
            label: groups.groups[pool[0].0].label,
            ran_ns,
            length: match ran_ns < period_ns {
                true => Length::Short,
                false => Length::Middling,
            },
            samples: samples.collect(),
            threads,
        });
    }
    pools
}

/// What the samples of these pools stand for beyond what their own threads ran: a process that runs for a tenth of a
/// period is sampled once in ten times, and its sample then stands for the nine others too (Horvitz-Thompson). That is exact
/// for short ones, and chance adds to it for middling ones, so pools of the same length come first. Where there
/// is none of that, as all are long, the samples themselves.
fn stand_ins(pools: &[&Pool], length: Length) -> Stacks {
    let beyond = |lengths: &[Length]| -> Stacks {
        let pools = pools.iter().filter(|p| lengths.contains(&p.length));
        pools.flat_map(|p| p.beyond()).collect()
    };
    let mut stacks = beyond(&[length]);
    if stacks.is_empty() {
        stacks = beyond(&[Length::Short, Length::Middling]);
    }
    if stacks.is_empty() {
        stacks = pools.iter().flat_map(|p| &p.samples).copied().collect();
    }
    stacks
}

/// Stacks of every thread with the weights of their samples.
fn running_stacks(builder: &Builder<'_>) -> Vec<Stacks> {
    let mut stacks = vec![Stacks::new(); builder.tables.threads.len()];
    for sample in builder.tables.samples.iter().filter(|s| s.state == RUNNING) {
        if let Some(thread) = builder.index.thread(sample.thread) {
            stacks[thread].push((builder.stack(sample.stack), sample.weight_ns));
        }
    }
    stacks
}

/// Spreads the time of switching over the stacks at which each of these threads left the processor. Returns what is left
/// of their exact sums.
fn add_switching(builder: &mut Builder<'_>, switching: &Switching, pool: &Pool) -> Vec<u64> {
    let rows = &builder.tables.threads;
    let weights: Vec<u64> = pool.samples.iter().map(|(_, weight)| *weight).collect();
    let switched = switching.of_pool(pool.threads.iter().map(|t| &rows[*t]), &weights);
    let threads = pool.threads.iter().zip(switched);
    threads
        .map(|(thread, ns)| rows[*thread].running_ns - add_departures(builder, *thread, ns))
        .collect()
}

/// Spreads so much time of these threads over these samples. Both each thread's time and each stack's share of the pool are
/// kept.
fn spread(builder: &mut Builder<'_>, threads: &[usize], sums: &[u64], samples: Stacks) {
    let stacks = by_stack(samples);
    if stacks.is_empty() {
        for (thread, ns) in threads.iter().zip(sums) {
            builder.add_missing(*thread, State::Running, Missing::NotSampled, *ns);
        }
        return;
    }
    let total = total(sums.iter().copied());
    let weights: Vec<u64> = stacks.iter().map(|(_, weight)| *weight).collect();
    // All weights 0: equal shares.
    for piece in transport(sums, &apportion(total, &weights)) {
        let (thread, (stack, _)) = (threads[piece.from], stacks[piece.to]);
        let state = if builder.spins(stack) {
            State::Spinning
        } else {
            State::Running
        };
        add_running(builder, thread, state, stack, piece.amount);
    }
}

/// Spreads so much of a thread's time over the stacks at which it left the processor; tells how much
/// could be.
fn add_departures(builder: &mut Builder<'_>, thread: usize, ns: u64) -> u64 {
    let mut stacks = std::mem::take(&mut builder.departures[thread]);
    stacks.retain(|(stack, _)| matches!(stack, StackRef::Taken(_)));
    let (stacks, counts): (Vec<_>, Vec<_>) = by_stack(stacks).into_iter().unzip();
    let shares = apportion(ns, &counts);
    for (stack, share) in stacks.into_iter().zip(&shares) {
        add_running(builder, thread, State::Running, stack, *share);
    }
    shares.iter().sum()
}

fn add_running(
    builder: &mut Builder<'_>,
    thread: usize,
    state: State,
    stack: StackRef,
    weight_ns: u64,
) {
    builder.add(Entry {
        thread: thread as u32,
        state,
        syscall: 0,
        stack,
        weight_ns,
        waits: 0,
        max_wait_ns: 0,
    });
}
