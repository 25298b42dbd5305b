//! Programs all of whose functions are probed at once do what they do without probes.

use crate::common::{Scratch, dwell, program};
use std::process::{Command, Output};

const ENTRIES: &str = "pid$target:::entry { @[probemod, probefunc] = count(); }";
const RETURNS: &str =
    "pid$target:::entry, pid$target:::return { @[probemod, probename] = count(); }";

/// A command of ours, the same wherever it runs.
fn steady(command: &mut Command) -> Output {
    let command = command.env("LC_ALL", "C").env("TZ", "UTC");
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// What a command prints while a script watches it.
struct Watched {
    printed: String,
    errors: String,
    /// Of the script: each line.
    counted: Vec<String>,
}

fn watched(engine: &str, text: &str, words: &[&str]) -> Watched {
    let folder = Scratch::new();
    let file = folder.join("counted");
    let (to, command) = (file.display().to_string(), words.join(" "));
    let arguments = [
        "trace", "--engine", engine, "-v", "-q", "-o", &to, "-n", text, "-c", &command,
    ];
    let output = steady(&mut dwell(&arguments));
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let counted = std::fs::read_to_string(&file).expect("it was written");
    let counted = counted.lines().filter(|line| !line.is_empty());
    Watched {
        printed: text(&output.stdout),
        errors,
        counted: counted.map(str::to_owned).collect(),
    }
}

fn alone(words: &[&str]) -> String {
    let output = steady(Command::new(words[0]).args(&words[1..]));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The probes inside the process and in the kernel, as `-v` tells them.
fn places(errors: &str) -> (usize, usize) {
    let told = errors
        .lines()
        .find(|l| l.contains("probes are inside the process"));
    let told = told.unwrap_or_else(|| panic!("{errors}"));
    let numbers = told.split_whitespace().filter_map(|word| word.parse().ok());
    match numbers.collect::<Vec<usize>>()[..] {
        [inside, kernel] => (inside, kernel),
        _ => panic!("{told}"),
    }
}

/// Runs a command with every function's entry, and then also every return, probed.
fn is_undisturbed(words: &[&str], functions: usize) {
    let expected = alone(words);
    assert!(expected.lines().count() > 5, "{expected}");
    assert_eq!(alone(words), expected, "it is not the same each time");
    let all = watched("auto", ENTRIES, words);
    assert!(
        all.printed == expected,
        "{words:?}\n{}\nand alone\n{expected}",
        all.printed
    );
    let (inside, kernel) = places(&all.errors);
    let share = inside as f64 / (inside + kernel) as f64;
    println!(
        "{words:?}: {inside} functions inside, {kernel} in the kernel; {} ran",
        all.counted.len()
    );
    assert!(share >= 0.97, "{inside} inside, {kernel} in the kernel");
    assert!(
        all.counted.len() >= functions,
        "{} functions",
        all.counted.len()
    );
    let both = watched("process", RETURNS, words);
    assert!(
        both.printed == expected,
        "{words:?}\n{}\nand alone\n{expected}",
        both.printed
    );
    assert!(
        both.counted.iter().any(|line| line.contains(" return ")),
        "{:?}",
        both.counted
    );
}

#[test]
#[ignore = "needs root"]
fn a_shell_does_what_it_does_unwatched() {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/e2e/everything/shell.bash"
    );
    is_undisturbed(&["bash", script], 500);
}

#[test]
#[ignore = "needs root"]
fn the_cxx_library_does_what_it_does_unwatched() {
    let library = program("library");
    is_undisturbed(&[&library, "5"], 500);
}
