//! `dwell record --locks`: what is counted is what the programs say they did, however the recording or
//! the program ends, and the program gets its own code back.

use crate::common::*;
use crate::puppets::{Puppet, assert_pristine};
use dwell_recording::Tables;
use dwell_recording::rows::{LockRow, StackRow};
use dwell_report::{LocksAnswer, Options};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Acquisitions, nested ones, failed tries, timeouts; by address.
type Counts = BTreeMap<u64, [u64; 4]>;

/// What a program says.
fn told(answer: &Value) -> Counts {
    let locks = answer.as_object().expect("an object").iter();
    locks
        .map(|(address, counts)| {
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16);
            let count = |n: usize| counts[n].as_u64().expect("a count");
            (address.expect("an address"), std::array::from_fn(count))
        })
        .collect()
}

/// What was counted of the locks that a program tells of.
fn counted(tables: &Tables, of: &Counts) -> Counts {
    let mut counts: Counts = of.keys().map(|lock| (*lock, [0; 4])).collect();
    for lock in &tables.locks {
        if let Some(sums) = counts.get_mut(&lock.address) {
            let more = [lock.acquired, lock.nested, lock.try_fails, lock.timeouts];
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum += more;
            }
        }
    }
    counts
}

/// The rise of every count.
fn rise(from: &Counts, to: &Counts) -> Counts {
    let of = |lock: &u64, n: usize| to[lock][n] - from[lock][n];
    to.keys()
        .map(|lock| (*lock, std::array::from_fn(|n| of(lock, n))))
        .collect()
}

#[track_caller]
fn assert_same(got: &Counts, wanted: &Counts) {
    let differ = wanted.iter().filter(|(lock, n)| got[lock] != **n);
    let lines: Vec<String> = differ
        .map(|(lock, n)| format!("{lock:#x}: {:?}, not {n:?}", got[lock]))
        .collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

fn sum(counts: &Counts, which: usize) -> u64 {
    counts.values().map(|c| c[which]).sum()
}

/// A recording begun on a puppet that then works for some ms; and what it says that it did meanwhile.
fn recording_of_work(
    scratch: &Scratch,
    target: &mut Puppet,
    ms: u64,
) -> (CountedRecording, Counts) {
    let before = told(&target.tell("p"));
    let recording = CountedRecording::start(scratch, &[target.pid()]);
    target.run();
    std::thread::sleep(Duration::from_millis(ms));
    let after = told(&target.tell("p"));
    (recording, rise(&before, &after))
}

fn is_patched(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    maps.contains("/dev/zero")
}

/// Ctrl-C in the middle of everything: the counts are those of the program between its parks.
#[test]
#[ignore = "needs root"]
fn a_running_process_is_counted_exactly_and_let_go() {
    let scratch = Scratch::new();
    let mut target = Puppet::start("mutexes", &["2"]);
    let before = told(&target.tell("p"));
    let recording = CountedRecording::start(&scratch, &[target.pid()]);
    assert!(is_patched(target.pid()));
    target.run();
    std::thread::sleep(Duration::from_millis(500));
    let after = told(&target.tell("p"));
    let tables = recording.interrupt();
    assert_pristine(target.pid());
    target.run();
    target.finish();

    let wanted = rise(&before, &after);
    assert_same(&counted(&tables, &wanted), &wanted);
    for which in 0..4 {
        assert!(sum(&wanted, which) > 0, "{which}: the program does that");
    }
    let [told] = &tables.meta.counted[..] else {
        panic!("{:?}", tables.meta.counted);
    };
    assert_eq!(
        (told.pid as i32, told.libc.as_str()),
        (target_pid(&tables), "glibc")
    );
    let detach = told.detach.expect("it lived on");
    assert!(told.attach.times > 0 && detach.times > 0);
    assert!(told.attach.threads > 8 && told.attach.longest_ns > 0 && detach.longest_ns > 0);
    println!("held: {:?}, {detach:?}", told.attach);
    assert_kinds(&tables);
    assert_nested_is_told(&tables);
}

/// What is acquired again by its holder is no acquisition, but it is told.
fn assert_nested_is_told(tables: &Tables) {
    let answer = LocksAnswer::build(tables, &Options::default());
    let counts = answer.lock_counts.expect("they were counted");
    let sum = |of: fn(&LockRow) -> u64| tables.locks.iter().map(of).sum::<u64>();
    assert!(counts.nested > 0);
    assert_eq!(
        (counts.acquired, counts.nested),
        (sum(|l| l.acquired), sum(|l| l.nested))
    );
    let of_recursive = |l: &LockRow| u64::from(l.mutex_type == "recursive") * l.nested;
    assert_eq!(counts.nested, sum(of_recursive));
}

fn target_pid(tables: &Tables) -> i32 {
    let process = tables.meta.counted[0].process;
    let row = tables.processes.iter().find(|p| p.process == process);
    row.expect("it is a process of the recording").pid as i32
}

/// What `mutexes` has of each kind.
fn assert_kinds(tables: &Tables) {
    let types: Vec<&str> = tables
        .locks
        .iter()
        .filter(|l| l.kind == "mutex" && l.acquired > 0)
        .map(|l| l.mutex_type.as_str())
        .collect();
    for wanted in [
        "normal",
        "recursive",
        "error_checking",
        "normal robust",
        "normal inherit",
    ] {
        assert!(types.contains(&wanted), "{wanted}: {types:?}");
    }
    let (start, end) = (tables.meta.start_ns, tables.meta.end_ns);
    for lock in &tables.locks {
        assert!(start < lock.since_ns && lock.since_ns < lock.until_ns && lock.until_ns <= end);
        assert!(lock.contended.expect("known of mutexes") <= lock.acquired);
    }
}

/// A program that ends by itself is counted from its first instruction to its end.
#[test]
#[ignore = "needs root"]
fn a_launched_command_is_counted_from_its_first_instruction_to_its_end() {
    const PAIRS: u64 = 3_000_001;
    let scratch = Scratch::new();
    let path = scratch.file("x.dwell");
    for name in ["mutexes", "mutexes-static"] {
        let mut command = dwell(&["record", "-q", "--locks", "-o", &path, "--"]);
        command.args([program(name).as_str(), "3", &PAIRS.to_string()]);
        let output = answered(&mut command, b"rq");
        let told =
            told(&serde_json::from_str(output.lines().nth(1).expect("counts")).expect("JSON"));
        let tables = load(&path);
        let mut got = counted(&tables, &told);
        // The first one in `main`, which the program does not count.
        let only: Vec<u64> = (got
            .iter()
            .filter(|(lock, c)| c[0] == 1 && told[lock][0] == 0))
        .map(|(lock, _)| *lock)
        .collect();
        assert_eq!(only.len(), 1, "{name}: what main does first");
        got.insert(only[0], [0; 4]);
        assert_same(&got, &told);
        assert_eq!(sum(&got, 0), 3 * PAIRS, "{name}");
        let counted = &tables.meta.counted[0];
        assert_eq!((counted.detach, counted.forgotten), (None, 0), "{name}");
    }
}

/// What a command prints that reads `input`.
fn answered(command: &mut std::process::Command, input: &[u8]) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("dwell runs");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(input)
        .expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{command:?}: {}", output.status);
    String::from_utf8(output.stdout).expect("text")
}

/// A process that is killed takes nothing with it; nor does a program that becomes another one.
#[test]
#[ignore = "needs root"]
fn a_killed_process_has_been_counted_to_its_end() {
    let scratch = Scratch::new();
    let mut target = Puppet::start("mutexes", &["2"]);
    let (recording, wanted) = recording_of_work(&scratch, &mut target, 300);
    drop(target); // by SIGKILL
    recording.dwell.end();
    let tables = load(&recording.path);
    assert_same(&counted(&tables, &wanted), &wanted);
    assert_eq!(tables.meta.counted[0].detach, None);
}

/// A dwell that is killed leaves a process that goes on, a recording that opens, and counts that are at
/// most a second old; the next dwell can count and restores everything.
#[test]
#[ignore = "needs root"]
fn a_killed_dwell_leaves_counts_and_a_sound_process() {
    let scratch = Scratch::new();
    let mut target = Puppet::start("mutexes", &["2"]);
    let (recording, wanted) = recording_of_work(&scratch, &mut target, 300);
    std::thread::sleep(Duration::from_millis(2500));
    recording.dwell.signal(libc::SIGKILL);
    let CountedRecording { dwell, path } = recording;
    drop(dwell);
    assert_same(&counted(&load(&path), &wanted), &wanted);
    target.run();
    std::thread::sleep(Duration::from_millis(50));

    let second = Scratch::new();
    let (again, wanted) = recording_of_work(&second, &mut target, 100);
    let tables = again.interrupt();
    assert_pristine(target.pid());
    assert_same(&counted(&tables, &wanted), &wanted);
    target.run();
    target.finish();
}

/// Two processes at once, one of which cannot be counted: it is recorded all the same, and named.
#[test]
#[ignore = "needs root"]
fn what_cannot_be_counted_is_named() {
    let scratch = Scratch::new();
    let target = Puppet::start("counted", &["2"]);
    let sleeper = Running::start(std::process::Command::new("sleep").arg("600"));
    let path = scratch.file("x.dwell");
    let mut command = dwell(&["record", "--locks", "--duration", "1s", "-o", &path]);
    for pid in [target.pid() as u32, sleeper.pid()] {
        command.arg("-p").arg(pid.to_string());
    }
    let output = command.output().expect("dwell runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("held process"), "{stderr}");
    let tables = load(&path);
    assert_eq!(tables.meta.counted.len(), 2);
    assert!(tables.locks.iter().any(|l| l.acquired > 1000));
    assert_pristine(target.pid());
    assert_pristine(sleeper.pid() as i32);

    // A program without a libc.
    if std::path::Path::new(&programs().join("gohot")).exists() {
        let path = scratch.file("go.dwell");
        let mut command = dwell(&["record", "--locks", "--duration", "1s", "-o", &path, "--"]);
        let output = command.arg(program("gohot")).output().expect("dwell runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("are not counted: "), "{stderr}");
        let tables = load(&path);
        assert_eq!(
            (tables.meta.counted[0].libc.as_str(), tables.locks.len()),
            ("", 0)
        );
        assert!(tables.meta.counted[0].missed[0].contains("pthread_mutex_lock"));
    }
}

/// glibc takes locks by the processor's transactions where it is asked to, and there not all can be counted; elsewhere
/// nothing is said of it.
#[test]
#[ignore = "needs root"]
fn elided_locks_are_told_of_where_there_are_any() {
    let scratch = Scratch::new();
    let missed = |elision: &str| {
        let path = scratch.file("x.dwell");
        let mut command = dwell(&["record", "--locks", "-o", &path, "--"]);
        // No program that looks for the owner in a mutex: elided ones have none.
        command.args([program("counted").as_str(), "10"]);
        command.env("GLIBC_TUNABLES", format!("glibc.elision.enable={elision}"));
        let output = command.output().expect("dwell runs");
        assert!(output.status.success(), "{output:?}");
        load(&path).meta.counted[0].missed.clone()
    };
    assert_eq!(missed("0"), Vec::<String>::new());
    let told = missed("1");
    assert_eq!(
        told.is_empty(),
        !is_x86_feature_detected!("rtm"),
        "{told:?}"
    );
}

/// A shell that becomes another program, as wrappers do: that one is counted from a moment on.
#[test]
#[ignore = "needs root"]
fn a_process_that_becomes_another_program_is_counted_on() {
    let scratch = Scratch::new();
    let path = scratch.file("x.dwell");
    let mut command = dwell(&["record", "-q", "--locks", "-o", &path, "--", "sh", "-c"]);
    let script = format!("read first; exec {} 2", program("counted"));
    let mut child = command
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("dwell runs");
    let mut input = child.stdin.take().expect("piped");
    std::thread::sleep(Duration::from_millis(300));
    input.write_all(b"go\n").expect("it reads");
    std::thread::sleep(Duration::from_millis(1500));
    input.write_all(b"q").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    let tables = load(&path);
    let [shell, program] = &tables.meta.counted[..] else {
        panic!("{:?}", tables.meta.counted);
    };
    assert_eq!((shell.pid, shell.process), (program.pid, program.process));
    assert_eq!((program.libc.as_str(), program.detach), ("glibc", None));
    let first = &program.missed.last().expect("its beginning");
    assert!(first.contains("before it was attached to"), "{first}");
    let most = tables.locks.iter().max_by_key(|l| l.acquired);
    let most = most.expect("counts");
    assert!(most.acquired > 10_000 && most.kind == "mutex", "{most:?}");
}

// ---- locks of the kernel ----

/// All places that waited for locks of the kernel.
fn kernel_locks(tables: &Tables) -> dwell_report::answer::KernelLocks {
    let options = Options {
        locks: usize::MAX,
        ..Options::default()
    };
    LocksAnswer::build(tables, &options)
        .kernel
        .expect("recorded")
}

/// Waits for locks of the kernel, against perf's count of the same events: a program meets at them while
/// both look.
fn kernel_mistakes() -> BTreeMap<String, String> {
    let scratch = Scratch::new();
    let mut target = Puppet::start("kernellocks", &["30000"]);
    let counts = scratch.file("perf");
    let mut perf = perf();
    perf.args(["stat", "-x,", "-e", "lock:contention_end", "-o", &counts]);
    let perf = Running::start(perf.arg("-p").arg(target.pid().to_string()));
    std::thread::sleep(Duration::from_millis(500));
    let recording = CountedRecording::start(&scratch, &[target.pid()]);
    target.run();
    let path = recording.path.clone();
    let tables = recording.interrupt();
    perf.signal(libc::SIGINT);
    let begin = Instant::now();
    let counted = loop {
        let text = std::fs::read_to_string(&counts).unwrap_or_default();
        let line = text.lines().find(|l| l.contains("contention_end"));
        if let Some(count) = line.and_then(|l| l.split(',').next()?.parse::<u64>().ok()) {
            break count;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "perf: {text}");
        std::thread::sleep(Duration::from_millis(50));
    };
    drop(perf);
    target.finish();

    let kernel = kernel_locks(&tables);
    println!(
        "{path}: {} waits, {} ns; perf: {counted}",
        kernel.waits, kernel.waited_ns
    );
    assert_eq!(kernel.lost, tables.meta.losses["kernel_lock_waits"]);
    assert_eq!(
        kernel.waits + kernel.lost,
        tables.meta.produced["kernel_lock_waits"]
    );
    let sum: u64 = tables.kernel_locks.iter().map(|l| l.waited_ns).sum();
    assert_eq!(sum, kernel.waited_ns);
    let mut wrong = BTreeMap::new();
    for (kind, caller) in [("rwsem write", "map"), ("mutex", "pipe")] {
        let is_it = |p: &&dwell_report::answer::KernelLockPlace| {
            p.kind == kind && p.caller.as_ref().is_some_and(|c| c.contains(caller))
        };
        let Some(place) = kernel.places.iter().find(is_it) else {
            // They may have missed each other, but not every time.
            let kinds: Vec<_> = kernel.places.iter().map(|p| (&p.kind, &p.caller)).collect();
            wrong.insert(kind.to_owned(), format!("only {kinds:?}"));
            continue;
        };
        assert!(place.waits > 0 && place.max_ns >= place.mean_ns && place.mean_ns > 0);
        assert!(place.frames.iter().all(|f| f.kernel) && place.frames.len() > 1);
    }
    if counted < 100 || !near(kernel.waits, counted, 0.03, 5) {
        wrong.insert(
            "waits".to_owned(),
            format!("{}, perf: {counted}", kernel.waits),
        );
    }
    wrong
}

#[test]
#[ignore = "needs root"]
fn waits_for_locks_of_the_kernel_are_those_that_perf_counts() {
    if installed("perf") {
        wrong_every_time("kernel locks", kernel_mistakes);
    }
}

/// Shares of waits by who wanted the lock.
fn shares(waits: impl Iterator<Item = (String, u64)>) -> BTreeMap<String, f64> {
    let mut by: BTreeMap<String, u64> = BTreeMap::new();
    for (caller, waits) in waits {
        *by.entry(caller).or_default() += waits;
    }
    let all: u64 = by.values().sum();
    let share = |n: u64| n as f64 / all as f64;
    by.into_iter()
        .map(|(caller, n)| (caller, share(n)))
        .collect()
}

/// Who wanted the spin locks that these processes waited for, by perf's stack of every wait.
fn spinners_by_perf(data: &str, pids: &[u32]) -> BTreeMap<String, f64> {
    let script = ["script", "-i", data, "-F", "pid,trace,ip,sym"];
    let output = perf().args(script).output().expect("perf runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let is_theirs = |event: &&str| {
        let pid = event.split_whitespace().next().map(str::parse);
        pid.is_some_and(|pid| pid.is_ok_and(|pid| pids.contains(&pid)))
    };
    let events = text.split("\n\n").filter(is_theirs);
    let spins = events.filter(|event| event.contains("(flags=SPIN)"));
    shares(spins.filter_map(|event| {
        let mut functions = event
            .lines()
            .skip(1)
            .filter_map(|l| l.split_whitespace().nth(1));
        let caller = functions.find(|f| !f.contains("spin") && !f.contains("contention"))?;
        Some((caller.to_owned(), 1))
    }))
}

/// Callers of whom dwell tells another share than perf.
fn mistakes_of_spinners() -> BTreeMap<String, String> {
    let scratch = Scratch::new();
    let (data, path) = (scratch.file("perf.data"), scratch.file("r.dwell"));
    let mut perf = perf();
    // With buffers of the usual size it loses some, and on a busy machine most, and does not say so.
    perf.args(["record", "-q", "-a", "-g", "-m", "8192"]);
    perf.args(["-e", "lock:contention_begin", "-o", &data, "--"]);
    perf.args([env!("CARGO_BIN_EXE_dwell"), "record", "--locks"])
        .args(["-o", &path, "--"]);
    let chat = ["bench", "sched", "messaging", "-t", "-g", "1", "-l", "5000"];
    let output = perf.arg("perf").args(chat).output().expect("perf runs");
    assert!(output.status.success(), "{output:?}");
    let tables = load(&path);
    let pids: Vec<u32> = tables.processes.iter().map(|p| p.pid).collect();
    let wanted = spinners_by_perf(&data, &pids);
    let places = kernel_locks(&tables).places;
    let spins = places.iter().filter(|p| p.kind == "spin");
    let told = shares(spins.filter_map(|p| Some((p.caller.clone()?, p.waits))));
    println!("perf: {wanted:?}\ndwell: {told:?}");
    assert!(wanted.len() > 3, "{wanted:?}");
    let mut wrong = BTreeMap::new();
    for (caller, share) in wanted {
        let told = told.get(&caller).copied().unwrap_or_default();
        if (told - share).abs() > 0.002 {
            wrong.insert(caller, format!("{told}, perf: {share}"));
        }
    }
    wrong
}

/// The stacks of who spins are mostly those of waits before, which look alike: what perf sees at every wait says how
/// they divide.
#[test]
#[ignore = "needs root"]
fn who_spins_in_the_kernel_is_told_by_stacks_of_few() {
    if installed("perf") {
        wrong_every_time("who spins in the kernel", mistakes_of_spinners);
    }
}

// ---- a real one ----

/// Stacks of threads that ran our code go on behind it, in who called the hooked function.
fn assert_stacks_pass_through_us(tables: &Tables) {
    let frame_of = |id: u32| tables.frames.iter().find(|f| f.frame == id);
    let is_ours = |id: &u32| frame_of(*id).is_some_and(|f| f.module == "[dwell]");
    let stack_of = |id: u32| tables.stacks.iter().find(|s| s.stack == id);
    let samples = tables.samples.iter().filter(|s| s.state == "running");
    let stacks: Vec<&StackRow> = samples.filter_map(|s| stack_of(s.stack)).collect();
    // Outermost first: who called is before us.
    let ours: Vec<Option<u32>> = stacks
        .iter()
        .filter_map(|s| {
            let at = s.frames.iter().position(is_ours)?;
            Some(at.checked_sub(1).map(|caller| s.frames[caller]))
        })
        .collect();
    let is_user = |id: u32| frame_of(id).is_some_and(|f| f.kind == "user");
    let callers = ours.iter().flatten().filter(|id| is_user(**id)).count();
    println!(
        "{} stacks of {} pass through us, {callers} go on",
        ours.len(),
        stacks.len()
    );
    assert!(!ours.is_empty() && ours.len() < stacks.len());
    assert!(
        callers * 10 >= ours.len() * 9,
        "{callers} of {}",
        ours.len()
    );
}

/// Memcached under load, counted while it serves: the lock that costs most has a name, those who waited
/// for it, those who released it, and its operations; memcached never errs and gets its code back.
#[test]
#[ignore = "needs root"]
fn the_worst_lock_of_a_busy_memcached_is_told_while_it_serves() {
    if !installed("memcached") {
        return;
    }
    let scratch = Scratch::new();
    let socket = scratch.file("socket");
    let mut server = std::process::Command::new("memcached");
    server.args(["-u", "root", "-t", "4", "-s", &socket]);
    let mut server = Running::start(&mut server);
    let begin = Instant::now();
    while !std::path::Path::new(&socket).exists() {
        assert!(begin.elapsed() < Duration::from_secs(20) && !server.ended());
        std::thread::sleep(Duration::from_millis(20));
    }
    let load = |seconds: &str| {
        let mut command = std::process::Command::new(program("cacheload"));
        command.args([socket.as_str(), seconds, "8"]);
        command.stdout(Stdio::piped()).spawn().expect("it starts")
    };
    let busy = load("6");
    std::thread::sleep(Duration::from_millis(500));
    let pid = server.pid().to_string();
    let recorded = record(&scratch, &["--locks", "--duration", "3s", "-p", &pid]);
    assert_pristine(server.pid() as i32);
    let served = busy.wait_with_output().expect("it ends");
    assert!(served.status.success(), "every answer was right");
    assert!(
        load("0.2").wait().expect("it ends").success(),
        "it serves on"
    );
    assert!(!server.ended());

    let tables = &recorded.tables;
    let told = &tables.meta.counted[0];
    println!(
        "held: {:?}, {:?}",
        told.attach,
        told.detach.expect("it serves on")
    );
    assert_stacks_pass_through_us(tables);
    let answer = LocksAnswer::build(tables, &Options::default());
    let counts = answer.lock_counts.as_ref().expect("counted");
    assert!(
        counts.acquired > 100_000 && counts.unwaited_locks > 0,
        "{counts:?}"
    );
    let worst = answer.locks.first().expect("threads waited for a lock");
    let names = (
        worst.process.as_str(),
        worst.runtime.as_str(),
        worst.kind.as_str(),
    );
    assert_eq!(names, ("memcached", "glibc", "mutex"));
    assert!(
        worst.acquired > Some(1000) && worst.contended > Some(0),
        "{worst:?}"
    );
    assert!(worst.acquired >= worst.contended && worst.waited_share < Some(1.0));
    let is_its = |frames: &[dwell_report::answer::Frame]| {
        frames.iter().any(|f| f.function.contains("memcached"))
    };
    assert!(is_its(&worst.waiters[0].frames), "{:?}", worst.waiters);
    assert!(is_its(&worst.blame[0].frames), "{:?}", worst.blame);
    assert_eq!(worst.blame[0].waker.kind, "thread", "{:?}", worst.blame);
    let output = dwell(&["locks", &recorded.path])
        .output()
        .expect("dwell runs");
    let text = String::from_utf8(output.stdout).expect("text");
    // As wide as the terminal is, lines are broken anywhere.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "acquisitions of",
        "No thread waited for",
        "not free",
        "released by",
        "a single waiter is not seen",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

/// A process that forbids itself system calls would be ended by those of the agent: there are none from then on, in
/// threads that are met for the first time as well.
#[test]
#[ignore = "needs root"]
fn a_process_that_forbids_itself_system_calls_is_counted() {
    const ROUNDS: u64 = 321;
    for way in ["prctl", "syscall"] {
        let scratch = Scratch::new();
        let recorded = launch(
            &scratch,
            &["--locks"],
            "confined",
            &[&ROUNDS.to_string(), way],
        );
        let taken = |lock: &LockRow| lock.acquired == 2 * ROUNDS;
        let locks = &recorded.tables.locks;
        assert!(locks.iter().any(taken), "{way}: {locks:?}");
    }
}

/// The same where it had done so before.
#[test]
#[ignore = "needs root"]
fn a_process_that_had_forbidden_itself_system_calls_is_counted() {
    let mut command = std::process::Command::new(program("confined"));
    command.args(["500", "prctl"]).stdout(Stdio::null());
    let mut target = command.spawn().expect("it starts");
    let status = format!("/proc/{}/status", target.id());
    let start = Instant::now();
    while !std::fs::read_to_string(&status).is_ok_and(|text| text.contains("Seccomp:\t2")) {
        assert!(start.elapsed() < Duration::from_secs(20), "no filter yet");
        std::thread::sleep(Duration::from_millis(10));
    }
    let scratch = Scratch::new();
    let recording = CountedRecording::start(&scratch, &[target.id() as i32]);
    let ended = target.wait().expect("it ends");
    let tables = recording.finish();
    assert!(ended.success(), "{ended}");
    let most = tables.locks.iter().map(|lock| lock.acquired).max();
    assert!(most > Some(500), "{most:?}");
}
