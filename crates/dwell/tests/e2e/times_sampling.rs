//! Estimates from samples are unbiased, and what a buffer that is too small loses is counted.

use crate::common::*;
use dwell_analysis::State;
use dwell_analysis::names::{Missing, StackRef};
use dwell_recording::rows::{SampleRow, StackRow, state};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

// ---- unbiasedness ----

/// What a mean of unbiased errors is off at most, in its standard errors. With 16 runs it is more in 1 of
/// 900 cases, with 24 in 1 of 1 800; there are 19 such means, so chance alone fails about 1 run in 60.
const LIMIT: f64 = 4.0;

/// Estimates minus truths of one function, as shares of its true total over all seeds.
#[derive(Default)]
struct Errors {
    truth: f64,
    estimate: Vec<f64>,
    naive: Vec<f64>,
}

impl Errors {
    fn add(&mut self, truth: f64, estimate: f64, naive: f64) {
        self.truth += truth;
        self.estimate.push(estimate - truth);
        self.naive.push(naive - truth);
    }
}

/// Mean error, and its standard error from the spread over the seeds.
fn mean(errors: &[f64]) -> (f64, f64) {
    let n = errors.len() as f64;
    let mean = errors.iter().sum::<f64>() / n;
    let squares: f64 = errors.iter().map(|e| (e - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0) / n).sqrt())
}

/// Runs `distribution` with other random numbers each time, `at_once` at a time, each with a recorder of its own. For
/// every function that `wanted` picks: the errors of the time that the profile gives it.
fn errors(
    seeds: std::ops::Range<u64>,
    at_once: usize,
    options: &[&str],
    wanted: fn(&str) -> bool,
) -> BTreeMap<String, Errors> {
    let run = |seeds: Vec<u64>| -> Vec<_> {
        let scratch = Scratch::on_disk();
        let json = scratch.file("truth.json");
        let mut runs = Vec::new();
        for seed in seeds {
            let args = [&seed.to_string(), "1.5", "2", &json];
            let recorded = launch(&scratch, options, "distribution", &args);
            let truth = Truth::read(&json);
            let view = View::of(&recorded.tables);
            assert_closed(&view);
            runs.push(one_run(&view, &truth));
        }
        runs
    };
    let lanes = (0..at_once).map(|lane| seeds.clone().skip(lane).step_by(at_once).collect());
    let runs: Vec<_> = std::thread::scope(|scope| {
        let lanes: Vec<_> = lanes.map(|lane| scope.spawn(|| run(lane))).collect();
        let runs = lanes
            .into_iter()
            .flat_map(|lane| lane.join().expect("recorded"));
        runs.collect()
    });
    let mut all: BTreeMap<String, Errors> = BTreeMap::new();
    for (function, [truth, estimate, naive]) in runs.into_iter().flatten() {
        if wanted(&function) {
            all.entry(function).or_default().add(truth, estimate, naive);
        }
    }
    all
}

/// By function: its true time, the profile's, and the one that a count of stacks would give.
fn one_run(view: &View<'_>, truth: &Truth) -> BTreeMap<String, [f64; 3]> {
    let mut sums: BTreeMap<String, [f64; 3]> = BTreeMap::new();
    for thread in &truth.threads {
        let position = view.thread(thread.tid, &thread.name);
        let row = view.row(position);
        let wait =
            |s: &&SampleRow| s.thread == row.thread && s.weight_ns > 0 && s.state == state::BLOCKED;
        let waits: Vec<&SampleRow> = view.tables().samples.iter().filter(wait).collect();
        for site in &thread.sites {
            let at_site = |s: &&&SampleRow| {
                let stack = view.stack(s.stack);
                stack.is_some_and(|stack| view.contains(stack, &site.function))
            };
            let share = waits.iter().filter(at_site).count() as f64 / waits.len().max(1) as f64;
            let sum = sums.entry(site.function.clone()).or_default();
            sum[0] += site.blocked_ns as f64;
            sum[1] += view.times_in(position, &site.function).blocked() as f64;
            sum[2] += share * row.blocked_ns as f64;
        }
        for burn in truth.burns.iter().filter(|b| b.tid == thread.tid) {
            let estimate = view.times_in(position, &burn.function).running() as f64;
            let sum = sums.entry(burn.function.clone()).or_default();
            sum[0] += burn.cpu_ns as f64;
            sum[1] += estimate;
            sum[2] += estimate;
        }
    }
    sums
}

/// Fails for a function whose mean error is not explained by chance, and when chance could explain
/// too much. True when counting stacks would have failed.
#[track_caller]
fn check_unbiased(all: &BTreeMap<String, Errors>, sharp: f64) -> bool {
    let mut counting_fails = false;
    let mut biased = Vec::new();
    for (function, errors) in all {
        let truth = errors.truth / errors.estimate.len() as f64;
        let (error, deviation) = mean(&errors.estimate);
        let (naive, naive_deviation) = mean(&errors.naive);
        println!(
            "{function:<18} {:8.1} ms: {:+6.2} % ± {:.2} % ({:+.1} standard errors); by counting {:+6.2} % ({:+.1})",
            truth / 1e6,
            100.0 * error / truth,
            100.0 * deviation / truth,
            error / deviation,
            100.0 * naive / truth,
            naive / naive_deviation,
        );
        // What the program's clocks cannot tell of a wait (see truth.h): they are read around each.
        let clocks = 0.01 * truth;
        if error.abs() > LIMIT * deviation + clocks {
            biased.push(function);
        }
        assert!(
            deviation <= sharp * truth,
            "{function}: the errors are too far apart to tell"
        );
        counting_fails |= naive.abs() > LIMIT * naive_deviation + clocks;
    }
    assert!(biased.is_empty(), "biased: {biased:?}");
    counting_fails
}

/// Over many runs the errors of every call site's estimate average out. There are about 150 stacks
/// in a run, for thousands of waits.
#[test]
#[ignore = "needs root"]
fn estimates_of_waits_are_unbiased() {
    // What the other takes of the processors is no wait.
    let all = errors(1..25, 2, &["-F", "49"], |function| {
        function.starts_with("wait_")
    });
    assert_eq!(all.len(), 5);
    check_unbiased(&all, 0.15);
}

/// The same with more stacks, and on the processor too: stays of 80 µs, and of 20 µs and 10 ms,
/// between thousands of waits.
#[track_caller]
fn check_running_time(clock: &str) {
    let all = errors(101..117, 1, &["-F", "199", "--clock", clock], |_| true);
    assert_eq!(all.len(), 7);
    let counting_fails = check_unbiased(&all, 0.25);
    assert!(counting_fails, "it would not see a bias if there were one");
}

#[test]
#[ignore = "needs root"]
fn estimates_of_running_time_are_unbiased() {
    check_running_time("tick");
}

/// Processes that run for a twentieth of a period: hardly any has a stack of its own, and what they do is told by those
/// that have one.
#[test]
#[ignore = "needs root"]
fn what_many_short_processes_do_is_told() {
    let scratch = Scratch::on_disk();
    let recorded = launch(&scratch, &[], "forkstorm", &["6", "4"]);
    let told: Value = serde_json::from_str(&recorded.stdout).expect("JSON");
    let worked = told["born"].as_f64().expect("a number") * 500e3;
    let view = View::of(&recorded.tables);
    assert_closed(&view);
    let entries = view.analysis.profile.entries.iter();
    let running: Vec<_> = entries.filter(|e| e.state == State::Running).collect();
    let of = |wanted: &dyn Fn(StackRef) -> bool| -> u64 {
        let wanted = running.iter().filter(|e| wanted(e.stack));
        wanted.map(|e| e.weight_ns).sum()
    };
    let all = of(&|_| true);
    let not_sampled = of(&|s| s == StackRef::Missing(Missing::NotSampled));
    let found = of(&|s| view.contains(s, "work_in_child"));
    println!("{found} ns of {worked} ns; {not_sampled} of {all} ns not sampled");
    assert!(not_sampled < all / 50);
    // Some 500 stacks or more, so chance makes 4 % of it.
    let ratio = found as f64 / worked;
    assert!((0.8..1.2).contains(&ratio), "{ratio}");
}

#[test]
#[ignore = "needs root"]
fn estimates_of_running_time_by_our_own_timer_are_unbiased() {
    check_running_time("timer");
}

// ---- loss ----

/// Rows of a recording that were made of one record each, by the kind of record.
struct Rows {
    waits: u64,
    running: u64,
    forks: u64,
    execs: u64,
    renames: u64,
}

impl Rows {
    fn of(view: &View<'_>) -> Rows {
        let tables = view.tables();
        let events = |kind: &str| tables.events.iter().filter(|e| e.kind == kind).count() as u64;
        // Waits in progress at the end are written without a record of their own: they end with the
        // thread's sums.
        let closing = tables.slices.iter().filter(|s| {
            let row = view.analysis.index.thread(s.thread).map(|t| view.row(t));
            row.is_some_and(|row| {
                !row.ended && s.start_ns + s.blocked_ns + s.runnable_ns == row.until_ns
            })
        });
        Rows {
            waits: tables.slices.len() as u64 - closing.count() as u64,
            running: tables
                .samples
                .iter()
                .filter(|s| s.state == state::RUNNING)
                .count() as u64,
            forks: events("fork"),
            execs: events("exec"),
            renames: events("rename"),
        }
    }
}

/// Records of a kind that arrived.
fn arrived(view: &View<'_>, kind: &str) -> u64 {
    let meta = &view.tables().meta;
    meta.produced[kind] - meta.losses[kind]
}

/// Every record that arrived is in a table, or is one of a thread whose birth was lost.
#[track_caller]
fn check_counts(view: &View<'_>) {
    let rows = Rows::of(view);
    let orphans = view.tables().meta.losses["records_without_thread"];
    let mut missing = 0;
    for (kind, rows) in [
        ("waits", rows.waits),
        ("running_stacks", rows.running),
        ("renames", rows.renames),
    ] {
        let arrived = arrived(view, kind);
        assert!(rows <= arrived, "{kind}: {rows} rows of {arrived} records");
        missing += arrived - rows;
    }
    assert!(
        missing <= orphans,
        "{missing} records are in no table, {orphans} are counted"
    );
    for (kind, rows) in [("forks", rows.forks), ("execs", rows.execs)] {
        assert_eq!(rows, arrived(view, kind), "{kind}");
    }
}

const STORM: [&str; 4] = ["--storm", "100000", "--hogs", "0"];

#[test]
#[ignore = "needs root"]
fn the_usual_buffer_loses_nothing_at_a_hundred_thousand_switches_a_second() {
    let scratch = Scratch::on_disk();
    let json = scratch.file("truth.json");
    let own = [
        &STORM[..],
        &[
            "--kinds",
            "storm,nanosleep",
            "--duration",
            "2",
            "--json",
            &json,
        ],
    ]
    .concat();
    let recorded = launch(&scratch, &[], "waits", &own);
    let view = View::of(&recorded.tables);
    let truth = Truth::read(&json);
    let losses = &recorded.tables.meta.losses;
    println!(
        "{:.0} switches/s: {losses:?} of {:?}",
        truth.switches_per_s, recorded.tables.meta.produced
    );
    for (name, lost) in losses {
        let most = match name.as_str() {
            // Of a thread that ends, the last wait's stack may not come any more.
            "wait_stacks_missing" => recorded.tables.threads.len() as u64,
            // A kernel that shields some of its threads from eBPF shows no switch from them.
            "stacks_of_unseen_switches" => 1000,
            "wakers_of_unseen_wakings" => 100,
            _ => 0,
        };
        assert!(*lost <= most, "{lost} {name}");
    }
    assert_closed(&view);
    check_counts(&view);
    let rows = Rows::of(&view);
    assert_eq!(rows.waits, recorded.tables.meta.produced["waits"]);
    assert_eq!(
        rows.running,
        recorded.tables.meta.produced["running_stacks"]
    );
}

/// The smallest buffer there is, and a recorder that is held up nearly all of the time: more than
/// ten times what the buffer takes. For `time` only, or to the end.
fn overload(scratch: &Scratch, name: &str, args: &[&str], time: Duration) -> String {
    let path = scratch.file("x.dwell");
    let mut command = dwell(&[
        "record", "-q", "-F", "999", "--buffer", "4", "-o", &path, "--",
    ]);
    let mut recorder = Running::start(command.arg(program(name)).args(args));
    // It writes its first file when it is attached. (The kernel gives up loading programs for somebody
    // who is stopped again and again.)
    while !Path::new(&path).join("meta.json").exists() && !recorder.ended() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let begun = Instant::now();
    while begun.elapsed() < time && !recorder.ended() {
        recorder.signal(libc::SIGSTOP);
        let pause = time.saturating_sub(begun.elapsed());
        std::thread::sleep(pause.min(Duration::from_millis(385)));
        recorder.signal(libc::SIGCONT);
        std::thread::sleep(Duration::from_millis(15));
    }
    recorder.end();
    path
}

/// What is said of a recording with losses.
#[track_caller]
fn check_told(path: &str, view: &View<'_>) {
    let text = dwell(&["report", path]).output().expect("dwell runs");
    let text = String::from_utf8(text.stdout).expect("text");
    let json = dwell(&["report", path, "--json"])
        .output()
        .expect("dwell runs");
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert!(!text.contains("Nothing was lost"), "{text}");
    let told = json["losses"]["events"].as_array().expect("a list");
    for (name, lost) in view
        .tables()
        .meta
        .losses
        .iter()
        .filter(|(_, lost)| **lost > 0)
    {
        let words = name.replace('_', " ");
        let line = text
            .lines()
            .any(|l| l.contains("Lost:") && l.trim_end().ends_with(&words));
        assert!(line, "{lost} {name} are not told: {text}");
        let of = told.iter().find(|e| e["name"] == name.as_str());
        assert_eq!(
            of.and_then(|e| e["lost"].as_u64()),
            Some(*lost),
            "{name}: {told:?}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn what_a_small_buffer_loses_is_counted_and_the_sums_stay_exact() {
    let scratch = Scratch::on_disk();
    let json = scratch.file("truth.json");
    let folder = scratch.file("");
    let own = [
        &STORM[..],
        &["--duration", "8", "--dir", &folder, "--json", &json],
    ]
    .concat();
    // The end, where the last sums come, is an overload only because the buffer is small.
    let path = overload(&scratch, "waits", &own, Duration::from_millis(7900));
    let tables = load(&path);
    let view = View::of(&tables);
    let (produced, losses) = (&tables.meta.produced, &tables.meta.losses);
    println!("produced {produced:?}\nlost {losses:?}");
    assert!(
        produced["waits"] >= 10 * arrived(&view, "waits"),
        "{} of {} waits were lost: no overload",
        losses["waits"],
        produced["waits"]
    );
    check_counts(&view);
    assert_closed(&view);
    check_told(&path, &view);
    // Sums are kept in the kernel: who was reported at all at its end has lost nothing of them.
    let truth = Truth::read(&json);
    let ended = tables.threads.iter().filter(|row| row.ended);
    let (mut checked, mut wrong) = (0, Vec::new());
    for row in ended {
        let Some(thread) = truth.threads.iter().find(|t| t.tid == row.tid) else {
            continue;
        };
        checked += 1;
        assert!(row.until_ns >= thread.end_ns + boottime_ahead_ns());
        let exact = near(row.runnable_ns, thread.run_delay_ns, 0.01, 2 * MS)
            && near(row.running_ns, thread.schedstat_run_ns, 0.02, 5 * MS);
        if !exact {
            wrong.push((row, thread));
        }
    }
    println!("{checked} threads have their final sums");
    assert!(checked >= 1, "of {} threads", truth.threads.len());
    // One or other may have stood still with its processor (see `wrong_every_time`).
    assert!(wrong.len() * 5 <= checked, "{wrong:#?}");
}

#[test]
#[ignore = "needs root"]
fn a_storm_of_processes_and_a_small_buffer() {
    let scratch = Scratch::on_disk();
    let path = overload(&scratch, "forkstorm", &["2", "8"], Duration::from_secs(60));
    let tables = load(&path);
    let view = View::of(&tables);
    println!(
        "produced {:?}\nlost {:?}",
        tables.meta.produced, tables.meta.losses
    );
    let lost: u64 = tables.meta.losses.values().sum();
    let produced: u64 = tables.meta.produced.values().sum();
    assert!(lost * 2 >= produced, "{lost} of {produced}: no overload");
    check_counts(&view);
    assert_closed(&view);
    check_told(&path, &view);
}

/// A stack belongs to the wait it was taken for, also when others on the way were lost: the kernel's
/// frames come with the wait, the program's later, and they must fit.
#[test]
#[ignore = "needs root"]
fn stacks_are_not_mixed_up_when_some_are_lost() {
    let scratch = Scratch::on_disk();
    let json = scratch.file("truth.json");
    let own = [
        "--duration",
        "2",
        "--rate",
        "1000",
        "--hogs",
        "0",
        "--json",
        &json,
    ];
    let kinds = ["--kinds", "mutex,flock,condvar,pipe,poll"];
    let options = ["-F", "2000", "--buffer", "4"];
    let recorded = launch(&scratch, &options, "waits", &[&own[..], &kinds].concat());
    let view = View::of(&recorded.tables);
    let losses = &recorded.tables.meta.losses;
    println!("{losses:?}");
    assert!(
        losses["wait_stacks"] > 0,
        "nothing was lost, nothing is shown"
    );
    let mut mixed = BTreeMap::new();
    let (mut checked, mut wrong) = (0, 0);
    for sample in &recorded.tables.samples {
        let Some(stack) = view.stack(sample.stack) else {
            continue;
        };
        // One whose program part never came says so, and shows none.
        let of_kernel = |row: &StackRow| matches!(&*row.end, "no_user_stack" | "not_taken");
        if view
            .analysis
            .index
            .stack(sample.stack)
            .is_some_and(|at| of_kernel(&view.tables().stacks[at]))
        {
            continue;
        }
        // The wrapper in libc, and the kernel's function of the same call.
        for (call, wrapper) in [
            ("__x64_sys_clock_nanosleep", "nanosleep"),
            ("__x64_sys_flock", "flock"),
        ] {
            let names: Vec<&str> = view.functions(stack).collect();
            let Some(at) = names.iter().position(|n| *n == call) else {
                continue;
            };
            if names[0].contains("not_taken") {
                continue; // its user part was lost, and it says so
            }
            checked += 1;
            if !names[..at]
                .iter()
                .any(|n| !n.starts_with("__x64_sys_") && n.contains(wrapper))
            {
                wrong += 1;
                mixed.insert(call, names.join(";"));
            }
        }
    }
    println!("{checked} stacks checked");
    assert!(checked > 100);
    assert!(wrong == 0, "{wrong} of {checked} stacks: {mixed:#?}");
}

/// Two hundred threads have some 60 000 waits a second, each long enough to be kept one by one. So many
/// are not, and nothing is lost; the sums have all, and samples tell the two kinds apart.
#[test]
#[ignore = "needs root"]
fn more_long_waits_than_can_be_kept_are_in_the_sums_and_weighed_by_samples() {
    let scratch = Scratch::on_disk();
    let recorded = launch(&scratch, &[], "manythreads", &["waits", "200", "4"]);
    let line = recorded.stdout.lines().next().expect("a line");
    let truth: Value = serde_json::from_str(line).expect("JSON");
    let truth = |name: &str| truth[name].as_u64().expect("a number");
    let tables = &recorded.tables;
    let view = View::of(tables);
    assert_closed(&view);
    let meta = &tables.meta;
    println!("{:?}; {} slices", meta.recorder, tables.slices.len());
    assert!(meta.recorder.waits_passed_over > truth("short") / 4);
    for kind in ["waits", "wait_stacks", "waker_stacks", "site_sums"] {
        assert_eq!(meta.losses[kind], 0, "{kind}");
    }
    for name in ["short", "long"] {
        let function = format!("wait_{name}");
        let times = (0..tables.threads.len()).map(|thread| view.times_in(thread, &function));
        let told: u64 = times.map(|times| times.total()).sum();
        let taken = truth(&format!("{name}_ns"));
        println!("{function}: {told} ns of {taken}");
        assert!(near(told, taken, 0.03, 0), "{function}");
    }
}
