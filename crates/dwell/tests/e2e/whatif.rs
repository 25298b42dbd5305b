//! What a change would do, next to the changed program itself.

use crate::shared::*;
use serde_json::Value;
use std::process::Command;

/// A program of two locks, the first of which is held longer: relieving it moves the queue to the second.
const TWO_LOCKS: [&str; 5] = [
    "threads=4",
    "think=1500",
    "hold=6000",
    "second=5000",
    "kind=adaptive",
];

fn convoy(arguments: &[&str]) -> f64 {
    let output = Command::new(programs().join("convoy"))
        .args(TWO_LOCKS)
        .args(arguments)
        .output()
        .expect("convoy runs");
    assert!(output.status.success(), "{output:?}");
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    told["units_per_s"].as_f64().expect("a rate")
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
#[ignore = "needs root and the test programs"]
fn relieving_one_of_two_locks_is_predicted_to_gain_what_it_gains() {
    let scratch = Scratch::new();
    let recording = scratch.file("two.dwell");
    let program = programs().join("convoy");
    let recorded = bare_dwell()
        .args(["record", "--locks", "-q", "-o", &recording, "--"])
        .arg(program)
        .args(TWO_LOCKS)
        .arg("seconds=3")
        .output()
        .expect("dwell runs");
    assert!(recorded.status.success(), "{recorded:?}");
    let answer = bare_dwell()
        .args([
            "whatif", &recording, "--lock", "queues", "--shards", "1,16", "--json",
        ])
        .env("XDG_CACHE_HOME", scratch.path())
        .output()
        .expect("dwell runs");
    assert!(answer.status.success(), "{answer:?}");
    let answer: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
    assert_eq!(
        answer["others"].as_array().map(Vec::len),
        Some(1),
        "{answer:#}"
    );
    let predicted = answer["rows"][1]["gain"]["likely"]
        .as_f64()
        .expect("a gain");
    // In turns, since the machine drifts.
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        before.push(convoy(&["shards=1", "seconds=0.3"]));
        after.push(convoy(&["shards=16", "seconds=0.3"]));
    }
    let real = median(after) / median(before);
    println!("predicted {predicted:.3}, real {real:.3}");
    assert!(
        (predicted / real - 1.0).abs() < 0.3,
        "predicted {predicted}, real {real}"
    );
    // A model of the first lock alone would promise that the processors are the limit.
    assert!(predicted < 1.5, "{predicted}");
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_recording_without_locks_says_what_to_do() {
    let scratch = Scratch::new();
    let recording = scratch.file("none.dwell");
    let recorded = bare_dwell()
        .args(["record", "-q", "-o", &recording, "--", "sleep", "0.2"])
        .output()
        .expect("dwell runs");
    assert!(recorded.status.success(), "{recorded:?}");
    let answer = bare_dwell()
        .args(["whatif", &recording])
        .env("XDG_CACHE_HOME", scratch.path())
        .output()
        .expect("dwell runs");
    let said = String::from_utf8_lossy(&answer.stderr);
    assert!(
        !answer.status.success() && said.contains("dwell record --locks"),
        "{said}"
    );
}
