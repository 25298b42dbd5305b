//! Programs in the kernel, on a process of ours. Needs root, and DWELL_TEST_PROGRAMS.
#[path = "../../../tests/programs/stolen.rs"]
mod stolen;

use dwell_script::aggregate::powers_index;
use dwell_script::schema::{Aggregate, AggregationId};
use dwell_script::span::Span;
use dwell_script::typed::*;
use dwell_script::types::{Type, TypeId};
use dwell_trace::probes::Process;
use dwell_trace::{Drops, Session, Settings};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use stolen::StolenMeter;

/// The program, held before it does anything: until it is told to, it has not begun to execute it.
fn traced(rounds: u32, threads: u32) -> (Stopped, u32) {
    let programs =
        std::env::var("DWELL_TEST_PROGRAMS").expect("DWELL_TEST_PROGRAMS names the test programs");
    // The shell becomes the program, so its libraries are not mapped yet; the program's own file is what counts.
    let script = format!("kill -STOP $$; exec {programs}/traced {rounds} {threads}");
    let child = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh starts");
    let pid = child.id();
    (Stopped(Some(child)), pid)
}

/// A child that does not outlive a test that fails.
struct Stopped(Option<Child>);

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

struct Build {
    script: Script,
    long: TypeId,
}

impl Build {
    fn new() -> Self {
        let mut script = Script::default();
        let long = script.types.add(Type::Int {
            name: "long".into(),
            size: 8,
            signed: true,
        });
        Build { script, long }
    }

    fn expr(&self, kind: ExprKind) -> Expr {
        Expr {
            kind,
            ty: self.long,
            span: Span::default(),
        }
    }

    fn arg(&self, n: u8) -> Expr {
        self.expr(ExprKind::Builtin(Builtin::Arg(n)))
    }

    fn aggregate(&mut self, function: Aggregate, keys: Vec<Expr>, value: Expr) -> Statement {
        let types = keys.iter().map(|k| k.ty).collect();
        self.script.aggregations.push(Aggregation {
            name: "".into(),
            keys: types,
            function: Some(function),
            signed: true,
        });
        let to = AggregationId(self.script.aggregations.len() as u32 - 1);
        Statement::Aggregate {
            to,
            keys,
            value,
            increment: None,
        }
    }

    fn clause(&mut self, provider: &str, function: &str, name: &str, body: Vec<Statement>) {
        let probe = ProbePattern {
            provider: provider.into(),
            function: function.into(),
            name: name.into(),
            ..ProbePattern::default()
        };
        self.script.clauses.push(Clause {
            probe,
            predicate: None,
            body,
            span: Span::default(),
        });
    }
}

#[test]
#[ignore = "needs root"]
fn a_hundred_quantizations_load_and_begin_runs() {
    let mut b = Build::new();
    let mut body = Vec::new();
    for value in 0..100 {
        let value = b.expr(ExprKind::Int(1 << (value % 60)));
        body.push(b.aggregate(Aggregate::Quantize, vec![], value));
    }
    b.clause("", "", "BEGIN", body);
    let mut session =
        Session::new(&b.script, &Settings::default(), &mut Vec::new()).expect("it loads");
    session.start().expect("it runs");
    assert_eq!(session.drops().expect("they are read"), Drops::default());
    for id in 0..100 {
        let rows = session.rows(AggregationId(id)).expect("they are read");
        let expected = powers_index(1 << (id % 60));
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].values.iter().position(|v| *v == 1), Some(expected));
    }
}

#[test]
#[ignore = "needs root"]
fn calls_of_threads_are_counted_exactly() {
    const ROUNDS: u32 = 300;
    const THREADS: u32 = 4;
    let (mut child, pid) = traced(ROUNDS, THREADS);
    // The program is not there yet: its functions are those of the file.
    std::thread::sleep(Duration::from_millis(200));
    let programs = std::env::var("DWELL_TEST_PROGRAMS").expect("it is set");
    let mut b = Build::new();
    let one = b.expr(ExprKind::Int(1));
    let provider = format!("pid{pid}");
    let key = b.arg(0);
    let count = b.aggregate(Aggregate::Count, vec![key], one.clone());
    b.clause(&provider, "step", "entry", vec![count]);
    let value = b.arg(1);
    let sum = b.aggregate(Aggregate::Sum, vec![], value);
    b.clause(&provider, "step", "return", vec![sum]);
    let value = b.arg(7);
    let most = b.aggregate(Aggregate::Max, vec![], value);
    b.clause(&provider, "many", "entry", vec![most]);
    let mut processes =
        vec![Process::of_file(pid, &format!("{programs}/traced")).expect("it is there")];
    let mut session =
        Session::new(&b.script, &Settings::default(), &mut processes).expect("it loads");
    session.start().expect("it is attached");
    // SAFETY: a signal to our own child.
    unsafe { libc::kill(pid as i32, libc::SIGCONT) };
    let output = child
        .0
        .take()
        .expect("it is there")
        .wait_with_output()
        .expect("it ends");
    let truth = String::from_utf8(output.stdout).expect("text");
    session.stop().expect("it is detached");
    assert_eq!(session.drops().expect("they are read"), Drops::default());

    let mut counted: Vec<String> = session
        .rows(AggregationId(0))
        .expect("rows")
        .iter()
        .map(|row| {
            let key = i64::from_le_bytes(row.key[..].try_into().expect("8 bytes"));
            format!("step {key} {}", row.values[0])
        })
        .collect();
    counted.sort();
    let steps: Vec<&str> = truth.lines().filter(|l| l.starts_with("step")).collect();
    assert_eq!(counted, steps);
    let calls: i64 = (0..10).map(|n| (n + 1) * (n * 3 - 1)).sum();
    let returned = session.rows(AggregationId(1)).expect("rows");
    assert_eq!(returned[0].values[0], calls * i64::from(ROUNDS * THREADS));
    let most = session.rows(AggregationId(2)).expect("rows");
    assert_eq!(most[0].values[0] & 0xffff_ffff, i64::from(ROUNDS - 1));
}

#[test]
#[ignore = "needs root"]
fn system_calls_and_ticks_are_seen() {
    let mut b = Build::new();
    let one = b.expr(ExprKind::Int(1));
    let own = i64::from(std::process::id());
    let pid = b.expr(ExprKind::Builtin(Builtin::Pid));
    let count = b.aggregate(Aggregate::Count, vec![pid], one.clone());
    b.clause("syscall", "getppid", "entry", vec![count]);
    let count = b.aggregate(Aggregate::Count, vec![], one.clone());
    b.clause("", "", "tick-10ms", vec![count]);
    let exit = Statement::Record(Recording::Exit(b.expr(ExprKind::Int(5))));
    b.clause("", "", "tick-300ms", vec![exit]);
    let mut session =
        Session::new(&b.script, &Settings::default(), &mut Vec::new()).expect("it loads");
    let stolen = StolenMeter::start();
    session.start().expect("it is attached");
    for _ in 0..77 {
        // SAFETY: has no arguments.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
    let mut records = Vec::new();
    for _ in 0..50 {
        session.wait(Duration::from_millis(100)).expect("waiting");
        session
            .drain(&mut |record| records.push(record.to_vec()))
            .expect("reading");
        if !records.is_empty() {
            break;
        }
    }
    session.stop().expect("it is detached");
    let stolen_ns = stolen.ns();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0][32..40], 5i64.to_le_bytes());
    let rows = session.rows(AggregationId(0)).expect("rows");
    let ours = rows.iter().find(|row| row.key[..] == own.to_le_bytes());
    assert_eq!(ours.map(|row| row.values[0]), Some(77));
    let ticks = session.rows(AggregationId(1)).expect("rows")[0].values[0];
    // Of a timer's ticks that fall into what the host takes from its processor one comes, late.
    let least = 25 - (stolen_ns / 10_000_000) as i64;
    assert!(
        (least..=31).contains(&ticks),
        "{ticks} ticks of 10 ms in 300 ms; {stolen_ns} ns stolen"
    );
}
