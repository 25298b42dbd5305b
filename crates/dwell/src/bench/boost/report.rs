//! The figures, for people and for programs.
use super::cases::Kind;
use crate::bench::statistics::Estimate;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What was measured.
#[derive(Debug, Serialize)]
pub struct BoostReport {
    /// `uname -r`, empty when unknown.
    pub kernel: String,
    /// Rounds of starts.
    pub rounds: usize,
    /// One row per program and arguments.
    pub rows: Vec<Row>,
    /// What was left out, and why.
    pub left_out: BTreeMap<String, String>,
}

/// One program with its arguments.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What is measured.
    pub kind: Kind,
    /// The program.
    pub program: &'static str,
    /// Its arguments.
    pub args: String,
    /// Median of the stock program: ns, or bytes of memory.
    pub stock: f64,
    /// Stock against itself, then each level.
    pub figures: Vec<Figure>,
}

/// A way to boost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    /// Whether the C library is merged, too (mode `static`).
    pub libc: bool,
    /// The level.
    pub level: u8,
}

/// One way to run it.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// None: the stock program, which shows the noise.
    pub way: Option<Way>,
    /// Median: ns, or bytes of memory.
    pub value: f64,
    /// Over the stock program's runs just before and after.
    pub ratio: Estimate,
    /// Most that the ratio should be.
    pub limit: Option<f64>,
}

impl BoostReport {
    pub fn new(rounds: usize) -> Self {
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        BoostReport {
            kernel: kernel.trim().to_owned(),
            rounds,
            rows: Vec::new(),
            left_out: BTreeMap::new(),
        }
    }

    pub fn leave_out(&mut self, what: &str, why: &str) {
        self.left_out.insert(what.to_owned(), why.to_owned());
    }
}

/// Figures of the published system.
const PUBLISHED: &str = "published (sysBoost with a patched kernel): UnixBench's shell scripts, bash alone: \
     0.942 (x1), 0.951 (x8)";

impl fmt::Display for BoostReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Linux {}; {} rounds of starts", self.kernel, self.rounds)?;
        writeln!(
            f,
            "boosted / stock, median [95 % interval] of neighbouring runs; (limit)"
        )?;
        let kinds = [
            (Kind::Start, "start to end", "ms", 1e6),
            (Kind::Loop, "loops, processor time", "ms", 1e6),
            (Kind::Memory, "private dirty memory", "KiB", 1024.0),
            (
                Kind::Shell,
                "a script of sort, od, grep, tee, wc, rm",
                "ms",
                1e6,
            ),
        ];
        for (kind, title, unit, scale) in kinds {
            let rows = self.rows.iter().filter(|r| r.kind == kind);
            if rows.clone().next().is_some() {
                writeln!(f, "\n{title}")?;
            }
            for row in rows {
                let args: String = row.args.chars().take(24).collect();
                writeln!(
                    f,
                    "  {} {args}: stock {:.2} {unit}",
                    row.program,
                    row.stock / scale
                )?;
                row.figures
                    .iter()
                    .try_for_each(|figure| write!(f, "{figure}"))?;
            }
        }
        writeln!(f, "\n{PUBLISHED}")?;
        for (what, why) in &self.left_out {
            writeln!(f, "left out: {what}: {why}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.way.map_or("stock".into(), |way| {
            let mode = if way.libc { "static" } else { "static-nolibc" };
            format!("{mode}, level {}", way.level)
        });
        let Estimate { median, low, high } = self.ratio;
        write!(f, "    {name:<22} {median:.3} [{low:.3}, {high:.3}]")?;
        match self.limit {
            Some(limit) if median > limit => writeln!(f, " (above {limit:.2})"),
            Some(limit) => writeln!(f, " ({limit:.2})"),
            None => writeln!(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_above_its_limit_is_said_to_be() {
        let figure = |median: f64| Figure {
            way: Some(Way {
                libc: true,
                level: 1,
            }),
            value: 1e6,
            ratio: Estimate {
                median,
                low: median - 0.01,
                high: median + 0.01,
            },
            limit: Some(0.85),
        };
        let mut report = BoostReport::new(3);
        report.rows.push(Row {
            kind: Kind::Start,
            program: "bash",
            args: "-c :".into(),
            stock: 1e6,
            figures: vec![figure(0.8), figure(0.9)],
        });
        report.leave_out("gdb", "it is not installed");
        let text = report.to_string();
        assert!(text.contains("0.800 [0.790, 0.810] (0.85)"), "{text}");
        assert!(text.contains("0.900 [0.890, 0.910] (above 0.85)"), "{text}");
        assert!(text.contains("left out: gdb"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 120), "{text}");
        let json = serde_json::to_value(&report).expect("JSON");
        assert_eq!(json["rows"][0]["kind"], "start");
        assert_eq!(json["rows"][0]["figures"][1]["limit"], 0.85);
    }
}
