//! Real stacks: the compact rows, the full stepper, framehop and eu-stack find the same frames.
mod common;

use common::oracles::{Stack, Unwinders, eu_stack};
use common::process::{Stopped, Target};
use common::programs::{LEAN, c, compile, cxx, has};
use dwell_abi::unwind::StackEnd;
use dwell_elf::table_step::Frame;
use std::path::Path;

/// What a stack must be like.
struct Expect<'a> {
    /// Frames that must be there.
    at_least: usize,
    /// Functions that must occur, innermost first (other frames may lie between).
    functions: &'a [&'a str],
    /// Whether framehop can unwind it.
    framehop: bool,
    /// Whether eu-stack can unwind it.
    eu_stack: bool,
}

/// framehop knows rip, rsp and rbp only, and its evaluation of expressions reads no memory. So it
/// cannot leave a signal frame (whose CFA is an expression that reads the `ucontext`) or a frame that
/// gcc realigned with alloca (CFA = *(rbp - n)); there it guesses by frame pointer. eu-stack, which can, is the oracle for these.
const BEYOND_FRAMEHOP: Expect<'static> = Expect {
    framehop: false,
    ..NORMAL
};

const NORMAL: Expect<'static> = Expect {
    at_least: 3,
    functions: &["main"],
    framehop: true,
    eu_stack: true,
};

/// Stops every thread of a blocked program and compares all unwinders.
fn check(program: &Path, args: &[&str], expect: &Expect<'_>) {
    let target = Target::start(program, args);
    let by_eu_stack = if expect.eu_stack {
        eu_stack(target.pid())
    } else {
        Vec::new()
    };
    for tid in target.tids() {
        let thread = target.stop_asleep(tid);
        let mut unwinders = Unwinders::new(thread.mappings());
        let full = compare(&mut unwinders, &thread, expect, args);
        if let Some((_, frames)) = by_eu_stack.iter().find(|(t, _)| *t == tid) {
            assert_eq!(
                &full.frames, frames,
                "{args:?}: full (left) and eu-stack (right)"
            );
        } else {
            assert!(
                !expect.eu_stack,
                "{args:?}: eu-stack does not know thread {tid}"
            );
        }
        if tid == target.pid() {
            check_shape(&unwinders, &full, expect, args);
        }
    }
}

/// The stack by all in-process unwinders, which must agree.
fn compare(
    unwinders: &mut Unwinders,
    thread: &Stopped,
    expect: &Expect<'_>,
    what: &[&str],
) -> Stack {
    let registers = thread.registers();
    let full = unwinders.full(&registers, thread);
    let table = unwinders.table(&registers, thread);
    assert_eq!(table, full, "{what:?}: rows (left) and full (right)");
    assert_eq!(full.end, StackEnd::Complete, "{what:?}: {full:x?}");
    if expect.framehop {
        assert_eq!(
            full.pcs(),
            unwinders.framehop(&registers, thread),
            "{what:?}: full (left) and framehop (right)"
        );
    }
    full
}

fn check_shape(unwinders: &Unwinders, stack: &Stack, expect: &Expect<'_>, what: &[&str]) {
    assert!(
        stack.frames.len() >= expect.at_least,
        "{what:?}: {} frames",
        stack.frames.len()
    );
    let names: Vec<String> = stack
        .frames
        .iter()
        .map(|f| name(unwinders, f.pc - u64::from(f.is_return_address)))
        .collect();
    let mut rest = names.iter();
    for function in expect.functions {
        assert!(
            rest.any(|name| name == function),
            "{what:?}: no {function} in {names:?}"
        );
    }
}

fn name(unwinders: &Unwinders, pc: u64) -> String {
    let Some(m) = unwinders
        .mappings
        .iter()
        .find(|m| (m.start..m.end).contains(&pc))
    else {
        return String::new();
    };
    let stated = pc.wrapping_sub(m.bias);
    let symbol = m
        .image
        .file
        .symbols()
        .find(|s| (s.address..s.address + s.size).contains(&stated));
    symbol.map_or(String::new(), |s| {
        String::from_utf8_lossy(s.name).into_owned()
    })
}

fn lean() -> std::path::PathBuf {
    c("stacks.c", "stacks", LEAN)
}

#[test]
fn deep_recursion() {
    check(
        &lean(),
        &["recursion"],
        &Expect {
            at_least: 1004,
            functions: &["block", "recurse", "main"],
            ..NORMAL
        },
    );
}

#[test]
fn frames_of_100_kib() {
    check(
        &lean(),
        &["big"],
        &Expect {
            at_least: 24,
            functions: &["block", "big", "main"],
            ..NORMAL
        },
    );
}

#[test]
fn alloca() {
    check(
        &lean(),
        &["alloca"],
        &Expect {
            at_least: 24,
            functions: &["block", "dynamic", "main"],
            ..NORMAL
        },
    );
}

#[test]
fn realigned_stack() {
    check(
        &lean(),
        &["realign"],
        &Expect {
            at_least: 24,
            functions: &["block", "realign", "main"],
            ..BEYOND_FRAMEHOP
        },
    );
}

#[test]
fn callback_from_libc() {
    check(
        &lean(),
        &["qsort"],
        &Expect {
            functions: &["compare", "sort", "main"],
            ..NORMAL
        },
    );
}

#[test]
fn signal_handler() {
    check(
        &lean(),
        &["signal"],
        &Expect {
            functions: &["handler", "on_signal", "main"],
            ..BEYOND_FRAMEHOP
        },
    );
}

#[test]
fn signal_handler_on_its_own_stack() {
    check(
        &lean(),
        &["altstack"],
        &Expect {
            functions: &["handler", "on_signal", "main"],
            ..BEYOND_FRAMEHOP
        },
    );
}

#[test]
fn signal_in_the_middle_of_a_function() {
    check(
        &lean(),
        &["fault"],
        &Expect {
            functions: &["handler", "wild", "on_fault", "main"],
            ..BEYOND_FRAMEHOP
        },
    );
}

#[test]
fn threads() {
    check(
        &lean(),
        &["threads"],
        &Expect {
            functions: &["threads", "main"],
            ..NORMAL
        },
    );
}

#[test]
fn cxx_destructor_below_an_exception() {
    let program = cxx("throws.cpp", "throws", LEAN);
    // While an exception unwinds, the frames below the throw are gone: libgcc jumps into `guarded`.
    check(
        &program,
        &[],
        &Expect {
            at_least: 8,
            functions: &["main"],
            ..NORMAL
        },
    );
}

#[test]
fn rust_threads() {
    let flags = [
        "-Copt-level=3",
        "-Cforce-frame-pointers=no",
        "-Cpanic=unwind",
        "--edition=2021",
    ];
    check(
        &compile("rustc", "sleeper.rs", "sleeper-rs", &flags),
        &[],
        &NORMAL,
    );
}

#[test]
fn static_glibc() {
    let program = c("stacks.c", "stacks-static", &[LEAN, &["-static"]].concat());
    for shape in ["recursion", "qsort"] {
        check(&program, &[shape], &NORMAL);
    }
    check(&program, &["signal"], &BEYOND_FRAMEHOP);
}

/// musl has no call frame information: framehop and eu-stack cannot unwind it, so the truth is the
/// program itself: the stack must be complete and have the functions that were called.
#[test]
fn musl() {
    if !has("musl-gcc") {
        eprintln!("musl-gcc is not installed, left out");
        return;
    }
    for (name, flags) in [
        ("static", &["-static", "-Wl,--build-id"][..]),
        ("dynamic", &[]),
    ] {
        let program = compile(
            "musl-gcc",
            "stacks.c",
            &format!("stacks-musl-{name}"),
            &[LEAN, flags].concat(),
        );
        for (shape, functions) in [
            ("recursion", &["block", "recurse", "main"][..]),
            ("qsort", &["block", "compare", "sort", "main"]),
            ("signal", &["block", "handler", "on_signal", "main"]),
            ("fault", &["block", "handler", "wild", "on_fault", "main"]),
            ("threads", &["threads", "main"]),
        ] {
            check(
                &program,
                &[shape],
                &Expect {
                    at_least: 4,
                    functions,
                    framehop: false,
                    eu_stack: false,
                },
            );
        }
    }
}

/// Go keeps frame pointers; only the innermost function may lack one.
#[test]
fn go_by_frame_pointer() {
    if !has("go") {
        eprintln!("go is not installed, left out");
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/sleeper.go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sleeper-go");
    let status = std::process::Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(source)
        .env("CGO_ENABLED", "0")
        .status();
    assert!(status.expect("go").success());
    let target = Target::start(&program, &[]);
    let mut found = 0;
    for tid in target.tids() {
        let thread = target.stop_asleep(tid);
        let mut unwinders = Unwinders::new(thread.mappings());
        let registers = thread.registers();
        let full = unwinders.full(&registers, &thread);
        assert_eq!(unwinders.table(&registers, &thread), full);
        let is_deep = |f: &Frame| name(&unwinders, f.pc - 1) == "main.deep";
        if full.frames.iter().filter(|f| is_deep(f)).count() == 21 {
            assert_eq!(full.end, StackEnd::Complete);
            assert!(
                full.frames
                    .iter()
                    .any(|f| name(&unwinders, f.pc - 1) == "main.main")
            );
            found += 1;
        }
    }
    assert_eq!(found, 1, "one thread runs the main goroutine");
}

/// Threads of programs from the distribution, as they wait.
#[test]
fn programs_of_the_distribution() {
    let scripts: [(&str, &[&str]); 3] = [
        (
            "/usr/bin/python3",
            &[
                "-c",
                "import sys,time,functools\nprint('ready',flush=True)\nsorted([2,1],key=lambda x:time.sleep(600))",
            ],
        ),
        (
            "/usr/bin/perl",
            &[
                "-e",
                "$|=1; sub f { my $n=shift; $n ? f($n-1) : do { print qq(ready\n); sleep 600 } } f(50)",
            ],
        ),
        (
            "/bin/bash",
            &[
                "-c",
                "f() { if [ $1 -gt 0 ]; then f $(($1-1)); else echo ready; exec 9<> <(:); read -t 600 -u 9; fi; }; f 20",
            ],
        ),
    ];
    for (program, args) in scripts {
        if Path::new(program).exists() {
            check(
                Path::new(program),
                args,
                &Expect {
                    at_least: 8,
                    functions: &[],
                    ..NORMAL
                },
            );
        }
    }
}
