//! What is counted is what the programs say they did, lock by lock.
#[path = "../../dwell-patch/tests/common/mod.rs"]
mod common;

use common::{Puppet, assert_pristine, from_environment};
use dwell_locks::{Libc, Locks, Missed, Snapshot};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Acquisitions, nested ones, failed tries, timeouts; by address.
type Counts = BTreeMap<u64, [u64; 4]>;

/// What a program says, but for locks of which it names a function that could not be hooked.
fn truth(answer: &Value, missed: &[Missed]) -> Counts {
    let is_seen = |name: &str| !missed.iter().any(|m| name.starts_with(m.function));
    let locks = answer.as_object().expect("an object").iter();
    let locks = locks.filter(|(address, _)| is_seen(address));
    let number = |v: &Value| v.as_u64().expect("a count");
    locks
        .map(|(address, counts)| {
            let (_, address) = address.split_once("0x").expect("an address");
            let address = u64::from_str_radix(address, 16).expect("an address");
            let counts = counts.as_array().expect("counts");
            (address, std::array::from_fn(|n| number(&counts[n])))
        })
        .collect()
}

/// What was counted.
fn counted(snapshot: &Snapshot) -> Counts {
    assert_eq!(snapshot.forgotten, 0);
    let mut counts = Counts::new();
    for lock in &snapshot.locks {
        let sums = counts.entry(lock.address).or_default();
        let more = [lock.acquired, lock.nested, lock.try_fails, lock.timeouts];
        for (sum, more) in sums.iter_mut().zip(more) {
            *sum += more;
        }
    }
    counts
}

/// The rise of every count of `of` from one instant to another.
fn rise(of: &Counts, from: &Counts, to: &Counts) -> Counts {
    let at = |counts: &Counts, lock| counts.get(lock).copied().unwrap_or_default();
    let rise = |lock| {
        let (from, to) = (at(from, lock), at(to, lock));
        std::array::from_fn(|n| to[n] - from[n])
    };
    of.keys().map(|lock| (*lock, rise(lock))).collect()
}

fn sum(counts: &Counts, which: usize) -> u64 {
    counts.values().map(|c| c[which]).sum()
}

/// Attaches in the middle of everything, compares between parks, and lets go in the middle.
/// What must have happened: `which` of the counts.
fn follow(name: &str, which: &[usize], expected: impl Fn(Libc) -> bool) {
    let rounds = from_environment("DWELL_LOCK_ROUNDS", 8);
    let mut target = Puppet::start(name, &["2"]);
    target.run();
    let mut seen = [0; 4];
    for round in 0..rounds {
        let locks = Locks::attach(target.pid()).expect("it can be attached to");
        assert!(expected(locks.libc()), "{:?}", locks.libc());
        if round == 0 {
            // Where the processor has transactions glibc can elide locks, in code with a `ret` that has no room.
            let missed = locks.missed();
            assert!(
                missed.is_empty() || is_x86_feature_detected!("rtm"),
                "{name}: {missed:?}"
            );
        }
        let before = truth(&target.tell("p"), locks.missed());
        let counted_before = counted(&locks.snapshot().expect("it runs"));
        target.run();
        std::thread::sleep(Duration::from_millis(200));
        // A look at any time.
        assert!(locks.snapshot().expect("it runs").sum(|l| l.acquired) > 0);
        let after = truth(&target.tell("p"), locks.missed());
        let counted_after = counted(&locks.snapshot().expect("it runs"));
        let wanted = rise(&after, &before, &after);
        let got = rise(&after, &counted_before, &counted_after);
        assert!(got == wanted, "{name}: {}", differences(&got, &wanted));
        for (which, seen) in seen.iter_mut().enumerate() {
            *seen += sum(&wanted, which);
        }
        let is_parked = round % 2 == 0;
        if !is_parked {
            target.run();
        }
        let (last, restored) = locks.detach().expect("it can be let go of");
        assert_eq!((restored.foreign, restored.arenas_left), (0, 0));
        let last = counted(&last.expect("it runs"));
        if is_parked {
            assert_eq!(last, counted_after);
            assert_pristine(target.pid());
            target.run();
        } else {
            assert!(sum(&last, 0) >= sum(&counted_after, 0));
        }
    }
    target.finish();
    println!("{name}: acquired, nested, failed, timed out: {seen:?}");
    assert!(which.iter().all(|&n| seen[n] > 0), "{seen:?}");
}

fn differences(got: &Counts, wanted: &Counts) -> String {
    let differ = wanted.iter().filter(|(lock, n)| got[lock] != **n);
    let lines = differ.map(|(lock, n)| format!("{lock:#x}: {:?}, not {n:?}", got[lock]));
    lines.collect::<Vec<_>>().join("\n")
}

const ALL: [usize; 4] = [0, 1, 2, 3];
const NOT_NESTED: [usize; 3] = [0, 2, 3];

#[test]
#[ignore = "needs root"]
fn everything_else() {
    follow("primitives", &NOT_NESTED, |libc| {
        matches!(libc, Libc::Glibc(_))
    });
}

#[test]
#[ignore = "needs root"]
fn everything_else_static() {
    follow("primitives-static", &NOT_NESTED, |libc| {
        matches!(libc, Libc::Glibc(_))
    });
}

#[test]
#[ignore = "needs root"]
fn everything_else_musl() {
    follow("primitives-musl", &NOT_NESTED, |libc| libc == Libc::Musl);
}

#[test]
#[ignore = "needs root"]
fn every_kind_of_mutex() {
    follow("mutexes", &ALL, |libc| matches!(libc, Libc::Glibc(_)));
}

#[test]
#[ignore = "needs root"]
fn every_kind_of_mutex_static() {
    follow("mutexes-static", &ALL, |libc| {
        matches!(libc, Libc::Glibc(_))
    });
}

#[test]
#[ignore = "needs root"]
fn every_kind_of_mutex_musl() {
    follow("mutexes-musl", &ALL, |libc| libc == Libc::Musl);
}

/// As many as one has patience for: every single one is counted, each for its own lock.
#[test]
#[ignore = "needs root"]
fn not_one_is_lost() {
    const THREADS: usize = 4;
    let all = from_environment("DWELL_LOCK_PAIRS", 100_000_000);
    let each = (all / THREADS).to_string();
    let mut target = Puppet::start("mutexes", &[&THREADS.to_string(), &each]);
    let locks = Locks::attach(target.pid()).expect("it can be attached to");
    let wanted = truth(&target.tell("r"), &[]);
    let (last, _) = locks.detach().expect("it can be let go of");
    let got = counted(&last.expect("it runs"));
    let got = rise(&wanted, &Counts::new(), &got);
    assert!(got == wanted, "{}", differences(&got, &wanted));
    assert_eq!(sum(&got, 0), (all / THREADS * THREADS) as u64);
    target.finish();
}

/// Attaching and letting go over and over under load changes no result.
#[test]
#[ignore = "needs root"]
fn comes_and_goes() {
    let rounds = from_environment("DWELL_LOCK_ROUNDS", 8);
    for name in ["torture", "mutexes"] {
        let arguments: &[&str] = if name == "torture" { &["18"] } else { &["2"] };
        let mut target = Puppet::start(name, arguments);
        if name == "mutexes" {
            target.run();
        }
        for _ in 0..5 * rounds {
            let locks = Locks::attach(target.pid()).expect("it can be attached to");
            std::thread::sleep(Duration::from_millis(10));
            let (last, restored) = locks.detach().expect("it can be let go of");
            assert!(last.is_some());
            assert_eq!((restored.foreign, restored.arenas_left), (0, 0));
        }
        target.tell("p");
        assert_pristine(target.pid());
        target.run();
        target.finish();
    }
}

/// Whose owner is killed, at any instant, is inherited by the next, and no other is.
#[test]
#[ignore = "needs root"]
fn robust_mutexes_of_a_killed_process_are_inherited() {
    let rounds = from_environment("DWELL_LOCK_ROUNDS", 8);
    let mut target = Puppet::start("heirs", &[]);
    let mut counted = 0;
    let mut told = Value::Null;
    for round in 0..10 * rounds {
        let child = target.tell("r")["pid"].as_i64().expect("a process");
        let locks = Locks::attach(child as i32).expect("it can be attached to");
        std::thread::sleep(Duration::from_micros(10_000 + 37 * round as u64));
        counted += locks.snapshot().expect("it runs").sum(|l| l.acquired);
        told = target.tell("k");
    }
    println!("{counted} acquisitions counted; {told}");
    assert!(
        counted > 0 && told["inherited"].as_u64() > Some(0),
        "{told}"
    );
    target.finish();
}

const PID: &str = "DWELL_TEST_COUNT_LOCKS_OF";

/// What is killed: counts for as long as it lives.
#[test]
#[ignore = "needs root"]
fn counter() {
    let Ok(pid) = std::env::var(PID) else {
        return; // run by itself, there is nothing to attach to
    };
    let _locks = Locks::attach(pid.parse().expect("a number")).expect("it can be attached to");
    std::thread::sleep(Duration::from_secs(600));
}

/// A target whose dwell was killed lives on, locks and unlocks rightly, and can be counted again.
#[test]
#[ignore = "needs root"]
fn outlives_a_killed_dwell() {
    let rounds = from_environment("DWELL_LOCK_ROUNDS", 8);
    let mut target = Puppet::start("mutexes", &["2"]);
    target.run();
    for round in 0..rounds {
        let mut counter = Command::new(std::env::current_exe().expect("a path"))
            .args(["counter", "--exact", "--ignored", "--nocapture"])
            .env(PID, target.pid().to_string())
            .stdout(Stdio::null())
            .spawn()
            .expect("this program starts");
        // While it reads libc, while it attaches, while it counts.
        std::thread::sleep(Duration::from_millis(100 + 200 * round as u64));
        counter.kill().expect("it runs");
        counter.wait().expect("it is dead");
        // Every thread gets on.
        target.tell("p");
        target.run();
    }
    let locks = Locks::attach(target.pid()).expect("it can be attached to");
    std::thread::sleep(Duration::from_millis(50));
    let (last, restored) = locks.detach().expect("it can be let go of");
    assert!(last.expect("it runs").sum(|l| l.acquired) > 0);
    assert_eq!((restored.foreign, restored.arenas_left), (0, 0));
    target.tell("p");
    assert_pristine(target.pid());
    target.run();
    target.finish();
}
