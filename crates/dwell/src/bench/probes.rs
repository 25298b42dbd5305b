//! What a static probe costs that nobody watches: `benches/probes/probes.c` compiled here, with each compiler
//! that is installed, and run.
use super::process::scratch;
use super::programs;
use super::statistics::median;
use crate::trace::header;
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = include_str!("../../../../benches/probes/probes.c");
/// The program places its loops itself, so the compiler must not move them.
const FLAGS: [&str; 2] = ["-O2", "-falign-loops=1"];

/// A compiler, and whose probes it compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Header {
    /// `dwell/sdt.h`.
    Dwell,
    /// systemtap's `sys/sdt.h`, for comparison. Asking whether it is enabled is not measured.
    Systemtap,
}

/// The figures of all compilers.
#[derive(Debug, Serialize)]
pub struct ProbeReport {
    /// One row per compiler, header and loop.
    pub rows: Vec<Row>,
}

/// One loop: medians and quartiles over its places in memory, ns per turn.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The compiler's name.
    pub compiler: String,
    /// Whose probe it is.
    pub header: Header,
    /// The loop's name in `probes.c`.
    pub name: String,
    /// The loop without a probe.
    pub alone: Spread,
    /// What a probe with six arguments adds.
    pub probe: Spread,
    /// What asking whether the probe is enabled adds.
    pub enabled: Option<Spread>,
}

/// A median between quartiles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// A quarter of the values is lower.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// A quarter of the values is higher.
    pub high: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |share: f64| values[(share * (values.len() - 1) as f64).round() as usize];
        Spread {
            low: at(0.25),
            median: median(&values),
            high: at(0.75),
        }
    }
}

/// Measures. The program is run `rounds` times; of each loop at each place the shortest run counts.
pub fn run(rounds: usize, progress: &mut dyn FnMut(&str)) -> Result<ProbeReport> {
    let scratch = scratch()?;
    header::write(scratch.path())?;
    std::fs::write(scratch.path().join("probes.c"), PROGRAM)?;
    let mut rows = Vec::new();
    for compiler in compilers() {
        for header in [Header::Dwell, Header::Systemtap] {
            progress(&format!("{compiler}, {header}"));
            match compile(scratch.path(), &compiler, header) {
                Ok(()) => rows.extend(measure(scratch.path(), &compiler, header, rounds)?),
                Err(error) if header == Header::Systemtap => {
                    progress(&format!("left out: {error:#}"));
                }
                Err(error) => return Err(error),
            }
        }
    }
    if rows.is_empty() {
        bail!("neither gcc nor clang is installed; install one of them to measure probes");
    }
    Ok(ProbeReport { rows })
}

/// gcc, and the newest clang.
fn compilers() -> Vec<String> {
    let clangs: Vec<String> = (14..=21).rev().map(|v| format!("clang-{v}")).collect();
    let clang = clangs.into_iter().chain(["clang".to_owned()]);
    let installed = |name: &String| programs::find(&[name]).is_some();
    let gcc = Some("gcc".to_owned()).filter(installed);
    gcc.into_iter().chain({ clang }.find(installed)).collect()
}

fn compile(folder: &Path, compiler: &str, header: Header) -> Result<()> {
    let mut command = Command::new(compiler);
    command.current_dir(folder).args(FLAGS);
    command.args(["-I.", "-o", "probes", "probes.c"]);
    if header == Header::Systemtap {
        command.arg("-DSYSTEMTAP");
    }
    let output = command
        .output()
        .with_context(|| format!("cannot start {compiler}"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!(
            "{compiler} does not compile the probes of {header}: {}",
            why.lines().next().unwrap_or_default()
        );
    }
    Ok(())
}

/// Shortest times of one loop at one place: without, with, and asking for a probe; ns per turn.
type Times = [f64; 3];

fn measure(folder: &Path, compiler: &str, header: Header, rounds: usize) -> Result<Vec<Row>> {
    let mut shortest: BTreeMap<(String, u32), Times> = BTreeMap::new();
    for _ in 0..rounds.max(1) {
        let output = Command::new(folder.join("probes")).output()?;
        if !output.status.success() {
            bail!("the program that measures probes failed: {}", output.status);
        }
        for (key, times) in parse(&String::from_utf8_lossy(&output.stdout))? {
            let known = shortest.entry(key).or_insert(times);
            *known = [0, 1, 2].map(|k| known[k].min(times[k]));
        }
    }
    let mut loops: BTreeMap<String, Vec<Times>> = BTreeMap::new();
    for ((name, _), times) in shortest {
        loops.entry(name).or_default().push(times);
    }
    let row = |(name, times): (String, Vec<Times>)| {
        let added = |k: usize| Spread::of(times.iter().map(|t| t[k] - t[0]).collect());
        Row {
            compiler: compiler.to_owned(),
            header,
            name,
            alone: Spread::of(times.iter().map(|t| t[0]).collect()),
            probe: added(1),
            enabled: (header == Header::Dwell).then(|| added(2)),
        }
    };
    Ok(loops.into_iter().map(row).collect())
}

/// `loop place without with enabled`, a line each.
fn parse(printed: &str) -> Result<Vec<((String, u32), Times)>> {
    let line = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let place = words.next()?.parse().ok()?;
        let mut time = || words.next()?.parse().ok();
        Some(((name, place), [time()?, time()?, time()?]))
    };
    let parsed: Option<Vec<_>> = printed.lines().map(line).collect();
    parsed
        .filter(|lines| !lines.is_empty())
        .context("the program that measures probes printed something else")
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Header::Dwell => "dwell/sdt.h",
            Header::Systemtap => "sys/sdt.h",
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spread { low, median, high } = self;
        f.pad(&format!("{median:+.2} [{low:+.2}, {high:+.2}]"))
    }
}

impl fmt::Display for ProbeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Static probes that nobody watches: what they add to a turn of a loop, ns; median [quartiles] of \
             16 places in memory.\n\
             call: a function is called; chain: each value waits for the one before; dense: as many \
             instructions as the processor takes.\n"
        )?;
        writeln!(
            f,
            "{:<10} {:<12} {:<6} {:>6}  {:<22} {:<22}",
            "compiler", "header", "loop", "alone", "probe, 6 arguments", "is it enabled?"
        )?;
        for row in &self.rows {
            let enabled = row.enabled.map_or("-".to_owned(), |e| e.to_string());
            writeln!(
                f,
                "{:<10} {:<12} {:<6} {:>6.2}  {:<22} {:<22}",
                row.compiler, row.header, row.name, row.alone.median, row.probe, enabled
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_compiles_and_its_figures_are_read() {
        let report = run(1, &mut |_| {}).expect("gcc is installed");
        let names = |header| -> Vec<&str> {
            let rows = report.rows.iter().filter(|r| r.header == header);
            rows.filter(|r| r.compiler == "gcc")
                .map(|r| r.name.as_str())
                .collect()
        };
        assert_eq!(names(Header::Dwell), ["call", "chain", "dense"]);
        assert!(
            report
                .rows
                .iter()
                .all(|r| r.alone.median > 0.0 && r.alone.low <= r.alone.high)
        );
        let text = report.to_string();
        assert!(
            text.contains("dwell/sdt.h") && text.contains("chain"),
            "{text}"
        );
    }

    #[test]
    fn quartiles_surround_the_median() {
        let spread = Spread::of(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((spread.low, spread.median, spread.high), (2.0, 3.0, 4.0));
        assert!(parse("call 0 1.0 2.0\n").is_err() && parse("").is_err());
    }
}
