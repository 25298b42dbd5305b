//! What a probe costs each time it fires, by engine: `cost_per_hit FIRED`, where FIRED is `benches/probes/fired.c`
//! compiled. Needs root. bpftrace is measured as well where it is installed.
use dwell_script::{Bare, Input, Macros, compile};
use dwell_trace::{Engine, Session, Settings};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

/// What is measured: its name, the D script, bpftrace's.
const MEASURED: [(&str, &str, &str); 5] = [
    (
        "predicate false",
        "pid$target:fired:hit:entry /arg0 == 5000/ { @ = count(); }",
        "uprobe:FILE:hit /arg0 == 5000/ { @ = count(); }",
    ),
    (
        "count()",
        "pid$target:fired:hit:entry { @ = count(); }",
        "uprobe:FILE:hit { @ = count(); }",
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

fn with_engine(path: &str, text: &str, engine: Engine, calls: u32) -> f64 {
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
        buffer: 16 << 20,
        ..Settings::default()
    };
    let mut session = Session::new(&script, &settings, &mut Vec::new()).expect("it loads");
    session.start().expect("it starts");
    // Records are read only afterwards: what a batch writes fits in.
    fired.ask(calls);
    let cost = fired.answer();
    session.stop().expect("it stops");
    cost
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

fn main() {
    const CALLS: u32 = 20_000;
    let path = std::env::args()
        .nth(1)
        .expect("the path of the compiled fired.c");
    let mut alone = Fired::start(&path);
    alone.ask(CALLS);
    let bare = alone.answer();
    println!("a call alone: {bare:.2} ns; more of it by a probe, ns:");
    println!(
        "{:<20} {:>9} {:>9} {:>9}",
        "", "process", "kernel", "bpftrace"
    );
    for (name, text, bpftrace) in MEASURED {
        let process = with_engine(&path, text, Engine::Process, CALLS) - bare;
        let kernel = with_engine(&path, text, Engine::Kernel, CALLS / 20) - bare;
        let other = (!bpftrace.is_empty())
            .then(|| with_bpftrace(&path, bpftrace, CALLS / 20))
            .flatten();
        let other = other.map_or("-".into(), |ns| format!("{:.0}", ns - bare));
        println!("{name:<20} {process:>9.1} {kernel:>9.0} {other:>9}");
    }
}
