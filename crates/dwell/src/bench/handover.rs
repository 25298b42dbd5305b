//! Programs that do little else than switch: dwell's `iolock` and `pingpong`, and `perf bench sched pipe`.
use super::process::{Gated, signal, wait};
use super::programs::find;
use super::workload::{Attach, Better, Metric, Workload};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const IOLOCK: [Metric; 2] = [
    Metric {
        name: "round trips per CPU-second",
        unit: "trips/CPU-s",
        better: Better::Higher,
    },
    Metric {
        name: "round trips per second",
        unit: "trips/s",
        better: Better::Higher,
    },
];
const SWITCH: [Metric; 1] = [Metric {
    name: "CPU time per switch, recorded program",
    unit: "ns",
    better: Better::Lower,
}];
const SWITCH_OTHERS: [Metric; 1] = [Metric {
    name: "CPU time per switch, another program recorded",
    unit: "ns",
    better: Better::Lower,
}];
const WAKEUP: [Metric; 2] = [
    Metric {
        name: "wake-up latency, median",
        unit: "ns",
        better: Better::Lower,
    },
    Metric {
        name: "wake-up latency, 99th percentile",
        unit: "ns",
        better: Better::Lower,
    },
];
const PIPE: [Metric; 2] = [
    Metric {
        name: "time per round trip",
        unit: "ns",
        better: Better::Lower,
    },
    Metric {
        name: "CPU time per round trip",
        unit: "ns",
        better: Better::Lower,
    },
];

/// One of dwell's test programs that prints its figures as a line of JSON.
pub struct TestProgram {
    program: PathBuf,
    arguments: Vec<String>,
    metrics: &'static [Metric],
    /// The members of its JSON that are the metrics.
    members: &'static [&'static str],
    /// The program to attach to instead of this one.
    victim: Option<PathBuf>,
}

impl TestProgram {
    /// `iolock`: four threads, mutex and pipe, as much work between handovers as leaves [`IOLOCK_SWITCHES_PER_S`] here.
    pub fn iolock(folder: &Path, seconds: f64) -> Result<Self> {
        let program = existing(folder, "iolock")?;
        let measured = |steps| anyhow::Ok((steps, ns_per_switch(&program, steps)?));
        let [few, many] = STEPS_TRIED;
        let steps = steps_for(1e9 / IOLOCK_SWITCHES_PER_S, measured(few)?, measured(many)?);
        Self::new(
            folder,
            "iolock",
            vec![seconds.to_string(), steps.to_string()],
            &IOLOCK,
            &["round_trips_per_cpu_s", "round_trips_per_s"],
        )
    }

    /// `pingpong switch`, recorded.
    pub fn switch(folder: &Path, seconds: f64) -> Result<Self> {
        let arguments = vec!["switch".into(), seconds.to_string()];
        Self::new(
            folder,
            "pingpong",
            arguments,
            &SWITCH,
            &["cpu_ns_per_switch"],
        )
    }

    /// `pingpong switch` while `sleepers` is recorded.
    pub fn switch_others(folder: &Path, seconds: f64) -> Result<Self> {
        let victim = existing(folder, "sleepers")?;
        let switch = Self::switch(folder, seconds)?;
        Ok(TestProgram {
            metrics: &SWITCH_OTHERS,
            victim: Some(victim),
            ..switch
        })
    }

    /// `pingpong latency`, recorded.
    pub fn wakeup(folder: &Path, seconds: f64) -> Result<Self> {
        let arguments = vec!["latency".into(), seconds.to_string()];
        Self::new(
            folder,
            "pingpong",
            arguments,
            &WAKEUP,
            &["p50_ns", "p99_ns"],
        )
    }

    fn new(
        folder: &Path,
        name: &str,
        arguments: Vec<String>,
        metrics: &'static [Metric],
        members: &'static [&'static str],
    ) -> Result<Self> {
        let program = existing(folder, name)?;
        Ok(TestProgram {
            program,
            arguments,
            metrics,
            members,
            victim: None,
        })
    }
}

/// What a switch of `iolock` costs depends on how many there are, which is to be the same on every machine.
const IOLOCK_SWITCHES_PER_S: f64 = 65_000.0;
/// Steps of work between handovers of which is measured how long they take.
const STEPS_TRIED: [f64; 2] = [1_000.0, 10_000.0];

/// How long `iolock` takes from switch to switch, alone.
fn ns_per_switch(program: &Path, steps: f64) -> Result<f64> {
    let output = Command::new(program)
        .args(["0.5", &steps.to_string()])
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let figures = read_members(
        &String::from_utf8_lossy(&output.stdout),
        &["switches_per_s"],
    )?;
    Ok(1e9 / figures[0])
}

/// How many steps take so many ns with their switch, by two such pairs; none where the switch alone takes longer.
fn steps_for(ns: f64, few: (f64, f64), many: (f64, f64)) -> u64 {
    let of_step = (many.1 - few.1) / (many.0 - few.0);
    let steps = few.0 + (ns - few.1) / of_step;
    if steps.is_finite() { steps as u64 } else { 0 }
}

fn existing(folder: &Path, name: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    if !path.is_file() {
        bail!(
            "{} is not there; build the test programs or name their folder",
            path.display()
        );
    }
    Ok(path)
}

/// The named members of the JSON object on the last line.
fn read_members(output: &str, members: &[&str]) -> Result<Vec<f64>> {
    let line = output.lines().last().context("it printed nothing")?;
    let json: serde_json::Value =
        serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
    members
        .iter()
        .map(|m| {
            json[m]
                .as_f64()
                .with_context(|| format!("no {m} in {line}"))
        })
        .collect()
}

impl Workload for TestProgram {
    fn metrics(&self) -> &'static [Metric] {
        self.metrics
    }

    fn measure(&mut self, scratch: &Path, attach: &mut Attach) -> Result<Vec<f64>> {
        let victim = self.victim.as_deref().map(Sleeping::start).transpose()?;
        let mut run = Gated::spawn(scratch, &self.program, &self.arguments)?;
        attach(victim.as_ref().map_or(run.pid(), |v| v.0.id()))?;
        run.release()?;
        let (output, _) = run.finish()?;
        read_members(&output, self.members)
    }
}

/// A process whose threads sleep; ended when dropped.
struct Sleeping(Child);

impl Sleeping {
    fn start(program: &Path) -> Result<Self> {
        let mut child = Command::new(program)
            .arg("3600")
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut ready = String::new();
        let stdout = child.stdout.take().context("no standard output")?;
        BufReader::new(stdout).read_line(&mut ready)?;
        Ok(Sleeping(child))
    }
}

impl Drop for Sleeping {
    fn drop(&mut self) {
        signal(&self.0, libc::SIGKILL);
        let _ = wait(&self.0);
    }
}

/// `perf bench sched pipe` between two threads on one processor.
pub struct PerfBenchPipe {
    program: PathBuf,
    arguments: Vec<String>,
    rounds: f64,
}

/// Round trips a second to expect when choosing how many to make: the slow end, so that runs are not
/// much longer than asked for.
const PIPE_ROUNDS_PER_S: f64 = 150_000.0;

impl PerfBenchPipe {
    /// A run of roughly this length.
    pub fn new(seconds: f64) -> Result<Self> {
        let perf = find(&["perf"]).context("perf is not installed (apt-get install linux-perf)")?;
        let taskset =
            find(&["taskset"]).context("taskset is not installed (apt-get install util-linux)")?;
        let cpu = std::thread::available_parallelism().map_or(1, |n| n.get()) - 1;
        let rounds = (seconds * PIPE_ROUNDS_PER_S).round();
        let mut arguments = vec!["-c".to_owned(), cpu.to_string(), perf.display().to_string()];
        arguments.extend(["bench", "sched", "pipe", "-T", "-l"].map(str::to_owned));
        arguments.push(rounds.to_string());
        Ok(PerfBenchPipe {
            program: taskset,
            arguments,
            rounds,
        })
    }
}

/// The number in front of `usecs/op`, in ns.
fn ns_per_op(output: &str) -> Result<f64> {
    let line = output
        .lines()
        .find_map(|l| l.trim().strip_suffix("usecs/op"));
    let us: f64 = line
        .and_then(|n| n.trim().parse().ok())
        .context("no usecs/op in what perf bench printed")?;
    Ok(us * 1000.0)
}

impl Workload for PerfBenchPipe {
    fn metrics(&self) -> &'static [Metric] {
        &PIPE
    }

    fn measure(&mut self, scratch: &Path, attach: &mut Attach) -> Result<Vec<f64>> {
        let mut run = Gated::spawn(scratch, &self.program, &self.arguments)?;
        attach(run.pid())?;
        run.release()?;
        let (output, ended) = run.finish()?;
        Ok(vec![ns_per_op(&output)?, ended.cpu_s * 1e9 / self.rounds])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_from_the_last_line() {
        let output = "{\"ready\":1}\n{\"program\":\"x\",\"p50_ns\":12,\"p99_ns\":34.5}\n";
        assert_eq!(
            read_members(output, &["p50_ns", "p99_ns"]).unwrap(),
            [12.0, 34.5]
        );
        assert!(
            read_members(output, &["p75_ns"])
                .unwrap_err()
                .to_string()
                .contains("p75_ns")
        );
    }

    #[test]
    fn perf_bench_is_read() {
        let output =
            "     Total time: 2.569 [sec]\n\n      12.845940 usecs/op\n          77845 ops/sec\n";
        assert_eq!(ns_per_op(output).unwrap(), 12845.94);
    }

    #[test]
    fn steps_fill_the_time() {
        let [few, many] = [(1_000.0, 3_000.0), (10_000.0, 12_000.0)];
        assert_eq!(steps_for(15_000.0, few, many), 13_000);
        assert_eq!(steps_for(1_500.0, few, many), 0);
        assert_eq!(steps_for(15_000.0, few, few), 0);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = TestProgram::iolock(Path::new("/nonexistent"), 1.0)
            .err()
            .unwrap();
        assert!(error.to_string().contains("/nonexistent/iolock"));
    }
}
