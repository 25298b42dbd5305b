//! Attaches to and lets go of a program that does everything patching may break, over and over.
mod common;

use common::{Puppet, assert_pristine, at_entry, from_environment, percentiles};
use dwell_patch::{Attachment, Hook, PatchError, Probe, State};
use std::process::{Child, Command};
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

/// A child of vfork runs in its parent's memory for as long as it likes, and its parent cannot be stopped meanwhile.
/// Nobody waits for either.
#[test]
#[ignore = "needs root"]
fn children_of_vfork_that_stay() {
    const STAY_MS: &str = "5000";
    let cycles = from_environment("DWELL_TORTURE_CYCLES", 20);
    let mut target = Puppet::start("longvfork", &[STAY_MS]);
    let probe = [at_entry("/longvfork", "call_in_child", Hook::Count)];
    let mut pauses = Vec::new();
    for _ in 0..cycles {
        let attachment = Attachment::new(target.pid(), &probe).expect("it can be attached to");
        let read = || attachment.counts().expect("the program runs")[0];
        let truth = target.park()["call_in_child"];
        let counted = read();
        target.run();
        std::thread::sleep(Duration::from_millis(20));
        let calls = target.park()["call_in_child"] - truth;
        assert_eq!(read() - counted, calls);
        assert!(calls > 0);
        target.run();
        pauses.push(attachment.pause().longest);
        let restored = attachment.detach().expect("it can be let go of");
        assert_eq!((restored.windows, restored.arenas_left), (1, 0));
        pauses.push(restored.pause.longest);
        assert_pristine(target.pid());
    }
    target.finish();
    let [median, p99, max] = percentiles(&mut pauses);
    println!("pause beside children of vfork: p50 {median:.1?}, p99 {p99:.1?}, max {max:.1?}");
    assert!(median < Duration::from_millis(12), "{median:?}");
}

/// Processes that take all the time of all processors.
struct Hogs(Vec<Child>);

impl Hogs {
    fn start() -> Hogs {
        const A_PROCESSOR: usize = 2;
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        let hog = |_| {
            let script = ["-c", "while :; do :; done"];
            Command::new("sh").args(script).spawn().expect("sh")
        };
        Hogs((0..processors * A_PROCESSOR).map(hog).collect())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// Threads that hardly ever get a processor are long in coming to their stop. They are let go of nevertheless.
#[test]
#[ignore = "needs root"]
fn a_process_that_gets_no_processor_is_let_go() {
    let cycles = from_environment("DWELL_TORTURE_CYCLES", 1);
    let mut target = Puppet::start("torture", &["32"]);
    let idle = libc::sched_param { sched_priority: 0 };
    for thread in std::fs::read_dir(format!("/proc/{}/task", target.pid())).expect("it runs") {
        let tid = thread.expect("a thread").file_name();
        let tid = tid.to_str().and_then(|t| t.parse().ok()).expect("a number");
        // SAFETY: the structure is read during the call.
        unsafe { libc::sched_setscheduler(tid, libc::SCHED_IDLE, &raw const idle) };
    }
    let mut pauses = Vec::new();
    for _ in 0..cycles {
        let attachment =
            Attachment::new(target.pid(), &probes(Hook::Count)).expect("it can be attached to");
        let hogs = Hogs::start();
        std::thread::sleep(Duration::from_millis(100));
        let restored = attachment.detach().expect("it can be let go of");
        drop(hogs);
        assert_eq!(
            (restored.windows, restored.arenas_left),
            (FUNCTIONS.len(), 0)
        );
        pauses.push(restored.pause.longest);
    }
    target.park();
    assert_pristine(target.pid());
    target.run();
    target.finish();
    println!("held meanwhile: {pauses:.1?}");
}

/// Room for an arena is looked for first and taken later: a program that maps memory all the time comes first
/// now and then. Nothing of ours stays where that happened, and nothing of the program's is touched.
#[test]
#[ignore = "needs root"]
fn another_mapping_comes_first() {
    let rounds = from_environment("DWELL_TORTURE_CYCLES", 40);
    let mut target = Puppet::start("mapper", &["3"]);
    let probe = [at_entry("/libc.so.6", "mmap", Hook::Count)];
    let state = State {
        own_len: 256 << 10,
        shared_len: 1 << 20,
        ..State::default()
    };
    target.run();
    let mut refused = 0;
    for _ in 0..rounds {
        // Where another came first five times in a row, it is said, and nothing is left behind either.
        match Attachment::with_state(target.pid(), &probe, &state) {
            Ok(attachment) => {
                let restored = attachment.detach().expect("it can be let go of");
                assert_eq!((restored.foreign, restored.arenas_left), (0, 0));
            }
            Err(PatchError::NoMemory { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        target.park();
        assert_pristine(target.pid());
        target.run();
    }
    let mapped = target.park()["mapped"];
    target.run();
    target.finish();
    println!("{rounds} times beside {mapped} mappings; {refused} times there was no room");
    assert!(refused < rounds / 4);
}
