//! The profilers that are compared, each attached to a running process by its id.
use super::process::{ends_within, has_ended, signal, wait};
use super::programs::find;
use anyhow::{Context, Result, bail};
use dwell_collector::Floor;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A profiler and the way it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// Nothing: what this shows is noise.
    Nothing,
    /// `dwell record` at its defaults.
    Dwell,
    /// eBPF programs that do nothing where those of `dwell record` do most: no recording of all switches costs less.
    Floor,
    /// `perf record -F 99 -g`: frame pointers.
    PerfFp,
    /// `perf record -F 999 --call-graph dwarf`: copies of the stack.
    PerfDwarf,
    /// A debugger that stops all threads and prints their stacks, in a loop, as pt-pmp does.
    Gdb,
    /// The same with elfutils' eu-stack.
    EuStack,
    /// libbpf-tools' offcputime.
    Offcputime,
}

/// How long a tool may take to end after SIGINT: some then resolve names for a while.
const STOP_LIMIT: Duration = Duration::from_secs(120);

impl Tool {
    /// Every tool but [`Tool::Nothing`], which is always run.
    pub const ALL: [Tool; 7] = [
        Tool::Dwell,
        Tool::Floor,
        Tool::PerfFp,
        Tool::PerfDwarf,
        Tool::Gdb,
        Tool::EuStack,
        Tool::Offcputime,
    ];

    /// The name that is typed.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Nothing => "none",
            Tool::Dwell => "dwell",
            Tool::Floor => "floor",
            Tool::PerfFp => "perf",
            Tool::PerfDwarf => "perf-dwarf",
            Tool::Gdb => "gdb",
            Tool::EuStack => "eu-stack",
            Tool::Offcputime => "offcputime",
        }
    }

    /// What it is in a table.
    pub fn title(self) -> &'static str {
        match self {
            Tool::Nothing => "none (A/A: noise)",
            Tool::Dwell => "dwell record",
            Tool::Floor => "empty programs",
            Tool::PerfFp => "perf -F99 -g",
            Tool::PerfDwarf => "perf -F999 dwarf",
            Tool::Gdb => "gdb loop (pt-pmp)",
            Tool::EuStack => "eu-stack loop",
            Tool::Offcputime => "offcputime",
        }
    }

    /// False for those that look at one process only.
    pub fn follows_children(self) -> bool {
        matches!(
            self,
            Tool::Nothing | Tool::Dwell | Tool::Floor | Tool::PerfFp | Tool::PerfDwarf
        )
    }

    /// Where its program is, `dwell` being the one to measure; the error says what to install.
    pub fn program(self, dwell: &Path) -> Result<PathBuf> {
        let (names, package): (&[&str], &str) = match self {
            Tool::Nothing | Tool::Floor => return Ok(PathBuf::new()),
            Tool::Dwell => return Ok(dwell.to_owned()),
            Tool::PerfFp | Tool::PerfDwarf => {
                (&["perf"], "linux-perf, on Ubuntu linux-tools-generic")
            }
            Tool::Gdb => (&["gdb"], "gdb"),
            Tool::EuStack => (&["eu-stack"], "elfutils"),
            // Debian's package, then the names other distributions give it.
            Tool::Offcputime => (
                &["offcputime", "bpf-offcputime", "libbpf-offcputime"],
                "libbpf-tools",
            ),
        };
        find(names).with_context(|| format!("{} is not installed (package {package})", names[0]))
    }

    /// Attaches it to a process.
    pub fn attach(self, program: &Path, pid: u32, scratch: &Path) -> Result<Attached> {
        let pid = pid.to_string();
        let recording = scratch.join("recording").display().to_string();
        let arguments: Vec<&str> = match self {
            Tool::Nothing => return Ok(Attached::Nothing),
            Tool::Floor => return Ok(Attached::Floor(Floor::attach()?)),
            Tool::Dwell => vec!["record", "-p", &pid, "-o", &recording],
            Tool::PerfFp => vec![
                "record", "-q", "-F", "99", "-g", "-p", &pid, "-o", &recording,
            ],
            Tool::PerfDwarf => {
                vec![
                    "record",
                    "-q",
                    "-F",
                    "999",
                    "--call-graph",
                    "dwarf",
                    "-p",
                    &pid,
                    "-o",
                    &recording,
                ]
            }
            Tool::Gdb => vec!["-nx", "-batch", "-ex", "thread apply all bt", "-p", &pid],
            Tool::EuStack => vec!["-p", &pid],
            Tool::Offcputime => vec!["-p", &pid],
        };
        let mut command = Command::new(program);
        // A look-up over the network is not what is measured.
        command
            .args(arguments)
            .env_remove("DEBUGINFOD_URLS")
            .stdin(Stdio::null());
        if matches!(self, Tool::Gdb | Tool::EuStack) {
            return Ok(Attached::Loop(SampleLoop::start(command)));
        }
        let log = scratch.join("tool.log");
        let file = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        Ok(Attached::Process { child, log })
    }
}

impl FromStr for Tool {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|t| t.name() == text)
            .ok_or_else(|| {
                let known: Vec<&str> = Self::ALL.iter().map(|t| t.name()).collect();
                format!("unknown tool {text:?}; there are {}", known.join(", "))
            })
    }
}

/// A tool at work.
pub enum Attached {
    /// No tool.
    Nothing,
    /// Programs in the kernel.
    Floor(#[expect(dead_code, reason = "dropped to end them")] Floor),
    /// A process that records until it is interrupted.
    Process {
        /// The tool.
        child: Child,
        /// What it prints.
        log: PathBuf,
    },
    /// A process started again and again.
    Loop(SampleLoop),
}

/// What a tool itself used.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToolCost {
    /// Its processor time, seconds.
    pub cpu_s: f64,
    /// Its peak resident memory, bytes.
    pub peak_rss_bytes: u64,
}

impl Attached {
    /// An error when the tool has given up already.
    pub fn check(&self) -> Result<()> {
        match self {
            Attached::Process { child, log } if has_ended(child) => {
                bail!("it ended at once: {}", last_line(log))
            }
            _ => Ok(()),
        }
    }

    /// Ends it.
    pub fn stop(self) -> Result<Option<ToolCost>> {
        match self {
            Attached::Nothing | Attached::Floor(_) => Ok(None),
            Attached::Loop(samples) => samples.stop().map(Some),
            Attached::Process { child, log } => {
                signal(&child, libc::SIGINT);
                let in_time = ends_within(&child, STOP_LIMIT);
                if !in_time {
                    signal(&child, libc::SIGKILL);
                }
                let ended = wait(&child)?;
                if !in_time {
                    bail!(
                        "it did not end within {} s of SIGINT: {}",
                        STOP_LIMIT.as_secs(),
                        last_line(&log)
                    );
                }
                Ok(Some(ToolCost {
                    cpu_s: ended.cpu_s,
                    peak_rss_bytes: ended.peak_rss_bytes,
                }))
            }
        }
    }
}

fn last_line(log: &Path) -> String {
    let said = fs::read_to_string(log).unwrap_or_default();
    said.lines()
        .rev()
        .find(|l| !l.trim().is_empty())
        .unwrap_or("it said nothing")
        .to_owned()
}

/// Runs a command that takes one sample again and again, until stopped.
pub struct SampleLoop {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<ToolCost>>,
    samples: Arc<AtomicU64>,
}

impl SampleLoop {
    fn start(mut command: Command) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let samples = Arc::new(AtomicU64::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&samples));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let thread = std::thread::spawn(move || {
            let mut cost = ToolCost::default();
            while !stopped.load(Ordering::Relaxed) {
                let ended = wait(
                    &command
                        .spawn()
                        .context("cannot start the sampling command")?,
                )?;
                cost.cpu_s += ended.cpu_s;
                cost.peak_rss_bytes = cost.peak_rss_bytes.max(ended.peak_rss_bytes);
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Ok(cost)
        });
        SampleLoop {
            stop,
            thread,
            samples,
        }
    }

    /// Lets the sample that is being taken finish: a debugger killed half-way leaves its target stopped.
    fn stop(self) -> Result<ToolCost> {
        self.stop.store(true, Ordering::Relaxed);
        let cost = self
            .thread
            .join()
            .map_err(|_| anyhow::anyhow!("the sampling thread panicked"))??;
        if self.samples.load(Ordering::Relaxed) == 0 {
            bail!("it took no sample");
        }
        Ok(cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for tool in Tool::ALL {
            assert_eq!(tool.name().parse(), Ok(tool));
        }
        assert!("strace".parse::<Tool>().unwrap_err().contains("offcputime"));
    }

    #[test]
    fn a_loop_takes_samples_until_stopped() {
        let samples = SampleLoop::start(Command::new("true"));
        while samples.samples.load(Ordering::Relaxed) < 3 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(samples.stop().unwrap().peak_rss_bytes > 0);
    }
}
