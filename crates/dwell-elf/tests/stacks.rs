//! Real stacks: the compact rows, the full stepper, framehop and eu-stack find the same frames.
mod common;

use common::oracles::{Stack, Unwinders, eu_stack};
use common::process::{Stopped, Target};
use common::programs::{LEAN, c};
use dwell_abi::unwind::StackEnd;
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
const BEYOND_FRAMEHOP: Expect<'static> = Expect { framehop: false, ..NORMAL };

const NORMAL: Expect<'static> = Expect { at_least: 3, functions: &["main"], framehop: true, eu_stack: true };

/// Stops every thread of a blocked program and compares all unwinders.
fn check(program: &Path, args: &[&str], expect: &Expect<'_>) {
    let target = Target::start(program, args);
    let by_eu_stack = if expect.eu_stack { eu_stack(target.pid()) } else { Vec::new() };
    for tid in target.tids() {
        let thread = target.stop(tid);
        let mut unwinders = Unwinders::new(thread.mappings());
        let full = compare(&mut unwinders, &thread, expect, args);
        if let Some((_, frames)) = by_eu_stack.iter().find(|(t, _)| *t == tid) {
            assert_eq!(&full.frames, frames, "{args:?}: full (left) and eu-stack (right)");
        } else {
            assert!(!expect.eu_stack, "{args:?}: eu-stack does not know thread {tid}");
        }
        if tid == target.pid() {
            check_shape(&unwinders, &full, expect, args);
        }
    }
}

/// The stack by all in-process unwinders, which must agree.
fn compare(unwinders: &mut Unwinders, thread: &Stopped, expect: &Expect<'_>, what: &[&str]) -> Stack {
    let registers = thread.registers();
    let full = unwinders.full(&registers, thread);
    let table = unwinders.table(&registers, thread);
    assert_eq!(table, full, "{what:?}: rows (left) and full (right)");
    assert_eq!(full.end, StackEnd::Complete, "{what:?}: {full:x?}");
    if expect.framehop {
        assert_eq!(full.pcs(), unwinders.framehop(&registers, thread), "{what:?}: full (left) and framehop (right)");
    }
    full
}

fn check_shape(unwinders: &Unwinders, stack: &Stack, expect: &Expect<'_>, what: &[&str]) {
    assert!(stack.frames.len() >= expect.at_least, "{what:?}: {} frames", stack.frames.len());
    let names: Vec<String> = stack.frames.iter().map(|f| name(unwinders, f.pc - u64::from(f.is_return_address))).collect();
    let mut rest = names.iter();
    for function in expect.functions {
        assert!(rest.any(|name| name == function), "{what:?}: no {function} in {names:?}");
    }
}

fn name(unwinders: &Unwinders, pc: u64) -> String {
    let Some(m) = unwinders.mappings.iter().find(|m| (m.start..m.end).contains(&pc)) else { return String::new() };
    let stated = pc.wrapping_sub(m.bias);
    let symbol = m.image.file.symbols().find(|s| (s.address..s.address + s.size).contains(&stated));
    symbol.map_or(String::new(), |s| String::from_utf8_lossy(s.name).into_owned())
}

fn lean() -> std::path::PathBuf {
    c("stacks.c", "stacks", LEAN)
}

#[test]
fn deep_recursion() {
    check(&lean(), &["recursion"], &Expect { at_least: 1004, functions: &["block", "recurse", "main"], ..NORMAL });
}

#[test]
fn frames_of_100_kib() {
    check(&lean(), &["big"], &Expect { at_least: 24, functions: &["block", "big", "main"], ..NORMAL });
}

#[test]
fn alloca() {
    check(&lean(), &["alloca"], &Expect { at_least: 24, functions: &["block", "dynamic", "main"], ..NORMAL });
}

#[test]
fn realigned_stack() {
    check(&lean(), &["realign"], &Expect { at_least: 24, functions: &["block", "realign", "main"], ..BEYOND_FRAMEHOP });
}

#[test]
fn callback_from_libc() {
    check(&lean(), &["qsort"], &Expect { functions: &["compare", "sort", "main"], ..NORMAL });
}

#[test]
fn signal_handler() {
    check(&lean(), &["signal"], &Expect { functions: &["handler", "on_signal", "main"], ..BEYOND_FRAMEHOP });
}

#[test]
fn signal_handler_on_its_own_stack() {
    check(&lean(), &["altstack"], &Expect { functions: &["handler", "on_signal", "main"], ..BEYOND_FRAMEHOP });
}

#[test]
fn signal_in_the_middle_of_a_function() {
    check(&lean(), &["fault"], &Expect { functions: &["handler", "wild", "on_fault", "main"], ..BEYOND_FRAMEHOP });
}

#[test]
fn threads() {
    check(&lean(), &["threads"], &Expect { functions: &["threads", "main"], ..NORMAL });
}
