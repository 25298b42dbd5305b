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
use crate::apportion::{apportion, transport};
use crate::names::{Missing, StackRef};
use crate::state::State;
use dwell_recording::rows::state::RUNNING;

/// Weighted stacks seen running.
type Stacks = Vec<(StackRef, u64)>;

pub(super) fn add(builder: &mut Builder<'_>) {
    let own_from_ns = builder
        .tables
        .meta
        .period_ns
        .saturating_mul(OWN_SCALE_PERIODS);
    let stacks = running_stacks(builder);
    let switching = Switching::of(builder.tables);
    let mut pooled: Vec<(usize, usize)> = Vec::new();
    for (thread, row) in builder.tables.threads.iter().enumerate() {
        if row.running_ns >= own_from_ns {
            spread(builder, &switching, &[thread], stacks[thread].clone());
        } else {
            pooled.push((builder.groups.of_thread(thread), thread));
        }
    }
    pooled.sort_unstable();
    for pool in pooled.chunk_by(|a, b| a.0 == b.0) {
        let threads: Vec<usize> = pool.iter().map(|(_, thread)| *thread).collect();
        let samples = threads
            .iter()
            .flat_map(|t| stacks[*t].iter().copied())
            .collect();
        spread(builder, &switching, &threads, samples);
    }
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

/// Spreads the exact sums of these threads: the time of switching over the stacks at which each left
/// the processor, the rest over these samples. Both each thread's rest and each stack's share of the
/// pool are kept.
fn spread(builder: &mut Builder<'_>, switching: &Switching, threads: &[usize], samples: Stacks) {
    let rows = &builder.tables.threads;
    let weights: Vec<u64> = samples.iter().map(|(_, weight)| *weight).collect();
    let switched = switching.of_pool(threads.iter().map(|t| &rows[*t]), &weights);
    let mut sums: Vec<u64> = threads.iter().map(|t| rows[*t].running_ns).collect();
    for ((thread, sum), ns) in threads.iter().zip(&mut sums).zip(switched) {
        *sum -= add_switching(builder, *thread, ns);
    }
    let stacks = by_stack(samples);
    if stacks.is_empty() {
        for (thread, ns) in threads.iter().zip(sums) {
            builder.add_missing(*thread, State::Running, Missing::NotSampled, ns);
        }
        return;
    }
    let total = sums.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    let weights: Vec<u64> = stacks.iter().map(|(_, weight)| *weight).collect();
    // All weights 0: equal shares.
    for piece in transport(&sums, &apportion(total, &weights)) {
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
fn add_switching(builder: &mut Builder<'_>, thread: usize, ns: u64) -> u64 {
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
