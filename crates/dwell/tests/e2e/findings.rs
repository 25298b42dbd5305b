//! `dwell findings`: programs with a bad habit are told which one, with their own numbers; their healthy twins are told
//! nothing; what a finding predicts comes true.

use crate::common::*;
use crate::told::*;
use dwell_findings::{Finding, Severity, rules};
use serde_json::Value;

#[test]
#[ignore = "needs root and the test programs"]
fn healthy_twins_are_told_nothing() {
    for rule in rules::ALL {
        let told = habits(&[rule.name, "healthy", "--seconds", "1.2"]);
        assert_eq!(told.findings, [], "{}", rule.name);
    }
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_spin_convoy_is_named_and_its_remedy_saves_what_was_predicted() {
    let told = habits(&["spin-convoy", "sick", "--seconds", "4"]);
    let finding = told.only("spin-convoy", Severity::High);
    has_function(finding, "lock_queue");
    // The instruction that takes a free lock waits for its memory, and samples do not tell it from the loop around it: what
    // spins is more than the time that the lock was found taken, and less than all until it was had. Nor can the program
    // tell these cycles from those that it had no processor in.
    let truth = &told.truth;
    let lives = (number(truth, "wall_ns") * number(truth, "threads")) as f64;
    let away = 1.0 - number(truth, "cpu_ns") as f64 / lives;
    let of_all = |name: &str| number(truth, name) as f64 / number(truth, "cycles") as f64;
    let [taken, all] = [of_all("waited"), of_all("acquiring")];
    let share = evidence(finding, "of these threads' CPU time");
    println!("found taken {taken:.3}, until had {all:.3}, told {share:.3}, away {away:.3}");
    assert!(
        share > 0.8 * taken - away && share < 1.2 * all + away,
        "{share} of {taken} to {all}, away {away}"
    );
    let batch = evidence(finding, "units per acquisition that end it").to_string();
    let then = habits(&["spin-convoy", "sick", "--batch", &batch]);
    let saved = 1.0 - then.cpu_of_unit() / told.cpu_of_unit();
    let effect = &finding.effect;
    println!("predicted {} to {}, saved {saved}", effect.low, effect.high);
    assert!(
        saved > effect.low && saved < effect.high + 0.1,
        "{effect:?}: {saved}"
    );
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_lock_held_while_its_owner_sleeps_is_named() {
    let told = habits(&["lock-held-while-asleep", "sick"]);
    let finding = told.only("lock-held-while-asleep", Severity::High);
    has_function(finding, "lock_timed");
    let waited = evidence(finding, "waiting for the lock");
    let truth = number(&told.truth, "waited");
    // What threads wait for a processor after the lock is in the program's numbers only.
    assert!(
        waited <= 1.02 * truth as f64 && waited >= 0.8 * truth as f64,
        "{waited} of {truth}"
    );
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_lock_that_serialises_a_pool_is_named() {
    let told = habits(&["lock-serialises-pool", "sick"]);
    let finding = told.only("lock-serialises-pool", Severity::Medium);
    has_function(finding, "lock_timed");
    assert_eq!(
        evidence(finding, "threads"),
        number(&told.truth, "threads") as f64
    );
    let waited = evidence(finding, "waiting for the lock");
    let truth = number(&told.truth, "waited") as f64;
    assert!(
        waited <= 1.02 * truth && waited >= 0.6 * truth,
        "{waited} of {truth}"
    );
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_pool_larger_than_the_machine_is_named() {
    let told = habits(&["more-threads-than-processors", "sick"]);
    let cpus = std::thread::available_parallelism()
        .expect("a number")
        .get() as u64;
    let had = number(&told.truth, "cpu_ns") as f64 / (number(&told.truth, "wall_ns") * cpus) as f64;
    if had < 0.8 && told.findings.is_empty() {
        // Others had the processors: then nothing is to be said.
        return;
    }
    let finding = told.only("more-threads-than-processors", Severity::Medium);
    has_function(finding, "compute");
    assert_eq!(
        evidence(finding, "threads"),
        number(&told.truth, "threads") as f64
    );
    let queued = evidence(finding, "waiting for a processor");
    let lives = number(&told.truth, "wall_ns") * number(&told.truth, "threads");
    let off = (lives - number(&told.truth, "cpu_ns")) as f64;
    assert!(queued <= 1.02 * off, "{queued} of {off}");
}

#[test]
#[ignore = "needs root and the test programs"]
fn polling_by_sleeping_is_named() {
    let told = habits(&["polling-by-sleeping", "sick"]);
    let finding = told.only("polling-by-sleeping", Severity::Low);
    has_function(finding, "look_for_work");
    let sleeps = evidence(finding, "sleeps");
    let truth = number(&told.truth, "units") as f64;
    assert!((sleeps - truth).abs() <= 3.0, "{sleeps} of {truth}");
}

#[test]
#[ignore = "needs root and the test programs"]
fn the_exit_code_tells_what_was_found() {
    let scratch = Scratch::new();
    let recorded = launch(&scratch, &[], "habits", &["polling-by-sleeping", "sick"]);
    let code = |args: &[&str]| {
        let args = [&["findings", &recorded.path], args].concat();
        let output = dwell(&args).output().expect("dwell runs");
        let text = String::from_utf8(output.stdout).expect("text");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        (output.status.code(), text)
    };
    let (exit, text) = code(&[]);
    assert_eq!(exit, Some(0));
    assert!(text.contains("(polling-by-sleeping)"), "{text}");
    assert_eq!(code(&["--fail-on", "low"]).0, Some(1));
    assert_eq!(code(&["--fail-on", "high"]).0, Some(0));
    assert_eq!(
        code(&["--fail-on", "low", "--rule", "spin-convoy"]).0,
        Some(0)
    );
    assert_eq!(code(&["--rule", "no-such-rule"]).0, Some(1));
    let report = dwell(&["report", &recorded.path])
        .output()
        .expect("dwell runs");
    let report = String::from_utf8(report.stdout).expect("text");
    let [found, times] = ["Findings", "Hottest on CPU"].map(|h| report.find(h));
    assert!(found.is_some() && found < times, "{report}");
}

/// Programs of a distribution that do what they are for, as a shell runs them; $D is a folder for what they write.
const HEALTHY: &[(&str, &str)] = &[
    ("ls", "ls -R /usr/lib /usr/share"),
    ("find", "find / -xdev -name '*.so*'"),
    ("grep", "grep -r pthread /usr/include"),
    ("sort", "seq 400000 | sort -R | sort -n"),
    ("gzip", "head -c 30000000 /dev/urandom | gzip -6"),
    ("xz", "head -c 3000000 /dev/urandom | xz -3"),
    ("zstd", "head -c 30000000 /dev/urandom | zstd -q"),
    (
        "python3",
        "python3 -c 'print(sum(i * i % 7 for i in range(6000000)))'",
    ),
    ("perl", "perl -e '$s += $_ % 7 for 1 .. 8000000; print $s'"),
    (
        "git",
        "cd $D && git init -q . && seq 300000 > f && git add f && git -c user.name=x -c user.email=x@x commit -qm x && git log --stat",
    ),
    (
        "sqlite3",
        "sqlite3 :memory: 'with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000) select sum(i * i % 7) from n'",
    ),
    ("openssl", "openssl speed -seconds 1 sha256"),
    (
        "make",
        "printf 'all: a b c\\na b c:\\n\\t@seq 200000 | md5sum\\n' | make -f - all",
    ),
    (
        "gcc",
        "printf '#include <stdio.h>\\n#include <stdlib.h>\\nint main(void){return 0;}' | gcc -O2 -x c - -o $D/a",
    ),
    (
        "g++",
        "printf '#include <regex>\\n#include <map>\\nint main(){std::regex r(\"a+\");}' | g++ -O2 -x c++ - -o $D/b",
    ),
    ("tar", "tar cf - /usr/include | cat"),
    ("sed", "seq 500000 | sed 's/1/one/g;s/2/two/g'"),
    ("awk", "seq 800000 | awk '{s += $1 % 7} END {print s}'"),
    (
        "bash",
        "bash -c 'for ((i = 0; i < 300000; i++)); do ((s += i % 7)); done; echo $s'",
    ),
    ("dd", "dd if=/dev/zero of=/dev/null bs=64k count=40000"),
    ("md5sum", "md5sum /usr/lib/x86_64-linux-gnu/*.so*"),
    ("sha256sum", "head -c 100000000 /dev/zero | sha256sum"),
    ("bzip2", "head -c 3000000 /dev/urandom | bzip2"),
    (
        "diff",
        "seq 200000 > $D/x; seq 7 200007 > $D/y; diff $D/x $D/y",
    ),
    ("cp", "cp -r /usr/include $D/copy"),
    ("sleep", "sleep 1"),
    (
        "redis-server",
        "timeout 1.5 redis-server --port 0 --save ''",
    ),
    ("curl", "curl -s file:///etc/passwd"),
];

fn is_here(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

/// What is found in a script, recorded with these options.
fn findings_of(script: &str, options: &[&str]) -> Vec<Finding> {
    let scratch = Scratch::new();
    let path = scratch.file("x.dwell");
    let script = format!(
        "D={}; ({script}) > /dev/null 2>&1; true",
        scratch.path().display()
    );
    let mut record = dwell(&["record", "-q", "-o", &path]);
    let status = record
        .args(options)
        .args(["--", "sh", "-c", &script])
        .status();
    assert!(status.expect("dwell runs").success(), "{script}");
    let output = dwell(&["findings", "--json", &path])
        .output()
        .expect("dwell runs");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    serde_json::from_value(answer["findings"].clone()).expect("findings")
}

fn assert_no_false_alarms(options: &[&str]) {
    let mut recorded = 0;
    let mut alarms = Vec::new();
    for (name, script) in HEALTHY.iter().filter(|(name, _)| is_here(name)) {
        recorded += 1;
        let findings = findings_of(script, options);
        let titles: Vec<&str> = findings.iter().map(|f| f.title.as_str()).collect();
        println!("{name} {options:?}: {titles:?}");
        let found = findings.into_iter().filter(|f| f.severity > Severity::Low);
        alarms.extend(found.map(|f| (name, f)));
    }
    assert!(recorded >= 20, "{recorded} programs are installed");
    assert!(alarms.is_empty(), "{alarms:#?}");
}

#[test]
#[ignore = "needs root"]
fn healthy_programs_are_told_nothing_that_is_worth_changing() {
    assert_no_false_alarms(&[]);
}

/// All rules have what they need.
#[test]
#[ignore = "needs root"]
fn nor_with_locks_and_memory_recorded() {
    assert_no_false_alarms(&["--locks", "--memory"]);
}
