//! The unwinder of the eBPF programs, compiled natively, walks the stacks of real processes and finds
//! the frames that the full stepper, the rows in Rust, and framehop find.
//!
//! Everything the kernel side reads is laid out by the code that lays it out for the kernel: rows,
//! rules and index by `cells.rs`, in real (if unused) eBPF maps.
// `cells.rs` finds these by the names they have in the collector.
#[allow(dead_code)]
#[path = "../src/cells.rs"]
mod cells;
#[allow(dead_code)]
#[path = "../src/error.rs"]
mod error;
mod native;
#[path = "native/unwind_maps.rs"]
mod unwind_maps;
// The oracles and the stopped processes are those of the tests of dwell-elf.
#[path = "../../dwell-elf/tests/common/mod.rs"]
mod common;
#[path = "../../../tests/programs/locate.rs"]
mod locate;

use common::oracles::Unwinders;
use common::process::{Stopped, Target};
use dwell_abi::events::CodeHeap;
use dwell_abi::unwind::*;
use dwell_elf::table_step::Frame;
use locate::program;
use native::{Native, Ours};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What all stacks of a program came to.
#[derive(Debug, Default)]
struct Tally {
    stacks: usize,
    /// Stacks that reach the outermost frame, in the end.
    complete: usize,
    /// Stacks that the kernel side leaves to user space.
    by_copy: usize,
    frames: usize,
    /// Frames where the full stepper says something else.
    not_full: usize,
    /// Stacks within framehop's reach.
    by_framehop: usize,
    frames_framehop: usize,
    not_framehop: usize,
}

/// Whether a frame's caller is out of framehop's reach. It knows rip, rsp and rbp only, reads no memory
/// to evaluate an expression (frames that gcc realigned, signal frames), has no rule for a return
/// address in a register, and knows neither Go's frame pointers nor code without information.
fn beyond_framehop(unwinders: &Unwinders, frame: &Frame) -> bool {
    let pc = frame.pc - u64::from(frame.is_return_address);
    let module = unwinders
        .mappings
        .iter()
        .find(|m| (m.start..m.end).contains(&pc));
    let Some(module) = module else { return true };
    let table = module.image.info.table();
    let Some(row) = table.lookup(pc.wrapping_sub(module.bias)) else {
        return true;
    };
    match row.kind {
        KIND_SP | KIND_BP | KIND_PLT | KIND_END => false,
        KIND_RULE => {
            let rule = &table.rules[usize::from(row.cfa_off8 as u16)];
            rule.cfa_deref != 0 || rule.cfa_reg > REG_BP || rule.bp_kind == BP_AT_BP
        }
        _ => true,
    }
}

/// Number of places at which two lists differ.
fn differences(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a != b).count() + a.len().abs_diff(b.len())
}

impl Tally {
    /// Walks a stopped thread's stack by every unwinder.
    fn add(&mut self, native: &mut Native, pid: i32, thread: &Stopped, what: &str) {
        let mut unwinders = Unwinders::new(thread.mappings());
        let registers = thread.registers();
        let found = native.walk(&unwinders.mappings, &registers, pid);
        let rows = unwinders.table(&registers, thread);
        assert_eq!(
            found, rows,
            "{what}: the kernel's unwinder (left) and its rows in Rust (right)"
        );
        self.stacks += 1;
        let full = unwinders.full(&registers, thread);
        if found.end == StackEnd::Unsupported {
            // User space finishes such a stack from a copy, with the full stepper.
            let frames = &found.frames;
            assert!(
                full.frames.starts_with(frames),
                "{what}: {found:x?}, full {full:x?}"
            );
            self.by_copy += 1;
            self.complete += usize::from(full.end == StackEnd::Complete);
        }
        if full.end != StackEnd::Complete {
            let last = full.frames.last();
            eprintln!(
                "    {what}: {:?} after {} frames at {last:x?}",
                full.end,
                full.frames.len()
            );
        }
        if found.end != StackEnd::Complete {
            return;
        }
        self.complete += 1;
        let wrong = differences(&found.pcs(), &full.pcs());
        self.frames += full.frames.len();
        self.not_full += wrong;
        if wrong > 0 {
            eprintln!("    {what}: {wrong} frames differ: {found:x?}, full {full:x?}");
        }
        if found.frames.iter().any(|f| beyond_framehop(&unwinders, f)) {
            return;
        }
        let framehop = unwinders.framehop(&registers, thread);
        let wrong = differences(&found.pcs(), &framehop);
        if wrong > 0 {
            eprintln!("    {what}: {wrong} frames differ: {found:x?}, framehop {framehop:x?}");
        }
        self.by_framehop += 1;
        self.frames_framehop += full.frames.len();
        self.not_framehop += wrong;
    }

    fn print(&self, what: &str) {
        println!(
            "{what}: {} stacks, {} complete, {} of them by copy; {} of {} frames differ from the full stepper, {} of {} (in {} stacks) from framehop",
            self.stacks,
            self.complete,
            self.by_copy,
            self.not_full,
            self.frames,
            self.not_framehop,
            self.frames_framehop,
            self.by_framehop
        );
    }
}

/// How many of a program's stacks are within framehop's reach.
#[derive(Clone, Copy, PartialEq)]
enum Framehop {
    /// Some, at least.
    Can,
    /// None: every stack has a signal frame or a realigned one, or the rows come from elsewhere than
    /// call frame information (musl, Go).
    Cannot,
}

/// What the comparisons demand.
fn check(tally: &Tally, what: &str, framehop: Framehop) {
    tally.print(what);
    assert!(tally.stacks > 0, "{what}: no stack was taken");
    assert!(
        tally.complete as f64 >= tally.stacks as f64 * 0.995 - 1.0,
        "{what}: only {} of {} stacks are complete",
        tally.complete,
        tally.stacks
    );
    let wrong = |n: usize, of: usize| n as f64 > of as f64 * 0.001;
    assert!(
        !wrong(tally.not_full, tally.frames),
        "{what}: differs from the full stepper"
    );
    if framehop == Framehop::Can {
        assert!(
            tally.by_framehop > 0,
            "{what}: nothing was compared with framehop"
        );
        assert!(
            !wrong(tally.not_framehop, tally.frames_framehop),
            "{what}: differs from framehop"
        );
    }
}

/// Compiles a program of dwell-elf's tests.
fn compiled(compiler: &str, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dwell-elf/tests/programs");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = std::process::Command::new(compiler)
        .args(["-O2", "-fomit-frame-pointer"])
        .args(flags)
        .arg("-o")
        .arg(&out)
        .arg(folder.join(source))
        .args(["-lm", "-pthread"])
        .status()
        .unwrap_or_else(|e| panic!("start {compiler}: {e}"));
    assert!(status.success(), "{compiler} {source}");
    out
}

/// Threads held blocked, in every shape of stack.
#[test]
#[ignore = "needs root"]
fn blocked_threads() {
    let program = compiled("cc", "stacks.c", "native-stacks", &[]);
    let mut native = Native::new();
    for (shape, framehop) in [
        ("recursion", Framehop::Can),
        ("big", Framehop::Can),
        ("alloca", Framehop::Can),
        ("realign", Framehop::Cannot),
        ("qsort", Framehop::Can),
        ("signal", Framehop::Cannot),
        ("altstack", Framehop::Cannot),
        ("fault", Framehop::Cannot),
        ("threads", Framehop::Can),
    ] {
        let target = Target::start(&program, &[shape]);
        let mut tally = Tally::default();
        for tid in target.tids() {
            tally.add(&mut native, target.pid(), &target.stop_asleep(tid), shape);
        }
        check(&tally, shape, framehop);
    }
}

/// Stops a running program again and again, wherever it is.
fn sampled(native: &mut Native, command: &str, stops: usize) -> Tally {
    // The shell sleeps once, which is when it counts as started; then it becomes the program.
    let script = format!("echo ready; sleep 0.05; exec {command} >/dev/null 2>&1");
    let target = Target::start(Path::new("/bin/sh"), &["-c", &script]);
    std::thread::sleep(Duration::from_millis(300));
    let mut tally = Tally::default();
    for i in 0.. {
        if tally.stacks == stops {
            break;
        }
        assert!(i < 2 * stops, "{command}: its threads have ended");
        let tids = target.tids();
        // Stockfish starts its threads anew when it has read how many it is to have.
        if let Some(thread) = target.stop(tids[i % tids.len()]) {
            tally.add(native, target.pid(), &thread, command);
        }
        // Out of step with everything a program does regularly.
        std::thread::sleep(Duration::from_micros(500 + (i as u64 * 7919) % 2003));
    }
    tally
}

/// Programs of ours, stopped at any instruction.
#[test]
#[ignore = "needs root"]
fn running_test_programs() {
    let mut native = Native::new();
    for (name, args, framehop) in [
        ("deep", "recursion 20", Framehop::Can),
        ("deep", "exceptions 20", Framehop::Can),
        ("deep", "alloca 20", Framehop::Can),
        ("signals", "nested 20", Framehop::Cannot),
        ("signals", "altstack 20", Framehop::Cannot),
        ("plt", "hot 20", Framehop::Can),
        ("plt", "resolve 20", Framehop::Cannot),
        ("vdso", "20", Framehop::Can),
        ("qsort", "20", Framehop::Can),
        ("realign", "20", Framehop::Cannot),
        ("tokio-mix", "20", Framehop::Can),
        ("gohot", "20", Framehop::Cannot),
        ("static_musl", "20", Framehop::Cannot),
    ] {
        let tally = sampled(&mut native, &format!("{} {args}", program(name)), 150);
        check(&tally, &format!("{name} {args}"), framehop);
    }
}

/// Programs of the distribution, stopped at any instruction.
#[test]
#[ignore = "needs root"]
fn running_programs_of_the_distribution() {
    let mut native = Native::new();
    for (path, args) in [
        ("/usr/games/stockfish", "bench 16 2 99"),
        (
            "/usr/bin/perl",
            "-e 'sub f { my $n = shift; $n < 2 ? $n : f($n-1) + f($n-2) } while (1) { f(20); sort { $b <=> $a } 1..9999; }'",
        ),
        (
            "/usr/bin/python3",
            "-c 'import json,re\nwhile True:\n re.sub(\"([0-9]+)x\", \"y\", \"12x34x\" * 99); json.dumps(list(range(999))); sorted(range(999), key=lambda x: -x)'",
        ),
        ("/usr/bin/openssl", "speed -seconds 20 sha256 sha512"),
        (
            "/usr/bin/sqlite3",
            ":memory: 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*), max(hex(randomblob(9))) FROM n'",
        ),
    ] {
        if !Path::new(path).exists() {
            eprintln!("{path} is not installed, left out");
            continue;
        }
        let tally = sampled(&mut native, &format!("{path} {args}"), 300);
        check(&tally, path, Framehop::Can);
    }
}

/// What JVMs' code begins and ends with, and what resembles that.
const PIECES: &[&[u8]] = &[
    &[0x55],
    &[0x5d],
    &[0xc3],
    &[0x90],
    &[0xc9, 0xc3],
    &[0x48, 0x83, 0xec, 0x20],
    &[0x48, 0x81, 0xec, 0, 1, 0, 0],
    &[0x48, 0x8b, 0xec],
    &[0x48, 0x89, 0x6c, 0x24, 0x20],
    &[0x48, 0x89, 0xac, 0x24, 0, 1, 0, 0],
    &[0x49, 0x3b, 0x67, 0x28],
    &[0x49, 0x3b, 0xa7, 0x50, 3, 0, 0],
    &[0x0f, 0x87, 0x10, 0, 0, 0],
    &[
        0x41, 0x81, 0x7f, 0x20, 1, 0, 0, 0, 0x0f, 0x85, 0xe6, 0, 0, 0,
    ],
    &[
        0x41, 0x81, 0xbf, 0x20, 3, 0, 0, 1, 0, 0, 0, 0x0f, 0x85, 0xe6, 0, 0, 0,
    ],
    &[0x85, 0x05, 1, 2, 3, 4],
    &[0x41, 0x85, 0x02],
    &[0x4d, 0x8b, 0x97, 8, 1, 0, 0],
];

/// Both sides tell the same of code in a JVM's heap, whatever lies there.
#[test]
fn rows_of_java_code_are_the_same() {
    const SEGMENTS: usize = 512;
    let native = Native::new();
    // xorshift64*, from always the same seed.
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |below: usize| {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    };
    let mut kinds = std::collections::BTreeMap::<(u8, bool), usize>::new();
    for round in 0..400 {
        let mut memory = vec![0u8; SEGMENTS * 33];
        let base = memory.as_ptr() as u64;
        for segment in 0..SEGMENTS {
            memory[segment] = match random(8) {
                0 => 0,
                1 => 0xff,
                2 => random(256) as u8,
                _ => memory[segment.saturating_sub(1)].saturating_add(1),
            };
        }
        let mut at = SEGMENTS;
        while at < memory.len() {
            let piece = PIECES[random(PIECES.len())];
            let length = piece.len().min(memory.len() - at);
            memory[at..at + length].copy_from_slice(&piece[..length]);
            at += length;
        }
        let heap = CodeHeap {
            low: base + SEGMENTS as u64,
            segment_map: base,
            interpreter_start: base + 10_000,
            interpreter_end: base + 11_000,
            segment_shift: 5,
            header: [8, 16][round % 2],
            frame_size_at: 0,
            frame_complete_at: 4,
            frame_complete_bytes: [2, 4][round % 2],
            code_at: 8,
            code_by_offset: (round % 2) as u8,
            constant_at: 0,
            code_size_at: 0,
            constant_bytes: 0,
            compile_id_at: 20,
            pad: [0; 4],
        };
        for start in (SEGMENTS + 8..memory.len() - 16).step_by(32) {
            let start = start + usize::from(heap.header) - 8;
            let frame = [0, 1, 6, 40, 0x7fff, 0x8000, -1][random(7)];
            memory[start..start + 4].copy_from_slice(&i32::to_le_bytes(frame));
            let complete = [-1, 0, 10, 40, 500][random(5)];
            memory[start + 4..start + 8].copy_from_slice(&i32::to_le_bytes(complete));
            let code = match heap.code_by_offset {
                0 => base + start as u64 + 16,
                _ => 16,
            };
            memory[start + 8..start + 16].copy_from_slice(&code.to_le_bytes());
        }
        for _ in 0..500 {
            let pc = base + random(memory.len() + 64) as u64;
            let returned = random(4) == 0;
            let ours = dwell_hotspot::code_row(&Ours, &heap, pc, returned);
            let theirs = native.compiled_row(&heap, pc, returned);
            *kinds.entry((ours.kind, ours.cfa_off8 > 2)).or_default() += 1;
            assert_eq!(ours, theirs, "at {pc:#x} in {heap:x?}");
        }
    }
    println!("{kinds:?}");
    assert!(kinds[&(KIND_SP, true)] > 1000 && kinds[&(KIND_SP, false)] > 1000);
}
