//! Python without options: what a CPython executes is in stacks in place of the function that executes it, with the names and
//! lines that the interpreter itself tells.

use crate::stacks_support::*;
use std::collections::BTreeMap;
use std::process::Command;

const FRAMES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/programs/frames.py"
);

/// How many threads of `frames.py` stand somewhere.
const PLACES: usize = 12;

/// Those of versions that are known: of the distribution, and those that are named (a list like PATH's).
fn pythons() -> Vec<String> {
    let named = std::env::var("DWELL_TEST_PYTHONS").unwrap_or_default();
    let named = named.split(':').map(str::to_owned);
    let candidates = ["python3", "/usr/bin/python3"].map(str::to_owned);
    let older = ["3.8", "3.10"].into_iter().flat_map(pythons_of_pyenv);
    let candidates = candidates.into_iter().chain(older).chain(named);
    let known = |python: &String| python_finds(python, "(3, 8) <= sys.version_info < (3, 15)");
    candidates.filter(known).collect()
}

/// The names of functions as a version has them: before 3.11 without those around them.
fn named<'n, const N: usize>(python: &str, names: [&'n str; N]) -> [&'n str; N] {
    match python_finds(python, "sys.version_info >= (3, 11)") {
        true => names,
        false => names.map(|name| name.rsplit('.').next().unwrap_or(name)),
    }
}

/// Function, file, line.
type Place = (String, String, u32);

/// What the interpreter says of its threads, innermost first.
fn told(line: &str) -> BTreeMap<u32, Vec<Place>> {
    let threads: BTreeMap<String, Vec<Place>> = serde_json::from_str(line).expect("JSON");
    let numbered = threads.into_iter();
    let numbered = numbered.map(|(thread, places)| (thread.parse().expect("a number"), places));
    numbered.collect()
}

/// The same of a stack that dwell took.
fn places_of(index: &Index<'_>, stack: u32) -> Vec<Place> {
    let frames = index.stack(stack).frames.iter().rev();
    let python = frames.filter(|frame| index.frame(**frame).kind == "jit");
    let symbols = python.flat_map(|frame| index.symbols(*frame));
    let places = symbols.map(|s| {
        let file = s.file.clone().expect("a file");
        (s.function.clone(), file, s.line.expect("a line"))
    });
    places.collect()
}

fn check_places(python: &str, mode: &str) {
    let (running, line) = Running::start_ready(Command::new(python).args([FRAMES, mode]));
    let recorded = attach(&[running.pid()], 1.0);
    let told = told(&line);
    let index = Index::of(&recorded.tables);
    let mut checked = 0;
    for thread in &recorded.tables.threads {
        let theirs = &told[&thread.ns_tid];
        if theirs[0].0 == "told" {
            continue; // the one that told it goes on
        }
        // The wait that has the most time: they wait for the interpreter's lock, too.
        let mut waits: BTreeMap<u32, u64> = BTreeMap::new();
        for sample in &recorded.tables.samples {
            if sample.thread == thread.thread && sample.state == "blocked" {
                // One that goes on has no weight yet.
                *waits.entry(sample.stack).or_default() += sample.weight_ns + 1;
            }
        }
        let longest = waits.iter().max_by_key(|(_, weight)| **weight);
        let (stack, _) = longest.expect("a wait");
        let ours = places_of(&index, *stack);
        assert_eq!(&ours, theirs, "{python} {mode}: {:?}", index.names(*stack));
        assert_eq!(index.stack(*stack).end, "complete");
        checked += 1;
    }
    assert_eq!(checked, PLACES, "{python} {mode}");
}

#[test]
#[ignore = "needs root"]
fn frames_of_waiting_threads_are_those_that_python_tells() {
    for python in pythons() {
        check_places(&python, "wait");
        check_places(&python, "stand");
    }
}

#[test]
#[ignore = "needs root"]
fn time_is_told_by_what_python_executes() {
    for python in pythons() {
        let recorded = launch(&[&python, FRAMES, "busy", "3"]);
        check_complete(&python, &recorded);
        let index = Index::of(&recorded.tables);
        let (mut most, mut rest, mut bare, mut all) = (0, 0, 0, 0);
        let in_place = ["most", "spin"];
        let through_c = named(&python, ["busy", "busy.<locals>.<lambda>", "rest", "spin"]);
        for sample in &recorded.tables.samples {
            if sample.state != "running" {
                continue;
            }
            let names = index.user_names(sample.stack);
            let weight = sample.weight_ns;
            if in_order(&names, &in_place) {
                most += weight;
            } else if in_order(&names, &through_c) {
                rest += weight;
            }
            if names.iter().any(|name| name == "busy") {
                all += weight;
                bare += weight * u64::from(names.iter().any(|n| n == "_PyEval_EvalFrameDefault"));
            }
        }
        let share = most as f64 / (most + rest) as f64;
        println!("{python}: most {share:.3}, bare {bare} of {all} ns");
        // Some 300 samples: 3.7 standard deviations.
        assert!((share - 2.0 / 3.0).abs() < 0.1, "{share}");
        assert!(bare * 200 < all, "{bare} of {all}");
        assert!(most + rest > all * 95 / 100, "{most}, {rest}, {all}");
    }
}

#[test]
#[ignore = "needs root"]
fn what_is_executed_until_the_end_has_its_name() {
    for python in pythons() {
        let recorded = launch(&[&python, FRAMES, "join", "1"]);
        let index = Index::of(&recorded.tables);
        let samples = recorded.tables.samples.iter();
        let waits = samples.filter(|s| s.state == "blocked" && s.weight_ns > 500_000_000);
        let mut waits: Vec<_> = waits.map(|sample| index.user_names(sample.stack)).collect();
        waits.sort();
        assert_eq!(waits.len(), 2, "{waits:?}");
        assert!(
            in_order(
                &waits[1],
                &named(&python, ["<module frames>", "main", "Thread.join"])
            ),
            "{waits:?}"
        );
        assert!(
            in_order(
                &waits[0],
                &named(&python, ["Thread._bootstrap", "Thread.run"])
            ),
            "{waits:?}"
        );
    }
}

/// No stack has room for all of them.
#[test]
#[ignore = "needs root"]
fn the_innermost_functions_of_a_deep_recursion_are_told() {
    for python in pythons() {
        let recorded = launch(&[&python, FRAMES, "recursion", "1"]);
        let index = Index::of(&recorded.tables);
        let (mut told, mut all) = (0, 0);
        for (stack, weight) in index.weights() {
            let names = index.user_names(stack);
            let mut inwards = names.iter().rev().skip_while(|name| *name != "spin");
            if inwards.next().is_none() {
                continue;
            }
            let executed = inwards
                .filter(|name| ["recurse", "_PyEval_EvalFrameDefault"].contains(&name.as_str()));
            let innermost: Vec<_> = executed.take(290).collect();
            all += weight;
            told += weight
                * u64::from(innermost.len() == 290 && innermost.iter().all(|n| *n == "recurse"));
        }
        println!("{python}: told {told} of {all} ns");
        assert!(
            all > 800_000_000 && told > all * 98 / 100,
            "{told} of {all}"
        );
    }
}

/// Later code lies where earlier code lay: each stack has the name of what was there at its time.
#[test]
#[ignore = "needs root"]
fn code_that_replaces_other_code_has_its_own_name() {
    const ROUNDS: usize = 6;
    for python in pythons() {
        let recorded = launch(&[&python, FRAMES, "replaced", &ROUNDS.to_string()]);
        let index = Index::of(&recorded.tables);
        let mut weights = [0; ROUNDS];
        for (stack, weight) in index.weights() {
            let names = index.user_names(stack);
            let work = names.iter().find_map(|name| name.strip_prefix("work_"));
            if let Some(work) = work {
                weights[work.parse::<usize>().expect("a number")] += weight;
            }
        }
        println!("{python}: {weights:?} ns");
        for weight in weights {
            assert!(
                (600_000_000..1_400_000_000).contains(&weight),
                "{weights:?}"
            );
        }
    }
}

/// The code of a module goes when it is imported, long before anybody could ask what it is called.
#[test]
#[ignore = "needs root"]
fn modules_have_their_names_while_they_are_imported() {
    const MODULES: usize = 40;
    for python in pythons() {
        let recorded = launch(&[&python, FRAMES, "imports", &MODULES.to_string()]);
        let index = Index::of(&recorded.tables);
        let mut weights = [0; MODULES];
        let mut all = 0;
        for (stack, weight) in index.weights() {
            let names = index.user_names(stack);
            if names.iter().any(|name| name == "imports") {
                all += weight;
            }
            assert!(!names.iter().any(|name| name == "[Python]"), "{names:?}");
            // Of what they import the innermost one is busy.
            let modules = names
                .iter()
                .rev()
                .filter_map(|name| name.strip_prefix("<module slow_"));
            let module = modules
                .filter_map(|name| name.strip_suffix('>')?.parse().ok())
                .next();
            if let Some(module) = module {
                let module: usize = module;
                weights[module] += weight;
            }
        }
        println!("{python}: {weights:?} ns");
        // Samples are some 10 ms apart; the time of one module is three to five of them.
        let seen = weights.iter().filter(|weight| **weight > 0).count();
        assert!(seen >= MODULES * 9 / 10, "{weights:?}");
        // Nothing else takes time there, but for the files, which are small.
        let told: u64 = weights.iter().sum();
        assert!(told > all * 95 / 100, "{told} of {all}");
        // Some 160 samples: 3.7 standard deviations.
        let expected = MODULES as f64 * 40e6;
        assert!((told as f64 / expected - 1.0).abs() < 0.3, "{told}");
    }
}
