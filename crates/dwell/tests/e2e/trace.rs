//! D programs on real processes, compared with what the traced program says of itself.

use crate::common::{Scratch, dwell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Output};

fn traced() -> String {
    let programs =
        std::env::var("DWELL_TEST_PROGRAMS").expect("DWELL_TEST_PROGRAMS, see the Makefile");
    PathBuf::from(programs).join("traced").display().to_string()
}

fn run(command: &mut Command) -> (String, String, Option<i32>) {
    let Output {
        stdout,
        stderr,
        status,
    } = command.output().expect("dwell runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(stdout), text(stderr), status.code())
}

/// A script on `traced ROUNDS THREADS`: the program's lines, and ours.
fn script(text: &str, rounds: u32, threads: u32) -> (Truth, Vec<String>) {
    let command = format!("{} {rounds} {threads}", traced());
    let (out, errors, code) = run(&mut dwell(&["trace", "-q", "-n", text, "-c", &command]));
    assert_eq!(code, Some(0), "{errors}");
    assert!(!errors.contains("drop"), "{errors}");
    let is_truth = |line: &&str| {
        ["step ", "many ", "greet "]
            .iter()
            .any(|name| line.starts_with(name))
    };
    let (truth, ours): (Vec<&str>, Vec<&str>) = out.lines().partition(|line| is_truth(line));
    let truth = truth.iter().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<i64>().expect("a number");
        ((words[0].to_owned(), number(1)), number(2))
    });
    let ours = ours.iter().filter(|line| !line.is_empty());
    (
        Truth(truth.collect()),
        ours.map(|l| l.to_string()).collect(),
    )
}

/// Calls by function and argument.
struct Truth(BTreeMap<(String, i64), i64>);

impl Truth {
    fn of(&self, function: &str) -> BTreeMap<i64, i64> {
        let own = self.0.iter().filter(|((name, _), _)| name == function);
        own.map(|((_, argument), calls)| (*argument, *calls))
            .collect()
    }

    fn calls(&self, function: &str) -> i64 {
        self.of(function).values().sum()
    }
}

/// Lines of a key and a value.
fn table(lines: &[String]) -> BTreeMap<i64, i64> {
    let rows = lines.iter().map(|line| {
        let words: Vec<i64> = line
            .split_whitespace()
            .map(|word| word.parse().unwrap_or_else(|_| panic!("{lines:?}")))
            .collect();
        (words[0], words[1])
    });
    rows.collect()
}

#[test]
#[ignore = "needs root"]
fn calls_by_argument_are_counted_exactly() {
    let (truth, lines) = script("pid$target::step:entry { @[arg0] = count(); }", 300, 4);
    assert_eq!(table(&lines), truth.of("step"));
}

#[test]
#[ignore = "needs root"]
fn predicates_choose() {
    let (truth, lines) = script(
        "pid$target::step:entry /arg0 > 4 && arg0 != 7/ { @[arg0] = count(); }",
        100,
        2,
    );
    let mut chosen = truth.of("step");
    chosen.retain(|argument, _| *argument > 4 && *argument != 7);
    assert_eq!(table(&lines), chosen);
}

#[test]
#[ignore = "needs root"]
fn returned_values_add_up() {
    let (truth, lines) = script("pid$target:traced:step:return { @ = sum(arg1); }", 200, 2);
    let sum: i64 = truth
        .of("step")
        .iter()
        .map(|(n, calls)| (n * 3 - 1) * calls)
        .sum();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0].trim().parse::<i64>().expect("a number"), sum);
}

/// Every call has its own thread's time, and none is missing from the distribution.
#[test]
#[ignore = "needs root"]
fn thread_locals_pair_entries_with_returns() {
    let text = "pid$target:traced:step:entry { self->began = timestamp; }
        pid$target:traced:step:return /self->began/ {
            @[probefunc] = quantize(timestamp - self->began); self->began = 0; }";
    let (truth, lines) = script(text, 200, 4);
    let counts = lines.iter().filter_map(|line| line.split_once('|'));
    let counts = counts.filter_map(|(_, row)| row.split_whitespace().last()?.parse::<i64>().ok());
    assert_eq!(counts.sum::<i64>(), truth.calls("step"), "{lines:#?}");
}

/// What a script cannot read is said, and together with what it could read that is every call.
#[test]
#[ignore = "needs root"]
fn strings_are_read_or_an_error_says_so() {
    let command = format!("{} 100 1", traced());
    let text = "pid$target:traced:greet:entry { @[copyinstr(arg0)] = count(); }";
    let (out, errors, code) = run(&mut dwell(&["trace", "-q", "-n", text, "-c", &command]));
    assert_eq!(code, Some(0), "{errors}");
    let told = errors.matches("invalid address").count() as i64;
    let of = |greeting: &str| {
        let line = out.lines().find(|l| l.trim_start().starts_with(greeting));
        let count = line.and_then(|l| l.split_whitespace().last()?.parse::<i64>().ok());
        count.unwrap_or(0)
    };
    let read = of("hello ") + of("good morning ") + of("a greeting ");
    assert!(read > 290, "{out}");
    assert_eq!(read + told, 300, "{out}{errors}");
}

#[test]
#[ignore = "needs root"]
fn system_calls_are_counted_exactly() {
    let text = "syscall::write:entry /pid == $target && arg0 == 1/ { @ = count(); }";
    let command = "dd if=/dev/zero of=/dev/stdout bs=1 count=500 status=none";
    let (out, errors, code) = run(&mut dwell(&["trace", "-q", "-n", text, "-c", command]));
    assert_eq!(code, Some(0), "{errors}");
    let count = out.trim_matches(|c: char| c == '\0' || c.is_whitespace());
    assert_eq!(count, "500", "{out:?} {errors}");
}

/// Called as `dtrace`, it says what dtrace says and ends as it ends.
#[test]
#[ignore = "needs root"]
fn the_name_dtrace_is_obeyed() {
    let folder = Scratch::new();
    let link = folder.join("dtrace");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_dwell"), &link).expect("a link");
    let (out, errors, code) = run(Command::new(&link).args(["-n", "BEGIN { exit(7); }"]));
    assert_eq!(code, Some(7));
    assert!(errors.contains("dtrace: description 'BEGIN"), "{errors}");
    assert!(
        out.starts_with("CPU     ID                    FUNCTION:NAME\n"),
        "{out}"
    );
    let (_, errors, code) = run(Command::new(&link).args(["-n", "BEGIN { trace(timestmap); }"]));
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("[D_IDENT_UNDEF] line 1: failed to resolve timestmap"),
        "{errors}"
    );
    assert!(errors.contains("did you mean timestamp?"), "{errors}");
    let dtrace = |args: &[&str]| run(Command::new(&link).args(args));
    let (_, errors, code) = dtrace(&["-n", "pid1:libnothing:nowhere:entry"]);
    assert_eq!(code, Some(1), "{errors}");
    // Options in one word, as in `#!/usr/sbin/dtrace -qs`; END has the last word about the status.
    let (out, errors, code) = dtrace(&[
        "-xflowindent=no",
        "-qn",
        "BEGIN { printf(\"%d\", $1); exit(1); } END { exit(4); }",
        "-5",
    ]);
    assert_eq!((&*out, code), ("-5\n", Some(4)), "{errors}");
    // A probe that there is not: where it stands, and what may have been meant.
    let (_, errors, code) = dtrace(&["-n", "BEGIN {}\nsyscall::opn:entry {}"]);
    assert_eq!(code, Some(1), "{errors}");
    let told =
        "[D_PDESC_ZERO] line 2: probe description syscall::opn:entry does not match any probes";
    assert!(errors.contains(told), "{errors}");
    assert!(
        errors.contains("  ^^^^^^^^^^^^^^^^^^\n  did you mean open?"),
        "{errors}"
    );
    // Without a provider a system call is meant, too; `-l` alone lists all there is.
    let (out, errors, _) = dtrace(&["-ln", "write:entry"]);
    assert!(
        out.contains("syscall           vmlinux                             write entry"),
        "{out}{errors}"
    );
    let (out, errors, _) = dtrace(&["-l"]);
    assert!(
        out.contains("BEGIN") && out.contains(" read entry"),
        "{errors}"
    );
    let (out, errors, _) = dtrace(&["-l", "-c", &traced()]);
    assert!(
        out.contains(" step entry") && out.contains("malloc entry"),
        "{errors}"
    );
}

/// As with dtrace, what `-c` has started ends with the script.
#[test]
#[ignore = "needs root"]
fn a_command_ends_with_its_script() {
    let text = "tick-200ms { printf(\"%d\", $target); exit(0); }";
    let start = std::time::Instant::now();
    let (out, errors, code) = run(&mut dwell(&["trace", "-q", "-n", text, "-c", "sleep 100"]));
    assert_eq!(code, Some(0), "{errors}");
    assert!(start.elapsed().as_secs() < 50);
    let pid: u32 = out
        .trim()
        .parse()
        .unwrap_or_else(|_| panic!("{out}{errors}"));
    assert!(
        std::fs::metadata(format!("/proc/{pid}")).is_err(),
        "{pid} lives"
    );
}

/// A program of 32 bits, whose system calls have other numbers, and arguments in other registers.
#[test]
#[ignore = "needs root"]
fn system_calls_of_32_bit_code_have_their_names() {
    let text =
        "syscall:::entry /pid == $target && execname == \"bits32\"/ { @[probefunc] = count(); }
        syscall::poll:entry /pid == $target && arg2 == 20/ { @[\"poll for 20 ms\"] = count(); }
        syscall::nanosleep:return /pid == $target && arg1 == 0/ { @[\"slept\"] = count(); }";
    // It is held from its exec on until the probes are there.
    let program = crate::common::program("bits32");
    let (out, errors, code) = run(&mut dwell(&["trace", "-q", "-n", text, "-c", &program]));
    assert_eq!(code, Some(0), "{errors}");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let said: Vec<String> = out.lines().map(words).collect();
    for calls in [
        "close 40",
        "exit 1",
        "fork 20",
        "futex 20",
        "nanosleep 20",
        "pipe 20",
        "poll 20",
        "poll for 20 ms 20",
        "read 20",
        "slept 20",
        "wait4 20",
    ] {
        assert!(said.iter().any(|line| line == calls), "{calls}: {out}");
    }
    assert_eq!(
        said.iter().filter(|line| !line.is_empty()).count(),
        11,
        "{out}"
    );
}
