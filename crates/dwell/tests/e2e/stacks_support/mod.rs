//! Shared by the tests of stacks and names: recordings of programs, and questions about their stacks.

pub use crate::shared::*;

use dwell_recording::rows::{FrameRow, StackRow, SymbolRow};
use dwell_recording::{Recording, Tables};
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A process with its group, ended when dropped.
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts a command in a process group of its own; its output is thrown away.
    pub fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0);
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        Running { child }
    }

    /// Starts a command and waits for the first line it prints.
    pub fn start_ready(command: &mut Command) -> (Self, String) {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0);
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("start {command:?}: {e}"));
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().expect("piped"));
        reader.read_line(&mut line).expect("a line");
        // Whoever writes later must not be ended by a closed pipe.
        std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
        (Running { child }, line)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn wait(&mut self) {
        self.child.wait().expect("wait");
    }

    /// Waits some time for the end by itself.
    pub fn wait_at_most(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            if self.child.try_wait().expect("wait").is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: kill touches no memory. The child is not reaped yet, so its group is still ours.
        if matches!(self.child.try_wait(), Ok(None)) {
            // SAFETY: signals our own child and its process group; no memory is touched.
            unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        }
        let _ = self.child.wait();
    }
}

/// Waits until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !so() {
        assert!(Instant::now() < deadline, "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A port nobody listens on.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0))
        .and_then(|l| l.local_addr())
        .expect("a port")
        .port()
}

/// A recording that was made.
pub struct Recorded {
    pub tables: Tables,
    pub output: Output,
}

/// `dwell record -o … OPTIONS`, to its end.
pub fn record<S: AsRef<std::ffi::OsStr>>(options: &[S]) -> Recorded {
    record_with(
        Scratch::new(),
        Command::new(env!("CARGO_BIN_EXE_dwell")),
        options,
    )
}

/// The same in a folder made before, by a command that has its environment set.
pub fn record_with<S: AsRef<std::ffi::OsStr>>(
    scratch: Scratch,
    mut dwell: Command,
    options: &[S],
) -> Recorded {
    let folder = scratch.path().join("it.dwell");
    dwell.args(["record", "-o"]).arg(&folder).args(options);
    let output = dwell.stdin(Stdio::null()).output().expect("start dwell");
    let tables = Recording::open(&folder)
        .and_then(|r| r.load())
        .unwrap_or_else(|e| panic!("{e}\n{}", String::from_utf8_lossy(&output.stderr)));
    Recorded { tables, output }
}

/// `dwell record -- COMMAND`.
pub fn launch(command: &[&str]) -> Recorded {
    record(&[&["--"], command].concat())
}

/// `dwell record -p PID…` for some seconds.
pub fn attach(pids: &[u32], seconds: f64) -> Recorded {
    let mut options = vec!["--duration".to_owned(), format!("{seconds}s")];
    for pid in pids {
        options.extend(["-p".into(), pid.to_string()]);
    }
    record(&options)
}

/// A recording's tables by their keys.
pub struct Index<'a> {
    pub tables: &'a Tables,
    frames: HashMap<u32, &'a FrameRow>,
    stacks: HashMap<u32, &'a StackRow>,
    symbols: HashMap<u32, Vec<&'a SymbolRow>>,
}

impl<'a> Index<'a> {
    pub fn of(tables: &'a Tables) -> Self {
        let mut symbols: HashMap<u32, Vec<&SymbolRow>> = HashMap::new();
        for symbol in &tables.symbols {
            symbols.entry(symbol.frame).or_default().push(symbol);
        }
        symbols
            .values_mut()
            .for_each(|chain| chain.sort_by_key(|s| s.depth));
        Index {
            tables,
            frames: tables.frames.iter().map(|f| (f.frame, f)).collect(),
            stacks: tables.stacks.iter().map(|s| (s.stack, s)).collect(),
            symbols,
        }
    }

    pub fn stack(&self, stack: u32) -> &'a StackRow {
        self.stacks[&stack]
    }

    pub fn frame(&self, frame: u32) -> &'a FrameRow {
        self.frames[&frame]
    }

    /// Innermost inlined function first.
    pub fn symbols(&self, frame: u32) -> &[&'a SymbolRow] {
        self.symbols.get(&frame).map_or(&[], |s| s)
    }

    /// The name of the function with the machine code, else the module and the address.
    pub fn name(&self, frame: u32) -> String {
        let row = self.frame(frame);
        match self.symbols(frame).last() {
            Some(symbol) => symbol.function.clone(),
            None => format!("{}+{:#x}", row.module, row.address),
        }
    }

    /// All names of a stack, outermost first, inlined functions too; kernel frames left out.
    pub fn user_names(&self, stack: u32) -> Vec<String> {
        let mut names = Vec::new();
        for &frame in &self.stack(stack).frames {
            if self.frame(frame).kind == "kernel" {
                continue;
            }
            match self.symbols(frame) {
                [] => names.push(self.name(frame)),
                chain => names.extend(chain.iter().rev().map(|s| s.function.clone())),
            }
        }
        names
    }

    /// The same with kernel frames.
    pub fn names(&self, stack: u32) -> Vec<String> {
        let frames = &self.stack(stack).frames;
        frames.iter().map(|&f| self.name(f)).collect()
    }

    /// Every sampled stack with its weight (first-sight stacks count 1 ns, so that they are seen).
    pub fn weights(&self) -> BTreeMap<u32, u64> {
        let mut weights = BTreeMap::new();
        for sample in &self.tables.samples {
            *weights.entry(sample.stack).or_default() += sample.weight_ns.max(1);
        }
        weights
    }
}

/// How much of the weight has complete stacks.
#[derive(Debug, Default)]
pub struct Share {
    pub complete_ns: u64,
    pub total_ns: u64,
    /// Weight of what is incomplete, by state, reason and outermost user frame.
    pub incomplete: BTreeMap<String, u64>,
    /// Weight of threads without user stack (inside exec and exit): nothing to unwind.
    pub no_user_ns: u64,
}

impl Share {
    pub fn of(tables: &Tables) -> Share {
        let index = Index::of(tables);
        let mut share = Share::default();
        let processes: HashMap<u32, &str> = tables
            .processes
            .iter()
            .map(|p| (p.process, p.name.as_str()))
            .collect();
        let threads: HashMap<u32, u32> = tables
            .threads
            .iter()
            .map(|t| (t.thread, t.process))
            .collect();
        for sample in &tables.samples {
            let stack = index.stack(sample.stack);
            let inside = |f: &u32| {
                let name = index.name(*f);
                index.frame(*f).kind == "kernel"
                    && (name.contains("execve") || name.starts_with("do_exit"))
            };
            if stack.end == "no_user_stack" && stack.frames.iter().any(inside) {
                share.no_user_ns += sample.weight_ns;
                let leaf = stack.frames.last().map(|&f| index.name(f));
                let what = format!("(no user stack) {}", leaf.unwrap_or_default());
                *share.incomplete.entry(what).or_default() += sample.weight_ns;
                continue;
            }
            share.total_ns += sample.weight_ns;
            if stack.end == "complete" {
                share.complete_ns += sample.weight_ns;
                continue;
            }
            let user: Vec<u32> = stack
                .frames
                .iter()
                .copied()
                .filter(|&f| index.frame(f).kind != "kernel")
                .collect();
            let kernel = || format!("only kernel frames {:?}", index.names(sample.stack));
            let place = user.first().map_or_else(kernel, |&f| {
                let row = index.frame(f);
                let name = index.symbols(f).last().map(|s| s.function.as_str());
                format!("{}+{:#x} {}", row.module, row.address, name.unwrap_or("?"))
            });
            let process = threads.get(&sample.thread).and_then(|p| processes.get(p));
            let what = format!(
                "{} {} in {}: {place} after {} frames",
                sample.state,
                stack.end,
                process.unwrap_or(&"?"),
                user.len()
            );
            *share.incomplete.entry(what).or_default() += sample.weight_ns;
        }
        share
    }

    pub fn complete(&self) -> f64 {
        self.complete_ns as f64 / self.total_ns.max(1) as f64
    }

    /// Prints what was found.
    pub fn print(&self, what: &str, tables: &Tables) {
        let exact: u64 = tables
            .threads
            .iter()
            .map(|t| t.running_ns + t.runnable_ns + t.blocked_ns)
            .sum();
        println!(
            "{what}: {:.3} % of {:.3} s complete ({} samples of {:.3} s thread time)",
            self.complete() * 100.0,
            self.total_ns as f64 / 1e9,
            tables.samples.len(),
            exact as f64 / 1e9,
        );
        let mut rows: Vec<_> = self.incomplete.iter().collect();
        rows.sort_by_key(|(_, weight)| std::cmp::Reverse(**weight));
        for (row, weight) in rows.iter().take(12) {
            println!(
                "    {:8.3} %  {row}",
                **weight as f64 * 100.0 / self.total_ns.max(1) as f64
            );
        }
    }
}

/// What a sample stands for: 1/99 s.
const SAMPLE_NS: u64 = 10_101_010;

/// At least 99.5 % of the weight must have complete stacks.
pub const COMPLETE: f64 = 0.995;

/// Prints and checks the share of complete stacks.
pub fn check_complete(what: &str, recorded: &Recorded) {
    check_complete_of(what, recorded, 20);
}

/// The same for at least so many samples: those of a program that only sleeps are few.
pub fn check_complete_of(what: &str, recorded: &Recorded, samples: usize) {
    let share = Share::of(&recorded.tables);
    share.print(what, &recorded.tables);
    assert!(
        recorded.tables.samples.len() >= samples,
        "{what}: only {} samples\n{}",
        recorded.tables.samples.len(),
        String::from_utf8_lossy(&recorded.output.stderr)
    );
    // One sample of a run of two seconds is half a per cent of it: that much is chance.
    let incomplete = (share.total_ns - share.complete_ns).saturating_sub(SAMPLE_NS);
    assert!(
        incomplete as f64 <= (1.0 - COMPLETE) * share.total_ns as f64,
        "{what}: {:.3} % of the weight is complete",
        share.complete() * 100.0
    );
}

/// Whether the names occur in this order (others may lie between); `~name` stands for any alias that
/// contains `name`.
pub fn in_order<S: AsRef<str>>(names: &[String], wanted: &[S]) -> bool {
    let mut rest = names.iter();
    wanted
        .iter()
        .all(|wanted| match wanted.as_ref().strip_prefix('~') {
            Some(part) => rest.any(|name| name.contains(part)),
            None => rest.any(|name| name == wanted.as_ref()),
        })
}
