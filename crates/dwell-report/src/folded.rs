//! Folded stacks: one line per stack, frames parted by `;`, outermost first, then a blank and the time.
//!
//! The first frame is the process, the second the thread group, then come the functions. A stack off
//! the processor ends in a frame that says why: `[blocked: lock futex]`, `[runnable]`; one that only
//! waits on it in `[spinning]`. Kernel functions end in `_[k]`, functions without a name are
//! `[module+0xaddress]`. In names, `;` becomes `,`. The times add up to the recording's thread time exactly (to the whole unit).
use crate::tree::{Shape, Tree};
use dwell_analysis::Analysis;
use dwell_analysis::apportion::apportion;
use std::io::{self, Write};

/// The unit of the times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds of thread time.
    #[default]
    Nanoseconds,
    /// Microseconds of thread time, rounded so that the total stays.
    Microseconds,
}

/// How to fold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Unit of the times.
    pub unit: Unit,
    /// Processes by pid, and a further frame `name (tid)` after the thread group.
    pub per_thread: bool,
    /// Waits of idle pools in one line `[idle pools: N threads]`.
    pub fold_idle: bool,
}

/// Writes the stacks, sorted.
pub fn write(analysis: &Analysis<'_>, options: &Options, out: &mut impl Write) -> io::Result<()> {
    let shape = Shape {
        per_thread: options.per_thread,
        fold_idle: options.fold_idle,
    };
    let mut lines = Tree::of(analysis, shape, 0).lines();
    lines.sort_unstable();
    if options.unit == Unit::Microseconds {
        let times: Vec<u64> = lines.iter().map(|(_, ns)| *ns).collect();
        let total_ns = times.iter().fold(0u64, |sum, ns| sum.saturating_add(*ns));
        for (line, us) in lines.iter_mut().zip(apportion(total_ns / 1000, &times)) {
            line.1 = us;
        }
    }
    for (stack, time) in lines.iter().filter(|(_, time)| *time > 0) {
        writeln!(out, "{stack} {time}")?;
    }
    Ok(())
}
