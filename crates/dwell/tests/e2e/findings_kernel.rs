//! `dwell findings` of what programs have the kernel do: memory, storage, the scheduler, the loader. The healthy twins are in
//! `findings.rs`.

use crate::common::*;
use crate::told::*;
use dwell_findings::{Effect, Severity};

/// That a prediction came true, as well as the shares that it rests on are known: to a fifth.
#[track_caller]
fn came_true(effect: &Effect, saved: f64) {
    println!(
        "predicted {:.3} to {:.3}, saved {saved:.3}",
        effect.low, effect.high
    );
    assert!(
        saved > 0.8 * effect.low && saved < 1.2 * effect.high,
        "{effect:?}: {saved}"
    );
}

/// What a unit of work costs less in the healthy twin, by a measure of it.
fn saved(sick: &Told, habit: &str, measure: impl Fn(&Told) -> f64) -> f64 {
    1.0 - measure(&habits(&[habit, "healthy"])) / measure(sick)
}

#[test]
#[ignore = "needs root and the test programs"]
fn allocation_churn_is_named_and_keeping_the_memory_saves_what_was_predicted() {
    let told = habits(&["allocation-churn", "sick"]);
    let finding = told.only("allocation-churn", Severity::High);
    has_function(finding, "fill");
    let taken = evidence(finding, "pages taken");
    let pages = 256.0 * number(&told.truth, "units") as f64;
    assert!(
        taken >= 0.98 * pages && taken <= 1.1 * pages,
        "{taken} of {pages}"
    );
    came_true(
        &finding.effect,
        saved(&told, "allocation-churn", Told::cpu_of_unit),
    );
}

#[test]
#[ignore = "needs root and the test programs"]
fn fresh_memory_is_named_and_keeping_it_saves_what_was_predicted() {
    let told = habits(&["first-touch", "sick"]);
    let finding = told.only("first-touch", Severity::Medium);
    has_function(finding, "fill");
    let cleared = evidence(finding, "pages cleared");
    let pages = 8192.0 * number(&told.truth, "units") as f64;
    assert!(
        cleared >= 0.98 * pages && cleared <= 1.2 * pages,
        "{cleared} of {pages}"
    );
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_storm_of_shootdowns_is_named() {
    let told = habits(&["shootdown-storm", "sick"]);
    let finding = told.only("shootdown-storm", Severity::Medium);
    has_function(finding, "protect");
    // Where the other thread has no processor at that instant nobody is interrupted.
    let changes = 1024.0 * number(&told.truth, "units") as f64;
    let sent = evidence(finding, "shootdowns");
    assert!(sent <= 1.05 * changes, "{sent} of {changes}");
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_server_that_writes_before_it_answers_is_named() {
    let told = habits(&["synchronous-io", "sick"]);
    let finding = told.only("synchronous-io", Severity::Medium);
    has_function(finding, "write_down");
    let waits = evidence(finding, "waits for requests");
    let requests = number(&told.truth, "units") as f64;
    assert!(waits <= 1.05 * requests + 5.0, "{waits} of {requests}");
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_lock_of_a_thread_that_gives_way_is_named() {
    let told = habits(&["priority-inversion", "sick"]);
    let finding = told.of("priority-inversion");
    assert!(finding.title.contains("nice 0") && finding.title.contains("nice 10"));
    let waited = evidence(finding, "waiting for less preferred owners");
    let truth = number(&told.truth, "waited") as f64;
    assert!(waited <= 1.02 * truth, "{waited} of {truth}");
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_program_that_mostly_loads_is_named() {
    let told = habits(&["dynamic-loading", "sick"]);
    let finding = told.only("dynamic-loading", Severity::Medium);
    let processes = evidence(finding, "processes");
    let started = number(&told.truth, "units") as f64;
    assert!(
        (processes - started).abs() <= 0.02 * started,
        "{processes} of {started}"
    );
    assert!(finding.title.starts_with("linked "), "{finding:?}");
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_thread_that_is_woken_for_each_unit_is_named() {
    let told = habits(&["wake-up-storm", "sick"]);
    let finding = told.of("wake-up-storm");
    has_function(finding, "wake_each_other");
    let wakes = evidence(finding, "wake-ups");
    let units = number(&told.truth, "units") as f64;
    assert!(wakes <= 1.02 * units, "{wakes} of {units}");
}

#[test]
#[ignore = "needs root and the test programs"]
fn a_thread_that_all_others_wait_for_is_named() {
    let told = habits(&["serial-thread", "sick"]);
    let finding = told.of("serial-thread");
    has_function(finding, "prepare");
}
