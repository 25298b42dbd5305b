//! The answer about memory.
use super::paint::{Page, right};
use super::stacks::{telling, wrap};
use super::{Style, header};
use crate::answer::{MemoryAnswer, MemoryCounts, MemoryStack};
use crate::human;
use dwell_analysis::State;
use dwell_analysis::memory::PAGE_BYTES;
use unicode_width::UnicodeWidthStr;

/// Stacks in the report of everything.
const REPORTED: usize = 5;
const INDENT: usize = 19;

/// Renders the answer about memory.
pub fn render_memory(answer: &MemoryAnswer, style: &Style) -> String {
    let mut page = Page::new(style);
    header::add(&mut page, &answer.recording);
    add(&mut page, answer, usize::MAX);
    page.finish()
}

/// The section of the report of everything.
pub(super) fn add_section(page: &mut Page, answer: Option<&MemoryAnswer>) {
    if let Some(answer) = answer {
        add(page, answer, REPORTED);
    }
}

fn add(page: &mut Page, answer: &MemoryAnswer, stacks: usize) {
    add_components(page, answer);
    add_exact(page, answer);
    add_clearing(page, answer);
    add_others(page, answer);
    add_stacks(page, answer, stacks);
}

fn add_components(page: &mut Page, answer: &MemoryAnswer) {
    page.heading(
        "Memory",
        "the kernel's work for it, of all time on a CPU; sampled",
    );
    let text = format!(
        "{} on a CPU: {} in programs, {} in the kernel for memory, {} for the rest.",
        human::duration(answer.running_ns),
        human::percent(answer.program_ns, answer.running_ns),
        human::percent(answer.memory_ns, answer.running_ns),
        human::percent(answer.other_kernel_ns, answer.running_ns),
    );
    page.wrapped(&text, 2, 2);
    for component in &answer.components {
        let line = format!(
            "{}{}  {}",
            page.bold(&right(
                &human::percent(component.time_ns, answer.running_ns),
                7
            )),
            right(&human::duration(component.time_ns), 10),
            page.state(State::Running, &component.name),
        );
        page.line(line);
    }
    if answer.memory_samples > 0 {
        let error = 1.0 / (answer.memory_samples as f64).sqrt();
        let text = format!(
            "{} stacks: the sum is known to {}, a part of it less well.",
            human::count(answer.memory_samples),
            human::share(error),
        );
        page.wrapped(&text, 2, 4);
    }
}

fn pages(n: u64) -> String {
    format!(
        "{} ({})",
        human::count(n),
        human::bytes(n.saturating_mul(PAGE_BYTES))
    )
}

fn add_exact(page: &mut Page, answer: &MemoryAnswer) {
    let counts = &answer.counts;
    page.heading("Counted", "exact");
    let kinds: Vec<String> = counts
        .faults_by_kind
        .iter()
        .map(|(kind, n)| format!("{} {kind}", human::count(*n)))
        .collect();
    let text = format!(
        "Page faults: {} minor, {} major: {}.",
        human::count(counts.minor_faults),
        human::count(counts.major_faults),
        if kinds.is_empty() {
            "none".to_owned()
        } else {
            kinds.join(", ")
        },
    );
    page.wrapped(&text, 2, 4);
    let text = format!(
        "Pages: {} allocated, {} freed.",
        pages(counts.allocated_pages),
        pages(counts.freed_pages),
    );
    page.wrapped(&text, 2, 4);
    if counts.peak_pages > 0 {
        let text = format!(
            "In use when each process used most: {}, estimated from one page in 32.",
            pages(counts.peak_pages)
        );
        page.wrapped(&text, 2, 4);
    }
    if !answer.calls.is_empty() {
        let calls: Vec<String> = answer
            .calls
            .iter()
            .map(|c| {
                format!(
                    "{} {} in {}",
                    human::count(c.calls),
                    c.name,
                    human::duration(c.time_ns)
                )
            })
            .collect();
        let text = format!("Calls, time on a CPU by the clock: {}.", calls.join(", "));
        page.wrapped(&text, 2, 4);
    }
    add_waits(page, counts);
}

fn add_waits(page: &mut Page, counts: &MemoryCounts) {
    if counts.shootdowns > 0 {
        let text = format!(
            "TLB shootdowns: {}; other processors were interrupted {} and spent {} in that.",
            human::count(counts.shootdowns),
            human::counted(counts.remote_flushes, "time", "times"),
            human::duration(counts.remote_ns),
        );
        page.wrapped(&text, 2, 4);
    }
    for (waits, ns, lock) in [
        (
            counts.mmap_lock_waits,
            counts.mmap_lock_wait_ns,
            "the address space's lock",
        ),
        (
            counts.spin_lock_waits,
            counts.spin_lock_wait_ns,
            "spin locks of the kernel",
        ),
        (
            counts.zone_lock_waits,
            counts.zone_lock_wait_ns,
            "zones' free pages (of the spin locks)",
        ),
        (
            counts.list_lock_waits,
            counts.list_lock_wait_ns,
            "lists of pages in use (of the spin locks)",
        ),
    ] {
        if waits > 0 {
            let waits = human::counted(waits, "wait", "waits");
            page.wrapped(
                &format!("{waits} for {lock}: {}.", human::duration(ns)),
                2,
                4,
            );
        }
    }
}

fn add_clearing(page: &mut Page, answer: &MemoryAnswer) {
    if answer.zeroed_bytes == 0 {
        return;
    }
    let mut text = format!("Cleared: {}", human::bytes(answer.zeroed_bytes));
    if let Some(rate) = answer.zeroed_gb_per_cpu_second {
        text.push_str(&format!(", {rate:.1} GB per CPU-second by samples"));
    }
    text.push_str(&format!(
        ". Modelled: {} if the pages are in a cache, {} if not; this machine clears {:.1} and {:.1} GB/s.",
        human::duration(answer.clearing_modelled_cached_ns),
        human::duration(answer.clearing_modelled_uncached_ns),
        answer.machine.clears_cached_gb_per_s,
        answer.machine.clears_uncached_gb_per_s,
    ));
    page.wrapped(&text, 2, 4);
}

fn add_others(page: &mut Page, answer: &MemoryAnswer) {
    let busy = answer.kernel_threads.iter().filter(|t| t.cpu_ns > 0);
    let busy: Vec<String> = busy
        .map(|t| {
            let own = human::duration(t.attributed_ns);
            format!("{} {own} of {}", t.name, human::duration(t.cpu_ns))
        })
        .collect();
    if !busy.is_empty() {
        let text = format!("Attributed, of the kernel's threads: {}.", busy.join(", "));
        page.wrapped(&text, 2, 4);
    }
}

/// Less of all time, faults and pages is not worth a line.
const TOLD_SHARE: f64 = 0.001;

fn is_told(stack: &MemoryStack, answer: &MemoryAnswer) -> bool {
    let flow = |c: &MemoryCounts| c.allocated_pages.saturating_add(c.freed_pages);
    let faults = |c: &MemoryCounts| c.minor_faults.saturating_add(c.major_faults);
    let is_part = |part: u64, whole: u64| part > 0 && part as f64 >= TOLD_SHARE * whole as f64;
    is_part(stack.time_ns, answer.running_ns)
        || is_part(flow(&stack.counts), flow(&answer.counts))
        || is_part(faults(&stack.counts), faults(&answer.counts))
}

fn add_stacks(page: &mut Page, answer: &MemoryAnswer, most: usize) {
    let told = answer.stacks.iter().filter(|s| is_told(s, answer));
    let stacks: Vec<&MemoryStack> = told.take(most).collect();
    if stacks.is_empty() {
        return;
    }
    page.heading(
        "By stack",
        "time sampled; faults, pages allocated and freed exact",
    );
    for stack in stacks {
        add_stack(page, stack, answer.running_ns);
    }
}

fn add_stack(page: &mut Page, stack: &MemoryStack, running_ns: u64) {
    let counts = &stack.counts;
    let faults = counts.minor_faults.saturating_add(counts.major_faults);
    let mut flow = format!(
        "{}, {} got, {} given back",
        human::counted(faults, "fault", "faults"),
        human::counted(counts.allocated_pages, "page", "pages"),
        human::count(counts.freed_pages),
    );
    let peak = format!(", {} at the peak", human::count(counts.peak_pages));
    if counts.peak_pages > 0
        && INDENT + flow.width() + peak.width() + 2 + stack.process.width() <= page.width
    {
        flow.push_str(&peak);
    }
    let line = format!(
        "{}{}  {}  {}",
        page.bold(&right(&human::percent(stack.time_ns, running_ns), 7)),
        right(&human::duration(stack.time_ns), 10),
        flow,
        page.dim(&stack.process),
    );
    page.line(line);
    let width = page.width - INDENT;
    let chain = wrap(&telling(&stack.frames, width), width);
    for line in chain.iter().take(2) {
        page.line(format!("{}{line}", " ".repeat(INDENT)));
    }
    let parts = parts_of(stack, width);
    if !parts.is_empty() {
        let parts = page.dim(&parts);
        page.line(format!("{}{parts}", " ".repeat(INDENT)));
    }
}

/// The largest components of a stack, as many as there is room for.
fn parts_of(stack: &MemoryStack, width: usize) -> String {
    let mut text = String::new();
    for component in &stack.components {
        let share = human::percent(component.time_ns, stack.time_ns);
        let comma = if text.is_empty() { "" } else { ", " };
        let part = format!("{comma}{} {share}", component.name);
        if text.width() + part.width() > width {
            break;
        }
        text.push_str(&part);
    }
    text
}
