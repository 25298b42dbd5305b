//! What waits were really waiting for, and the longest ones.
use super::paint::{Page, right};
use super::stacks::{telling, wrap};
use crate::answer::{Answer, Chain, LongWait, Party};
use crate::human;
use crate::shorten::middle;
use dwell_analysis::{Reason, State};
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

/// Chains and waits shown; the rest is in the JSON output.
const SHOWN: usize = 8;
const LONGEST: usize = 6;
/// Of waits that are alike, so many are shown.
const ALIKE: usize = 2;

pub(super) fn add_chains(page: &mut Page, answer: &Answer) {
    if answer.chains.is_empty() {
        return;
    }
    page.heading(
        "What the waits were for",
        "waiter ← … ← root, share of thread time",
    );
    for chain in answer.chains.iter().take(SHOWN) {
        let share = human::percent(chain.time_ns, answer.total.lifetime_ns);
        let head = format!(
            "{}{}  ",
            page.bold(&right(&share, 7)),
            right(&human::duration(chain.time_ns), 10)
        );
        let steps = steps(page, chain, page.width - 19);
        page.line(format!("{head}{steps}"));
    }
    let uncovered = 1.0 - answer.waits_covered_share;
    if uncovered > 0.005 {
        let text = format!(
            "  {} of the blocked time is not in these chains.",
            human::share(uncovered)
        );
        let text = page.dim(&text);
        page.line(text);
    }
}

pub(super) fn add_longest(page: &mut Page, answer: &Answer) {
    if answer.longest_waits.is_empty() {
        return;
    }
    page.heading("Longest waits", "and who ended them");
    let mut shown: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let told = answer.longest_waits.iter().filter(|wait| {
        let group = wait
            .chains
            .first()
            .and_then(|c| c.links.first())
            .map_or("", |l| &l.waiter);
        let alike = shown.entry((group, &wait.reason)).or_default();
        *alike += 1;
        *alike <= ALIKE
    });
    for wait in told.take(LONGEST) {
        add_wait(page, wait);
    }
}

fn add_wait(page: &mut Page, wait: &LongWait) {
    let syscall = if wait.syscall.is_empty() {
        String::new()
    } else {
        format!(" {}", wait.syscall)
    };
    let why = format!("{}{syscall}", wait.reason);
    let at = format!("at {}", human::duration(wait.at_ns));
    let time = page.bold(&right(&human::duration(wait.blocked_ns), 9));
    let room = page
        .width
        .saturating_sub(9 + 4 + why.width() + at.width() + 2);
    let line = format!(
        "{time}  {}  {}  {}",
        middle(&format!("{} ({})", wait.thread, wait.tid), room),
        page.state(State::Blocked(Reason::from_name(&wait.reason)), &why),
        page.dim(&at),
    );
    page.line(line);
    if let Some(chain) = wait.chains.first() {
        let share = if wait.chains.len() > 1 {
            format!("{} of it ", human::percent(chain.time_ns, wait.blocked_ns))
        } else {
            String::new()
        };
        let steps = rest(page, chain, page.width - 14 - share.width());
        page.line(format!("           {}← {steps}", page.dim(&share)));
    }
    if !wait.waker_frames.is_empty() {
        let names = telling(&wait.waker_frames, page.width - 26);
        let line = wrap(&names, page.width - 26).swap_remove(0);
        let line = page.dim(&format!("           woken from {line}"));
        page.line(line);
    }
}

/// One step of a chain and its state, if it has one.
type Step = (String, Option<State>);

/// The process of the first waiter is named once.
fn all_steps(chain: &Chain) -> Vec<Step> {
    let first = chain.links.first().map_or("", |l| l.waiter.as_str());
    let process = first.split_once('/').map_or("", |(process, _)| process);
    let within = |text: String| match text.strip_prefix(process).and_then(|t| t.strip_prefix('/')) {
        Some(thread) if !process.is_empty() => thread.to_owned(),
        _ => text,
    };
    let mut steps: Vec<Step> = Vec::with_capacity(chain.links.len() + 1);
    for (place, link) in chain.links.iter().enumerate() {
        let text = format!("{} {}", link.waiter, link.reason);
        let text = if place == 0 { text } else { within(text) };
        steps.push((text, Some(State::Blocked(Reason::from_name(&link.reason)))));
    }
    let (text, state) = root(&chain.root);
    steps.push((within(text), state));
    steps
}

fn root(root: &Party) -> Step {
    match root.kind.as_str() {
        "running" => (format!("{} running", root.name), Some(State::Running)),
        "runnable" => (format!("{} wants a CPU", root.name), Some(State::Runnable)),
        "nobody" => ("no wake-up seen".to_owned(), None),
        "deeper" => ("further back".to_owned(), None),
        _ => (root.name.clone(), None),
    }
}

fn steps(page: &Page, chain: &Chain, width: usize) -> String {
    fitted(page, &all_steps(chain), width)
}

/// The chain without the waiter itself.
fn rest(page: &Page, chain: &Chain, width: usize) -> String {
    fitted(page, &all_steps(chain)[1..], width)
}

/// Joins steps with arrows. When they are too wide, steps in the middle go: the waiter and the root
/// matter most.
fn fitted(page: &Page, steps: &[Step], width: usize) -> String {
    let mut kept: Vec<Step> = steps.to_vec();
    while total_width(&kept) > width && kept.len() > 2 {
        let middle = kept.len() / 2;
        if kept[middle].0 == "…" {
            kept.remove(middle - 1);
        } else {
            kept[middle] = ("…".to_owned(), None);
        }
        if kept.len() == 3 && kept[1].0 == "…" {
            break;
        }
    }
    let too_wide = total_width(&kept).saturating_sub(width);
    if too_wide > 0 {
        let each = (width.saturating_sub(3 * (kept.len() - 1)) / kept.len()).max(8);
        for (text, _) in &mut kept {
            *text = middle(text, each);
        }
    }
    let paint = |(text, state): &Step| match state {
        Some(state) => page.state(*state, text),
        None => text.clone(),
    };
    kept.iter().map(paint).collect::<Vec<_>>().join(" ← ")
}

fn total_width(steps: &[Step]) -> usize {
    steps.iter().map(|(text, _)| text.width()).sum::<usize>() + 3 * steps.len().saturating_sub(1)
}
