//! `dwell record --locks`: who waited for a lock, who held it, and for how long, is what the programs say; a
//! program that waits for no lock leaves no trace; what was overwritten is counted.

use crate::common::*;
use crate::puppets::{Puppet, assert_pristine};
use dwell_analysis::Analysis;
use dwell_analysis::locks::contention::{contention, most_waited};
use dwell_recording::Tables;
use dwell_recording::rows::{LockBlockRow, LockRow, block_end, block_part};
use dwell_report::answer::{ContendedLock, Frame, LockAnswer};
use dwell_report::{LocksAnswer, Options};
use serde_json::Value;

/// A program's work, recorded.
struct Run {
    tables: Tables,
    /// What the program said of it.
    answer: Value,
    /// What the host took from the processors meanwhile, ns.
    stolen_ns: u64,
}

fn recorded(program: &str, args: &[&str]) -> Run {
    let scratch = Scratch::new();
    let mut target = Puppet::start(program, args);
    let recording = CountedRecording::start(&scratch, &[target.pid()]);
    let stolen = StolenMeter::start();
    let answer = target.tell("r");
    let stolen_ns = stolen.ns();
    let tables = recording.interrupt();
    assert_pristine(target.pid());
    target.finish();
    Run {
        tables,
        answer,
        stolen_ns,
    }
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

/// Rows of whatever locks were at the address that a program names.
struct Rows<'t> {
    rows: Vec<&'t LockBlockRow>,
    /// See [`Run`].
    stolen_ns: u64,
}

impl<'t> Rows<'t> {
    fn at(run: &'t Run) -> Rows<'t> {
        let address = address(&run.answer);
        let is_there = |number| {
            let lock = run.tables.locks.iter().find(|l| l.lock == number);
            lock.is_some_and(|l| l.address == address)
        };
        let rows = run.tables.lock_blocks.iter();
        Rows {
            rows: rows.filter(|r| is_there(r.lock)).collect(),
            stolen_ns: run.stolen_ns,
        }
    }

    fn of(&self, part: &str) -> impl Iterator<Item = &'t LockBlockRow> {
        let part = part.to_owned();
        self.rows.iter().copied().filter(move |r| r.part == part)
    }

    /// Within 1 % or 50 µs each of what the program's own clock says, but for what the host took.
    #[track_caller]
    fn assert_near(&self, what: &str, got: u64, wanted: u64, times: u64) {
        let stolen = self.stolen_ns;
        println!("{what}: {got} ns, by the program {wanted} ns, {times} times; {stolen} ns stolen");
        assert!(
            near_but_stolen(got, wanted, 0.01, 50_000 * times, stolen),
            "{what}: {got}, not {wanted}"
        );
    }

    /// The waits of a thread, which are as many as it says.
    #[track_caller]
    fn waits_of(&self, truth: &Value) -> Vec<u64> {
        let tid = number(truth, "tid") as u32;
        let waits = self.of(block_part::WAIT).filter(|r| r.ns_tid == tid);
        let waits: Vec<u64> = waits.filter_map(lasted).collect();
        assert_eq!(waits.len() as u64, number(truth, "waits"));
        waits
    }

    /// The waits of a thread are as many and as long as it says.
    #[track_caller]
    fn check_waits(&self, truth: &Value, rounds: u64) {
        let waits = self.waits_of(truth);
        self.assert_near("waits", waits.iter().sum(), number(truth, "waited"), rounds);
        // Each lies within what the program took for it.
        assert_within("wait", waits, spans(truth, "each_wait"));
    }

    /// Its holds too.
    #[track_caller]
    fn check_thread(&self, truth: &Value, rounds: u64, holds_count: u64) {
        self.check_waits(truth, rounds);
        self.check_holds(truth, rounds, holds_count);
    }

    /// The holds of a thread are as many and as long as it says.
    #[track_caller]
    fn check_holds(&self, truth: &Value, rounds: u64, holds_count: u64) {
        let tid = number(truth, "tid") as u32;
        let holds = self.of(block_part::HOLD).filter(|r| r.ns_tid == tid);
        let holds: Vec<&LockBlockRow> = holds.collect();
        assert_eq!(holds.len() as u64, holds_count);
        assert!(holds.iter().all(|h| h.end == block_end::RELEASED));
        if holds.iter().all(|h| h.start_ns.is_some()) {
            let held = holds.iter().filter_map(|r| lasted(r)).sum();
            self.assert_near("holds", held, number(truth, "held"), rounds);
        }
    }

    /// Blame and what is unclaimed are the waiting; how long that was.
    #[track_caller]
    fn check_sum(&self) -> u64 {
        let blamed: u64 = self.of(block_part::HOLD).map(|h| h.blamed_ns).sum();
        let unclaimed: u64 = self.of(block_part::WAIT).map(|w| w.unclaimed_ns).sum();
        let waited: u64 = self.of(block_part::WAIT).filter_map(lasted).sum();
        assert_eq!(blamed + unclaimed, waited);
        println!("blamed {blamed} ns, unclaimed {unclaimed} ns");
        waited
    }

    /// The same; little is unclaimed, but of waits that were given up for a lock that does not name its owner, and
    /// where the host kept a waiter from its processor.
    #[track_caller]
    fn check_blame(&self, names_owner: bool) {
        let waited = self.check_sum();
        let is_known = |w: &&LockBlockRow| names_owner || w.end != block_end::GAVE_UP;
        let known = self.of(block_part::WAIT).filter(is_known);
        let unclaimed: u64 = known.map(|w| w.unclaimed_ns).sum();
        assert!(
            unclaimed < waited / 10 + self.stolen_ns,
            "{unclaimed} of {waited}"
        );
    }
}

/// Spans that a program names.
fn spans(truth: &Value, name: &str) -> Vec<u64> {
    let spans = truth[name].as_array().expect("spans").iter();
    spans.map(|ns| ns.as_u64().expect("ns")).collect()
}

/// The spans of one side lie within those of the other, each in its own, and are hardly shorter, within 1 % or 50 µs: but for a
/// few, where the host of a virtual machine held up a processor between the two sides' clocks. Right after a thread was woken
/// it does so for 100 µs at a time, in one of a hundred cases, and tells of it to nobody.
#[track_caller]
fn assert_within(what: &str, mut inner: Vec<u64>, mut outer: Vec<u64>) {
    assert_eq!(inner.len(), outer.len(), "{what}s");
    inner.sort_unstable();
    outer.sort_unstable();
    let tolerance = |ns: u64| (ns / 100).max(50_000);
    let few = 1 + inner.len() / 20;
    for (place, ns) in inner.iter().enumerate() {
        let least = place.checked_sub(few).map_or(0, |place| outer[place]);
        let most = outer[place];
        assert!(
            least <= ns + tolerance(least) && *ns <= most + tolerance(most),
            "{what} {place}: {ns}, not {least} to {most}"
        );
    }
}

fn lasted(row: &LockBlockRow) -> Option<u64> {
    Some(row.end_ns? - row.start_ns?)
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
    let run = recorded(program, &["turns", &ROUNDS.to_string()]);
    let Run { tables, answer, .. } = &run;

    let (lock, rows) = of_lock(tables, answer);
    assert_eq!(lock.contended, Some(2 * ROUNDS));
    assert_eq!((lock.acquired, lock.timeouts), (3 * ROUNDS, ROUNDS));
    let rows = Rows {
        rows,
        stolen_ns: run.stolen_ns,
    };
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
                rows.assert_near("holds", held.iter().sum(), number(truth, "held"), ROUNDS);
                // Of these the program took a part.
                assert_within("hold", spans(truth, "each_hold"), held);
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
    for row in rows.rows.iter().filter(|r| r.part != block_part::BLOCK) {
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
    // Two that got the lock and one that did not; three releases; four at a barrier, three times.
    assert_eq!(counted.events, ROUNDS * (2 + 2 + 2 + 3 + 3 * 4 * 2));
}

/// What is told with a mutex' release is told before when that takes long: a recording that is looked at meanwhile
/// has the wait.
#[test]
#[ignore = "needs root"]
fn a_wait_is_told_while_the_mutex_is_held_for_long() {
    let scratch = Scratch::new();
    let mut target = Puppet::start("blocks", &["long", "1"]);
    let recording = CountedRecording::start(&scratch, &[target.pid()]);
    let stolen = StolenMeter::start();
    let (answer, told_early) = std::thread::scope(|scope| {
        let turn = scope.spawn(|| target.tell("r"));
        let mut told_early = false;
        while !turn.is_finished() {
            std::thread::sleep(std::time::Duration::from_millis(300));
            let tables = load(&recording.path);
            let mut rows = tables.lock_blocks.iter();
            let is_it = |r: &LockBlockRow| {
                r.part == block_part::WAIT && r.end == block_end::ACQUIRED && lasted(r).is_some()
            };
            told_early |= rows.any(is_it) && !turn.is_finished();
        }
        (turn.join().expect("it answers"), told_early)
    });
    let stolen_ns = stolen.ns();
    assert!(told_early, "only when it was released");
    let tables = recording.interrupt();
    target.finish();
    // And once.
    let (_, rows) = of_lock(&tables, &answer);
    let rows = Rows { rows, stolen_ns };
    assert_eq!(rows.of(block_part::WAIT).count(), 3);
    assert_eq!(rows.of(block_part::BLOCK).count(), 1);
    rows.check_blame(true);
}

/// A writer, readers beside each other, and a writer who waits for both of them.
fn readers_and_writers_of(program: &str, names_owner: bool) {
    const ROUNDS: u64 = 40;
    let run = recorded(program, &["readers", &ROUNDS.to_string()]);
    let Run { tables, answer, .. } = &run;

    let rows = Rows::at(&run);
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
    // musl itself has a read-write lock, which it takes to make threads.
    let address = address(answer);
    let is_it = |l: &&LockRow, kind: &str| l.kind == kind && l.address == address;
    let lock = |kind: &str| tables.locks.iter().find(|l| is_it(l, kind));
    let counts = |kind| lock(kind).map(|l| (l.acquired, l.contended));
    // One of the readers reads again before it lets go.
    assert_eq!(counts("read"), Some((3 * ROUNDS, Some(2 * ROUNDS))));
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

/// Records a program whose threads take turns at something, and what it says of them.
fn turns_of(program: &str, what: &str, rounds: u64) -> Run {
    let run = recorded(program, &[what, &rounds.to_string()]);
    assert_eq!(run.tables.meta.counted[0].lost_events, 0);
    run
}

/// The counts of the locks at the address that a program names: kind, acquired, contended.
fn counts_at(tables: &Tables, answer: &Value) -> Vec<(String, u64, Option<u64>)> {
    let address = address(answer);
    let counts = |l: &LockRow| (l.kind.to_string(), l.acquired, l.contended);
    let there = tables.locks.iter().filter(|l| l.address == address);
    there.map(counts).collect()
}

/// A lock in the heap has the name of who made it; one that was made by no call of who wanted it first. A lock that
/// was destroyed at the same place gives it none.
fn locks_in_heap_of(program: &str) {
    for (what, wanted) in [
        ("heap", "made in make_lock"),
        ("copied", "first wanted in turn"),
    ] {
        let run = turns_of(program, what, 10);
        let Run { tables, answer, .. } = &run;
        let lock = contended(tables, answer);
        println!("{what}: {}", lock.name);
        let (address, origin) = lock.name.split_once(' ').expect("an address and more");
        assert_eq!(address, lock.address);
        assert!(origin.starts_with(wanted), "{origin}");
        if program == "blocks" && what == "heap" {
            assert!(origin.contains(" at blocks.c:"), "{origin}");
        }
    }
}

#[test]
#[ignore = "needs root"]
fn who_made_a_lock_is_told() {
    locks_in_heap_of("blocks");
}

#[test]
#[ignore = "needs root"]
fn who_made_a_lock_is_told_in_musl() {
    locks_in_heap_of("blocks-musl-static");
}

/// A variable has its own name, also when nobody slept for it.
#[test]
#[ignore = "needs root"]
fn a_spin_lock_has_the_name_of_its_variable() {
    let run = turns_of("blocks", "spins", 5);
    let Run { tables, answer, .. } = &run;
    assert_eq!(contended(tables, answer).name, "spin");
}

/// One has a spin lock and two spin for it: waits, holds and blame of the program's own account.
fn spinning_of(program: &str) {
    const ROUNDS: u64 = 40;
    let run = turns_of(program, "spins", ROUNDS);
    let Run { tables, answer, .. } = &run;
    let rows = Rows::at(&run);
    let threads = answer["threads"].as_array().expect("threads");
    for truth in &threads[..3] {
        rows.check_thread(truth, ROUNDS, ROUNDS);
    }
    let waited = rows.check_sum();
    // One waited for as long as the first held it, but while the host had its processor. Whoever has none when
    // the lock is let go is kept waiting by nobody.
    let first = number(&threads[0], "tid") as u32;
    let mine = rows.of(block_part::HOLD).filter(|h| h.ns_tid == first);
    let blamed: u64 = mine.map(|h| h.blamed_ns).sum();
    let held = number(&threads[0], "held");
    assert!(
        blamed + run.stolen_ns >= held - held / 100 && blamed <= waited,
        "{blamed}, {held} held"
    );
    assert!(
        rows.of(block_part::WAIT)
            .all(|w| w.end == block_end::ACQUIRED)
    );
    let counted = ("spin".to_owned(), 3 * ROUNDS, Some(2 * ROUNDS));
    assert_eq!(counts_at(tables, answer), [counted]);
    let lock = contended(tables, answer);
    assert_eq!(lock.wait.count, 2 * ROUNDS);
    assert_eq!(lock.wait.sum_ns, waited);
    // Where they spun, though they never slept: of hundreds of ms some samples come. An answer names the longest.
    let analysis = Analysis::of(tables);
    let all = contention(&analysis, &most_waited(&analysis));
    let mut spinners = all.iter().map(|c| &c.spinners);
    let spinners = spinners.find(|s| !s.is_empty()).expect("a spin lock");
    let told: u64 = spinners.iter().map(|w| w.waited_ns).sum();
    assert_eq!(told, waited);
    assert_at(&lock.waiters[0].frames, &["turn_to_spin"]);
    assert!(lock.waiters[0].frames.len() > 2, "{:?}", lock.waiters[0]);
}

#[test]
#[ignore = "needs root"]
fn who_spins_is_seen() {
    spinning_of("blocks");
}

#[test]
#[ignore = "needs root"]
fn who_spins_is_seen_in_musl() {
    spinning_of("blocks-musl");
}

/// Four come to a barrier one after the other; the last of them does not wait.
fn waiting_at_a_barrier_of(program: &str) {
    const ROUNDS: u64 = 40;
    let run = turns_of(program, "gates", ROUNDS);
    let Run { tables, answer, .. } = &run;
    let rows = Rows::at(&run);
    let threads = answer["threads"].as_array().expect("threads");
    for truth in threads {
        rows.check_thread(truth, ROUNDS, 0);
    }
    // It belongs to nobody.
    let unclaimed: u64 = rows.of(block_part::WAIT).map(|w| w.unclaimed_ns).sum();
    let waited: u64 = rows.of(block_part::WAIT).filter_map(lasted).sum();
    assert_eq!(unclaimed, waited);
    assert_eq!(rows.of(block_part::BLOCK).count() as u64, ROUNDS);
    assert_eq!(counts_at(tables, answer)[0].1, 4 * ROUNDS);
    let lock = contended(tables, answer);
    let waits = rows.of(block_part::WAIT).count() as u64;
    assert_eq!((lock.wait.count, lock.unclaimed_ns), (waits, waited));
    // Threads of musl wait on a word of their own, which lies on the stack of the first of them.
    if program == "blocks" {
        let wanted = ["pthread_barrier_wait", "turn_at_a_gate"];
        assert_at(&lock.waiters[0].frames, &wanted);
    }
}

#[test]
#[ignore = "needs root"]
fn who_waits_at_a_barrier_is_seen() {
    waiting_at_a_barrier_of("blocks");
}

#[test]
#[ignore = "needs root"]
fn who_waits_at_a_barrier_is_seen_in_musl() {
    waiting_at_a_barrier_of("blocks-musl");
}

/// Two wait for a semaphore until it is raised, one in vain.
fn waiting_for_a_semaphore_of(program: &str) {
    const ROUNDS: u64 = 40;
    let run = turns_of(program, "units", ROUNDS);
    let Run { tables, answer, .. } = &run;
    let rows = Rows::at(&run);
    let threads = answer["threads"].as_array().expect("threads");
    for truth in threads {
        rows.check_thread(truth, ROUNDS, 0);
    }
    let gave_up = rows
        .of(block_part::WAIT)
        .filter(|w| w.end == block_end::GAVE_UP);
    assert_eq!(gave_up.count() as u64, ROUNDS);
    let counted = ("semaphore".to_owned(), 2 * ROUNDS, Some(2 * ROUNDS));
    assert_eq!(counts_at(tables, answer), [counted]);
    let lock = contended(tables, answer);
    assert_eq!((lock.wait.count, lock.gave_up), (3 * ROUNDS, ROUNDS));
    assert_eq!(lock.wait.sum_ns, lock.unclaimed_ns);
    assert_at(&lock.waiters[0].frames, &["sem_", "turn_with_units"]);
}

#[test]
#[ignore = "needs root"]
fn who_waits_for_a_semaphore_is_seen() {
    waiting_for_a_semaphore_of("blocks");
}

#[test]
#[ignore = "needs root"]
fn who_waits_for_a_semaphore_is_seen_in_musl() {
    waiting_for_a_semaphore_of("blocks-musl");
}

/// One waits for a condition until it is told, one in vain; both find their mutex taken then, and have it later.
fn mutexes_after_conditions_of(program: &str, names_owner: bool) {
    const ROUNDS: u64 = 20;
    let run = turns_of(program, "conditions", ROUNDS);
    let Run { tables, answer, .. } = &run;
    let rows = Rows::at(&run);
    let threads = answer["threads"].as_array().expect("threads");
    for truth in &threads[..3] {
        // The program cannot say how long it took it to wake up for the mutex.
        let (waited, truly) = (rows.waits_of(truth).iter().sum(), number(truth, "waited"));
        println!("waits: {waited} ns, by the program up to {truly} ns");
        let least = (truly - truly / 20).saturating_sub(run.stolen_ns);
        assert!((least..=truly).contains(&waited), "{waited}, not {truly}");
        rows.check_holds(truth, ROUNDS, ROUNDS);
    }
    rows.check_blame(names_owner);
    let first = number(&threads[0], "tid") as u32;
    let owner = if names_owner { first } else { 0 };
    for wait in rows.of(block_part::WAIT) {
        assert_eq!(
            (wait.owner_ns_tid, &*wait.end),
            (owner, block_end::ACQUIRED)
        );
    }
    assert_eq!(rows.of(block_part::BLOCK).count() as u64, ROUNDS);
    // Three take it, two of them twice.
    let counted = ("mutex".to_owned(), 5 * ROUNDS, Some(2 * ROUNDS));
    assert_eq!(counts_at(tables, answer), [counted]);
    let lock = contended(tables, answer);
    assert_eq!(lock.hold.count, 2 * ROUNDS);
    if names_owner {
        assert_eq!(lock.wanted_by.as_deref(), Some("turn_with_news"));
    }
}

#[test]
#[ignore = "needs root"]
fn a_mutex_taken_again_after_a_condition() {
    mutexes_after_conditions_of("blocks", true);
}

#[test]
#[ignore = "needs root"]
fn a_mutex_taken_again_after_a_condition_in_musl() {
    mutexes_after_conditions_of("blocks-musl", false);
}

/// Who began to wait for a condition before the recording began wants its mutex again from a place that was not
/// seen: no function of libc stands for it.
#[test]
#[ignore = "needs root"]
fn a_mutex_taken_again_after_a_condition_from_before() {
    let Run { tables, answer, .. } = turns_of("blocks", "late", 1);
    let lock = contended(&tables, &answer);
    assert_eq!(lock.wait.count, 1);
    assert_eq!((lock.wanted_by, lock.name), (None, lock.address));
}

/// The same memory as one lock after the other: no hold and no wait of one is of another.
fn reborn_locks_of(program: &str, names_owner: bool) {
    const ROUNDS: u64 = 30;
    let run = recorded(program, &["reborn", &ROUNDS.to_string()]);
    let Run { tables, answer, .. } = &run;

    let rows = Rows::at(&run);
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
    let tables = recorded(program, &["quiet", "200000"]).tables;
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
    let mut target = Puppet::start("blocks", &["storm", "4", "2", "2000000"]);
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
    assert_followed(&["storm", "3", "64", "300000"]);
}

/// Those whose word is another, too: whoever has waited for one tells when it lets it go.
#[test]
#[ignore = "needs root"]
fn a_storm_for_any_kind_of_mutex_is_followed() {
    for kind in ["recursive", "checking", "robust"] {
        assert_followed(&["storm", "3", "64", kind, "30000"]);
    }
    // The kernel hands these from waiter to waiter: three of four acquisitions are told.
    assert_followed(&["storm", "3", "64", "inherit", "3000"]);
}

fn assert_followed(arguments: &[&str]) {
    let run = recorded("blocks", arguments);
    let Run { tables, answer, .. } = &run;
    let (lock, rows) = of_lock(tables, answer);
    assert_eq!(lock.acquired, number(answer, "acquired"));
    let counted = &tables.meta.counted[0];
    println!(
        "{arguments:?}: {} contended, {} events, {} lost",
        lock.contended.unwrap_or(0),
        counted.events,
        counted.lost_events
    );
    assert_eq!(counted.lost_events, 0);
    let acquired = rows.iter().filter(|r| r.end == block_end::ACQUIRED);
    assert_eq!(Some(acquired.count() as u64), lock.contended);
    // What was open at a time when the process had no thread left would be a mistake.
    assert!(rows.iter().all(|r| r.end != block_end::OPEN));
    // Whoever has told that it acquired the lock tells its release, in time but for one that lost its processor in between
    // for longer than others wait for it.
    let begun = |r: &&&LockBlockRow| r.part == block_part::HOLD && r.start_ns.is_some();
    let holds = rows.iter().filter(begun).count();
    let untold = rows.iter().filter(begun);
    let untold = untold.filter(|r| r.end == block_end::UNSEEN).count();
    assert!(untold * 1000 <= holds, "{untold} of {holds}");
}

/// What is told of the lock that a program names.
fn contended(tables: &Tables, answer: &Value) -> ContendedLock {
    let all = LocksAnswer::build(tables, &Options::default());
    for lock in &all.contended {
        let is_it = |l: &&LockAnswer| l.address.as_ref() == Some(&lock.address);
        let waited_for = all.locks.iter().find(is_it);
        let is_named_alike =
            waited_for.is_none_or(|l| l.name == lock.name || l.name.contains(" in "));
        assert!(is_named_alike, "{} and {waited_for:?}", lock.name);
    }
    let locks = all.contended;
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
    let run = recorded("blocks", &["reads", &ROUNDS.to_string()]);
    let Run { tables, answer, .. } = &run;

    let lock = contended(tables, answer);
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
    let truth = number(answer, "read_ns");
    println!(
        "{} ns of {} asleep in it, by the program {truth}",
        reading.time_ns, lock.held_ns
    );
    // From the first wait on, which comes a little later than the read begins.
    assert!(reading.time_ns <= truth + truth / 50);
    // Once it is woken it sleeps no more, though the host has its processor.
    assert!(reading.time_ns + run.stolen_ns >= truth - truth / 20);
    assert!(lock.held_blocked_ns <= lock.held_ns);
    assert_eq!(lock.convoys.count, 0);
}

#[test]
#[ignore = "needs root"]
fn a_lock_that_is_never_free_is_a_convoy() {
    let run = recorded("blocks", &["storm", "4", "1", "20000"]);
    let Run { tables, answer, .. } = &run;
    let lock = contended(tables, answer);
    println!("{:?}", lock.convoys);
    assert!(lock.convoys.dominate && lock.convoys.most_hand_offs > 100);
}

#[test]
#[ignore = "needs root"]
fn waiting_for_a_nice_thread_is_an_inversion() {
    const ROUNDS: u64 = 250;
    let run = recorded("blocks", &["inverted", &ROUNDS.to_string()]);
    let Run { tables, answer, .. } = &run;
    let lock = contended(tables, answer);
    let [inversion] = &lock.inversions[..] else {
        panic!("one: {:?}", lock.inversions);
    };
    let hows = [&inversion.waiter_priority, &inversion.owner_priority];
    assert_eq!(hows, ["nice 0", "nice 19"]);
    let truth = number(answer, "waited");
    println!("{} ns, by the program {truth}", inversion.waited_ns);
    // Waking up takes time in which nobody holds it.
    assert!(inversion.waited_ns <= truth);
    assert!(inversion.waited_ns + run.stolen_ns >= truth - truth / 10);
}
