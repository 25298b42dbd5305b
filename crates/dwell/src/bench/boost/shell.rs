//! The work of UnixBench's shell scripts: a shell that runs sort, od, grep, tee, wc and rm over a small text, by
//! itself and eight at a time.
//!
//! The programs are found by PATH in one folder: the stock ones, or boosted ones under the same names.
use super::cases::Kind;
use super::report::{Row, Way};
use super::{Variant, interleave, scratch};
use crate::bench::{process, programs};
use crate::boost::merged;
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const SCRIPT: &str = "sort \"$1\" > sorted.$$\n\
     od sorted.$$ | sort -n -k 1 > dump.$$\n\
     grep the sorted.$$ | tee found.$$ | wc > count.$$\n\
     rm sorted.$$ dump.$$ found.$$ count.$$\n";
const TOOLS: [&str; 6] = ["sort", "od", "grep", "tee", "wc", "rm"];
/// Scripts that one measurement runs: some 100 ms of work.
const SCRIPTS: usize = 32;
/// How many run at a time, and how many times more should run per minute when the shell alone is boosted.
const AT_A_TIME: [(usize, f64); 2] = [(1, 1.06), (8, 1.05)];
/// How many times more when all programs are, at levels 2 and 3.
const ALL_AT_HIGH_LEVELS: f64 = 1.25;

/// A shell and how many scripts at a time.
pub struct Shell {
    pub program: &'static str,
    at_a_time: usize,
    goal: f64,
    /// Whether the programs that it runs are boosted, too.
    tools: bool,
}

/// All that is measured; Debian's `sh` is dash.
pub fn all() -> impl Iterator<Item = Shell> {
    let of = |(program, tools)| {
        AT_A_TIME.map(|(at_a_time, goal)| Shell {
            program,
            at_a_time,
            goal,
            tools,
        })
    };
    let both = [("bash", false), ("bash", true), ("dash", true)];
    both.into_iter().flat_map(of)
}

impl Shell {
    pub fn title(&self) -> String {
        Kind::Shell.title(&format!("{} {}", self.program, self.args()))
    }

    fn args(&self) -> String {
        let which = match self.tools {
            true => "all programs",
            false => "alone",
        };
        format!("x{}, {which}", self.at_a_time)
    }

    /// Most that boosted ÷ stock may be.
    fn limit(&self, way: Way) -> f64 {
        match way.level {
            2.. if self.tools => 1.0 / ALL_AT_HIGH_LEVELS,
            _ => 1.0 / self.goal,
        }
    }

    /// Runs the scripts with the programs of the folder; gives the time per script, ns.
    fn time(&self, programs: &Path, folder: &Path) -> Result<f64> {
        let run = || {
            let mut command = Command::new(programs.join(self.program));
            command
                .args([folder.join("script"), folder.join("text")])
                .current_dir(folder)
                .env("PATH", programs)
                .env("LC_ALL", "C.UTF-8")
                .stdin(Stdio::null());
            command.spawn()
        };
        let start = Instant::now();
        for _ in 0..SCRIPTS / self.at_a_time {
            let children: Vec<_> = (0..self.at_a_time)
                .map(|_| run())
                .collect::<std::io::Result<_>>()?;
            for child in children {
                ensure!(process::wait(&child)?.success, "a script failed");
            }
        }
        Ok(start.elapsed().as_nanos() as f64 / SCRIPTS as f64)
    }

    pub fn measure(&self, ways: &[Way], rounds: usize) -> Result<Row> {
        let scratch = scratch()?;
        let folder = scratch.path();
        fs::write(folder.join("script"), SCRIPT)?;
        fs::write(folder.join("text"), text())?;
        let mut variants = Vec::new();
        for (number, way) in [None]
            .into_iter()
            .chain(ways.iter().copied().map(Some))
            .enumerate()
        {
            let programs = folder.join(number.to_string());
            fs::create_dir(&programs)?;
            for name in TOOLS.iter().chain([&self.program]) {
                let way = way.filter(|_| self.tools || *name == self.program);
                put(name, way, &programs)?;
            }
            variants.push(Variant {
                way,
                file: programs,
            });
        }
        let once = |programs: &Path| self.time(programs, folder);
        let (stock, figures) = interleave(&variants, rounds, |way| self.limit(way), once)?;
        Ok(Row {
            kind: Kind::Shell,
            program: self.program,
            args: self.args(),
            stock,
            figures,
        })
    }
}

/// Puts the program into the folder, as it is or boosted.
fn put(name: &str, way: Option<Way>, folder: &Path) -> Result<()> {
    let stock = programs::find(&[name]).with_context(|| format!("{name} is not installed"))?;
    let stock = fs::canonicalize(stock)?;
    let file = folder.join(name);
    match way {
        None => symlink(&stock, &file)?,
        Some(way) => {
            // No shell knows --version everywhere: dash does not.
            let probe = if name == "dash" { "-c :" } else { "--version" };
            merged(&stock, (way.libc, way.level), None, &file, probe)?;
        }
    }
    Ok(())
}

/// Some 350 lines of words, in no order.
fn text() -> String {
    let words = [
        "the", "time", "of", "a", "wait", "which", "program", "then", "lock", "other",
    ];
    let mut text = String::new();
    let mut state = 1u32;
    for line in 0..350 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let word = |shift: u32| words[(state >> shift) as usize % words.len()];
        let _ = writeln!(text, "{} {} {line} {}", word(24), word(18), word(12));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On real programs: dash with all that it runs.
    #[test]
    fn a_script_is_measured_with_boosted_programs() {
        let shell = all().find(|s| s.program == "dash").expect("dash");
        let way = Way {
            libc: true,
            level: 1,
        };
        let row = shell.measure(&[way], 1).expect("they can be boosted");
        assert_eq!(row.figures.len(), 2);
        assert!(row.stock > 1e5, "{} ns", row.stock);
        assert!(row.figures.iter().all(|f| f.ratio.median > 0.05));
    }

    #[test]
    fn the_text_gives_each_program_work() {
        let text = text();
        let found = text.lines().filter(|l| l.contains("the")).count();
        assert!(
            text.lines().count() == 350 && (50..300).contains(&found),
            "{found}"
        );
        assert!(!text.lines().is_sorted());
    }
}
