//! From the ledger of memory to what a person is told.
use super::build::{frame, recording};
use super::{Frame, Recording};
use dwell_analysis::Analysis;
use dwell_analysis::memory::{self, Component, Ledger, PAGE_BYTES, StackCost, Sums};
use dwell_recording::Tables;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// What a person is told about memory (`dwell record --memory`). Times are of threads on a processor, by samples scaled to
/// the exact running time, unless they say otherwise; counts are exact; pages are of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryAnswer {
    /// What was recorded.
    pub recording: Recording,
    /// Exact time on a processor, ns: the next three together.
    pub running_ns: u64,
    /// Of it, in programs.
    pub program_ns: u64,
    /// In the kernel, for memory.
    pub memory_ns: u64,
    /// In the kernel, for anything else.
    pub other_kernel_ns: u64,
    /// Samples that `memory_ns` and its components rest on.
    pub memory_samples: u64,
    /// What `memory_ns` divides into, the largest first.
    pub components: Vec<MemoryComponent>,
    /// Exact counts.
    pub counts: MemoryCounts,
    /// Exact: system calls about memory, the most costly first.
    pub calls: Vec<MemoryCall>,
    /// Exact: bytes of fresh pages that were cleared.
    pub zeroed_bytes: u64,
    /// These over the time that clearing took, GB/s; none where no sample met it.
    pub zeroed_gb_per_cpu_second: Option<f64>,
    /// Modelled: the time that clearing takes if all pages are in a cache, ns.
    pub clearing_modelled_cached_ns: u64,
    /// Modelled: the same if none is.
    pub clearing_modelled_uncached_ns: u64,
    /// The machine.
    pub machine: Machine,
    /// Threads of the kernel that work for memory.
    pub kernel_threads: Vec<KernelThread>,
    /// User stacks, the most costly first.
    pub stacks: Vec<MemoryStack>,
}

/// A part of the kernel's work for memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryComponent {
    /// What it is.
    pub name: String,
    /// Time, ns.
    pub time_ns: u64,
}

/// System calls of one kind about memory. Exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryCall {
    /// The call.
    pub name: String,
    /// How many returned.
    pub calls: u64,
    /// Time in them on a processor by the clock, ns.
    pub time_ns: u64,
}

/// Exact counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryCounts {
    /// Page faults without storage, as the kernel counts them.
    pub minor_faults: u64,
    /// Page faults that waited for storage.
    pub major_faults: u64,
    /// Both by kind: `anonymous`, `copied`, `file`, `stack`, `huge`, `populated`, `other`.
    pub faults_by_kind: BTreeMap<String, u64>,
    /// Pages allocated.
    pub allocated_pages: u64,
    /// Pages freed.
    pub freed_pages: u64,
    /// Of those allocated, cleared one by one.
    pub zeroed_pages: u64,
    /// Of those allocated, cleared as parts of huge ones.
    pub zeroed_huge_pages: u64,
    /// Estimated, from one page in 32: pages of these in use when their process used most.
    pub peak_pages: u64,
    /// System calls about memory.
    pub calls: u64,
    /// Time in them on a processor by the clock, ns.
    pub calls_ns: u64,
    /// TLB shootdowns that were asked for.
    pub shootdowns: u64,
    /// Times that another processor obeyed.
    pub remote_flushes: u64,
    /// Time of the other processors in that, by the clock, ns; in no other time here.
    pub remote_ns: u64,
    /// Waits for the address space's lock.
    pub mmap_lock_waits: u64,
    /// Their time by the clock, ns.
    pub mmap_lock_wait_ns: u64,
    /// Waits for spin locks of the kernel.
    pub spin_lock_waits: u64,
    /// Their time by the clock, ns.
    pub spin_lock_wait_ns: u64,
    /// Of these, waits for the free pages of a zone of memory.
    pub zone_lock_waits: u64,
    /// Their time by the clock, ns.
    pub zone_lock_wait_ns: u64,
    /// And waits for the lists of a control group's pages in use.
    pub list_lock_waits: u64,
    /// Their time by the clock, ns.
    pub list_lock_wait_ns: u64,
}

/// What the machine can do, and did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Clearing pages that are in a cache, measured when the recording began, GB/s.
    pub clears_cached_gb_per_s: f64,
    /// The same for pages that are in none.
    pub clears_uncached_gb_per_s: f64,
    /// Pages that all of the machine allocated.
    pub allocated_pages: u64,
    /// Pages that it freed.
    pub freed_pages: u64,
}

/// A thread of the kernel that works for memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KernelThread {
    /// Its name.
    pub name: String,
    /// Its time on a processor in the window, ns.
    pub cpu_ns: u64,
    /// Attributed: the part in proportion to the recorded processes' share of the pages allocated.
    pub attributed_ns: u64,
}

/// What a user stack cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MemoryStack {
    /// Short name of the process.
    pub process: String,
    /// Time, ns.
    pub time_ns: u64,
    /// What it divides into.
    pub components: Vec<MemoryComponent>,
    /// Exact counts.
    pub counts: MemoryCounts,
    /// The stack, innermost first.
    pub frames: Vec<Frame>,
}

impl MemoryAnswer {
    /// The answer of a recording; none unless it has a ledger of memory.
    pub fn build(tables: &Tables, stacks: usize) -> Option<MemoryAnswer> {
        MemoryAnswer::of(&Analysis::of(tables), stacks)
    }

    /// The same, with the analysis done before, and with so many stacks.
    pub fn of(analysis: &Analysis<'_>, stacks: usize) -> Option<MemoryAnswer> {
        let ledger = memory::ledger(analysis)?;
        let zeroed = ledger
            .totals
            .zeroed_pages
            .saturating_add(ledger.totals.zeroed_huge_pages);
        let zeroed_bytes = zeroed.saturating_mul(PAGE_BYTES);
        let clearing_ns = ledger.components.get(&Component::Clearing).copied();
        let (cached, uncached) = ledger.clearing_modelled_ns.unwrap_or_default();
        Some(MemoryAnswer {
            recording: recording(analysis),
            running_ns: ledger.running_ns,
            program_ns: ledger.program_ns,
            memory_ns: ledger.memory_ns,
            other_kernel_ns: ledger.other_kernel_ns,
            memory_samples: ledger.samples,
            components: components(&ledger.components),
            counts: counts(&ledger.totals),
            calls: calls(&ledger),
            zeroed_bytes,
            zeroed_gb_per_cpu_second: clearing_ns
                .filter(|ns| *ns > 0)
                .map(|ns| zeroed_bytes as f64 / ns as f64),
            clearing_modelled_cached_ns: cached,
            clearing_modelled_uncached_ns: uncached,
            machine: machine(analysis),
            kernel_threads: kernel_threads(&ledger),
            stacks: ledger
                .stacks
                .iter()
                .take(stacks)
                .map(|cost| stack(analysis, cost))
                .collect(),
        })
    }
}

fn components(by_component: &BTreeMap<Component, u64>) -> Vec<MemoryComponent> {
    let mut components: Vec<MemoryComponent> = by_component
        .iter()
        .map(|(component, ns)| MemoryComponent {
            name: component.name().to_owned(),
            time_ns: *ns,
        })
        .collect();
    components.sort_by_key(|c| Reverse(c.time_ns));
    components
}

fn calls(ledger: &Ledger) -> Vec<MemoryCall> {
    let mut calls: Vec<MemoryCall> = ledger
        .calls
        .iter()
        .map(|(name, calls)| MemoryCall {
            name: name.clone(),
            calls: calls.calls,
            time_ns: calls.ns,
        })
        .collect();
    calls.sort_by_key(|c| Reverse(c.time_ns));
    calls
}

fn machine(analysis: &Analysis<'_>) -> Machine {
    let costs = analysis.tables.meta.memory.clone().unwrap_or_default();
    let rate = |ns: f64| {
        if ns > 0.0 {
            PAGE_BYTES as f64 / ns
        } else {
            0.0
        }
    };
    Machine {
        clears_cached_gb_per_s: rate(costs.clear_cached_ns),
        clears_uncached_gb_per_s: rate(costs.clear_uncached_ns),
        allocated_pages: costs.machine_allocated_pages,
        freed_pages: costs.machine_freed_pages,
    }
}

fn kernel_threads(ledger: &Ledger) -> Vec<KernelThread> {
    let mut threads: Vec<KernelThread> = ledger
        .attributed
        .iter()
        .map(|t| KernelThread {
            name: t.name.clone(),
            cpu_ns: t.cpu_ns,
            attributed_ns: t.charged_ns,
        })
        .collect();
    threads.sort_by_key(|t| Reverse(t.cpu_ns));
    threads
}

fn stack(analysis: &Analysis<'_>, cost: &StackCost) -> MemoryStack {
    let process = cost
        .process
        .map(|p| analysis.tables.processes[p].name.clone());
    let mut frames: Vec<Frame> = cost
        .path
        .iter()
        .rev()
        .map(|f| frame(analysis, *f))
        .collect();
    if frames.is_empty() {
        let name = if cost.at_end {
            "[end of process]"
        } else {
            "[no stack taken]"
        };
        frames.push(Frame {
            function: name.to_owned(),
            kernel: false,
        });
    }
    MemoryStack {
        process: process.unwrap_or_default(),
        time_ns: cost.ns,
        components: components(&cost.components),
        counts: counts(&cost.sums),
        frames,
    }
}

fn counts(sums: &Sums) -> MemoryCounts {
    MemoryCounts {
        minor_faults: sums.minor_faults,
        major_faults: sums.major_faults,
        faults_by_kind: [
            ("anonymous", sums.anonymous_faults),
            ("copied", sums.copied_faults),
            ("file", sums.file_faults),
            ("stack", sums.stack_faults),
            ("huge", sums.huge_faults),
            ("populated", sums.populated_faults),
            ("other", sums.other_faults),
        ]
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(kind, n)| (kind.to_owned(), n))
        .collect(),
        allocated_pages: sums.allocated_pages,
        freed_pages: sums.freed_pages,
        zeroed_pages: sums.zeroed_pages,
        zeroed_huge_pages: sums.zeroed_huge_pages,
        peak_pages: sums.peak_pages,
        calls: sums.calls,
        calls_ns: sums.call_ns,
        shootdowns: sums.shootdowns,
        remote_flushes: sums.remote_flushes,
        remote_ns: sums.remote_ns,
        mmap_lock_waits: sums.mmap_waits,
        mmap_lock_wait_ns: sums.mmap_wait_ns,
        spin_lock_waits: sums.spins,
        spin_lock_wait_ns: sums.spin_ns,
        zone_lock_waits: sums.zone_waits,
        zone_lock_wait_ns: sums.zone_wait_ns,
        list_lock_waits: sums.list_waits,
        list_lock_wait_ns: sums.list_wait_ns,
    }
}
