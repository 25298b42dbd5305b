//! Small programs for what merging could break, run stock and merged: same output, same end.
//!
//! A folder of `matrix` is a case. Lines that begin with `//#` say how its files are compiled, in the order
//! of their names; `//# run NAME ARGS` names a program to run, `prog` is always one;
//! `{folder}` is where it was compiled.
mod common;

use common::{
    Folder, any_profile, at_level, at_one_address, compile, inputs, merge_with, same, with_libc,
    with_loader,
};
use dwell_booster::{Built, Options, Refusal};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a case into the folder; gives the runs.
fn prepare(folder: &Folder, case: &str) -> Vec<Vec<String>> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/matrix")
        .join(case);
    let entries = fs::read_dir(&sources).expect("a case");
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.sort();
    let mut runs = Vec::new();
    for file in files {
        let name = file.file_name().expect("a file");
        fs::copy(&file, folder.file(name.to_str().expect("UTF-8"))).expect("copied");
        let text = fs::read_to_string(&file).expect("text");
        for line in text.lines().filter_map(|l| l.strip_prefix("//# ")) {
            match line.strip_prefix("run ") {
                Some(run) => {
                    let run = run.replace("{folder}", folder.0.to_str().expect("UTF-8"));
                    runs.push(run.split(' ').map(str::to_owned).collect());
                }
                None => compile(folder, line),
            }
        }
    }
    if !runs.iter().any(|run: &Vec<String>| run[0] == "prog") {
        runs.push(vec!["prog".to_owned()]);
    }
    runs
}

/// Whether programs can be merged with the C library.
fn with_libc_expected() -> bool {
    let version = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let version = version.expect("getconf runs").stdout;
    version.starts_with(b"glibc 2.36")
}

/// Merges every program of the case in every way and compares it with itself; gives the output of the last.
/// With the C library it may be refused, with another glibc.
fn check(case: &str) -> (String, Built) {
    let folder = Folder::new(case);
    let runs = prepare(&folder, case);
    let mut last = None;
    // At last with all functions copied together.
    let ways = [
        (with_libc(), false),
        (at_one_address(true), false),
        (with_loader(), false),
        (at_level(false), false),
        (at_level(true), false),
        (at_one_address(false), false),
        (with_libc(), true),
        (with_loader(), true),
        (at_one_address(false), true),
        (at_level(true), true),
    ];
    let mut random = fastrand::Rng::with_seed(3);
    for (run, (way, hot)) in runs
        .iter()
        .flat_map(|run| ways.iter().map(move |w| (run, w)))
    {
        let program = folder.file(&run[0]);
        let profile = hot.then(|| any_profile(&inputs(&program), 1, &mut random));
        let way = &Options {
            profile,
            ..way.clone()
        };
        let (merged, built) = match merge_with(&folder, &program, way) {
            Ok(made) => made,
            Err(Refusal::Unsupported { .. }) if way.libc && !with_libc_expected() => continue,
            Err(why) => panic!("{case}: {} is refused: {why}", run[0]),
        };
        assert_eq!(built.merged.iter().any(|m| m == "libc.so.6"), way.libc);
        let args: Vec<&str> = run[1..].iter().map(String::as_str).collect();
        let output = same(&program, &merged, &args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            !text.is_empty(),
            "{case}: a run that prints nothing tells nothing"
        );
        last = Some((text, built));
    }
    last.expect("a case has a program")
}

#[test]
fn exceptions_cross_modules() {
    let (text, built) = check("exceptions");
    assert!(
        text.contains("caught odd 1") && text.ends_with("terminated\n"),
        "{text}"
    );
    assert!(
        built.merged.contains(&"libstdc++.so.6".to_owned()),
        "{:?}",
        built.merged
    );
}

#[test]
fn thread_local_variables_of_every_model() {
    let (text, built) = check("tls");
    assert!(text.contains("desc") && text.contains("own"), "{text}");
    assert_eq!(built.merged.len(), 4);
}

#[test]
fn versions_weak_and_protected_symbols() {
    let (text, _) = check("versions");
    assert!(text.starts_with("2 10 1\n"), "{text}");
}

#[test]
fn copied_variables() {
    check("copies");
}

#[test]
fn indirect_functions() {
    check("indirect");
}

#[test]
fn constructors_and_destructors_in_order() {
    let (text, _) = check("order");
    assert!(
        text.starts_with("preinit") && text.contains("first: fini"),
        "{text}"
    );
}

#[test]
fn programs_that_call_their_constructors_themselves() {
    let (text, _) = check("old");
    assert!(text.contains("main: up 1 1"), "{text}");
}

/// A plugin that needs merged libraries gets those: their constructors run once.
#[test]
fn plugins_get_the_merged_libraries() {
    let (text, built) = check("plugins");
    assert_eq!(text.matches("one: up").count(), 1, "{text}");
    assert_eq!(built.merged, ["libtwo.so", "libone.so"]);
}

#[test]
fn fork_exec_and_signals() {
    check("processes");
}

#[test]
fn stacks_can_be_walked_and_named() {
    let (text, _) = check("backtraces");
    assert!(text.contains("deeper") && text.contains("main"), "{text}");
}

/// What the C library does by itself is done when it is merged, too.
#[test]
fn services_of_the_c_library() {
    let (text, _) = check("services");
    assert!(text.starts_with("early: 1 1 1 C.UTF-8"), "{text}");
    assert!(text.contains("grüß 0 0"), "{text}");
}

#[test]
fn cancelled_threads_unwind() {
    let (text, _) = check("cancel");
    assert!(text.contains("unwound"), "{text}");
}
