//! Hot functions of a program put together by a recording that dwell made of it: the program does the same, and gdb and
//! dwell see through the copies. Needs root, to record.

use crate::robust_support::{Ran, Scratch, bare_dwell, run};
use serde_json::Value;
use std::fs;
use std::process::Command;

/// Computes, by a jump table and a recursion, and throws through both now and then.
const PROGRAM: &str = "#include <cstdio>\n#include <cstdlib>\n#include <stdexcept>\n\
    __attribute__((noinline)) static unsigned step(unsigned kind, unsigned x) {\n\
    switch (kind) { case 0: return x * 3 + 1; case 1: return x ^ 0x55; case 2: return x >> 1; case 3: return x + 7;\n\
    case 4: return ~x; case 5: return x << 2; case 6: return x - kind; case 7: if (x % 64 == 5) throw std::runtime_error(\"five\");\n\
    return x / 3; default: return x; } }\n\
    __attribute__((noinline)) static unsigned walk(unsigned depth, unsigned x) {\n\
    return depth ? walk(depth - 1, step(x % 9, x)) + depth : x; }\n\
    int main(int argc, char **argv) { unsigned sum = 0, thrown = 0;\n\
    for (long i = 0; i < atol(argv[1]); i++) try { sum += walk(8, i); } catch (std::exception &) { thrown++; }\n\
    std::printf(\"%u %u\\n\", sum, thrown); return 3; }\n";
/// Turns that take some 0.5 s and more.
const TURNS: &str = "3000000";

/// What a command of the folder prints; `LD_LIBRARY_PATH`, which cargo sets, would have the stock program run.
fn output(scratch: &Scratch, words: &[&str]) -> (i32, String) {
    let mut command = Command::new(words[0]);
    command
        .args(&words[1..])
        .current_dir(scratch.path())
        .env_remove("LD_LIBRARY_PATH");
    told(&run(&mut command))
}

fn told(ran: &Ran) -> (i32, String) {
    (ran.code(), ran.text() + &ran.stderr)
}

/// Runs dwell, which sees no such variable either: what it records would be the stock program.
fn dwell(scratch: &Scratch, words: &[&str]) -> Ran {
    let mut command = bare_dwell();
    command.current_dir(scratch.path()).args(words);
    run(command.env_remove("LD_LIBRARY_PATH"))
}

/// Records the program; it ends with 3, and so does dwell.
fn record(scratch: &Scratch, program: &str, recording: &str) {
    let words = ["record", "-F", "999", "-o", recording, "--", program, TURNS];
    let (code, said) = told(&dwell(scratch, &words));
    assert_eq!(code, 3, "{said}");
}

/// Of the time on a processor that is told of the program's own thread, the share whose stack has the function, %.
fn share_of(scratch: &Scratch, recording: &str, function: &str) -> u64 {
    let folded = dwell(scratch, &["export", recording, "--to", "folded"])
        .good()
        .text();
    let (mut with, mut all) = (0, 0);
    for line in folded.lines().filter(|l| l.contains("main")) {
        let (stack, time) = line.rsplit_once(' ').expect("a stack and its time");
        let time: u64 = time.parse().expect("a number");
        all += time;
        with += if stack.contains(function) { time } else { 0 };
    }
    100 * with / all.max(1)
}

#[test]
#[ignore = "needs root"]
fn hot_functions_are_copied_and_seen_through() {
    let scratch = Scratch::new();
    fs::write(scratch.join("prog.cpp"), PROGRAM).expect("written");
    let compile = ["g++", "-O2", "-o", "prog", "prog.cpp"];
    assert_eq!(output(&scratch, &compile).0, 0);
    record(&scratch, "./prog", "stock.dwell");
    let (_, version) = output(&scratch, &["getconf", "GNU_LIBC_VERSION"]);
    let ways: &[(&str, &str)] = match version.contains("glibc 2.36") {
        true => &[("static-nolibc", "1"), ("static", "1"), ("static", "4")],
        false => &[("static-nolibc", "1"), ("static-nolibc", "2")],
    };
    for (mode, level) in ways {
        let build = [
            "boost",
            "build",
            "./prog",
            "-o",
            "merged",
            "--mode",
            mode,
            "--level",
            level,
            "--profile",
            "stock.dwell",
            "--test",
            "1000",
            "--json",
        ];
        let made: Value =
            serde_json::from_str(&dwell(&scratch, &build).good().text()).expect("JSON");
        let hot = &made["hot"];
        let number = |name: &str| hot[name].as_u64().expect("a number");
        assert!(number("functions") >= 2 && number("tables") >= 1, "{hot}");
        assert!(
            number("functions_time_ns") * 10 > number("time_ns") * 9,
            "{hot}"
        );
        assert_eq!(hot["huge_page_possible"], true, "{hot}");

        let same = |args: &[&str]| output(&scratch, &[&["./prog"], args].concat());
        let merged = |args: &[&str]| output(&scratch, &[&["./merged"], args].concat());
        assert_eq!(same(&["100000"]), merged(&["100000"]), "{mode} {level}");

        // gdb stops in the copy, which is what runs, and walks and names its frames.
        let gdb = [
            "gdb",
            "-q",
            "-nx",
            "-batch",
            "-ex",
            "break step",
            "-ex",
            "run",
            "-ex",
            "bt",
            "-ex",
            "info symbol $pc",
            "--args",
            "./merged",
            "10",
        ];
        let (_, said) = output(&scratch, &gdb);
        assert!(said.contains("locations)"), "{mode} {level}: {said}");
        assert!(said.contains(".text.hot"), "{mode} {level}: {said}");
        let frames: Vec<&str> = said.lines().filter(|l| l.starts_with('#')).collect();
        assert!(frames.first().is_some_and(|f| f.contains("step")), "{said}");
        assert!(frames.iter().any(|f| f.contains("walk")), "{said}");
        assert!(frames.last().is_some_and(|f| f.contains("main")), "{said}");

        // dwell names as much of it as of the stock program.
        record(&scratch, "./merged", "merged.dwell");
        for function in ["walk", "step"] {
            let stock = share_of(&scratch, "stock.dwell", function);
            let merged = share_of(&scratch, "merged.dwell", function);
            assert!(
                stock > 20 && merged > 20,
                "{function}: {stock} % and {merged} %"
            );
        }
        fs::remove_dir_all(scratch.join("merged.dwell")).expect("removed");
    }
}
