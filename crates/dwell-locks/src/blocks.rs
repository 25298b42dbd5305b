//! Contended operations → blocks: the runs of events on a lock between two instants at which it is free, of
//! those in which somebody waited. Pure: events in, stays out.
//!
//! # What is known
//! An operation that found its lock free, and was not waited for when it let it go, is no event. So:
//!
//! - The owner from whom a block's first waiter wanted the lock is known by name, but not since when it held it.
//! - A thread that takes a lock between two others, and lets it go before anyone waits again, is not seen.
//! - Who acquired a lock after a wait, or was waited for, tells when it lets it go.
//!
//! The lock itself says who holds it when a wait begins, so a block begins right whatever was missed before
//! it; nothing is counted up and down. What does not fit ends at the next such instant.
//!
//! A read-write lock names its writer (glibc); of its readers only those are known that waited or were waited for.
//! Each of them has a hold of its own. A spin lock names nobody: who lets it go while somebody waits has had it.
//! Semaphores and barriers belong to nobody, and have waits only.
//!
//! Memory may become another lock. Where that is of another sort, the old one is over; a mutex that
//! follows a mutex says itself who holds it.
//!
//! # Blame
//! When a lock is let go, each waiter's `now - max(arrival, previous hand-off)` is charged to who let it go;
//! when a wait is given up, to who holds the lock. Of several readers each is charged from the one before on that
//! let go. What is left of a wait (the lock was free, or held by nobody
//! that was seen) is unclaimed: blame and what is unclaimed add up to the waiting.
#![forbid(unsafe_code)]
use crate::totals::Kind;
use rustc_hash::FxHashMap;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The thread wants the lock, which is taken, and is going to wait.
    Attempt,
    /// It has the lock, after its wait.
    Acquired,
    /// The same, because the owner of a robust mutex has died.
    Inherited,
    /// It waits no more and has no lock.
    GaveUp,
    /// It has let the lock go.
    Released,
    /// It has let the lock go to wait for a condition.
    ReleasedToWait,
    /// It has the lock again after its wait for a condition.
    AcquiredAgain,
    /// It did not wait after all.
    Passed,
}

/// Nobody: what a lock that is free says of its owner.
pub const FREE: u32 = u32::MAX;

/// A contended operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, ns of CLOCK_BOOTTIME.
    pub time_ns: u64,
    /// Of the end of a wait: when it began; else 0.
    pub since_ns: u64,
    /// Address of the lock.
    pub lock: u64,
    /// Its kind.
    pub kind: Kind,
    /// What happened.
    pub what: What,
    /// Whose: the number that libc gives to the thread, which is that in its own PID namespace.
    pub thread: u32,
    /// Who held the lock: of an attempt, and of a wait that was given up; 0 when the lock does not tell, and
    /// [`FREE`].
    pub owner: u32,
    /// Where the function that did it returns to.
    pub caller: u64,
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldEnd {
    /// The owner let the lock go.
    Released,
    /// The owner let it go to wait for a condition.
    ReleasedToWait,
    /// The owner let it go when nobody waited, or that was lost: somebody else had the lock later.
    Unseen,
    /// The owner died.
    Died,
    /// It had not ended.
    Open,
}

/// A stay of a lock with a thread, in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    /// The number of the block.
    pub block: u32,
    /// Its lock.
    pub lock: u64,
    /// What kind of lock.
    pub kind: Kind,
    /// The number of the owner, 0 when nothing tells.
    pub thread: u32,
    /// Since when; none where it had acquired it without waiting.
    pub since_ns: Option<u64>,
    /// Up to when; none where nobody saw it.
    pub until_ns: Option<u64>,
    /// How it ended.
    pub end: HoldEnd,
    /// Where the call returned to that acquired it, 0 when not seen.
    pub caller: u64,
    /// Where the call returned to that let it go, 0 when not seen.
    pub releaser: u64,
    /// Waiting that is charged to it, of all waiters, ns.
    pub blamed_ns: u64,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnd {
    /// The thread acquired the lock.
    Acquired,
    /// It gave up.
    GaveUp,
    /// It had not ended.
    Open,
    /// Its end was lost, or the thread died.
    Unseen,
}

/// A wait for a lock, in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The number of the block.
    pub block: u32,
    /// Its lock.
    pub lock: u64,
    /// What kind of lock.
    pub kind: Kind,
    /// The number of the waiter.
    pub thread: u32,
    /// Since when.
    pub since_ns: u64,
    /// Up to when.
    pub until_ns: u64,
    /// How it ended.
    pub end: WaitEnd,
    /// Who held the lock when it began, 0 when the lock did not tell.
    pub owner: u32,
    /// Where the call returns to that waited.
    pub caller: u64,
    /// What of it is charged to nobody, ns.
    pub unclaimed_ns: u64,
    /// How many waited from then on, this one included.
    pub queue: u32,
}

/// A block that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its number; one more for each block that begins.
    pub block: u32,
    /// Its lock.
    pub lock: u64,
    /// What kind of lock.
    pub kind: Kind,
    /// When the first waiter came.
    pub begin_ns: u64,
    /// When the lock was free and nobody waited.
    pub end_ns: u64,
    /// Holds in it.
    pub holds: u32,
    /// Waits in it.
    pub waits: u32,
    /// How many waited at a time.
    pub longest_queue: u32,
    /// Whether it is known from its begin to its end.
    pub is_whole: bool,
}

/// What has come to an end, each in the order of its end but for what was told late; a block after all that is in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finished {
    /// Holds.
    pub holds: Vec<Hold>,
    /// Waits.
    pub waits: Vec<Wait>,
    /// Blocks.
    pub blocks: Vec<Block>,
}

/// What events said that fits nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities {
    /// Releases of locks that nobody waited for, as far as is known.
    pub orphans: u64,
    /// Waits whose end was lost.
    pub unfinished: u64,
}

/// Builds blocks from events in the order of their times.
#[derive(Debug, Default)]
pub struct Blocks {
    open: FxHashMap<u64, Building>,
    next: u32,
    /// How often events were lost.
    losses: u32,
    finished: Finished,
    oddities: Oddities,
    /// Holds whose release is to come: it is told so late that others took the lock and let it go before. One a thread.
    late: Vec<Hold>,
    /// Blocks that are over and of which there are such holds.
    over: Vec<Block>,
}

/// Holds that are kept a while after their end: a release may be told late.
const RECENT: usize = 4;

/// How long a release is waited for that is told late: its thread had no processor meanwhile.
const LATE_NS: u64 = 1_000_000_000;

/// What the same instant may differ by when it is told twice: clocks are compared ever more exactly.
const SLACK_NS: u64 = 20_000;

#[derive(Debug)]
struct Building {
    block: Block,
    current: Option<Current>,
    /// Readers beside each other, of those that are known to have begun.
    readers: Vec<Hold>,
    /// Ended holds, the latest last.
    recent: Vec<Hold>,
    waits: Vec<Waiting>,
    /// When the lock last went from somebody who is charged.
    handed_ns: u64,
    /// When the latest event was.
    latest_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    hold: Hold,
    /// Whether its end will be told, if nothing is lost.
    is_told: bool,
    /// Who was said to have the lock meanwhile, 0 for nobody: the end is told late.
    next: u32,
}

#[derive(Debug)]
struct Waiting {
    wait: Wait,
    claimed_ns: u64,
    /// [`Blocks::losses`] when it began.
    losses: u32,
}

impl Blocks {
    /// No events yet.
    pub fn new() -> Blocks {
        Blocks::default()
    }

    /// Takes an event in, none of which may be older than the one before by more than what two threads
    /// differ in telling of the same instant.
    pub fn add(&mut self, event: &Event) {
        let is_release = matches!(event.what, What::Released | What::ReleasedToWait);
        // What it has not told by now it never will.
        self.give_up_late(|hold| {
            let since_ns = hold.until_ns.or(hold.since_ns).unwrap_or(0);
            let waited_ns = event.time_ns.saturating_sub(since_ns);
            waited_ns > LATE_NS || (!is_release && hold.thread == event.thread)
        });
        self.abandon(event);
        self.replace(event);
        match event.what {
            What::Attempt => self.attempt(event),
            What::Acquired | What::Inherited => {
                self.end_wait(event, WaitEnd::Acquired);
                self.acquired(event);
            }
            What::GaveUp => self.end_wait(event, WaitEnd::GaveUp),
            What::AcquiredAgain => self.acquired(event),
            What::Passed => self.passed(event),
            What::Released => self.released(event, HoldEnd::Released),
            What::ReleasedToWait => self.released(event, HoldEnd::ReleasedToWait),
        }
        self.close_if_free(event.lock);
        if let Some(building) = self.open.get_mut(&event.lock) {
            building.settle(&mut self.late, &mut self.finished);
        }
    }

    /// Events were lost: what is thought of owners is not sure any more, and waits may have ended.
    pub fn lost(&mut self) {
        self.losses += 1;
        self.give_up_late(|_| true);
        for building in self.open.values_mut() {
            building.block.is_whole = false;
            if let Some(current) = building.current.take() {
                building.end_hold(current.hold, None, HoldEnd::Unseen, 0);
            }
            for reader in std::mem::take(&mut building.readers) {
                building.end_hold(reader, None, HoldEnd::Unseen, 0);
            }
        }
        let locks: Vec<u64> = self.open.keys().copied().collect();
        locks.into_iter().for_each(|lock| self.close_if_free(lock));
    }

    /// A thread has died: what it held it holds for ever, and it waits no more.
    pub fn died(&mut self, thread: u32, time_ns: u64) {
        self.give_up_late(|hold| hold.thread == thread);
        let locks: Vec<u64> = self.open.keys().copied().collect();
        for lock in locks {
            let Some(building) = self.open.get_mut(&lock) else {
                continue;
            };
            let is_owner = |c: &mut Current| c.hold.thread == thread;
            if let Some(current) = building.current.take_if(is_owner) {
                building.hand_off(current.hold, time_ns, HoldEnd::Died, 0);
            }
            if let Some(reader) = building.take_reader(thread) {
                building.hand_off(reader, time_ns, HoldEnd::Died, 0);
            }
            if let Some(waiting) = building.take_wait(thread) {
                let until = time_ns.max(waiting.wait.since_ns);
                building.latest_ns = building.latest_ns.max(until);
                self.finished
                    .waits
                    .push(waiting.end(until, WaitEnd::Unseen));
            }
            self.close_if_free(lock);
        }
    }

    /// Threads that are thought to hold a lock that others wait for, or to wait.
    pub fn threads(&self) -> impl Iterator<Item = u32> {
        self.open.values().flat_map(|building| {
            let waiters = building.waits.iter().map(|w| w.wait.thread);
            let owner = building.current.map(|c| c.hold.thread);
            let readers = building.readers.iter().map(|r| r.thread);
            waiters.chain(readers).chain(owner.filter(|t| *t != 0))
        })
    }

    /// What has ended since the last time.
    pub fn take(&mut self) -> Finished {
        std::mem::take(&mut self.finished)
    }

    /// What fitted nowhere so far.
    pub fn oddities(&self) -> Oddities {
        self.oddities
    }

    /// Nothing more comes: what is open has lasted up to this instant.
    pub fn finish(mut self, time_ns: u64) -> (Finished, Oddities) {
        self.give_up_late(|_| true);
        let mut open: Vec<Building> = self.open.drain().map(|(_, building)| building).collect();
        open.sort_by_key(|b| b.block.block);
        for building in open {
            let until = time_ns.max(building.latest_ns);
            building.abort(until, (HoldEnd::Open, WaitEnd::Open), &mut self.finished);
        }
        (self.finished, self.oddities)
    }

    /// A lock of another sort is where one was: that is gone, and whatever was open with it has ended before.
    fn replace(&mut self, event: &Event) {
        let is_other = |b: &Building| Sort::of(b.block.kind) != Sort::of(event.kind);
        if self.open.get(&event.lock).is_some_and(is_other)
            && let Some(building) = self.open.remove(&event.lock)
        {
            self.give_up_late(|hold| hold.lock == event.lock);
            let until = building.latest_ns;
            building.abort(
                until,
                (HoldEnd::Unseen, WaitEnd::Unseen),
                &mut self.finished,
            );
        }
    }

    /// A thread that does something else waits no more: where events were lost, so was the end of its wait.
    fn abandon(&mut self, event: &Event) {
        if self.losses == 0 {
            return;
        }
        let ends_wait = matches!(event.what, What::Acquired | What::Inherited | What::GaveUp);
        let losses = self.losses;
        let mut emptied = Vec::new();
        for (lock, building) in &mut self.open {
            let ends_one = ends_wait && *lock == event.lock;
            let is_stale = |w: &Waiting| {
                let is_meant = ends_one && w.wait.since_ns + SLACK_NS >= event.since_ns;
                w.wait.thread == event.thread && w.losses < losses && !is_meant
            };
            if let Some(place) = building.waits.iter().position(is_stale) {
                let waiting = building.waits.remove(place);
                // As long as is accounted for.
                let until = waiting.wait.since_ns + waiting.claimed_ns;
                self.finished
                    .waits
                    .push(waiting.end(until, WaitEnd::Unseen));
                self.oddities.unfinished += 1;
                emptied.push(*lock);
            }
        }
        emptied
            .into_iter()
            .for_each(|lock| self.close_if_free(lock));
    }

    /// The block of an event, begun where there is none.
    fn building(&mut self, event: &Event, begin_ns: u64) -> &mut Building {
        let next = &mut self.next;
        self.open.entry(event.lock).or_insert_with(|| {
            *next += 1;
            Building {
                block: Block {
                    block: *next - 1,
                    lock: event.lock,
                    kind: event.kind,
                    begin_ns,
                    end_ns: begin_ns,
                    holds: 0,
                    waits: 0,
                    longest_queue: 0,
                    is_whole: true,
                },
                current: None,
                readers: Vec::new(),
                recent: Vec::new(),
                waits: Vec::new(),
                handed_ns: begin_ns,
                latest_ns: begin_ns,
            }
        })
    }

    fn attempt(&mut self, event: &Event) {
        let losses = self.losses;
        let building = self.building(event, event.time_ns);
        building.latest_ns = building.latest_ns.max(event.time_ns);
        building.name_owner(event);
        building.arrive(event, event.time_ns, losses);
    }

    /// Ends the wait of an event, also one whose begin was lost.
    fn end_wait(&mut self, event: &Event, end: WaitEnd) {
        let losses = self.losses;
        let building = self.building(event, event.since_ns.min(event.time_ns));
        if !building.waits.iter().any(|w| w.wait.thread == event.thread) {
            building.block.is_whole = false;
            building.arrive(event, event.since_ns.min(event.time_ns), losses);
        }
        let Some(mut waiting) = building.take_wait(event.thread) else {
            return;
        };
        building.latest_ns = building.latest_ns.max(event.time_ns);
        // Who holds it still, or until this thread got it, is charged with the rest.
        let rest = waiting.rest(building.handed_ns, event.time_ns);
        if let Some(current) = &mut building.current {
            let is_other = current.hold.thread != 0 && current.hold.thread != event.thread;
            if is_other {
                current.hold.blamed_ns += rest;
                waiting.claimed_ns += rest;
            }
        }
        let until = event.time_ns.max(waiting.wait.since_ns);
        if end == WaitEnd::GaveUp {
            building.left_to(event.owner, event.time_ns);
        }
        self.finished.waits.push(waiting.end(until, end));
    }

    /// What looked like a wait was none.
    fn passed(&mut self, event: &Event) {
        let Some(building) = self.open.get_mut(&event.lock) else {
            return; // its attempt was lost
        };
        if let Some(waiting) = building.take_wait(event.thread) {
            let block = &mut building.block;
            block.waits -= 1;
            let was_longest = block.longest_queue == waiting.wait.queue;
            block.longest_queue -= u32::from(was_longest);
            building.latest_ns = building.latest_ns.max(event.time_ns);
        }
    }

    fn acquired(&mut self, event: &Event) {
        let Some(building) = self.open.get_mut(&event.lock) else {
            return; // nobody waits any more
        };
        if !has_owner(event.kind) {
            return;
        }
        building.latest_ns = building.latest_ns.max(event.time_ns);
        let mut hold = building.hold_of(event.thread, event.kind);
        if let Some(current) = building.current.take() {
            if current.hold.thread == event.thread {
                // Somebody saw it before it said so itself.
                hold = current.hold;
            } else {
                building.hand_off(current.hold, event.time_ns, HoldEnd::Unseen, 0);
            }
        }
        if event.what == What::Inherited
            && let Some(last) = building.recent.last_mut()
        {
            last.end = HoldEnd::Died;
        }
        hold.since_ns = Some(event.time_ns);
        hold.caller = event.caller;
        if event.kind == Kind::Read {
            building.readers.push(hold);
            return;
        }
        building.current = Some(Current {
            hold,
            is_told: true,
            next: 0,
        });
    }

    fn released(&mut self, event: &Event, end: HoldEnd) {
        let is_it = |h: &Hold| (h.lock, h.thread) == (event.lock, event.thread);
        if let Some(place) = self.late.iter().position(is_it) {
            let hold = self.late.swap_remove(place);
            self.finished.holds.push(Hold {
                until_ns: hold.until_ns.or(Some(event.time_ns)),
                end,
                releaser: event.caller,
                ..hold
            });
            self.hand_over_blocks();
            return;
        }
        let Some(building) = self.open.get_mut(&event.lock) else {
            self.oddities.orphans += 1;
            return;
        };
        building.latest_ns = building.latest_ns.max(event.time_ns);
        if event.kind == Kind::Read {
            let reader = building.take_reader(event.thread);
            let reader = reader.unwrap_or_else(|| building.hold_of(event.thread, event.kind));
            building.hand_off(reader, event.time_ns, end, event.caller);
            return;
        }
        let is_owner = |c: &mut Current| c.hold.thread == event.thread || c.hold.thread == 0;
        if let Some(current) = building.current.take_if(is_owner) {
            let hold = Hold {
                thread: event.thread,
                ..current.hold
            };
            building.hand_off(hold, event.time_ns, end, event.caller);
            building.current = building.named(current.next);
            return;
        }
        // It told so only after somebody else had the lock.
        let is_late = |h: &Hold| h.thread == event.thread && h.end == HoldEnd::Unseen;
        if let Some(place) = building.recent.iter().rposition(is_late) {
            let mut late = building.recent[place];
            if late.until_ns.is_none() {
                building.charge(&mut late, event.time_ns);
                late.until_ns = Some(event.time_ns);
            }
            late.end = end;
            late.releaser = event.caller;
            building.recent[place] = late;
            return;
        }
        // Nobody saw it begin: it lies before an owner that will tell its own end, and after any other.
        let hold = building.hold_of(event.thread, event.kind);
        let mut until = event.time_ns;
        match building.current {
            // Unless its end was lost: the lock was said to be with another.
            Some(current) if current.is_told && current.next != event.thread => {
                until = until.min(current.hold.since_ns.unwrap_or(until));
            }
            Some(current) => {
                building.end_hold(current.hold, None, HoldEnd::Unseen, 0);
                building.current = None;
            }
            None => {}
        }
        building.hand_off(hold, until, end, event.caller);
    }

    fn close_if_free(&mut self, lock: u64) {
        let is_free =
            |b: &Building| b.waits.is_empty() && b.current.is_none() && b.readers.is_empty();
        if self.open.get(&lock).is_some_and(is_free)
            && let Some(mut building) = self.open.remove(&lock)
        {
            self.late.extend(building.recent.extract_if(.., is_late));
            self.over.extend(building.close(&mut self.finished));
            self.hand_over_blocks();
        }
    }

    /// The releases of such holds were not seen.
    fn give_up_late(&mut self, is_such: impl Fn(&Hold) -> bool) {
        let such = self.late.extract_if(.., |hold| is_such(hold));
        self.finished.holds.extend(such);
        self.hand_over_blocks();
    }

    /// Those that are over, after all their holds.
    fn hand_over_blocks(&mut self) {
        let late = &self.late;
        let is_known = |b: &mut Block| late.iter().all(|h| h.block != b.block);
        let known = self.over.extract_if(.., is_known);
        self.finished.blocks.extend(known);
    }
}

/// Whether the thread of a hold that is over has yet to tell its release, as it has told that it acquired the lock.
fn is_late(hold: &mut Hold) -> bool {
    hold.end == HoldEnd::Unseen && hold.since_ns.is_some()
}

/// Whether those who have a lock of this kind tell when they let go.
fn has_owner(kind: Kind) -> bool {
    matches!(
        Sort::of(kind),
        Sort::Mutex | Sort::ReadWrite | Sort::Other(Kind::Spin)
    )
}

/// What cannot become one another while it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Mutex,
    ReadWrite,
    Other(Kind),
}

impl Sort {
    fn of(kind: Kind) -> Sort {
        match kind {
            Kind::Mutex { .. } => Sort::Mutex,
            Kind::Read | Kind::Write => Sort::ReadWrite,
            other => Sort::Other(other),
        }
    }

    /// The kind of the hold of an owner that such a lock names.
    fn named(self, kind: Kind) -> Kind {
        match self {
            Sort::ReadWrite => Kind::Write,
            _ => kind,
        }
    }
}

impl Building {
    fn hold_of(&self, thread: u32, kind: Kind) -> Hold {
        Hold {
            block: self.block.block,
            lock: self.block.lock,
            kind,
            thread,
            since_ns: None,
            until_ns: None,
            end: HoldEnd::Open,
            caller: 0,
            releaser: 0,
            blamed_ns: 0,
        }
    }

    /// A thread that holds the lock, by what others say; none for 0.
    fn named(&self, thread: u32) -> Option<Current> {
        (thread != 0).then(|| Current {
            hold: self.hold_of(thread, Sort::of(self.block.kind).named(self.block.kind)),
            is_told: false,
            next: 0,
        })
    }

    fn take_reader(&mut self, thread: u32) -> Option<Hold> {
        let place = self.readers.iter().position(|r| r.thread == thread)?;
        Some(self.readers.remove(place))
    }

    /// The lock says who holds it.
    fn name_owner(&mut self, event: &Event) {
        if !has_owner(event.kind) {
            return;
        }
        if Sort::of(event.kind) != Sort::Mutex && event.owner == 0 {
            return; // readers have it, or one that the lock does not name: who lets go will tell
        }
        let unknown = Current {
            hold: self.hold_of(0, event.kind),
            is_told: false,
            next: 0,
        };
        let named = self.named(event.owner).unwrap_or(unknown);
        match self.current {
            None => self.current = Some(named),
            Some(current) if event.owner == 0 || current.hold.thread == event.owner => {}
            Some(current) if current.hold.thread == 0 => {
                self.current = Some(Current {
                    hold: Hold {
                        thread: event.owner,
                        ..current.hold
                    },
                    ..current
                });
            }
            // Its end is still to be told.
            Some(ref mut current) if current.is_told => current.next = event.owner,
            Some(current) => {
                self.hand_off(current.hold, event.time_ns, HoldEnd::Unseen, 0);
                self.current = Some(named);
            }
        }
    }

    /// Somebody who gave up saw whose the lock is: nobody else's, whether that is told or not.
    fn left_to(&mut self, owner: u32, time_ns: u64) {
        let is_over = |c: &mut Current| !c.is_told && owner != 0 && c.hold.thread != owner;
        if let Some(current) = self.current.take_if(is_over) {
            self.hand_off(current.hold, time_ns, HoldEnd::Unseen, 0);
        }
    }

    fn arrive(&mut self, event: &Event, since_ns: u64, losses: u32) {
        self.block.waits += 1;
        let queue = self.waits.len() as u32 + 1;
        self.block.longest_queue = self.block.longest_queue.max(queue);
        let wait = Wait {
            block: self.block.block,
            lock: self.block.lock,
            kind: event.kind,
            thread: event.thread,
            since_ns,
            until_ns: since_ns,
            end: WaitEnd::Open,
            owner: event.owner,
            caller: event.caller,
            unclaimed_ns: 0,
            queue,
        };
        self.waits.push(Waiting {
            wait,
            claimed_ns: 0,
            losses,
        });
    }

    fn take_wait(&mut self, thread: u32) -> Option<Waiting> {
        let place = self.waits.iter().position(|w| w.wait.thread == thread)?;
        Some(self.waits.remove(place))
    }

    /// A hold ends that those who wait are charged to.
    fn hand_off(&mut self, mut hold: Hold, time_ns: u64, end: HoldEnd, releaser: u64) {
        self.charge(&mut hold, time_ns);
        self.latest_ns = self.latest_ns.max(time_ns);
        self.end_hold(hold, Some(time_ns), end, releaser);
    }

    fn charge(&mut self, hold: &mut Hold, time_ns: u64) {
        if hold.thread != 0 {
            // Readers keep nobody waiting who wants to read.
            let reads = |kind: Kind| kind == Kind::Read;
            let is_reader = reads(hold.kind);
            let kept = |w: &&mut Waiting| !(is_reader && reads(w.wait.kind));
            for waiting in self.waits.iter_mut().filter(kept) {
                let rest = waiting.rest(self.handed_ns, time_ns);
                waiting.claimed_ns += rest;
                hold.blamed_ns += rest;
            }
        }
        self.handed_ns = self.handed_ns.max(time_ns);
    }

    fn end_hold(&mut self, hold: Hold, until_ns: Option<u64>, end: HoldEnd, releaser: u64) {
        self.block.holds += 1;
        let since = hold.since_ns.unwrap_or(0);
        self.recent.push(Hold {
            until_ns: until_ns.map(|until| until.max(since)),
            end,
            releaser,
            ..hold
        });
    }

    /// Ends whatever is open.
    fn abort(mut self, until: u64, (hold, wait): (HoldEnd, WaitEnd), finished: &mut Finished) {
        for reader in std::mem::take(&mut self.readers) {
            self.hand_off(reader, until, hold, 0);
        }
        while let Some(current) = self.current.take() {
            self.hand_off(current.hold, until, hold, 0);
            self.current = self.named(current.next);
        }
        for waiting in std::mem::take(&mut self.waits) {
            finished.waits.push(waiting.end(until, wait));
        }
        self.block.is_whole = false;
        self.latest_ns = until;
        let block = self.close(finished);
        finished.blocks.extend(block);
    }

    /// None if nothing was in it.
    fn close(mut self, finished: &mut Finished) -> Option<Block> {
        finished.holds.append(&mut self.recent);
        (self.block.waits > 0 || self.block.holds > 0).then_some(Block {
            end_ns: self.latest_ns,
            ..self.block
        })
    }

    /// Hands over holds whose end is not changed any more but by a late release.
    fn settle(&mut self, late: &mut Vec<Hold>, finished: &mut Finished) {
        if self.recent.len() > 2 * RECENT {
            let settled = self.recent.len() - RECENT;
            late.extend(self.recent.extract_if(..settled, is_late));
            let settled = self.recent.len() - RECENT;
            finished.holds.extend(self.recent.drain(..settled));
        }
    }
}

impl Waiting {
    /// What of it lies after the last hand-off and before an instant, ns.
    fn rest(&self, handed_ns: u64, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.wait.since_ns.max(handed_ns))
    }

    fn end(self, until_ns: u64, end: WaitEnd) -> Wait {
        let lasted = until_ns.saturating_sub(self.wait.since_ns);
        Wait {
            until_ns,
            end,
            unclaimed_ns: lasted.saturating_sub(self.claimed_ns),
            ..self.wait
        }
    }
}
