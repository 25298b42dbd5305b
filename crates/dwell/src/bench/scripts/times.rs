//! How long it takes until a script is at work, and until it has gone.
use super::super::statistics::median;
use super::target::Target;
use super::{compiled, shown};
use anyhow::{Context, Result};
use dwell_collector::clock_ns;
use dwell_trace::{Engine, Session, Settings};
use serde::Serialize;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Functions of the program that is watched.
pub(super) const FUNCTIONS: usize = 1000;

/// Medians of an engine, ms.
#[derive(Debug, Serialize)]
pub struct Times {
    /// `process` or `kernel`.
    pub engine: &'static str,
    /// From the start of `dwell trace` on one function to the first firing.
    pub first_event_ms: f64,
    /// From a compiled script on [`FUNCTIONS`] functions until all of them are probed.
    pub attach_ms: f64,
    /// Until none is.
    pub detach_ms: f64,
    /// From the start of `dwell trace` on as many functions to the first firing.
    pub first_of_many_ms: f64,
}

/// A program of so many functions, one of which it calls all the time.
pub(super) fn program() -> String {
    let function = |n| {
        format!(
            "__attribute__((noinline, noclone)) long f{n}(long n)\n{{\n\t__asm__ volatile(\"\" ::: \"memory\");\n\treturn n * {n} - 1;\n}}\n"
        )
    };
    let functions: String = (0..FUNCTIONS).map(function).collect();
    let table: Vec<String> = (0..FUNCTIONS).map(|n| format!("f{n}")).collect();
    format!(
        "#include <stdio.h>\n#include <unistd.h>\n{functions}\nlong (*all[])(long n) = {{ {} }};\n\
         int main(void)\n{{\n\tputs(\"ready\");\n\tfflush(stdout);\n\tfor (volatile long sum = 0;; usleep(100))\n\
         \t\tsum += all[7](sum);\n}}\n",
        table.join(", ")
    )
}

/// Measures everything `rounds` times.
pub(super) fn run(
    folder: &Path,
    rounds: usize,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Times>> {
    let path = compiled(folder, "thousand", &program())?;
    let engines = [("process", Engine::Process), ("kernel", Engine::Kernel)];
    let mut found = vec![[const { Vec::new() }; 4]; engines.len()];
    for round in 1..=rounds.max(1) {
        for ((name, engine), found) in engines.iter().zip(&mut found) {
            progress(&format!("round {round}: attaching, {name}"));
            let (attach, detach) = attached(&path, *engine)?;
            let first = first_event(&path, name, "f7")?;
            let first_of_many = first_event(&path, name, "f[0-9]*")?;
            for (all, ms) in found.iter_mut().zip([first, attach, detach, first_of_many]) {
                all.push(ms);
            }
        }
    }
    let times = |((engine, _), found): (&(&'static str, _), [Vec<f64>; 4])| {
        let [first_event_ms, attach_ms, detach_ms, first_of_many_ms] =
            found.map(|all| median(&all));
        Times {
            engine,
            first_event_ms,
            attach_ms,
            detach_ms,
            first_of_many_ms,
        }
    };
    Ok(engines.iter().zip(found).map(times).collect())
}

/// ms until all functions are probed, and until none is.
fn attached(path: &Path, engine: Engine) -> Result<(f64, f64)> {
    let target = Target::start(path)?;
    let script = target.script("pid$target::f[0-9]*:entry { @[probefunc] = count(); }")?;
    let settings = Settings {
        engine,
        ..Settings::default()
    };
    let begin = Instant::now();
    let mut session = Session::new(&script, &settings, &mut Vec::new())?;
    session.start()?;
    let attach = begin.elapsed();
    anyhow::ensure!(
        session.probes().count() == FUNCTIONS,
        "not all functions are there"
    );
    let begin = Instant::now();
    session.stop()?;
    Ok((
        attach.as_secs_f64() * 1e3,
        begin.elapsed().as_secs_f64() * 1e3,
    ))
}

/// ms from the start of a tracer until the first call that it has seen.
fn first_event(path: &Path, engine: &str, function: &str) -> Result<f64> {
    let target = Target::start(path)?;
    let text = format!("pid$target::{function}:entry {{ printf(\"%d\\n\", timestamp); exit(0); }}");
    let mut dwell = Command::new(std::env::current_exe()?);
    dwell.args(["trace", "--engine", engine, "-q", "-n", &text, "-p"]);
    dwell.arg(target.pid().to_string()).stdin(Stdio::null());
    // What `timestamp` reads.
    let begin = clock_ns(libc::CLOCK_MONOTONIC);
    let output = dwell.output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let first = said.lines().find_map(|line| line.parse::<u64>().ok());
    let first =
        first.with_context(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(first.saturating_sub(begin) as f64 / 1e6)
}

/// The rows as a table.
pub(super) struct Table<'t>(pub(super) &'t [Times]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Until a script is at work, ms, medians.\n\n{:<10} {:>12} {:>22} {:>22} {:>20}",
            "engine",
            "first event",
            "1000 functions probed",
            "none probed any more",
            "first event of 1000"
        )?;
        for row in self.0 {
            let ms = |value| shown(Some(value), 1);
            writeln!(
                f,
                "{:<10} {:>12} {:>22} {:>22} {:>20}",
                row.engine,
                ms(row.first_event_ms),
                ms(row.attach_ms),
                ms(row.detach_ms),
                ms(row.first_of_many_ms)
            )?;
        }
        Ok(())
    }
}
