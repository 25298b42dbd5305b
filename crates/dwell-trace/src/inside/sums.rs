//! Tables, read and changed from here.
use super::memory::{Memory, Shape};
use dwell_agent::script::layout::{BLOCK, DIRECT, Slot, Table, slot};
use dwell_agent::script::tables;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Who has found a key before it was removed has added to it by then.
const QUARANTINE: Duration = Duration::from_millis(500);

/// Slots whose keys were removed, and when.
#[derive(Default)]
pub(super) struct Removed(Vec<(u64, u64, Instant)>);

fn slot_at<'m>(memory: &'m Memory, table: &Table, index: u64) -> (&'m Slot, u64) {
    let at = table.start + index * table.slot_size;
    // SAFETY: the table has so many slots there, which are only changed atomically.
    (unsafe { &*memory.at(at).cast::<Slot>() }, at)
}

/// The slots with keys: index, slot, where it is.
fn live<'m>(memory: &'m Memory, table: &'m Table) -> impl Iterator<Item = (u64, &'m Slot, u64)> {
    let is_used = |block: &u64| {
        let mark = memory.at(table.marks + block).cast::<AtomicU8>();
        // SAFETY: the table has a mark for each block, which is only changed atomically.
        unsafe { &*mark }.load(Ordering::Acquire) != 0
    };
    let blocks = (0..table.slots.div_ceil(BLOCK)).filter(is_used);
    let slots = blocks.flat_map(|block| block * BLOCK..((block + 1) * BLOCK).min(table.slots));
    slots.filter_map(|index| {
        let (slot, at) = slot_at(memory, table, index);
        let is_live = slot.word.load(Ordering::Acquire) & slot::KIND == slot::LIVE;
        is_live.then_some((index, slot, at))
    })
}

/// Where a slot's value is in each part.
fn values(shape: &Shape, table: &Table, slot: &Slot) -> impl Iterator<Item = u64> {
    let (start, part, parts) = shape.pool();
    let at = start + u64::from(slot.value.load(Ordering::Relaxed)) * 8;
    let parts = if table.is_sums == 0 { 1 } else { parts };
    (0..parts).map(move |n| at + n * part)
}

/// Every key with a value; of sums, with one for each part.
pub(super) fn each(memory: &Memory, shape: &Shape, store: u32, tell: &mut dyn FnMut(&[u8], &[u8])) {
    let Some((_, table)) = shape.table(store) else {
        return;
    };
    for (_, slot, at) in live(memory, table) {
        let key = memory.words(at + size_of::<Slot>() as u64, table.key);
        for value in values(shape, table, slot) {
            tell(&key, &memory.words(value, table.value));
        }
    }
}

/// Sets the value of a key.
pub(super) fn set(memory: &Memory, shape: &Shape, store: u32, key: &[u8], value: &[u8]) {
    let Some((at, table)) = shape.table(store) else {
        return;
    };
    assert_eq!(
        (key.len() as u64, value.len() as u64),
        (table.key, table.value)
    );
    let aligned = |bytes: &[u8]| -> Vec<u64> {
        let words = bytes.as_chunks::<8>().0.iter();
        words.map(|w| u64::from_ne_bytes(*w)).collect()
    };
    let (key, value) = (aligned(key), aligned(value));
    // SAFETY: a table of that memory, with a key and a value of its sizes.
    unsafe {
        tables::dwell_agent_script_update(
            memory.at(at).cast(),
            key.as_ptr(),
            value.as_ptr(),
            0,
            0,
            memory.at(0).cast(),
        );
    }
}

/// A key's value is not found without its slot any more.
fn forget_direct(memory: &Memory, table: &Table, key: &[u8]) {
    let Some(number) = key.first_chunk().map(|n| u64::from_ne_bytes(*n)) else {
        return;
    };
    if table.direct != 0 && number < DIRECT {
        let at = memory.at(table.direct + number * 4).cast::<AtomicU32>();
        // SAFETY: the table has so many there, which are only changed atomically.
        unsafe { &*at }.store(0, Ordering::Relaxed);
    }
}

impl Removed {
    /// Removes keys of sums.
    pub(super) fn remove(&mut self, memory: &Memory, shape: &Shape, store: u32, keys: &[Vec<u8>]) {
        self.release(memory, shape);
        let Some((_, table)) = shape.table(store) else {
            return;
        };
        let wanted: std::collections::HashSet<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        for (index, slot, at) in live(memory, table) {
            let word = slot.word.load(Ordering::Acquire);
            let key = memory.words(at + size_of::<Slot>() as u64, table.key);
            if wanted.contains(key.as_slice()) {
                forget_direct(memory, table, &key);
                let dead = word & !slot::KIND | slot::DEAD;
                slot.word.store(dead, Ordering::Release);
                self.0.push((u64::from(store), index, Instant::now()));
            }
        }
    }

    /// Makes slots usable again that nobody adds to any more.
    fn release(&mut self, memory: &Memory, shape: &Shape) {
        self.0.retain(|(store, index, since)| {
            let is_over = since.elapsed() >= QUARANTINE;
            if let Some((_, table)) = shape.table(*store as u32).filter(|_| is_over) {
                let (slot, _) = slot_at(memory, table, *index);
                for value in values(shape, table, slot) {
                    (0..table.value)
                        .step_by(8)
                        .for_each(|n| memory.set_word(value + n, 0));
                }
                slot.word.store(slot::REUSABLE, Ordering::Release);
            }
            !is_over
        });
    }
}
