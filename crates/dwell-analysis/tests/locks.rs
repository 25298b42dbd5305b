//! What futex waits are, and who is charged for them.
use dwell_analysis::apportion::total;
use dwell_analysis::locks::{Identity, Locks, Use};
use dwell_analysis::testing::{MS, TablesBuilder};
use dwell_analysis::wakers::Waker;
use dwell_analysis::{Analysis, Reason, State};
use dwell_recording::rows::{LockRow, lock_kind};
use dwell_recording::tables::Tables;

fn locks_of(tables: &Tables) -> Locks {
    let analysis = Analysis::of(tables);
    Locks::of(&analysis)
}

/// One wait at a stack: its runtime, kind, use and caller.
fn classified(stack: &str, operation: &str, timed: bool) -> (String, String, Use, String) {
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    let thread = builder.thread(process, "main");
    let site = builder.site(thread, "lock", "futex", "");
    builder.on_futex(site, 0x1000, operation, timed);
    builder.waited(site, 5 * MS, 0, 1);
    let frames: Vec<&str> = stack.split(';').collect();
    let stack = builder.stack(&frames);
    builder.sample(thread, "blocked", stack, Some(site), 5 * MS);
    builder.kept(site, 5 * MS, Some(stack), None);
    let analysis = Analysis::of(&builder.tables);
    let locks = Locks::of(&analysis);
    assert_eq!(locks.locks.len(), 1);
    let lock = &locks.locks[0];
    // How the window divides says the same.
    let reason = match lock.used {
        Use::Lock | Use::Unknown => Reason::Lock,
        Use::Idle | Use::Timed => Reason::Condition,
    };
    let times = analysis.summary.total.times;
    assert_eq!(times.get(State::Blocked(reason)), 5 * MS, "{frames:?}");
    assert_eq!(analysis.reasons, [reason]);
    let caller = lock.caller.map(|f| analysis.names.function(f).name.clone());
    (
        lock.runtime.to_owned(),
        lock.kind.to_owned(),
        lock.used,
        caller.unwrap_or_default(),
    )
}

/// Stacks as they are met: names of debug information, of dynamic symbols alone, and none.
const STACKS: &[(&str, &str, bool, &str, &str, Use, &str)] = &[
    (
        "main;work;___pthread_mutex_lock;lll_mutex_lock_optimized;__GI___lll_lock_wait;futex_wait;do_futex_[k]",
        "wait",
        false,
        "glibc",
        "mutex",
        Use::Lock,
        "work",
    ),
    (
        "main;work;pthread_mutex_lock;[libc.so.6+0x84f3a]",
        "wait",
        false,
        "glibc",
        "mutex",
        Use::Lock,
        "work",
    ),
    (
        "main;work;___pthread_mutex_timedlock",
        "wait_bitset",
        true,
        "glibc",
        "mutex",
        Use::Lock,
        "work",
    ),
    (
        "main;work;__pthread_mutex_lock_full;__futex_lock_pi64",
        "lock_pi",
        false,
        "glibc",
        "mutex",
        Use::Lock,
        "work",
    ),
    (
        "main;work;___pthread_rwlock_wrlock;__pthread_rwlock_wrlock_full64;__futex_abstimed_wait64",
        "wait_bitset",
        false,
        "glibc",
        "rwlock",
        Use::Lock,
        "work",
    ),
    (
        "main;take;___pthread_cond_wait;__pthread_cond_wait_common;__futex_abstimed_wait_common",
        "wait_bitset",
        false,
        "glibc",
        "cond",
        Use::Idle,
        "take",
    ),
    (
        "main;take;pthread_cond_timedwait;[libc.so.6+0x849f0]",
        "wait_bitset",
        true,
        "glibc",
        "cond",
        Use::Timed,
        "take",
    ),
    (
        "main;GOMP_parallel;work._omp_fn.0;gomp_mutex_lock_slow",
        "wait",
        false,
        "OpenMP",
        "lock",
        Use::Lock,
        "work._omp_fn.0",
    ),
    (
        "main;GOMP_parallel;GOMP_parallel_end;gomp_team_end;gomp_team_barrier_wait_end",
        "wait",
        false,
        "OpenMP",
        "barrier",
        Use::Lock,
        "main",
    ),
    (
        "clone3;start_thread;gomp_thread_start;gomp_barrier_wait_end",
        "wait",
        false,
        "OpenMP",
        "idle thread",
        Use::Idle,
        "start_thread",
    ),
    // The mutex is taken back after the condition came.
    (
        "main;take;___pthread_cond_wait;__pthread_cond_wait_common;__pthread_mutex_cond_lock;__GI___lll_lock_wait",
        "wait",
        false,
        "glibc",
        "mutex",
        Use::Lock,
        "take",
    ),
    (
        "main;take;pthread_cond_wait;[libc.so.6+0x84f3a]",
        "wait",
        false,
        "glibc",
        "mutex",
        Use::Lock,
        "take",
    ),
    (
        "main;___pthread_barrier_wait;futex_wait_simple",
        "wait",
        false,
        "glibc",
        "barrier",
        Use::Lock,
        "main",
    ),
    (
        "main;__pthread_clockjoin_ex;__futex_abstimed_wait_common",
        "wait_bitset",
        false,
        "glibc",
        "join",
        Use::Idle,
        "main",
    ),
    (
        "main;malloc;_int_malloc;__lll_lock_wait_private",
        "wait",
        false,
        "glibc",
        "internal lock",
        Use::Lock,
        "_int_malloc",
    ),
    (
        "main;work;__gthread_mutex_lock :> std::mutex::lock();___pthread_mutex_lock;__GI___lll_lock_wait",
        "wait",
        false,
        "C++",
        "mutex",
        Use::Lock,
        "work",
    ),
    (
        "main;std::condition_variable::wait(std::unique_lock<std::mutex>&);___pthread_cond_wait",
        "wait_bitset",
        false,
        "C++",
        "cond",
        Use::Idle,
        "main",
    ),
    (
        "main;work;pthread_mutex_timedlock;__timedwait;__timedwait_cp",
        "wait",
        false,
        "musl",
        "mutex",
        Use::Lock,
        "work",
    ),
    (
        "main;take;pthread_cond_timedwait;__timedwait_cp",
        "wait",
        false,
        "musl",
        "cond",
        Use::Idle,
        "take",
    ),
    (
        "demo::work;std::sys::sync::mutex::futex::Mutex::lock_contended;std::sys::pal::unix::futex::futex_wait;syscall",
        "wait_bitset",
        false,
        "Rust",
        "Mutex",
        Use::Lock,
        "demo::work",
    ),
    (
        "demo::work;<std::sys::sync::rwlock::futex::RwLock>::write_contended;syscall",
        "wait_bitset",
        false,
        "Rust",
        "RwLock",
        Use::Lock,
        "demo::work",
    ),
    (
        "demo::take;std::sync::poison::condvar::Condvar::wait;std::sys::sync::condvar::futex::Condvar::wait_optional_timeout;syscall",
        "wait_bitset",
        false,
        "Rust",
        "Condvar",
        Use::Idle,
        "demo::take",
    ),
    (
        "demo::take;std::sys::sync::condvar::futex::Condvar::wait_timeout;syscall",
        "wait_bitset",
        true,
        "Rust",
        "Condvar",
        Use::Timed,
        "demo::take",
    ),
    (
        "demo::take;std::thread::park;std::sys::sync::thread_parking::futex::Parker::park;syscall",
        "wait_bitset",
        false,
        "Rust",
        "park",
        Use::Idle,
        "demo::take",
    ),
    (
        "demo::work;parking_lot::raw_mutex::RawMutex::lock_slow;parking_lot_core::thread_parker::imp::ThreadParker::futex_wait;syscall",
        "wait",
        false,
        "parking_lot",
        "Mutex",
        Use::Lock,
        "demo::work",
    ),
    (
        "demo::take;parking_lot::condvar::Condvar::wait_until_internal;parking_lot_core::parking_lot::park;syscall",
        "wait",
        false,
        "parking_lot",
        "Condvar",
        Use::Idle,
        "demo::take",
    ),
    (
        "runtime.mcall;runtime.park_m;runtime.schedule;runtime.findRunnable;runtime.stopm;runtime.mPark;runtime.notesleep;runtime.futexsleep;runtime.futex.abi0",
        "wait",
        false,
        "Go",
        "idle thread",
        Use::Idle,
        "",
    ),
    (
        "runtime.mstart;runtime.sysmon;runtime.notetsleep;runtime.notetsleep_internal;runtime.futexsleep;runtime.futex.abi0",
        "wait",
        true,
        "Go",
        "idle thread",
        Use::Timed,
        "",
    ),
    (
        "main.work;runtime.mallocgc;runtime.lock2;runtime.semasleep;runtime.futexsleep;runtime.futex.abi0",
        "wait",
        false,
        "Go",
        "runtime lock",
        Use::Lock,
        "main.work",
    ),
    (
        "thread_native_entry(Thread*);[perf+0x10];ObjectMonitor::enter(JavaThread*);ObjectMonitor::EnterI(JavaThread*);os::PlatformEvent::park();___pthread_cond_wait",
        "wait_bitset",
        false,
        "Java",
        "monitor",
        Use::Lock,
        "[perf+0x10]",
    ),
    (
        "JVM_MonitorWait;ObjectSynchronizer::wait(Handle, long, JavaThread*);ObjectMonitor::wait(long, bool, JavaThread*);os::PlatformEvent::park();___pthread_cond_wait",
        "wait_bitset",
        false,
        "Java",
        "Object.wait",
        Use::Idle,
        "JVM_MonitorWait",
    ),
    (
        "JVM_MonitorWait;ObjectMonitor::wait(long, bool, JavaThread*);ObjectMonitor::ReenterI(JavaThread*, ObjectWaiter*);os::PlatformEvent::park();___pthread_cond_wait",
        "wait_bitset",
        false,
        "Java",
        "monitor",
        Use::Lock,
        "JVM_MonitorWait",
    ),
    (
        "Unsafe_Park;Parker::park(bool, long);___pthread_cond_wait",
        "wait_bitset",
        false,
        "Java",
        "LockSupport.park",
        Use::Idle,
        "",
    ),
    (
        "Monitor::wait(long);os::PlatformMonitor::wait(unsigned long);___pthread_cond_timedwait64",
        "wait_bitset",
        true,
        "Java",
        "VM thread",
        Use::Timed,
        "",
    ),
    (
        "main;_PyEval_EvalFrameDefault;PyEval_RestoreThread;take_gil;___pthread_cond_timedwait64",
        "wait_bitset",
        true,
        "Python",
        "GIL",
        Use::Lock,
        "_PyEval_EvalFrameDefault",
    ),
    (
        "main;work;__kmpc_fork_call;[libomp.so.5+0x9b1d0];[libomp.so.5+0x9b1d0];___pthread_cond_wait;[libc.so.6+0x849f0]",
        "wait_bitset",
        false,
        "OpenMP",
        "barrier",
        Use::Lock,
        "work",
    ),
    (
        "main;work;__kmpc_fork_call;[libomp.so.5+0x9b1d0];__kmp_invoke_microtask;work..omp_outlined;__kmpc_barrier;[libomp.so.5+0x9b1d0];___pthread_cond_wait;[libc.so.6+0x849f0]",
        "wait_bitset",
        false,
        "OpenMP",
        "barrier",
        Use::Lock,
        "work..omp_outlined",
    ),
    (
        "clone3;start_thread;[libomp.so.5+0x9b1d0];[libomp.so.5+0x9b1d0];___pthread_cond_timedwait;[libc.so.6+0x84a10]",
        "wait_bitset",
        true,
        "OpenMP",
        "idle thread",
        Use::Timed,
        "",
    ),
    (
        "clone3;start_thread;__kmp_launch_worker(void*);__kmp_launch_thread;__kmp_fork_barrier(int, int);___pthread_cond_wait;[libc.so.6+0x849f0]",
        "wait_bitset",
        false,
        "OpenMP",
        "idle thread",
        Use::Idle,
        "",
    ),
    (
        "clone3;start_thread;[libomp.so.5+0x9b1d0];__kmp_invoke_microtask;work..omp_outlined;take;___pthread_cond_wait;[libc.so.6+0x849f0]",
        "wait_bitset",
        false,
        "glibc",
        "cond",
        Use::Idle,
        "take",
    ),
    (
        "clone3;start_thread;[libomp.so.5+0x9b1d0];[libomp.so.5+0x9b1d0];___pthread_mutex_lock;[libc.so.6+0x84f3a]",
        "wait",
        false,
        "glibc",
        "mutex",
        Use::Lock,
        "[libomp.so.5+0x9b1d0]",
    ),
    (
        "clone3;start_thread;[libtbb.so.12.8+0x1c2d0];[libtbb.so.12.8+0x1c2d0];syscall",
        "wait",
        false,
        "TBB",
        "idle thread",
        Use::Idle,
        "",
    ),
    (
        "main;work;tbb::detail::d1::execute_and_wait(tbb::detail::d1::task&, tbb::detail::d1::task_group_context&, tbb::detail::d1::wait_context&, tbb::detail::d1::task_group_context&);[libtbb.so.12.8+0x1c2d0];syscall",
        "wait",
        false,
        "TBB",
        "tasks",
        Use::Idle,
        "work",
    ),
    (
        "main;work;tbb::detail::r1::wait_on_address(void*, tbb::detail::d1::delegate_base&, unsigned long);syscall",
        "wait",
        false,
        "TBB",
        "mutex",
        Use::Lock,
        "work",
    ),
    (
        "main;work;[libglib-2.0.so.0.7400.6+0xa8710];syscall",
        "wait",
        false,
        "GLib",
        "mutex",
        Use::Lock,
        "work",
    ),
    (
        "main;take;g_async_queue_pop;g_cond_wait;syscall",
        "wait",
        false,
        "GLib",
        "cond",
        Use::Idle,
        "g_async_queue_pop",
    ),
    (
        "main;work;QMutex::lock();QBasicMutex::lockInternal();syscall",
        "wait",
        false,
        "Qt",
        "QMutex",
        Use::Lock,
        "work",
    ),
    (
        "main;take;QWaitCondition::wait(QMutex*, unsigned long);___pthread_cond_wait;[libc.so.6+0x849f0]",
        "wait_bitset",
        false,
        "Qt",
        "QWaitCondition",
        Use::Idle,
        "take",
    ),
    (
        "main;work;QReadWriteLock::lockForWrite();[libQt5Core.so.5.15.8+0xcd200];QWaitCondition::wait(QMutex*, QDeadlineTimer);___pthread_cond_wait;[libc.so.6+0x849f0]",
        "wait_bitset",
        false,
        "Qt",
        "QReadWriteLock",
        Use::Lock,
        "work",
    ),
    (
        "[a.out+0x10];[a.out+0x20]",
        "lock_pi",
        false,
        "glibc",
        "PI mutex",
        Use::Lock,
        "[a.out+0x20]",
    ),
    (
        "[a.out+0x10];[libc.so.6+0x84f3a]",
        "wait",
        false,
        "glibc",
        "mutex",
        Use::Lock,
        "[a.out+0x10]",
    ),
    (
        "[a.out+0x10];[libc.so.6+0x849f0]",
        "wait_bitset",
        false,
        "glibc",
        "cond",
        Use::Idle,
        "[a.out+0x10]",
    ),
    (
        "[a.out+0x10];[a.out+0x20]",
        "wait_bitset",
        false,
        "",
        "futex",
        Use::Unknown,
        "[a.out+0x20]",
    ),
    (
        "[a.out+0x10];[a.out+0x20]",
        "other",
        false,
        "",
        "futex",
        Use::Unknown,
        "[a.out+0x20]",
    ),
];

#[test]
fn every_runtime_is_known_by_its_functions() {
    for (stack, operation, timed, runtime, kind, used, caller) in STACKS {
        let (r, k, u, c) = classified(stack, operation, *timed);
        let got = (r.as_str(), k.as_str(), u, c.as_str());
        assert_eq!(got, (*runtime, *kind, *used, *caller), "{stack}");
    }
}

/// Threads of `roles` wait in turn for 4 ms each on one semaphore; `waker(n)` ends the wait of thread n.
fn semaphore(threads: u32, waker: impl Fn(u32) -> u32) -> Tables {
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    let boss = builder.thread(process, "boss");
    builder.ran(boss, 100 * MS);
    for n in 0..threads {
        builder.thread(process, &format!("worker-{n}"));
    }
    let stack = builder.stack(&["start_thread", "work", "__new_sem_wait_slow64"]);
    for round in 0..5 {
        for n in 0..threads {
            let thread = builder.thread(process, &format!("worker-{n}"));
            let site = builder.site(thread, "lock", "futex", "");
            builder.on_futex(site, 0x1000, "wait_bitset", false);
            builder.ran(thread, MS);
            builder.waited(site, 4 * MS, 0, 1);
            builder.kept(site, 4 * MS, (round == 0).then_some(stack), Some(waker(n)));
            if round == 0 {
                builder.sample(thread, "blocked", stack, Some(site), 4 * MS);
            }
        }
    }
    builder.tables
}

#[test]
fn a_semaphore_is_a_lock_when_its_takers_post_it() {
    let as_lock = locks_of(&semaphore(3, |n| 1 + (n + 1) % 3));
    assert_eq!(as_lock.by_use(), [60 * MS, 0, 0, 0]);
    let as_queue = locks_of(&semaphore(3, |_| 0));
    assert_eq!(as_queue.by_use(), [0, 60 * MS, 0, 0]);
}

#[test]
fn a_lock_that_goes_from_waiter_to_waiter_is_a_convoy() {
    let mut tables = semaphore(3, |n| 1 + (n + 2) % 3);
    // The three begin together, and each is let go by the one that was let go before it.
    let start = tables.meta.start_ns;
    for (place, slice) in tables.slices.iter_mut().enumerate() {
        let woken = start + (3 + place as u64) * 2 * MS;
        slice.start_ns = woken - 6 * MS;
        slice.blocked_ns = 6 * MS;
    }
    let locks = locks_of(&tables);
    let queue = locks.locks[0].queue;
    assert_eq!(queue.longest, 3);
    assert!(queue.mean > 2.4 && queue.handed_on > 0.8, "{queue:?}");
    assert!(queue.is_convoy());
    assert!(!locks_of(&semaphore(1, |_| 0)).locks[0].queue.is_convoy());
}

#[test]
fn blame_and_waiting_add_up() {
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    let stack = builder.stack(&["main", "work", "pthread_mutex_lock", "__lll_lock_wait"]);
    let holder = builder.thread(process, "holder");
    builder.ran(holder, MS);
    for n in 0..5u64 {
        let thread = builder.thread(process, &format!("worker-{n}"));
        let site = builder.site(thread, "lock", "futex", "");
        builder.on_futex(site, 0x1000 + 0x100 * (n / 4), "wait", false);
        // Many short waits that were not kept, and for most threads two that were.
        builder.waited(site, (40 + 7 * n) * MS + 13, 3, 100);
        builder.sample(thread, "blocked", stack, Some(site), 10 * MS);
        for _ in 0..2 * u64::from(n < 3) {
            builder.ran(thread, MS);
            builder.waited(site, 2 * MS, 0, 1);
            builder.kept(
                site,
                2 * MS,
                Some(stack),
                Some(if n == 0 { 1 } else { holder }),
            );
        }
    }
    let locks = locks_of(&builder.tables);
    assert_eq!(locks.locks.len(), 2);
    for lock in &locks.locks {
        let blamed = total(lock.blame.iter().map(|b| b.blamed_ns));
        assert_eq!(blamed, lock.waited_ns, "{lock:?}");
    }
    let [first, second] = &locks.locks[..] else {
        panic!("two locks");
    };
    assert_eq!(
        first.unattributed_ns(),
        0,
        "charged like the rest of the lock"
    );
    assert_eq!(
        (second.unattributed_ns(), second.blame[0].waker.clone()),
        (68 * MS + 13, Waker::Nobody)
    );
    let exact = total(builder.tables.site_times.iter().map(|row| row.blocked_ns));
    assert_eq!(locks.by_use(), [exact, 0, 0, 0]);
    assert_eq!(first.waits + second.waits, 506);
}

#[test]
fn a_site_without_a_stack_is_what_others_are_at_its_word() {
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    let stack = builder.stack(&[
        "main",
        "take",
        "pthread_cond_wait",
        "__pthread_cond_wait_common",
    ]);
    for n in 0..2 {
        let thread = builder.thread(process, &format!("worker-{n}"));
        let site = builder.site(thread, "lock", "futex", "");
        builder.on_futex(site, 0x1028, "wait_bitset", false);
        builder.waited(site, 8 * MS, 0, 2);
        if n == 0 {
            builder.sample(thread, "blocked", stack, Some(site), 8 * MS);
        }
    }
    let locks = locks_of(&builder.tables);
    assert_eq!(locks.by_use(), [0, 16 * MS, 0, 0]);
    let whole = Identity::Word {
        process,
        address: 0x1000,
    };
    assert_eq!(
        locks.locks[0].identity, whole,
        "the condition, not its word"
    );
}

#[test]
fn damaged_recordings_are_no_panic() {
    let mut tables = semaphore(2, |n| 1 + n);
    tables.futexes.clear();
    tables
        .site_times
        .iter_mut()
        .for_each(|row| row.blocked_ns = u64::MAX);
    tables.sites[0].thread = 99;
    let locks = locks_of(&tables);
    assert!(locks.locks.len() <= 2);
    tables.sites.iter_mut().for_each(|row| row.futex = Some(77));
    locks_of(&tables);
}

/// A mutex on which two threads waited, a semaphore whose word lies behind its beginning, a condition
/// variable and a mutex nobody waited for, in the first of two processes that have the same addresses.
#[test]
fn counts_belong_to_the_lock_at_their_address() {
    let mut builder = TablesBuilder::new();
    for process in ["counted", "other"] {
        let process = builder.process(process);
        let thread = builder.thread(process, "main");
        for (address, operation, functions) in [
            (0x1000, "wait", ["main", "pthread_mutex_lock"]),
            (0x2008, "wait", ["main", "mystery"]),
            (0x3028, "wait_bitset", ["main", "pthread_cond_wait"]),
        ] {
            let site = builder.site(thread, "lock", "futex", functions[1]);
            builder.on_futex(site, address, operation, false);
            builder.waited(site, 5 * MS, 0, 2);
            let stack = builder.stack(&functions);
            builder.sample(thread, "blocked", stack, Some(site), 5 * MS);
        }
    }
    let process = builder.tables.processes[0].process;
    let counted = [
        (0x1000, lock_kind::MUTEX, 100, Some(7)),
        (0x2000, lock_kind::SEMAPHORE, 50, None),
        (0x3000, lock_kind::CONDITION, 9, None),
        (0x4000, lock_kind::READ, 1000, Some(1)),
        (0x4000, lock_kind::WRITE, 10, Some(2)),
    ];
    builder.tables.locks = (0..)
        .zip(counted)
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
    let locks = locks_of(&builder.tables);
    let of = |wanted: u32, at: u64| {
        let is_it = |lock: &&dwell_analysis::locks::Lock| match lock.identity {
            Identity::Word { process, address } => process == wanted && address == at,
            Identity::Caller { .. } => false,
        };
        let lock = locks.locks.iter().find(is_it).expect("it was waited for");
        lock.counts.map(|c| (c.acquired, c.contended))
    };
    assert_eq!(of(process, 0x1000), Some((100, Some(7))));
    assert_eq!(of(process, 0x2008), Some((50, None)));
    assert_eq!(of(process, 0x3000), Some((9, None)));
    let other = builder.tables.processes[1].process;
    assert_eq!(of(other, 0x1000), None);
    let counted = locks.counted.expect("counted");
    assert_eq!((counted.locks, counted.unwaited_locks), (3, 1));
    assert_eq!(
        (counted.counts.acquired, counted.counts.contended),
        (1160, Some(10))
    );
    assert_eq!(
        (counted.unwaited.acquired, counted.unwaited.contended),
        (1010, Some(3))
    );
    builder.tables.locks.clear();
    assert_eq!(locks_of(&builder.tables).counted, None);
}

/// Readers of a lock where writers go first wait on its first word.
#[test]
fn all_words_of_a_read_write_lock_are_one_lock() {
    const LOCK: u64 = 0x1038;
    /// Two locks of an array: of the other only the word for readers is waited on.
    const WORDS: [(u64, &str); 4] = [
        (LOCK, "pthread_rwlock_rdlock"),
        (LOCK + 8, "pthread_rwlock_wrlock"),
        (LOCK + 12, "pthread_rwlock_wrlock"),
        (LOCK + 56 + 8, "pthread_rwlock_rdlock"),
    ];
    for seen in [
        &WORDS[..],
        &[WORDS[0], WORDS[1], WORDS[3]],
        &[WORDS[0], WORDS[2], WORDS[3]],
    ] {
        let mut builder = TablesBuilder::new();
        let process = builder.process("demo");
        for &(word, function) in seen {
            let thread = builder.new_thread(process, "worker");
            let site = builder.site(thread, "lock", "futex", "");
            builder.on_futex(site, word, "wait_bitset", false);
            builder.waited(site, 5 * MS, 0, 1);
            let stack = builder.stack(&["main", "work", function]);
            builder.sample(thread, "blocked", stack, Some(site), 5 * MS);
            builder.kept(site, 5 * MS, Some(stack), None);
        }
        let mut found: Vec<(Identity, u64)> = locks_of(&builder.tables)
            .locks
            .iter()
            .map(|l| (l.identity, l.waits))
            .collect();
        found.sort();
        let at = |address| Identity::Word { process, address };
        let waits = seen.len() as u64 - 1;
        assert_eq!(found, [(at(LOCK), waits), (at(LOCK + 56), 1)]);
    }
}

/// As a distribution ships it, GNU's OpenMP has no names but those that programs call.
#[test]
fn what_openmp_waits_for_is_told_without_its_names() {
    const MAIN: &str = "main;GOMP_parallel;work._omp_fn.0;";
    const WORKER: &str = "clone3;start_thread;[libgomp.so.1.0.0+0x1cc40];";
    /// What, the word, who waits there, and for how many ms.
    const WAITS: [(&str, u64, &str, u64); 7] = [
        ("lock", 0x1000, MAIN, 5),
        ("barrier", 0x2004, MAIN, 3),
        ("barrier", 0x2004, WORKER, 100),
        ("idle thread", 0x3004, WORKER, 400),
        ("idle thread", 0x3004, WORKER, 600),
        ("idle thread", 0x3004, "main;[libgomp.so.1.0.0+0x1cfd0];", 3),
        ("lock", 0x4000, "main;[libgomp.so.1.0.0+0x1e2d0];", 1),
    ];
    let mut builder = TablesBuilder::new();
    let process = builder.process("demo");
    for (_, word, below, ms) in WAITS {
        let thread = builder.new_thread(process, "omp");
        let site = builder.site(thread, "lock", "futex", "");
        builder.on_futex(site, word, "wait", false);
        builder.waited(site, ms * MS, 0, 1);
        let stack = format!("{below}[libgomp.so.1.0.0+0x1ef10];futex_wait_[k]");
        let stack = builder.stack(&stack.split(';').collect::<Vec<_>>());
        builder.sample(thread, "blocked", stack, Some(site), ms * MS);
        builder.kept(site, ms * MS, Some(stack), None);
    }
    let locks = locks_of(&builder.tables).locks;
    for (kind, word, ..) in WAITS {
        let address = Identity::Word {
            process,
            address: word,
        };
        let at: Vec<_> = locks.iter().filter(|l| l.identity == address).collect();
        let [lock] = &at[..] else { panic!("{at:?}") };
        assert_eq!((lock.runtime, lock.kind), ("OpenMP", kind));
        let used = if kind == "idle thread" {
            Use::Idle
        } else {
            Use::Lock
        };
        assert_eq!((lock.used, lock.is_barrier()), (used, kind == "barrier"));
    }
}
