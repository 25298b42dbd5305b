//! `dwell record --locks`: who waited for a lock, who held it, and for how long, is what the programs say; a
//! program that waits for no lock leaves no trace; what was overwritten is counted.
#![allow(clippy::duplicate_mod)] // both helpers find the programs by the same file
mod common;
#[path = "../../dwell-patch/tests/common/mod.rs"]
mod puppets;

use common::*;
use dwell_recording::Tables;
use dwell_recording::rows::{LockBlockRow, LockRow, block_end, block_part};
use dwell_report::answer::{ContendedLock, Frame};
use dwell_report::{LocksAnswer, Options};
use puppets::{Puppet, assert_pristine};
use serde_json::Value;

/// What a program said when it had done its work, which was recorded.
fn recorded(program: &str, args: &[&str]) -> (Tables, Value) {
    let scratch = Scratch::new();
    let mut target = Puppet::start(program, args);
    let recording = CountedRecording::start(&scratch, &[target.pid()]);
    let answer = target.tell("r");
    let tables = recording.interrupt();
    assert_pristine(target.pid());
    target.finish();
    (tables, answer)
}

fn address(answer: &Value) -> u64 {
    let address = answer["lock"].as_str().expect("an address");
    u64::from_str_radix(address.trim_start_matches("0x"), 16).expect("an address")
}

/// What is told of the lock that a program names.
fn of_lock<'t>(tables: &'t Tables, answer: &Value) -> (&'t LockRow, Vec<&'t LockBlockRow>) {
    let address = address(answer);
    let lock = tables
        .locks
        .iter()
        .find(|l| l.address == address && l.kind == "mutex");
    let lock = lock.expect("it was counted");
    let rows = tables.lock_blocks.iter().filter(|r| r.lock == lock.lock);
    (lock, rows.collect())
}

/// Rows of whatever locks were at the address that a program names, of one part.
struct Rows<'t>(Vec<&'t LockBlockRow>);

impl<'t> Rows<'t> {
    fn at(tables: &'t Tables, answer: &Value) -> Rows<'t> {
        let address = address(answer);
        let is_there = |number| {
            let lock = tables.locks.iter().find(|l| l.lock == number);
            lock.is_some_and(|l| l.address == address)
        };
        Rows(
            tables
                .lock_blocks
                .iter()
                .filter(|r| is_there(r.lock))
                .collect(),
        )
    }

    fn of(&self, part: &str) -> impl Iterator<Item = &'t LockBlockRow> {
        let part = part.to_owned();
        self.0.iter().copied().filter(move |r| r.part == part)
    }

    /// The waits of a thread are as many and as long as it says.
    #[track_caller]
    fn check_waits(&self, truth: &Value, rounds: u64) {
        let tid = number(truth, "tid") as u32;
        let waits = self.of(block_part::WAIT).filter(|r| r.ns_tid == tid);
        let waits: Vec<u64> = waits.filter_map(lasted).collect();
        assert_eq!(waits.len() as u64, number(truth, "waits"));
        assert_near("waits", waits.iter().sum(), number(truth, "waited"), rounds);
        let longest = waits.iter().max().copied().unwrap_or(0);
        assert_near("longest wait", longest, number(truth, "longest_wait"), 1);
    }

    /// Its holds too.
    #[track_caller]
    fn check_thread(&self, truth: &Value, rounds: u64, holds_count: u64) {
        self.check_waits(truth, rounds);
        let tid = number(truth, "tid") as u32;
        let holds = self.of(block_part::HOLD).filter(|r| r.ns_tid == tid);
        let holds: Vec<&LockBlockRow> = holds.collect();
        assert_eq!(holds.len() as u64, holds_count);
        assert!(holds.iter().all(|h| h.end == block_end::RELEASED));
        if holds.iter().all(|h| h.start_ns.is_some()) {
            let held = holds.iter().filter_map(|r| lasted(r)).sum();
            assert_near("holds", held, number(truth, "held"), rounds);
        }
    }

    /// Blame and what is unclaimed are the waiting; little is unclaimed, but of waits that were given up for a
    /// lock that does not name its owner.
    #[track_caller]
    fn check_blame(&self, names_owner: bool) {
        let blamed: u64 = self.of(block_part::HOLD).map(|h| h.blamed_ns).sum();
        let unclaimed: u64 = self.of(block_part::WAIT).map(|w| w.unclaimed_ns).sum();
        let waited: u64 = self.of(block_part::WAIT).filter_map(lasted).sum();
        assert_eq!(blamed + unclaimed, waited);
        println!("blamed {blamed} ns, unclaimed {unclaimed} ns");
        let is_known = |w: &&LockBlockRow| names_owner || w.end != block_end::GAVE_UP;
        let known = self.of(block_part::WAIT).filter(is_known);
        let unclaimed: u64 = known.map(|w| w.unclaimed_ns).sum();
        assert!(unclaimed < waited / 10, "{unclaimed} of {waited}");
    }
}

fn lasted(row: &LockBlockRow) -> Option<u64> {
    Some(row.end_ns? - row.start_ns?)
}

/// Within 1 % or 50 µs each of what the program's own clock says.
#[track_caller]
fn assert_near(what: &str, got: u64, wanted: u64, times: u64) {
    let slack = (wanted / 100).max(50_000 * times);
    println!("{what}: {got} ns, by the program {wanted} ns, {times} times");
    assert!(got.abs_diff(wanted) <= slack, "{what}: {got}, not {wanted}");
}

#[test]
#[ignore = "needs root"]
fn waits_and_holds_are_those_of_the_program() {
    waits_and_holds_of("blocks", true);
}

#[test]
#[ignore = "needs root"]
fn waits_and_holds_are_those_of_a_musl_program() {
    waits_and_holds_of("blocks-musl", false);
}

#[test]
#[ignore = "needs root"]
fn waits_and_holds_are_those_of_a_static_musl_program() {
    waits_and_holds_of("blocks-musl-static", false);
}

/// `names_owner`: whether its mutex says who holds it.
fn waits_and_holds_of(program: &str, names_owner: bool) {
    const ROUNDS: u64 = 40;
    let (tables, answer) = recorded(program, &["turns", &ROUNDS.to_string()]);

    let (lock, rows) = of_lock(&tables, &answer);
    assert_eq!(lock.contended, Some(2 * ROUNDS));
    assert_eq!((lock.acquired, lock.timeouts), (3 * ROUNDS, ROUNDS));
    let rows = Rows(rows);
    assert_eq!(rows.of(block_part::BLOCK).count() as u64, ROUNDS);
    assert!(
        rows.of(block_part::BLOCK)
            .all(|b| b.queue == 3 && b.end == block_end::FREE)
    );
    let threads = answer["threads"].as_array().expect("threads");
    let tid = |thread: usize| number(&threads[thread], "tid") as u32;
    for (thread, truth) in threads.iter().enumerate() {
        rows.check_waits(truth, ROUNDS);
        let mine = |r: &&LockBlockRow| r.ns_tid == tid(thread);
        let holds: Vec<_> = rows.of(block_part::HOLD).filter(mine).collect();
        match thread {
            0 => {
                // It had acquired the lock without a wait.
                assert_eq!(holds.len() as u64, ROUNDS);
                assert!(
                    holds
                        .iter()
                        .all(|h| h.start_ns.is_none() && h.end == block_end::RELEASED)
                );
            }
            3 => assert!(holds.is_empty(), "it never had the lock"),
            _ => {
                let held: Vec<u64> = holds.iter().filter_map(|r| lasted(r)).collect();
                assert_eq!(held.len() as u64, ROUNDS);
                assert_near("holds", held.iter().sum(), number(truth, "held"), ROUNDS);
                let longest = held.iter().max().copied().unwrap_or(0);
                assert_near("longest hold", longest, number(truth, "longest_hold"), 1);
            }
        }
    }
    // Everyone wanted the lock from the first, who gave it back last before anyone else had it.
    let owner = if names_owner { tid(0) } else { 0 };
    assert!(rows.of(block_part::WAIT).all(|w| w.owner_ns_tid == owner));
    let gave_up = rows
        .of(block_part::WAIT)
        .filter(|w| w.end == block_end::GAVE_UP);
    assert_eq!(gave_up.count() as u64, ROUNDS);
    // Of those that gave up, too, it is known whom they waited for.
    rows.check_blame(true);
    // Calls have names.
    for row in rows.0.iter().filter(|r| r.part != block_part::BLOCK) {
        for frame in [row.frame, row.release_frame].into_iter().flatten() {
            let symbols = tables.symbols.iter().filter(|s| s.frame == frame);
            let names: Vec<&str> = symbols.map(|s| s.function.as_str()).collect();
            assert!(
                names
                    .iter()
                    .any(|n| n.starts_with("turn") || *n == "take_turns"),
                "{names:?}"
            );
        }
    }
    let [counted] = &tables.meta.counted[..] else {
        panic!("{:?}", tables.meta.counted);
    };
    assert_eq!((counted.lost_events, counted.forgotten), (0, 0));
    // Two that got the lock and one that did not; three releases.
    assert_eq!(counted.events, ROUNDS * (2 + 2 + 2 + 3));
}

/// A writer, readers beside each other, and a writer who waits for both of them.
fn readers_and_writers_of(program: &str, names_owner: bool) {
    const ROUNDS: u64 = 40;
    let (tables, answer) = recorded(program, &["readers", &ROUNDS.to_string()]);

    let rows = Rows::at(&tables, &answer);
    let threads = answer["threads"].as_array().expect("threads");
    for truth in threads {
        rows.check_thread(truth, ROUNDS, ROUNDS);
    }
    rows.check_blame(names_owner);
    let tid = |thread: usize| number(&threads[thread], "tid") as u32;
    // The lock names a writer only.
    let owner = if names_owner { tid(0) } else { 0 };
    for wait in rows.of(block_part::WAIT) {
        let expected = if wait.ns_tid == tid(3) { 0 } else { owner };
        assert_eq!(wait.owner_ns_tid, expected);
        assert_eq!(wait.end, block_end::ACQUIRED);
    }
    // The first writer kept both readers waiting, the readers the second: first both, then the later one.
    let blamed = |thread: usize| {
        let holds = rows.of(block_part::HOLD);
        let mine = holds.filter(|h| h.ns_tid == tid(thread));
        mine.map(|h| h.blamed_ns).sum::<u64>()
    };
    // What is unclaimed is the way from a release to a waiter's processor.
    let claimed = |thread: usize| {
        let waits = rows.of(block_part::WAIT);
        let mine = waits.filter(|w| w.ns_tid == tid(thread));
        mine.map(|w| lasted(w).unwrap_or(0) - w.unclaimed_ns)
            .sum::<u64>()
    };
    assert_eq!(blamed(0), claimed(1) + claimed(2));
    assert_eq!(blamed(1) + blamed(2), claimed(3));
    assert!(blamed(1) > claimed(3) / 4 && blamed(2) > claimed(3) / 4);
    assert_eq!(blamed(3), 0);
    let lock = |kind: &str| tables.locks.iter().find(|l| l.kind == kind);
    let counts = |kind| lock(kind).map(|l| (l.acquired, l.contended));
    assert_eq!(counts("read"), Some((2 * ROUNDS, Some(2 * ROUNDS))));
    assert_eq!(counts("write"), Some((2 * ROUNDS, Some(ROUNDS))));
}

#[test]
#[ignore = "needs root"]
fn readers_and_writers() {
    readers_and_writers_of("blocks", true);
}

#[test]
#[ignore = "needs root"]
fn readers_and_writers_of_musl() {
    readers_and_writers_of("blocks-musl", false);
}

/// The same memory as one lock after the other: no hold and no wait of one is of another.
fn reborn_locks_of(program: &str, names_owner: bool) {
    const ROUNDS: u64 = 30;
    let (tables, answer) = recorded(program, &["reborn", &ROUNDS.to_string()]);

    let rows = Rows::at(&tables, &answer);
    let threads = answer["threads"].as_array().expect("threads");
    let tid = |thread: u64| number(&threads[thread as usize], "tid") as u32;
    // Each thread had the lock first, second, and in vain in a third of the lives.
    for truth in &threads[..3] {
        rows.check_thread(truth, ROUNDS, 2 * ROUNDS / 3);
    }
    rows.check_blame(names_owner);
    let mut blocks: Vec<_> = rows.of(block_part::BLOCK).collect();
    blocks.sort_by_key(|b| b.start_ns);
    assert_eq!(blocks.len() as u64, ROUNDS);
    for (life, block) in (0..).zip(blocks) {
        // Those with parts 0, 1 and 2 in this life.
        let [first, second, third] = [0, 1, 2].map(|part| tid((part + 3 - life % 3) % 3));
        let of = |part: &str| -> Vec<u32> {
            let mut mine: Vec<_> = rows.of(part).filter(|r| r.block == block.block).collect();
            mine.sort_by_key(|r| r.end_ns);
            mine.iter().map(|r| r.ns_tid).collect()
        };
        assert_eq!(of(block_part::HOLD), [first, second], "life {life}");
        assert_eq!(of(block_part::WAIT), [third, second], "life {life}");
        let waits = rows.of(block_part::WAIT);
        let mut of_block = waits.filter(|r| r.block == block.block);
        assert!(of_block.all(|w| [0, first].contains(&w.owner_ns_tid)));
        let kind = tables.locks.iter().find(|l| l.lock == block.lock);
        let kind = kind.map(|l| (l.kind.as_str(), l.mutex_type.as_str()));
        let expected = match life % 3 {
            0 => ("mutex", "normal"),
            1 => ("mutex", "recursive"),
            _ => ("write", ""),
        };
        assert_eq!(kind, Some(expected), "life {life}");
    }
}

#[test]
#[ignore = "needs root"]
fn memory_that_becomes_another_lock() {
    reborn_locks_of("blocks", true);
}

#[test]
#[ignore = "needs root"]
fn memory_that_becomes_another_lock_of_musl() {
    reborn_locks_of("blocks-musl-static", false);
}

#[test]
#[ignore = "needs root"]
fn who_never_waits_leaves_no_trace() {
    for program in ["blocks", "blocks-musl", "blocks-musl-static"] {
        leaves_no_trace(program);
    }
}

fn leaves_no_trace(program: &str) {
    let (tables, _) = recorded(program, &["quiet", "200000"]);
    let acquired: u64 = tables.locks.iter().map(|l| l.acquired).sum();
    assert!(acquired > 400_000, "{acquired}");
    assert_eq!(tables.meta.counted[0].events, 0);
    assert!(tables.lock_blocks.is_empty());
}

/// A recorder that cannot keep up loses events, says how many, and counts right all the same.
#[test]
#[ignore = "needs root"]
fn what_was_overwritten_is_counted_and_totals_are_exact() {
    let scratch = Scratch::new();
    let mut target = Puppet::start("blocks", &["storm", "4", "2", "1000000"]);
    let recording = CountedRecording::start(&scratch, &[target.pid()]);
    recording.dwell.signal(libc::SIGSTOP);
    let answer = target.tell("r");
    recording.dwell.signal(libc::SIGCONT);
    let tables = recording.interrupt();
    assert_pristine(target.pid());
    target.finish();

    let (lock, rows) = of_lock(&tables, &answer);
    assert_eq!(lock.acquired, number(&answer, "acquired"));
    let counted = &tables.meta.counted[0];
    println!(
        "{} of {} contended; {} events, {} lost; {} rows",
        lock.contended.unwrap_or(0),
        lock.acquired,
        counted.events,
        counted.lost_events,
        rows.len()
    );
    assert!(counted.lost_events > 0 && counted.lost_events < counted.events);
    // As many as the buffer holds were read.
    assert!(counted.events - counted.lost_events >= 1 << 16);
    let blamed: u64 = rows.iter().map(|h| h.blamed_ns).sum();
    let unclaimed: u64 = rows.iter().map(|w| w.unclaimed_ns).sum();
    let waits = rows.iter().filter(|r| r.part == block_part::WAIT);
    assert_eq!(
        blamed + unclaimed,
        waits.filter_map(|w| lasted(w)).sum::<u64>()
    );
}

/// Nothing is lost while the recorder runs.
#[test]
#[ignore = "needs root"]
fn a_storm_is_followed() {
    let (tables, answer) = recorded("blocks", &["storm", "3", "64", "300000"]);
    let (lock, rows) = of_lock(&tables, &answer);
    assert_eq!(lock.acquired, number(&answer, "acquired"));
    let counted = &tables.meta.counted[0];
    println!(
        "{} contended, {} events, {} lost",
        lock.contended.unwrap_or(0),
        counted.events,
        counted.lost_events
    );
    assert_eq!(counted.lost_events, 0);
    let acquired = rows.iter().filter(|r| r.end == block_end::ACQUIRED);
    assert_eq!(Some(acquired.count() as u64), lock.contended);
    // What was open at a time when the process had no thread left would be a mistake.
    assert!(rows.iter().all(|r| r.end != block_end::OPEN));
}

/// What is told of the lock that a program names.
fn contended(tables: &Tables, answer: &Value) -> ContendedLock {
    let locks = LocksAnswer::build(tables, &Options::default()).contended;
    let named = |l: &ContendedLock| answer["lock"] == l.address.as_str();
    locks.into_iter().find(named).expect("it is told of")
}

#[track_caller]
fn assert_at(frames: &[Frame], wanted: &[&str]) {
    let names: Vec<&str> = frames.iter().map(|f| f.function.as_str()).collect();
    let mut rest = names.iter();
    for wanted in wanted {
        assert!(rest.any(|n| n.contains(wanted)), "{wanted}: {names:?}");
    }
}

/// The reader's stack where it let the lock go and where it slept with it, the other's where it waited.
#[test]
#[ignore = "needs root"]
fn stacks_of_owners_and_waiters_are_told() {
    const ROUNDS: u64 = 60;
    let (tables, answer) = recorded("blocks", &["reads", &ROUNDS.to_string()]);

    let lock = contended(&tables, &answer);
    assert_at(
        &lock.waiters[0].frames,
        &["pthread_mutex_lock", "want_and_leave"],
    );
    let owner = &lock.owners[0];
    assert_eq!(owner.function.as_deref(), Some("read_and_hold"));
    assert_at(&owner.frames, &["futex_wake", "read_and_hold"]);
    let reading = &lock.away[0];
    assert_eq!(reading.reason.as_deref(), Some("pipe"));
    assert_at(
        &reading.frames,
        &["read", "read_while_holding", "read_and_hold"],
    );
    let truth = number(&answer, "read_ns");
    println!(
        "{} ns of {} asleep in it, by the program {truth}",
        reading.time_ns, lock.held_ns
    );
    // From the first wait on, which comes a little later than the read begins.
    assert!(reading.time_ns <= truth + truth / 50);
    assert!(reading.time_ns >= truth - truth / 20);
    assert!(lock.held_blocked_ns <= lock.held_ns);
    assert_eq!(lock.convoys.count, 0);
}

#[test]
#[ignore = "needs root"]
fn a_lock_that_is_never_free_is_a_convoy() {
    let (tables, answer) = recorded("blocks", &["storm", "4", "1", "20000"]);
    let lock = contended(&tables, &answer);
    println!("{:?}", lock.convoys);
    assert!(lock.convoys.dominate && lock.convoys.most_hand_offs > 100);
}

#[test]
#[ignore = "needs root"]
fn waiting_for_a_nice_thread_is_an_inversion() {
    const ROUNDS: u64 = 250;
    let (tables, answer) = recorded("blocks", &["inverted", &ROUNDS.to_string()]);
    let lock = contended(&tables, &answer);
    let [inversion] = &lock.inversions[..] else {
        panic!("one: {:?}", lock.inversions);
    };
    let hows = [&inversion.waiter_priority, &inversion.owner_priority];
    assert_eq!(hows, ["nice 0", "nice 19"]);
    let truth = number(&answer, "waited");
    println!("{} ns, by the program {truth}", inversion.waited_ns);
    // Waking up takes time in which nobody holds it.
    assert!(inversion.waited_ns <= truth);
    assert!(inversion.waited_ns >= truth - truth / 10);
}
