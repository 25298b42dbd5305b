//! Threads, their wait sites, and the waits whose stack is still on its way.
use crate::futexes::{self, Futexes};
use crate::parts::{KernelPart, UserPart};
use crate::reasons;
use dwell_abi::events::{SiteRecord, ThreadRecord, WaitRecord};
use dwell_recording::rows::{SiteRow, SiteTimeRow, ThreadRow};
use hashbrown::HashMap;
use std::rc::Rc;

/// What tells one wait site of a thread from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SiteKey {
    ip: u64,
    sp: u64,
    futex: u64,
    nr: i32,
    operation: u16,
    fd_kind: u8,
    flags: u8,
}

impl From<&SiteRecord> for SiteKey {
    fn from(r: &SiteRecord) -> Self {
        SiteKey {
            ip: r.ip,
            sp: r.sp,
            futex: r.futex,
            nr: r.nr,
            operation: r.operation,
            fd_kind: r.fd_kind,
            flags: r.flags,
        }
    }
}
impl From<&WaitRecord> for SiteKey {
    fn from(r: &WaitRecord) -> Self {
        SiteKey {
            ip: r.ip,
            sp: r.sp,
            futex: if r.operation == 0 { 0 } else { r.arg0 },
            nr: r.nr,
            operation: r.operation,
            fd_kind: r.fd_kind,
            flags: r.site_flags,
        }
    }
}
impl From<&ThreadRecord> for SiteKey {
    fn from(r: &ThreadRecord) -> Self {
        SiteKey {
            ip: r.ip,
            sp: r.sp,
            futex: r.futex,
            nr: r.nr,
            operation: r.operation,
            fd_kind: r.fd_kind,
            flags: r.site_flags,
        }
    }
}

/// A wait whose user stack has not come yet.
pub struct OwedWait {
    /// The wait.
    pub record: WaitRecord,
    /// The kernel part of its stack.
    pub kernel: Rc<KernelPart>,
    /// Who ended it.
    pub waker: Waker,
}

/// A stack taken before a wait.
#[derive(Clone)]
pub struct EarlyStack {
    /// Its user part.
    pub user: Rc<UserPart>,
    /// Its kernel part; empty if that was not taken with it.
    pub kernel: Rc<KernelPart>,
}

/// Stacks that are known before a wait ends: that of a fork, those of waits that are often sampled, all where the
/// kernel does not tell of a wait's end; and wakers'.
#[derive(Default)]
pub struct EarlyStacks {
    /// The last one, and the number of the wait that followed.
    last: Option<(u32, EarlyStack)>,
    /// The last one of each site, by user pc and stack pointer.
    by_site: HashMap<(u64, u64), EarlyStack>,
    /// The last one of each place it woke others from, by the kernel side's hash of it, and by the upper half of that
    /// alone, which leaves out what the others waited for.
    by_waking_place: HashMap<u64, u32>,
    /// The last one that ended a wait of the thread, by the site and the waker's thread id.
    by_waker: HashMap<((u64, u64), u32), u32>,
}

impl EarlyStacks {
    /// Takes in the stack of the wait number `wait` at `site`.
    pub fn take(&mut self, wait: u32, site: (u64, u64), stack: EarlyStack) {
        // What a thread is born with is no site.
        if wait > 1 {
            bounded(&mut self.by_site).insert(site, stack.clone());
        }
        self.last = Some((wait, stack));
    }

    /// The stack that was taken before this wait, or else the last one of its site.
    pub fn of_wait(&self, wait: u32, site: (u64, u64)) -> Option<&EarlyStack> {
        let own = self.last.as_ref().filter(|(number, _)| *number == wait);
        own.map(|(_, stack)| stack)
            .or_else(|| self.by_site.get(&site))
    }

    /// Takes in the number of the stack with which the thread woke another from `place`.
    pub fn wakes(&mut self, place: u64, stack: u32) {
        let stacks = bounded(&mut self.by_waking_place);
        stacks.insert(upper_half(place), stack);
        stacks.insert(place, stack);
    }

    /// The last stack with which the thread woke another from `place`, or from there something else.
    pub fn woke(&self, place: u64) -> Option<u32> {
        let stacks = &self.by_waking_place;
        let stack = stacks
            .get(&place)
            .or_else(|| stacks.get(&upper_half(place)));
        stack.copied()
    }

    /// Takes in the number of the stack with which the thread `waker` ended a wait at `site`.
    pub fn woken(&mut self, site: (u64, u64), waker: u32, stack: u32) {
        bounded(&mut self.by_waker).insert((site, waker), stack);
    }

    /// The last stack with which the thread `waker` ended a wait at `site`.
    pub fn woken_by(&self, site: (u64, u64), waker: u32) -> Option<u32> {
        self.by_waker.get(&(site, waker)).copied()
    }
}

fn upper_half(place: u64) -> u64 {
    place & !u64::from(u32::MAX)
}

/// A thread that calls from ever new depths has ever new places: what is kept of it is bounded.
fn bounded<K, V>(map: &mut HashMap<K, V>) -> &mut HashMap<K, V> {
    const MOST: usize = 256;
    if map.len() >= MOST {
        map.clear();
    }
    map
}

const KEPT: &str = "a thread is kept until what it ended with is written";

/// Who ended a wait, as far as it is known.
#[derive(Clone, Default)]
pub struct Waker {
    /// Number of the wait it ended.
    pub wait: u32,
    /// Its stack.
    pub stack: Option<u32>,
    /// `[timer]`, `[irq]` or empty for a thread.
    pub interrupt: &'static str,
}

/// A thread that is or was followed.
pub struct Thread {
    /// What is written of it.
    pub row: ThreadRow,
    /// The last report of it.
    pub last: Option<Box<ThreadRecord>>,
    /// The waits whose stack is owed, oldest first: the thread has not left the system call that they are in.
    pub owed: Vec<OwedWait>,
    /// Stacks taken before their wait.
    pub early: EarlyStacks,
    /// The last stack of each of its sites.
    pub at_site: HashMap<u32, u32>,
    /// The user part of the last complete one that was owed.
    pub user_at_site: HashMap<u32, Rc<UserPart>>,
    /// The last waker whose stack was taken.
    pub waker: Waker,
    /// The wait in progress whose stack was read from outside already.
    pub open_wait_seen: Option<u32>,
    open: Option<OpenWait>,
    dirty: bool,
    sites: HashMap<SiteKey, u32>,
    /// Those it has used: most threads wait at a site or two.
    slots: Vec<Slot>,
}

/// Sums last reported of a slot of the kernel side.
#[derive(Clone, Copy, Default)]
struct Slot {
    slot: u8,
    install: u32,
    blocked: u64,
    runnable: u64,
    count: u64,
}

/// A wait in progress, as far as it was counted.
#[derive(Clone, Copy, Default)]
struct OpenWait {
    wait: u32,
    site: u32,
    blocked: u64,
    runnable: u64,
}

/// All threads and sites.
#[derive(Default)]
pub struct Threads {
    /// By their numbers; none in the place of one that ended and of which nothing more can come.
    threads: Vec<Option<Box<Thread>>>,
    by_tid: HashMap<u32, u32>,
    sites: u32,
    new_sites: Vec<SiteRow>,
    /// The words that they wait on.
    pub futexes: Futexes,
    sums: HashMap<u32, SiteTimeRow>,
}

impl Threads {
    /// Another program begins: the stacks that the thread had do not stand for what comes.
    pub fn forget_stacks(&mut self, thread: u32) {
        let thread = self.get_mut(thread);
        thread.at_site.clear();
        thread.user_at_site.clear();
    }

    /// The live thread with this tid.
    pub fn id_of(&self, tid: u32) -> Option<u32> {
        self.latest_of(tid).filter(|&id| !self.get(id).row.ended)
    }

    /// Whether this thread, which began at `start`, has just ended.
    pub fn has_ended(&self, tid: u32, start: u64) -> bool {
        let row = self.latest_of(tid).map(|id| &self.get(id).row);
        row.is_some_and(|row| row.ended && row.start_ns == start)
    }

    /// The last thread with this tid, which may be over since a moment: a parent learns of its child's end afterwards.
    pub fn latest_of(&self, tid: u32) -> Option<u32> {
        self.by_tid.get(&tid).copied()
    }

    /// A thread by a number that was asked for since the last [`Threads::take_threads`].
    pub fn get(&self, id: u32) -> &Thread {
        self.threads[id as usize].as_ref().expect(KEPT)
    }

    /// The same, to change.
    pub fn get_mut(&mut self, id: u32) -> &mut Thread {
        self.threads[id as usize].as_mut().expect(KEPT)
    }

    /// Every thread that lives, or ended a moment ago, with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Thread)> {
        let known = self.threads.iter().enumerate();
        known.filter_map(|(id, thread)| Some((id as u32, thread.as_deref()?)))
    }

    /// Those that are not known to have ended.
    pub fn alive(&self) -> impl Iterator<Item = (u32, &Thread)> {
        self.iter().filter(|(_, thread)| !thread.row.ended)
    }

    /// Number of threads seen.
    pub fn seen(&self) -> usize {
        self.threads.len()
    }

    /// Begins a thread; one with the same tid that lived before is over.
    pub fn begin(&mut self, row: ThreadRow) -> u32 {
        let id = self.threads.len() as u32;
        self.by_tid.insert(row.tid, id);
        self.threads.push(Some(Box::new(Thread {
            row: ThreadRow { thread: id, ..row },
            last: None,
            owed: Vec::new(),
            early: EarlyStacks::default(),
            at_site: HashMap::new(),
            user_at_site: HashMap::new(),
            waker: Waker::default(),
            open_wait_seen: None,
            open: None,
            dirty: true,
            sites: HashMap::new(),
            slots: Vec::new(),
        })));
        id
    }

    /// A thread changed its tid (an exec by a thread that was not the leader).
    pub fn change_tid(&mut self, old: u32, new: u32) {
        if old == new {
            return;
        }
        if let Some(id) = self.by_tid.remove(&old) {
            let thread = self.get_mut(id);
            thread.row.tid = new;
            thread.dirty = true;
            self.by_tid.insert(new, id);
        }
    }

    /// Renames a thread.
    pub fn rename(&mut self, id: u32, name: String) {
        let thread = self.get_mut(id);
        thread.row.name = name;
        thread.dirty = true;
    }

    /// Takes in a report of a thread's sums.
    pub fn report(&mut self, id: u32, record: Box<ThreadRecord>, name: String) {
        let thread = self.get_mut(id);
        let row = &mut thread.row;
        row.until_ns = record.time;
        row.start_ns = record.start;
        (row.running_ns, row.runnable_ns) = (record.running, record.runnable);
        (row.blocked_ns, row.stolen_ns) = (record.blocked, record.stolen);
        let sum = record.running + record.runnable + record.blocked + record.stolen;
        row.lost_ns = (record.time - record.start.min(record.time)).saturating_sub(sum);
        (row.voluntary_switches, row.involuntary_switches) = (record.voluntary, record.involuntary);
        // (A thread at its end has none any more.)
        if record.ns_tid != 0 {
            row.ns_tid = record.ns_tid;
        }
        row.name = name;
        row.ended = record.ended != 0;
        thread.dirty = true;
        thread.last = Some(record);
    }

    /// The number of a thread's site.
    pub fn site(&mut self, thread: u32, key: SiteKey) -> u32 {
        let next = self.sites;
        let of = self.threads[thread as usize].as_mut().expect(KEPT);
        let site = *of.sites.entry(key).or_insert(next);
        if site == next {
            self.sites += 1;
            let waits = futexes::Operation::of(key.operation);
            let futex = waits.map(|_| self.futexes.id(of.row.process, key.futex));
            self.new_sites.push(SiteRow {
                site,
                thread,
                reason: reasons::reason(key.nr, key.fd_kind, key.flags).into(),
                syscall: reasons::syscall_name(key.nr).into(),
                pc: key.ip,
                futex,
                operation: waits.map_or("", |w| w.name).into(),
                timed: waits.is_some_and(|w| w.timed),
                shared: waits.is_some_and(|w| w.shared),
            });
        }
        site
    }

    /// Takes in a site's sums.
    pub fn site_sums(&mut self, thread: u32, record: &SiteRecord) {
        let site = self.site(thread, record.into());
        let slots = &mut self.get_mut(thread).slots;
        let known = slots.iter().position(|slot| slot.slot == record.slot);
        let at = known.unwrap_or_else(|| {
            slots.push(Slot {
                slot: record.slot,
                ..Slot::default()
            });
            slots.len() - 1
        });
        let slot = &mut slots[at];
        if record.install < slot.install {
            return; // read while the slot changed its owner, and sent after it
        }
        let now = Slot {
            slot: record.slot,
            install: record.install,
            blocked: record.blocked,
            runnable: record.runnable,
            count: record.count,
        };
        let before = std::mem::replace(slot, now);
        let before = if before.install == record.install {
            before
        } else {
            Slot::default()
        };
        let (mut blocked, mut runnable) = (
            now.blocked.saturating_sub(before.blocked),
            now.runnable.saturating_sub(before.runnable),
        );
        let count = now.count.saturating_sub(before.count);
        if count > 0 {
            // The thread was in that wait until it was over: it is among those counted here.
            self.debit_open(thread, site, &mut blocked, &mut runnable);
        }
        self.add(site, record.time, blocked, runnable, count, record.max);
    }

    /// Counts a wait in progress as far as it got; what was counted of it before, and will come again
    /// with the site's sums once it is over, is not counted twice. A recording that ends counts the
    /// wait itself.
    pub fn credit_open(
        &mut self,
        thread: u32,
        site: u32,
        last: &ThreadRecord,
        blocked: u64,
        runnable: u64,
        closing: bool,
    ) {
        let before = self
            .get(thread)
            .open
            .filter(|o| o.wait == last.wait && o.site == site);
        let before = before.unwrap_or_default();
        let now = OpenWait {
            wait: last.wait,
            site,
            blocked,
            runnable,
        };
        self.get_mut(thread).open = Some(now);
        let more = (
            blocked.saturating_sub(before.blocked),
            runnable.saturating_sub(before.runnable),
        );
        self.add(
            site,
            last.time,
            more.0,
            more.1,
            u64::from(closing),
            blocked + runnable,
        );
    }

    /// Takes off sums that are complete what was counted while the wait was in progress.
    fn debit_open(&mut self, thread: u32, site: u32, blocked: &mut u64, runnable: &mut u64) {
        let Some(open) = self.get_mut(thread).open.take_if(|o| o.site == site) else {
            return;
        };
        *blocked = blocked.saturating_sub(open.blocked);
        *runnable = runnable.saturating_sub(open.runnable);
    }

    fn add(&mut self, site: u32, time: u64, blocked: u64, runnable: u64, count: u64, max: u64) {
        let sum = self.sums.entry(site).or_insert_with(|| SiteTimeRow {
            site,
            ..SiteTimeRow::default()
        });
        sum.time_ns = time;
        sum.blocked_ns += blocked;
        sum.runnable_ns += runnable;
        sum.count += count;
        sum.max_ns = sum.max_ns.max(max);
    }

    /// Rows of threads that changed since the last call. What ended before that is forgotten: it has been written, and a
    /// recording may see millions of threads.
    pub fn take_threads(&mut self) -> Vec<ThreadRow> {
        let mut rows = Vec::new();
        for (id, slot) in self.threads.iter_mut().enumerate() {
            let Some(thread) = slot else { continue };
            if std::mem::take(&mut thread.dirty) {
                rows.push(thread.row.clone());
            } else if thread.row.ended {
                let tid = thread.row.tid;
                if self.by_tid.get(&tid) == Some(&(id as u32)) {
                    self.by_tid.remove(&tid);
                }
                *slot = None;
            }
        }
        rows
    }

    /// Rows of sites that are new since the last call.
    pub fn take_sites(&mut self) -> Vec<SiteRow> {
        std::mem::take(&mut self.new_sites)
    }

    /// Sums gathered since the last call.
    pub fn take_sums(&mut self) -> Vec<SiteTimeRow> {
        let sums = std::mem::take(&mut self.sums);
        sums.into_values()
            .filter(|s| s.count > 0 || s.blocked_ns + s.runnable_ns > 0)
            .collect()
    }
}
