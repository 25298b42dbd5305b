//! The rows of the time between two pictures.
use super::namer::Named;
use crate::naming::running_stacks;
use dwell_recording::Tables;
use dwell_recording::rows::{SymbolRow, ThreadRow};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Share of the sampled time whose stacks get names: a picture shows the heaviest few.
const NAMED_SHARE: f64 = 0.95;

/// What has come since the last picture, and what stays true from one to the next.
#[derive(Default)]
pub struct Window {
    /// Rows since the last picture, and what they refer to.
    pub all: Tables,
    /// Threads as they were at the last picture.
    before: HashMap<u32, ThreadRow>,
    threads: HashMap<u32, ThreadRow>,
    named: HashSet<u32>,
    /// Frames that threads ran at, which were judged.
    judged: HashSet<u32>,
    start_ns: u64,
}

impl Window {
    pub fn add(&mut self, rows: Tables) {
        let all = &mut self.all;
        for process in rows.processes {
            all.processes.retain(|p| p.process != process.process);
            all.processes.push(process);
        }
        self.threads
            .extend(rows.threads.into_iter().map(|t| (t.thread, t)));
        all.frames.extend(rows.frames);
        all.symbols.extend(rows.symbols);
        all.stacks.extend(rows.stacks);
        all.sites.extend(rows.sites);
        all.site_times.extend(rows.site_times);
        all.samples.extend(rows.samples);
        all.slices.extend(rows.slices);
        all.meta = rows.meta;
    }

    /// Takes in what frames are called, and whether they spin. Each is asked for once as a frame, and once as
    /// one that a thread ran at.
    pub fn know(&mut self, named: Named) {
        let known: HashSet<u32> = self.all.symbols.iter().map(|s| s.frame).collect();
        let new = named.symbols.into_iter();
        let new = new.filter(|s| !known.contains(&s.frame));
        self.all.symbols.extend(new);
        for frame in &mut self.all.frames {
            let judged = named.spinning.get(&frame.frame).copied();
            frame.spinning = judged.or(frame.spinning);
        }
    }

    /// Frames of the heaviest stacks and of those who woke them, as far as they were not asked for yet.
    pub fn wanted(&mut self) -> BTreeSet<u32> {
        let mut weights: HashMap<u32, u64> = HashMap::new();
        for sample in &self.all.samples {
            *weights.entry(sample.stack).or_default() += sample.weight_ns;
        }
        let total: u64 = weights.values().sum();
        let mut stacks: Vec<(u32, u64)> = weights.into_iter().collect();
        stacks.sort_unstable_by_key(|&(stack, weight)| (std::cmp::Reverse(weight), stack));
        let mut rest = (total as f64 * NAMED_SHARE) as u64;
        let heaviest = stacks.into_iter().take_while(|&(_, weight)| {
            let wanted = rest > 0;
            rest = rest.saturating_sub(weight);
            wanted
        });
        let mut wanted: HashSet<u32> = heaviest.map(|(stack, _)| stack).collect();
        let woken = self.all.slices.iter();
        let woken = woken.filter(|s| s.stack.is_some_and(|stack| wanted.contains(&stack)));
        let wakers: Vec<u32> = woken.filter_map(|s| s.waker_stack).collect();
        wanted.extend(wakers);
        let stacks = self.all.stacks.iter().filter(|s| wanted.contains(&s.stack));
        let frames = stacks.clone().flat_map(|s| s.frames.iter().copied());
        let mut new: BTreeSet<u32> = frames.filter(|&frame| self.named.insert(frame)).collect();
        let leaves = running_stacks(&self.all).filter_map(|frames| frames.last().copied());
        let named = |leaf: &u32| self.named.contains(leaf);
        new.extend(
            leaves
                .filter(named)
                .filter(|&leaf| self.judged.insert(leaf)),
        );
        new
    }

    /// The tables of the time since the last picture; frames, stacks, names and sites are kept.
    pub fn take(&mut self) -> Tables {
        let mut tables = self.all.clone();
        tables.meta.complete = true;
        self.all.site_times.clear();
        self.all.samples.clear();
        self.all.slices.clear();
        tables.meta.start_ns = self.start_ns.max(tables.meta.start_ns);
        self.start_ns = tables.meta.end_ns;
        tables
            .symbols
            .sort_by_key(|s: &SymbolRow| (s.frame, s.depth));
        tables.threads = self
            .threads
            .values()
            .map(|t| since(t, self.before.get(&t.thread)))
            .collect();
        tables.threads.sort_by_key(|t| t.thread);
        self.before = self.threads.clone();
        self.threads.retain(|_, t| !t.ended);
        tables
    }
}

/// A thread's sums since an earlier reading.
fn since(now: &ThreadRow, before: Option<&ThreadRow>) -> ThreadRow {
    let Some(before) = before else {
        return now.clone();
    };
    ThreadRow {
        start_ns: before.until_ns,
        running_ns: now.running_ns.saturating_sub(before.running_ns),
        runnable_ns: now.runnable_ns.saturating_sub(before.runnable_ns),
        blocked_ns: now.blocked_ns.saturating_sub(before.blocked_ns),
        stolen_ns: now.stolen_ns.saturating_sub(before.stolen_ns),
        lost_ns: now.lost_ns.saturating_sub(before.lost_ns),
        voluntary_switches: now
            .voluntary_switches
            .saturating_sub(before.voluntary_switches),
        involuntary_switches: now
            .involuntary_switches
            .saturating_sub(before.involuntary_switches),
        ..now.clone()
    }
}
