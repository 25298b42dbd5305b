//! The lock of a Python interpreter: one lock out of several words, and waits that time limits cut to pieces.
use dwell_analysis::Analysis;
use dwell_analysis::locks::{Identity, Lock, Locks, Use};
use dwell_analysis::testing::{MS, TablesBuilder};
use dwell_analysis::wakers::Waker;
use dwell_recording::tables::Tables;

/// Where those that want the lock wait, in a process.
const CONDITION: u64 = 0x5000;

fn of_kind<'l>(locks: &'l Locks, kind: &str) -> Vec<&'l Lock> {
    locks.locks.iter().filter(|l| l.kind == kind).collect()
}

/// Time charged to threads of a name, ns.
fn blamed(analysis: &Analysis<'_>, lock: &Lock, name: &str) -> u64 {
    let of_name = lock.blame.iter().filter(|b| match b.waker {
        Waker::Thread(label) => analysis.groups.labels[label].thread == name,
        _ => false,
    });
    of_name.map(|b| b.blamed_ns).sum()
}

/// A thread that waits for the lock of its interpreter: each piece with who ended it, a time limit if nobody; it runs
/// where a piece has no length.
fn waits(pieces: &[(u64, Option<&str>)]) -> Tables {
    let mut builder = TablesBuilder::new();
    let process = builder.process("python3");
    let holders = ["first", "second"].map(|name| builder.thread(process, name));
    for holder in holders {
        builder.ran(holder, 100 * MS);
    }
    let thread = builder.thread(process, "waiter");
    let stack = builder.stack(&["main", "crunch", "take_gil", "__futex_abstimed_wait_common"]);
    let site = builder.site(thread, "lock", "futex", "");
    builder.on_futex(site, CONDITION + 40, "wait_bitset", true);
    for &(ns, waker) in pieces {
        if ns == 0 {
            builder.ran(thread, 5 * MS);
            continue;
        }
        builder.ran(thread, 10_000);
        builder.waited(site, ns, 0, 1);
        builder.sample(thread, "blocked", stack, Some(site), ns);
        let holder = waker.map(|name| holders[usize::from(name == "second")]);
        builder.kept(site, ns, Some(stack), holder);
        if waker.is_none() {
            let slice = builder.tables.slices.last_mut().expect("just kept");
            slice.waker_name = "[timer]".to_owned();
        }
    }
    builder.tables
}

#[test]
fn what_a_time_limit_ended_is_charged_to_who_let_the_lock_go() {
    let limit = (5 * MS, None);
    let tables = waits(&[
        limit,
        limit,
        limit,
        (MS, Some("first")),
        (0, None),
        limit,
        (2 * MS, Some("second")),
    ]);
    let analysis = Analysis::of(&tables);
    let locks = Locks::of(&analysis);
    let [gil] = of_kind(&locks, "GIL")[..] else {
        panic!("one lock");
    };
    assert_eq!(blamed(&analysis, gil, "first"), 16 * MS, "{gil:?}");
    assert_eq!(blamed(&analysis, gil, "second"), 7 * MS, "{gil:?}");
}

#[test]
fn a_wait_whose_end_was_not_kept_is_charged_like_the_others() {
    let limit = (5 * MS, None);
    let tables = waits(&[limit, (0, None), (2 * MS, Some("second")), limit]);
    let analysis = Analysis::of(&tables);
    let locks = Locks::of(&analysis);
    let gil = of_kind(&locks, "GIL")[0];
    assert_eq!(blamed(&analysis, gil, "second"), 12 * MS, "{gil:?}");
    assert_eq!(gil.waited_ns, 12 * MS);
}

#[test]
fn all_words_of_the_lock_are_one_lock_also_without_names() {
    let mut builder = TablesBuilder::new();
    let process = builder.process("python3");
    let mut add = |address: u64, operation: &str, stack: &[&str]| {
        let thread = builder.thread(process, &format!("thread-{address}"));
        let site = builder.site(thread, "lock", "futex", "");
        builder.on_futex(site, address, operation, true);
        builder.waited(site, 5 * MS, 0, 1);
        let stack = builder.stack(stack);
        builder.sample(thread, "blocked", stack, Some(site), 5 * MS);
        builder.kept(site, 5 * MS, Some(stack), None);
    };
    let wait = "pthread_cond_timedwait";
    let lock = "pthread_mutex_lock";
    let nameless = ["main", "[python3.13+0x1b2c3d]", wait];
    add(
        CONDITION + 40,
        "wait_bitset",
        &["main", "PyEval_RestoreThread", wait],
    );
    add(CONDITION + 44, "wait_bitset", &nameless);
    add(CONDITION + 48, "wait", &["main", "take_gil", lock]);
    add(CONDITION + 88 + 40, "wait_bitset", &nameless);
    add(
        CONDITION + 136,
        "wait",
        &["main", "[python3.13+0x1b2c3d]", lock],
    );
    // Who gives the lock away waits for those that have not seen it yet.
    add(
        CONDITION + 88 + 16,
        "wait",
        &["main", "drop_gil", "pthread_cond_signal"],
    );
    add(0x9028, "wait_bitset", &nameless);
    let locks = Locks::of(&Analysis::of(&builder.tables));
    let [gil] = of_kind(&locks, "GIL")[..] else {
        panic!("one lock: {locks:?}");
    };
    assert_eq!(
        (gil.waits, gil.waited_ns, gil.used),
        (6, 30 * MS, Use::Lock)
    );
    let address = CONDITION;
    assert_eq!(gil.identity, Identity::Word { process, address });
    let [other] = of_kind(&locks, "cond")[..] else {
        panic!("one condition");
    };
    assert_eq!((other.runtime, other.waits), ("glibc", 1));
}
