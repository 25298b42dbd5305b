//! Java without options: stacks through code that a HotSpot JVM compiled and interprets are whole, and their methods, lines
//! and inlined methods are those that the JVM itself tells of them.

use crate::stacks_support::*;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

const FRAMES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/programs/Frames.java"
);

const REPLACED: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/programs/Replaced.java"
);

/// A method and where it stands, innermost first.
type Methods = Vec<(String, Option<u32>)>;

/// What the JVM says of its threads, by their names.
fn told_by_jvm(pid: u32) -> BTreeMap<String, Methods> {
    let output = Command::new("jcmd")
        .args([&pid.to_string(), "Thread.print"])
        .stderr(Stdio::inherit())
        .output()
        .expect("jcmd");
    let mut threads: BTreeMap<String, Methods> = BTreeMap::new();
    let mut current = None;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(rest) = line.strip_prefix('"') {
            current = rest.split('"').next().map(str::to_owned);
        } else if let (Some(thread), Some(frame)) =
            (&current, line.trim_start().strip_prefix("at "))
        {
            threads
                .entry(thread.clone())
                .or_default()
                .push(frame_of(frame));
        }
    }
    threads
}

/// `java.lang.Thread.run(java.base@17.0.15/Thread.java:840)`; names of hidden classes have an address.
fn frame_of(text: &str) -> (String, Option<u32>) {
    let (name, place) = text.split_once('(').expect("a place");
    let name = match name.split_once("/0x") {
        Some((class, rest)) => format!("{class}{}", &rest[rest.find('.').expect("a method")..]),
        None => name.to_owned(),
    };
    let line = place.trim_end_matches(')').rsplit(':').next();
    (name, line.and_then(|line| line.parse().ok()))
}

/// The Java methods of a stack that dwell took, innermost first.
fn methods_of(index: &Index<'_>, stack: u32) -> Methods {
    let frames = index.stack(stack).frames.iter().rev();
    let java = frames.filter(|frame| index.frame(**frame).kind == "jit");
    let symbols = java.flat_map(|frame| index.symbols(*frame));
    let methods = symbols.map(|symbol| (symbol.function.clone(), symbol.line));
    methods.filter(|(name, _)| !name.starts_with('[')).collect()
}

#[test]
#[ignore = "needs root"]
fn frames_of_waiting_threads_are_those_that_the_jvm_tells() {
    if !(installed("java") && installed("jcmd")) {
        return;
    }
    let (running, line) = Running::start_ready(Command::new("java").arg(FRAMES));
    assert_eq!(line, "ready\n");
    let recorded = attach(&[running.pid()], 1.0);
    let told = told_by_jvm(running.pid());
    let index = Index::of(&recorded.tables);
    let mut checked = 0;
    for thread in &recorded.tables.threads {
        let names = [
            "cold",
            "warm",
            "interface",
            "lambda",
            "deep",
            "monitor",
            "asleep",
        ];
        if !names.contains(&thread.name.as_str()) {
            continue;
        }
        let mut samples = recorded.tables.samples.iter();
        let sample = samples
            .find(|s| s.thread == thread.thread)
            .expect("a stack");
        assert_eq!(index.stack(sample.stack).end, "complete", "{}", thread.name);
        let (ours, theirs) = (methods_of(&index, sample.stack), &told[&thread.name]);
        assert_eq!(&ours, theirs, "{}", thread.name);
        checked += 1;
    }
    assert_eq!(checked, 7);
}

#[test]
#[ignore = "needs root"]
fn stacks_of_busy_threads_are_whole() {
    if !installed("java") {
        return;
    }
    let launched = launch(&["java", FRAMES, "3"]);
    check_busy("java", &launched);
    let running = Running::start(Command::new("java").args([FRAMES, "20"]));
    std::thread::sleep(std::time::Duration::from_secs(3));
    check_busy("java (attached)", &attach(&[running.pid()], 2.0));
    let pid = running.pid().to_string();
    let mut top = Command::new(env!("CARGO_BIN_EXE_dwell"));
    let shown = top.args(["top", "-p", &pid, "-n", "1"]).output();
    let shown = shown.expect("dwell top").stdout;
    let shown = String::from_utf8_lossy(&shown);
    assert!(shown.contains("Frames.mix"), "{shown}");
}

fn check_busy(what: &str, recorded: &Recorded) {
    check_complete(what, recorded);
    let index = Index::of(&recorded.tables);
    let (mut calls, mut mixes) = (0, 0);
    for (stack, weight) in index.weights() {
        let names = index.user_names(stack);
        if index.stack(stack).end != "complete" {
            continue;
        }
        let at = |name: &str| names.iter().position(|n| n == name);
        if let Some(call) = at("Frames.calls") {
            let caller = &names[call - 1];
            assert_eq!(caller, "Frames.compute", "{names:?}");
            let java = names[call..].iter().filter(|n| n.starts_with("Frames."));
            assert!(java.into_iter().all(|n| n == "Frames.calls"), "{names:?}");
            calls += weight;
        }
        if let Some(mixed) = at("Frames.mixes") {
            assert_eq!(names[mixed - 1], "Frames.compute", "{names:?}");
            mixes += weight;
        }
    }
    println!("{what}: calls {calls} ns, mixes {mixes} ns");
    assert!(
        calls > 300_000_000 && mixes > 300_000_000,
        "{calls}, {mixes}"
    );
}

/// Later code lies where earlier code lay: each stack has the name of what was there at its time.
#[test]
#[ignore = "needs root"]
fn code_that_replaces_other_code_has_its_own_name() {
    if !installed("java") {
        return;
    }
    let recorded = launch(&["java", REPLACED]);
    let index = Index::of(&recorded.tables);
    let (mut order, mut unnamed, mut named) = (Vec::new(), 0, 0);
    let running = recorded.tables.samples.iter();
    let mut running: Vec<_> = running.filter(|s| s.state == "running").collect();
    running.sort_by_key(|sample| sample.time_ns);
    for sample in running {
        let names = index.user_names(sample.stack);
        let Some(run) = names.iter().position(|name| name == "Replaced.run") else {
            continue;
        };
        match names.get(run + 1) {
            Some(name) if name.starts_with("[anon]") => unnamed += sample.weight_ns,
            Some(name) => {
                let Some(work) = work_of(name) else {
                    continue;
                };
                named += sample.weight_ns;
                if order.last() != Some(&work) {
                    order.push(work);
                }
            }
            None => {}
        }
    }
    println!("{named} ns, without a name {unnamed}");
    assert_eq!(order.concat(), "ABCD".repeat(4));
    assert!(unnamed < named / 4, "{unnamed} of {named}");
}

/// The letter of `Replaced$A.until`.
fn work_of(function: &str) -> Option<String> {
    let class = function.strip_suffix(".until")?;
    Some(class.strip_prefix("Replaced$")?.to_owned())
}
