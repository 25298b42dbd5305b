//! Deadlocks at the end of a recording: of programs that wait for each other's locks, of some that seem to, recorded
//! with and without counting lock operations.

use crate::common::*;
use crate::puppets::{Puppet, assert_pristine};
use dwell_report::{LocksAnswer, Options};
use serde_json::Value;
use std::collections::BTreeMap;

fn answer_of(path: &str) -> LocksAnswer {
    LocksAnswer::build(&load(path), &Options::default())
}

/// Who wants which lock of whom, as the program says, by thread.
fn truth(told: &Value) -> BTreeMap<u32, (String, u32)> {
    let threads = told["threads"].as_array().expect("threads").iter();
    threads
        .map(|t| {
            let wants = t["wants"].as_str().expect("an address").to_owned();
            (
                number(t, "tid") as u32,
                (wants, number(t, "held_by") as u32),
            )
        })
        .collect()
}

/// The one deadlock that is told of is that of the program.
#[track_caller]
fn assert_like(answer: &LocksAnswer, truth: &BTreeMap<u32, (String, u32)>) {
    let [deadlock] = &answer.deadlocks[..] else {
        panic!("one deadlock: {:?}", answer.deadlocks);
    };
    let told = deadlock.threads.iter().map(|t| {
        let lock = (t.address.clone(), t.held_by.tid);
        (t.thread.tid, lock)
    });
    assert_eq!(&told.collect::<BTreeMap<_, _>>(), truth);
    for (thread, next) in deadlock
        .threads
        .iter()
        .zip(deadlock.threads.iter().cycle().skip(1))
    {
        assert_eq!(thread.held_by, next.thread);
        assert!(thread.thread.name.starts_with("philosopher-"));
        assert!(thread.lock.starts_with("forks"), "{}", thread.lock);
        let functions: Vec<&str> = thread.frames.iter().map(|f| f.function.as_str()).collect();
        for wanted in ["want_for_ever", "philosopher"] {
            assert!(functions.contains(&wanted), "{functions:?}");
        }
    }
}

/// How many threads of a program wait for locks.
fn told_waiters(args: &[&str]) -> usize {
    let count: usize = args[1].parse().expect("a number");
    count - usize::from(args[0] == "chain")
}

/// Begins, records for a while when it is in its deadlock, and returns what was recorded and the truth.
fn recorded(scratch: &Scratch, args: &[&str], options: &[&str]) -> (Recorded, Value) {
    let mut target = Puppet::start("deadlock", args);
    let told = target.tell("r");
    let pid = target.pid().to_string();
    let recorded = record(
        scratch,
        &[&["--duration", "600ms", "-p", &pid], options].concat(),
    );
    assert_pristine(target.pid());
    target.finish();
    (recorded, told)
}

#[test]
#[ignore = "needs root"]
fn a_deadlock_that_began_before_is_found() {
    let rings: [&[&str]; 7] = [
        &["ring", "2"],
        &["ring", "3"],
        &["ring", "2", "recursive"],
        &["ring", "2", "errorcheck"],
        &["ring", "2", "robust"],
        &["ring", "2", "write"],
        &["ring", "3", "write"],
    ];
    for args in rings {
        for options in [&[][..], &["--locks"]] {
            println!("{args:?} {options:?}");
            let scratch = Scratch::new();
            let (recorded, told) = recorded(&scratch, args, options);
            assert_like(&answer_of(&recorded.path), &truth(&told));
            let output = dwell(&["locks", &recorded.path])
                .output()
                .expect("dwell runs");
            let text = String::from_utf8(output.stdout).expect("text");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let count = truth(&told).len();
            for wanted in [
                format!("Deadlock {count} threads wait for each other, for ever"),
                format!("philosopher-a ({}) has waited", told["threads"][0]["tid"]),
                format!("which philosopher-b ({}) holds", told["threads"][1]["tid"]),
            ] {
                assert!(text.contains(&wanted), "{wanted}: {text}");
            }
            let output = dwell(&["report", &recorded.path])
                .output()
                .expect("dwell runs");
            let text = String::from_utf8(output.stdout).expect("text");
            assert!(text.contains("threads wait for each other"), "{text}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn a_thread_that_waits_for_itself_is_found() {
    let scratch = Scratch::new();
    let (recorded, told) = recorded(&scratch, &["self", "1"], &[]);
    assert_like(&answer_of(&recorded.path), &truth(&told));
}

/// Threads that give up in time, and such as wait for one that waits for no lock.
#[test]
#[ignore = "needs root"]
fn what_only_looks_like_a_deadlock_is_none() {
    let seeming: [&[&str]; 4] = [
        &["timed", "2"],
        &["timed", "3"],
        &["chain", "3"],
        &["chain", "3", "inherit"],
    ];
    for args in seeming {
        for options in [&[][..], &["--locks"]] {
            println!("{args:?} {options:?}");
            let scratch = Scratch::new();
            let (recorded, _) = recorded(&scratch, args, options);
            let answer = answer_of(&recorded.path);
            assert!(answer.deadlocks.is_empty(), "{:?}", answer.deadlocks);
            // They were seen to wait, and for whom.
            let owners = recorded.tables.events.iter();
            let owners = owners.filter(|e| e.kind == "lock_owner").count();
            // A wait with a timeout that letting go has interrupted goes on under another number.
            if args[0] == "chain" || options.is_empty() {
                assert_eq!(owners, told_waiters(args), "{args:?}");
            }
        }
    }
}

/// Mutexes with priority inheritance: the kernel refuses the last one, of which glibc makes a wait for ever. What
/// that thread wanted is known to who saw it ask.
#[test]
#[ignore = "needs root"]
fn a_deadlock_that_the_kernel_refused_is_found() {
    let scratch = Scratch::new();
    let mut target = Puppet::start("deadlock", &["ring", "3", "inherit"]);
    let recording = CountedRecording::start(&scratch, &[target.pid()]);
    let told = target.tell("r");
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let path = recording.path.clone();
    recording.interrupt();
    assert_like(&answer_of(&path), &truth(&told));
    target.finish();
}

/// One that begins while lock operations are counted, of a process that is killed then: its locks cannot be asked.
#[test]
#[ignore = "needs root"]
fn a_deadlock_of_a_process_that_was_killed_is_found() {
    for args in [&["ring", "3"][..], &["ring", "3", "write"]] {
        let scratch = Scratch::new();
        let mut target = Puppet::start("deadlock", args);
        let mut recording = CountedRecording::start(&scratch, &[target.pid()]);
        let told = target.tell("r");
        std::thread::sleep(std::time::Duration::from_millis(300));
        // SAFETY: no memory effects; the child is not reaped yet, so the id is its own.
        assert_eq!(unsafe { libc::kill(target.pid(), libc::SIGKILL) }, 0);
        while !recording.dwell.ended() {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert_like(&answer_of(&recording.path), &truth(&told));
    }
}
