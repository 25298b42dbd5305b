//! The ledger of memory, by program: what rules about memory judge.
use dwell_analysis::memory::{Component, Ledger, StackCost, Sums};
use dwell_analysis::names::FunctionId;
use dwell_analysis::{Analysis, State};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What like processes do with memory while they run: their ends are left out, as are forks.
#[derive(Clone, Debug, Default)]
pub struct MemoryUse {
    /// The processes' name.
    pub program: String,
    /// How many there were.
    pub processes: u64,
    /// Their time on a processor, but for what measuring costs, ns.
    pub running_ns: u64,
    /// Of it, in the kernel for memory, but for what measuring costs, ns.
    pub memory_ns: u64,
    /// In the program itself, at the very stacks that enter the kernel for memory: there lies what entering costs and what
    /// it leaves behind in caches, ns.
    pub beside_ns: u64,
    /// Making address spaces and taking them apart: what a process costs that need not have been, ns.
    pub ends_ns: u64,
    /// What `memory_ns` divides into.
    pub components: BTreeMap<Component, u64>,
    /// Exact sums.
    pub sums: Sums,
    /// Positions in the ledger's stacks, the most costly first.
    pub stacks: Vec<usize>,
}

impl MemoryUse {
    /// By program, of a ledger.
    pub fn of(analysis: &Analysis<'_>, ledger: &Ledger) -> Vec<MemoryUse> {
        let mut uses: BTreeMap<&str, MemoryUse> = BTreeMap::new();
        let processes = &analysis.tables.processes;
        for (row, share) in processes.iter().zip(&analysis.summary.processes) {
            let one = uses.entry(&row.name).or_default();
            row.name.clone_into(&mut one.program);
            one.processes += 1;
            one.running_ns = one.running_ns.saturating_add(share.times.running());
        }
        let beside = beside(analysis, ledger);
        for (position, cost) in ledger.stacks.iter().enumerate() {
            let Some(process) = cost.process else {
                continue;
            };
            if let Some(one) = uses.get_mut(processes[process].name.as_str()) {
                if cost.at_end {
                    one.ends_ns = one.ends_ns.saturating_add(cost.ns);
                    continue;
                }
                one.add(position, cost);
                let own = beside.get(&(process, cost.path.as_slice()));
                one.beside_ns = one.beside_ns.saturating_add(own.copied().unwrap_or(0));
            }
        }
        uses.into_values().collect()
    }

    fn add(&mut self, position: usize, cost: &StackCost) {
        for (component, ns) in &cost.components {
            match component {
                Component::Measuring => self.running_ns = self.running_ns.saturating_sub(*ns),
                Component::Forking => self.ends_ns = self.ends_ns.saturating_add(*ns),
                _ => {
                    *self.components.entry(*component).or_default() += ns;
                    self.memory_ns = self.memory_ns.saturating_add(*ns);
                }
            }
        }
        self.sums.add(&cost.sums);
        self.stacks.push(position);
    }

    /// A part of the running time.
    pub fn share(&self, ns: u64) -> f64 {
        (ns as f64 / self.running_ns.max(1) as f64).min(1.0)
    }

    /// Time at a component, ns.
    pub fn at(&self, component: Component) -> u64 {
        self.components.get(&component).copied().unwrap_or(0)
    }

    /// Of the pages that were taken, how many were given back before the end: as many as can be taken again.
    pub fn returned(&self) -> f64 {
        let taken = self.sums.allocated_pages.max(1);
        (self.sums.freed_pages as f64 / taken as f64).min(1.0)
    }

    /// Pages that were cleared.
    pub fn cleared_pages(&self) -> u64 {
        self.sums
            .zeroed_pages
            .saturating_add(self.sums.zeroed_huge_pages)
    }
}

/// Time of the program itself at stacks that cost something in the kernel, ns.
fn beside<'l>(
    analysis: &Analysis<'_>,
    ledger: &'l Ledger,
) -> FxHashMap<(usize, &'l [FunctionId]), u64> {
    let stacks = ledger.stacks.iter().filter(|s| !s.at_end);
    let keys = stacks.filter_map(|s| Some((s.process?, s.path.as_slice())));
    let keys = keys.filter(|(_, path)| !path.is_empty());
    let keys: FxHashMap<(usize, &[FunctionId]), &'l [FunctionId]> = keys
        .map(|(process, path)| ((process, path), path))
        .collect();
    let mut sums: FxHashMap<(usize, &[FunctionId]), u64> = FxHashMap::default();
    let entries = analysis.profile.entries.iter();
    for entry in entries.filter(|e| e.state == State::Running) {
        let path = analysis.names.path(analysis.names.path_of(entry.stack));
        let thread = &analysis.tables.threads[entry.thread as usize];
        let process = analysis.index.process(thread.process);
        let Some(process) = process else { continue };
        if let Some(key) = keys.get(&(process, path)) {
            let ns = sums.entry((process, *key)).or_default();
            *ns = ns.saturating_add(entry.weight_ns);
        }
    }
    sums
}
