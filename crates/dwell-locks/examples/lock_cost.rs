//! What counting locks costs a program, next to other tools:
//!
//! ```text
//! lock_cost LOCKCOST [PROCESSES]
//! ```
//!
//! `LOCKCOST` is `tests/programs/lockcost`. Every process is measured alone and counted in turn (A B A B);
//! a process' figure is the mean of its Bs less that of its As, and the median over the processes is
//! printed with its quartiles. Counts are compared with the program's own. Tools that must start the program
//! have one of their own each time, next to one that runs alone.
use dwell_locks::{Kind, Locks};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

/// Threads, locks, whether they share them, which locks, and what that is.
const CASES: [(&str, [&str; 4]); 16] = [
    ("one thread, 64 locks", ["1", "64", "0", "mutex"]),
    ("one thread, one lock", ["1", "1", "0", "mutex"]),
    ("two threads, a lock each", ["2", "1", "0", "mutex"]),
    ("two threads, one lock", ["2", "1", "1", "mutex"]),
    ("one thread, 512 locks", ["1", "512", "0", "mutex"]),
    ("one thread, 4096 locks", ["1", "4096", "0", "mutex"]),
    ("two threads, 4096 locks each", ["2", "4096", "0", "mutex"]),
    ("one recursive mutex", ["1", "1", "0", "recursive"]),
    ("the same, held already", ["1", "1", "0", "again"]),
    ("one error-checking mutex", ["1", "1", "0", "checking"]),
    ("one robust mutex", ["1", "1", "0", "robust"]),
    ("one that lends priority", ["1", "1", "0", "inherit"]),
    ("one spin lock", ["1", "1", "0", "spin"]),
    ("one lock to read", ["1", "1", "0", "read"]),
    ("one lock to write", ["1", "1", "0", "write"]),
    ("one semaphore", ["1", "1", "0", "semaphore"]),
];

/// The first of them are for other tools, too.
const FOR_OTHERS: usize = 4;

/// Processes that a slow tool is measured with: its figure needs no decimals.
const FEW: usize = 3;

/// Tools that start the program, each with its arguments. `DIR` is a folder for what it writes.
const STARTERS: [(&str, &[&str]); 3] = [
    (
        "uftrace, PLT",
        &["uftrace", "record", "--force", "--no-pager", "-d", "DIR"],
    ),
    ("valgrind drd", &["valgrind", "-q", "--tool=drd"]),
    ("valgrind helgrind", &["valgrind", "-q", "--tool=helgrind"]),
];

/// perf at what the kernel sees of locks: calls of futex and its own contended locks.
const PERF: [&str; 14] = [
    "record",
    "-q",
    "-o",
    "/dev/null",
    "-e",
    "raw_syscalls:sys_enter",
    "--filter",
    "id == 202",
    "-e",
    "lock:contention_begin",
    "-e",
    "lock:contention_end",
    "-g",
    "-p",
];

/// A running `lockcost`.
struct Target {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Target {
    fn start(program: &str, arguments: &[&str]) -> Result<Target, Failure> {
        Target::run(Command::new(program).args(arguments))
    }

    fn run(command: &mut Command) -> Result<Target, Failure> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut target = Target {
            child,
            input,
            output,
        };
        target.answer()?;
        Ok(target)
    }

    fn answer(&mut self) -> Result<Value, Failure> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }

    /// ns per pair of the last of some shorter measurements.
    fn measure_shortly(&mut self) -> Result<f64, Failure> {
        self.measure("s")?;
        Ok(self.measure("s")?.0)
    }

    /// ns per pair, and the pairs it has done so far.
    fn measure(&mut self, command: &str) -> Result<(f64, u64), Failure> {
        self.input.write_all(command.as_bytes())?;
        let answer = self.answer()?;
        let ns = answer["ns"].as_f64().ok_or("no figure")?;
        Ok((ns, answer["pairs"].as_u64().ok_or("no count")?))
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.input.write_all(b"q")?;
        if self.answer()?["ok"] != true {
            return Err("the program found wrong results".into());
        }
        self.child.wait()?;
        Ok(())
    }
}

/// Median and quartiles.
fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [0.25, 0.5, 0.75].map(|share| values[((values.len() - 1) as f64 * share).round() as usize])
}

/// Alone and counted, ns per pair.
fn with_dwell(target: &mut Target) -> Result<(f64, f64), Failure> {
    let (mut alone, mut counted) = (0.0, 0.0);
    for _ in 0..2 {
        let (ns, before) = target.measure("m")?;
        alone += ns / 2.0;
        let locks = Locks::attach(target.child.id() as i32)?;
        let (ns, after) = target.measure("m")?;
        counted += ns / 2.0;
        let (snapshot, _) = locks.detach()?;
        // The program's threads meet at barriers, too.
        let seen = snapshot.ok_or("it has ended")?.sum(|l| match l.kind {
            Kind::Barrier => 0,
            _ => l.acquired + l.nested,
        });
        if seen != after - before {
            return Err(format!("{seen} counted, not {}", after - before).into());
        }
    }
    Ok((alone, counted))
}

/// A uprobe at the same function that counts by address; none when bpftrace is not there.
fn with_bpftrace(target: &mut Target) -> Result<Option<(f64, f64)>, Failure> {
    const PROGRAM: &str = "uprobe:libc:pthread_mutex_lock { @[arg0] = count(); } \
                           BEGIN { printf(\"on\\n\"); }";
    if begins_with_nop() {
        return Ok(None);
    }
    let alone = target.measure_shortly()?;
    let tool = Command::new("bpftrace")
        .args(["-e", PROGRAM, "-p", &target.child.id().to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut tool) = tool else {
        return Ok(None);
    };
    let mut line = String::new();
    let mut output = BufReader::new(tool.stdout.take().ok_or("no output")?);
    while !line.ends_with("on\n") && output.read_line(&mut line)? > 0 {}
    std::thread::sleep(Duration::from_millis(300));
    let measured = target.measure_shortly();
    tool.kill()?;
    tool.wait()?;
    Ok(Some((alone, measured?)))
}

/// Whether the function begins with a nop of five bytes, at which some kernels' uprobes harm the program. This
/// process has the same libc.
fn begins_with_nop() -> bool {
    let code = libc::pthread_mutex_lock as *const [u8; 5];
    // SAFETY: a function of at least that many bytes.
    unsafe { *code == [0x0f, 0x1f, 0x44, 0, 0] }
}

/// perf attached to the process; none when it is not there.
fn with_perf(target: &mut Target) -> Result<Option<(f64, f64)>, Failure> {
    let (alone, _) = target.measure("m")?;
    let tool = Command::new("perf")
        .args(PERF)
        .arg(target.child.id().to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut tool) = tool else {
        return Ok(None);
    };
    std::thread::sleep(Duration::from_millis(1500));
    let measured = target.measure("m");
    tool.kill()?;
    tool.wait()?;
    Ok(Some((alone, measured?.0)))
}

/// A process of its own under a tool, and one without; none when the tool is not there.
fn under(
    tool: &[&str],
    program: &str,
    arguments: &[&str],
    folder: &Path,
) -> Result<Option<(f64, f64)>, Failure> {
    let mut alone = Target::start(program, arguments)?;
    let without = alone.measure_shortly()?;
    alone.finish()?;
    let [name, options @ ..] = tool else {
        return Ok(None);
    };
    let mut command = Command::new(name);
    for option in options {
        match *option {
            "DIR" => command.arg(folder),
            option => command.arg(option),
        };
    }
    let Ok(mut target) = Target::run(command.arg(program).args(arguments)) else {
        return Ok(None);
    };
    let with = target.measure_shortly()?;
    target.finish()?;
    Ok(Some((without, with)))
}

fn print(name: &str, pairs: &[(f64, f64)]) {
    if pairs.is_empty() {
        println!("  {name:<18} is not there, or harms programs here");
        return;
    }
    let [a25, a50, a75] = quartiles(pairs.iter().map(|p| p.0).collect());
    let [b25, b50, b75] = quartiles(pairs.iter().map(|p| p.1).collect());
    let [d25, d50, d75] = quartiles(pairs.iter().map(|p| p.1 - p.0).collect());
    println!(
        "  {name:<18} alone {a50:8.2} [{a25:.2}, {a75:.2}]   counted {b50:8.2} [{b25:.2}, {b75:.2}]   added {d50:+8.2} ns [{d25:+.2}, {d75:+.2}]"
    );
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, rest @ ..] = &arguments[..] else {
        return Err("lock_cost LOCKCOST [PROCESSES]".into());
    };
    let processes = rest.first().map_or(Ok(9), |n| n.parse())?;
    let folder = std::env::temp_dir().join(format!("dwell-lock-cost-{}", std::process::id()));
    println!("ns per lock and unlock, {processes} processes: median [quartiles]");
    for (number_of_case, (name, arguments)) in CASES.into_iter().enumerate() {
        let is_for_others = number_of_case < FOR_OTHERS;
        println!("{name}");
        let (mut dwell, mut perf, mut bpftrace) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..processes {
            let mut target = Target::start(program, &arguments)?;
            dwell.push(with_dwell(&mut target)?);
            if number < FEW && is_for_others {
                perf.extend(with_perf(&mut target)?);
                bpftrace.extend(with_bpftrace(&mut target)?);
            }
            target.finish()?;
        }
        print("dwell", &dwell);
        if !is_for_others {
            continue;
        }
        print("perf, futex", &perf);
        print("bpftrace, uprobe", &bpftrace);
        for (name, tool) in STARTERS {
            let mut pairs = Vec::new();
            for _ in 0..FEW {
                pairs.extend(under(tool, program, &arguments, &folder)?);
                let _ = std::fs::remove_dir_all(&folder);
            }
            print(name, &pairs);
        }
    }
    Ok(())
}
