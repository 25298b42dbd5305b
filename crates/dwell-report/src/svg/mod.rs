//! A flame graph in one SVG file that any browser opens from disk.
//!
//! The unit is thread time, on and off the processor alike. Width is time, the process is at the top,
//! then thread group and functions, callers above callees, the longest first. The last frame of a
//! stack has the colour of what the thread did there: its own function when it ran, a frame like
//! `[blocked: lock futex]` or `[runnable]` when it did not, and `[spinning]` when it only waited there.
//! Frames further up have the mixed, paler colour of everything below them. The legend's entries are the shares of each state; a click on one
//! finds its frames, and so does the search (`^\[blocked: lock`).
//!
//! Idle pools are one box to begin with, drawn no wider than an eighth of the graph; a control at the
//! top left unfolds them. The numbers in the boxes are true in both views.
//!
//! Layout, zoom and search are inferno's; colours, true numbers, the legend and the second view are
//! put into what it writes.
mod diff;
mod layer;
mod page;
mod time;

pub use diff::write_diff;

use crate::tree::Shape;
use dwell_analysis::Analysis;
use layer::Layer;
use std::io::{self, Write};

/// How to draw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The title; the recording's target when none.
    pub title: Option<String>,
    /// Processes by pid and threads by tid, rather than all with the same name together.
    pub per_thread: bool,
}

/// Writes the graph.
pub fn write(analysis: &Analysis<'_>, options: &Options, out: &mut impl Write) -> io::Result<()> {
    let tree = |fold_idle| {
        let per_thread = options.per_thread;
        time::visible(
            analysis,
            Shape {
                per_thread,
                fold_idle,
            },
        )
    };
    let heading = time::heading(analysis, options);
    let all = tree(false);
    if all.nodes[0].total.total() == 0 {
        return page::write_empty(&heading, out);
    }
    let unfolded = Layer::draw(&all, &heading)?;
    if analysis.idle.pools.is_empty() {
        return page::write(&heading, &unfolded, None, out);
    }
    let folded = Layer::draw(&tree(true), &heading)?;
    page::write(&heading, &folded, Some(&unfolded), out)
}
