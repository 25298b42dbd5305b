//! Where a script's variables, arrays, aggregations and constants live.
use super::Limits;
use super::fields::{self, Sizes};
use super::frame::{SLOT_SIZE, SLOTS};
use crate::aggregate::length;
use crate::schema::{Aggregate, AggregationSchema};
use crate::typed::{Scope, Script, Variable, VariableId};
use crate::types::{Type, TypeId};
use dwell_abi::program::Store;
use std::collections::HashMap;

/// The store of control words, global variables and constants.
pub const MEMORY: u32 = 0;
/// The store of records.
pub const RECORDS: u32 = 1;
/// The store of `self->` variables.
pub const THREAD: u32 = 2;
/// The store of slots, see [`super::frame`].
pub const SLOT_STORE: u32 = 3;
/// The store of probes' names: by probe, four strings.
pub const NAMES: u32 = 4;
/// The first store of arrays and aggregations.
const FIRST_TABLE: u32 = 5;

/// Words at the start of [`MEMORY`], by which programs and their owner speak.
pub mod control {
    /// Not 0 once `exit()` was called: nothing but END runs.
    pub const STOPPED: u32 = 0;
    /// Records that found no room.
    pub const RECORD_DROPS: u32 = 8;
    /// Values that an aggregation had no room for.
    pub const AGGREGATION_DROPS: u32 = 16;
    /// Assignments that found no room.
    pub const VARIABLE_DROPS: u32 = 24;
    /// Firings that found no free slot.
    pub const SLOT_DROPS: u32 = 32;
    /// What the wall clock is ahead of CLOCK_TAI, ns.
    pub const WALL_OFFSET: u32 = 40;
    /// Errors whose record found no room.
    pub const ERROR_DROPS: u32 = 48;
    /// Errors in clauses of ERROR.
    pub const DOUBLE_ERRORS: u32 = 56;
    /// Calls of `speculation()` that found all in use.
    pub const NO_SPECULATION: u32 = 64;
    /// Where a `task_struct` has the thread pointer, bytes from its start.
    pub const THREAD_POINTER: u32 = 72;
    /// Zeros: where new sums begin.
    pub const ZEROS: u32 = 128;
}
/// Bytes before the key of an aggregation: its number.
pub(super) const AGGREGATION_PREFIX: u32 = 8;
/// The most keys of all aggregations that share a store.
const MOST_ENTRIES: u32 = 1 << 24;
/// Room for an aggregation without keys, which has one at a time.
const WITHOUT_KEYS: u32 = 4;
/// More aggregations than these share stores, since a program may only name 64 and each takes memory. Up to so many have
/// their own: in an interrupt, as timers are, the kernel gives a store only one new key.
const OWN_STORES: usize = 8;
/// What the kernel keeps of an entry besides its key and value, bytes. The default of `aggsize` has room for a million
/// numbers; more would make a table that takes long to read, however little is in it.
const ENTRY_SIZE: u32 = 40;
/// The largest value of sums.
pub(super) const ZEROS_SIZE: u32 = 8 << 10;

/// Where a variable lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// From the start of [`MEMORY`].
    Memory(u32),
    /// From the start of a thread's memory.
    Thread(u32),
    /// In the frame.
    Frame,
    /// In a table of its own.
    Table(u32),
}

/// Where things live, and what they begin as.
#[derive(Debug)]
pub(super) struct Layout {
    homes: Vec<Home>,
    sums: Vec<Option<u32>>,
    /// Contents of [`MEMORY`].
    pub(super) memory: Vec<u8>,
    pub(super) stores: Vec<Store>,
    constants: HashMap<Vec<u8>, u32>,
    /// Speculations at a time, and where their words are in [`MEMORY`], see `speculation.rs`.
    pub(super) speculations: (u32, u32),
    /// How values are laid out.
    pub(super) sizes: Sizes,
    /// Whether each array and aggregation has room for an element.
    pub(super) fits: bool,
    /// Whether a program reads [`control::THREAD_POINTER`].
    pub(super) needs_thread_pointer: bool,
}

/// Bytes of a variable: integers take 8, so that each is loaded and stored at once.
fn size_in(script: &Script, sizes: Sizes, ty: TypeId) -> u32 {
    match script.types.actual(ty) {
        Type::String
        | Type::Record(_)
        | Type::Array { .. }
        | Type::Stack { .. }
        | Type::Address { .. } => fields::size_of(&script.types, sizes, ty).next_multiple_of(8),
        _ => 8,
    }
}

impl Layout {
    pub(super) fn new(
        script: &Script,
        limits: &Limits,
        aggregations: &[AggregationSchema],
    ) -> Self {
        let sizes = Sizes::new(limits.strsize);
        let mut layout = Layout {
            homes: Vec::new(),
            sums: Vec::new(),
            memory: vec![0; (control::ZEROS + ZEROS_SIZE) as usize],
            stores: vec![
                Store::Memory { size: 0 },
                Store::Records,
                Store::Thread { size: 8 },
                Store::Memory {
                    size: SLOTS * SLOT_SIZE,
                },
                Store::Table {
                    key: 8,
                    value: 4 * sizes.string,
                    entries: 1,
                },
            ],
            constants: HashMap::new(),
            speculations: (0, 0),
            sizes,
            fits: true,
            needs_thread_pointer: false,
        };
        layout.new_speculations(limits.nspec);
        debug_assert_eq!(layout.stores.len(), FIRST_TABLE as usize);
        let mut thread = 0;
        for variable in &script.variables {
            let home = layout.home(script, limits, variable, &mut thread);
            layout.homes.push(home);
        }
        layout.stores[THREAD as usize] = Store::Thread {
            size: thread.max(8),
        };
        for (aggregation, schema) in script.aggregations.iter().zip(aggregations) {
            let shares = schema.key_size == 0 || aggregations.len() > OWN_STORES;
            let store = aggregation
                .function
                .map(|function| layout.new_sums(limits, function, schema, shares));
            layout.sums.push(store);
        }
        layout
    }

    fn home(
        &mut self,
        script: &Script,
        limits: &Limits,
        variable: &Variable,
        thread: &mut u32,
    ) -> Home {
        let size = size_in(script, self.sizes, variable.ty);
        match (&variable.keys, variable.scope) {
            (Some(keys), scope) => {
                let own = if scope == Scope::Thread { 8 } else { 0 };
                let key = own + fields::key_size(&script.types, self.sizes, keys);
                let entries = limits.dynvarsize / (key + size);
                self.fits &= entries > 0;
                self.stores.push(Store::Table {
                    key,
                    value: size,
                    entries: entries.max(1),
                });
                Home::Table(self.stores.len() as u32 - 1)
            }
            (None, Scope::Global) => {
                let at = self.memory.len() as u32;
                self.memory.resize((at + size) as usize, 0);
                Home::Memory(at)
            }
            (None, Scope::Thread) => {
                *thread += size;
                Home::Thread(*thread - size)
            }
            (None, Scope::Clause) => Home::Frame,
        }
    }

    fn new_speculations(&mut self, wanted: u32) {
        let count = wanted.min(super::MOST_SPECULATIONS);
        let at = self.memory.len();
        let size = super::speculation::SIZE * count.next_power_of_two();
        self.memory.resize(at + size as usize, 0);
        self.speculations = (count, at as u32);
    }

    /// The store of an aggregation. It may share that of others whose keys and values have the same sizes.
    fn new_sums(
        &mut self,
        limits: &Limits,
        function: Aggregate,
        schema: &AggregationSchema,
        shares: bool,
    ) -> u32 {
        let (key, value) = (AGGREGATION_PREFIX + schema.key_size, 8 * words(function));
        let most = limits.aggsize / u64::from(key + 8 + ENTRY_SIZE);
        self.fits &= most > 0;
        let more = match schema.key_size {
            0 => WITHOUT_KEYS,
            _ => most.clamp(1, MOST_ENTRIES.into()) as u32,
        };
        let alike = |store: &Store| matches!(store, Store::Sums { key: k, value: v, .. } if (*k, *v) == (key, value));
        if shares && let Some(at) = self.stores.iter().position(alike) {
            if let Store::Sums { entries, .. } = &mut self.stores[at] {
                *entries = (*entries + more).min(MOST_ENTRIES);
            }
            return at as u32;
        }
        self.stores.push(Store::Sums {
            key,
            value,
            entries: more,
        });
        self.stores.len() as u32 - 1
    }

    pub(super) fn home_of(&self, variable: VariableId) -> Home {
        self.homes[variable.0 as usize]
    }

    /// The store of an aggregation that is filled somewhere.
    pub(super) fn sums_of(&self, aggregation: usize) -> Option<u32> {
        self.sums[aggregation]
    }

    /// Bytes of a variable.
    pub(super) fn variable_size(&self, script: &Script, variable: VariableId) -> u32 {
        size_in(script, self.sizes, script.variables[variable.0 as usize].ty)
    }

    /// Puts bytes where programs find them, aligned to 8 and followed by a zero; equal ones once.
    pub(super) fn constant(&mut self, bytes: &[u8], size: u32) -> u32 {
        let mut padded = bytes.to_vec();
        padded.resize(size.next_multiple_of(8) as usize, 0);
        if let Some(at) = self.constants.get(&padded) {
            return *at;
        }
        let at = self.memory.len() as u32;
        self.memory.extend_from_slice(&padded);
        self.constants.insert(padded, at);
        at
    }
}

/// Words of a processor's sums of a function. What zero means, `aggregate.rs` says.
pub(super) fn words(function: Aggregate) -> u32 {
    match function {
        Aggregate::Count | Aggregate::Sum | Aggregate::Min | Aggregate::Max => 1,
        Aggregate::Avg => 2,
        Aggregate::Stddev => 4,
        // One more than there are buckets, so that every index of 7 bits is within.
        Aggregate::Quantize => 128,
        Aggregate::Lquantize { .. } | Aggregate::Llquantize { .. } => length(function) as u32,
    }
}
