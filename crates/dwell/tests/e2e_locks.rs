//! Locks, against what programs log of their own waits and against perf's log of switches.
mod common;

use common::*;
use dwell_recording::Tables;
use dwell_report::{LocksAnswer, Options};
use std::collections::{BTreeMap, HashMap};
use std::process::{Child, Command, Stdio};

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
        if !near(lock.waited_ns, ns.max(0) as u64, 0.01, MS) {
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
        let words: Vec<&str> = str::split(line, ' ').collect();
        let [runtime, kind, used, ns] = words[..] else {
            return None;
        };
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
/// little more where waits take milliseconds. `except` are kinds that the runtime's own threads wait
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
            waited >= ns - ns / 10,
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

// ---- every word, against perf's log of switches ----

/// perf, logging all system calls, switches and wakings of the machine.
struct SwitchLog {
    perf: Child,
    path: String,
}

impl SwitchLog {
    fn start(scratch: &Scratch) -> Self {
        let path = scratch.file("perf.data");
        let mut command = Command::new("perf");
        command.args([
            "record",
            "-q",
            "-a",
            "-k",
            "monotonic",
            "-m",
            "4096",
            "-o",
            &path,
        ]);
        // No other calls: perf would log its own, and leave out the end when it cannot keep up.
        for event in ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"] {
            command.args(["-e", event, "--filter", "id == 202"]);
        }
        // sched_wakeup is when a thread begins to want a processor; sched_waking, which comes before it,
        // is some 20 us earlier where an idle processor has to be roused.
        command.args(["-e", "sched:sched_switch", "-e", "sched:sched_wakeup"]);
        let perf = command.stderr(Stdio::null()).spawn().expect("perf runs");
        std::thread::sleep(std::time::Duration::from_millis(2500));
        SwitchLog { perf, path }
    }

    /// Ends the log and reads it.
    fn end(mut self) -> Log {
        // SAFETY: no memory effects; it is our child and not reaped.
        unsafe { libc::kill(self.perf.id() as i32, libc::SIGINT) };
        self.perf.wait().expect("perf ends");
        let mut script = Command::new("perf");
        script.args([
            "script",
            "--ns",
            "--show-lost-events",
            "-F",
            "tid,time,event,trace",
            "-i",
            &self.path,
        ]);
        let output = script.stderr(Stdio::null()).output().expect("perf runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let mut log = Log::default();
        text.lines().for_each(|line| log.line(line));
        log
    }
}

#[derive(Default)]
struct Log {
    /// The word of the futex call that a thread is in.
    word: HashMap<u32, u64>,
    /// Since when a thread sleeps on which word.
    asleep: HashMap<u32, (u64, u64)>,
    /// Blocked ns by thread id and word.
    blocked: HashMap<(u32, u64), u64>,
    /// The same of waits whose end is missing in the log, up to when the thread certainly ran again. perf leaves
    /// out events without a word when a processor comes out of its idle state.
    unended: HashMap<(u32, u64), u64>,
    lost: u32,
    /// Time of the first event, ns of CLOCK_MONOTONIC.
    first: Option<u64>,
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
        self.first.get_or_insert(time);
        self.runs(tid, time);
        let field = |name: &str| {
            let rest = trace.split_once(&format!("{name}="))?.1;
            rest.split_whitespace().next()
        };
        match event.trim_end_matches(':') {
            "raw_syscalls:sys_enter" => self.futex_call(tid, trace),
            "raw_syscalls:sys_exit" => {
                self.word.remove(&tid);
            }
            "sched:sched_switch" => {
                if let Some(next) = field("next_pid").and_then(|p| p.parse().ok()) {
                    self.runs(next, time);
                }
                let state = field("prev_state").unwrap_or_default();
                if let Some(word) = self.word.get(&tid).filter(|_| state.starts_with('S')) {
                    self.asleep.insert(tid, (time, *word));
                }
            }
            _ => {
                let woken = field("pid").and_then(|p| p.parse().ok()).unwrap_or(0);
                if let Some((since, word)) = self.asleep.remove(&woken) {
                    *self.blocked.entry((woken, word)).or_default() += time - since;
                }
            }
        }
    }

    /// A thread runs. One that is thought to sleep was woken before.
    fn runs(&mut self, tid: u32, time: u64) {
        if let Some((since, word)) = self.asleep.remove(&tid) {
            *self.unended.entry((tid, word)).or_default() += time - since;
        }
    }

    /// `NR 202 (WORD, OPERATION, …)`.
    fn futex_call(&mut self, tid: u32, trace: &str) {
        let arguments = trace.trim().strip_prefix("NR 202 (");
        let word = arguments.and_then(|a| u64::from_str_radix(a.split(',').next()?, 16).ok());
        if let Some(word) = word {
            self.word.insert(tid, word);
        }
    }
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, rest) = text.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + rest.parse::<u64>().ok()?)
}

/// Blocked ns by thread id and word, as recorded.
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
            *sums.entry(*key).or_default() += row.blocked_ns;
        }
    }
    sums
}

#[track_caller]
fn assert_like_switch_log(record: impl Fn(&Scratch) -> Recorded) {
    if !installed("perf") {
        return;
    }
    wrong_every_time("switch log", || {
        let scratch = Scratch::new();
        let log = SwitchLog::start(&scratch);
        let tables = record(&scratch).tables;
        let log = log.end();
        let logged = &log.blocked;
        let recorded = recorded_by_word(&tables);
        let ours: Vec<u32> = tables.threads.iter().map(|t| t.tid).collect();
        let known = logged.keys().filter(|k| ours.contains(&k.0));
        let mut wrong = Vec::new();
        let (mut all, mut unended, mut count) = (0, 0, 0);
        for key in known {
            let (least, got) = (logged[key], recorded.get(key).copied().unwrap_or(0));
            let more = log.unended.get(key).copied().unwrap_or(0);
            (all, unended, count) = (all + least, unended + more, count + 1);
            let wanted = got.clamp(least, least + more);
            if !near(got, wanted, 0.01, MS) {
                wrong.push(format!(
                    "{key:x?}: {got} ns, perf saw {least} and up to {more} without their ends"
                ));
            }
        }
        println!("{unended} ns of waits without their ends in perf's log");
        if unended > all / 20 {
            wrong.push(format!("perf's log has holes of {unended} ns of {all} ns"));
        }
        if log.lost > 0
            || log
                .first
                .is_none_or(|t| t + boottime_ahead_ns() > tables.meta.start_ns)
        {
            wrong.insert(
                0,
                format!("perf lost {} times, or began too late", log.lost),
            );
        }
        println!(
            "{count} words, {all} ns by perf, {} ns recorded",
            recorded.values().sum::<u64>()
        );
        if count <= 3 || all <= 100 * MS {
            wrong.push(format!("perf saw {count} words, {all} ns"));
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
fn words_of_posix_locks_are_those_of_the_switch_log() {
    assert_like_switch_log(|scratch| launch(scratch, &[], "locks", &["--json", "/dev/null"]));
}

#[test]
#[ignore = "needs root"]
fn words_of_rust_are_those_of_the_switch_log() {
    assert_like_switch_log(|scratch| launch(scratch, &[], "locks-rust", &[]));
}

#[test]
#[ignore = "needs root"]
fn words_of_go_are_those_of_the_switch_log() {
    assert_like_switch_log(|scratch| launch(scratch, &[], "locks-go", &[]));
}

#[test]
#[ignore = "needs root"]
fn words_of_java_are_those_of_the_switch_log() {
    if installed("java") {
        assert_like_switch_log(|scratch| record(scratch, &["--", "java", JAVA]));
    }
}

#[test]
#[ignore = "needs root"]
fn words_of_python_are_those_of_the_switch_log() {
    if installed("python3") {
        assert_like_switch_log(|scratch| record(scratch, &["--", "python3", PYTHON]));
    }
}
