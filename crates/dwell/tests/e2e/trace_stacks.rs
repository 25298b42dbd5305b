//! `ustack()` on programs without frame pointers and symbols, compared with the programs' known calls, and with
//! eu-stack.

use crate::common::{dwell, installed};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn walked() -> String {
    let programs =
        std::env::var("DWELL_TEST_PROGRAMS").expect("DWELL_TEST_PROGRAMS, see the Makefile");
    PathBuf::from(programs).join("walked").display().to_string()
}

/// A stack and how often it was met.
#[derive(Debug)]
struct Stack {
    frames: Vec<String>,
    count: u64,
}

impl Stack {
    /// Names of functions of `walked`, without what is above `main`.
    fn functions(&self) -> Vec<&str> {
        let own = self.frames.iter().filter_map(|f| f.strip_prefix("walked`"));
        let names = own.map(|f| f.split_once("+0x").map_or(f, |(name, _)| name));
        names.filter(|name| *name != "_start").collect()
    }

    fn is_whole(&self) -> bool {
        !self.frames.iter().any(|frame| frame.starts_with("[stack"))
    }
}

/// What a script says that counts by `ustack()`.
fn stacks(arguments: &[&str]) -> Vec<Stack> {
    let mut all = vec!["trace", "--engine", "kernel", "-q"];
    all.extend(arguments);
    let Output {
        stdout,
        stderr,
        status,
    } = dwell(&all).output().expect("dwell runs");
    let errors = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{errors}");
    assert!(!errors.contains("drop"), "{errors}");
    parse(&String::from_utf8(stdout).expect("text"))
}

fn parse(text: &str) -> Vec<Stack> {
    let mut stacks = Vec::new();
    let mut frames = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match line.parse() {
            Ok(count) => stacks.push(Stack {
                frames: std::mem::take(&mut frames),
                count,
            }),
            Err(_) => frames.push(line.to_owned()),
        }
    }
    stacks
}

/// The same of a run of `walked`.
fn of_walked(script: &str, mode: &str) -> Vec<Stack> {
    stacks(&["-n", script, "-c", &format!("{} {mode}", walked())])
}

#[test]
#[ignore = "needs root"]
fn equal_stacks_are_one_key() {
    let found = of_walked(
        "pid$target:walked:leaf:entry { @[ustack()] = count(); }",
        "calls 1000",
    );
    let [stack] = &found[..] else {
        panic!("one stack: {found:#?}");
    };
    assert_eq!(stack.count, 1000);
    assert_eq!(stack.functions(), ["leaf", "middle", "outer", "main"]);
    assert!(stack.is_whole(), "{stack:#?}");
    assert_eq!(stack.frames[0], "walked`leaf");
    // main's callers: two functions of the C library, and where the program begins.
    let above = &stack.frames[4..];
    assert_eq!(above.len(), 3, "{above:?}");
    assert!(
        above[1].starts_with("libc.so.6`__libc_start_main+"),
        "{above:?}"
    );
    assert!(above[2].starts_with("walked`_start+"), "{above:?}");
}

#[test]
#[ignore = "needs root"]
fn an_action_prints_what_a_key_would() {
    let script = "pid$target:walked:leaf:entry { ustack(3); printf(\"1\\n\"); }";
    let found = of_walked(script, "calls 5");
    assert_eq!(found.len(), 5);
    for stack in &found {
        assert_eq!(stack.functions(), ["leaf", "middle", "outer"], "{stack:#?}");
        assert!(stack.is_whole());
    }
}

#[test]
#[ignore = "needs root"]
fn stacks_are_whole_at_every_instruction() {
    // Those where no instruction begins, or where the kernel's probes are not safe, match nothing.
    let places: Vec<String> = (0..64)
        .map(|offset| format!("pid$target:walked:leaf:{offset:x}"))
        .collect();
    let script = format!("{} {{ @[ustack()] = count(); }}", places.join(", "));
    let command = format!("{} calls 7", walked());
    let found = stacks(&["-Z", "-n", &script, "-c", &command]);
    assert!(found.len() > 3, "{found:#?}");
    for stack in &found {
        assert_eq!(
            stack.functions(),
            ["leaf", "middle", "outer", "main"],
            "{stack:#?}"
        );
        assert!(stack.is_whole() && stack.count == 7, "{stack:#?}");
    }
}

/// The kernel learns of returns by replacing return addresses: stacks show those that were there.
#[test]
#[ignore = "needs root"]
fn probed_returns_do_not_cut_stacks() {
    let others =
        "pid$target:walked:middle:return, pid$target:walked:outer:return { @n = count(); }";
    let script = |at: &str| {
        format!(
            "pid$target:walked:leaf:{at} {{ @[ustack()] = count(); }} {others} END {{ clear(@n); trunc(@n); }}"
        )
    };
    let found = of_walked(&script("entry"), "calls 20");
    let [stack] = &found[..] else {
        panic!("one stack: {found:#?}");
    };
    assert_eq!(stack.functions(), ["leaf", "middle", "outer", "main"]);
    assert!(stack.is_whole() && stack.count == 20, "{stack:#?}");
    let found = of_walked(&script("return"), "calls 20");
    let [stack] = &found[..] else {
        panic!("one stack: {found:#?}");
    };
    assert_eq!(stack.functions(), ["middle", "outer", "main"]);
    assert!(stack.is_whole() && stack.count == 20, "{stack:#?}");
}

#[test]
#[ignore = "needs root"]
fn system_calls_show_who_made_them() {
    let script = "syscall::getppid:entry /pid == $target/ { @[ustack()] = count(); }";
    let found = of_walked(script, "calls 50");
    let [stack] = &found[..] else {
        panic!("one stack: {found:#?}");
    };
    assert!(
        stack.frames[0].starts_with("libc.so.6`syscall+"),
        "{stack:#?}"
    );
    assert_eq!(stack.functions(), ["leaf", "middle", "outer", "main"]);
    assert!(stack.is_whole() && stack.count == 50, "{stack:#?}");
}

#[test]
#[ignore = "needs root"]
fn children_are_walked_whoever_they_are() {
    // Which processes this can meet only the kernel knows: all are followed.
    let script = "syscall::getppid:entry /execname == \"walked\"/ { @[ustack()] = count(); }";
    let found = of_walked(script, "fork 3");
    let [stack] = &found[..] else {
        panic!("one stack: {found:#?}");
    };
    assert_eq!(stack.functions(), ["leaf", "middle", "outer", "main"]);
    assert!(stack.is_whole() && stack.count == 3, "{stack:#?}");
}

#[test]
#[ignore = "needs root"]
fn samples_show_where_time_goes() {
    let script = "profile-997 /pid == $target/ { @[ustack()] = count(); }";
    let found = of_walked(script, "spin 500");
    let spinning: Vec<_> = found
        .iter()
        .filter(|stack| stack.functions().first() == Some(&"spin"))
        .collect();
    let count = spinning.iter().map(|stack| stack.count).sum::<u64>();
    assert!(count > 250, "{count} of about 500: {found:#?}");
    for stack in spinning {
        assert_eq!(stack.functions(), ["spin", "outer", "main"]);
        assert!(stack.is_whole(), "{stack:#?}");
    }
}

/// The names are asked for when the command is over and its memory gone.
#[test]
#[ignore = "needs root"]
fn code_of_languages_has_its_name_when_its_process_is_over() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs");
    for (language, program, arguments, expected) in [
        ("python", "python3", "frames.py busy 1", "most"),
        ("javascript", "node", "frames.js busy 1", "most"),
        ("java", "java", "Frames.java 1", "Frames.mix"),
    ] {
        if !installed(program) {
            continue;
        }
        let script = "profile-499 /pid == $target/ { @[ustack()] = count(); }";
        let found = stacks(&[
            "-n",
            script,
            "-c",
            &format!("{program} {folder}/{arguments}"),
        ]);
        let prefix = format!("{language}`");
        let (mut named, mut gone, mut expected_there) = (0, 0, false);
        for frame in found.iter().flat_map(|stack| &stack.frames) {
            match frame.strip_prefix(&prefix) {
                Some("[gone]") => gone += 1,
                Some(name) => {
                    named += 1;
                    expected_there |= name.contains(expected);
                }
                None => {}
            }
        }
        println!("{language}: {named} frames named, {gone} gone");
        assert!(expected_there, "{language}: {found:#?}");
        // A few are over before they are looked at: those of modules that are imported, and what has been compiled anew.
        assert!(gone * 20 <= named, "{language}: {named} named, {gone} gone");
    }
}

#[test]
#[ignore = "needs root"]
fn deep_stacks_end_where_asked() {
    let frames = |ask: &str, option: &[&str]| {
        let script = format!("pid$target:walked:leaf:entry {{ @[ustack({ask})] = count(); }}");
        let command = format!("{} deep 300", walked());
        let mut arguments = vec!["-n", script.as_str(), "-c", &command];
        arguments.extend(option);
        let found = stacks(&arguments);
        assert_eq!(found.len(), 1);
        assert!(found[0].is_whole(), "{:?}", found[0]);
        let recursions = found[0]
            .functions()
            .iter()
            .filter(|f| **f == "recurse")
            .count();
        (found[0].frames.len(), recursions)
    };
    // leaf, recurse 300 times, outer, main, and what is above it.
    assert_eq!(frames("1000", &[]), (306, 300));
    assert_eq!(frames("306", &[]), (306, 300));
    assert_eq!(frames("200", &[]), (200, 199));
    assert_eq!(frames("", &[]), (100, 99));
    assert_eq!(frames("", &["-x", "ustackframes=20"]), (20, 19));
}

#[test]
#[ignore = "needs root"]
fn stacks_lead_through_signal_frames_and_callbacks() {
    let script = "pid$target:walked:leaf:entry { @[ustack()] = count(); }";
    let found = of_walked(script, "signal");
    let [stack] = &found[..] else {
        panic!("one stack: {found:#?}");
    };
    assert_eq!(
        stack.functions(),
        ["leaf", "handler", "interrupted", "outer", "main"]
    );
    assert!(stack.is_whole(), "{stack:#?}");
    let found = of_walked(script, "sort");
    assert!(!found.is_empty());
    for stack in &found {
        assert_eq!(
            stack.functions(),
            ["leaf", "compare", "sort", "outer", "main"]
        );
        assert!(stack.is_whole(), "{stack:#?}");
    }
}

#[test]
#[ignore = "needs root"]
fn libraries_loaded_later_are_known() {
    let script = "syscall::clock_nanosleep:entry /pid == $target/ { @[ustack()] = count(); }";
    let found = of_walked(script, "late 20");
    let whole = found.iter().filter(|stack| stack.is_whole());
    let whole: Vec<_> = whole
        .filter(|stack| stack.functions() == ["load", "outer", "main"])
        .collect();
    let count: u64 = whole.iter().map(|stack| stack.count).sum();
    assert_eq!(count, 20, "{found:#?}");
    for stack in whole {
        let inside = stack
            .frames
            .iter()
            .any(|f| f.starts_with("liblate_a.so`late_a+"));
        assert!(inside, "{stack:#?}");
    }
}

/// A process that is ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Return addresses as eu-stack finds them in a process with one thread; none of CPython's function that executes bytecode.
fn eu_stack(pid: u32) -> Vec<Option<u64>> {
    let output = Command::new("eu-stack")
        .args(["-p", &pid.to_string()])
        .output();
    let text = String::from_utf8(output.expect("eu-stack, of elfutils").stdout).expect("text");
    let frames = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next()?.strip_prefix('#')?;
        let address = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        let executes = words.next() == Some("_PyEval_EvalFrameDefault");
        Some((!executes).then_some(address))
    });
    frames.collect()
}

/// Where a file is mapped first.
fn base(pid: u32, file: &str) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let line = maps
        .lines()
        .find(|line| line.ends_with(&format!("/{file}")));
    let start = line
        .and_then(|line| line.split_once('-'))
        .expect("mapped")
        .0;
    u64::from_str_radix(start, 16).expect("an address")
}

#[test]
#[ignore = "needs root"]
fn an_interpreter_of_the_distribution_is_walked_as_eu_stack_walks_it() {
    let program = "import time\ndef f(n):\n  if n: f(n - 1)\n  while True: time.sleep(0.3)\n\
                   sorted([1], key=lambda _: f(5))";
    let python = Command::new("/usr/bin/python3")
        .args(["-c", program])
        .stdout(Stdio::null())
        .spawn();
    let python = Running(python.expect("python3"));
    std::thread::sleep(Duration::from_millis(500));
    let pid = python.0.id();
    let script = "syscall::clock_nanosleep:entry /pid == $target/ { @[ustack(500)] = count(); } \
                  tick-2s { exit(0); }";
    let found = stacks(&["-x", "noresolve", "-n", script, "-p", &pid.to_string()]);
    let [stack] = &found[..] else {
        panic!("one stack: {found:#?}");
    };
    assert!(stack.is_whole(), "{stack:#?}");
    let addresses = stack.frames.iter().map(|frame| {
        let (module, offset) = frame.split_once(":0x").expect("a module");
        let offset = || u64::from_str_radix(offset, 16).expect("an offset");
        (module != "python").then(|| base(pid, module) + offset())
    });
    let mut ours: Vec<Option<u64>> = addresses.collect();
    // Python's frames stand for the function that executes them.
    let python = ours.iter().filter(|frame| frame.is_none()).count();
    assert_eq!(python, 8, "{stack:#?}");
    ours.dedup_by(|next, last| next.is_none() && last.is_none());
    assert_eq!(ours, eu_stack(pid));
    assert!(ours.len() > 10);
}
