//! Locks, against what programs log of their own waits and against perf's log of calls.

use crate::common::*;
use dwell_recording::Tables;
use dwell_report::{LocksAnswer, Options};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Least share of the time waited on futexes that has to be classified.
const CLASSIFIED: f64 = 0.98;

const JAVA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../tests/programs/Locks.java"
);
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/programs/locks.py");

fn locks_of(tables: &Tables) -> LocksAnswer {
    let options = Options {
        locks: usize::MAX,
        ..Options::default()
    };
    LocksAnswer::build(tables, &options)
}

/// Blame adds up, and nearly everything is classified.
#[track_caller]
fn assert_sound(answer: &LocksAnswer) {
    assert!(
        near(answer.blamed_ns, answer.waited_ns, 0.01, 0),
        "{} blamed of {}",
        answer.blamed_ns,
        answer.waited_ns
    );
    assert!(
        answer.classified_share >= CLASSIFIED,
        "{:?}",
        answer.futex_ns
    );
}

// ---- POSIX locks, each a variable, against the program's own log ----

/// What the program's waits by site are in dwell's words: variable, kind, use.
const POSIX: &[(&str, &str, &str, &str)] = &[
    ("want_hot_mutex", "hot_mutex", "mutex", "lock"),
    ("want_pi_mutex", "pi_mutex", "mutex", "lock"),
    ("want_recursive_mutex", "recursive_mutex", "mutex", "lock"),
    ("want_book_read", "book", "rwlock", "lock"),
    ("want_book_write", "book", "rwlock", "lock"),
    ("want_slot", "slot", "semaphore", "lock"),
    ("want_gate", "gate", "barrier", "lock"),
    ("want_jobs", "jobs", "semaphore", "idle"),
    ("want_news", "news", "cond", "idle"),
    ("want_never", "never", "cond", "timed"),
];

/// Blocked ns and waits by variable, kind and use, as the program logged them.
fn logged(truth: &Truth) -> BTreeMap<(&str, &str, &str), (i64, u64)> {
    let mut sums: BTreeMap<_, (i64, u64)> = BTreeMap::new();
    for site in truth.threads.iter().flat_map(|t| &t.sites) {
        if let Some((_, name, kind, used)) = POSIX.iter().find(|row| row.0 == site.function) {
            let (ns, waits) = sums.entry((*name, *kind, *used)).or_default();
            *ns += site.blocked_ns;
            *waits += site.waits;
        }
    }
    sums
}

fn posix_mistakes() -> BTreeMap<String, String> {
    let scratch = Scratch::new();
    let json = scratch.file("truth.json");
    let recorded = launch(&scratch, &[], "locks", &["--json", &json]);
    let truth = Truth::read(&json);
    let answer = locks_of(&recorded.tables);
    assert_sound(&answer);
    let told = || answer.locks.iter().chain(&answer.waiting_for_work);
    let mut wrong = BTreeMap::new();
    for ((name, kind, used), (ns, waits)) in logged(&truth) {
        let found = told().find(|l| (l.name.as_str(), l.kind.as_str()) == (name, kind));
        let lock = found.unwrap_or_else(|| panic!("{name} is not told of: {:?}", answer.locks));
        assert_eq!(
            (lock.used.as_str(), lock.runtime.as_str()),
            (used, "glibc"),
            "{name}"
        );
        assert!(
            lock.waits <= waits + waits / 20,
            "{name}: {} of {waits}",
            lock.waits
        );
        println!("{name}: {} ns, logged {ns}", lock.waited_ns);
        let ns = ns.max(0) as u64;
        if !near_but_stolen(lock.waited_ns, ns, 0.01, MS, recorded.stolen_ns) {
            wrong.insert(
                name.to_owned(),
                format!("{} ns, logged {ns}", lock.waited_ns),
            );
        }
    }
    let join = told().find(|l| l.kind == "join").expect("main joins");
    assert_eq!(join.used, "idle");
    wrong
}

#[test]
#[ignore = "needs root"]
fn every_posix_lock_has_the_time_that_its_waiters_logged() {
    wrong_every_time("locks", posix_mistakes);
}

#[test]
#[ignore = "needs root"]
fn the_command_names_waiters_and_holders() {
    let scratch = Scratch::new();
    let recorded = launch(
        &scratch,
        &[],
        "locks",
        &["--rounds", "60", "--json", "/dev/null"],
    );
    let output = dwell(&["locks", &recorded.path])
        .output()
        .expect("dwell runs");
    let text = String::from_utf8(output.stdout).expect("text");
    for wanted in [
        "hot_mutex  glibc mutex",
        "Who blocks whom",
        "want_hot_mutex ← take_turns",
        "released by locks/hot to locks/hot",
        "Waiting for work, no lock:",
    ] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let output = dwell(&["locks", "--json", &recorded.path])
        .output()
        .expect("dwell runs");
    let answer: LocksAnswer = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_sound(&answer);
    let writer = answer
        .blocks
        .iter()
        .find(|e| e.waiter == "locks/writer")
        .expect("it waits for readers");
    assert_eq!(writer.waker.name, "locks/reader");
}

// ---- other runtimes, by a stopwatch in the program ----

/// Lines `RUNTIME KIND USE NS`.
fn stopwatches(text: &str) -> BTreeMap<(&str, &str, &str), u64> {
    let line = |line| {
        let (runtime, rest) = str::split_once(line, ' ')?;
        let (rest, ns) = rest.rsplit_once(' ')?;
        let (kind, used) = rest.rsplit_once(' ')?;
        Some(((runtime, kind, used), ns.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

/// The time of every kind, as dwell tells it.
fn by_kind(answer: &LocksAnswer) -> BTreeMap<(&str, &str, &str), u64> {
    let mut sums = BTreeMap::new();
    for lock in answer.locks.iter().chain(&answer.waiting_for_work) {
        let key = (
            lock.runtime.as_str(),
            lock.kind.as_str(),
            lock.used.as_str(),
        );
        *sums.entry(key).or_default() += lock.waited_ns;
    }
    sums
}

/// A stopwatch runs on while the thread wants a processor, spins and switches; so it shows more, but
/// little more where waits take milliseconds and the host leaves it its processor. `except` are kinds that the runtime's own threads wait
/// in, too: those may have more.
#[track_caller]
fn assert_by_stopwatch(recorded: &Recorded, except: &[&str]) -> LocksAnswer {
    let answer = locks_of(&recorded.tables);
    assert_sound(&answer);
    let told = by_kind(&answer);
    let logged = stopwatches(&recorded.stdout);
    assert!(logged.len() >= 2, "{}", recorded.stdout);
    for (kind, ns) in logged {
        let waited = told.get(&kind).copied().unwrap_or(0);
        println!("{kind:?}: {waited} ns, by stopwatch {ns}");
        assert!(
            waited + recorded.stolen_ns >= ns - ns / 10,
            "{kind:?}: {waited} of {ns}: {told:?}"
        );
        assert!(
            waited <= ns + ns / 100 + MS || except.contains(&kind.1),
            "{kind:?}: {waited} of {ns}: {told:?}"
        );
    }
    answer
}

#[test]
#[ignore = "needs root"]
fn rust_and_parking_lot() {
    let scratch = Scratch::new();
    let answer = assert_by_stopwatch(&launch(&scratch, &[], "locks-rust", &[]), &[]);
    let hot = answer.locks.iter().find(|l| l.name == "locks_rust::HOT");
    assert_eq!(hot.expect("a static").kind, "Mutex");
    let parking = answer.locks.iter().find(|l| l.runtime == "parking_lot");
    let name = &parking.expect("contended").name;
    assert!(name.contains("locks_rust::parking"), "{name}");
}

/// Which of them are meant, only the functions of the library tell.
#[test]
#[ignore = "needs root"]
fn locks_of_glib_and_qt() {
    let scratch = Scratch::new();
    assert_by_stopwatch(&launch(&scratch, &[], "locks-glib", &[]), &[]);
    assert_by_stopwatch(&launch(&scratch, &[], "locks-qt", &[]), &[]);
}

/// Their own threads wait in functions that have no names.
#[test]
#[ignore = "needs root"]
fn threads_and_locks_of_tbb_and_of_llvms_openmp() {
    let scratch = Scratch::new();
    // The main thread waits for the others at the end of each team as well.
    let openmp = launch(&scratch, &[], "locks-openmp", &[]);
    let openmp = assert_by_stopwatch(&openmp, &["barrier"]);
    let tbb = assert_by_stopwatch(&launch(&scratch, &[], "locks-tbb", &[]), &[]);
    let idle_ns = by_kind(&tbb)[&("TBB", "idle thread", "idle")];
    // Two workers, while there is no loop.
    assert!(idle_ns > 15 * 10 * MS, "{idle_ns}");
    for answer in [openmp, tbb] {
        let told = by_kind(&answer);
        assert!(told.keys().all(|k| k.1 != "futex"), "{told:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn java() {
    if installed("java") {
        let scratch = Scratch::new();
        let recorded = record(&scratch, &["--", "java", JAVA]);
        assert_by_stopwatch(&recorded, &["Object.wait", "LockSupport.park"]);
    }
}

#[test]
#[ignore = "needs root"]
fn python() {
    if installed("python3") {
        let scratch = Scratch::new();
        let answer = locks_of(&record(&scratch, &["--", "python3", PYTHON]).tables);
        assert_sound(&answer);
        let told = by_kind(&answer);
        let of = |kind: &str, used: &str| told.get(&("Python", kind, used)).copied().unwrap_or(0);
        println!("{told:?}");
        // Two of three wait for 300 times 2 ms at least; the lock goes from thread to thread.
        assert!(of("threading.Lock", "lock") > 1_000 * MS, "{told:?}");
        // A stripped Python does not tell SimpleQueue.get from a lock; that it waits for work it does.
        let idle = told
            .iter()
            .filter(|((runtime, _, used), _)| (*runtime, *used) == ("Python", "idle"))
            .map(|(_, ns)| ns)
            .sum::<u64>();
        assert!(idle > 300 * MS, "{told:?}");
        assert!(of("GIL", "lock") > 300 * MS, "{told:?}");
        let mut gils = answer.locks.iter().filter(|lock| lock.kind == "GIL");
        let (Some(gil), None) = (gils.next(), gils.next()) else {
            panic!("one GIL: {:?}", answer.locks);
        };
        // Who wants it gives up every 5 ms, to ask for it and wait again: who held it is to blame.
        let by_threads = gil.blame.iter().filter(|b| b.waker.kind == "thread");
        let by_threads: u64 = by_threads.map(|b| b.blamed_ns).sum();
        assert!(10 * by_threads > 9 * gil.waited_ns, "{gil:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn go_threads_wait_for_work() {
    let scratch = Scratch::new();
    let answer = locks_of(&launch(&scratch, &[], "locks-go", &[]).tables);
    assert_sound(&answer);
    let told = by_kind(&answer);
    assert!(told.keys().all(|k| k.0 == "Go"), "{told:?}");
    let idle: u64 = told
        .iter()
        .filter(|(k, _)| k.2 != "lock")
        .map(|(_, ns)| ns)
        .sum();
    assert!(idle > 500 * MS, "{told:?}");
}

// ---- every word, against perf's log of the calls ----

/// perf, logging when threads enter and leave futex calls, and when they end. Each of these a thread does while it
/// runs: perf leaves out events without a word where a processor comes out of its idle state, so its log of
/// switches and wakings has holes.
struct CallLog {
    perf: Child,
    path: String,
    /// Where they are closed before it has ended, its file is not whole.
    _control: (ChildStdin, ChildStdout),
}

impl CallLog {
    fn start(scratch: &Scratch) -> Self {
        let path = scratch.file("perf.data");
        let mut command = perf();
        command.args(["record", "-q", "-a", "-k", "monotonic", "-m", "4096"]);
        command.args(["-o", &path]);
        // No other calls: perf would log its own, and leave out the end when it cannot keep up.
        for event in ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"] {
            command.args(["-e", event, "--filter", "id == 202"]);
        }
        command.args(["-e", "sched:sched_process_exit"]);
        // It begins when it is told to, and says so.
        command.args(["-D", "-1", "--control", "fd:0,1"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut perf = command.stderr(Stdio::null()).spawn().expect("perf runs");
        let mut orders = perf.stdin.take().expect("piped");
        orders.write_all(b"enable\n").expect("perf reads");
        let mut answer = [0; 4];
        let mut answers = perf.stdout.take().expect("piped");
        answers.read_exact(&mut answer).expect("perf begins");
        assert_eq!(&answer, b"ack\n");
        CallLog {
            perf,
            path,
            _control: (orders, answers),
        }
    }

    /// Ends the log and reads it.
    fn end(mut self) -> Log {
        // SAFETY: no memory effects; it is our child and not reaped.
        unsafe { libc::kill(self.perf.id() as i32, libc::SIGINT) };
        self.perf.wait().expect("perf ends");
        let mut script = Command::new("perf");
        script.args(["script", "--ns", "--show-lost-events"]);
        script.args(["-F", "tid,time,event,trace", "-i", &self.path]);
        let output = script.stderr(Stdio::null()).output().expect("perf runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let mut log = Log::default();
        text.lines().for_each(|line| log.line(line));
        log
    }
}

/// Waits for a word by a thread, as logged.
#[derive(Clone, Copy, Default)]
struct Calls {
    count: u64,
    /// From entering to leaving, ns.
    inside_ns: u64,
}

#[derive(Default)]
struct Log {
    /// Since when a thread is in a futex call, and the word if it may wait there.
    inside: HashMap<u32, (u64, Option<u64>)>,
    /// By thread id and word.
    waits: HashMap<(u32, u64), Calls>,
    /// Calls by thread id of which the log has one end only.
    torn: HashMap<u32, u32>,
    lost: u32,
}

impl Log {
    /// `  TID SECONDS.NANOSECONDS: EVENT: TRACE`.
    fn line(&mut self, line: &str) {
        self.lost += u32::from(line.contains("PERF_RECORD_LOST"));
        let mut words = line.split_whitespace();
        let Some(tid) = words.next().and_then(|w| w.parse::<u32>().ok()) else {
            return;
        };
        let time = words
            .next()
            .and_then(|w| nanoseconds(w.trim_end_matches(':')));
        let (Some(time), Some(event)) = (time, words.next()) else {
            return;
        };
        let trace = &line[line.find(event).map_or(0, |at| at + event.len())..];
        match event.trim_end_matches(':') {
            "raw_syscalls:sys_enter" => {
                if self.inside.insert(tid, (time, waited_for(trace))).is_some() {
                    self.tear(tid);
                }
            }
            "raw_syscalls:sys_exit" => {
                if !self.leave(tid, time) {
                    self.tear(tid);
                }
            }
            // In the midst of a call, maybe.
            _ => {
                self.leave(tid, time);
            }
        }
    }

    fn tear(&mut self, tid: u32) {
        *self.torn.entry(tid).or_default() += 1;
    }

    /// A thread is in no call any more; whether it was.
    fn leave(&mut self, tid: u32, time: u64) -> bool {
        let Some((since, word)) = self.inside.remove(&tid) else {
            return false;
        };
        if let Some(word) = word {
            let calls = self.waits.entry((tid, word)).or_default();
            calls.count += 1;
            calls.inside_ns += time - since;
        }
        true
    }
}

/// The word of `NR 202 (WORD, OPERATION, …)`, if the operation may wait.
fn waited_for(trace: &str) -> Option<u64> {
    /// FUTEX_WAIT, LOCK_PI, WAIT_BITSET, WAIT_REQUEUE_PI, LOCK_PI2
    const WAITS: [u64; 5] = [0, 6, 9, 11, 13];
    /// FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME
    const FLAGS: u64 = 0x180;
    let mut arguments = trace.trim().strip_prefix("NR 202 (")?.split(", ");
    let mut next = || u64::from_str_radix(arguments.next()?, 16).ok();
    let (word, operation) = (next()?, next()?);
    WAITS.contains(&(operation & !FLAGS)).then_some(word)
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + rest.parse::<u64>().ok()?)
}

/// ns off the processor in futex calls, by thread id and word, as recorded: blocked, and then runnable.
fn recorded_by_word(tables: &Tables) -> HashMap<(u32, u64), u64> {
    let word: HashMap<u32, u64> = tables
        .futexes
        .iter()
        .map(|f| (f.futex, f.address))
        .collect();
    let tid: HashMap<u32, u32> = tables.threads.iter().map(|t| (t.thread, t.tid)).collect();
    let sites: HashMap<u32, (u32, u64)> = tables
        .sites
        .iter()
        .filter_map(|s| Some((s.site, (tid[&s.thread], word[&s.futex?]))))
        .collect();
    let mut sums = HashMap::new();
    for row in &tables.site_times {
        if let Some(key) = sites.get(&row.site) {
            *sums.entry(*key).or_default() += row.blocked_ns + row.runnable_ns;
        }
    }
    sums
}

/// What a thread may be busy with in a call, beside waiting: going to sleep and coming back, ns.
const BUSY_IN_CALL: u64 = 50_000;

#[track_caller]
fn assert_like_call_log(record: impl Fn(&Scratch) -> Recorded) {
    if !installed("perf") {
        return;
    }
    wrong_every_time("call log", || {
        let scratch = Scratch::new();
        let log = CallLog::start(&scratch);
        let Recorded {
            tables, stolen_ns, ..
        } = record(&scratch);
        let log = log.end();
        let recorded = recorded_by_word(&tables);
        let ours: Vec<u32> = tables.threads.iter().map(|t| t.tid).collect();
        let mut wrong = Vec::new();
        let (mut inside, mut least, mut off, mut count) = (0, 0, 0, 0);
        for (key, calls) in log.waits.iter().filter(|(k, _)| ours.contains(&k.0)) {
            let got = recorded.get(key).copied().unwrap_or(0);
            let busy = calls.count * BUSY_IN_CALL;
            let at_least = calls.inside_ns.saturating_sub(busy);
            (inside, least, off) = (inside + calls.inside_ns, least + at_least, off + got);
            count += 1;
            let wanted = got.clamp(at_least, calls.inside_ns);
            if !near_but_stolen(got, wanted, 0.01, MS, stolen_ns) {
                let Calls { count, inside_ns } = calls;
                wrong.push(format!(
                    "{key:x?}: {got} ns, {count} calls of {inside_ns} ns"
                ));
            }
        }
        let torn: u32 = ours.iter().filter_map(|tid| log.torn.get(tid)).sum();
        if torn > 0 {
            wrong.push(format!("perf's log has one end only of {torn} calls"));
        }
        if log.lost > 0 {
            wrong.insert(0, format!("perf lost {} times", log.lost));
        }
        let answer = locks_of(&tables);
        println!(
            "{count} words; {inside} ns in calls, {off} ns of that off the processor by the recording; \
             {:.2} % classified",
            100.0 * answer.classified_share
        );
        if count <= 3 || inside <= 100 * MS {
            wrong.push(format!("perf saw {count} words, {inside} ns"));
        }
        // All that is classified, of all that the log has.
        let least = least.saturating_sub(stolen_ns);
        if (off as f64) * answer.classified_share < CLASSIFIED * least as f64 {
            wrong.push(format!(
                "{} of {off} ns classified; at least {least} ns were waited",
                answer.classified_share
            ));
        }
        // Numbers of threads and words differ from one run to the next: a run is right or wrong.
        let whole = |wrong: Vec<String>| ("run".to_owned(), wrong.join("; "));
        Some(wrong)
            .filter(|w| !w.is_empty())
            .map(whole)
            .into_iter()
            .collect()
    });
}

#[test]
#[ignore = "needs root"]
fn words_of_posix_locks_are_those_of_the_calls() {
    assert_like_call_log(|scratch| launch(scratch, &[], "locks", &["--json", "/dev/null"]));
}

#[test]
#[ignore = "needs root"]
fn words_of_rust_are_those_of_the_calls() {
    assert_like_call_log(|scratch| launch(scratch, &[], "locks-rust", &[]));
}

#[test]
#[ignore = "needs root"]
fn words_of_go_are_those_of_the_calls() {
    assert_like_call_log(|scratch| launch(scratch, &[], "locks-go", &[]));
}

#[test]
#[ignore = "needs root"]
fn words_of_java_are_those_of_the_calls() {
    if installed("java") {
        assert_like_call_log(|scratch| record(scratch, &["--", "java", JAVA]));
    }
}

#[test]
#[ignore = "needs root"]
fn words_of_python_are_those_of_the_calls() {
    if installed("python3") {
        assert_like_call_log(|scratch| record(scratch, &["--", "python3", PYTHON]));
    }
}
