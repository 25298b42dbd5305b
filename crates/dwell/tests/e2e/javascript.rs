//! JavaScript without options: which functions an engine executes is in stacks in place of its own code, with the names that the
//! engine itself tells.

use crate::stacks_support::*;
use std::collections::BTreeMap;
use std::process::Command;

const FRAMES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/programs/frames.js"
);

/// How many threads of `frames.js` stand somewhere.
const PLACES: usize = 18;

/// The one that is there, and those that are named (a list like PATH's).
fn nodes() -> Vec<String> {
    let named = std::env::var("DWELL_TEST_NODES").unwrap_or_default();
    let named = named.split(':').map(str::to_owned);
    let named = named.filter(|node| !node.is_empty());
    std::iter::once("node".to_owned()).chain(named).collect()
}

/// Function, file, line.
type Place = (String, String, u32);

/// What a stack that dwell took tells of JavaScript, innermost first.
fn places_of(index: &Index<'_>, stack: u32) -> Vec<Place> {
    let frames = index.stack(stack).frames.iter().rev();
    let ours = frames.filter(|frame| index.frame(**frame).kind == "jit");
    let symbols = ours.flat_map(|frame| index.symbols(*frame));
    let places = symbols.map(|s| {
        let file = s.file.clone().unwrap_or_default();
        (s.function.clone(), file, s.line.unwrap_or(0))
    });
    places.collect()
}

/// Whether the engine means the same function. It tells where a function is in its text, dwell where the function begins: in
/// the program both are one line, but for the program itself. Of functions without a name the engine has what they were assigned
/// to as they were made, in brackets where that is no text, dwell what the text says of that.
fn is_same((function, file, line): &Place, theirs: &Place) -> bool {
    let is_nameless =
        matches!(theirs.0.as_str(), "(anonymous)" | "eval") || theirs.0.starts_with('[');
    let is_there = *line == theirs.2 || !file.ends_with("frames.js") || *line == 1;
    (*function == theirs.0 || is_nameless) && *file == theirs.1 && is_there
}

fn check_places(node: &str, mode: &str) {
    let (running, line) = Running::start_ready(Command::new(node).args([FRAMES, mode]));
    let told: BTreeMap<String, Vec<Place>> = serde_json::from_str(&line).expect("JSON");
    let recorded = attach(&[running.pid()], 1.0);
    let index = Index::of(&recorded.tables);
    let mut missing: Vec<_> = told.keys().collect();
    assert_eq!(missing.len(), PLACES, "{node}");
    for sample in &recorded.tables.samples {
        if sample.state != "blocked" || sample.weight_ns == 0 && mode == "nap" {
            continue;
        }
        let ours = places_of(&index, sample.stack);
        if ours.first().is_none_or(|(function, ..)| function != mode) {
            continue;
        }
        let ours = &ours[1..];
        let end = &index.stack(sample.stack).end;
        assert_eq!(end, "complete", "{:?}", index.names(sample.stack));
        let is_told = |theirs: &Vec<Place>| {
            ours.len() == theirs.len()
                && ours
                    .iter()
                    .zip(theirs)
                    .all(|(ours, theirs)| is_same(ours, theirs))
        };
        let found = told.iter().find(|(_, theirs)| is_told(theirs));
        let (place, _) = found.unwrap_or_else(|| {
            panic!(
                "{node}: {ours:#?} {:?} is none of {told:#?}",
                index.names(sample.stack)
            )
        });
        missing.retain(|missing| *missing != place);
    }
    assert!(missing.is_empty(), "{node} {mode}: {missing:?}");
}

#[test]
#[ignore = "needs root"]
fn functions_of_waiting_threads_are_those_that_the_engine_tells() {
    for node in nodes() {
        check_places(&node, "nap");
        check_places(&node, "stand");
    }
}

#[test]
#[ignore = "needs root"]
fn time_is_told_by_what_the_engine_executes() {
    for node in nodes() {
        let recorded = launch(&[&node, FRAMES, "busy", "3"]);
        check_complete(&node, &recorded);
        let index = Index::of(&recorded.tables);
        let (mut most, mut rest, mut nameless, mut all) = (0, 0, 0, 0);
        for sample in &recorded.tables.samples {
            let names = index.user_names(sample.stack);
            if sample.state != "running" || !names.iter().any(|name| name == "Builtins_JSEntry") {
                continue;
            }
            let weight = sample.weight_ns;
            all += weight;
            let is_bare = |name: &String| {
                name == "Builtins_InterpreterEntryTrampoline" || name.starts_with("[anon")
            };
            if names.iter().any(is_bare) {
                nameless += weight;
            }
            if in_order(&names, &["busy", "most"]) {
                most += weight;
            } else if in_order(&names, &["busy", "rest"]) {
                rest += weight;
            }
        }
        let share = most as f64 / (most + rest) as f64;
        println!("{node}: most {share:.3} of {most} + {rest}, nameless {nameless} of {all} ns");
        // Some 300 samples: 3.7 standard deviations.
        assert!((share - 2.0 / 3.0).abs() < 0.1, "{share}");
        assert!(nameless * 20 < all, "{nameless} of {all}");
        assert!(most + rest > all * 85 / 100, "{most}, {rest}, {all}");
    }
}
