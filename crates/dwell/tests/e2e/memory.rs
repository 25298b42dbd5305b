//! `dwell record --memory`: what is counted is what the kernel and the programs say, and times add up to what the kernel
//! accounts.

use crate::common::*;
use dwell_analysis::Analysis;
use dwell_analysis::memory::{Component, Ledger, ledger};
use dwell_recording::Tables;
use dwell_recording::rows::MemoryPlaceRow;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;

/// A recording of `zeropage`, and what it says of itself: one line per process.
struct Zeropage {
    tables: Tables,
    truth: Vec<Value>,
    stolen_ns: u64,
}

fn zeropage(args: &[&str]) -> Zeropage {
    let scratch = Scratch::new();
    let truth = scratch.file("truth");
    let args = [args, &["--truth", &truth]].concat();
    let recorded = launch(&scratch, &["--memory"], "zeropage", &args);
    let lines = fs::read_to_string(&truth).expect("the program told");
    let truth = lines
        .lines()
        .map(|l| serde_json::from_str(l).expect("JSON"));
    let found = Zeropage {
        tables: recorded.tables,
        truth: truth.collect(),
        stolen_ns: recorded.stolen_ns,
    };
    found.assert_sound();
    found
}

impl Zeropage {
    /// What holds of every recording.
    fn assert_sound(&self) {
        for row in &self.tables.memory_places {
            assert_eq!(kinds(row), row.minor_faults + row.major_faults, "{row:?}");
            assert!(
                row.zeroed_pages + row.zeroed_huge_pages <= row.allocated_pages,
                "{row:?}"
            );
        }
        let losses = &self.tables.meta.losses;
        assert_eq!(losses["memory_stacks"], 0);
        // Now and then a thread that no program may see takes the processor from the midst of a call: what
        // was freed until the next event may be of either.
        assert!(losses["memory_sums"] <= 4, "{losses:?}");
        let ledger = self.ledger();
        let running: u64 = self.tables.threads.iter().map(|t| t.running_ns).sum();
        assert_eq!(
            ledger.program_ns + ledger.memory_ns + ledger.other_kernel_ns,
            running
        );
        assert_eq!(ledger.components.values().sum::<u64>(), ledger.memory_ns);
    }

    fn ledger(&self) -> Ledger {
        ledger(&Analysis::of(&self.tables)).expect("recorded")
    }

    /// Sums over the places that have this function on a stack.
    fn in_function(&self, function: &str, of: fn(&MemoryPlaceRow) -> u64) -> u64 {
        let view = View::of(&self.tables);
        let is_in = |row: &&MemoryPlaceRow| {
            let mut stacks = row.stacks.iter().filter_map(|id| view.stack(*id));
            stacks.any(|stack| view.contains(stack, function))
        };
        self.tables.memory_places.iter().filter(is_in).map(of).sum()
    }

    /// Sums over all places of the process of a line of the truth.
    fn of_process(&self, truth: &Value, of: fn(&MemoryPlaceRow) -> u64) -> u64 {
        let pid = number(truth, "pid") as u32;
        let process = self.tables.processes.iter().find(|p| p.pid == pid);
        let process = process.expect("recorded").process;
        let places = self.tables.memory_places.iter();
        places.filter(|p| p.process == process).map(of).sum()
    }
}

fn kinds(row: &MemoryPlaceRow) -> u64 {
    [
        row.anonymous_faults,
        row.copied_faults,
        row.file_faults,
        row.stack_faults,
        row.huge_faults,
        row.populated_faults,
        row.other_faults,
    ]
    .into_iter()
    .sum()
}

/// Sum of numbers of a file of the kernel's, of the lines that begin so.
fn kernel_counts(path: &str, begin: &str) -> u64 {
    let text = fs::read_to_string(path).expect(path);
    let lines = text.lines().filter(|l| l.trim_start().starts_with(begin));
    let words = lines.flat_map(|l| l.split_whitespace().skip(1));
    words.filter_map(|w| w.parse::<u64>().ok()).sum()
}

#[test]
#[ignore = "needs root"]
fn faults_are_those_that_getrusage_counts_and_their_kinds_are_known() {
    type Kind = fn(&MemoryPlaceRow) -> u64;
    let cases: [(&[&str], &str, Kind, u64); 7] = [
        (&["map", "20000"], "touch", |p| p.anonymous_faults, 20_000),
        (
            &["map", "500", "64"],
            "touch",
            |p| p.anonymous_faults,
            32_000,
        ),
        (
            &["populate", "500", "64"],
            "get",
            |p| p.populated_faults,
            32_000,
        ),
        (
            &["dontneed", "500", "64"],
            "touch",
            |p| p.anonymous_faults,
            32_000,
        ),
        (&["huge", "50", "2"], "touch", |p| p.huge_faults, 100),
        (&["cow", "50", "64"], "touch", |p| p.copied_faults, 50 * 64),
        (
            &["malloc", "500", "64"],
            "touch",
            |p| p.anonymous_faults,
            32_000,
        ),
    ];
    for (args, function, kind, wanted) in cases {
        let found = zeropage(args);
        let truth = &found.truth[0];
        let minor = found.of_process(truth, |p| p.minor_faults);
        let counted = found.in_function(function, kind);
        println!("{args:?}: {counted} in {function}, {minor} of {truth}");
        // What came before main() and after its last look is little.
        let [in_loop, at_end] = ["minor", "minor_at_end"].map(|n| number(truth, n));
        assert!(
            (in_loop..=at_end + 200).contains(&minor),
            "{args:?}: {minor}"
        );
        let (major, in_loop) = (
            found.of_process(truth, |p| p.major_faults),
            number(truth, "major"),
        );
        assert!(
            (in_loop..=in_loop + 200).contains(&major),
            "{args:?}: {major}"
        );
        // malloc touches its own words itself; a huge page may not be had.
        let slack = match args[0] {
            "malloc" => wanted / 50,
            "huge" => wanted / 10,
            "cow" => 64,
            _ => 0,
        };
        assert!(
            counted.abs_diff(wanted) <= slack,
            "{args:?}: {counted}, not {wanted}"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn pages_and_calls_are_counted_exactly() {
    let before = kernel_counts("/proc/vmstat", "pgalloc_");
    let found = zeropage(&["map", "20000", "4"]);
    let outside = kernel_counts("/proc/vmstat", "pgalloc_") - before;
    let truth = &found.truth[0];
    // No page but those: a page table may be needed on the way, which is cleared too.
    let touched = found.in_function("touch", |p| p.allocated_pages);
    assert!((80_000..80_000 + 20_000).contains(&touched), "{touched}");
    assert_eq!(found.in_function("touch", |p| p.zeroed_pages), touched);
    // Not where they are unmapped: the kernel keeps some in use for a while. What unmapping itself takes, for page
    // tables that go, is freed by an interrupt.
    let freed = found.of_process(truth, |p| p.freed_pages);
    let allocated = found.of_process(truth, |p| p.allocated_pages);
    assert!(
        (touched - 64..=allocated).contains(&freed),
        "{touched} touched, {freed} of {allocated} freed"
    );
    assert_eq!(found.in_function("give_back", |p| p.calls), 20_000);
    assert_eq!(found.in_function("get", |p| p.calls), 20_000);
    // The machine's: not less than the program saw in its loop, nor more than there was around it.
    let machine = found
        .tables
        .meta
        .memory
        .as_ref()
        .expect("recorded")
        .machine_allocated_pages;
    let inside = number(truth, "machine_allocated");
    println!("{inside} <= {machine} <= {outside}");
    assert!(inside <= machine && machine <= outside);
    assert!(found.of_process(truth, |p| p.allocated_pages) <= machine);
}

/// What is wrong about times, by name.
fn time_mistakes(args: &[&str]) -> BTreeMap<String, String> {
    let found = zeropage(args);
    let ledger = found.ledger();
    let sum = |name| found.truth.iter().map(|t| number(t, name)).sum::<u64>();
    let [system, cpu] = ["system_ns", "cpu_ns"].map(sum);
    let kernel = ledger.memory_ns + ledger.other_kernel_ns;
    println!(
        "{args:?}: kernel {kernel}, memory {}, {} samples; by getrusage {system} of {cpu}; stolen {}",
        ledger.memory_ns, ledger.samples, found.stolen_ns
    );
    let mut wrong = BTreeMap::new();
    for (what, actual, wanted) in [
        ("running", ledger.running_ns, cpu),
        ("kernel", kernel, system),
        ("memory", ledger.memory_ns, system),
    ] {
        // What the program does beside its loop: it starts, and ends.
        if !near(actual, wanted, 0.05, 20 * MS) {
            wrong.insert(what.to_owned(), format!("{actual}, not {wanted}"));
        }
    }
    let clearing = ledger
        .components
        .get(&Component::Clearing)
        .copied()
        .unwrap_or(0);
    let (cached, uncached) = ledger.clearing_modelled_ns.expect("measured");
    println!("{args:?}: clearing {clearing}, modelled {cached} to {uncached}");
    // Of what makes less than five samples none may be there.
    let is_sampled = cached >= 20 * MS;
    if is_sampled && (clearing < cached / 2 || clearing > uncached * 2) {
        wrong.insert(
            "clearing".to_owned(),
            format!("{clearing}, modelled {cached} to {uncached}"),
        );
    }
    wrong
}

#[test]
#[ignore = "needs root"]
fn the_cost_of_a_page_is_that_of_getrusage() {
    wrong_every_time("map", || {
        time_mistakes(&["map", "800000", "--processes", "2"])
    });
    wrong_every_time("dontneed", || time_mistakes(&["dontneed", "4000", "256"]));
}

/// In each way that a program gets pages and gives them back, few and many at a time.
#[test]
#[ignore = "needs root"]
fn the_cost_of_a_page_is_that_of_getrusage_in_every_way() {
    for (way, rounds, pages) in [
        ("map", "10000", "32"),
        ("map", "1500", "512"),
        ("populate", "200000", "1"),
        ("populate", "1500", "512"),
        ("dontneed", "400000", "1"),
        ("dontneed", "40000", "16"),
        ("free", "600000", "1"),
        ("free", "40000", "256"),
        ("huge", "8000", "1"),
        ("huge", "2000", "4"),
        ("malloc", "200000", "1"),
        ("malloc", "3000", "256"),
        ("file", "20000", "256"),
    ] {
        wrong_every_time(way, || time_mistakes(&[way, rounds, pages]));
    }
}

#[test]
#[ignore = "needs root"]
fn shootdowns_are_charged_to_who_asks_for_them() {
    const ROUNDS: u64 = 20_000;
    let before = kernel_counts("/proc/interrupts", "TLB:");
    let found = zeropage(&["shoot", "20000"]);
    let obeyed = kernel_counts("/proc/interrupts", "TLB:") - before;
    let [asked, remote, ns] = [
        found.in_function("give_back", |p| p.shootdowns),
        found.in_function("give_back", |p| p.remote_flushes),
        found.in_function("give_back", |p| p.remote_ns),
    ];
    println!("{asked} asked for, {remote} obeyed in {ns} ns; /proc/interrupts: {obeyed}");
    // While the other thread had no processor nobody had to be asked.
    assert!(asked <= ROUNDS && asked > ROUNDS / 2);
    // Nearly all that the machine counts are these.
    assert!(remote <= asked && remote <= obeyed);
    assert!(near(remote, obeyed, 0.1, 500), "{remote}, not {obeyed}");
    assert!(
        (100..100_000).contains(&(ns / remote)),
        "{ns} ns of {remote}"
    );
}

/// Waits for spin locks of processes of a name, by bpftrace: each stack of the kernel and how often it waited.
const SPINS_BY_STACK: &str = r#"tracepoint:lock:contention_begin /args->flags == 1 && comm == str($1)/
{ @[kstack(8)] = count(); }"#;

/// Three processes whose files get and lose pages many at a time, which no processor has a store of.
const WRITERS: &str = r#"
import os, sys
for _ in range(2): os.fork()
file = os.open(f"{sys.argv[1]}/{os.getpid()}", os.O_RDWR | os.O_CREAT)
for _ in range(300):
    os.lseek(file, 0, 0)
    for _ in range(16): os.write(file, bytes(1 << 20))
    os.ftruncate(file, 0)
"#;

/// Processes that get and give back pages at the same time wait for locks of the kernel: as often as bpftrace says, and in
/// whose functions it says.
#[test]
#[ignore = "needs root"]
fn waits_for_spin_locks_are_those_that_bpftrace_counts_and_are_told_apart() {
    if !installed("bpftrace") {
        return;
    }
    wrong_every_time("lists of pages in use", || {
        spin_mistakes("zeropage", [100, 0], |_| {
            zeropage(&["dontneed", "3000", "512", "--processes", "2"]).tables
        })
    });
    wrong_every_time("zones", || {
        spin_mistakes("python3", [0, 30], |scratch| {
            let command = ["/usr/bin/python3", "-c", WRITERS, &scratch.file("")];
            record(scratch, &[&["--memory", "--"][..], &command].concat()).tables
        })
    });
}

/// `least`: waits for lists and for zones that there must be.
fn spin_mistakes(
    name: &str,
    least: [u64; 2],
    recorded: impl Fn(&Scratch) -> Tables,
) -> BTreeMap<String, String> {
    let scratch = Scratch::new();
    let (unshare, within) = (WITH_TRACEPOINTS[0], &WITH_TRACEPOINTS[1..]);
    let bpftrace = ["/usr/bin/bpftrace", "-e", SPINS_BY_STACK, name];
    let watcher = Running::start_ready(unshare, &[within, &bpftrace].concat());
    std::thread::sleep(std::time::Duration::from_secs(1)); // its line comes before it is attached
    let tables = recorded(&scratch);
    watcher.signal(libc::SIGINT);
    let printed = watcher.end();
    let waits: Vec<(&str, u64)> = printed
        .split("@[")
        .filter_map(|entry| entry.split_once("]: "))
        .filter_map(|(stack, count)| Some((stack, count.trim().parse().ok()?)))
        .collect();
    let seen = |functions: &[&str]| -> u64 {
        let is_in = |stack: &str| functions.iter().any(|name| stack.contains(name));
        let of = waits.iter().filter(|(stack, _)| is_in(stack));
        of.map(|(_, count)| count).sum()
    };
    let counted = |of: fn(&MemoryPlaceRow) -> u64| tables.memory_places.iter().map(of).sum::<u64>();
    let of_zones = [
        "rmqueue",
        "get_page_from_freelist",
        "free_pcppages_bulk",
        "free_one_page",
    ];
    let mut wrong = BTreeMap::new();
    for (what, counted, seen, least) in [
        (
            "lists",
            counted(|p| p.list_waits),
            seen(&["lruvec_lock"]),
            least[0],
        ),
        (
            "zones",
            counted(|p| p.zone_waits),
            seen(&of_zones),
            least[1],
        ),
    ] {
        println!("{what}: {counted} waits, {seen} by bpftrace");
        if counted < least || !near(counted, seen, 0.05, 5) {
            wrong.insert(what.to_owned(), format!("{counted}, not {seen}: {printed}"));
        }
    }
    wrong
}

#[test]
#[ignore = "needs root"]
fn other_recordings_have_no_ledger_and_say_how_to_get_one() {
    let scratch = Scratch::new();
    let recorded = launch(&scratch, &[], "zeropage", &["map", "1000"]);
    assert!(recorded.tables.memory_places.is_empty() && recorded.tables.meta.memory.is_none());
    let output = dwell(&["memory", &recorded.path])
        .output()
        .expect("dwell runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.contains("dwell record --memory"),
        "{text}"
    );
}

#[test]
#[ignore = "needs root"]
fn a_command_is_recorded_and_answered_for() {
    let scratch = Scratch::new();
    let program = program("zeropage");
    // As many as give clearing some samples: a page that is in the cache is cleared in less than 0.1 us.
    let run = |json: &[&str]| {
        let args = [&["memory"], json, &["--", &program, "map", "400000"]].concat();
        let output = dwell(&args)
            .current_dir(scratch.path())
            .output()
            .expect("dwell runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        output
    };
    let text = String::from_utf8(run(&[]).stderr).expect("text");
    println!("{text}");
    for word in [
        "clearing pages",
        "page faults",
        "touch",
        "give_back",
        "munmap",
        "GB/s",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    let stdout = String::from_utf8(run(&["--json"]).stdout).expect("text");
    // The program's own line comes first.
    let (_, json) = stdout.split_once('\n').expect("two answers");
    let answer: Value = serde_json::from_str(json).expect("JSON");
    assert!(number(&answer["counts"], "minor_faults") >= 400_000);
    assert!(answer["components"].as_array().is_some_and(|c| c.len() > 3));
}

/// One page in 32 is followed: so many pages are known to some percent.
#[test]
#[ignore = "needs root"]
fn who_holds_memory_at_the_peak_is_known() {
    let found = zeropage(&["keep", "20", "2500"]);
    let held = found.in_function("touch", |p| p.peak_pages);
    let all: u64 = found
        .tables
        .memory_places
        .iter()
        .map(|p| p.peak_pages)
        .sum();
    println!("{held} held by touch(), {all} in all");
    assert!(near(held, 50_000, 0.12, 0), "{held}");
    assert!(all < held + held / 10, "{all}");
    // What is given back in every round is not added up.
    let found = zeropage(&["dontneed", "2000", "256"]);
    let held = found.in_function("touch", |p| p.peak_pages);
    println!("{held} of 256 by touch()");
    assert!(held <= 1024, "{held}");
}

/// Also when a switch between them goes unseen (the kernel shows a few in a second to no program), a thread's faults are
/// its own.
#[test]
#[ignore = "needs root"]
fn faults_of_threads_that_take_turns_are_those_that_getrusage_counts() {
    if !installed("python3") {
        return;
    }
    const SCRIPT: &str = "
import mmap, os, resource, threading, time
def faults():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_minflt + used.ru_majflt
def work():
    for i in range(1000):
        with mmap.mmap(-1, 16 << 12) as memory:
            for at in range(0, 16 << 12, 4096): memory[at] = 1
        time.sleep(0.0005)
before = faults()
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(faults() - before, faults(), flush=True)
os._exit(0)";
    for _ in 0..3 {
        let scratch = Scratch::new();
        let recorded = record(&scratch, &["--memory", "--", "python3", "-c", SCRIPT]);
        let said: Vec<u64> = recorded
            .stdout
            .split_whitespace()
            .map(|n| n.parse().expect("a number"))
            .collect();
        let [in_loop, at_end] = said[..] else {
            panic!("{said:?}")
        };
        // python3 may be a script that runs others before it becomes the program.
        let mut of_processes: BTreeMap<u32, u128> = BTreeMap::new();
        for place in &recorded.tables.memory_places {
            *of_processes.entry(place.process).or_default() +=
                u128::from(place.minor_faults) + u128::from(place.major_faults);
        }
        let counted = *of_processes.values().max().expect("faults");
        println!("{counted} faults, {said:?} by the script's own word");
        assert!(in_loop > 8 * 16_000, "{said:?}");
        assert!(
            (in_loop.into()..=u128::from(at_end) + 500).contains(&counted),
            "{counted}"
        );
    }
}
