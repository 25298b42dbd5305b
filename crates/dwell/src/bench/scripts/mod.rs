//! What D scripts cost: each time a probe fires, and until they are at work. The programs that are watched are
//! compiled here.
mod hits;
mod target;
mod times;

use super::process::scratch;
use crate::trace::header;
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The figures.
#[derive(Debug, Serialize)]
pub struct ScriptReport {
    /// What firing costs.
    pub hits: hits::Hits,
    /// What beginning and ending cost.
    pub times: Vec<times::Times>,
}

/// Measures everything once a round.
pub fn run(rounds: usize, progress: &mut dyn FnMut(&str)) -> Result<ScriptReport> {
    let scratch = scratch()?;
    Ok(ScriptReport {
        times: times::run(scratch.path(), rounds, progress)?,
        hits: hits::run(scratch.path(), rounds, progress)?,
    })
}

/// A C program, compiled.
fn compiled(folder: &Path, name: &str, source: &str) -> Result<PathBuf> {
    header::write(folder)?;
    let (from, to) = (folder.join(format!("{name}.c")), folder.join(name));
    std::fs::write(&from, source)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-I"]).arg(folder);
    let output = gcc.arg("-o").arg(&to).arg(&from).output();
    let output = output.context("gcc cannot be started; install it to measure scripts")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "gcc: {said}");
    Ok(to)
}

/// A figure, or `-`.
fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.digits$}"))
}

impl fmt::Display for ScriptReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.hits, times::Table(&self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_compile() {
        let scratch = scratch().expect("a folder");
        compiled(scratch.path(), "fired", hits::PROGRAM).expect("gcc is installed");
        let source = times::program();
        assert_eq!(source.matches("(long n)").count(), times::FUNCTIONS + 1);
        compiled(scratch.path(), "thousand", &source).expect("gcc is installed");
    }
}
