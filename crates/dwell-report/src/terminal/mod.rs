//! The answer for a terminal.
mod contention;
mod deadlocks;
mod diff;
mod division;
mod findings;
mod functions;
mod header;
mod kernel_locks;
mod live;
mod locks;
mod losses;
mod memory;
mod paint;
mod spin_locks;
mod stacks;
mod waits;
mod whatif;

use crate::answer::Answer;
pub use contention::{render_timeline, timeline_parts};
pub use diff::render_diff;
pub use findings::render_findings;
pub use functions::render_functions;
pub use live::{Screen, render_keys, render_live};
pub use locks::render_locks;
pub use memory::render_memory;
use paint::Page;
pub use spin_locks::render_spin_locks;
pub use whatif::render_whatif;

/// How the terminal looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns; fewer than 60 count as 60, more than 160 as 160.
    pub width: usize,
    /// Whether to write colours (ANSI escapes).
    pub color: bool,
    /// Stacks on and off the processor, each; the answer may have more.
    pub stacks: usize,
}

impl Default for Style {
    fn default() -> Style {
        Style {
            width: 80,
            color: false,
            stacks: 7,
        }
    }
}

/// Renders the answer: what was recorded, what the rules say, how time divides, hottest stacks on and off the processor,
/// what waits were for, what was lost, what to do next.
pub fn render(answer: &Answer, style: &Style) -> String {
    let mut page = Page::new(style);
    header::add(&mut page, &answer.recording);
    findings::add_section(&mut page, &answer.findings);
    division::add(&mut page, answer);
    stacks::add_on_cpu(&mut page, answer);
    stacks::add_off_cpu(&mut page, answer);
    locks::add_section(&mut page, answer);
    memory::add_section(&mut page, answer.memory.as_ref());
    waits::add_chains(&mut page, answer);
    waits::add_longest(&mut page, answer);
    losses::add(&mut page, answer);
    page.finish()
}
