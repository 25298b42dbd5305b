//! What counting locks costs a program, next to other tools:
//!
//! ```text
//! lock_cost LOCKCOST [PROCESSES]
//! ```
//!
//! `LOCKCOST` is `tests/programs/lockcost`. Every process is measured alone and counted in turn (A B A B);
//! a process' figure is the mean of its Bs less that of its As, and the median over the processes is
//! printed with its quartiles. Counts are compared with the program's own.
use dwell_locks::{Kind, Locks};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

/// Threads, locks, whether they share them, and what that is.
const CASES: [(&str, [&str; 3]); 4] = [
    ("one thread, 64 locks", ["1", "64", "0"]),
    ("one thread, one lock", ["1", "1", "0"]),
    ("two threads, a lock each", ["2", "1", "0"]),
    ("two threads, one lock", ["2", "1", "1"]),
];

/// A running `lockcost`.
struct Target {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Target {
    fn start(program: &str, arguments: &[&str]) -> Result<Target, Failure> {
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
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
            Kind::Mutex { .. } => l.acquired,
            _ => 0,
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
    let (alone, _) = target.measure("s")?;
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
    let measured = target.measure("s");
    tool.kill()?;
    tool.wait()?;
    Ok(Some((alone, measured?.0)))
}

fn print(name: &str, pairs: &[(f64, f64)]) {
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
    println!("ns per lock and unlock, {processes} processes: median [quartiles]");
    for (name, arguments) in CASES {
        println!("{name}");
        let mut dwell = Vec::new();
        let mut bpftrace = Vec::new();
        for number in 0..processes {
            let mut target = Target::start(program, &arguments)?;
            dwell.push(with_dwell(&mut target)?);
            // Slow, and its figure needs no decimals.
            if number < 3 {
                bpftrace.extend(with_bpftrace(&mut target)?);
            }
            target.finish()?;
        }
        print("dwell", &dwell);
        match bpftrace.is_empty() {
            true => println!("  bpftrace is not installed"),
            false => print("bpftrace, uprobe", &bpftrace),
        }
    }
    Ok(())
}
