//! What is run under the tools, and what is read off it.
use super::{Options, handover, search, servers};
use anyhow::Result;
use std::path::Path;
use std::str::FromStr;

/// The name of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadName {
    /// Stockfish's own benchmark on two threads: pure computation.
    Stockfish,
    /// Four threads that hand over by pipe and mutex, 65 000 switches a second.
    Iolock,
    /// A pipe ping-pong on one processor: cost per context switch of the recorded program.
    Switch,
    /// The same while another process is recorded: cost per context switch of everybody else.
    SwitchOthers,
    /// How late a woken thread of the recorded program is.
    Wakeup,
    /// `perf bench sched pipe`.
    Pipe,
    /// redis-benchmark against a server of its own.
    Redis,
    /// pgbench against a server of its own.
    Pgbench,
}

impl WorkloadName {
    /// All of them, in the order they are best run.
    pub const ALL: [WorkloadName; 8] = [
        WorkloadName::Stockfish,
        WorkloadName::Iolock,
        WorkloadName::Switch,
        WorkloadName::SwitchOthers,
        WorkloadName::Wakeup,
        WorkloadName::Pipe,
        WorkloadName::Redis,
        WorkloadName::Pgbench,
    ];

    /// The name that is typed.
    pub fn name(self) -> &'static str {
        match self {
            WorkloadName::Stockfish => "stockfish",
            WorkloadName::Iolock => "iolock",
            WorkloadName::Switch => "switch",
            WorkloadName::SwitchOthers => "switch-others",
            WorkloadName::Wakeup => "wakeup",
            WorkloadName::Pipe => "pipe",
            WorkloadName::Redis => "redis",
            WorkloadName::Pgbench => "pgbench",
        }
    }
}

impl FromStr for WorkloadName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|w| w.name() == text)
            .ok_or_else(|| {
                let known: Vec<&str> = Self::ALL.iter().map(|w| w.name()).collect();
                format!("unknown workload {text:?}; there are {}", known.join(", "))
            })
    }
}

/// Which way a figure should go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// A figure a workload gives.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// What it is, as a person would say it.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Which way it should go.
    pub better: Better,
}

/// Called by a workload with the process to attach to, before that process begins.
pub type Attach<'a> = dyn FnMut(u32) -> Result<()> + 'a;

/// Something that can be run again and again.
pub trait Workload {
    /// What the figures are, in the order [`Workload::measure`] gives them.
    fn metrics(&self) -> &'static [Metric];

    /// True when the recorded work is done by children of the process that is attached to.
    fn works_in_children(&self) -> bool {
        false
    }

    /// One run: calls `attach` once, then does the work and gives a figure per metric.
    fn measure(&mut self, scratch: &Path, attach: &mut Attach) -> Result<Vec<f64>>;
}

/// Makes a workload ready to run. The error says what is not installed.
pub fn prepare(name: WorkloadName, options: &Options, scratch: &Path) -> Result<Box<dyn Workload>> {
    let programs = super::programs::test_programs(options.programs.as_deref());
    Ok(match name {
        WorkloadName::Stockfish => Box::new(search::Stockfish::new(options.seconds)?),
        WorkloadName::Iolock => {
            Box::new(handover::TestProgram::iolock(&programs, options.seconds)?)
        }
        WorkloadName::Switch => {
            Box::new(handover::TestProgram::switch(&programs, options.seconds)?)
        }
        WorkloadName::SwitchOthers => Box::new(handover::TestProgram::switch_others(
            &programs,
            options.seconds,
        )?),
        WorkloadName::Wakeup => {
            Box::new(handover::TestProgram::wakeup(&programs, options.seconds)?)
        }
        WorkloadName::Pipe => Box::new(handover::PerfBenchPipe::new(options.seconds)?),
        WorkloadName::Redis => Box::new(servers::Redis::start(scratch, options.seconds)?),
        WorkloadName::Pgbench => Box::new(servers::Pgbench::start(scratch, options.seconds)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for name in WorkloadName::ALL {
            assert_eq!(name.name().parse(), Ok(name));
        }
        assert!(
            "nonsense"
                .parse::<WorkloadName>()
                .unwrap_err()
                .contains("stockfish")
        );
    }
}
