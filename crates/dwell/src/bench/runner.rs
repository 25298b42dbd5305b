//! The interleaved runs.
use super::Options;
use super::process::scratch;
use super::report::{Observation, Report, WorkloadReport};
use super::tool::{Tool, ToolCost};
use super::workload::{Workload, WorkloadName, prepare};
use anyhow::{Context, Result, ensure};
use dwell_recording::Recording;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A tool with its program, ready to attach.
struct Ready {
    tool: Tool,
    program: PathBuf,
}

/// See [`super::run`].
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    ensure!(options.rounds > 0, "at least one round is needed");
    ensure!(options.seconds > 0.0, "a run must take some time");
    let mut report = Report::new(options.rounds, options.seconds);
    let tools = ready_tools(options, &mut report)?;
    for &name in &options.workloads {
        let scratch = scratch()?;
        match prepare(name, options, scratch.path()) {
            Err(why) => report.leave_out(name.name(), &format!("{why:#}")),
            Ok(mut workload) => {
                let mut bench = Bench {
                    name,
                    workload: workload.as_mut(),
                    scratch: scratch.path(),
                    progress,
                };
                report.workloads.push(bench.run(&tools, options.rounds)?);
            }
        }
    }
    Ok(report)
}

/// The tools that are installed, in the order asked for.
fn ready_tools(options: &Options, report: &mut Report) -> Result<Vec<Ready>> {
    let dwell = match &options.dwell {
        Some(path) => path.clone(),
        None => std::env::current_exe().context("cannot tell which program this is")?,
    };
    let mut ready = vec![Ready {
        tool: Tool::Nothing,
        program: PathBuf::new(),
    }];
    for &tool in options.tools.iter().filter(|t| **t != Tool::Nothing) {
        match tool.program(&dwell) {
            Ok(program) => ready.push(Ready { tool, program }),
            Err(why) => report.leave_out(tool.name(), &format!("{why:#}")),
        }
    }
    Ok(ready)
}

/// One workload being measured.
struct Bench<'a> {
    name: WorkloadName,
    workload: &'a mut dyn Workload,
    scratch: &'a Path,
    progress: &'a mut dyn FnMut(&str),
}

/// How long after its start a tool surely records. Without one the workload rests as long: after a second of rest a
/// server does some percent less in its first two than without, with cold caches on processors that slept.
const SETTLE: Duration = Duration::from_secs(1);

impl Bench<'_> {
    fn run(&mut self, tools: &[Ready], rounds: usize) -> Result<WorkloadReport> {
        let nothing = &tools[0];
        let mut observations: Vec<Observation> = Vec::new();
        let mut failed: BTreeMap<&'static str, String> = BTreeMap::new();
        self.tell("warming up");
        let (mut before, _) = self.once(nothing)?;
        for round in 1..=rounds {
            for ready in tools {
                if let Some(why) = self.unfit(ready.tool) {
                    failed.entry(ready.tool.name()).or_insert(why);
                }
                if failed.contains_key(ready.tool.name()) {
                    continue;
                }
                self.tell(&format!("round {round}/{rounds}, {}", ready.tool.title()));
                match self.once(ready) {
                    // Without a tool nothing may fail: there would be nothing to compare with.
                    Err(why) if ready.tool == Tool::Nothing => return Err(why),
                    Err(why) => {
                        failed.insert(ready.tool.name(), format!("{why:#}"));
                    }
                    Ok((with, cost)) => {
                        let (after, _) = self.once(nothing)?;
                        observations.push(Observation {
                            tool: ready.tool,
                            before,
                            with,
                            after: after.clone(),
                            cost,
                        });
                        before = after;
                    }
                }
            }
        }
        let order: Vec<Tool> = tools.iter().map(|r| r.tool).collect();
        let dwell = tools.iter().find(|r| r.tool == Tool::Dwell);
        let dwell = dwell.filter(|r| !failed.contains_key(r.tool.name()));
        // (There the recorded program sleeps.)
        let dwell = dwell.filter(|_| self.name != WorkloadName::SwitchOthers);
        let programs_share = dwell.map(|r| self.programs_share(r)).transpose()?;
        let mut report = WorkloadReport::new(
            self.name,
            self.workload.metrics(),
            &order,
            &observations,
            failed,
        );
        report.programs_share = programs_share;
        Ok(report)
    }

    /// One more run in which the kernel counts the time of dwell's programs, as a share of the processor
    /// time of the recorded threads: what no noise of the machine hides.
    fn programs_share(&mut self, dwell: &Ready) -> Result<f64> {
        let counting = dwell_collector::count_run_time()?;
        self.tell("dwell's eBPF programs");
        self.once(dwell)?;
        drop(counting);
        let recording = Recording::open(self.scratch.join("recording"))?;
        let recorded = recording.load()?;
        let running: u64 = recorded.threads.iter().map(|t| t.running_ns).sum();
        let programs = recorded.meta.recorder.bpf_ns;
        Ok(programs.context("the kernel did not count")? as f64 / running as f64)
    }

    /// Why a tool cannot show anything of this workload.
    fn unfit(&self, tool: Tool) -> Option<String> {
        let blind = self.workload.works_in_children() && !tool.follows_children();
        blind.then(|| "it looks at one process, and the work is done by several".to_owned())
    }

    /// One run with one tool: the workload's figures, and what the tool used.
    fn once(&mut self, ready: &Ready) -> Result<(Vec<f64>, Option<ToolCost>)> {
        remove_recording(self.scratch);
        let mut attached = None;
        let scratch = self.scratch;
        let figures = self.workload.measure(scratch, &mut |pid| {
            let tool = attached.insert(ready.tool.attach(&ready.program, pid, scratch)?);
            std::thread::sleep(SETTLE);
            tool.check()
        });
        let cost = attached.map_or(Ok(None), |tool| tool.stop());
        Ok((figures?, cost?))
    }

    fn tell(&mut self, what: &str) {
        (self.progress)(&format!("{}: {what}", self.name.name()));
    }
}

/// A recording may be a file or a folder, and is not always there.
fn remove_recording(scratch: &Path) {
    let path = scratch.join("recording");
    let _ = std::fs::remove_file(&path);
    let _ = std::fs::remove_dir_all(&path);
}
