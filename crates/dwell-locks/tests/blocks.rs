//! Blocks against an oracle: a lock with threads that do at random whatever can be done with it, of which the
//! oracle sees everything and the blocks only what the agent would tell. `DWELL_BLOCK_HISTORIES` says how many
//! histories there are.
use dwell_locks::blocks::{
    Block, Blocks, Event, FREE, Finished, Hold, HoldEnd, Wait, WaitEnd, What,
};
use dwell_locks::{Kind, MutexType};

const THREADS: usize = 4;
const LOCK: u64 = 0x1000;

const MUTEX: Kind = Kind::Mutex {
    of_type: MutexType::Normal,
    is_robust: false,
    inherits: false,
    protects: false,
};

/// Time between two things that are done: blocks may take instants that are nearer for the same.
const APART_NS: u64 = 100_000;

/// The number of a thread as events have it.
fn number(thread: usize) -> u32 {
    thread as u32 + 1
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }

    fn chance(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Nothing,
    /// Found the lock taken, and has said so if the agent was there.
    Wants(Option<u64>),
    Sleeps(Option<u64>),
    /// Has the lock, but has not said so.
    Got(Option<u64>, bool),
    Holds(u32),
    /// Has let it go, but has not looked at the clock: what the word was, and the number of its hold.
    Lets(u32, usize, What),
    WaitsForCondition,
    Died,
}

/// A stay of the lock with a thread, as it was.
#[derive(Clone, Debug)]
struct TrueHold {
    thread: usize,
    /// When it became known to anyone who reads events.
    seen: Option<u64>,
    since: Option<u64>,
    until: Option<u64>,
    end: HoldEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TrueWait {
    since: u64,
    until: u64,
    thread: usize,
    end: u8,
}

/// An end that nobody knows.
const UNKNOWN: u64 = u64::MAX;

/// How a history may go.
#[derive(Clone, Copy)]
struct Rules {
    /// The owner of the lock is always known when a wait begins.
    names_owners: bool,
    /// Others do no more than one thing between a release and its release's look at the clock.
    is_prompt: bool,
    /// Threads release what they do not hold.
    has_errors: bool,
}

/// Nothing is unknown and nobody errs.
const ALL_KNOWN: Rules = Rules {
    names_owners: true,
    is_prompt: true,
    has_errors: false,
};

struct World {
    random: Random,
    rules: Rules,
    time: u64,
    doing: [Doing; THREADS],
    // The lock: 0 free, 1 taken, 2 somebody sleeps, 3 to be told.
    word: u32,
    owner: Option<usize>,
    owner_died: bool,
    // The agent.
    attached: bool,
    waiting: u32,
    owed: u32,
    held: [bool; THREADS],
    events: Vec<Event>,
    // The truth.
    holds: Vec<TrueHold>,
    waits: Vec<TrueWait>,
    open: Option<u64>,
    blocks: Vec<(u64, u64)>,
}

const ANYBODY: u32 = u32::MAX;

impl World {
    fn new(seed: u64, rules: Rules) -> World {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        World {
            attached: !random.chance(3),
            random,
            rules,
            time: 100,
            doing: [Doing::Nothing; THREADS],
            word: 0,
            owner: None,
            owner_died: false,
            waiting: 0,
            owed: 0,
            held: [false; THREADS],
            events: Vec::new(),
            holds: Vec::new(),
            waits: Vec::new(),
            open: None,
            blocks: Vec::new(),
        }
    }

    fn run(&mut self) {
        let steps = 10 + self.random.below(60);
        for step in 0..steps {
            self.time += (1 + self.random.below(9)) * APART_NS;
            self.attached |= step > 12;
            let late = self.doing.iter().position(|d| matches!(d, Doing::Lets(..)));
            let thread = match late {
                Some(late) if self.rules.is_prompt && self.random.chance(2) => late,
                _ => self.random.below(THREADS as u64) as usize,
            };
            self.step(thread);
            // At most one of the others came between.
            if let Some(late) = late.filter(|_| self.rules.is_prompt) {
                self.time += APART_NS;
                self.step_if_late(late);
            }
        }
        (0..THREADS).for_each(|thread| self.step_if_late(thread));
    }

    fn step_if_late(&mut self, thread: usize) {
        if let Doing::Lets(was, hold, what) = self.doing[thread] {
            self.told_release(thread, was, hold, what);
        }
    }

    fn step(&mut self, thread: usize) {
        match self.doing[thread] {
            Doing::Nothing if self.rules.has_errors && self.random.chance(8) => self.word = 0,
            Doing::Nothing => self.want(thread),
            Doing::Wants(since) | Doing::Sleeps(since) if self.random.chance(6) => {
                self.give_up(thread, since);
            }
            Doing::Wants(since) | Doing::Sleeps(since) => self.try_for_real(thread, since),
            Doing::Got(since, inherits) => self.tell_acquired(thread, since, inherits),
            Doing::Holds(depth) => self.go_on(thread, depth),
            Doing::Lets(was, hold, what) => self.told_release(thread, was, hold, what),
            Doing::WaitsForCondition => self.wake_from_condition(thread),
            Doing::Died => {}
        }
    }

    fn event(&mut self, what: What, thread: usize, since: u64, owner: u32) {
        self.events.push(Event {
            time_ns: self.time,
            since_ns: since,
            lock: LOCK,
            kind: MUTEX,
            what,
            thread: number(thread),
            owner,
            caller: u64::from(number(thread)) << 8 | what as u64,
        });
    }

    fn take(&mut self, thread: usize, word: u32) {
        self.word = word;
        self.owner = Some(thread);
        self.owner_died = false;
        self.holds.push(TrueHold {
            thread,
            seen: None,
            since: None,
            until: None,
            end: HoldEnd::Unseen,
        });
    }

    /// Threads that tell of their waits.
    fn waiters(&self) -> usize {
        let tells = |d: &&Doing| {
            matches!(
                d,
                Doing::Wants(Some(_)) | Doing::Sleeps(Some(_)) | Doing::Got(Some(_), _)
            )
        };
        self.doing.iter().filter(tells).count()
    }

    /// Whether a hold is open that anyone could know of.
    fn is_held(&self) -> bool {
        let is_open =
            |h: &TrueHold| h.seen.is_some() && h.until.is_none() && h.end == HoldEnd::Unseen;
        self.holds.iter().any(is_open)
    }

    fn close_if_over(&mut self) {
        if self.waiters() == 0
            && !self.is_held()
            && let Some(begin) = self.open.take()
        {
            self.blocks.push((begin, self.time));
        }
    }

    fn want(&mut self, thread: usize) {
        let tries = self.random.chance(4);
        if self.word == 0 {
            self.take(thread, 1);
            self.doing[thread] = Doing::Holds(0);
        } else if !tries && self.attached {
            self.waiting += 1;
            if self.word == 1 {
                self.word = 3;
            }
            let is_named = self.rules.names_owners || !self.random.chance(8);
            let owner = self.owner.filter(|_| is_named).map_or(0, number);
            self.open.get_or_insert(self.time);
            // It is the lock's owner of now, whether anyone could tell or not; no other is any more.
            if let Some((mine, others)) = self.holds.split_last_mut() {
                mine.seen = mine.seen.or(Some(self.time));
                for other in others {
                    if other.seen.is_some() && other.since.is_none() {
                        other.until = other.until.or(Some(self.time));
                    }
                }
            }
            self.event(What::Attempt, thread, 0, owner);
            self.doing[thread] = Doing::Wants(Some(self.time));
        } else if !tries {
            self.doing[thread] = Doing::Wants(None);
        }
    }

    fn give_up(&mut self, thread: usize, since: Option<u64>) {
        self.doing[thread] = Doing::Nothing;
        let Some(since) = since else {
            return;
        };
        if let Some(owner) = self.owner {
            self.owed = if self.rules.names_owners {
                number(owner)
            } else {
                ANYBODY
            };
        }
        self.waiting -= 1;
        let owner = match self.owner {
            Some(owner) if self.rules.names_owners => number(owner),
            Some(_) => 0,
            None => FREE,
        };
        for hold in &mut self.holds {
            let is_owner = self.owner == Some(hold.thread);
            if hold.seen.is_some() && hold.since.is_none() && !is_owner {
                hold.until = hold.until.or(Some(self.time));
            }
        }
        self.event(What::GaveUp, thread, since, owner);
        self.wait_ended(thread, since, 1);
        self.close_if_over();
    }

    fn wait_ended(&mut self, thread: usize, since: u64, end: u8) {
        self.waits.push(TrueWait {
            since,
            until: self.time,
            thread,
            end,
        });
    }

    fn try_for_real(&mut self, thread: usize, since: Option<u64>) {
        // Who came before the agent would do so unseen.
        let inherits = self.owner_died && since.is_some();
        if self.word != 0 && !inherits {
            self.word = 2;
            self.doing[thread] = Doing::Sleeps(since);
            return;
        }
        let word = if self.doing[thread] == Doing::Wants(since) {
            1
        } else {
            2
        };
        self.take(thread, word);
        self.doing[thread] = Doing::Got(since, inherits);
    }

    fn tell_acquired(&mut self, thread: usize, since: Option<u64>, inherits: bool) {
        self.doing[thread] = Doing::Holds(0);
        let Some(since) = since else {
            return; // it came before the agent
        };
        let what = if inherits {
            What::Inherited
        } else {
            What::Acquired
        };
        self.now_told(thread, what);
        self.waiting -= 1;
        self.event(what, thread, since, 0);
        self.wait_ended(thread, since, 0);
    }

    /// A thread says that it has the lock: whoever had it before has it no more.
    fn now_told(&mut self, thread: usize, what: What) {
        self.held[thread] = true;
        if self.word == 1 {
            self.word = 3;
        }
        let time = self.time;
        let (mine, others) = self.holds.split_last_mut().expect("its own");
        mine.seen = mine.seen.or(Some(time));
        mine.since = Some(time);
        for other in others.iter_mut() {
            if other.until.is_none() && other.seen.is_some() {
                other.until = Some(time);
            }
        }
        let last = others.iter_mut().rfind(|h| h.seen.is_some());
        if let Some(last) = last.filter(|_| what == What::Inherited) {
            last.end = HoldEnd::Died;
        }
    }

    fn go_on(&mut self, thread: usize, depth: u32) {
        match self.random.below(16) {
            0..3 => self.doing[thread] = Doing::Holds(depth + 1),
            3 if depth == 0 => self.let_go(thread, What::ReleasedToWait),
            4 if !self.rules.has_errors => {
                self.doing[thread] = Doing::Died;
                self.owner_died = true; // of a robust mutex: its word stays as it is
            }
            _ if depth > 0 => self.doing[thread] = Doing::Holds(depth - 1),
            _ => self.let_go(thread, What::Released),
        }
    }

    fn let_go(&mut self, thread: usize, what: What) {
        let is_owner = self.owner == Some(thread);
        let was = std::mem::replace(&mut self.word, 0);
        let hold = self.holds.iter().rposition(|h| h.thread == thread);
        self.owner = self.owner.filter(|_| !is_owner);
        self.doing[thread] = Doing::Lets(was, hold.expect("it held it"), what);
        if self.random.chance(2) {
            self.step_if_late(thread);
        }
    }

    fn told_release(&mut self, thread: usize, was: u32, hold: usize, what: What) {
        self.doing[thread] = match what {
            What::ReleasedToWait => Doing::WaitsForCondition,
            _ => Doing::Nothing,
        };
        let comes_here = was > 1 || what == What::ReleasedToWait;
        if !self.attached || !comes_here {
            return;
        }
        let held = std::mem::take(&mut self.held[thread]);
        let is_told = held || self.waiting > 0 || self.take_note(thread);
        if is_told {
            self.event(what, thread, 0, 0);
            let time = self.time;
            let is_open = self.open.is_some();
            let (before, rest) = self.holds.split_at_mut(hold);
            let (hold, later) = rest.split_first_mut().expect("it held it");
            if is_open {
                // Who was thought to have it had let it go before, nobody knows when.
                if hold.seen.is_none() {
                    for other in before.iter_mut().filter(|h| h.seen.is_some()) {
                        other.until = other.until.or(Some(UNKNOWN));
                    }
                }
                hold.seen = hold.seen.or(Some(time));
                // It says so late where another has said that it has the lock.
                let next = later.iter().filter_map(|h| h.since).min();
                hold.until = hold
                    .until
                    .or(Some(next.map_or(time, |next| next.min(time))));
                hold.end = match what {
                    What::ReleasedToWait => HoldEnd::ReleasedToWait,
                    _ => HoldEnd::Released,
                };
            }
            self.close_if_over();
        }
    }

    fn take_note(&mut self, thread: usize) -> bool {
        let is_mine = self.owed == ANYBODY || self.owed == number(thread);
        if is_mine {
            self.owed = 0;
        }
        is_mine
    }

    fn wake_from_condition(&mut self, thread: usize) {
        if self.word != 0 || self.owner_died {
            return;
        }
        self.take(thread, 2);
        self.doing[thread] = Doing::Holds(0);
        if self.attached && self.waiting > 0 {
            self.now_told(thread, What::AcquiredAgain);
            self.event(What::AcquiredAgain, thread, 0, 0);
        }
    }
}

/// What a failure is to say.
struct Context<'w>(u64, &'w [Event]);

impl std::fmt::Display for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "history {}: {:#?}", self.0, self.1)
    }
}

fn built(events: &[Event], until: u64) -> Finished {
    let mut blocks = Blocks::new();
    events.iter().for_each(|event| blocks.add(event));
    blocks.finish(until).0
}

/// What holds whatever happened.
fn check_sums(finished: &Finished, context: &Context<'_>) {
    let blamed: u64 = finished.holds.iter().map(|h| h.blamed_ns).sum();
    let unclaimed: u64 = finished.waits.iter().map(|w| w.unclaimed_ns).sum();
    let waited: u64 = finished.waits.iter().map(|w| w.until_ns - w.since_ns).sum();
    assert_eq!(blamed + unclaimed, waited, "{context}");
    for block in &finished.blocks {
        let of_block = |b: &u32| *b == block.block;
        let holds = finished.holds.iter().filter(|h| of_block(&h.block)).count();
        let waits = finished.waits.iter().filter(|w| of_block(&w.block)).count();
        assert_eq!(
            (holds, waits),
            (block.holds as usize, block.waits as usize),
            "{context}"
        );
        assert!(block.waits > 0, "{context}: a block in which nobody waited");
    }
    let in_blocks: u32 = finished.blocks.iter().map(|b| b.waits).sum();
    assert_eq!(in_blocks as usize, finished.waits.len(), "{context}");
}

/// Every wait is there once, as it was.
fn check_waits(world: &World, finished: &Finished, context: &Context<'_>) {
    let end = |w: &Wait| match w.end {
        WaitEnd::Acquired => 0,
        WaitEnd::GaveUp => 1,
        WaitEnd::Open | WaitEnd::Unseen => 2,
    };
    let mut got: Vec<TrueWait> = finished
        .waits
        .iter()
        .map(|w| TrueWait {
            since: w.since_ns,
            until: w.until_ns,
            thread: w.thread as usize - 1,
            end: end(w),
        })
        .collect();
    let mut wanted = world.waits.clone();
    for (thread, doing) in world.doing.iter().enumerate() {
        if let Doing::Wants(Some(since)) | Doing::Sleeps(Some(since)) | Doing::Got(Some(since), _) =
            *doing
        {
            wanted.push(TrueWait {
                since,
                until: world.time,
                thread,
                end: 2,
            });
        }
    }
    got.sort();
    wanted.sort();
    assert_eq!(got, wanted, "{context}");
}

fn check_blocks(world: &World, finished: &Finished, context: &Context<'_>) {
    let of = |b: &Block| (b.begin_ns, b.end_ns);
    let got: Vec<(u64, u64)> = finished.blocks.iter().map(of).collect();
    let mut wanted = world.blocks.clone();
    if let Some(begin) = world.open {
        wanted.push((begin, world.time));
    }
    assert_eq!(got, wanted, "{context}");
}

/// Who held the lock, in order, and what is charged to each by the definition.
fn check_holds(world: &World, finished: &Finished, context: &Context<'_>) {
    type Row = (u32, Option<u64>, Option<u64>, HoldEnd);
    let row = |h: &Hold| (h.thread, h.since_ns, h.until_ns, h.end);
    let mut got: Vec<Hold> = finished.holds.clone();
    // In the order of their ends; those that are not known keep their place.
    let mut ends = 0;
    got.sort_by_cached_key(|h| {
        ends = h.until_ns.unwrap_or(ends);
        ends
    });
    let seen = world.holds.iter().filter(|h| h.seen.is_some());
    let wanted: Vec<Row> = seen
        .clone()
        .map(|h| {
            let is_open = h.until.is_none();
            (
                number(h.thread),
                h.since,
                h.until.or(Some(world.time)).filter(|u| *u != UNKNOWN),
                if is_open { HoldEnd::Open } else { h.end },
            )
        })
        .collect();
    let rows: Vec<Row> = got.iter().map(row).collect();
    assert_eq!(rows, wanted, "{context}");

    let mut handed = 0;
    for (hold, truth) in got.iter().zip(seen) {
        let Some(until) = hold.until_ns else {
            continue; // charged with what was given up meanwhile
        };
        let charge = |w: &Wait| {
            let end = until.min(w.until_ns);
            let is_own = number(truth.thread) == w.thread && truth.since == Some(w.until_ns);
            let was_seen = truth.seen.is_some_and(|seen| seen <= w.until_ns);
            if is_own || !was_seen {
                return 0;
            }
            end.saturating_sub(w.since_ns.max(handed))
        };
        let of_block = finished.waits.iter().filter(|w| w.block == hold.block);
        let charged: u64 = of_block.map(charge).sum();
        assert_eq!(hold.blamed_ns, charged, "{context}: {hold:?}");
        handed = until.max(handed);
    }
}

fn histories(most: u64) -> u64 {
    std::env::var("DWELL_BLOCK_HISTORIES").map_or(most, |n| n.parse().expect("a number"))
}

/// Histories of each test.
const EVERY_DAY: u64 = 1_000_000;

#[test]
fn every_block_is_what_it_was() {
    let (mut blocks, mut late) = (0, 0);
    for seed in 0..histories(EVERY_DAY) {
        let mut world = World::new(seed, ALL_KNOWN);
        world.run();
        let finished = built(&world.events, world.time);
        let context = Context(seed, &world.events);
        check_sums(&finished, &context);
        check_waits(&world, &finished, &context);
        check_blocks(&world, &finished, &context);
        check_holds(&world, &finished, &context);
        blocks += finished.blocks.len();
        late += usize::from(world.waits.is_empty());
    }
    println!("{blocks} blocks; {late} histories without a wait");
    assert!(blocks > late);
}

/// Locks that do not name their owner, threads that are stopped anywhere, releases by threads that hold
/// nothing: whatever it comes to, waits are right and sums are kept.
#[test]
fn waits_are_right_whatever_else_is_not_known() {
    for seed in 0..histories(EVERY_DAY) {
        let rules = Rules {
            names_owners: seed % 2 == 0,
            is_prompt: seed % 4 < 2,
            has_errors: seed % 8 < 4,
        };
        let mut world = World::new(seed, rules);
        world.run();
        let finished = built(&world.events, world.time);
        let context = Context(seed, &world.events);
        check_sums(&finished, &context);
        check_waits(&world, &finished, &context);
    }
}

/// Events that were lost anywhere: sums are kept, nothing is thought to go on for ever, and what comes after the
/// loss and its blocks is right again.
#[test]
fn losses_spoil_no_more_than_their_time() {
    for seed in 0..histories(EVERY_DAY) {
        let mut world = World::new(seed, ALL_KNOWN);
        world.run();
        if world.events.len() < 4 {
            continue;
        }
        let from = (seed as usize * 7) % (world.events.len() - 2);
        let lost = 1 + seed as usize % 3;
        let mut blocks = Blocks::new();
        for (place, event) in world.events.iter().enumerate() {
            if place == from {
                blocks.lost();
            }
            if place < from || place >= from + lost {
                blocks.add(event);
            }
        }
        let (finished, _) = blocks.finish(world.time);
        let context = Context(seed, &world.events);
        check_sums(&finished, &context);
        // Waits whose begin or end is among those that came are there, and no other.
        let is_true = |w: &&Wait| {
            world
                .waits
                .iter()
                .any(|t| t.since == w.since_ns && t.until == w.until_ns)
        };
        let ended = finished
            .waits
            .iter()
            .filter(|w| matches!(w.end, WaitEnd::Acquired | WaitEnd::GaveUp));
        assert!(ended.clone().all(|w| is_true(&w)), "{context}");
        let told = world.events.iter().enumerate().filter(|(place, event)| {
            let is_end = matches!(event.what, What::Acquired | What::Inherited | What::GaveUp);
            is_end && (*place < from || *place >= from + lost)
        });
        assert_eq!(ended.count(), told.count(), "{context}");
    }
}

/// An event of a thread, at a time; an attempt and its end name when the wait began.
fn at(time_ns: u64, what: What, kind: Kind, thread: u32, since_or_owner: u64) -> Event {
    let is_attempt = what == What::Attempt;
    Event {
        time_ns,
        since_ns: if is_attempt { 0 } else { since_or_owner },
        lock: LOCK,
        kind,
        what,
        thread,
        owner: if is_attempt { since_or_owner as u32 } else { 0 },
        caller: 0,
    }
}

/// A writer, two readers beside each other, and a writer who waits for both.
#[test]
fn readers_are_charged_one_after_the_other() {
    use Kind::{Read, Write};
    let events = [
        at(100, What::Attempt, Read, 2, 1),
        at(200, What::Attempt, Read, 3, 1),
        at(300, What::Released, Write, 1, 0),
        at(310, What::Acquired, Read, 2, 100),
        at(320, What::Acquired, Read, 3, 200),
        at(400, What::Attempt, Write, 4, 0),
        at(600, What::Released, Read, 2, 0),
        at(900, What::Released, Read, 3, 0),
        at(910, What::Acquired, Write, 4, 400),
        at(1000, What::Released, Write, 4, 0),
    ];
    let finished = built(&events, 2000);
    let hold = |h: &Hold| (h.thread, h.kind, h.since_ns, h.until_ns, h.blamed_ns);
    let holds: Vec<_> = finished.holds.iter().map(hold).collect();
    let expected = [
        (1, Write, None, Some(300), 300),
        (2, Read, Some(310), Some(600), 200),
        (3, Read, Some(320), Some(900), 300),
        (4, Write, Some(910), Some(1000), 0),
    ];
    assert_eq!(holds, expected);
    assert!(finished.holds.iter().all(|h| h.end == HoldEnd::Released));
    let wait = |w: &Wait| (w.thread, w.until_ns - w.since_ns, w.unclaimed_ns, w.owner);
    let waits: Vec<_> = finished.waits.iter().map(wait).collect();
    assert_eq!(waits, [(2, 210, 10, 1), (3, 120, 20, 1), (4, 510, 10, 0)]);
    let [block] = &finished.blocks[..] else {
        panic!("{:?}", finished.blocks);
    };
    assert!(block.is_whole && block.begin_ns == 100 && block.end_ns == 1000);
}

/// A reader whose processor is slow to come is not charged to the reader beside it.
#[test]
fn readers_keep_no_reader_waiting() {
    use Kind::{Read, Write};
    let events = [
        at(100, What::Attempt, Read, 2, 1),
        at(100, What::Attempt, Read, 3, 1),
        at(300, What::Released, Write, 1, 0),
        at(310, What::Acquired, Read, 2, 100),
        at(600, What::Released, Read, 2, 0),
        at(700, What::Acquired, Read, 3, 100),
        at(800, What::Released, Read, 3, 0),
    ];
    let finished = built(&events, 2000);
    let blamed: Vec<_> = finished.holds.iter().map(|h| h.blamed_ns).collect();
    assert_eq!(blamed, [400, 0, 0]);
    let unclaimed: Vec<_> = finished.waits.iter().map(|w| w.unclaimed_ns).collect();
    assert_eq!(unclaimed, [10, 400]);
}

/// Memory that becomes a lock of another sort: what was open with the old one ends with its last sign of life.
#[test]
fn a_lock_of_another_sort_begins_anew() {
    let gave_up = Event {
        owner: 9,
        ..at(200, What::GaveUp, MUTEX, 2, 100)
    };
    let events = [
        at(100, What::Attempt, MUTEX, 2, 9),
        gave_up,
        at(1000, What::Attempt, Kind::Read, 3, 7),
        at(1100, What::Released, Kind::Write, 7, 0),
        at(1110, What::Acquired, Kind::Read, 3, 1000),
        at(1200, What::Released, Kind::Read, 3, 0),
    ];
    let finished = built(&events, 2000);
    let hold = |h: &Hold| (h.thread, h.until_ns, h.end, h.blamed_ns);
    let holds: Vec<_> = finished.holds.iter().map(hold).collect();
    let expected = [
        (9, Some(200), HoldEnd::Unseen, 100),
        (7, Some(1100), HoldEnd::Released, 100),
        (3, Some(1200), HoldEnd::Released, 0),
    ];
    assert_eq!(holds, expected);
    let block = |b: &Block| (b.begin_ns, b.end_ns, b.is_whole);
    let blocks: Vec<_> = finished.blocks.iter().map(block).collect();
    assert_eq!(blocks, [(100, 200, false), (1000, 1200, true)]);
}

/// A thread that lost its processor before it could tell its release: others have had the lock, and nobody waits any more.
#[test]
fn a_release_is_known_however_late_it_is_told() {
    let release = Event {
        caller: 77,
        ..at(5000, What::Released, MUTEX, 2, 0)
    };
    let events = [
        at(100, What::Attempt, MUTEX, 2, 1),
        at(200, What::Released, MUTEX, 1, 0),
        at(210, What::Acquired, MUTEX, 2, 100),
        at(300, What::Attempt, MUTEX, 3, 2),
        at(400, What::Acquired, MUTEX, 3, 300),
        at(500, What::Released, MUTEX, 3, 0),
        // Another block of the same lock.
        at(1000, What::Attempt, MUTEX, 3, 4),
        at(1100, What::Released, MUTEX, 4, 0),
        at(1110, What::Acquired, MUTEX, 3, 1000),
        release,
        at(5100, What::Released, MUTEX, 3, 0),
    ];
    let finished = built(&events, 6000);
    assert!(finished.holds.iter().all(|h| h.end == HoldEnd::Released));
    let late = finished.holds.iter().find(|h| h.thread == 2);
    let hold = |h: &Hold| (h.block, h.since_ns, h.until_ns, h.releaser, h.blamed_ns);
    assert_eq!(late.map(hold), Some((0, Some(210), Some(400), 77, 100)));
    let block = |b: &Block| (b.block, b.begin_ns, b.end_ns, b.holds, b.is_whole);
    let mut blocks: Vec<_> = finished.blocks.iter().map(block).collect();
    blocks.sort();
    assert_eq!(blocks, [(0, 100, 500, 3, true), (1, 1000, 5100, 2, true)]);

    // Who does something else has told all that it ever will.
    let goes_on = Event {
        lock: LOCK + 1,
        ..at(4000, What::Attempt, MUTEX, 2, 9)
    };
    let events = [&events[..9], &[goes_on], &events[9..]].concat();
    let finished = built(&events, 6000);
    let late = finished.holds.iter().find(|h| h.since_ns == Some(210));
    assert_eq!(late.map(|h| h.end), Some(HoldEnd::Unseen));
}

/// A spin lock says nothing of its owner: who lets it go while somebody waits has had it.
#[test]
fn a_spin_lock_was_whoever_s_let_it_go() {
    let events = [
        at(100, What::Attempt, Kind::Spin, 2, 0),
        at(200, What::Attempt, Kind::Spin, 3, 0),
        at(300, What::Released, Kind::Spin, 1, 0),
        at(310, What::Acquired, Kind::Spin, 3, 200),
        at(500, What::Released, Kind::Spin, 3, 0),
        at(520, What::Acquired, Kind::Spin, 2, 100),
        at(600, What::Released, Kind::Spin, 2, 0),
    ];
    let finished = built(&events, 2000);
    let hold = |h: &Hold| (h.thread, h.since_ns, h.until_ns, h.blamed_ns);
    let holds: Vec<_> = finished.holds.iter().map(hold).collect();
    let expected = [
        (1, None, Some(300), 300),
        (3, Some(310), Some(500), 200),
        (2, Some(520), Some(600), 0),
    ];
    assert_eq!(holds, expected);
    let unclaimed: Vec<_> = finished.waits.iter().map(|w| w.unclaimed_ns).collect();
    assert_eq!(unclaimed, [10, 20]);
    assert!(finished.blocks.iter().all(|b| b.is_whole));
}

/// Who comes last to a barrier waits for nobody; one that only one thread comes to is no block.
#[test]
fn the_last_at_a_barrier_does_not_wait() {
    let alone = [
        at(10, What::Attempt, Kind::Barrier, 1, 0),
        at(20, What::Passed, Kind::Barrier, 1, 10),
    ];
    assert_eq!(built(&alone, 2000), Finished::default());
    let events = [
        at(100, What::Attempt, Kind::Barrier, 1, 0),
        at(300, What::Attempt, Kind::Barrier, 2, 0),
        at(310, What::Passed, Kind::Barrier, 2, 300),
        at(350, What::Acquired, Kind::Barrier, 1, 100),
    ];
    let finished = built(&events, 2000);
    let wait = |w: &Wait| (w.thread, w.since_ns, w.until_ns, w.unclaimed_ns, w.end);
    let waits: Vec<_> = finished.waits.iter().map(wait).collect();
    assert_eq!(waits, [(1, 100, 350, 250, WaitEnd::Acquired)]);
    let block = |b: &Block| (b.begin_ns, b.end_ns, b.waits, b.longest_queue, b.is_whole);
    let blocks: Vec<_> = finished.blocks.iter().map(block).collect();
    assert_eq!(blocks, [(100, 350, 1, 1, true)]);
    assert!(finished.holds.is_empty());
}
