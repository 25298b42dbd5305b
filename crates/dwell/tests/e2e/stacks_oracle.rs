//! Stacks of threads held blocked, frame by frame against `eu-stack`, which is another unwinder of
//! another project, reads the same memory by ptrace, and has its own symbols.

use crate::stacks_support::*;
use dwell_recording::Tables;
use dwell_recording::rows::{MappingRow, SampleRow};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A frame of `eu-stack`.
#[derive(Debug, PartialEq)]
struct Truth {
    /// Actual address; of the call for a return address, as `dwell` has it.
    address: u64,
    /// Name of the function, when eu-stack knows one.
    name: Option<String>,
}

/// The stacks of all threads of a process, innermost frame first.
fn eu_stack(pid: u32) -> HashMap<u32, Vec<Truth>> {
    let output = Command::new("eu-stack")
        .args(["-a", "-r", "-n", "0", "-p", &pid.to_string()])
        .output()
        .expect("eu-stack (package elfutils) is needed for this test");
    let mut threads: HashMap<u32, Vec<Truth>> = HashMap::new();
    let mut tid = 0;
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(number) = line.strip_prefix("TID ") {
            tid = number.trim_end_matches(':').parse().expect("a tid");
            threads.insert(tid, Vec::new());
        } else if let Some(frame) = line.strip_prefix('#') {
            // #N 0xADDRESS [- 1] [NAME]
            let mut words = frame.split_whitespace().skip(1).peekable();
            let address = words.next().and_then(|w| w.strip_prefix("0x"));
            let address = address.and_then(|w| u64::from_str_radix(w, 16).ok());
            let mut address = address.expect("an address");
            if words.next_if_eq(&"-").is_some() {
                words.next();
                address -= 1;
            }
            let name: Vec<&str> = words.collect();
            threads.get_mut(&tid).expect("a thread first").push(Truth {
                address,
                name: (!name.is_empty()).then(|| name.join(" ")),
            });
        }
    }
    threads
}

/// The loadable segments of an ELF file: offset, stated address, size.
fn segments(path: &str) -> Vec<(u64, u64, u64)> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    if bytes.len() < 64 {
        return Vec::new();
    }
    (0..half(56))
        .map(|i| word(32) as usize + i * half(54))
        .filter(|&header| bytes[header..header + 4] == 1u32.to_le_bytes())
        .map(|header| (word(header + 8), word(header + 16), word(header + 32)))
        .collect()
}

/// Actual addresses into stated ones of modules, by what a recording says is mapped where.
struct Addresses<'a> {
    mappings: Vec<&'a MappingRow>,
    segments: HashMap<&'a str, Vec<(u64, u64, u64)>>,
}

impl<'a> Addresses<'a> {
    fn of(tables: &'a Tables, process: u32) -> Self {
        let mappings: Vec<_> = tables
            .mappings
            .iter()
            .filter(|m| m.process == process)
            .collect();
        let segments = mappings
            .iter()
            .filter(|m| m.path.starts_with('/'))
            .map(|m| (m.path.as_str(), segments(&m.path)))
            .collect();
        Addresses { mappings, segments }
    }

    fn stated(&self, actual: u64) -> (String, u64) {
        let mapping = self
            .mappings
            .iter()
            .rev()
            .find(|m| (m.start..m.end).contains(&actual));
        let Some(m) = mapping else {
            return ("[unknown]".into(), actual);
        };
        let offset = actual - m.start + m.file_offset;
        let segment = self.segments.get(m.path.as_str()).and_then(|list| {
            list.iter()
                .find(|(at, _, size)| (*at..at + size).contains(&offset))
        });
        // The vDSO is mapped as stated, from 0.
        let stated = segment.map_or(offset, |(at, stated, _)| offset - at + stated);
        (m.path.clone(), stated)
    }
}

/// What a comparison came to.
#[derive(Debug, Default)]
struct Tally {
    /// Threads, and whether one of their stacks could be compared: if `dwell` has no stack with the
    /// same innermost frame, they ran on meanwhile.
    threads: HashMap<u32, bool>,
    frames: usize,
    wrong: usize,
    names: usize,
    wrong_names: usize,
}

/// Whether two names may be the same function: eu-stack has names as the linker knows them, cuts
/// nothing and prefers other aliases (`read`, `__GI___libc_read`).
fn same_function(dwell: &str, eu_stack: &str) -> bool {
    fn core(name: &str) -> &str {
        let name = name.split(['@', '(', '.']).next().unwrap_or(name);
        let name = name.trim_start_matches('_');
        let name = name.strip_prefix("GI_").unwrap_or(name);
        let name = name.trim_start_matches('_');
        let name = name.strip_prefix("libc_").unwrap_or(name);
        name.trim_start_matches('_').trim_end_matches("_impl")
    }
    let (a, b) = (core(dwell), core(eu_stack));
    a == b || eu_stack.starts_with("_R") || eu_stack.starts_with("_Z")
}

/// CPython's function that executes bytecode.
const EVALUATOR: &str = "_PyEval_EvalFrameDefault";

/// Whether a frame is one of Python.
fn is_python(index: &Index<'_>, frame: u32) -> bool {
    index.frame(frame).kind == "jit" && !index.symbols(frame).is_empty()
}

/// Compares all threads of a process with a snapshot by eu-stack.
fn compare(what: &str, recorded: &Recorded, pid: u32, truth: &HashMap<u32, Vec<Truth>>) -> Tally {
    let tables = &recorded.tables;
    let index = Index::of(tables);
    let process = tables.processes.iter().find(|p| p.pid == pid);
    let process = process.expect("the process is recorded").process;
    let addresses = Addresses::of(tables, process);
    let mut tally = Tally::default();
    for (tid, truth) in truth {
        let Some(thread) = tables.threads.iter().find(|t| t.tid == *tid) else {
            let known: Vec<_> = tables.threads.iter().map(|t| (t.tid, &t.name)).collect();
            panic!("{what}: thread {tid} is not recorded: {known:?}");
        };
        tally.threads.insert(*tid, false);
        let stated: Vec<(String, u64)> =
            truth.iter().map(|f| addresses.stated(f.address)).collect();
        let taken: BTreeSet<u32> = tables
            .samples
            .iter()
            .filter(|s| s.thread == thread.thread && s.state == "blocked")
            .map(|s| s.stack)
            .collect();
        let mut best: Option<(usize, Vec<u32>)> = None;
        for stack in taken {
            let frames: Vec<u32> = index.stack(stack).frames.iter().rev().copied().collect();
            let mut user: Vec<u32> = frames
                .into_iter()
                .filter(|&f| index.frame(f).kind != "kernel")
                .collect();
            // Python's frames stand for the function that executes them, which is where eu-stack has it.
            user.dedup_by(|next, last| is_python(&index, *next) && is_python(&index, *last));
            let place = |(at, &f): (usize, &u32)| {
                let row = index.frame(f);
                let executes = truth.get(at).and_then(|truth| truth.name.as_deref());
                match stated.get(at) {
                    Some(place) if is_python(&index, f) && executes == Some(EVALUATOR) => {
                        place.clone()
                    }
                    _ => (row.module.clone(), row.address),
                }
            };
            let mine: Vec<(String, u64)> = user.iter().enumerate().map(place).collect();
            if mine.first() != stated.first() {
                continue;
            }
            let differ = mine.iter().zip(&stated).filter(|(a, b)| a != b).count();
            let wrong = differ + mine.len().abs_diff(stated.len());
            if best.as_ref().is_none_or(|(least, _)| wrong < *least) {
                best = Some((wrong, user));
            }
        }
        let Some((wrong, user)) = best else {
            continue;
        };
        tally.threads.insert(*tid, true);
        tally.frames += stated.len();
        tally.wrong += wrong;
        if wrong > 0 {
            let mine: Vec<String> = user.iter().map(|&f| index.name(f)).collect();
            eprintln!(
                "    {what}, thread {tid}: {wrong} frames differ:\n    {mine:?}\n    {truth:x?}"
            );
            continue;
        }
        for (frame, truth) in user.iter().zip(truth) {
            if is_python(&index, *frame) {
                continue;
            }
            let (Some(name), [.., symbol]) = (&truth.name, index.symbols(*frame)) else {
                continue;
            };
            tally.names += 1;
            if !same_function(&symbol.function, name) {
                tally.wrong_names += 1;
                eprintln!("    {what}: {} is {name} to eu-stack", symbol.function);
            }
        }
    }
    println!(
        "{what}: {} of {} threads compared, {} of {} frames differ, {} of {} names differ",
        tally.compared(),
        tally.threads.len(),
        tally.wrong,
        tally.frames,
        tally.wrong_names,
        tally.names
    );
    tally
}

impl Tally {
    fn compared(&self) -> usize {
        self.threads.values().filter(|compared| **compared).count()
    }

    fn add(&mut self, other: Tally) {
        for (tid, compared) in other.threads {
            *self.threads.entry(tid).or_default() |= compared;
        }
        self.frames += other.frames;
        self.wrong += other.wrong;
        self.names += other.names;
        self.wrong_names += other.wrong_names;
    }
}

/// Snapshots of a process before it is recorded, and most of them afterwards: on a busy machine a thread
/// is seldom where it waits.
const BEFORE: usize = 6;
const AFTER: usize = 24;

/// Records a process while its threads wait, takes snapshots by eu-stack, and compares. At least
/// `share` of the threads must be comparable.
fn check(what: &str, running: &Running, share: f64) {
    let pid = running.pid();
    // Not while it is recorded: eu-stack stops all threads, which is no wait of theirs. It also ends some
    // waits (epoll_wait returns EINTR), and the thread goes where it never was without: only where it was
    // seen before the recording and after it, it surely waited in between too. Not where it was also seen
    // with the same innermost frame and others behind it: it may have waited there all the time.
    let before: Vec<_> = (0..BEFORE).map(|_| eu_stack(pid)).collect();
    std::thread::sleep(Duration::from_millis(100));
    let recorded = attach(&[pid], 1.5);
    let lives = |tid: &u32| Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
    let mut total = Tally::default();
    for tid in before.iter().flat_map(HashMap::keys).filter(|t| lives(t)) {
        total.threads.insert(*tid, false);
    }
    for _ in 0..AFTER {
        let mut truth = eu_stack(pid);
        truth.retain(|tid, stack| {
            let mut waited_at = before.iter().filter_map(|b| b.get(tid));
            waited_at.clone().any(|b| b == stack)
                && waited_at.all(|b| b == stack || b.first() != stack.first())
        });
        total.add(compare(what, &recorded, pid, &truth));
        if total.compared() == total.threads.len() {
            break;
        }
    }
    assert!(
        total.compared() as f64 >= share * total.threads.len() as f64,
        "{what}: too few threads could be compared: {total:?}"
    );
    assert!(total.frames > 0, "{what}: nothing was compared");
    // At least 99.9 % of the frames are equal.
    assert!(total.wrong * 1000 <= total.frames, "{what}: {total:?}");
    // Aliases that the two programs choose differently are not all known here.
    assert!(total.wrong_names * 20 <= total.names, "{what}: {total:?}");
}

/// Threads that sleep throughout: `dwell` reads their stacks from outside.
#[test]
#[ignore = "needs root"]
fn threads_that_never_switch() {
    let (running, _) = Running::start_ready(Command::new(program("sleepers")).arg("60"));
    check("sleepers", &running, 1.0);
    drop(running);
    let (running, _) =
        Running::start_ready(Command::new(program("manythreads")).args(["pool", "200", "60"]));
    // Ten of its threads work now and then.
    check("manythreads", &running, 0.9);
    for (path, args) in [
        ("/usr/bin/python3", &["-c", PYTHON_WAITS, "600"][..]),
        (
            "/usr/bin/perl",
            &[
                "-e",
                "sub f { my $n = shift; $n ? f($n - 1) : sleep 600 } f(50)",
            ],
        ),
        (
            "/bin/bash",
            &[
                "-c",
                "f() { if [ $1 -gt 0 ]; then f $(($1-1)); else sleep 600 & wait; fi; }; f 20",
            ],
        ),
    ] {
        if installed(path) {
            let running = Running::start(Command::new(path).args(args));
            std::thread::sleep(Duration::from_millis(700));
            check(path, &running, 1.0);
        }
    }
}

const PYTHON_WAITS: &str = "
import sys, time, threading, select, socket, queue
pause = float(sys.argv[1])
a, b = socket.socketpair()
def sleeps():
    while True: time.sleep(pause)
def polls():
    while True: select.select([a], [], [], pause)
def callback(n):
    return sorted([2, 1], key=lambda x: time.sleep(pause)) if n == 0 else callback(n - 1)
def calls():
    while True: callback(30)
for f in (sleeps, polls, calls):
    threading.Thread(target=f, daemon=True).start()
threading.Event().wait()
";

/// Threads that wait again and again at the same place: their stacks are unwound in the kernel.
#[test]
#[ignore = "needs root"]
fn threads_that_wait_again_and_again() {
    let port = free_port().to_string();
    let commands: [(&str, &[&str]); 4] = [
        ("/usr/bin/python3", &["-c", PYTHON_WAITS, "0.05"]),
        (
            "/usr/bin/perl",
            &[
                "-e",
                "sub f { my $n = shift; $n ? f($n - 1) : select(undef, undef, undef, 0.05) } while (1) { f(50) }",
            ],
        ),
        (
            "/usr/bin/redis-server",
            &["--port", &port, "--save", "", "--bind", "127.0.0.1"],
        ),
        (
            "/usr/bin/python3",
            &["-c", "import time\nwhile True: time.sleep(0.02)"],
        ),
    ];
    for (path, args) in commands {
        if installed(path) {
            let running = Running::start(Command::new(path).args(args));
            std::thread::sleep(Duration::from_millis(700));
            check(&format!("{path} (switching)"), &running, 1.0);
        }
    }
    for (name, args, share) in [
        ("signals", &["asleep", "60"][..], 0.5),
        ("deep", &["recursion", "60"], 0.5),
        ("deep", &["frames", "60"], 0.5),
        ("deep", &["alloca", "60"], 0.5),
        ("realign", &["60"], 0.5),
        ("tokio-mix", &["60"], 0.5),
        ("chain", &["10000"], 0.5),
    ] {
        let running = Running::start(Command::new(program(name)).args(args));
        std::thread::sleep(Duration::from_millis(700));
        check(&format!("{name} {}", args.join(" ")), &running, share);
    }
}

/// The kernel functions that a thread waits in, innermost first, as the kernel tells them.
fn kernel_stack(pid: u32, tid: u32) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/stack")).unwrap_or_default();
    let function = |line: &str| {
        let place = line.strip_prefix("[<0>] ")?;
        Some(place.split('+').next()?.to_owned())
    };
    text.lines().filter_map(function).collect()
}

/// The same of a recorded stack.
fn recorded_kernel_stack(index: &Index, stack: u32) -> Vec<String> {
    let frames = index.stack(stack).frames.iter().rev();
    frames
        .filter(|&&f| index.frame(f).kind == "kernel")
        .map(|&f| index.name(f))
        .collect()
}

/// Looks that are taken at each thread's kernel stack, before it is recorded and after.
const LOOKS: usize = 300;
/// So often has a stack to be seen: one of a thread that runs meanwhile may be none.
const SEEN_LEAST: usize = 5;

/// Records a program whose threads wait again and again, and compares the kernel stacks of its waits with those that the
/// kernel tells.
fn check_kernel_stacks_of_waits(command: &mut Command) -> Recorded {
    let running = Running::start(command);
    std::thread::sleep(Duration::from_millis(300));
    let pid = running.pid();
    let threads: Vec<u32> = std::fs::read_dir(format!("/proc/{pid}/task"))
        .expect("its threads")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let mut seen: HashMap<Vec<String>, usize> = HashMap::new();
    let mut look = || {
        for _ in 0..LOOKS {
            for tid in &threads {
                *seen.entry(kernel_stack(pid, *tid)).or_default() += 1;
            }
        }
    };
    look();
    let recorded = attach(&[pid], 2.0);
    look();
    seen.retain(|stack, times| !stack.is_empty() && *times >= SEEN_LEAST);

    let index = Index::of(&recorded.tables);
    let blocked = recorded
        .tables
        .samples
        .iter()
        .filter(|s| s.state == "blocked");
    let (mut compared, mut wrong) = (0, 0);
    for sample in blocked {
        let mine = recorded_kernel_stack(&index, sample.stack);
        compared += 1;
        if !seen.contains_key(&mine) {
            wrong += 1;
            eprintln!("    not seen: {mine:?}");
        }
    }
    println!("{wrong} of {compared} kernel stacks were not seen; seen: {seen:?}");
    assert!(compared >= 50, "too few samples: {compared}");
    assert!(wrong * 50 <= compared, "{wrong} of {compared}");
    recorded
}

/// Waits that are too short for their stacks to be taken before: they are walked at the wait's end, by the kernel's tables.
/// Their wakers' are walked from our program on.
#[test]
#[ignore = "needs root"]
fn kernel_stacks_of_waits() {
    let mut switch = Command::new(program("pingpong"));
    let recorded = check_kernel_stacks_of_waits(switch.args(["switch", "60"]));
    let index = Index::of(&recorded.tables);
    let (mut wakers, mut complete) = (0, 0);
    for stack in recorded.tables.slices.iter().filter_map(|s| s.waker_stack) {
        let kernel = recorded_kernel_stack(&index, stack);
        wakers += 1;
        if kernel
            .last()
            .is_some_and(|f| f == "entry_SYSCALL_64_after_hwframe")
            && kernel.iter().any(|f| f == "ksys_write")
        {
            complete += 1;
        } else {
            eprintln!("    {kernel:?}");
        }
    }
    println!("{complete} of {wakers} stacks of wakers are complete");
    assert!(wakers >= 50, "too few wakers: {wakers}");
    assert!(complete * 50 >= wakers * 49, "{complete} of {wakers}");
}

/// Sleeps of half a ms: nearly all stacks are taken before, and walked from our program on.
const SLEEPER: &str = "
import time
while True:
    time.sleep(0.0005)
";

#[test]
#[ignore = "needs root"]
fn kernel_stacks_of_long_waits() {
    check_kernel_stacks_of_waits(Command::new("python3").args(["-c", SLEEPER]));
}

/// Records a program that is nearly always in the kernel: its stacks begin where the clock came upon it, and reach the entry.
/// Returns how many of them had a certain function.
fn check_kernel_stacks_of_running_threads(command: &mut Command, function: &str) -> usize {
    let running = Running::start(command);
    std::thread::sleep(Duration::from_millis(300));
    let recorded = attach(&[running.pid()], 2.0);
    let index = Index::of(&recorded.tables);
    let (mut in_kernel, mut complete, mut with_function) = (0, 0, 0);
    let is_running = |s: &&SampleRow| s.state == "running";
    for sample in recorded.tables.samples.iter().filter(is_running) {
        let kernel = recorded_kernel_stack(&index, sample.stack);
        let [innermost, .., outermost] = &kernel[..] else {
            continue;
        };
        in_kernel += 1;
        with_function += usize::from(kernel.iter().any(|f| f == function));
        if outermost == "entry_SYSCALL_64_after_hwframe" && !innermost.contains("hrtimer") {
            complete += 1;
        } else {
            eprintln!("    {kernel:?}");
        }
    }
    println!(
        "{complete} of {in_kernel} stacks in the kernel are complete; {with_function} with {function}"
    );
    assert!(in_kernel >= 50, "too few samples: {in_kernel}");
    assert!(complete * 50 >= in_kernel * 49, "{complete} of {in_kernel}");
    with_function
}

#[test]
#[ignore = "needs root"]
fn kernel_stacks_of_running_threads() {
    let mut dd = Command::new("dd");
    dd.args(["if=/dev/zero", "of=/dev/null", "bs=1M"]);
    assert!(check_kernel_stacks_of_running_threads(&mut dd, "ksys_read") >= 50);
}

/// Sends to itself: the kernel delivers on the way, on its stack for interrupts.
const SENDER: &str = "
import socket
listener = socket.create_server(('127.0.0.1', 0))
one = socket.create_connection(listener.getsockname())
other = listener.accept()[0]
while True:
    one.send(b'x')
    other.recv(1)
";

#[test]
#[ignore = "needs root"]
fn kernel_stacks_on_the_stack_of_interrupts() {
    let mut sender = Command::new("python3");
    sender.args(["-c", SENDER]);
    assert!(check_kernel_stacks_of_running_threads(&mut sender, "handle_softirqs") >= 20);
}
