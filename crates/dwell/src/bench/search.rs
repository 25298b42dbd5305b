//! Stockfish's benchmark: threads that compute and hardly switch.
use super::process::Gated;
use super::programs::find;
use super::workload::{Attach, Better, Metric, Workload};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

const METRICS: [Metric; 2] = [
    Metric {
        name: "nodes per CPU-second",
        unit: "nodes/CPU-s",
        better: Better::Higher,
    },
    Metric {
        name: "nodes per second",
        unit: "nodes/s",
        better: Better::Higher,
    },
];

/// `stockfish bench 64 THREADS DEPTH`.
pub struct Stockfish {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Stockfish {
    /// A search of roughly this length.
    pub fn new(seconds: f64) -> Result<Self> {
        let program = find(&["stockfish"])
            .context("stockfish is not installed (apt-get install stockfish)")?;
        let threads = std::thread::available_parallelism()
            .map_or(1, |n| n.get())
            .min(2);
        let depth = depth_for(seconds).to_string();
        Ok(Stockfish {
            program,
            arguments: vec!["bench".into(), "64".into(), threads.to_string(), depth],
        })
    }
}

/// One more ply takes about 1.7 times as long; depth 13 takes about 2.8 s on two threads of a machine
/// of 2023.
fn depth_for(seconds: f64) -> i32 {
    (13.0 + (seconds / 2.8).ln() / 1.7f64.ln())
        .round()
        .clamp(6.0, 26.0) as i32
}

/// The number behind `label` in a line like `Nodes searched  : 4095811`.
fn number_after(output: &str, label: &str) -> Result<f64> {
    let line = output.lines().find(|l| l.starts_with(label));
    let number = line
        .and_then(|l| l.rsplit(':').next())
        .and_then(|n| n.trim().parse().ok());
    number.with_context(|| format!("no {label:?} in what stockfish printed"))
}

impl Workload for Stockfish {
    fn metrics(&self) -> &'static [Metric] {
        &METRICS
    }

    fn measure(&mut self, scratch: &Path, attach: &mut Attach) -> Result<Vec<f64>> {
        let mut run = Gated::spawn(scratch, &self.program, &self.arguments)?;
        attach(run.pid())?;
        run.release()?;
        let (output, ended) = run.finish()?;
        let nodes = number_after(&output, "Nodes searched")?;
        Ok(vec![
            nodes / ended.cpu_s,
            number_after(&output, "Nodes/second")?,
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_is_deeper() {
        assert_eq!(depth_for(2.8), 13);
        assert!(depth_for(30.0) > depth_for(2.8) && depth_for(0.1) < 10);
    }

    #[test]
    fn nodes_are_read() {
        let output =
            "Total time (ms) : 1824\nNodes searched  : 4095811\nNodes/second    : 2245510\n";
        assert_eq!(number_after(output, "Nodes searched").unwrap(), 4095811.0);
        assert!(number_after("", "Nodes searched").is_err());
    }
}
