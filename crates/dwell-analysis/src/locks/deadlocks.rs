//! Deadlocks: threads that wait for each other's locks when a recording ends.
//!
//! Who holds a lock that a thread waits for at the end is what the lock itself said then (event `lock_owner`), else
//! what its last block tells (table `lock_blocks`), also of a process that was ended. A wait with a timeout is none
//! for ever. Locks that do not say who holds them (normal mutexes of musl, those of Rust, Go and Java) are never part
//! of what is found, nor are readers of a read-write lock that had not waited for it themselves.
use super::contention::threads::Threads;
use super::sites::FutexSite;
use super::{Identity, Use};
use crate::analysis::Analysis;
use crate::names::{PathId, StackRef};
use crate::waits::{Wait, Waits};
use dwell_recording::rows::{
    LockBlockRow, LockRow, block_end, block_part, event, lock_kind, operation,
};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// A thread that waits for a lock when the recording ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Position in `threads`.
    pub thread: usize,
    /// Whose memory the lock is in (`processes.process`).
    pub process: u32,
    /// Where the lock begins.
    pub address: u64,
    /// Who holds it: position in `threads`.
    pub owner: usize,
    /// Since when the thread waits, ns; none where the wait was not kept.
    pub since_ns: Option<u64>,
    /// Where it waits, when a stack was taken.
    pub path: Option<PathId>,
}

/// Threads each of which waits for a lock that the next one holds, the last one for one that the first holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// The circle; one thread alone waits for a lock that it holds itself.
    pub members: Vec<Stuck>,
    /// Threads outside of it that wait for locks of those in it, directly or not: positions in `threads`.
    pub behind: Vec<usize>,
}

/// Every deadlock, by its first thread.
pub fn deadlocks(analysis: &Analysis<'_>) -> Vec<Deadlock> {
    let threads = Threads::of(analysis);
    let mut stuck = by_blocks(analysis, &threads);
    stuck.extend(by_words(analysis, &threads));
    let circles = circles(&stuck);
    let mut of_thread: FxHashMap<usize, usize> = FxHashMap::default();
    for (number, circle) in circles.iter().enumerate() {
        of_thread.extend(circle.iter().map(|thread| (*thread, number)));
    }
    let mut behind = vec![Vec::new(); circles.len()];
    for thread in stuck.keys().filter(|t| !of_thread.contains_key(t)) {
        // As many steps as there are threads lead everywhere.
        let chain = std::iter::successors(Some(*thread), |t| Some(stuck.get(t)?.owner));
        let reached = chain.take(stuck.len() + 1).find_map(|t| of_thread.get(&t));
        if let Some(number) = reached {
            behind[*number].push(*thread);
        }
    }
    let member = |thread: &usize| stuck[thread];
    circles
        .iter()
        .zip(behind)
        .map(|(circle, behind)| Deadlock {
            members: circle.iter().map(member).collect(),
            behind,
        })
        .collect()
}

/// Threads that reach themselves, in the order in which they wait for each other.
fn circles(stuck: &BTreeMap<usize, Stuck>) -> Vec<Vec<usize>> {
    let mut seen: FxHashMap<usize, usize> = FxHashMap::default();
    let mut circles = Vec::new();
    for start in stuck.keys() {
        let mut way = Vec::new();
        let mut at = *start;
        while let (None, Some(next)) = (seen.get(&at), stuck.get(&at)) {
            seen.insert(at, *start);
            way.push(at);
            at = next.owner;
        }
        if let Some(begin) = way.iter().position(|thread| *thread == at) {
            circles.push(way.split_off(begin));
        }
    }
    circles
}

/// By what the words of locks said.
fn by_words(analysis: &Analysis<'_>, threads: &Threads<'_>) -> BTreeMap<usize, Stuck> {
    let events = analysis.tables.events.iter();
    let told: Vec<(usize, u64, u32, u64)> = events
        .filter(|row| row.kind == event::LOCK_OWNER)
        .filter_map(|row| {
            let thread = analysis.index.thread(row.thread?)?;
            let (word, owner, timed) = event::read_lock_owner(&row.detail)?;
            (!timed).then_some((thread, word, owner, row.time_ns))
        })
        .collect();
    if told.is_empty() {
        return BTreeMap::new();
    }
    let mut by_word: FxHashMap<(usize, u64), &FutexSite> = FxHashMap::default();
    for site in analysis.futex_sites.iter().filter(|s| s.used == Use::Lock) {
        if let (Some((futex, _)), false) = (site.word, analysis.tables.sites[site.position].timed) {
            let word = analysis.tables.futexes[futex].address;
            by_word.insert((site.thread, word), site);
        }
    }
    let stuck = told
        .into_iter()
        .filter_map(|(thread, word, owner, time_ns)| {
            let site = by_word.get(&(thread, word))?;
            let Identity::Word { process, address } = site.identity else {
                return None;
            };
            let owner = says_owner(site, owner)
                .then(|| threads.position(process, owner, time_ns))
                .flatten()?;
            let last =
                last_wait(&analysis.waits, thread).filter(|w| w.site as usize == site.position);
            let stuck = Stuck {
                thread,
                process,
                address,
                owner,
                since_ns: last.map(|w| w.start_ns),
                path: last.and_then(|w| path(analysis, w)).or(site.path),
            };
            Some((thread, stuck))
        });
    stuck.collect()
}

/// Whether what was read where mutexes of glibc and musl keep their owner is that.
fn says_owner(site: &FutexSite, owner: u32) -> bool {
    /// What a normal mutex of musl has in its place.
    const EBUSY: u32 = 16;
    match site.class.runtime {
        "glibc" | "C++" => matches!(site.class.name, "mutex" | "PI mutex" | "rwlock"),
        "musl" => site.class.name == "mutex" && owner != EBUSY,
        _ => false,
    }
}

/// The last wait that a thread is known to have been in.
fn last_wait(waits: &Waits, thread: usize) -> Option<&Wait> {
    waits.of_thread(thread).last()
}

fn path(analysis: &Analysis<'_>, wait: &Wait) -> Option<PathId> {
    let stack = analysis.tables.slices[wait.slice as usize].stack?;
    let stack = analysis.index.stack(stack)?;
    Some(analysis.names.path_of(StackRef::Taken(stack as u32)))
}

/// By the blocks that had not ended: also of processes that have.
fn by_blocks(analysis: &Analysis<'_>, threads: &Threads<'_>) -> BTreeMap<usize, Stuck> {
    let tables = analysis.tables;
    let open = |part: &'static str| {
        let rows = tables.lock_blocks.iter();
        rows.filter(move |r| r.end == block_end::OPEN && r.part == part)
    };
    // Of a process whose events were lost nothing is sure.
    let is_sure = |row: &&LockBlockRow| {
        let mut counted = tables.meta.counted.iter();
        !counted.any(|c| c.process == row.process && c.lost_events > 0)
    };
    let locks: FxHashMap<u32, &LockRow> = tables.locks.iter().map(|l| (l.lock, l)).collect();
    // Who reads and who writes are told apart, but it is one lock.
    let mut holders: FxHashMap<(u32, u64), Vec<u32>> = FxHashMap::default();
    for hold in open(block_part::HOLD).filter(|h| h.ns_tid != 0) {
        if let Some(lock) = locks.get(&hold.lock) {
            let of = holders.entry((hold.process, lock.address)).or_default();
            of.push(hold.ns_tid);
        }
    }
    let stuck = |row: &LockBlockRow| {
        let lock = locks.get(&row.lock)?;
        let holders = holders.get(&(row.process, lock.address))?;
        let end_ns = row.end_ns?;
        let thread = threads.position(row.process, row.ns_tid, end_ns)?;
        let last = last_wait(&analysis.waits, thread)?;
        let site = &tables.sites[last.site as usize];
        let futex = tables
            .futexes
            .iter()
            .find(|f| Some(f.futex) == site.futex)?;
        let is_its = has_word(lock, futex.address) || is_refused(lock, &site.operation);
        if futex.process != row.process || !is_its || site.timed {
            return None;
        }
        let stuck = |holder: &u32| {
            Some(Stuck {
                thread,
                process: row.process,
                address: lock.address,
                owner: threads.position(row.process, *holder, end_ns)?,
                since_ns: Some(last.start_ns),
                path: path(analysis, last),
            })
        };
        Some((thread, holders.iter().filter_map(stuck).collect()))
    };
    let all: BTreeMap<usize, Vec<Stuck>> = open(block_part::WAIT)
        .filter(is_sure)
        .filter_map(stuck)
        .collect();
    let one = |(thread, ways): (&usize, &Vec<Stuck>)| {
        let back = ways.iter().find(|way| leads_to(&all, way.owner, *thread));
        Some((*thread, *back.or(ways.first())?))
    };
    all.iter().filter_map(one).collect()
}

/// Whether who waits for a thread's locks, directly or not, leads from one thread to another: of several readers each
/// holds up a writer.
fn leads_to(all: &BTreeMap<usize, Vec<Stuck>>, from: usize, to: usize) -> bool {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        if at == to {
            return true;
        }
        if seen.insert(at) {
            next.extend(all.get(&at).into_iter().flatten().map(|way| way.owner));
        }
    }
    false
}

/// Whether a futex is one of a lock's: the first word of most, one further on of read-write locks.
fn has_word(lock: &LockRow, futex: u64) -> bool {
    /// Bytes of a read-write lock, in any libc.
    const RWLOCK: u64 = 56;
    if [lock_kind::READ, lock_kind::WRITE].contains(&lock.kind.as_ref()) {
        (lock.address..lock.address + RWLOCK).contains(&futex)
    } else {
        lock.address == futex
    }
}

/// Whether a thread that wants this lock, and waits for another word, waits for ever: the kernel refuses a mutex with
/// priority inheritance to who would close a circle, and glibc then has that thread wait for nothing.
fn is_refused(lock: &LockRow, how: &str) -> bool {
    let is_plain_wait = [operation::WAIT, operation::WAIT_BITSET].contains(&how);
    is_plain_wait && lock.mutex_type.contains("inherit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, TablesBuilder};
    use dwell_recording::rows::EventRow;

    const MUTEX: [&str; 4] = ["main", "work", "___pthread_mutex_lock", "__lll_lock_wait"];
    const CONDITION: [&str; 3] = ["main", "work", "___pthread_cond_wait"];

    struct World {
        builder: TablesBuilder,
        process: u32,
    }

    impl World {
        fn new() -> World {
            let mut builder = TablesBuilder::new();
            let process = builder.process("demo");
            World { builder, process }
        }

        /// A thread that waits at the end, and who is said to hold the lock (by number of threads made).
        fn waits(&mut self, word: u64, owner: u32, timed: bool, stack: &[&str]) -> u32 {
            let builder = &mut self.builder;
            let thread = builder.new_thread(self.process, "worker");
            let site = builder.site(thread, "lock", "futex", "");
            let operation = match stack == CONDITION {
                true => "wait_bitset",
                false => "wait",
            };
            builder.on_futex(site, word, operation, timed);
            builder.waited(site, 50 * MS, 0, 1);
            let stack = builder.stack(stack);
            builder.sample(thread, "blocked", stack, Some(site), 50 * MS);
            builder.kept(site, 50 * MS, Some(stack), None);
            let time_ns = builder.now(thread);
            builder.tables.events.push(EventRow {
                time_ns,
                thread: Some(thread),
                kind: event::LOCK_OWNER.into(),
                detail: event::lock_owner(word, 1000 + owner, timed),
            });
            thread
        }

        fn found(&self) -> Vec<(Vec<usize>, Vec<usize>)> {
            let tables = &self.builder.tables;
            let analysis = Analysis::of(tables);
            let found = deadlocks(&analysis);
            for stuck in found.iter().flat_map(|d| &d.members) {
                let since = analysis.tables.threads[stuck.thread].until_ns - 50 * MS;
                assert_eq!(stuck.since_ns, Some(since));
                let path = analysis.names.path(stuck.path.expect("a stack"));
                assert_eq!(path.len(), MUTEX.len());
            }
            let threads = |d: &Deadlock| d.members.iter().map(|m| m.thread).collect();
            found
                .iter()
                .map(|d| (threads(d), d.behind.clone()))
                .collect()
        }
    }

    #[test]
    fn a_circle_is_found_and_who_waits_behind() {
        let mut world = World::new();
        world.waits(0x1000, 1, false, &MUTEX);
        world.waits(0x2000, 2, false, &MUTEX);
        world.waits(0x3000, 0, false, &MUTEX);
        world.waits(0x2000, 2, false, &MUTEX);
        world.waits(0x4000, 3, false, &MUTEX);
        assert_eq!(world.found(), [(vec![0, 1, 2], vec![3, 4])]);
        // The lock says so, whoever was seen before.
        let details = &mut world.builder.tables.events[2].detail;
        *details = event::lock_owner(0x3000, 1000 + 5, false);
        world.waits(0x5000, 5, false, &MUTEX);
        assert_eq!(world.found(), [(vec![5], vec![0, 1, 2, 3, 4])]);
    }

    #[test]
    fn what_ends_by_itself_or_is_no_mutex_is_none() {
        let circle = |timed: bool, stack: &[&str]| {
            let mut world = World::new();
            world.waits(0x1000, 1, false, &MUTEX);
            world.waits(0x2000, 0, timed, stack);
            world.found().len()
        };
        assert_eq!(circle(false, &MUTEX), 1);
        assert_eq!(circle(true, &MUTEX), 0);
        assert_eq!(circle(false, &CONDITION), 0);
        // A normal mutex of musl has no owner: 16 is no thread.
        let mut world = World::new();
        world.waits(
            0x1000,
            0,
            false,
            &["main", "__pthread_mutex_lock", "__timedwait"],
        );
        let (thread, detail) = (&mut world.builder.tables.threads[0], "0x1000 16");
        thread.ns_tid = 16;
        world.builder.tables.events[0].detail = detail.into();
        assert_eq!(world.found(), []);
    }

    #[test]
    fn chains_and_damage_are_none() {
        let mut world = World::new();
        world.waits(0x1000, 1, false, &MUTEX);
        world.waits(0x2000, 2, false, &MUTEX);
        world.builder.new_thread(world.process, "owner");
        assert_eq!(world.found(), []);
        for detail in ["", "0x", "0x1000", "0x1000 -1", "1000 5", "0x1000 5 x"] {
            world.builder.tables.events[0].detail = detail.into();
            assert_eq!(world.found(), []);
        }
    }

    /// What a thread does with a lock when the recording ends.
    fn open_part((lock, part, ns_tid): (u32, &'static str, u32)) -> LockBlockRow {
        LockBlockRow {
            lock,
            part: part.into(),
            ns_tid,
            end_ns: Some(1_050 * MS),
            end: block_end::OPEN.into(),
            ..LockBlockRow::default()
        }
    }

    /// A writer that waits for two readers, of whom the second waits for a mutex of the writer's.
    #[test]
    fn open_blocks_of_a_read_write_lock() {
        let mut world = World::new();
        world.waits(
            0x1008,
            1,
            false,
            &["main", "work", "pthread_rwlock_wrlock", "x"],
        );
        world.builder.new_thread(world.process, "reader");
        world.waits(0x2000, 0, false, &MUTEX);
        let tables = &mut world.builder.tables;
        tables.events.clear();
        let locks = [
            (7, 0x1000, "read"),
            (8, 0x1000, "write"),
            (9, 0x2000, "mutex"),
        ];
        tables
            .locks
            .extend(locks.map(|(lock, address, kind)| LockRow {
                lock,
                address,
                kind: kind.into(),
                ..LockRow::default()
            }));
        let parts = [
            (8, block_part::WAIT, 1000),
            (7, block_part::HOLD, 1001),
            (7, block_part::HOLD, 1002),
            (9, block_part::WAIT, 1002),
            (9, block_part::HOLD, 1000),
        ];
        tables.lock_blocks.extend(parts.map(open_part));
        assert_eq!(world.found(), [(vec![0, 2], vec![])]);
    }

    /// Who writes is told by the lock itself.
    #[test]
    fn writers_that_wait_for_each_other() {
        const WRITE: [&str; 4] = ["main", "work", "___pthread_rwlock_wrlock", "x"];
        const READ: [&str; 4] = ["main", "work", "___pthread_rwlock_rdlock", "x"];
        let mut world = World::new();
        world.waits(0x100c, 1, false, &WRITE);
        world.waits(0x2008, 0, false, &READ);
        assert_eq!(world.found(), [(vec![0, 1], vec![])]);
    }

    #[test]
    fn blocks_that_are_open_tell_it_too() {
        let mut world = World::new();
        world.waits(0x1000, 1, false, &MUTEX);
        world.waits(0x2000, 0, false, &MUTEX);
        let tables = &mut world.builder.tables;
        tables.events.clear();
        for (lock, address, waiter, owner) in [(7, 0x1000, 1000, 1001), (8, 0x2000, 1001, 1000)] {
            tables.locks.push(LockRow {
                lock,
                address,
                ..LockRow::default()
            });
            for (part, ns_tid) in [(block_part::WAIT, waiter), (block_part::HOLD, owner)] {
                tables.lock_blocks.push(open_part((lock, part, ns_tid)));
            }
        }
        assert_eq!(world.found(), [(vec![0, 1], vec![])]);
        // The first one waits for something else since.
        world.builder.tables.futexes[0].address = 0x3000;
        assert_eq!(world.found(), []);
    }
}
