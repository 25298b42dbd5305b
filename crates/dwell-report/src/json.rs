//! The answer as JSON: the fields of [`Answer`], two-space indented, with a final line feed.
//!
//! Names are stable; new fields may be added. Units are in the names, shares are between 0 and 1.
use crate::answer::{Answer, FindingsAnswer, LockTimeline, LocksAnswer, MemoryAnswer};
use crate::diff::DiffAnswer;
use crate::functions::FunctionsAnswer;
use crate::spin_locks::SpinLocksAnswer;
use crate::whatif::WhatIfAnswer;

/// Renders the answer.
pub fn render(answer: &Answer) -> String {
    pretty(answer)
}

/// Renders the answer about locks.
pub fn render_locks(answer: &LocksAnswer) -> String {
    pretty(answer)
}

/// Renders the answer of the rules.
pub fn render_findings(answer: &FindingsAnswer) -> String {
    pretty(answer)
}

/// Renders the answer about memory.
pub fn render_memory(answer: &MemoryAnswer) -> String {
    pretty(answer)
}

/// Renders the answer about functions of the kernel.
pub fn render_functions(answer: &FunctionsAnswer) -> String {
    pretty(answer)
}

/// Renders the answer about spin locks of the kernel.
pub fn render_spin_locks(answer: &SpinLocksAnswer) -> String {
    pretty(answer)
}

/// Renders what changed between recordings.
pub fn render_diff(answer: &DiffAnswer) -> String {
    pretty(answer)
}

/// Renders the answer about changes.
pub fn render_whatif(answer: &WhatIfAnswer) -> String {
    pretty(answer)
}

/// Renders a lock over time.
pub fn render_timeline(timeline: &LockTimeline) -> String {
    pretty(timeline)
}

fn pretty(answer: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(answer).expect("an answer has only string keys");
    text.push('\n');
    text
}
