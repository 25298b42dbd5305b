//! The answer: per workload and figure, what each tool makes of it.
use super::statistics::{Estimate, estimate, median, pair};
use super::tool::{Tool, ToolCost};
use super::workload::{Better, Metric, WorkloadName};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// One run with a tool between two without.
pub struct Observation {
    /// The tool.
    pub tool: Tool,
    /// The figures without a tool just before.
    pub before: Vec<f64>,
    /// The figures with it.
    pub with: Vec<f64>,
    /// The figures without a tool just after.
    pub after: Vec<f64>,
    /// What the tool used.
    pub cost: Option<ToolCost>,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// `uname -r`, empty when unknown.
    pub kernel: String,
    /// Processors that may be used.
    pub cpus: usize,
    /// Rounds per workload.
    pub rounds: usize,
    /// Length of a run that was asked for, seconds.
    pub seconds: f64,
    /// The answers.
    pub workloads: Vec<WorkloadReport>,
    /// What was left out, and why.
    pub left_out: BTreeMap<String, String>,
}

/// One workload.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadReport {
    /// Its name.
    pub name: &'static str,
    /// Its figures.
    pub metrics: Vec<MetricReport>,
    /// Tools that gave no figure here, and why.
    pub left_out: BTreeMap<&'static str, String>,
    /// Processor time and memory of each tool itself: medians per run.
    pub tool_costs: BTreeMap<&'static str, Cost>,
    /// Time of dwell's eBPF programs ÷ processor time of the recorded threads, by the kernel's count.
    pub programs_share: Option<f64>,
}

/// What a tool itself used in a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    /// Median processor time of the tool's own process in a run, seconds.
    pub cpu_s: f64,
    /// Largest peak of its resident memory, bytes.
    pub peak_rss_bytes: u64,
}

/// One figure of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct MetricReport {
    /// What it is.
    pub name: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Which way it should go.
    pub better: Better,
    /// Median without a tool, in `unit`.
    pub alone: f64,
    /// One row per tool; the first one is without a tool and shows the noise.
    pub rows: Vec<Row>,
}

/// What one tool makes of a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The tool's name.
    pub tool: &'static str,
    /// The tool as a person would call it.
    pub title: &'static str,
    /// Figure with the tool ÷ figure without.
    pub ratio: Estimate,
    /// Figure with the tool − figure without, in the metric's unit.
    pub difference: Estimate,
    /// The ratios the estimate is made of, in the order they were measured.
    pub ratios: Vec<f64>,
}

impl Report {
    /// An empty report about this machine.
    pub fn new(rounds: usize, seconds: f64) -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Report {
            kernel: kernel.trim().to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get()),
            rounds,
            seconds,
            workloads: Vec::new(),
            left_out: BTreeMap::new(),
        }
    }

    /// Notes that something is not measured.
    pub fn leave_out(&mut self, what: &str, why: &str) {
        self.left_out.insert(what.to_owned(), why.to_owned());
    }
}

impl WorkloadReport {
    /// Makes the answer from the observations, tools in the order given.
    pub fn new(
        name: WorkloadName,
        metrics: &'static [Metric],
        tools: &[Tool],
        observations: &[Observation],
        left_out: BTreeMap<&'static str, String>,
    ) -> Self {
        let metrics = metrics.iter().enumerate();
        WorkloadReport {
            name: name.name(),
            metrics: metrics
                .map(|(i, m)| metric_report(m, i, tools, observations))
                .collect(),
            left_out,
            tool_costs: tools
                .iter()
                .filter_map(|t| Some((t.name(), cost_of(*t, observations)?)))
                .collect(),
            programs_share: None,
        }
    }
}

fn metric_report(
    metric: &Metric,
    index: usize,
    tools: &[Tool],
    observations: &[Observation],
) -> MetricReport {
    let alone: Vec<f64> = observations.iter().map(|o| o.after[index]).collect();
    MetricReport {
        name: metric.name,
        unit: metric.unit,
        better: metric.better,
        alone: median(&alone),
        rows: tools
            .iter()
            .filter_map(|tool| row(*tool, index, observations))
            .collect(),
    }
}

fn row(tool: Tool, index: usize, observations: &[Observation]) -> Option<Row> {
    let own = observations.iter().filter(|o| o.tool == tool);
    let triples: Vec<_> = own
        .map(|o| (o.before[index], o.with[index], o.after[index]))
        .collect();
    if triples.is_empty() {
        return None;
    }
    let paired = pair(&triples);
    Some(Row {
        tool: tool.name(),
        title: tool.title(),
        ratio: estimate(&paired.ratios),
        difference: estimate(&paired.differences),
        ratios: paired.ratios,
    })
}

fn cost_of(tool: Tool, observations: &[Observation]) -> Option<Cost> {
    let costs: Vec<ToolCost> = observations
        .iter()
        .filter(|o| o.tool == tool)
        .filter_map(|o| o.cost)
        .collect();
    let peak_rss_bytes = costs.iter().map(|c| c.peak_rss_bytes).max()?;
    let cpu_s = median(&costs.iter().map(|c| c.cpu_s).collect::<Vec<_>>());
    Some(Cost {
        cpu_s,
        peak_rss_bytes,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(
            f,
            "Linux {}, {} processors; {} rounds of about {} s",
            self.kernel, self.cpus, self.rounds, self.seconds
        )?;
        writeln!(
            f,
            "ratio: figure with the tool ÷ figure alone, median; the first row shows noise"
        )?;
        for workload in &self.workloads {
            write!(f, "{workload}")?;
        }
        if !self.left_out.is_empty() {
            writeln!(f, "\nleft out")?;
        }
        for (what, why) in &self.left_out {
            writeln!(f, "  {what}: {why}")?;
        }
        Ok(())
    }
}

impl fmt::Display for WorkloadReport {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for metric in &self.metrics {
            let better = match metric.better {
                Better::Higher => "more is better",
                Better::Lower => "less is better",
            };
            writeln!(f, "\n{}: {}, {better}", self.name, metric.name)?;
            let alone = format!("alone {} {}", short(metric.alone), metric.unit);
            writeln!(
                f,
                "  {alone:<32} {:>8} {:>17} {:>18}",
                "ratio", "95 % interval", "difference"
            )?;
            for row in &metric.rows {
                let interval = format!("{:.4} – {:.4}", row.ratio.low, row.ratio.high);
                writeln!(
                    f,
                    "  {:<32} {:>8.4} {:>17} {:>18}",
                    row.title,
                    row.ratio.median,
                    interval,
                    short(row.difference.median)
                )?;
            }
        }
        for (tool, why) in &self.left_out {
            writeln!(f, "  {tool} left out: {why}")?;
        }
        for (tool, cost) in &self.tool_costs {
            let mib = cost.peak_rss_bytes as f64 / (1 << 20) as f64;
            writeln!(
                f,
                "  {tool} itself: {:.2} CPU-s a run, at most {mib:.0} MiB",
                cost.cpu_s
            )?;
        }
        if let Some(share) = self.programs_share {
            let percent = share * 100.0;
            writeln!(
                f,
                "  dwell's eBPF programs: {percent:.2} % of the recorded CPU time"
            )?;
        }
        Ok(())
    }
}

/// Four digits or so, without an exponent.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: [Metric; 1] = [Metric {
        name: "steps per second",
        unit: "steps/s",
        better: Better::Higher,
    }];

    fn report() -> Report {
        let observe = |tool, with: f64, cost| Observation {
            tool,
            before: vec![100.0],
            with: vec![with],
            after: vec![100.0],
            cost,
        };
        let cost = Some(ToolCost {
            cpu_s: 0.5,
            peak_rss_bytes: 64 << 20,
        });
        let observations = [
            observe(Tool::Nothing, 101.0, None),
            observe(Tool::PerfFp, 80.0, cost),
            observe(Tool::PerfFp, 82.0, cost),
        ];
        let left_out = BTreeMap::from([("gdb", "gdb is not installed".to_owned())]);
        let tools = [Tool::Nothing, Tool::PerfFp, Tool::Gdb];
        let mut report = Report::new(2, 1.0);
        report.workloads.push(WorkloadReport::new(
            WorkloadName::Iolock,
            &METRICS,
            &tools,
            &observations,
            left_out,
        ));
        report
    }

    #[test]
    fn ratios_differences_and_costs() {
        let report = report();
        let metric = &report.workloads[0].metrics[0];
        assert_eq!(metric.alone, 100.0);
        assert_eq!(
            metric.rows.len(),
            2,
            "a tool without observations has no row"
        );
        assert_eq!(metric.rows[1].ratios, [0.8, 0.82]);
        assert_eq!(metric.rows[1].difference.median, -19.0);
        assert_eq!(
            report.workloads[0].tool_costs["perf"].peak_rss_bytes,
            64 << 20
        );
    }

    #[test]
    fn text_fits_80_columns_and_tells_what_is_missing() {
        let text = report().to_string();
        assert!(
            text.contains("0.8100") && text.contains("gdb left out: gdb is not installed"),
            "{text}"
        );
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }

    #[test]
    fn json_holds_the_same() {
        let json = serde_json::to_value(report()).unwrap();
        let row = &json["workloads"][0]["metrics"][0]["rows"][1];
        assert_eq!(row["tool"], "perf");
        assert_eq!(row["ratio"]["median"], 0.81);
    }
}
