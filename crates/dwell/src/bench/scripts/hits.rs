//! What a probe costs each time it fires, by engine, and by bpftrace where that is installed. In each round
//! everything is measured once, so that a drift of the machine is the same for all; medians are printed.
use super::super::statistics::median;
use super::target::Target;
use super::{compiled, shown};
use anyhow::Result;
use dwell_trace::{Engine, Session, Settings, TraceError};
use serde::Serialize;
use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const PROGRAM: &str = include_str!("../../../../../benches/probes/fired.c");

/// What is measured: its name, the D script, bpftrace's. The numbers are those of the examples of a D tutorial, which
/// compares tracing everything, one function, and by a predicate, guards a probe, and reads globals.
const MEASURED: [(&str, &str, &str); 12] = [
    (
        "5 every function",
        "pid$target:fired::entry { @[probefunc] = count(); }",
        "uprobe:FILE:main, uprobe:FILE:hit, uprobe:FILE:guarded, uprobe:FILE:within { @[func] = count(); }",
    ),
    (
        "6 one function",
        "pid$target:fired:hit:entry { @ = count(); }",
        "uprobe:FILE:hit { @ = count(); }",
    ),
    (
        "7 predicate, self->",
        "pid$target:fired:within:entry { self->traced = 1; }
         pid$target:fired:within:return { self->traced = 0; }
         pid$target:fired:hit:entry /self->traced/ { @ = count(); }",
        "uprobe:FILE:within { @t[tid] = 1; } uretprobe:FILE:within { delete(@t[tid]); }
         uprobe:FILE:hit /@t[tid]/ { @ = count(); }",
    ),
    (
        "  predicate, arg0",
        "pid$target:fired:hit:entry /arg0 == 5000/ { @ = count(); }",
        "uprobe:FILE:hit /arg0 == 5000/ { @ = count(); }",
    ),
    (
        "9 guarded probe",
        "fired$target:::guarded { @ = count(); }",
        "usdt:FILE:fired:guarded { @ = count(); }",
    ),
    (
        "10 int global",
        "pid$target:fired:hit:entry { @ = sum(`counter); }",
        "",
    ),
    (
        "11 char[] global",
        "pid$target:fired:hit:entry { @[stringof(`text)] = count(); }",
        "",
    ),
    (
        "12 char * global",
        "pid$target:fired:hit:entry { @[stringof(`pointer)] = count(); }",
        "",
    ),
    (
        "13 by address",
        "pid$target:fired:hit:entry { @ = sum(*(int *)copyin((uintptr_t)&`counter, sizeof(int))); }",
        "",
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
const FEW_CALLS: u32 = 500;
const RECORDS: u32 = 1_000;
const BUFFER: u32 = 1 << 20;

/// What firing costs.
#[derive(Debug, Serialize)]
pub struct Hits {
    /// A call of the function without a probe, ns.
    pub alone_ns: f64,
    /// Reading the processor's counter, ns.
    pub counter_ns: f64,
    /// One for each script.
    pub rows: Vec<Row>,
}

/// What a script adds to a call, ns.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Of the script.
    pub name: &'static str,
    /// Inside the process.
    pub process: Option<f64>,
    /// In the kernel.
    pub kernel: Option<f64>,
    /// By bpftrace.
    pub bpftrace: Option<f64>,
}

/// Measures everything `rounds` times.
pub(super) fn run(folder: &Path, rounds: usize, progress: &mut dyn FnMut(&str)) -> Result<Hits> {
    let path = compiled(folder, "fired", PROGRAM)?;
    let (mut alone_ns, mut counter_ns) = (Vec::new(), Vec::new());
    let mut found = vec![[const { Vec::new() }; 3]; MEASURED.len()];
    for round in 1..=rounds.max(1) {
        for ((name, text, other), found) in MEASURED.iter().zip(&mut found) {
            progress(&format!("round {round}: {}", name.trim()));
            let line = |calls: u32| format!("{calls} {}", u8::from(text.contains(":guarded")));
            let alone = Target::start(&path)?.ask(&line(CALLS))?;
            alone_ns.push(alone);
            counter_ns.push(counter());
            let calls = match name.starts_with("trace") {
                true => RECORDS,
                false => CALLS,
            };
            let process = with_engine(&path, text, Engine::Process, &line(calls))?;
            found[0].extend(process.map(|ns| ns - alone));
            let kernel = with_engine(&path, text, Engine::Kernel, &line(FEW_CALLS))?;
            found[1].extend(kernel.map(|ns| ns - alone));
            if !other.is_empty() {
                let other = with_bpftrace(&path, other, &line(FEW_CALLS));
                found[2].extend(other.map(|ns| ns - alone));
            }
        }
    }
    let row = |((name, ..), found): (&(&'static str, _, _), [Vec<f64>; 3])| {
        let [process, kernel, bpftrace] = found.map(|all| (!all.is_empty()).then(|| median(&all)));
        Row {
            name,
            process,
            kernel,
            bpftrace,
        }
    };
    Ok(Hits {
        alone_ns: median(&alone_ns),
        counter_ns: median(&counter_ns),
        rows: MEASURED.iter().zip(found).map(row).collect(),
    })
}

/// None where the engine cannot run the script.
fn with_engine(path: &Path, text: &str, engine: Engine, line: &str) -> Result<Option<f64>> {
    let mut target = Target::start(path)?;
    let script = target.script(text)?;
    let settings = Settings {
        engine,
        buffer: BUFFER,
        ..Settings::default()
    };
    let mut session = match Session::new(&script, &settings, &mut Vec::new()) {
        Err(TraceError::NotInside(_)) => return Ok(None),
        session => session?,
    };
    session.start()?;
    // Records are read between two runs. The first runs touch memory for the first time.
    let mut cost = 0.0;
    for _ in 0..4 {
        cost = target.ask(line)?;
        session.drain(&mut |_| {})?;
    }
    let drops = session.drops()?;
    anyhow::ensure!(drops == dwell_trace::Drops::default(), "{text}: {drops:?}");
    session.stop()?;
    Ok(Some(cost))
}

fn with_bpftrace(path: &Path, text: &str, line: &str) -> Option<f64> {
    let text = text.replace("FILE", &path.display().to_string());
    let mut bpftrace = Command::new("bpftrace")
        .args(["-e", &text])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let cost = bpftrace.stdout.take().and_then(|output| {
        BufReader::new(output).read_line(&mut String::new()).ok()?;
        std::thread::sleep(Duration::from_millis(500));
        // It ends where it cannot attach.
        bpftrace.try_wait().ok()?.is_none().then_some(())?;
        Target::start(path).and_then(|mut t| t.ask(line)).ok()
    });
    // SAFETY: a signal to our own child.
    unsafe { libc::kill(bpftrace.id() as i32, libc::SIGINT) };
    let _ = bpftrace.wait();
    cost
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

impl fmt::Display for Hits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "More of a call by a probe, ns, medians. A call alone: {:.2}; reading the processor's counter: {:.1}.\n",
            self.alone_ns, self.counter_ns
        )?;
        writeln!(
            f,
            "{:<20} {:>9} {:>9} {:>9}",
            "script", "process", "kernel", "bpftrace"
        )?;
        for row in &self.rows {
            let (process, kernel) = (shown(row.process, 1), shown(row.kernel, 0));
            let bpftrace = shown(row.bpftrace, 0);
            writeln!(f, "{:<20} {process:>9} {kernel:>9} {bpftrace:>9}", row.name)?;
        }
        Ok(())
    }
}
