//! Scripts whose probes are partly inside the process and partly in the kernel, on a program that counts its calls.

use crate::common::{Running, StolenMeter, dwell, near_but_stolen, program};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

/// What a script on `places ROUNDS THREADS` said.
struct Said {
    /// Calls by function, as the program has it.
    truth: BTreeMap<String, u64>,
    /// The other lines.
    lines: Vec<String>,
    errors: String,
    code: Option<i32>,
}

fn run(engine: &str, text: &str, rounds: u32, threads: u32) -> Said {
    let command = format!("{} {rounds} {threads}", program("places"));
    let mut dwell = dwell(&["trace", "-v", "-q"]);
    if engine != "auto" {
        dwell.args(["--engine", engine]); // else what is chosen without it
    }
    dwell.args(["-n", text, "-c"]);
    let output = dwell.arg(command).output().expect("dwell runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    let (out, errors) = (text(output.stdout), text(output.stderr));
    assert!(!errors.contains("drop"), "{errors}");
    let known = ["outer ", "tiny ", "tiny_next ", "tail ", "leaf "];
    let is_truth = |line: &&str| known.iter().any(|name| line.starts_with(name));
    let (truth, lines): (Vec<&str>, Vec<&str>) = out.lines().partition(|line| is_truth(line));
    let truth = truth.iter().filter_map(|line| line.split_once(' '));
    let lines = lines.iter().filter(|line| !line.trim().is_empty());
    Said {
        truth: truth
            .map(|(name, calls)| (name.to_owned(), calls.parse().expect("a number")))
            .collect(),
        lines: lines.map(|line| line.to_string()).collect(),
        errors,
        code: output.status.code(),
    }
}

/// Lines of a name and a number.
fn table(lines: &[String]) -> BTreeMap<String, u64> {
    let row = |line: &String| {
        let mut words = line.split_whitespace();
        let (name, count) = (words.next()?.to_owned(), words.next()?.parse().ok()?);
        Some((name, count))
    };
    let rows = lines
        .iter()
        .map(|line| row(line).unwrap_or_else(|| panic!("{lines:?}")));
    rows.collect()
}

fn of(truth: &BTreeMap<String, u64>, names: &[&str]) -> BTreeMap<String, u64> {
    let wanted = truth
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()));
    wanted.map(|(name, calls)| (name.clone(), *calls)).collect()
}

const ALL: [&str; 5] = ["outer", "tiny", "tiny_next", "tail", "leaf"];

/// One place without room for a jump takes none of the others with it.
#[test]
#[ignore = "needs root"]
fn each_probe_goes_where_it_can() {
    let text = "pid$target:places:outer:entry, pid$target:places:tiny:entry, pid$target:places:tiny_next:entry,
        pid$target:places:tail:entry, pid$target:places:leaf:entry { @[probefunc] = count(); }";
    let both = run("auto", text, 3000, 3);
    assert_eq!(both.code, Some(0), "{}", both.errors);
    let told = "4 probes are inside the process, 1 in the kernel";
    assert!(both.errors.contains(told), "{}", both.errors);
    let why = "it is too short for a 5-byte jump: places:tiny:entry";
    assert!(both.errors.contains(why), "{}", both.errors);
    assert_eq!(table(&both.lines), of(&both.truth, &ALL));
    assert_eq!(both.truth["tiny"], 9000);
    let kernel = run("kernel", text, 3000, 3);
    assert_eq!(table(&kernel.lines), of(&kernel.truth, &ALL));
}

/// Aggregating functions keep their parts in two engines, and the whole is what one engine has.
#[test]
#[ignore = "needs root"]
fn sums_of_both_engines_are_one() {
    let text = "pid$target:places:tiny:entry, pid$target:places:leaf:entry {
            @a[\"count\"] = count(); @b[\"sum\"] = sum(arg0); @c[\"least\"] = min(arg0 + 5); @d[\"most\"] = max(arg0);
            @e[\"mean\"] = avg(arg0); @f[\"spread\"] = stddev(arg0); @g = quantize(arg0);
            @h = lquantize(arg0, 0, 1000, 100); @i = llquantize(arg0, 10, 0, 3, 10); }";
    let [both, kernel] = ["auto", "kernel"].map(|engine| run(engine, text, 900, 2));
    assert!(
        both.errors
            .contains("1 probes are inside the process, 1 in the kernel"),
        "{}",
        both.errors
    );
    assert_eq!(both.lines, kernel.lines);
    assert!(both.lines.len() > 30, "{:?}", both.lines);
}

/// The records of both come in the order in which things happened.
#[test]
#[ignore = "needs root"]
fn records_of_both_engines_are_in_order() {
    let text = "BEGIN { printf(\"begin\\n\"); } END { printf(\"end\\n\"); }
        pid$target:places:outer:entry, pid$target:places:tiny:entry, pid$target:places:tiny_next:entry {
            printf(\"called: %s %d\\n\", probefunc, arg0); }";
    const ROUNDS: u32 = 400;
    let both = run("auto", text, ROUNDS, 1);
    assert!(both.errors.contains("1 in the kernel"), "{}", both.errors);
    let calls = (0..ROUNDS)
        .flat_map(|n| ["outer", "tiny", "tiny_next"].map(|name| format!("called: {name} {n}")));
    let all = ["begin".to_owned()]
        .into_iter()
        .chain(calls)
        .chain(["end".to_owned()]);
    let expected: Vec<String> = all.collect();
    let kernel = run("kernel", text, ROUNDS, 1);
    assert_eq!(kernel.lines, expected);
    assert_eq!(both.lines, expected);
}

/// What probes share stays in one place; a variable that only BEGIN sets is known in both.
#[test]
#[ignore = "needs root"]
fn variables_are_the_same_in_both_engines() {
    let shared =
        "pid$target:places:tiny:entry { calls++; } pid$target:places:leaf:entry { calls++; }
        END { printf(\"calls %d\\n\", calls); }";
    let said = run("auto", shared, 500, 1);
    assert_eq!(
        said.lines,
        [format!("calls {}", said.truth["tiny"] + said.truth["leaf"])]
    );
    assert!(
        said.errors.contains("all probes are in the kernel"),
        "{}",
        said.errors
    );
    assert!(
        said.errors.contains("it shares variables"),
        "{}",
        said.errors
    );
    let settled = "BEGIN { limit = 7; word = \"few\"; }
        pid$target:places:tiny:entry, pid$target:places:outer:entry /arg0 < limit/ { @[strjoin(word, probefunc)] = count(); }";
    let said = run("auto", settled, 500, 2);
    assert!(said.errors.contains("1 in the kernel"), "{}", said.errors);
    let counts = table(&said.lines);
    assert_eq!(counts["fewtiny"], 14);
    assert_eq!(counts["fewouter"], 14);
    let threads = "pid$target:places:outer:entry { self->n = arg0 + 1; }
        pid$target:places:leaf:entry /self->n/ { @[\"pairs\"] = count(); self->n = 0; }
        pid$target:places:tiny:entry { @[\"tiny\"] = count(); }";
    let said = run("auto", threads, 500, 2);
    assert!(said.errors.contains("1 in the kernel"), "{}", said.errors);
    let counts = table(&said.lines);
    assert_eq!((counts["pairs"], counts["tiny"]), (1000, 1000));
    assert_eq!(said.truth["tiny"], 1000);
}

/// A return that happens in another function's place is the kernel's, and so is that function's entry.
#[test]
#[ignore = "needs root"]
fn functions_are_in_one_engine() {
    let text = "pid$target:places:tail:entry, pid$target:places:tail:return, pid$target:places:outer:return {
        @[strjoin(probefunc, probename)] = count(); }";
    let said = run("auto", text, 500, 2);
    assert!(
        said.errors
            .contains("1 probes are inside the process, 2 in the kernel"),
        "{}",
        said.errors
    );
    let counts = table(&said.lines);
    assert_eq!(counts["tailentry"], said.truth["tail"]);
    assert_eq!(counts["tailreturn"], said.truth["tail"]);
    assert_eq!(counts["outerreturn"], said.truth["outer"]);
}

/// With the process alone, what cannot be patched is left out by name, and only if nothing is left is it an error.
#[test]
#[ignore = "needs root"]
fn places_that_cannot_be_patched_are_left_out_and_named() {
    let text =
        "pid$target:places:tiny:entry, pid$target:places:outer:entry { @[probefunc] = count(); }";
    let said = run("process", text, 500, 1);
    assert_eq!(said.code, Some(0), "{}", said.errors);
    assert!(
        said.errors.contains("1 of 2 probes are left out"),
        "{}",
        said.errors
    );
    assert!(
        said.errors.contains("too short") && said.errors.contains("places:tiny:entry"),
        "{}",
        said.errors
    );
    assert_eq!(table(&said.lines), of(&said.truth, &["outer"]));
    let said = run(
        "process",
        "pid$target:places:tiny:entry { @ = count(); }",
        500,
        1,
    );
    assert_eq!(said.code, Some(1), "{}", said.errors);
    assert!(
        said.errors.contains("too short") && said.errors.contains("remedy"),
        "{}",
        said.errors
    );
}

/// The process that runs a program: one that was just started, or a child of its.
fn running(started: u32, name: &str) -> u32 {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        let children = std::fs::read_to_string(format!("/proc/{started}/task/{started}/children"));
        let children = children.expect("it runs");
        for pid in format!("{started} {children}").split_whitespace() {
            let exe = std::fs::read_link(format!("/proc/{pid}/exe"));
            if exe.is_ok_and(|exe| exe.ends_with(name)) {
                return pid.parse().expect("a number");
            }
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{started} has not become or started {name}");
}

/// A process has one tracer at a time: where a debugger is that, all is in the kernel.
#[test]
#[ignore = "needs root"]
fn what_a_debugger_has_is_traced_from_the_kernel() {
    let mut command = Command::new("gdb");
    command.args(["-q", "-nx", "-batch", "-ex", "run", "--args"]);
    command.args([&program("places"), "1000000000", "1"]);
    let gdb = Running::start(&mut command);
    let places = running(gdb.pid(), "places").to_string();
    let text = "pid$target::outer:entry { @ = count(); } tick-500ms { exit(0); }";
    let output = dwell(&["trace", "-v", "-q", "-p", &places, "-n", text]).output();
    let output = output.expect("dwell runs");
    let [out, errors] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).expect("text"));
    assert!(errors.contains("all probes are in the kernel"), "{errors}");
    let why = format!("is traced by process {}", gdb.pid());
    assert!(errors.contains(&why), "{errors}");
    assert!(out.trim().parse::<u64>().is_ok_and(|n| n > 100), "{out}");
}

/// Memory that a process may not have is not needed in the kernel.
#[test]
#[ignore = "needs root"]
fn what_may_have_no_more_memory_is_traced_from_the_kernel() {
    let mut command = Command::new("prlimit");
    command.args(["--as=100000000", &program("places"), "1000000000", "1"]);
    let places = Running::start(&mut command);
    let pid = running(places.pid(), "places").to_string();
    let trace = |sums: &str| {
        let text = format!("pid$target::outer:entry {{ {sums} }} tick-500ms {{ exit(0); }}");
        let output = dwell(&["trace", "-v", "-q", "-p", &pid, "-n", &text]).output();
        let output = output.expect("dwell runs");
        [output.stdout, output.stderr].map(|b| String::from_utf8(b).expect("text"))
    };
    let [out, errors] = trace("@[arg0 & 1] = count();");
    assert!(errors.contains("all probes are in the kernel"), "{errors}");
    let why = "its limit of address space is 95 MiB, of which it uses";
    assert!(errors.contains(why), "{errors}");
    let count = |line: &str| line.split_whitespace().last()?.parse::<u64>().ok();
    let counts: Vec<u64> = out.lines().filter_map(count).collect();
    assert!(counts.len() == 2 && counts[0] > 100, "{out}");
    // What needs little room has it.
    let [out, errors] = trace("@ = quantize(arg0); n++;");
    assert!(!errors.contains("in the kernel: "), "{errors}");
    assert!(
        errors.contains("1 probes are inside the process")
            || errors.contains("all probes are inside"),
        "{errors}"
    );
    assert!(out.contains("Distribution"), "{out}");
}

/// Hung up on, a script gives the process its own code back.
#[test]
#[ignore = "needs root"]
fn a_script_ends_with_its_terminal() {
    let places = Running::start(Command::new(program("places")).args(["1000000000", "1"]));
    let maps = || {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", places.pid()));
        maps.expect("it lives")
    };
    let text = "pid$target::outer:entry { @ = count(); }";
    let pid = places.pid().to_string();
    // Its threads have their stacks by then.
    std::thread::sleep(Duration::from_millis(500));
    let before = maps();
    let mut traced = dwell(&["trace", "-q", "-p", &pid, "-n", text]);
    let traced = traced.stdout(std::process::Stdio::piped()).spawn();
    let traced = traced.expect("dwell starts");
    let start = Instant::now();
    while maps().lines().count() < before.lines().count() + 3 {
        assert!(start.elapsed() < Duration::from_secs(20), "{}", maps());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(300));
    // SAFETY: a process of ours.
    unsafe { libc::kill(traced.id() as i32, libc::SIGHUP) };
    let output = traced.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let out = String::from_utf8(output.stdout).expect("text");
    assert!(out.trim().parse::<u64>().is_ok_and(|n| n > 100), "{out}");
    assert_eq!(maps(), before);
}

/// A program that forbids itself system calls would be ended by those of probes inside it: they rest, and it is told.
#[test]
#[ignore = "needs root"]
fn a_process_that_forbids_itself_system_calls_lives() {
    const ROUNDS: u64 = 300;
    let text = "pid$target:confined:work:entry { @[\"calls\"] = count(); }";
    let traced = |engine: &str, way: &str| {
        let command = format!("{} {ROUNDS} {way}", program("confined"));
        let mut dwell = dwell(&["trace", "-q", "--engine", engine, "-n", text, "-c"]);
        let output = dwell.arg(command).output().expect("dwell runs");
        let text = |bytes| String::from_utf8(bytes).expect("text");
        let (out, errors) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(0), "{errors}");
        assert!(
            out.contains(&format!("before {ROUNDS}\nin all {}\n", 2 * ROUNDS)),
            "{out}"
        );
        let counted = out.lines().filter(|line| line.contains("calls"));
        (
            table(&counted.map(str::to_owned).collect::<Vec<_>>()),
            errors,
        )
    };
    for way in ["prctl", "syscall"] {
        let (counts, errors) = traced("process", way);
        assert_eq!(counts["calls"], ROUNDS, "{way}");
        assert!(errors.contains("seccomp"), "{errors}");
        assert!(errors.contains("remedy: --engine kernel"), "{errors}");
        let (counts, errors) = traced("kernel", way);
        assert_eq!(counts["calls"], 2 * ROUNDS, "{way}");
        assert!(!errors.contains("seccomp"), "{errors}");
    }
}

/// A thread's number, what `vtimestamp` was, and how long the thread had run by its own clock.
fn thread_times(engine: &str, threads: u32) -> BTreeMap<u64, Vec<(u64, u64)>> {
    let text = "pid$target:cputime:mark:entry { printf(\"%d %d %d\\n\", tid, vtimestamp, arg0); }";
    let command = format!("{} 300 {threads}", program("cputime"));
    let mut dwell = dwell(&["trace", "-q", "--engine", engine, "-n", text, "-c"]);
    let output = dwell.arg(command).output().expect("dwell runs");
    let [out, errors] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).expect("text"));
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let mut times: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for line in out.lines().filter(|line| !line.is_empty()) {
        let words: Vec<u64> = line
            .split(' ')
            .map(|word| word.parse().expect("a number"))
            .collect();
        times
            .entry(words[0])
            .or_default()
            .push((words[1], words[2]));
    }
    assert_eq!(times.len() as u32, threads, "{errors}");
    assert!(times.values().all(|of| of.len() == 300), "{errors}");
    times
}

/// What a thread has run, while it sleeps and while others have its processor, is what its own clock says.
#[test]
#[ignore = "needs root"]
fn the_time_of_a_thread_is_its_own_in_both_engines() {
    /// From reading its clock to the probe, and what the host of a virtual machine takes, which one may count.
    const NEAR_NS: u64 = 20_000;
    for engine in ["kernel", "process"] {
        let stolen = StolenMeter::start();
        let all_times = thread_times(engine, 3);
        let stolen_ns = stolen.ns();
        for (tid, times) in all_times {
            let mut off: Vec<u64> = Vec::new();
            for pair in times.windows(2) {
                let [(before, truth_before), (after, truth)] = [pair[0], pair[1]];
                assert!(after > before, "{engine}: {tid}: {after} after {before}");
                off.push((after - before).abs_diff(truth - truth_before));
            }
            off.sort_unstable();
            let (median, most) = (off[off.len() / 2], off[off.len() * 9 / 10]);
            println!("{engine}: {tid}: off by {median} ns, nine in ten by {most} at most");
            assert!(median < NEAR_NS / 4 && most < NEAR_NS, "{engine}: {off:?}");
            let (first, last) = (times[0], times[times.len() - 1]);
            let ran = last.1 - first.1;
            let all = last.0 - first.0;
            assert!(
                near_but_stolen(all, ran, 0.01, 0, stolen_ns),
                "{engine}: {tid}: {all} of {ran}, stolen {stolen_ns}"
            );
        }
    }
}

/// In a system call that sleeps, next to none of a thread's time passes.
#[test]
#[ignore = "needs root"]
fn a_system_call_that_sleeps_takes_no_time_of_its_thread() {
    let text = "syscall::clock_nanosleep:entry /pid == $target/ { self->ran = vtimestamp; self->at = timestamp; }
        syscall::clock_nanosleep:return /self->at/ { @[\"ran\"] = sum(vtimestamp - self->ran);
            @[\"passed\"] = sum(timestamp - self->at); @[\"calls\"] = sum(1); }";
    let command = format!("{} 300 2", program("cputime"));
    let mut dwell = dwell(&["trace", "-q", "-n", text, "-c"]);
    let output = dwell.arg(command).output().expect("dwell runs");
    let [out, errors] = [output.stdout, output.stderr].map(|b| String::from_utf8(b).expect("text"));
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let lines = out.lines().filter(|line| !line.trim().is_empty());
    let sums = table(&lines.map(str::to_owned).collect::<Vec<_>>());
    let calls = sums["calls"];
    assert_eq!(calls, 200, "{sums:?}");
    assert!(sums["passed"] > calls * 1_000_000, "{sums:?}");
    assert!(sums["ran"] < calls * 50_000, "{sums:?}");
}
