//! The labelled corpus of waits on a processor, recorded: of the time that is found to be spent
//! spinning, how much is (precision), and of what is, how much is found (recall). The programs say by
//! the names of their functions what they do: `spin_` or `work_`.

use crate::stacks_support::*;
use dwell_elf::ElfFile;
use dwell_spin::Module;
use std::collections::{BTreeMap, HashMap};
use std::process::Command;

/// Frames of a stack, innermost first, that may be the loop: it may have called a function that is
/// part of it.
const FRAMES: usize = 4;

/// Milliseconds that each function of the corpus runs.
const MS: &str = "80";

/// Weights by what a sample is, and what was found.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Spins, and was found to.
    right_ns: u64,
    /// Spins, and was not found to.
    missed_ns: u64,
    /// Works, and was found to spin.
    wrong_ns: u64,
    /// Works, and was not found to spin.
    work_ns: u64,
}

impl Found {
    fn add(&mut self, other: Found) {
        self.right_ns += other.right_ns;
        self.missed_ns += other.missed_ns;
        self.wrong_ns += other.wrong_ns;
        self.work_ns += other.work_ns;
    }

    fn precision(&self) -> f64 {
        self.right_ns as f64 / (self.right_ns + self.wrong_ns) as f64
    }

    fn recall(&self) -> f64 {
        self.right_ns as f64 / (self.right_ns + self.missed_ns) as f64
    }
}

/// Answers by module and address.
#[derive(Default)]
struct Judge {
    files: HashMap<String, Vec<u8>>,
    answers: HashMap<(String, u64), bool>,
}

impl Judge {
    fn spins(&mut self, module: &str, address: u64) -> bool {
        let key = (module.to_owned(), address);
        if let Some(answer) = self.answers.get(&key) {
            return *answer;
        }
        let bytes = self
            .files
            .entry(module.to_owned())
            .or_insert_with(|| std::fs::read(module).unwrap_or_default());
        let file = ElfFile::parse(bytes).ok();
        let answer = file.is_some_and(|file| Module::new(file).judge(address).is_ok());
        self.answers.insert(key, answer);
        answer
    }
}

/// What a program's functions were found to do, by function. Samples in the kernel say nothing of the
/// loop that was interrupted or that called: they are left out.
fn measure(name: &str) -> BTreeMap<String, Found> {
    let path = program(name);
    let options = ["-F", "997", "--clock", "timer", "--", &path, MS];
    let recorded = record(&options);
    assert!(recorded.output.status.success(), "{:?}", recorded.output);
    let index = Index::of(&recorded.tables);
    let mut judge = Judge::default();
    let mut found: BTreeMap<String, Found> = BTreeMap::new();
    for sample in &recorded.tables.samples {
        let frames = &index.stack(sample.stack).frames;
        let is_user = |frame: &u32| index.frame(*frame).kind == "user";
        if sample.state != "running" || !frames.last().is_some_and(is_user) {
            continue;
        }
        let Some(label) = frames.iter().rev().find_map(|&f| label(&index.name(f))) else {
            continue;
        };
        let mut near = frames.iter().rev().take(FRAMES).map(|&f| index.frame(f));
        let spins = near.any(|f| f.kind == "user" && judge.spins(&f.module, f.address));
        let entry = found.entry(label.clone()).or_default();
        *match (label.starts_with("spin_"), spins) {
            (true, true) => &mut entry.right_ns,
            (true, false) => &mut entry.missed_ns,
            (false, true) => &mut entry.wrong_ns,
            (false, false) => &mut entry.work_ns,
        } += sample.weight_ns;
    }
    found
}

/// `spin_x` or `work_x`, of a function or of one in Go's `main`.
fn label(function: &str) -> Option<String> {
    let name = function.rsplit('.').next().unwrap_or(function);
    let is_label = name.starts_with("spin_") || name.starts_with("work_");
    is_label.then(|| name.to_owned())
}

#[test]
#[ignore = "needs root and the test programs"]
fn spinning_is_told_from_work() {
    let mut all = Found::default();
    let mut recorded = 0;
    for name in [
        "spins-gcc-O2",
        "spins-gcc-O0",
        "spins-clang-O2",
        "spins-clang-O0",
        "spins-rust",
        "spins-go",
    ] {
        if !programs().join(name).exists() {
            println!("{name} was not built");
            continue;
        }
        recorded += 1;
        let found = measure(name);
        let mut of_program = Found::default();
        for (function, of) in &found {
            of_program.add(*of);
            if of.missed_ns + of.wrong_ns > 0 {
                println!("  {name} {function}: {of:?}");
            }
        }
        println!(
            "{name}: {} functions, precision {:.4}, recall {:.4}, {of_program:?}",
            found.len(),
            of_program.precision(),
            of_program.recall()
        );
        assert!(found.len() >= 7, "{name}: only {found:?}");
        all.add(of_program);
    }
    println!(
        "all: precision {:.4}, recall {:.4}, {all:?}",
        all.precision(),
        all.recall()
    );
    assert!(recorded >= 2, "the programs of the corpus are not built");
    assert!(all.work_ns > 0 && all.right_ns > 0, "{all:?}");
    assert!(all.precision() >= 0.95, "{all:?}");
    assert!(all.recall() >= 0.95, "{all:?}");
}

/// What a thread of `spinlocks` says of itself.
#[derive(serde::Deserialize)]
struct Told {
    name: String,
    tid: u32,
    cpu_ns: u64,
    spun_ns: u64,
}

/// The part of a thread's running samples whose innermost frame is marked as spinning, and their number.
fn marked(index: &Index<'_>, thread: u32) -> (f64, usize) {
    let samples = index.tables.samples.iter();
    let running = samples.filter(|s| s.thread == thread && s.state == "running");
    let spins = running.map(|sample| {
        let leaf = index.stack(sample.stack).frames.last();
        leaf.is_some_and(|&frame| index.frame(frame).spinning == Some(true))
    });
    let spins: Vec<bool> = spins.collect();
    let marked = spins.iter().filter(|s| **s).count();
    (marked as f64 / spins.len().max(1) as f64, spins.len())
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_recording_tells_spinning_from_computing() {
    let recorded = record(&[
        "-F",
        "997",
        "--clock",
        "timer",
        "--",
        &program("spinlocks"),
        "6",
    ]);
    assert!(recorded.output.status.success(), "{:?}", recorded.output);
    let index = Index::of(&recorded.tables);
    let analysis = dwell_analysis::Analysis::of(&recorded.tables);
    let told = String::from_utf8_lossy(&recorded.output.stdout);
    let told = told.lines().filter(|line| line.starts_with('{'));
    let told: Vec<Told> = told
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert_eq!(told.len(), 4);
    for told in &told {
        let rows = recorded.tables.threads.iter();
        let position = rows.clone().position(|row| row.tid == told.tid);
        let position = position.unwrap_or_else(|| panic!("{} is recorded", told.name));
        let (share, samples) = marked(&index, recorded.tables.threads[position].thread);
        let times = analysis.profile.thread_times(position);
        let found = times.spinning() as f64 / times.running() as f64;
        let truth = told.spun_ns as f64 / told.cpu_ns as f64;
        println!(
            "{}: spun {:.1} % of {:.0} ms by its own clock, {:.1} % by the recording, {:.1} % of {samples} samples",
            told.name,
            truth * 100.0,
            told.cpu_ns as f64 / 1e6,
            found * 100.0,
            share * 100.0,
        );
        match told.name.as_str() {
            "spinner" => assert!(share >= 0.95 && samples >= 100, "{share} of {samples}"),
            "worker" => assert!(share < 0.05 && samples >= 100, "{share} of {samples}"),
            _ => {}
        }
        // Four standard errors of a share, and what a sample more or less is.
        let samples = samples.max(1) as f64;
        let error = 4.0 * (truth * (1.0 - truth) / samples).sqrt() + 4.0 / samples;
        assert!((found - truth).abs() <= error.max(0.02), "{}", told.name);
    }
    assert!(analysis.summary.closure_error < 0.001);
}

/// `dwell top` tells the same live: of the thread that spins, and not of the one that computes.
#[test]
#[ignore = "needs root and the test programs"]
fn top_tells_spinning_from_computing() {
    let target = Running::start(Command::new(program("spinlocks")).arg("30"));
    let pid = target.pid().to_string();
    let mut top = Command::new(env!("CARGO_BIN_EXE_dwell"));
    let output = top
        .args(["top", "-p", &pid, "-n", "2", "--interval", "3s"])
        .output();
    let output = output.expect("dwell starts");
    drop(target);
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let of =
        |thread: &str| -> Vec<&str> { text.lines().filter(|line| line.contains(thread)).collect() };
    println!("{text}");
    let (spinner, worker) = (of("spinner"), of("worker"));
    assert!(spinner.iter().any(|line| line.contains("spin ")), "{text}");
    assert!(
        !worker.is_empty() && worker.iter().all(|line| !line.contains("spin ")),
        "{text}"
    );
}
