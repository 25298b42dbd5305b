//! What only other kernels allow: tracing functions of the kernel, in a virtual machine with a
//! distribution's kernel (tests/vm), where a program makes a known number of calls. And the refusal of
//! a kernel that does not allow it.

use crate::shared::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Calls that setfl makes in the scenarios.
const CALLS: u64 = 5000;

/// What is booted.
struct Machine {
    kernel: PathBuf,
    initramfs: PathBuf,
}

fn script(name: &str) -> Command {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vm");
    Command::new(folder.join(name))
}

/// Output of a script that must succeed.
fn output(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {stderr}\n{stdout}");
    stdout.into_owned()
}

impl Machine {
    /// The kernel fetched, everything packed: once for all tests.
    fn get() -> &'static Machine {
        static MACHINE: OnceLock<Machine> = OnceLock::new();
        MACHINE.get_or_init(|| {
            let kernels = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernels");
            let kernel = output(script("kernel.sh").arg(kernels));
            let initramfs = Scratch::until_exit().join("initramfs");
            let mut pack = script("initramfs.sh");
            pack.arg(&initramfs).arg(env!("CARGO_BIN_EXE_dwell"));
            output(pack.arg(program("setfl")));
            Machine {
                kernel: PathBuf::from(kernel.trim_end()),
                initramfs,
            }
        })
    }

    /// Runs a scenario; what it printed, by part (`== NAME`).
    fn run(&self, scenario: &str, mode: &str) -> BTreeMap<String, String> {
        let mut boot = script("boot.sh");
        boot.arg(&self.kernel).arg(&self.initramfs);
        let printed = output(boot.args([scenario, mode]));
        let mut parts: BTreeMap<String, String> = BTreeMap::new();
        let mut name = String::new();
        for line in printed.lines() {
            match line.strip_prefix("== ") {
                Some(next) => name = next.to_owned(),
                None => parts.entry(name.clone()).or_default().extend([line, "\n"]),
            }
        }
        parts
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn function<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let functions = answer["functions"].as_array().expect("a list");
    let found = functions.iter().find(|f| f["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {answer:#}"))
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("no number: {value}"))
}

fn sum<'a>(list: &'a Value, number_of: impl Fn(&'a Value) -> u64) -> u64 {
    list.as_array().expect("a list").iter().map(number_of).sum()
}

/// Calls of a function by `caller`, or by what it calls at once: an interrupt of it comes with more frames.
fn called_by(function: &Value, caller: &str) -> u64 {
    sum(&function["callers"], |place| {
        let frames = place["frames"].as_array().expect("a list");
        let is_caller = frames.iter().take(3).any(|f| f == caller);
        if is_caller {
            number(&place["calls"])
        } else {
            0
        }
    })
}

#[test]
#[ignore = "needs root"]
fn calls_of_kernel_functions_are_counted_exactly() {
    let parts = Machine::get().run("functions", "one");
    let said = json(&parts["said"]);
    assert_eq!(said["calls"], CALLS);
    let answer = json(&parts["counted"]);

    let fcntl = function(&answer, "__x64_sys_fcntl");
    assert_eq!(
        (&fcntl["calls"], &fcntl["timed"]),
        (&CALLS.into(), &CALLS.into())
    );
    assert_eq!(sum(&fcntl["callers"], |c| number(&c["calls"])), CALLS);
    assert_eq!(called_by(fcntl, "do_syscall_64"), CALLS);
    assert_eq!(sum(&fcntl["histogram"], |b| number(&b["calls"])), CALLS);
    // The program's own time has them all.
    let (total, mean) = (number(&fcntl["total_ns"]), number(&fcntl["mean_ns"]));
    assert!(total < number(&said["ns"]), "{total} ns of {said}");
    assert_eq!(mean, total / CALLS);
    assert!(mean > 0 && number(&fcntl["max_ns"]) >= mean);
    assert_eq!(fcntl["losses"]["missed"], 0);

    // A spin lock inside each of them; other locks have other callers.
    let lock = function(&answer, "_raw_spin_lock");
    assert_eq!(called_by(lock, "__x64_sys_fcntl"), CALLS);
    assert!(number(&lock["calls"]) >= CALLS);
    // Our own programs take spin locks: these are told apart.
    assert!(number(&lock["losses"]["own"]) > 0);

    let page = &parts["page"];
    assert!(
        page.contains("__x64_sys_fcntl") && page.contains("do_syscall_64"),
        "{page}"
    );
    assert!(page.lines().all(|l| l.chars().count() <= 80), "{page}");

    for (name, told) in [
        ("sched_clock", "notrace"),
        ("__x64_sys_fcntx", "did you mean __x64_sys_fcntl"),
        ("vmlinux_has_no_such", "no function"),
    ] {
        let refusal = &parts[&format!("refused {name}")];
        assert!(
            refusal.contains(name) && refusal.contains(told),
            "{refusal}"
        );
    }

    let checks = json(&parts["doctor"]);
    let mut checks = checks.as_array().expect("a list").iter();
    let check = checks.find(|c| c["check"] == "kernel functions");
    assert_eq!(check.expect("a check")["verdict"], "ok");
}

/// Recording itself on an older kernel: one that tells of no end of a switch.
#[test]
#[ignore = "needs root"]
fn an_older_kernel_is_recorded() {
    let parts = Machine::get().run("record", "one");
    let (_, said) = parts["said"].trim_end().rsplit_once('\n').expect("lines");
    let said = number(&json(said)["ns"]);
    let answer = json(&parts["answer"]);
    assert_eq!(answer["recording"]["exit_code"], 0);
    assert!(answer["closure"]["max_error_share"].as_f64() < Some(0.001));
    assert_eq!(
        answer["losses"]["nothing_lost"], true,
        "{}",
        answer["losses"]
    );
    let total = &answer["total"];
    let [running, runnable] = ["running_ns", "runnable_ns"].map(|n| number(&total[n]));
    assert!(running + runnable >= said, "{said}: {total}");
    // setfl rests for 250 ms before its calls.
    let asleep = number(&total["blocked_by_reason_ns"]["sleep"]);
    assert!((250_000_000..300_000_000).contains(&asleep), "{total}");
    let hottest = answer["on_cpu"][0]["frames"].as_array().expect("a list");
    assert!(
        hottest.iter().any(|f| f["function"] == "fcntl"),
        "{hottest:?}"
    );
    let sleeping = answer["off_cpu"][0]["frames"].as_array().expect("a list");
    assert!(
        sleeping
            .iter()
            .any(|f| f["function"] == "__libc_start_main"),
        "{sleeping:?}"
    );
}

/// Least time of a call of fcntl in the runs of a part, ns: on a machine that counts, instructions.
fn cost(runs: &str) -> f64 {
    let per_call = |line: &str| {
        let run = json(line);
        number(&run["ns"]) as f64 / number(&run["calls"]) as f64
    };
    runs.lines().map(per_call).fold(f64::INFINITY, f64::min)
}

/// Sum of a number over the functions whose names contain `part`.
fn operations(answer: &Value, part: &str, what: &str) -> u64 {
    sum(&answer["functions"], |f| {
        let name = f["name"].as_str().expect("text");
        if name.contains(part) {
            number(&f[what])
        } else {
            0
        }
    })
}

/// What the filter costs an acquisition and its release, and that totals are exact.
#[test]
#[ignore = "needs root"]
fn spin_locks_are_counted_at_a_known_cost() {
    let parts = Machine::get().run("spin", "counting");
    let answers = ["filtered counts", "unfiltered counts", "own counts"];
    let [filtered, unfiltered, own] = answers.map(|part| json(&parts[part]));
    let runs = ["bare", "filtered", "unfiltered", "after"];
    let [bare, with_filter, with_all, after] = runs.map(|part| cost(&parts[part]));

    // The process' own operations: those of its calls, and few of interrupts.
    let calls: u64 = parts["own"]
        .lines()
        .map(|l| number(&json(l)["calls"]))
        .sum();
    for (what, lock) in [
        ("acquired", "_raw_spin_lock"),
        ("released", "_raw_spin_unlock"),
    ] {
        let most = calls + calls / 20;
        assert!(
            (calls..most).contains(&number(&own[what])),
            "{calls} calls: {own:#}"
        );
        assert!(operations(&own, lock, "operations") >= calls, "{own:#}");
    }
    // Of the system's: as many releases as acquisitions, but for those in between at the ends.
    let [acquired, released] = ["acquired", "released"].map(|n| number(&filtered[n]));
    let missed = number(&filtered["losses"]["missed"]);
    assert!(
        acquired.abs_diff(released) <= missed + acquired / 100,
        "{filtered:#}"
    );
    assert!(acquired > calls);
    // One processor: nobody can be waited for. Unfiltered, everything is kept.
    for answer in [&filtered, &unfiltered, &own] {
        assert_eq!(
            (&answer["contended"], &answer["awaited"]),
            (&0.into(), &0.into()),
            "{answer:#}"
        );
    }
    // (What is under way at either end is no whole pair.)
    let lasts = unfiltered["buffer_lasts_times"].as_f64().expect("a number");
    assert!((lasts - 1.0).abs() < 0.01, "{lasts}");
    assert!(filtered["buffer_lasts_times"].is_null());
    assert!(
        parts["page"].lines().all(|l| l.chars().count() <= 80),
        "{}",
        parts["page"]
    );

    told(&format!(
        "instructions per fcntl(F_SETFL), which acquires and releases one spin lock:\n  \
         bare {bare:.0}, filtered {with_filter:.0} (+{:.0}), every event kept {with_all:.0} (+{:.0}), \
         afterwards {after:.0}",
        with_filter - bare,
        with_all - bare
    ));
    assert!(
        (after / bare - 1.0).abs() < 0.01,
        "{bare} before, {after} afterwards"
    );
    let [filter, all] = [with_filter - bare, with_all - bare];
    assert!(
        filter > 50.0 && filter < 450.0,
        "the filter costs {filter} instructions"
    );
    assert!(filter < all, "{filter} with the filter, {all} without");
}

/// Contention is found where there is some, and nowhere else.
#[test]
#[ignore = "needs root"]
fn spin_locks_that_are_fought_for_are_told() {
    let parts = Machine::get().run("contended", "two");
    let at_fcntl = |answer: &Value, who: &str| {
        sum(&answer[who], |place| {
            let frames = place["frames"].as_array().expect("a list");
            let is_fcntl = frames.iter().take(3).any(|f| f == "__x64_sys_fcntl");
            if is_fcntl { number(&place["times"]) } else { 0 }
        })
    };
    for (part, fought_for) in [("apart", false), ("shared", true)] {
        let answer = json(&parts[&format!("{part} counts")]);
        let calls: u64 = parts[part].lines().map(|l| number(&json(l)["calls"])).sum();
        let missed = number(&answer["losses"]["missed"]);
        assert!(
            number(&answer["acquired"]) + missed >= calls,
            "{calls} calls: {answer:#}"
        );
        assert!(
            number(&answer["released"]) + missed >= calls,
            "{calls} calls: {answer:#}"
        );
        let [waiters, holders] = ["waiters", "holders"].map(|who| at_fcntl(&answer, who));
        let lasts = answer["buffer_lasts_times"]
            .as_f64()
            .unwrap_or(f64::INFINITY);
        told(&format!(
            "two processors, {calls} calls, locks {part}: {waiters} found the lock held, {holders} releases \
             were waited for; the buffer lasts {lasts:.0} times longer"
        ));
        assert_eq!(waiters > 0, fought_for, "{answer:#}");
        assert!(fought_for || holders == 0, "{answer:#}");
        // Somebody who waits long enough is seen by who releases.
        assert!(holders > 0 || waiters < 200, "{answer:#}");
        assert!(lasts > 2.0, "{answer:#}");
    }
}

/// Prints a measurement although the test passes.
fn told(text: &str) {
    let _ = writeln!(std::io::stdout(), "\n{text}");
}

/// Whatever this machine's kernel says, the doctor and the command agree about it.
#[test]
#[ignore = "needs root"]
fn a_kernel_without_it_is_told_of() {
    let checks = bare_dwell()
        .args(["doctor", "--json"])
        .output()
        .expect("dwell runs");
    let checks = json(&String::from_utf8_lossy(&checks.stdout));
    let mut checks = checks.as_array().expect("a list").iter();
    let check = checks
        .find(|c| c["check"] == "kernel functions")
        .expect("a check");
    let mut command = bare_dwell();
    let ran = command.args(["functions", "vfs_read", "--duration", "100ms"]);
    let ran = ran.output().expect("dwell runs");
    let told = String::from_utf8_lossy(&ran.stderr);
    match check["verdict"].as_str() {
        Some("ok") => assert!(ran.status.success(), "{told}"),
        Some("reduced") => {
            assert_eq!(ran.status.code(), Some(1));
            assert!(ran.stdout.is_empty());
            let remedy = check["remedy"].as_str().expect("text");
            assert!(told.contains("does not let functions be traced"), "{told}");
            assert!(!remedy.is_empty() && told.contains(remedy), "{told}");
            assert_eq!(told.matches("os error").count(), 1, "{told}");
        }
        other => panic!("{other:?}"),
    }
}
