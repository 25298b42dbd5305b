//! Deadlocks: threads that wait for each other's locks when a recording ends.
//!
//! Who holds a lock that a thread waits for at the end is what the lock itself said then (event `lock_owner`), else
//! what its last block tells (table `lock_blocks`), also of a process that was ended. A wait with a timeout is none
//! for ever. Locks that do not say who holds them (normal mutexes of musl, those of Rust, Go and Java) are never part
//! of what is found.
use super::contention::threads::Threads;
use super::sites::{self, Site};
use super::{Identity, Use};
use crate::analysis::Analysis;
use crate::names::{PathId, StackRef};
use crate::waits::{Wait, Waits};
use dwell_recording::rows::{LockBlockRow, block_end, block_part, event};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

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
pub fn deadlocks(analysis: &Analysis<'_>, waits: &Waits) -> Vec<Deadlock> {
    let threads = Threads::of(analysis);
    let mut stuck = by_blocks(analysis, waits, &threads);
    stuck.extend(by_words(analysis, waits, &threads));
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
fn by_words(
    analysis: &Analysis<'_>,
    waits: &Waits,
    threads: &Threads<'_>,
) -> BTreeMap<usize, Stuck> {
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
    let sites = sites::of(analysis, waits);
    let mut by_word: FxHashMap<(usize, u64), &Site> = FxHashMap::default();
    for site in sites.iter().filter(|s| s.used == Use::Lock) {
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
            let last = last_wait(waits, thread).filter(|w| w.site as usize == site.position);
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
fn says_owner(site: &Site, owner: u32) -> bool {
    /// What a normal mutex of musl has in its place.
    const EBUSY: u32 = 16;
    match site.class.runtime {
        "glibc" | "C++" => matches!(site.class.name, "mutex" | "PI mutex"),
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
fn by_blocks(
    analysis: &Analysis<'_>,
    waits: &Waits,
    threads: &Threads<'_>,
) -> BTreeMap<usize, Stuck> {
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
    let holders = open(block_part::HOLD).filter(|h| h.ns_tid != 0);
    let holders: FxHashMap<u32, u32> = holders.map(|h| (h.lock, h.ns_tid)).collect();
    let addresses: FxHashMap<u32, u64> = match holders.is_empty() {
        true => FxHashMap::default(),
        false => tables.locks.iter().map(|l| (l.lock, l.address)).collect(),
    };
    let stuck = |row: &LockBlockRow| {
        let end_ns = row.end_ns?;
        let thread = threads.position(row.process, row.ns_tid, end_ns)?;
        let owner = threads.position(row.process, *holders.get(&row.lock)?, end_ns)?;
        let address = *addresses.get(&row.lock)?;
        let last = last_wait(waits, thread)?;
        let site = &tables.sites[last.site as usize];
        let futex = tables
            .futexes
            .iter()
            .find(|f| Some(f.futex) == site.futex)?;
        let waits_for_it = futex.process == row.process && futex.address == address;
        (waits_for_it && !site.timed).then_some((
            thread,
            Stuck {
                thread,
                process: row.process,
                address,
                owner,
                since_ns: Some(last.start_ns),
                path: path(analysis, last),
            },
        ))
    };
    open(block_part::WAIT)
        .filter(is_sure)
        .filter_map(stuck)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{MS, TablesBuilder};
    use dwell_recording::rows::{EventRow, LockRow};

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
            let waits = Waits::of(tables, &analysis.index);
            let found = deadlocks(&analysis, &waits);
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
                tables.lock_blocks.push(LockBlockRow {
                    lock,
                    part: part.into(),
                    ns_tid,
                    end_ns: Some(1_050 * MS),
                    end: block_end::OPEN.into(),
                    ..LockBlockRow::default()
                });
            }
        }
        assert_eq!(world.found(), [(vec![0, 1], vec![])]);
        // The first one waits for something else since.
        world.builder.tables.futexes[0].address = 0x3000;
        assert_eq!(world.found(), []);
    }
}
