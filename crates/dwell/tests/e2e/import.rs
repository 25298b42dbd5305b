//! Imports of perf.data, end to end: what `perf script` says of a file next to the recording that
//! `dwell import` makes of it.
//!
//! `perf record` needs the tracing file system for tracepoints; where it is not mounted, it is for these
//! commands alone.

use crate::shared::*;
use dwell_analysis::index::Index;
use dwell_analysis::{Analysis, State};
use dwell_recording::Tables;
use dwell_recording::rows::{FrameRow, SampleRow, state};
use std::collections::{BTreeMap, HashMap};

/// Runs perf with these arguments; what it printed.
#[track_caller]
fn run_perf(args: &[&str]) -> String {
    let output = perf().args(args).output();
    let output = output.expect("unshare (package util-linux) runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "perf {args:?}: {stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Records `mixed` for a second, and imports the file.
#[track_caller]
fn recorded(scratch: &Scratch, options: &[&str]) -> (String, Tables) {
    let file = scratch.file("perf.data");
    let folder = scratch.file("");
    let mixed = program("mixed");
    let command = ["--", &mixed, "--seconds", "1", "--dir", &folder];
    run_perf(&[&["record", "-q", "-o", &file], options, &command].concat());
    let to = scratch.file("x.dwell");
    let imported = bare_dwell()
        .args(["import", &file, "-o", &to])
        .output()
        .expect("dwell runs");
    let stderr = String::from_utf8_lossy(&imported.stderr);
    assert!(imported.status.success(), "{stderr}");
    (file, load(&to))
}

/// A sample as perf prints it.
#[derive(Debug, Default)]
struct Printed {
    period: u64,
    /// Address and name, innermost first.
    frames: Vec<(u64, String)>,
}

/// What `perf script` prints of each sample of `cpu-clock`, by thread and time.
fn printed(file: &str) -> BTreeMap<(u32, u64), Printed> {
    let fields = "tid,time,event,period,ip,sym";
    let text = run_perf(&["script", "--ns", "--no-inline", "-i", file, "-F", fields]);
    let mut samples = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if line.starts_with('\t') {
            let Some(key) = current else { continue };
            let address = words.next().expect("an address");
            let name = words.next().unwrap_or_default();
            let sample: &mut Printed = samples.entry(key).or_default();
            let address = u64::from_str_radix(address, 16).expect("hex");
            sample.frames.push((address, name.into()));
        } else if line.contains("cpu-clock") {
            let tid: i64 = words.next().and_then(|w| w.parse().ok()).expect("a tid");
            // A thread that is being taken down has the tid -1.
            let Ok(tid) = u32::try_from(tid) else {
                current = None;
                continue;
            };
            let time = words.next().expect("a time").replace(['.', ':'], "");
            let key = (tid, time.parse().expect("ns"));
            let period = words.next().and_then(|w| w.parse().ok());
            let period = period.expect("a period");
            let sample = Printed {
                period,
                ..Printed::default()
            };
            assert!(samples.insert(key, sample).is_none(), "{key:?} twice");
            current = Some(key);
        } else {
            current = None;
        }
    }
    samples
}

/// What the names of one place have in common: glibc and the kernel have many for most of their functions,
/// and tables of symbols tell parts of functions (`.part.0`) apart that debug information does not.
fn plain(name: &str) -> &str {
    let mut name = name.split(['@', '(', '.']).next().unwrap_or(name);
    loop {
        let more = ["_", "GI_", "libc_", "pthread_", "vdso_", "pfx_"];
        let shorter = more.iter().find_map(|p| name.strip_prefix(p));
        let shorter = shorter.or(["64", "_l64"].iter().find_map(|p| name.strip_suffix(p)));
        match shorter {
            Some(rest) if !rest.is_empty() => name = rest,
            _ => return name,
        }
    }
}

struct Frames<'t> {
    tables: &'t Tables,
    index: Index,
}

impl<'t> Frames<'t> {
    fn of(tables: &'t Tables) -> Self {
        Frames {
            tables,
            index: Index::of(tables),
        }
    }

    /// The frames of a sample, innermost first, each with the name of the function that has its code.
    fn stack(&self, sample: &SampleRow) -> Vec<(&'t FrameRow, &'t str)> {
        let stack = self.index.stack(sample.stack).expect("a stack");
        let frames = self.tables.stacks[stack].frames.iter().rev();
        let frames = frames.map(|f| {
            let frame = &self.tables.frames[self.index.frame(*f).expect("a frame")];
            // What begins with a bracket is a place, which perf does not tell.
            let names = self.tables.symbols.iter();
            let names = names.filter(|s| s.frame == *f && !s.function.starts_with('['));
            let name = names.max_by_key(|s| s.depth);
            (frame, name.map_or("[unknown]", |s| &s.function))
        });
        frames.collect()
    }
}

/// Shares of what is compared that are the same.
#[derive(Debug, Default)]
struct Same {
    samples: usize,
    stacks: usize,
    frames: usize,
    names: usize,
}

/// Compares every sample of a recording with what perf says of it: weights exactly.
fn compare(tables: &Tables, printed: &BTreeMap<(u32, u64), Printed>) -> Same {
    let frames = Frames::of(tables);
    let tids: HashMap<u32, u32> = tables.threads.iter().map(|t| (t.thread, t.tid)).collect();
    let mut same = Same::default();
    let mut stacks: HashMap<u32, Vec<(&FrameRow, &str)>> = HashMap::new();
    let mut wrong: BTreeMap<(String, String), u32> = BTreeMap::new();
    for sample in tables.samples.iter().filter(|s| s.state == state::RUNNING) {
        let key = (tids[&sample.thread], sample.time_ns);
        let theirs = printed
            .get(&key)
            .unwrap_or_else(|| panic!("perf has no {key:?}"));
        assert_eq!(sample.weight_ns, theirs.period, "{key:?}");
        let ours = stacks
            .entry(sample.stack)
            .or_insert_with(|| frames.stack(sample));
        same.samples += 1;
        // The places: perf keeps return addresses where it walked by frame pointers.
        let at = |ours: &FrameRow, theirs: u64| {
            ours.address == theirs || ours.address.wrapping_add(1) == theirs
        };
        let both = || ours.iter().zip(&theirs.frames);
        let stack = ours.len() == theirs.frames.len()
            && both().all(|((frame, _), (address, _))| at(frame, *address));
        same.stacks += usize::from(stack);
        for ((frame, name), (address, their_name)) in both() {
            if !at(frame, *address) {
                break;
            }
            same.frames += 1;
            if plain(name) == plain(their_name) {
                same.names += 1;
            } else {
                let pair = ((*name).to_owned(), their_name.clone());
                *wrong.entry(pair).or_default() += 1;
            }
        }
    }
    let mut wrong: Vec<_> = wrong.into_iter().collect();
    wrong.sort_by_key(|w| std::cmp::Reverse(w.1));
    wrong.truncate(10);
    println!("{same:?}; other names: {wrong:?}");
    same
}

fn running_ns(tables: &Tables) -> u64 {
    let analysis = Analysis::of(tables);
    let entries = analysis.profile.entries.iter();
    let running = entries.filter(|e| matches!(e.state, State::Running | State::Spinning));
    running.map(|e| e.weight_ns).sum()
}

#[test]
#[ignore = "needs root"]
fn stacks_that_we_unwind_are_those_that_perf_unwinds() {
    if !installed("perf") {
        return;
    }
    let scratch = Scratch::new();
    let options = [
        "-F",
        "997",
        "-e",
        "cpu-clock",
        "--call-graph",
        "dwarf,16384",
    ];
    let (file, tables) = recorded(&scratch, &options);
    let printed = printed(&file);
    let same = compare(&tables, &printed);
    assert_eq!(same.samples, printed.len());
    let total: u64 = printed.values().map(|p| p.period).sum();
    assert_eq!(running_ns(&tables), total);
    assert!(same.samples > 500, "{same:?}");
    assert!(same.stacks * 100 >= same.samples * 95, "{same:?}");
    assert!(same.names * 100 >= same.frames * 99, "{same:?}");
    // Not a comparison of two that know nothing.
    let known = tables.symbols.iter().map(|s| s.function.as_str());
    let functions = ["play", "rebuild_index", "run_solver", "do_syscall_64"];
    let known: Vec<&str> = known.filter(|f| functions.contains(f)).collect();
    for function in functions {
        assert!(known.contains(&function), "{function} is in no stack");
    }
}

#[test]
#[ignore = "needs root"]
fn waits_are_those_between_the_switches_that_perf_prints() {
    if !installed("perf") {
        return;
    }
    let scratch = Scratch::new();
    let options = [
        "-g",
        "-a",
        "-m",
        "4096",
        "-e",
        "cpu-clock/freq=997/",
        "-e",
        "sched:sched_switch",
        "-e",
        "sched:sched_wakeup",
    ];
    let (file, tables) = recorded(&scratch, &options);
    // Not the names: whatever else runs here is sampled, too.
    let printed = printed(&file);
    let same = compare(&tables, &printed);
    assert!(same.samples > 500, "{same:?}");

    let text = run_perf(&[
        "script",
        "--ns",
        "-G",
        "-i",
        &file,
        "-F",
        "tid,cpu,time,event,trace",
    ]);
    let tids: HashMap<u32, u32> = tables.threads.iter().map(|t| (t.thread, t.tid)).collect();
    let slices: BTreeMap<(u32, u64), (u64, u64)> = tables
        .slices
        .iter()
        .map(|s| ((tids[&s.thread], s.start_ns), (s.blocked_ns, s.runnable_ns)))
        .collect();
    let (mut waits, mut wait_ns, mut found, mut woken) = (0, 0, 0, 0);
    for wait in waits_of(&text) {
        waits += 1;
        wait_ns += wait.end_ns - wait.start_ns;
        let Some((blocked, runnable)) = slices.get(&(wait.tid, wait.start_ns)) else {
            continue;
        };
        let woken_ns = match wait.preempted {
            true => wait.start_ns,
            false => wait.woken_ns.unwrap_or(wait.end_ns),
        };
        let parts = (woken_ns - wait.start_ns, wait.end_ns - woken_ns);
        if parts == (*blocked, *runnable) {
            found += 1;
            woken += usize::from(wait.woken_ns.is_some());
        } else {
            println!("{wait:?}: {blocked} + {runnable} ns");
        }
    }
    println!("{waits} waits, {wait_ns} ns; {found} found, {woken} with their waking");
    assert!(waits > 1000 && woken > 200);
    // All of them, but for what switches from the idle thread that some kernels do not tell make of a few.
    assert!(found * 1000 >= waits * 999, "{found} of {waits}");

    // The program's threads, and why they waited.
    let analysis = Analysis::of(&tables);
    let reasons: Vec<&str> = tables.sites.iter().map(|s| s.reason.as_str()).collect();
    for reason in ["lock", "sleep", "pipe"] {
        assert!(reasons.contains(&reason), "nobody waited for {reason}");
    }
    for (position, thread) in tables.threads.iter().enumerate() {
        let life = thread.until_ns - thread.start_ns;
        assert_eq!(thread.states_ns(), life, "{thread:?}");
        let told = analysis.profile.thread_times(position);
        assert_eq!(told.total(), life, "{thread:?}");
    }
}

/// `-F` holds for tracepoints, too: what lies between two switches of which only some are told is no wait.
#[test]
#[ignore = "needs root"]
fn sampled_switches_make_no_waits() {
    if !installed("perf") {
        return;
    }
    let scratch = Scratch::new();
    let options = ["-F", "997", "-g", "-a", "-e", "cpu-clock", "-e"];
    let (file, tables) = recorded(&scratch, &[&options[..], &["sched:sched_switch"]].concat());
    assert!(
        tables
            .slices
            .iter()
            .all(|s| s.blocked_ns == 0 && s.runnable_ns == 0)
    );
    assert!(
        tables
            .threads
            .iter()
            .all(|t| t.blocked_ns == 0 && t.running_ns == t.until_ns - t.start_ns)
    );
    let again = scratch.file("y.dwell");
    let imported = bare_dwell()
        .args(["import", &file, "-o", &again])
        .output()
        .expect("dwell runs");
    let stderr = String::from_utf8_lossy(&imported.stderr);
    assert!(stderr.contains("sched_switch was sampled"), "{stderr}");
}

/// A stay off the processor, as perf's lines tell it.
#[derive(Debug)]
struct Wait {
    tid: u32,
    start_ns: u64,
    end_ns: u64,
    woken_ns: Option<u64>,
    preempted: bool,
}

/// Every stay off the processor whose beginning and end are there, without a switch that must be missing.
fn waits_of(text: &str) -> Vec<Wait> {
    let mut waits = Vec::new();
    let mut off: HashMap<u32, Wait> = HashMap::new();
    for line in text.lines() {
        let (head, rest) = line.split_once("sched:").unwrap_or((line, ""));
        let mut words = head.split_whitespace();
        let tid: u32 = words.next().and_then(|w| w.parse().ok()).unwrap_or(0);
        let time = words.nth(1).unwrap_or_default().replace(['.', ':'], "");
        let Ok(time_ns) = time.parse::<u64>() else {
            continue;
        };
        let number = |key: &str| {
            let value = rest.split(key).nth(1)?.split(' ').next()?;
            value.parse::<u32>().ok()
        };
        if rest.starts_with("sched_wakeup:") {
            let woken = number(" pid=").expect("a pid");
            if let Some(wait) = off.get_mut(&woken) {
                wait.woken_ns = wait.woken_ns.or(Some(time_ns));
            }
        } else if rest.starts_with("sched_switch:") {
            let preempted = rest.contains("prev_state=R");
            let wait = Wait {
                tid,
                start_ns: time_ns,
                end_ns: 0,
                woken_ns: None,
                preempted,
            };
            // A thread that leaves twice must have come back in between: nobody knows when.
            off.insert(tid, wait);
            let next = number(" next_pid=").expect("a pid");
            if let Some(mut wait) = off.remove(&next).filter(|w| w.tid != 0) {
                wait.end_ns = time_ns;
                waits.push(wait);
            }
        }
    }
    waits
}

#[test]
#[ignore = "needs root"]
fn records_of_switches_tell_waits_without_the_whole_system() {
    if !installed("perf") {
        return;
    }
    let scratch = Scratch::new();
    let options = [
        "-F",
        "997",
        "-g",
        "-m",
        "1024",
        "--switch-events",
        "-e",
        "cpu-clock",
        "-e",
        "sched:sched_switch",
    ];
    let (_, tables) = recorded(&scratch, &options);
    let names: Vec<&str> = tables.threads.iter().map(|t| t.name.as_str()).collect();
    let sleeper = tables.threads.iter().find(|t| t.name == "reporter");
    let sleeper = sleeper.unwrap_or_else(|| panic!("no reporter among {names:?}"));
    let life = sleeper.until_ns - sleeper.start_ns;
    assert!(life > 800_000_000, "{sleeper:?}");
    assert!(sleeper.blocked_ns * 2 > life, "{sleeper:?}");
    let sites = tables.sites.iter().filter(|s| s.thread == sleeper.thread);
    let sites: Vec<_> = sites
        .map(|s| (s.reason.as_str(), s.syscall.as_str()))
        .collect();
    assert!(sites.contains(&("sleep", "clock_nanosleep")), "{sites:?}");

    // Without them only the stacks are there, and it is said why.
    let other = Scratch::new();
    let file = other.file("perf.data");
    let command = ["--", "sleep", "0.05"];
    let options = [
        "record",
        "-q",
        "-g",
        "-o",
        &file,
        "-e",
        "cpu-clock",
        "-e",
        "sched:sched_switch",
    ];
    run_perf(&[&options[..], &command].concat());
    let to = other.file("x.dwell");
    let output = bare_dwell().args(["import", &file, "-o", &to]).output();
    let stderr = String::from_utf8_lossy(&output.expect("dwell runs").stderr).into_owned();
    assert!(stderr.contains("--switch-events"), "{stderr}");
    assert!(load(&to).slices.is_empty());
}
