//! What a profiler costs the program it looks at, measured on this machine.
//!
//! Timings on a shared machine drift, so nothing is compared across minutes: a round runs
//! `none, tool 1, none, tool 2, none, …`, every run with a tool is divided by the mean of the runs
//! without one directly before and after it, and the median of these ratios over all rounds is
//! reported with a bootstrap interval. The same is done with runs without a tool (A/A): what that
//! shows is noise, and no smaller effect can be seen.
pub mod boost;
mod handover;
pub mod probes;
mod process;
mod programs;
mod report;
mod runner;
pub mod scripts;
mod search;
mod servers;
pub mod statistics;
mod tool;
pub mod whatif;
mod workload;

pub use report::Report;
pub use tool::Tool;
pub use workload::WorkloadName;

use std::path::PathBuf;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds per workload; each gives one pair per tool.
    pub rounds: usize,
    /// About how long one run of a workload takes, seconds.
    pub seconds: f64,
    /// The workloads, in the order they are run.
    pub workloads: Vec<WorkloadName>,
    /// The tools to compare with running alone.
    pub tools: Vec<Tool>,
    /// The folder with dwell's small test programs (`iolock`, `pingpong`, `sleepers`), for the
    /// workloads that need them. None: `programs` beside the folder of the running executable.
    pub programs: Option<PathBuf>,
    /// The `dwell` to measure. None: the running executable.
    pub dwell: Option<PathBuf>,
}

impl Default for Options {
    /// dwell, and the least that it could cost, on every workload: a few minutes.
    fn default() -> Self {
        Options {
            rounds: 5,
            seconds: 2.0,
            workloads: WorkloadName::ALL.to_vec(),
            tools: vec![Tool::Floor, Tool::Dwell],
            programs: None,
            dwell: None,
        }
    }
}

/// Runs the comparison. `progress` is told what is being run, a line at a time.
///
/// A tool or workload whose program is not installed is left out, with a note in the report.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> anyhow::Result<Report> {
    runner::run(options, progress)
}
