//! Time on a processor: each thread's exact sum over the stacks it was seen running.
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
    let mut pooled: Vec<(usize, usize)> = Vec::new();
    for (thread, row) in builder.tables.threads.iter().enumerate() {
        if row.running_ns >= own_from_ns {
            spread(builder, &[thread], by_stack(stacks[thread].clone()));
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
        spread(builder, &threads, by_stack(samples));
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

/// Spreads the exact sums of these threads over these stacks: both each thread's sum and each
/// stack's share of the pool are kept.
fn spread(builder: &mut Builder<'_>, threads: &[usize], stacks: Stacks) {
    let sums: Vec<u64> = threads
        .iter()
        .map(|t| builder.tables.threads[*t].running_ns)
        .collect();
    let total = sums.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
    if stacks.is_empty() {
        for (thread, ns) in threads.iter().zip(sums) {
            builder.add_missing(*thread, State::Running, Missing::NotSampled, ns);
        }
        return;
    }
    let weights: Vec<u64> = stacks.iter().map(|(_, weight)| *weight).collect();
    // All weights 0: equal shares.
    for piece in transport(&sums, &apportion(total, &weights)) {
        builder.add(Entry {
            thread: threads[piece.from] as u32,
            state: State::Running,
            syscall: 0,
            stack: stacks[piece.to].0,
            weight_ns: piece.amount,
            waits: 0,
            max_wait_ns: 0,
        });
    }
}
