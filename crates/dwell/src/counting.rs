//! `dwell record --locks`: the lock operations of the recorded processes, counted inside of them.
use crate::following::{Following, Numbers, take_number};
use dwell_collector::{Recorder, clock_anchor};
use dwell_locks::{
    AtEntry, Drained, Held, Kind, Libc, LockTotal, Locks, MutexType, Pause, Place, Snapshot,
};
use dwell_recording::meta::{CountedProcess, HeldThreads};
use dwell_recording::rows::{LockBlockRow, LockRow, block_part, lock_kind};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Between two readings of the totals: what a recorder that is killed can lose.
const READ_EVERY: Duration = Duration::from_millis(900);

/// Events that become rows at a time: so many that what is made of them stays in a processor's own cache meanwhile.
const EVENTS_AT_A_TIME: usize = 1 << 11;

/// How long a program that a process has become may take to load its libc.
const LOADER_LIMIT: Duration = Duration::from_secs(2);

/// The processes whose locks are being counted. Dropping it gives them their code back.
pub struct Counting {
    processes: Vec<Process>,
    /// Processes that became another program then, which is to be attached to.
    changed: Vec<(u32, Instant)>,
    next: Next,
    next_reading: Instant,
}

/// The next numbers of what is recorded.
#[derive(Default)]
struct Next {
    lock: u32,
    block: u32,
}

struct Process {
    /// None when they cannot be counted.
    locks: Option<Locks>,
    /// Whether it is known how often its spin locks were not free.
    sees_spinning: bool,
    counted: CountedProcess,
    since_ns: u64,
    /// Number and last totals of each lock.
    known: FxHashMap<Key, (u32, LockTotal)>,
    following: Option<Following>,
    /// Where calls returned to that made locks, by address, when that was looked up last.
    makers: HashMap<u64, u64>,
}

/// Address and kind.
type Key = (u64, Kind);

fn key_of(total: &LockTotal) -> Key {
    (total.address, total.kind)
}

impl Counting {
    /// Begins to count the command of a recorder, which it lets run, or else these processes.
    pub fn start(recorder: &mut Recorder, pids: &[u32]) -> anyhow::Result<Counting> {
        match recorder.launched_pid() {
            Some(pid) => Counting::of_launched(recorder, pid),
            None => Ok(Counting::of_running(recorder, pids)),
        }
    }

    /// Attaches to processes that run. One that cannot be counted is recorded all the same.
    fn of_running(recorder: &mut Recorder, pids: &[u32]) -> Counting {
        let processes = pids.iter().map(|&pid| Process::attach(recorder, pid));
        let counting = Counting {
            processes: processes.collect(),
            changed: Vec::new(),
            next: Next::default(),
            next_reading: Instant::now() + READ_EVERY,
        };
        recorder.set_counted(counting.told());
        counting
    }

    /// Lets the launched command of a recorder run, and attaches to it before it executes anything of
    /// its own.
    fn of_launched(recorder: &mut Recorder, pid: u32) -> anyhow::Result<Counting> {
        let expected = AtEntry::expect(pid as i32);
        recorder.go()?;
        let held = match expected.and_then(AtEntry::held) {
            // Nothing can be counted in a program of 32 bits.
            Ok(Some(held)) if !held.is_loaded() => held.begin().map(|()| None),
            held => held,
        };
        let napping = Instant::now();
        let mut counting = Counting::of_running(recorder, &[pid]);
        let begun = held.and_then(|held| held.map(Held::begin).transpose());
        match begun {
            // It has been held since before it was attached to.
            Ok(Some(())) => counting.held_for(napping.elapsed()),
            Ok(None) => counting.note(recorder, "what it did before it was attached to"),
            Err(error) => counting.note(recorder, &format!("some of its beginning: {error}")),
        }
        Ok(counting)
    }

    /// Tells, with what the recorder is told next, that attaching held the processes still for so long.
    fn held_for(&mut self, time: Duration) {
        for process in &mut self.processes {
            process.counted.attach.longest_ns = time.as_nanos() as u64;
        }
    }

    fn note(&mut self, recorder: &mut Recorder, missed: &str) {
        for process in &mut self.processes {
            process.miss(missed);
        }
        recorder.set_counted(self.told());
    }

    fn told(&self) -> Vec<CountedProcess> {
        self.processes.iter().map(|p| p.counted.clone()).collect()
    }

    /// Hands the recorder what has changed, about once a second. Call it often: a process that has
    /// become another program is attached to anew.
    pub fn update(&mut self, recorder: &mut Recorder) {
        for process in &mut self.processes {
            process.follow_events(recorder, &mut self.next);
        }
        self.follow(recorder);
        if Instant::now() < self.next_reading {
            return;
        }
        self.next_reading = Instant::now() + READ_EVERY;
        for process in &mut self.processes {
            let snapshot = process.locks.as_ref().and_then(Locks::snapshot);
            if let Some(snapshot) = snapshot {
                recorder.append(process.changed(snapshot, &mut self.next));
            }
            if let Some(following) = &mut process.following {
                following.look_for_dead();
            }
        }
        recorder.set_counted(self.told());
    }

    fn follow(&mut self, recorder: &mut Recorder) {
        for process in &mut self.processes {
            let Some(locks) = process.locks.take_if(|l| !l.is_attached()) else {
                continue;
            };
            process.let_go(locks, recorder, &mut self.next);
            self.changed.push((process.counted.pid, Instant::now()));
        }
        for (pid, since) in std::mem::take(&mut self.changed) {
            if !runs_a_program(pid) {
                continue; // it has ended
            }
            let mut process = Process::attach(recorder, pid);
            if process.locks.is_none() && since.elapsed() < LOADER_LIMIT {
                self.changed.push((pid, since));
                continue;
            }
            process.miss("what it did as this program before it was attached to");
            self.processes.push(process);
        }
    }

    /// Lets go of the processes and hands over the last totals; returns what a person should know.
    pub fn finish(mut self, recorder: &mut Recorder) -> Vec<String> {
        let mut notes = Vec::new();
        for process in &mut self.processes {
            if let Some(locks) = process.locks.take() {
                process.let_go(locks, recorder, &mut self.next);
            }
            notes.extend(process.notes());
        }
        recorder.set_counted(self.told());
        notes
    }
}

impl Process {
    fn attach(recorder: &mut Recorder, pid: u32) -> Process {
        let mut counted = CountedProcess {
            process: recorder.process_of(pid).unwrap_or_default(),
            pid,
            ..CountedProcess::default()
        };
        let locks = match Locks::attach(pid as i32) {
            Ok(locks) => {
                counted.libc = name_of(locks.libc()).to_owned();
                counted.attach = held(locks.pause());
                counted.missed = missed(&locks);
                recorder.set_own_code(counted.process, locks.code(), &locks.waking());
                Some(locks)
            }
            Err(error) => {
                counted.missed.push(error.to_string());
                None
            }
        };
        let follows = locks.is_some();
        Process {
            sees_spinning: locks.as_ref().is_some_and(Locks::sees_spinning),
            locks,
            following: follows.then(|| Following::new(pid, counted.process)),
            counted,
            since_ns: clock_anchor().boottime_ns,
            known: FxHashMap::default(),
            makers: HashMap::new(),
        }
    }

    /// Detaches, and hands the recorder what is left.
    fn let_go(&mut self, locks: Locks, recorder: &mut Recorder, next: &mut Next) {
        self.makers = locks.makers();
        let (last, events) = self.detach(locks);
        if let Some(last) = last {
            recorder.append(self.rows(last, next));
        }
        self.take_in(&events, recorder, next);
        if let Some(mut following) = self.following.take() {
            let now = clock_anchor().boottime_ns;
            let rows = self.with_numbers(recorder, next, |numbers, recorder| {
                following.finish(now, recorder, numbers)
            });
            recorder.append(rows);
            self.tell_makers(following.take_new(), recorder);
        }
    }

    /// What happened to locks since the last time.
    fn follow_events(&mut self, recorder: &mut Recorder, next: &mut Next) {
        if let Some(locks) = &mut self.locks {
            let events = locks.events();
            self.take_in(&events, recorder, next);
        }
    }

    fn take_in(&mut self, drained: &Drained, recorder: &mut Recorder, next: &mut Next) {
        self.counted.events += drained.written;
        self.counted.lost_events += drained.lost;
        let Some(mut following) = self.following.take() else {
            return;
        };
        if drained.lost > 0 {
            following.lost();
        }
        let events = &drained.events;
        // Without an event a hold may have ended all the same: its thread died.
        let none = events.is_empty().then_some(&events[..]);
        for events in events.chunks(EVENTS_AT_A_TIME).chain(none) {
            let rows = self.with_numbers(recorder, next, |numbers, recorder| {
                following.add(events, recorder, numbers)
            });
            recorder.append(rows);
            self.tell_makers(following.take_new(), recorder);
        }
        following.is_known_until(drained.until_ns);
        self.following = Some(following);
    }

    /// Tells who made locks that were waited for.
    fn tell_makers(&mut self, locks: Vec<(u32, u64)>, recorder: &mut Recorder) {
        if let Some(counted) = self.locks.as_ref().filter(|_| !locks.is_empty()) {
            self.makers = counted.makers();
        }
        let process = self.counted.process;
        for (lock, address) in locks {
            recorder.name_word(process, address);
            if let Some(returns_to) = self.makers.get(&address) {
                let frame = recorder.frame_of_call(process, *returns_to);
                recorder.append(vec![LockBlockRow {
                    process,
                    lock,
                    part: block_part::MADE.into(),
                    frame: Some(frame),
                    ..LockBlockRow::default()
                }]);
            }
        }
    }

    /// Makes rows that refer to locks; one that is new gets a row of its own first.
    fn with_numbers<T>(
        &mut self,
        recorder: &mut Recorder,
        next: &mut Next,
        make: impl FnOnce(&mut Numbers<'_>, &mut Recorder) -> T,
    ) -> T {
        let mut new = Vec::new();
        let Next { lock, block } = next;
        let known = &mut self.known;
        let mut number = |address, kind| {
            let (number, _) = known.entry((address, kind)).or_insert_with(|| {
                let first = (take_number(lock), LockTotal::none(address, kind));
                new.push(first);
                first
            });
            *number
        };
        let mut numbers = Numbers {
            lock: &mut number,
            next_block: block,
        };
        let made = make(&mut numbers, recorder);
        let now = clock_anchor().boottime_ns;
        let row = |(lock, total): (u32, LockTotal)| self.row(lock, &total, now);
        recorder.append(new.into_iter().map(row).collect());
        made
    }

    fn detach(&mut self, locks: Locks) -> (Option<Snapshot>, Drained) {
        let outlive = locks.outlive_process();
        match locks.detach_with_events() {
            Ok((last, events, restored)) => {
                let has_ended = restored.pause.times == 0;
                if has_ended && !outlive {
                    self.miss("what it did in its last second: it ended, and its counts with it");
                }
                self.counted.detach = (!has_ended).then(|| held(restored.pause));
                (last, events)
            }
            Err(error) => {
                self.miss(&format!(
                    "what it did in its last second: {error}. dwell's code is in the process still, at rest; the next \
                     recording of its locks takes it out"
                ));
                (None, Drained::default())
            }
        }
    }

    fn miss(&mut self, what: &str) {
        self.counted.missed.push(what.to_owned());
    }

    /// The locks whose totals have changed.
    fn changed(&mut self, snapshot: Snapshot, next: &mut Next) -> Vec<LockRow> {
        let is_new = |known: &FxHashMap<Key, (u32, LockTotal)>, total: &LockTotal| {
            known
                .get(&key_of(total))
                .is_none_or(|(_, last)| last != total)
        };
        let changed = snapshot.locks.iter().filter(|t| is_new(&self.known, t));
        let changed = Snapshot {
            locks: changed.copied().collect(),
            ..snapshot
        };
        self.rows(changed, next)
    }

    fn rows(&mut self, snapshot: Snapshot, next: &mut Next) -> Vec<LockRow> {
        self.counted.forgotten = snapshot.forgotten;
        self.counted.released_free = snapshot.released_free;
        let until_ns = clock_anchor().boottime_ns;
        let mut rows = Vec::new();
        for total in &snapshot.locks {
            let known = self.known.entry(key_of(total));
            let known = known.or_insert_with(|| (take_number(&mut next.lock), *total));
            known.1 = *total;
            let lock = known.0;
            rows.push(self.row(lock, total, until_ns));
        }
        rows
    }

    fn row(&self, lock: u32, total: &LockTotal, until_ns: u64) -> LockRow {
        LockRow {
            lock,
            process: self.counted.process,
            since_ns: self.since_ns,
            until_ns,
            ..row(total, &self.counted.libc, self.sees_spinning)
        }
    }

    fn notes(&self) -> Vec<String> {
        let counted = &self.counted;
        let pid = counted.pid;
        if counted.libc.is_empty() {
            return vec![format!(
                "the locks of process {pid} are not counted: {}",
                counted.missed.join("; ")
            )];
        }
        let mut pauses = format!("{} to attach", pause(&counted.attach));
        if let Some(detach) = &counted.detach {
            pauses.push_str(&format!(", {} to detach", pause(detach)));
        }
        let mut notes = vec![format!("counting locks held process {pid} for {pauses}")];
        if !counted.missed.is_empty() {
            notes.push(format!(
                "not counted of process {pid}: {}",
                dwell_report::missed::in_short(&counted.missed).join("; ")
            ));
        }
        notes
    }
}

fn runs_a_program(pid: u32) -> bool {
    std::fs::read_link(format!("{}/exe", dwell_maps::folder(pid))).is_ok()
}

fn pause(held: &HeldThreads) -> String {
    let ms = held.longest_ns as f64 / 1e6;
    match held.times {
        0 | 1 => format!("{ms:.2} ms"),
        times => format!("{ms:.2} ms at most, {times} times,"),
    }
}

fn held(pause: Pause) -> HeldThreads {
    HeldThreads {
        longest_ns: pause.longest.as_nanos() as u64,
        times: pause.times,
        threads: pause.threads as u32,
    }
}

/// What of libc could not be hooked, a function at a time.
fn missed(locks: &Locks) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for missed in locks.missed() {
        let part = match missed.place {
            Place::Entry | Place::Head => "entry",
            Place::Offset(_) => "waiting",
            Place::Returns | Place::Rets => "returns",
        };
        let text = format!(
            "{}, {part} of the part at {:#x}: {}",
            missed.function, missed.address, missed.refusal
        );
        if !told.contains(&text) {
            told.push(text);
        }
    }
    told
}

fn name_of(libc: Libc) -> &'static str {
    match libc {
        Libc::Glibc(_) => "glibc",
        Libc::Musl => "musl",
        Libc::Unknown => "unknown",
    }
}

fn row(total: &LockTotal, libc: &str, sees_spinning: bool) -> LockRow {
    let (kind, mutex_type) = match total.kind {
        Kind::Mutex { .. } => (lock_kind::MUTEX, mutex_type(total.kind)),
        Kind::UnknownMutex => (lock_kind::MUTEX, String::new()),
        Kind::Read => (lock_kind::READ, String::new()),
        Kind::Write => (lock_kind::WRITE, String::new()),
        Kind::Spin => (lock_kind::SPIN, String::new()),
        Kind::Condition => (lock_kind::CONDITION, String::new()),
        Kind::Barrier => (lock_kind::BARRIER, String::new()),
        Kind::Semaphore => (lock_kind::SEMAPHORE, String::new()),
    };
    LockRow {
        address: total.address,
        kind: kind.to_owned(),
        mutex_type,
        acquired: total.acquired,
        contended: knows_contention(total.kind, libc, sees_spinning).then_some(total.contended),
        try_fails: total.try_fails,
        timeouts: total.timeouts,
        nested: total.nested,
        ..LockRow::default()
    }
}

fn mutex_type(kind: Kind) -> String {
    let Kind::Mutex {
        of_type,
        is_robust,
        inherits,
        protects,
    } = kind
    else {
        return String::new();
    };
    let mut text = String::from(match of_type {
        MutexType::Normal => "normal",
        MutexType::Recursive => "recursive",
        MutexType::ErrorChecking => "error_checking",
        MutexType::Adaptive => "adaptive",
    });
    let attributes = [
        (is_robust, " robust"),
        (inherits, " inherit"),
        (protects, " protect"),
    ];
    text.extend(
        attributes
            .iter()
            .filter(|(has, _)| *has)
            .map(|(_, name)| *name),
    );
    text
}

/// Whether the agent sees that a lock of this kind is not free: of mutexes always, of others in the libcs
/// whose words it knows.
fn knows_contention(kind: Kind, libc: &str, sees_spinning: bool) -> bool {
    match kind {
        Kind::Mutex { .. } => true,
        Kind::Read | Kind::Write | Kind::Semaphore => libc != "unknown",
        Kind::Spin => sees_spinning,
        Kind::UnknownMutex | Kind::Condition | Kind::Barrier => false,
    }
}
