//! Tables: open addressing, never moved, each slot changed by single words.
//!
//! In a plain table a key has one slot at most. Who finds its slot being written waits a little, and then gives up:
//! the writer may be the very thread whose signal handler this is. A deleted key keeps its slot, so that nobody who
//! holds the address of its value writes to another key's, until the table is crowded.
//! In sums a key may have several slots, which are added up by whoever reads them, so nobody waits.
use super::layout::{BLOCK, DIRECT, Slot, State, Table, WINDOW, hash, slot};
use super::threads::own_part;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Looks at a slot that is being written, before giving up.
const PATIENCE: u32 = 2000;
const NOT_FOUND: i64 = -2;
const NO_ROOM: i64 = -7;
const EXISTS: i64 = -17;
const IF_NEW: u64 = 1;

/// A key being looked for.
struct Search<'s> {
    state: &'s State,
    table: &'s Table,
    key: *const u64,
    first: u64,
    /// A part of the hash, where slots have it.
    tag: u32,
}

/// What a slot says to who looks for a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Nobody had it.
    Free(u32),
    Live,
    /// This key was here.
    Dead(u32),
    /// This key comes here, in vain waited for.
    Coming,
    Other,
}

impl<'s> Search<'s> {
    /// # Safety
    /// All three must be addresses of such things, the key with the table's size.
    unsafe fn new(table: *const Table, key: *const u64, state: *const State) -> Self {
        // SAFETY: by contract.
        let (state, table) = unsafe { (&*state, &*table) };
        // SAFETY: by contract the key has so many words.
        let hash = hash((0..table.key as usize / 8).map(|n| unsafe { key.add(n).read() }));
        let tag = (hash >> 32) as u32 & !slot::KIND;
        Search {
            state,
            table,
            key,
            first: hash,
            tag,
        }
    }

    fn slot(&self, n: u64) -> &'s Slot {
        let index = self.first.wrapping_add(n) & (self.table.slots - 1);
        let at =
            self.state as *const State as u64 + self.table.start + index * self.table.slot_size;
        // SAFETY: the state has so many slots there.
        unsafe { &*(at as *const Slot) }
    }

    fn key_of(slot: &Slot) -> *mut u64 {
        (slot as *const Slot).wrapping_add(1) as *mut u64
    }

    fn has_key(&self, slot: &Slot) -> bool {
        let there = Self::key_of(slot);
        // SAFETY: the table's key follows each slot; ours has as many words.
        (0..self.table.key as usize / 8)
            .all(|n| unsafe { there.add(n).read_volatile() == self.key.add(n).read() })
    }

    fn look(&self, slot: &Slot) -> Seen {
        let mut word = slot.word.load(Ordering::Acquire);
        if word == self.tag | slot::BUSY && self.table.is_sums == 0 {
            for _ in 0..PATIENCE {
                core::hint::spin_loop();
                word = slot.word.load(Ordering::Acquire);
                if word & slot::KIND != slot::BUSY {
                    break;
                }
            }
        }
        match word & slot::KIND {
            slot::EMPTY | slot::REUSABLE => Seen::Free(word),
            slot::LIVE if word & !slot::KIND == self.tag && self.has_key(slot) => Seen::Live,
            slot::DEAD if word & !slot::KIND == self.tag && self.has_key(slot) => Seen::Dead(word),
            slot::BUSY if word & !slot::KIND == self.tag => Seen::Coming,
            _ => Seen::Other,
        }
    }

    /// The value in the first part, of a slot that has one.
    fn value(&self, slot: &Slot) -> *mut u64 {
        value_at(self.state, 0, slot.value.load(Ordering::Relaxed))
    }

    fn find(&self) -> Option<&'s Slot> {
        for n in 0..WINDOW.min(self.table.slots) {
            let slot = self.slot(n);
            match self.look(slot) {
                Seen::Live => return Some(slot),
                // What was never used ends the search; what is used again does not.
                Seen::Free(slot::EMPTY) => return None,
                Seen::Coming if self.table.is_sums == 0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Takes a slot that said so, to write to it.
    fn claim(&self, slot: &Slot, word: u32) -> bool {
        let order = Ordering::AcqRel;
        let busy = self.tag | slot::BUSY;
        slot.word
            .compare_exchange(word, busy, order, Ordering::Relaxed)
            .is_ok()
    }

    /// Fills a claimed slot.
    fn fill(&self, slot: &Slot, value: *const u64) -> bool {
        if slot.value.load(Ordering::Relaxed) == 0 {
            let pool = &self.state.pool;
            let at = pool.used.fetch_add(self.table.value, Ordering::Relaxed);
            if at + self.table.value > pool.part {
                // Others may have it as it was, but there is no memory for anybody any more.
                slot.word.store(slot::REUSABLE, Ordering::Release);
                return false;
            }
            slot.value.store((at / 8) as u32, Ordering::Relaxed);
        }
        self.mark(slot);
        let key = Self::key_of(slot);
        for n in 0..self.table.key as usize / 8 {
            // SAFETY: the table's key follows each slot; ours has as many words.
            unsafe { key.add(n).write_volatile(self.key.add(n).read()) };
        }
        self.set(slot, value);
        // SAFETY: the key is one of the table's.
        if let Some(direct) = unsafe { direct(self.state, self.table, self.key) } {
            direct.store(slot.value.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        slot.word.store(self.tag | slot::LIVE, Ordering::Release);
        true
    }

    /// Tells readers where a slot is used.
    fn mark(&self, slot: &Slot) {
        let state = self.state as *const State as u64;
        let distance = slot as *const Slot as u64 - state - self.table.start;
        // Not by a division that could fail, for which there is no panic here.
        let index = distance.checked_div(self.table.slot_size).unwrap_or(0);
        let block = index / BLOCK;
        let at = (state + self.table.marks + block) as *const AtomicU8;
        // SAFETY: the table has a mark for each block of its slots.
        unsafe { &*at }.store(1, Ordering::Release);
    }

    /// Sums begin as zeros, which they are.
    fn set(&self, slot: &Slot, value: *const u64) {
        if self.table.is_sums != 0 {
            return;
        }
        let to = self.value(slot);
        for n in 0..self.table.value as usize / 8 {
            // SAFETY: both have the size of the table's values.
            unsafe { to.add(n).write_volatile(value.add(n).read()) };
        }
    }

    fn update(&self, value: *const u64, flags: u64) -> i64 {
        let (mut n, mut tries, mut crowded) = (0, 0, None);
        while n < WINDOW.min(self.table.slots) && tries < 2 * WINDOW {
            tries += 1;
            let slot = self.slot(n);
            let word = match self.look(slot) {
                Seen::Live if flags == IF_NEW => return EXISTS,
                Seen::Live => {
                    self.set(slot, value);
                    return 0;
                }
                Seen::Free(word) => word,
                Seen::Dead(word) if self.table.is_sums == 0 => word,
                Seen::Coming if self.table.is_sums == 0 => return NO_ROOM,
                _ => {
                    let word = slot.word.load(Ordering::Relaxed);
                    if word & slot::KIND == slot::DEAD && self.table.is_sums == 0 {
                        crowded.get_or_insert((slot, word));
                    }
                    n += 1;
                    continue;
                }
            };
            // Lost to somebody: it is looked at again.
            if self.claim(slot, word) {
                return if self.fill(slot, value) { 0 } else { NO_ROOM };
            }
        }
        match crowded {
            Some((slot, word)) if self.claim(slot, word) && self.fill(slot, value) => 0,
            _ => NO_ROOM,
        }
    }
}

/// The value in a part.
fn value_at(state: &State, part: u64, value: u32) -> *mut u64 {
    let start = state as *const State as u64 + state.pool.start;
    (start + part * state.pool.part + u64::from(value) * 8) as *mut u64
}

/// Where a key has its value; 0 for nowhere.
///
/// # Safety
/// As [`dwell_agent_script_lookup`].
unsafe fn found(table: *const Table, key: *const u64, state: *const State) -> u32 {
    // SAFETY: by contract.
    let direct = unsafe { direct(&*state, &*table, key) };
    let value = direct.map_or(0, |d| d.load(Ordering::Acquire));
    if value != 0 {
        return value;
    }
    // SAFETY: by contract.
    let search = unsafe { Search::new(table, key, state) };
    let slot = search.find();
    slot.map_or(0, |slot| slot.value.load(Ordering::Relaxed))
}

/// Where the value of a key is noted, if it is one whose value is.
///
/// # Safety
/// The key must have the table's size.
unsafe fn direct<'s>(state: &'s State, table: &Table, key: *const u64) -> Option<&'s AtomicU32> {
    // SAFETY: by contract a key has one word at least.
    let number = unsafe { key.read() };
    if table.direct == 0 || number >= DIRECT {
        return None;
    }
    let at = state as *const State as u64 + table.direct + number * 4;
    // SAFETY: the state has so many there.
    Some(unsafe { &*(at as *const AtomicU32) })
}

/// The address of a key's value, of sums that in the first part; 0 if there is none.
///
/// # Safety
/// All three must be addresses of such things, the key with the table's size.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_lookup(
    table: *const Table,
    key: *const u64,
    _: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> u64 {
    // SAFETY: by contract.
    match unsafe { found(table, key, state) } {
        0 => 0,
        // SAFETY: by contract.
        value => value_at(unsafe { &*state }, 0, value) as u64,
    }
}

/// The address of the value of a key of sums for this thread; 0 if there is none. The lowest bit is set if nobody else
/// changes what is there. Only for threads of the target: another process' may have the same fs base.
///
/// # Safety
/// As [`dwell_agent_script_lookup`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_sum(
    table: *const Table,
    key: *const u64,
    _: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> u64 {
    // SAFETY: by contract.
    let value = unsafe { found(table, key, state) };
    if value == 0 {
        return 0;
    }
    // SAFETY: by contract.
    let state = unsafe { &*state };
    match own_part(state) {
        0 => value_at(state, 0, value) as u64,
        part => value_at(state, part, value) as u64 | 1,
    }
}

/// Sets a key's value; 0, or negative if there is no room, or, with flags 1, if it is there already.
///
/// # Safety
/// As [`dwell_agent_script_lookup`]; the value has the table's size.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_update(
    table: *const Table,
    key: *const u64,
    value: *const u64,
    flags: u64,
    _: u64,
    state: *const State,
) -> i64 {
    // SAFETY: by contract.
    unsafe { Search::new(table, key, state) }.update(value, flags)
}

/// Deletes a key; 0, or negative if it was not there.
///
/// # Safety
/// As [`dwell_agent_script_lookup`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_delete(
    table: *const Table,
    key: *const u64,
    _: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> i64 {
    // SAFETY: by contract.
    let search = unsafe { Search::new(table, key, state) };
    let (live, dead) = (search.tag | slot::LIVE, search.tag | slot::DEAD);
    let order = Ordering::AcqRel;
    let was_live = search.find().is_some_and(|slot| {
        slot.word
            .compare_exchange(live, dead, order, Ordering::Relaxed)
            .is_ok()
    });
    if was_live { 0 } else { NOT_FOUND }
}
