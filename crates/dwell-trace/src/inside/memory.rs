//! The memory that a script's programs share with us: what is where in it.
use dwell_abi::program::Store;
use dwell_agent::script::layout::{
    BLOCK, DIRECT, MOST_POOL_BITS, OWNERS, Pool, Ring, Slot, State, THREADS, Table, Thread, Threads,
};
use dwell_jit::{Nearby, Sums};
use dwell_patch::process::Shared;
use std::sync::atomic::AtomicU64;

/// Bytes for the slots of one table, at most.
const MOST_SLOT_BYTES: u64 = 48 << 20;
/// Parts of the pool: that of all, and those of a thread each.
const PARTS: u64 = 1 + OWNERS as u64;

/// Where a store is, from the start of the shared part.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// Where, and bytes.
    Memory(u64, u64),
    /// Its [`Table`].
    Table(u64),
    /// It is told by the state itself.
    State,
}

/// The layout of the shared part.
#[derive(Debug)]
pub(super) struct Shape {
    /// Bytes.
    pub(super) len: u64,
    places: Vec<Place>,
    tables: Vec<(u64, Table)>,
    ring: (u64, u64),
    threads: (u64, u64, u64),
    pool: u64,
    pool_bits: u32,
}

/// Hands out room, one piece behind the other.
struct Room(u64);

impl Room {
    fn take(&mut self, len: u64) -> u64 {
        let at = self.0.next_multiple_of(64);
        self.0 = at + len;
        at
    }
}

/// Logarithm of the bytes of each part of the pool: a value for each slot, or as much as there may be.
fn pool_bits(tables: &[(u64, Table)]) -> u32 {
    // The first eight bytes are nobody's.
    let all = 8 + tables.iter().map(|(_, t)| t.slots * t.value).sum::<u64>();
    let bits = all.next_power_of_two().trailing_zeros();
    bits.clamp(12, MOST_POOL_BITS)
}

impl Shape {
    pub(super) fn new(stores: &[Store], ring_bytes: u32) -> Shape {
        let mut room = Room(size_of::<State>() as u64);
        let mut shape = Shape {
            len: 0,
            places: Vec::new(),
            tables: Vec::new(),
            ring: (0, 0),
            threads: (0, 0, 8),
            pool: 0,
            pool_bits: 0,
        };
        for store in stores {
            let place = shape.place(*store, &mut room);
            shape.places.push(place);
        }
        for (_, table) in &mut shape.tables {
            table.start = room.take(table.slots * table.slot_size);
        }
        let memory_size = shape.threads.2;
        let start = room.take(THREADS * size_of::<Thread>() as u64);
        shape.threads = (start, room.take(THREADS * memory_size), memory_size);
        let ring_size = u64::from(ring_bytes);
        room.0 = room.0.next_multiple_of(4096);
        shape.ring = (room.take(ring_size), ring_size);
        shape.pool_bits = pool_bits(&shape.tables);
        shape.pool = room.take(PARTS << shape.pool_bits);
        shape.len = room.0.next_multiple_of(4096);
        shape
    }

    fn place(&mut self, store: Store, room: &mut Room) -> Place {
        let (key, value, entries, is_sums) = match store {
            Store::Memory { size } => return Place::Memory(room.take(size.into()), size.into()),
            Store::Records => return Place::State,
            Store::Thread { size } => {
                self.threads.2 = u64::from(size).next_multiple_of(64);
                return Place::State;
            }
            Store::Table {
                key,
                value,
                entries,
            } => (key, value, entries, 0),
            Store::Sums {
                key,
                value,
                entries,
            } => (key, value, entries, 1),
        };
        let slot_size = size_of::<Slot>() as u64 + u64::from(key);
        let most = (MOST_SLOT_BYTES / slot_size).next_power_of_two() / 2;
        let wanted = (2 * u64::from(entries)).next_power_of_two();
        let slots = wanted.clamp(16, most);
        let table = Table {
            start: 0,
            slots,
            slot_size,
            key: key.into(),
            value: value.into(),
            is_sums,
            direct: match (is_sums, key) {
                (1, 8) => room.take(4 * DIRECT),
                _ => 0,
            },
            marks: room.take(slots.div_ceil(BLOCK)),
        };
        let at = room.take(size_of::<Table>() as u64);
        self.tables.push((at, table));
        Place::Table(at)
    }

    /// Where a store of memory begins.
    pub(super) fn memory(&self, store: u32) -> u64 {
        match self.places[store as usize] {
            Place::Memory(at, _) | Place::Table(at) => at,
            Place::State => 0,
        }
    }

    /// The same with its bytes.
    pub(super) fn memory_of(&self, store: u32) -> (u64, u64) {
        match self.places[store as usize] {
            Place::Memory(at, size) => (at, size),
            Place::Table(_) | Place::State => (0, 0),
        }
    }

    /// A table and where it is described.
    pub(super) fn table(&self, store: u32) -> Option<(u64, &Table)> {
        let Place::Table(at) = self.places[store as usize] else {
            return None;
        };
        let found = self.tables.iter().find(|(there, _)| *there == at)?;
        Some((at, &found.1))
    }

    /// Where the parts of the pool are: start, bytes of each, how many.
    pub(super) fn pool(&self) -> (u64, u64, u64) {
        (self.pool, 1 << self.pool_bits, PARTS)
    }

    /// What code needs to know to do without calls; none if it is too far.
    pub(super) fn nearby(&self, sum: u64) -> Option<Nearby> {
        Some(Nearby {
            threads: self.threads.0.try_into().ok()?,
            thread_memory: self.threads.1.try_into().ok()?,
            thread_memory_size: self.threads.2.try_into().ok()?,
            pool: self.pool.try_into().ok()?,
            pool_bits: self.pool_bits as u8,
            sum,
        })
    }

    /// A store of sums.
    pub(super) fn sums(&self, store: u32) -> Option<Sums> {
        let (_, table) = self.table(store).filter(|(_, t)| t.is_sums != 0)?;
        Some(Sums {
            value: table.value.try_into().ok()?,
            direct: match table.direct {
                0 => None,
                at => at.try_into().ok(),
            },
        })
    }

    /// Writes the head of memory that is zero.
    pub(super) fn fill(&self, memory: &Memory, pid: u32) {
        for (at, table) in &self.tables {
            let to = memory.at(*at).cast::<Table>();
            // SAFETY: the shape has room for it there, aligned, and nobody uses the memory yet.
            unsafe { to.write(*table) };
        }
        let state = State {
            len: self.len,
            pid: pid.into(),
            ring: Ring {
                start: self.ring.0,
                size: self.ring.1,
                ..Ring::default()
            },
            threads: Threads {
                start: self.threads.0,
                memory: self.threads.1,
                memory_size: self.threads.2,
                ..Threads::default()
            },
            pool: Pool {
                start: self.pool,
                part: 1 << self.pool_bits,
                used: AtomicU64::new(8),
                ..Pool::default()
            },
            ..State::default()
        };
        // SAFETY: as above.
        unsafe { memory.at(0).cast::<State>().write(state) };
    }
}

/// The shared part, mapped here.
pub(super) struct Memory(Shared);

impl Memory {
    /// Of memory that the target has as well: what others write there is read by atomic or volatile loads only.
    pub(super) fn new(shared: Shared) -> Memory {
        Memory(shared)
    }

    /// The address of a byte.
    pub(super) fn at(&self, distance: u64) -> *mut u8 {
        assert!(distance <= self.0.len(), "within the memory");
        // SAFETY: within the mapping.
        unsafe { self.0.as_ptr().add(distance as usize) }
    }

    pub(super) fn state(&self) -> &State {
        // SAFETY: the memory begins with it; what changes in it is atomic.
        unsafe { &*self.at(0).cast::<State>() }
    }

    /// A word that others change.
    pub(super) fn word(&self, distance: u64) -> u64 {
        let at = self.at(distance).cast::<u64>();
        // SAFETY: within the mapping and aligned, as all words of ours are.
        unsafe { at.read_volatile() }
    }

    pub(super) fn set_word(&self, distance: u64, value: u64) {
        let at = self.at(distance).cast::<u64>();
        // SAFETY: as in `word`.
        unsafe { at.write_volatile(value) };
    }

    /// Words that others change, as bytes.
    pub(super) fn words(&self, distance: u64, len: u64) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|n| self.word(distance + 8 * n).to_ne_bytes());
        let mut bytes: Vec<u8> = words.collect();
        bytes.truncate(len as usize);
        bytes
    }

    /// Writes bytes that nobody uses yet.
    pub(super) fn write(&self, distance: u64, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut at = distance;
        for word in words {
            self.set_word(at, u64::from_ne_bytes(*word));
            at += 8;
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            self.set_word(at, u64::from_ne_bytes(last));
        }
    }
}
