//! What a probe costs each time it fires, by engine: `cost_per_hit FIRED [ROUNDS]`, where FIRED is
//! `benches/probes/fired.c` compiled. Needs root. bpftrace is measured as well where it is installed. In each round
//! everything is measured once, so that a drift of the machine is the same for all; medians are printed.
use dwell_script::{Bare, Input, Macros, compile};
use dwell_trace::{Engine, Session, Settings, TraceError};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// What is measured: its name, the D script, bpftrace's. The first three are what a D tutorial compares: tracing
/// everything, one function, and by a predicate that is false.
const MEASURED: [(&str, &str, &str); 7] = [
    (
        "everything",
        "pid$target:fired::entry { @[probefunc] = count(); }",
        "uprobe:FILE:* { @[func] = count(); }",
    ),
    (
        "one function",
        "pid$target:fired:hit:entry { @ = count(); }",
        "uprobe:FILE:hit { @ = count(); }",
    ),
    (
        "predicate, self->",
        "pid$target:fired:within:entry { self->traced = 1; }
         pid$target:fired:within:return { self->traced = 0; }
         pid$target:fired:hit:entry /self->traced/ { @ = count(); }",
        "uprobe:FILE:within { @t[tid] = 1; } uretprobe:FILE:within { delete(@t[tid]); }
         uprobe:FILE:hit /@t[tid]/ { @ = count(); }",
    ),
    (
        "predicate, arg0",
        "pid$target:fired:hit:entry /arg0 == 5000/ { @ = count(); }",
        "uprobe:FILE:hit /arg0 == 5000/ { @ = count(); }",
    ),
    (
        "quantize(arg0)",
        "pid$target:fired:hit:entry { @ = quantize(arg0); }",
        "uprobe:FILE:hit { @ = hist(arg0); }",
    ),
    (
        "trace(timestamp)",
        "pid$target:fired:hit:entry { trace(timestamp); }",
        "",
    ),
    (
        "self->ts, quantize",
        "pid$target:fired:hit:entry { self->ts = timestamp; }
         pid$target:fired:hit:return /self->ts/ { @ = quantize(timestamp - self->ts); self->ts = 0; }",
        "uprobe:FILE:hit { @ts[tid] = nsecs; }
         uretprobe:FILE:hit /@ts[tid]/ { @ = hist(nsecs - @ts[tid]); delete(@ts[tid]); }",
    ),
];
/// Calls in a batch where a probe takes nanoseconds, where it takes microseconds, and where it leaves a record: what a
/// run leaves fits into the buffer.
const CALLS: u32 = 20_000;
const FEW_CALLS: u32 = 1_000;
const RECORDS: u32 = 1_000;
const BUFFER: u32 = 1 << 20;

struct Fired {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Fired {
    fn start(path: &str) -> Fired {
        let mut child = Command::new(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut fired = Fired {
            child,
            input,
            output,
        };
        fired.line();
        fired
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("it answers");
        line
    }

    /// ns per call.
    fn ask(&mut self, calls: u32) {
        writeln!(self.input, "{calls}").expect("it reads");
    }

    fn answer(&mut self) -> f64 {
        self.line().trim().parse().expect("a number")
    }
}

impl Drop for Fired {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// None where the engine cannot run the script.
fn with_engine(path: &str, text: &str, engine: Engine, calls: u32) -> Option<f64> {
    let mut fired = Fired::start(path);
    let input = Input {
        source: text,
        macros: Macros {
            arguments: vec!["cost"],
            variables: vec![("target", fired.child.id().into())],
        },
        ..Input::default()
    };
    let (script, _) = compile(&input, &Bare).expect("it compiles");
    let settings = Settings {
        engine,
        buffer: BUFFER,
        ..Settings::default()
    };
    let mut session = match Session::new(&script, &settings, &mut Vec::new()) {
        Err(TraceError::NotInside(_)) => return None,
        session => session.expect("it loads"),
    };
    session.start().expect("it starts");
    // Records are read between two runs. The first runs touch memory for the first time.
    let mut cost = 0.0;
    for _ in 0..4 {
        fired.ask(calls);
        cost = fired.answer();
        session.drain(&mut |_| {}).expect("records are read");
    }
    let drops = session.drops().expect("they are told");
    assert_eq!(drops, dwell_trace::Drops::default());
    session.stop().expect("it stops");
    Some(cost)
}

fn with_bpftrace(path: &str, text: &str, calls: u32) -> Option<f64> {
    let text = text.replace("FILE", path);
    let mut bpftrace = Command::new("bpftrace")
        .args(["-e", &text])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut output = BufReader::new(bpftrace.stdout.take()?);
    output.read_line(&mut String::new()).ok()?;
    std::thread::sleep(Duration::from_millis(500));
    let mut fired = Fired::start(path);
    fired.ask(calls);
    let cost = fired.answer();
    // SAFETY: a signal to our own child.
    unsafe { libc::kill(bpftrace.id() as i32, libc::SIGINT) };
    let _ = bpftrace.wait();
    Some(cost)
}

/// ns of a reading of the processor's counter.
fn counter() -> f64 {
    const READINGS: u32 = 10_000;
    let batch = |_| {
        let begin = Instant::now();
        for _ in 0..READINGS {
            // SAFETY: reads a register that every x86-64 processor has.
            std::hint::black_box(unsafe { core::arch::x86_64::_rdtsc() });
        }
        begin.elapsed().as_nanos() as f64 / f64::from(READINGS)
    };
    (0..15).map(batch).fold(f64::MAX, f64::min)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("the path of the compiled fired.c");
    let rounds = arguments
        .next()
        .map_or(3, |n| n.parse().expect("a number of rounds"));
    let (mut bare, mut counters) = (Vec::new(), Vec::new());
    let mut found = vec![[const { Vec::new() }; 3]; MEASURED.len()];
    for _ in 0..rounds {
        for ((name, text, other), found) in MEASURED.iter().zip(&mut found) {
            let mut alone = Fired::start(&path);
            alone.ask(CALLS);
            let alone = alone.answer();
            bare.push(alone);
            counters.push(counter());
            let calls = match name.starts_with("trace") {
                true => RECORDS,
                false => CALLS,
            };
            let process = with_engine(&path, text, Engine::Process, calls);
            found[0].extend(process.map(|ns| ns - alone));
            let kernel = with_engine(&path, text, Engine::Kernel, FEW_CALLS);
            found[1].extend(kernel.map(|ns| ns - alone));
            let is_there = !other.is_empty();
            let other = is_there.then(|| with_bpftrace(&path, other, FEW_CALLS));
            found[2].extend(other.flatten().map(|ns| ns - alone));
        }
    }
    let bare = median(bare).expect("there are rounds");
    let counter = median(counters).expect("there are rounds");
    println!("a call alone: {bare:.2} ns; reading the processor's counter: {counter:.1} ns");
    println!(
        "more of a call by a probe, ns:\n{:<20} {:>9} {:>9} {:>9}",
        "", "process", "kernel", "bpftrace"
    );
    for ((name, ..), found) in MEASURED.iter().zip(found) {
        let [process, kernel, bpftrace] = found.map(median);
        let ns = |ns: Option<f64>, digits| ns.map_or("-".into(), |n| format!("{n:.digits$}"));
        let (process, kernel) = (ns(process, 1), ns(kernel, 0));
        println!("{name:<20} {process:>9} {kernel:>9} {:>9}", ns(bpftrace, 0));
    }
}
