//! `dwell import` as a person types it. (perf.data that perf has just written: `e2e/import.rs`.)

#[allow(dead_code, unused_imports)] // a part of what the end-to-end tests need
#[path = "e2e/shared/mod.rs"]
mod shared;

use dwell_analysis::names::StackRef;
use dwell_analysis::{Analysis, State};
use shared::*;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs dwell in a folder.
fn run(folder: &Path, args: &[&str], input: &str) -> Output {
    let mut command = bare_dwell();
    command.args(args).current_dir(folder);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("dwell runs");
    let mut stdin = child.stdin.take().expect("piped");
    // Who refuses does not read.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("its output")
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn folded_stacks_from_a_pipe_are_reported_and_exported() {
    let scratch = Scratch::new();
    let text = "main;work;sort 700\nmain;wait_[k] 300\n";
    let said = run(scratch.path(), &["import", "-", "-o", "x.dwell"], text);
    assert_eq!(
        succeeds(&said),
        "x.dwell: 2 stacks of 1 threads, from folded stacks\n"
    );
    let report = run(scratch.path(), &["report", "x.dwell"], "");
    let report = succeeds(&report);
    assert!(
        report.contains("sort") && report.contains("wait [k]"),
        "{report}"
    );
    let export = run(scratch.path(), &["export", "x.dwell", "--to", "folded"], "");
    assert!(succeeds(&export).contains("main;work;sort 700000000\n"));
    // What is there is not overwritten.
    let again = run(scratch.path(), &["import", "-", "-o", "x.dwell"], text);
    assert!(!again.status.success());
    assert_eq!(load(scratch.join("x.dwell")).samples.len(), 2);
}

#[test]
fn refusals_name_the_file_and_the_remedy() {
    let scratch = Scratch::new();
    fs::write(scratch.join("notes.txt"), "nothing of the kind\n").expect("writes");
    fs::write(scratch.join("half.txt"), "main;f 1\nmain;g\n").expect("writes");
    for (file, expected) in [
        ("notes.txt", "name the format with --from"),
        ("half.txt", "line 2: no number"),
        ("missing.data", "No such file"),
    ] {
        let output = run(scratch.path(), &["import", file], "");
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains(file) && stderr.contains(expected),
            "{stderr}"
        );
    }
    let left: Vec<_> = fs::read_dir(scratch.path()).expect("a folder").collect();
    assert_eq!(left.len(), 2, "a refusal leaves nothing behind: {left:?}");
}

/// What `runtime/pprof` wrote of a Go program that computed for 0.4 s.
const GO: &[u8] = include_bytes!("import_files/go-cpu.pb.gz");

#[test]
fn a_profile_that_go_wrote_has_the_times_that_pprof_prints() {
    if !installed("go") {
        return;
    }
    let scratch = Scratch::new();
    fs::write(scratch.join("cpu.pb.gz"), GO).expect("writes");
    succeeds(&run(scratch.path(), &["import", "cpu.pb.gz"], ""));

    // Lines: flat flat% sum% cum cum% name.
    let args = [
        "tool",
        "pprof",
        "-top",
        "-unit=ns",
        "-nodecount=100000",
        "cpu.pb.gz",
    ];
    let mut go = Command::new("go");
    let top = go.args(args).current_dir(scratch.path()).output();
    let top = succeeds(&top.expect("go runs"));
    let mut theirs: BTreeMap<String, u64> = BTreeMap::new();
    for line in top
        .lines()
        .filter(|l| l.trim().starts_with(|c: char| c.is_ascii_digit()))
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        let flat: u64 = words[0].trim_end_matches("ns").parse().expect("ns");
        let name = words[5..].join(" ").replace(" (inline)", "");
        *theirs.entry(name).or_default() += flat;
    }
    theirs.retain(|_, ns| *ns > 0);

    let tables = load(scratch.join("cpu.dwell"));
    let analysis = Analysis::of(&tables);
    let mut ours: BTreeMap<String, u64> = BTreeMap::new();
    for entry in &analysis.profile.entries {
        assert_eq!(entry.state, State::Running);
        let StackRef::Taken(stack) = entry.stack else {
            panic!("{entry:?} has no stack");
        };
        let innermost = tables.stacks[stack as usize].frames.last().expect("frames");
        let names = tables.symbols.iter().filter(|s| s.frame == *innermost);
        let name = names.min_by_key(|s| s.depth).expect("a name");
        *ours.entry(name.function.clone()).or_default() += entry.weight_ns;
    }
    assert_eq!(ours, theirs);
    let total: u64 = ours.values().sum();
    assert!(total >= 100_000_000, "{ours:?}");
}
