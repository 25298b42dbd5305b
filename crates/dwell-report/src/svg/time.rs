//! Thread time, coloured by state.
use super::Options;
use super::layer::{Boxes, MIN_WIDTH_PERCENT};
use super::page::{self, Entry, Heading};
use crate::tree::{IDLE, Shape, Tree};
use crate::{human, palette};
use dwell_analysis::{Analysis, State, Times};
use std::ops::Range;

/// The tree of what is wide enough to be drawn.
pub(super) fn visible(analysis: &Analysis<'_>, shape: Shape) -> Tree {
    let entries = analysis.profile.entries.iter().zip(&analysis.idle.folded);
    let shown = entries.filter(|(_, idle)| !(shape.fold_idle && **idle));
    let busy_ns = shown.fold(0u64, |sum, (entry, _)| sum.saturating_add(entry.weight_ns));
    // Half of it, since widths are rounded.
    let least = busy_ns as f64 * MIN_WIDTH_PERCENT / 100.0 / 2.0;
    Tree::of(analysis, shape, least as u64)
}

impl Boxes for Tree {
    fn name(&self, place: usize) -> &str {
        self.name(&self.nodes[place])
    }

    fn own(&self, place: usize) -> u64 {
        self.nodes[place].own_ns
    }

    fn left_out(&self, place: usize) -> u64 {
        self.nodes[place].narrow_ns
    }

    fn children(&self, place: usize) -> Range<usize> {
        self.nodes[place].children.clone()
    }

    /// The state's own colour at the end of a stack, else the mix of what is below, paler.
    fn color(&self, place: usize) -> palette::Rgb {
        let node = &self.nodes[place];
        let parts = node.total.iter();
        let parts = parts.map(|(state, ns)| (palette::rgb(state), ns));
        let name = self.name(node);
        let paler = if name.starts_with(IDLE) {
            0.55
        } else if !node.children.is_empty() || node.narrow_ns > 0 {
            0.4 + shade(name)
        } else if node.total.get(State::Running) > 0 {
            shade(name)
        } else {
            0.0
        };
        palette::mix(parts, paler)
    }

    fn numbers(&self, place: usize) -> String {
        let ns = self.nodes[place].total.total();
        let percent = human::percent(ns, self.nodes[0].total.total());
        format!("{}, {}", human::duration(ns), percent.replace(' ', ""))
    }

    fn count(&self) -> usize {
        self.nodes.len()
    }
}

/// Up to a sixth, by name: neighbours in the same state stay apart.
fn shade(name: &str) -> f64 {
    let hash = name.bytes().fold(0x811c_9dc5u32, |hash, b| {
        (hash ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    f64::from(hash % 64) / 64.0 / 6.0
}

/// What the graph is about.
pub(super) fn heading(analysis: &Analysis<'_>, options: &Options) -> Heading {
    let total = &analysis.summary.total;
    let target = &analysis.tables.meta.target;
    let idle = analysis.idle.threads();
    let idle = human::counted(idle, "idle thread", "idle threads");
    Heading {
        title: page::title(options.title.as_ref().unwrap_or(target)),
        subtitle: format!(
            "{} of thread time: {} over {}",
            human::duration(total.times.total()),
            human::counted(total.threads, "thread", "threads"),
            human::duration(analysis.summary.window_ns),
        ),
        notes: "Width is thread time; see the legend for the colours.".to_owned(),
        legend: legend(&total.times),
        control: [format!("Unfold {idle}"), format!("Fold {idle}")],
    }
}

/// Every state that occurs with its share.
fn legend(times: &Times) -> Vec<Entry> {
    let entry = |(state, ns): (State, u64)| Entry {
        color: palette::rgb(state),
        label: format!(
            "{} {}",
            name(state),
            human::percent(ns, times.total()).replace(' ', "")
        ),
        meaning: format!("{}: {}", meaning(state), human::duration(ns)),
        search: search(state),
    };
    times.iter().filter(|(_, ns)| *ns > 0).map(entry).collect()
}

fn name(state: State) -> &'static str {
    state.reason().map_or(state.name(), |reason| reason.name())
}

fn meaning(state: State) -> String {
    match state {
        State::Running => "on a processor".to_owned(),
        State::Spinning => "on a processor, in a loop that only waits (click to find)".to_owned(),
        State::Runnable => "wants a processor, has none (click to find)".to_owned(),
        State::Blocked(reason) => format!("blocked, {} (click to find)", reason.name()),
        State::Stolen => {
            "had a processor, which the host or interrupts took (click to find)".to_owned()
        }
        State::Lost => "unknown".to_owned(),
    }
}

/// The regular expression that finds a state's frames. Running ones have no frame of their own.
fn search(state: State) -> Option<String> {
    match state {
        State::Running => None,
        State::Spinning => Some(r"^\[spinning\]".to_owned()),
        State::Runnable => Some(r"^\[runnable\]".to_owned()),
        State::Blocked(reason) => Some(format!(r"^\[blocked: {}\b", reason.name())),
        State::Stolen => Some(r"^\[stolen\]".to_owned()),
        State::Lost => Some(r"^\[lost\]".to_owned()),
    }
}
