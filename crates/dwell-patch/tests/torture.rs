//! Attaches to and lets go of a program that does everything patching may break, over and over.
mod common;

use common::{Puppet, assert_pristine, at_entry, from_environment, percentiles};
use dwell_patch::{Attachment, Hook, Probe};
use std::time::Duration;

const FUNCTIONS: [&str; 14] = [
    "leaf",
    "thrower",
    "catcher",
    "jumper",
    "forked",
    "before_exec",
    "handler_work",
    "coroutine_step",
    "short_lived",
    "recursive",
    "tiny",
    "calls_first",
    "loop_early",
    "many_returns",
];

fn probes(hook: Hook) -> Vec<Probe> {
    FUNCTIONS
        .iter()
        .map(|f| at_entry("/torture", f, hook))
        .collect()
}

/// Between two parks, each count must rise by what the program says.
fn compare(target: &mut Puppet, attachment: &Attachment) -> u64 {
    let read = || attachment.counts().expect("the program runs");
    let truth_before = target.park();
    let before = read();
    target.run();
    std::thread::sleep(Duration::from_millis(5));
    let truth_after = target.park();
    let after = read();
    let mut total = 0;
    for (index, spot) in attachment.spots().iter().enumerate() {
        assert_eq!(spot.refusal, None, "{}", FUNCTIONS[spot.probe]);
        let name = FUNCTIONS[spot.probe];
        let truth = truth_after[name] - truth_before[name];
        assert_eq!(after[index] - before[index], truth, "calls of {name}");
        total += truth;
    }
    target.run();
    total
}

fn cycles(hook: impl Fn(usize) -> Hook) {
    let cycles = from_environment("DWELL_TORTURE_CYCLES", 100);
    let mut target = Puppet::start("torture", &["32"]);
    let mut pauses = Vec::new();
    let mut left = 0;
    let mut compared = 0;
    for cycle in 0..cycles {
        let attachment =
            Attachment::new(target.pid(), &probes(hook(cycle))).expect("it can be attached to");
        assert!(attachment.is_owned());
        pauses.push(attachment.pause().longest);
        compared += compare(&mut target, &attachment);
        let restored = attachment.detach().expect("it can be let go of");
        pauses.push(restored.pause.longest);
        assert_eq!(restored.windows, FUNCTIONS.len(), "{restored:?}");
        left += restored.arenas_left;
        if cycle % 10 == 0 {
            target.park();
            assert_pristine(target.pid());
            target.run();
        }
    }
    assert_eq!(left, 0, "arenas left behind");
    target.park();
    let bytes = assert_pristine(target.pid());
    target.run();
    target.finish();
    let [median, p99, max] = percentiles(&mut pauses);
    println!(
        "{cycles} cycles, {compared} calls counted exactly, {bytes} bytes of code as in the files"
    );
    println!("pause of 33 threads: p50 {median:.1?}, p99 {p99:.1?}, max {max:.1?}");
}

#[test]
#[ignore = "needs root"]
fn attach_count_and_let_go() {
    cycles(|cycle| match cycle % 2 {
        0 => Hook::Count,
        _ => Hook::Call(dwell_agent::COUNT_OFFSET),
    });
}
