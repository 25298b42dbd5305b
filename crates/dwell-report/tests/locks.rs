//! The answer about locks: it fits its terminal, adds up, and the JSON holds the same.
use dwell_analysis::testing::{Scale, fixture};
use dwell_recording::meta::CountedProcess;
use dwell_recording::rows::{FutexRow, KernelLockRow, LockBlockRow, LockRow};
use dwell_recording::tables::Tables;
use dwell_report::answer::{
    Frame, LockAway, LockConvoys, LockDeadlock, LockHolder, LockInversion, LockThread, StuckThread,
    Waiter,
};
use dwell_report::terminal::{Style, render, render_locks, render_timeline, timeline_parts};
use dwell_report::{Answer, LockTimeline, LocksAnswer, Options, json};
use unicode_width::UnicodeWidthStr;

fn tables() -> Tables {
    let mut tables = fixture(Scale {
        seconds: 2,
        ..Scale::default()
    });
    // The mutex lies in a variable, at the second of an array.
    let mutex = tables.sites.iter().find(|site| site.operation == "wait");
    let futex = mutex.and_then(|site| site.futex).unwrap();
    let row = &mut tables.futexes[futex as usize];
    row.module = "/usr/bin/searchd".to_owned();
    row.stated = Some(0x4028);
    row.symbol = "searchd::Cache<std::string, searchd::Document>::shards".to_owned();
    row.offset = Some(0x28);
    tables
}

fn answer(tables: &Tables) -> LocksAnswer {
    LocksAnswer::build(tables, &Options::default())
}

/// The same, the mutex and two locks that nobody waited for counted.
fn counted() -> Tables {
    let mut tables = tables();
    let mutex = tables.sites.iter().find(|site| site.operation == "wait");
    let futex = mutex.and_then(|site| site.futex).unwrap();
    let FutexRow {
        process, address, ..
    } = tables.futexes[futex as usize];
    let counts = [
        (address, "mutex", 2_000_000, Some(30_000)),
        (0x10, "spin", 500, None),
        (0x20, "write", 7, Some(0)),
        (0x30, "condition", 12, None),
    ];
    tables.locks = (0..)
        .zip(counts)
        .map(|(lock, (address, kind, acquired, contended))| LockRow {
            lock,
            process,
            address,
            kind: kind.to_owned(),
            acquired,
            contended,
            ..LockRow::default()
        })
        .collect();
    tables.lock_blocks = blocks(process, &tables);
    let stack = Some(tables.stacks[0].stack);
    tables.kernel_locks = [("spin", "", stack, 30), ("rwsem", "write", None, 10)]
        .map(|(kind, access, stack, waits)| KernelLockRow {
            process,
            address: waits,
            kind: kind.to_owned(),
            access: access.to_owned(),
            stack,
            waits,
            waited_ns: waits * 1000,
            max_ns: 4000,
        })
        .to_vec();
    tables
        .meta
        .produced
        .insert("kernel_lock_waits".to_owned(), 41);
    tables.meta.losses.insert("kernel_lock_waits".to_owned(), 1);
    tables.meta.counted = vec![CountedProcess {
        process,
        pid: 4711,
        libc: "glibc".to_owned(),
        forgotten: 2,
        events: 1_000,
        lost_events: 10,
        released_free: 1,
        missed: vec!["pthread_spin_lock (entry): a jump leads into it".to_owned()],
        ..CountedProcess::default()
    }];
    tables
}

#[test]
fn counts_stand_beside_the_waits() {
    let tables = counted();
    let answer = answer(&tables);
    let back: LocksAnswer = serde_json::from_str(&json::render_locks(&answer)).unwrap();
    let counts = back.lock_counts.as_ref().unwrap();
    assert_eq!(
        (counts.locks, counts.acquired, counts.contended),
        (3, 2_000_507, 30_000)
    );
    assert_eq!((counts.unwaited_locks, counts.unwaited_acquired), (2, 507));
    let lock = &back.locks[0];
    assert_eq!(
        (lock.acquired, lock.contended),
        (Some(2_000_000), Some(30_000))
    );
    assert_eq!(lock.contended_share, Some(0.015));
    assert_eq!(lock.waited_share, Some(lock.waits as f64 / 2_000_000.0));
    let wide = Style {
        width: 160,
        color: false,
        ..Style::default()
    };
    // Lines are wrapped wherever they are full.
    let text = render_locks(&answer, &wide);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "2.00M acquisitions of 3 locks, 1.5 % of which found it not free.",
        "No thread waited for 2 of these locks, acquired 507 times.",
        "not counted: pthread_spin_lock (entry): a jump leads into it.",
        "2 calls whose outcome was not seen",
        "10 of 1 000 contended operations were not written down in time",
        "1 mutex was released that nobody held",
        "acquired 2.00M times, 1.5 % of them not free at first",
        "not free",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let kernel = back.kernel.as_ref().unwrap();
    assert_eq!(
        (kernel.waits, kernel.waited_ns, kernel.lost),
        (40, 40_000, 1)
    );
    let told = |n: usize| (kernel.places[n].kind.as_str(), kernel.places[n].mean_ns);
    assert_eq!((told(0), told(1)), (("spin", 1000), ("rwsem write", 1000)));
    assert!(!kernel.places[0].frames.is_empty() && kernel.places[1].caller.is_none());
    for wanted in [
        "Kernel locks",
        "rwsem write",
        "a single waiter is not seen",
        "are not told of: 1.",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let report = Answer::build(&tables, &Options::default());
    assert_eq!(report.lock_counts.as_ref(), Some(counts));
    assert!(render(&report, &wide).contains("acquisitions of 3 locks"));
    assert_eq!(self::answer(&self::tables()).lock_counts, None);
}

/// Blocks of the first lock: two threads in turn, one of which the other waits for.
fn blocks(process: u32, tables: &Tables) -> Vec<LockBlockRow> {
    let mut own = tables.threads.iter().filter(|t| t.process == process);
    let (a, b) = (own.next().unwrap(), own.next().unwrap());
    let start = tables.meta.start_ns;
    let block = |block: u32| {
        let begin = start + 1_000_000 * u64::from(block);
        let row = |part: &str, ns_tid, start_ns, end_ns, end: &str| LockBlockRow {
            block,
            process,
            part: part.into(),
            ns_tid,
            start_ns,
            end_ns: Some(end_ns),
            end: end.into(),
            queue: u32::from(part != "hold"),
            frame: Some(tables.frames[0].frame),
            ..LockBlockRow::default()
        };
        [
            LockBlockRow {
                blamed_ns: 300_000,
                ..row("hold", a.ns_tid, None, begin + 300_000, "released")
            },
            LockBlockRow {
                owner_ns_tid: a.ns_tid,
                unclaimed_ns: 50_000,
                ..row("wait", b.ns_tid, Some(begin), begin + 350_000, "acquired")
            },
            row(
                "hold",
                b.ns_tid,
                Some(begin + 350_000),
                begin + 500_000,
                "released",
            ),
            row("block", 0, Some(begin), begin + 500_000, "free"),
        ]
    };
    (0..40).flat_map(block).collect()
}

#[test]
fn contended_blocks_are_told_of() {
    let answer = answer(&counted());
    let [lock] = &answer.contended[..] else {
        panic!("{:?}", answer.contended);
    };
    assert_eq!(
        (lock.blocks, lock.wait.count, lock.hold.count),
        (40, 40, 40)
    );
    assert_eq!(
        (lock.wait.mean_ns, lock.wait.p99_ns, lock.wait.max_ns),
        (350_000, 350_000, 350_000)
    );
    assert_eq!((lock.hold.mean_ns, lock.unclaimed_ns), (150_000, 2_000_000));
    let blamed: u64 = lock.owners.iter().map(|o| o.waited_ns).sum();
    assert_eq!(blamed + lock.unclaimed_ns, lock.wait.sum_ns);
    assert_eq!(
        (lock.held_at_begin.len(), lock.held_at_begin[0].times),
        (1, 40)
    );
    assert!(lock.held_at_begin[0].function.is_some());
    let text = render_locks(
        &answer,
        &Style {
            width: 100,
            color: false,
            ..Style::default()
        },
    );
    for wanted in [
        "Contended",
        "350 µs",
        "150 µs",
        "held by",
        "for 14.3 % of the waiting nobody is known to have held it",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
}

#[test]
fn a_timeline_fits_and_tells() {
    let tables = counted();
    let style = Style {
        width: 80,
        color: false,
        ..Style::default()
    };
    let parts = timeline_parts(&style);
    let lock = &answer(&tables).contended[0];
    let timeline = LockTimeline::build(&tables, &lock.name, parts).unwrap();
    assert_eq!(timeline.parts.len(), parts);
    let by_address = LockTimeline::build(&tables, &lock.address, parts);
    assert_eq!(by_address.as_ref(), Some(&timeline));
    assert_eq!(
        LockTimeline::build(&tables, "none of that name", parts),
        None
    );
    let waited: f64 = timeline
        .parts
        .iter()
        .map(|p| p.waiting * timeline.part_ns as f64)
        .sum();
    assert!((waited - lock.wait.sum_ns as f64).abs() < 1.0, "{waited}");
    let text = render_timeline(&timeline, &style);
    assert!(text.lines().all(|line| line.width() <= 80), "{text}");
    for wanted in [
        "queue  ",
        "owner  ",
        "40 waits in 40 blocks",
        "     a ",
        "     b ",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    let back: LockTimeline = serde_json::from_str(&json::render_timeline(&timeline)).unwrap();
    assert_eq!(render_timeline(&back, &style), text);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    fits(&answer(&tables()));
    fits(&answer(&counted()));
}

fn fits(answer: &LocksAnswer) {
    for width in [60, 72, 80, 100, 160] {
        let style = Style {
            width,
            color: false,
            ..Style::default()
        };
        for line in render_locks(answer, &style).lines() {
            assert!(line.width() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn text_and_json_tell_the_same() {
    let answer = answer(&tables());
    let text = render_locks(
        &answer,
        &Style {
            width: 160,
            color: false,
            ..Style::default()
        },
    );
    let back: LocksAnswer = serde_json::from_str(&json::render_locks(&answer)).unwrap();
    assert_eq!(back.locks.len(), answer.locks.len());
    let lock = &back.locks[0];
    assert_eq!(
        lock.name,
        "searchd::Cache<std::string, searchd::Document>::shards+0x28"
    );
    assert_eq!(
        (lock.runtime.as_str(), lock.kind.as_str()),
        ("glibc", "mutex")
    );
    assert_eq!(lock.used, "lock");
    for wanted in [
        lock.name.as_str(),
        "glibc mutex",
        "Cache::get",
        "Who blocks whom",
        "Waiting for work",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(back.waiting_for_work.iter().any(|l| l.kind == "cond"));
}

#[test]
fn blame_adds_up_to_the_waiting() {
    let answer = answer(&tables());
    assert!(answer.waited_ns > 0);
    assert_eq!(answer.blamed_ns, answer.waited_ns);
    let edges: u64 = answer.blocks.iter().map(|e| e.waited_ns).sum();
    assert_eq!(edges, answer.waited_ns);
    assert!(answer.classified_share >= 0.98);
}

#[test]
fn the_report_names_the_worst_locks_when_they_matter() {
    let tables = tables();
    let report = Answer::build(&tables, &Options::default());
    assert!(
        report.locks_waited_ns * 100 > report.total.lifetime_ns,
        "the fixture has such"
    );
    let text = render(&report, &Style::default());
    assert!(text.contains("\nLocks  "), "{text}");
    let mut quiet = tables;
    quiet.sites.iter_mut().for_each(|site| site.futex = None);
    let text = render(
        &Answer::build(&quiet, &Options::default()),
        &Style::default(),
    );
    assert!(!text.contains("\nLocks  "));
}

fn told(answer: &LocksAnswer, width: usize) -> String {
    let style = Style {
        width,
        color: false,
        ..Style::default()
    };
    let text = render_locks(answer, &style);
    assert!(text.lines().all(|line| line.width() <= width), "{text}");
    text
}

fn at(functions: &[&str]) -> Vec<Frame> {
    let frame = |name: &&str| Frame {
        function: (*name).to_owned(),
        kernel: false,
    };
    functions.iter().map(frame).collect()
}

#[test]
fn a_deadlock_is_told_before_anything_else() {
    let thread = |tid: u32| LockThread {
        name: format!("philosopher-{tid}"),
        tid,
    };
    let stuck = |tid: u32, owner: u32| StuckThread {
        thread: thread(tid),
        lock: format!("forks+{tid:#x}"),
        held_by: thread(owner),
        waited_ns: (tid == 1).then_some(2_500_000_000),
        frames: at(&[
            "__lll_lock_wait",
            "pthread_mutex_lock",
            "dine",
            "start_thread",
        ]),
        ..StuckThread::default()
    };
    let mut answer = answer(&tables());
    assert!(!told(&answer, 80).contains("Deadlock"));
    answer.deadlocks = vec![
        LockDeadlock {
            threads: vec![stuck(1, 2), stuck(2, 1)],
            behind: (3..40).map(thread).collect(),
        },
        LockDeadlock {
            threads: vec![stuck(50, 50)],
            behind: Vec::new(),
        },
    ];
    let text = told(&answer, 80);
    let deadlock = text.find("Deadlock").expect("it is told of");
    assert!(deadlock < text.find("Locks  by").expect("a table"));
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "Deadlock 2 threads wait for each other, for ever",
        "philosopher-1 (1) has waited 2.50 s for forks+0x1, which philosopher-2 (2) holds dine",
        "philosopher-2 (2) for forks+0x2, which philosopher-1 (1) holds",
        "37 threads wait behind them: philosopher-3 (3), ",
        "philosopher-18 (18) …",
        "Deadlock a thread waits for a lock that it holds itself",
        "for forks+0x32, which it holds itself",
    ] {
        assert!(words.contains(wanted), "{wanted}: {text}");
    }
    let back: LocksAnswer = serde_json::from_str(&json::render_locks(&answer)).unwrap();
    assert_eq!(back.deadlocks, answer.deadlocks);
}

#[test]
fn waiters_owners_and_what_they_did_are_told() {
    let mut answer = answer(&counted());
    let lock = &mut answer.contended[0];
    lock.wait.sum_ns = 1_000_000;
    lock.owners = vec![
        LockHolder {
            group: Some("searchd/loader".to_owned()),
            function: Some("reload".to_owned()),
            times: 5,
            waited_ns: 900_000,
            frames: at(&["[dwell counts locks]", "reload", "load_loop"]),
            at_another_lock: true,
        },
        LockHolder::default(),
    ];
    lock.waiters = vec![Waiter {
        group: "searchd/worker".to_owned(),
        waits: 3,
        waited_ns: 10,
        frames: at(&["pthread_mutex_lock", "lookup"]),
    }];
    let away = |reason: Option<&str>, share: f64| LockAway {
        group: "searchd/loader".to_owned(),
        reason: reason.map(str::to_owned),
        share,
        frames: at(&["read", "reload"]),
        ..LockAway::default()
    };
    lock.away = vec![away(Some("io"), 0.75), away(None, 0.125), away(None, 0.001)];
    lock.inversions = vec![LockInversion {
        waiter: "searchd/worker".to_owned(),
        waiter_priority: "nice 0".to_owned(),
        owner: "searchd/loader".to_owned(),
        owner_priority: "nice 19".to_owned(),
        waited_ns: 500_000,
    }];
    lock.convoys = LockConvoys {
        count: 1,
        most_hand_offs: 120,
        longest_ns: 3_000_000,
        dominate: true,
        ..LockConvoys::default()
    };
    let text = told(&answer, 100);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in [
        "100.0 % waited: searchd/worker lookup",
        "90.0 % held by searchd/loader in reload (seen at another lock) reload ← load_loop",
        "75.0 % of the time held blocked (io): searchd/loader",
        "12.5 % of the time held waiting for a CPU: searchd/loader",
        "50.0 % priority inversion: nice 0 waited, searchd/loader (nice 19) held it",
        "a convoy: from waiter to waiter 120 times without getting free, 3.00 ms long",
    ] {
        assert!(words.contains(wanted), "{wanted}: {text}");
    }
    assert_eq!(words.matches("waiting for a CPU").count(), 1);
    told(&answer, 60);
    let back: LocksAnswer = serde_json::from_str(&json::render_locks(&answer)).unwrap();
    assert_eq!(back.contended, answer.contended);
}
