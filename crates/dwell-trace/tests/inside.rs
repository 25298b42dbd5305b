//! Scripts run inside a process and in the kernel: the same answers. Needs root, and DWELL_TEST_PROGRAMS.
use dwell_patch::process::{AtEntry, Held};
use dwell_script::schema::{AggregationId, Row};
use dwell_script::typed::Script;
use dwell_script::{Bare, Input, Macros, compile};
use dwell_trace::{Engine, Session, Settings, TraceError};
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of a record's header that tell of threads and processors; the rest must be the same.
const VARYING: std::ops::Range<usize> = 8..20;

/// The program, held before its first instruction.
struct Traced {
    child: Child,
    held: Option<Held>,
}

impl Traced {
    fn start(rounds: u32, threads: u32) -> Traced {
        let programs = std::env::var("DWELL_TEST_PROGRAMS")
            .expect("DWELL_TEST_PROGRAMS names the test programs");
        let script =
            format!("echo; read go; exec {programs}/traced {rounds} {threads} > /dev/null");
        let mut child = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        // Then it has been executed itself.
        let mut output = child.stdout.take().expect("it is piped");
        output.read_exact(&mut [0]).expect("it writes");
        let expected = AtEntry::expect(child.id() as i32).expect("it can be traced");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(b"go\n").expect("it reads");
        let held = expected.held().expect("it is traced");
        assert!(held.is_some(), "it was not held");
        Traced { child, held }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn begin(&mut self) {
        let held = self.held.take().expect("it has not begun");
        held.begin().expect("it begins");
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_some()
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn compiled(text: &str, pid: u32) -> Script {
    let input = Input {
        source: text,
        macros: Macros {
            arguments: vec!["test"],
            variables: vec![("target", pid.into()), ("pid", std::process::id().into())],
        },
        ..Input::default()
    };
    let (script, _) = compile(&input, &Bare).unwrap_or_else(|error| panic!("{text}: {error}"));
    script
}

/// What a script came to.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    records: Vec<Vec<u8>>,
    rows: Vec<Vec<Row>>,
}

fn run(text: &str, engine: Engine, rounds: u32, threads: u32) -> Outcome {
    let mut traced = Traced::start(rounds, threads);
    let later = if text.contains("self->round") {
        LATER
    } else {
        ""
    };
    let script = compiled(&format!("{later}{text}"), traced.pid());
    let settings = Settings {
        engine,
        ..Settings::default()
    };
    let session = Session::new(&script, &settings, &mut Vec::new());
    let mut session = session.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(session.engine(), engine);
    session.start().expect("it starts");
    traced.begin();
    let mut records = Vec::new();
    let mut take = |session: &Session<'_>| {
        let drained = session.drain(&mut |record| records.push(record.to_vec()));
        drained.expect("records are read");
    };
    let begin = Instant::now();
    while !traced.has_ended() {
        session
            .wait(Duration::from_millis(10))
            .expect("it is waited for");
        take(&session);
        assert!(begin.elapsed() < Duration::from_secs(60), "{text}: hangs");
    }
    session.stop().expect("it is detached");
    take(&session);
    for record in &mut records {
        record[VARYING].fill(0);
    }
    let drops = session.drops().expect("they are read");
    assert_eq!(drops, dwell_trace::Drops::default(), "{text}");
    let rows = |id| {
        let mut rows = session.rows(AggregationId(id)).expect("rows");
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        rows
    };
    let rows = (0..script.aggregations.len() as u32).map(rows).collect();
    Outcome { records, rows }
}

/// Before scripts that read strings: the kernel cannot read pages that nobody has touched yet, which are there from
/// the second round on.
const LATER: &str = "pid$target:traced:many:entry { self->round++; } ";

/// What does not depend on when and where threads run.
const SCRIPTS: &[&str] = &[
    "pid$target:traced:step:entry { @ = count(); }",
    "pid$target:traced:step:entry { @[arg0] = count(); }",
    "pid$target:traced:step:entry /arg0 > 4 && arg0 != 7/ { @[arg0] = count(); }",
    "pid$target:traced:step:entry /arg0 == 100/ { @ = count(); }",
    "pid$target:traced:step:entry { @[arg0] = sum(arg0 * 3); @a[arg0 & 1] = avg(arg0); }",
    "pid$target:traced:step:entry { @ = quantize(arg0); }",
    "pid$target:traced:step:entry { @ = lquantize(arg0, 0, 8, 2); }",
    "pid$target:traced:step:entry { @ = llquantize(arg0, 10, 0, 3, 10); }",
    "pid$target:traced:step:entry { @ = min(arg0 - 3); @m = max(arg0 - 20); @s = stddev(arg0); }",
    "pid$target:traced:step:return { @ = sum(arg1); }",
    "pid$target:traced:step:return { @[arg1] = count(); }",
    "pid$target:traced:step:entry, pid$target:traced:many:entry { @[probefunc] = count(); }",
    "pid$target:traced:many:entry { @[arg0, arg1 & 0xff, arg5 & 0xff] = count(); }",
    "pid$target:traced:many:entry { @ = max(arg7); @b = sum(arg6 & 0xffff); }",
    "pid$target:traced:many:return { @ = sum((int)arg1); }",
    "pid$target:traced:greet:entry /self->round > 1/ { @[copyinstr(arg0)] = count(); }",
    "pid$target:traced:greet:entry /self->round > 1/ { @[strlen(copyinstr(arg0))] = sum(1); }",
    "pid$target:traced:greet:entry /self->round > 1 && copyinstr(arg0) == \"hello\"/ { @[probename, probemod] = count(); }",
    "pid$target:traced:step:entry { self->n = arg0; }
     pid$target:traced:step:return /self->n/ { @[self->n] = sum(arg1); self->n = 0; }",
    "pid$target:traced:step:entry { self->t = timestamp; }
     pid$target:traced:step:return /self->t/ { @ = sum(timestamp > self->t); self->t = 0; }",
    "pid$target:traced:step:entry { self->a[arg0] = arg0 + 1; }
     pid$target:traced:step:return { @ = sum(self->a[(arg1 + 1) / 3]); self->a[(arg1 + 1) / 3] = 0; }",
    "pid$target:traced:step:entry { this->x = arg0 % 3; this->y = this->x << 4; @[this->y] = count(); }",
    "BEGIN { n = 5; } pid$target:traced:step:entry /arg0 < n/ { @ = count(); } END { trace(n); }",
    "pid$target:traced:step:entry { @[arg0 / (arg0 + 1), arg0 % 4, -arg0 >> 1, ~arg0] = count(); }",
    "pid$target:traced:step:entry { @[arg0 > 5 ? \"big\" : \"small\"] = count(); }",
    "pid$target:traced:step:entry { @a = count(); @b = sum(arg0); @c[1] = count(); @d[2, 3] = count(); }",
];

/// With one thread, records come in one order.
const RECORDING: &[&str] = &[
    "pid$target:traced:step:entry { trace(arg0); }",
    "pid$target:traced:step:entry /arg0 == 9/ { printf(\"%d %s\", arg0, probefunc); }",
    "pid$target:traced:greet:entry /self->round > 1/ { printf(\"%s\", copyinstr(arg0)); }",
    "pid$target:traced:step:return { trace(arg1); trace(arg0); }",
    "pid$target:traced:step:entry { calls++; } pid$target:traced:many:entry { trace(calls); }",
    "pid$target:traced:step:entry { a[arg0]++; } END { trace(a[0]); trace(a[9]); trace(a[10]); }",
    "pid$target:traced:step:entry { s[arg0] = probefunc; } END { trace(s[3]); }",
    "BEGIN { n = 1; } pid$target:traced:step:entry { a[arg0, probefunc] = arg0; a[arg0, probefunc] = 0; n = n + a[arg0, probefunc]; }
     END { trace(n); }",
    "pid$target:traced:step:entry { if (arg0 > 7) { trace(arg0); } else { @ = count(); } }",
    "pid$target:traced:greet:entry /self->round > 1/ { trace(*(char *)copyin(arg0, 1)); }",
    "pid$target:traced:greet:entry /self->round > 1/ { tracemem(copyin(arg0, 6), 6); }",
    "pid$target:traced:many:entry { x = 10 / (arg7 & 1); trace(x); }",
    "pid$target:traced:step:entry { trace(copyinstr(arg0)); }",
    "BEGIN { trace(\"begin\"); } END { trace(\"end\"); } pid$target:traced:step:entry { @ = count(); }",
    "pid$target:traced:step:0 { @ = sum(arg0 + uregs[R_RBX] - uregs[R_RBX]); } pid$target:traced:many:entry { trace(pid == $target); }",
    "pid$target:traced:many:entry { trace(execname); trace(uid); trace(ucaller != 0); }",
];

#[test]
#[ignore = "needs root"]
fn sums_are_those_of_the_kernel() {
    for text in SCRIPTS {
        let inside = run(text, Engine::Process, 50, 4);
        assert!(
            inside.rows.iter().any(|r| !r.is_empty()) || text.contains("100"),
            "{text}"
        );
        let kernel = run(text, Engine::Kernel, 50, 4);
        assert!(
            inside == kernel,
            "{text}\ninside: {inside:?}\nkernel: {kernel:?}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn records_are_those_of_the_kernel() {
    for text in RECORDING {
        let inside = run(text, Engine::Process, 20, 1);
        assert!(!inside.records.is_empty(), "{text}");
        let kernel = run(text, Engine::Kernel, 20, 1);
        assert!(
            inside == kernel,
            "{text}\ninside: {inside:?}\nkernel: {kernel:?}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn what_only_the_kernel_can_do_is_refused_by_name() {
    let refused = [
        ("syscall:::entry { @ = count(); }", "system calls"),
        (
            "pid$target:traced:step:entry { @[ustack()] = count(); }",
            "ustack()",
        ),
        (
            "pid$target:traced:step:entry, profile-97 { @ = count(); }",
            "profile",
        ),
    ];
    for (text, why) in refused {
        let traced = Traced::start(1, 1);
        let script = compiled(text, traced.pid());
        let open = |engine| {
            let settings = Settings {
                engine,
                ..Settings::default()
            };
            Session::new(&script, &settings, &mut Vec::new())
        };
        match open(Engine::Process) {
            Err(TraceError::NotInside(said)) => assert!(said.contains(why), "{text}: {said}"),
            other => panic!("{text}: {:?}", other.map(|_| ())),
        }
        let session = open(Engine::Auto).expect("the kernel can");
        // What has a place in the process still goes there.
        let expected = match text.contains("profile") {
            true => Engine::Auto,
            false => Engine::Kernel,
        };
        assert_eq!(session.engine(), expected, "{text}");
    }
}

/// Keys that were removed, with or without their slot's memory used again, begin at zero.
#[test]
#[ignore = "needs root"]
fn removed_sums_begin_anew() {
    let mut traced = Traced::start(100_000_000, 2);
    let text = "pid$target:traced:step:entry { @ = count(); @k[arg0] = count(); }";
    let script = compiled(text, traced.pid());
    let settings = Settings {
        engine: Engine::Process,
        ..Settings::default()
    };
    let mut session = Session::new(&script, &settings, &mut Vec::new()).expect("it loads");
    session.start().expect("it starts");
    traced.begin();
    let sum = |session: &Session<'_>, id| -> i64 {
        let rows = session.rows(AggregationId(id)).expect("rows");
        rows.iter().map(|row| row.values[0]).sum()
    };
    let pid = traced.pid() as i32;
    // SAFETY: a signal to our own child.
    let signal = |signal| unsafe { libc::kill(pid, signal) };
    for round in 0..4 {
        session.wait(Duration::from_millis(300)).expect("it waits");
        signal(libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(300));
        for id in [0, 1] {
            assert!(sum(&session, id) > 0, "round {round}, aggregation {id}");
            let rows = session.rows(AggregationId(id)).expect("rows");
            let keys: Vec<_> = rows.into_iter().map(|row| row.key).collect();
            session.remove(AggregationId(id), &keys);
            let left = session.rows(AggregationId(id)).expect("rows");
            assert_eq!(left, [], "round {round}, aggregation {id}");
        }
        signal(libc::SIGCONT);
    }
    session.wait(Duration::from_millis(300)).expect("it waits");
    session.stop().expect("it stops");
    assert_eq!(
        session.drops().expect("drops"),
        dwell_trace::Drops::default()
    );
    assert!(sum(&session, 0) > 0 && sum(&session, 1) > 0);
}

/// A session that has started, on calls of a function.
fn counting<'s>(script: &'s Script, engine: Engine) -> Result<Session<'s>, TraceError> {
    let settings = Settings {
        engine,
        ..Settings::default()
    };
    let mut session = Session::new(script, &settings, &mut Vec::new())?;
    session.start()?;
    Ok(session)
}

/// Two scripts inside a process at once count for themselves; a third one that wants a place of theirs is refused, in
/// the kernel as well, whose probe would have the process crash. Afterwards it has the place.
#[test]
#[ignore = "needs root"]
fn several_scripts_do_not_disturb_each_other() {
    let mut traced = Traced::start(50_000_000, 2);
    traced.begin();
    let script = |function: &str| {
        let text = format!("pid$target:traced:{function}:entry {{ @ = count(); }}");
        compiled(&text, traced.pid())
    };
    let (step, many) = (script("step"), script("many"));
    let mut first = counting(&step, Engine::Process).expect("it starts");
    let mut second = counting(&many, Engine::Process).expect("a second one starts");
    let refusal = |engine| counting(&step, engine).err().map(|e| e.to_string());
    let inside = refusal(Engine::Process).expect("the place is taken");
    assert!(inside.contains("differs from the file"), "{inside}");
    for engine in [Engine::Kernel, Engine::Auto] {
        let why = refusal(engine).expect("the place is taken");
        assert!(
            why.contains("step") && why.contains("patched by another"),
            "{why}"
        );
    }
    std::thread::sleep(Duration::from_millis(20));
    first.stop().expect("it is detached");
    let mut third = counting(&step, Engine::Kernel).expect("the place is free");
    std::thread::sleep(Duration::from_millis(20));
    second.stop().expect("it is detached");
    third.stop().expect("it is detached");
    for session in [&first, &second, &third] {
        let rows = session.rows(AggregationId(0)).expect("rows");
        assert_eq!(rows.len(), 1, "something was counted");
        let none = dwell_trace::Drops::default();
        assert_eq!(session.drops().expect("drops"), none);
    }
    assert!(!traced.has_ended(), "the target died");
}

const TRACE: &str = "DWELL_TEST_TRACE";
const ENGINE: &str = "DWELL_TEST_ENGINE";

/// What is killed: traces a process for as long as it lives.
#[test]
#[ignore = "needs root"]
fn tracer() {
    let Ok(pid) = std::env::var(TRACE) else {
        return; // run by itself, there is nothing to trace
    };
    let pid = pid.parse().expect("a number");
    let text =
        "pid$target:traced:step:entry { self->t = timestamp; @[arg0] = count(); trace(arg0); }
        pid$target:traced:step:return { @q = quantize(timestamp - self->t); self->t = 0; }";
    let script = compiled(text, pid);
    let settings = Settings {
        engine: match std::env::var(ENGINE).as_deref() {
            Ok("kernel") => Engine::Kernel,
            _ => Engine::Process,
        },
        ..Settings::default()
    };
    loop {
        let session = Session::new(&script, &settings, &mut Vec::new());
        let mut session = session.expect("it can be traced");
        session.start().expect("it starts");
        session.wait(Duration::from_millis(20)).expect("it waits");
        session.stop().expect("it stops");
    }
}

/// A tracer that is killed at any instant does its target no harm, and the next one, of either engine, starts as if it
/// had not been.
#[test]
#[ignore = "needs root"]
fn a_killed_tracer_does_no_harm() {
    const ROUNDS: u32 = 50_000_000;
    let mut traced = Traced::start(ROUNDS, 3);
    traced.begin();
    for round in 0..20u64 {
        kill_a_tracer(&traced, "process", 100 + round * 37 % 150);
        assert!(!traced.has_ended(), "the target died in round {round}");
    }
    let before = run_time(traced.pid());
    std::thread::sleep(Duration::from_millis(100));
    assert!(run_time(traced.pid()) > before, "the target stands still");
    dwell_patch::recover(traced.pid() as i32).expect("it is restored");
    for round in 0..20u64 {
        kill_a_tracer(&traced, "kernel", 100 + round * 37 % 150);
        assert!(!traced.has_ended(), "the target died in round {round}");
    }
    let before = run_time(traced.pid());
    std::thread::sleep(Duration::from_millis(100));
    assert!(run_time(traced.pid()) > before, "the target stands still");
}

fn kill_a_tracer(traced: &Traced, engine: &str, after_ms: u64) {
    let mut tracer = Command::new(std::env::current_exe().expect("a path"))
        .args(["--ignored", "--exact", "tracer"])
        .env(TRACE, traced.pid().to_string())
        .env(ENGINE, engine)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    std::thread::sleep(Duration::from_millis(after_ms));
    let ended = tracer.try_wait().expect("it is ours");
    assert!(ended.is_none(), "it failed: {ended:?}");
    tracer.kill().expect("it is killed");
    tracer.wait().expect("it is dead");
}

/// The processor time of a process, clock ticks.
fn run_time(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or("")
        .split_whitespace()
        .collect();
    fields[11].parse::<u64>().expect("a number") + fields[12].parse::<u64>().expect("a number")
}
