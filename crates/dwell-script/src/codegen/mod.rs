//! Programs for the clauses of a checked script.
//!
//! All clauses that run for a probe become one program, one behind the other, so that `this->` variables and the
//! time stamp are theirs together. [`Generator`] first lays out what the whole script shares, then makes a program
//! for each kind of probe and list of clauses that it is asked for.
//!
//! Registers: 0 has values, 1 to 5 are for calls, 6 is the context, 7 the probe's number, 8 is free within a
//! statement, 9 the start of the slot, if there is one. See [`frame`] for memory.
mod aggregate;
mod assembler;
mod buckets;
mod builtin;
mod clause;
mod condition;
mod error;
mod error_probe;
mod expression;
mod fields;
mod frame;
mod function;
mod layout;
mod memory;
mod operand;
mod operators;
mod place;
mod program;
mod records;
mod sharing;
mod site;
mod speculation;
mod strings;
mod structures;
#[cfg(test)]
mod tests;
mod text;
mod visit;

pub use error::CodeError;
pub use frame::{SLOT_SIZE, SLOTS};
pub use layout::{MEMORY, NAMES, RECORDS, SLOT_STORE, THREAD, control};
pub use operand::{Operand, OperandPlace};
pub use program::{ERROR_CLAUSE, ErrorRecord};
pub use sharing::{Shared, leaves_records, shared, written};
pub use site::{Numbering, SYSTEM_CALLS, Site};

use crate::schema::{AggregationId, AggregationSchema, ClauseSchema, RecordHeader, Row};
use crate::typed::{Aggregation, Script};
use dwell_abi::program::{Program, Store};
use layout::Layout;

/// What options decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a string, its zero included.
    pub strsize: u32,
    /// Bytes for the values of each associative array.
    pub dynvarsize: u32,
    /// Bytes for the keys and values of each aggregation.
    pub aggsize: u64,
    /// Speculations at a time, at most [`MOST_SPECULATIONS`].
    pub nspec: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            strsize: 256,
            dynvarsize: 1 << 20,
            aggsize: 64 << 20,
            nspec: 1,
        }
    }
}

/// The most speculations at a time.
pub const MOST_SPECULATIONS: u32 = 128;

/// Makes programs of one script.
#[derive(Debug)]
pub struct Generator<'a> {
    script: &'a Script,
    layout: Layout,
    clauses: Vec<ClauseSchema>,
    aggregations: Vec<AggregationSchema>,
    /// The arguments of static probes, by the number in [`Site::Static`].
    operands: Vec<Vec<Operand>>,
    /// ERROR's number and clauses.
    errors: (u32, Vec<usize>),
    stamps_records: bool,
}

impl<'a> Generator<'a> {
    /// Lays out what the script's programs share.
    pub fn new(script: &'a Script, limits: &Limits) -> Self {
        let sizes = fields::Sizes::new(limits.strsize);
        let aggregations: Vec<AggregationSchema> = script
            .aggregations
            .iter()
            .map(|aggregation| aggregation_schema(script, sizes, aggregation))
            .collect();
        let layout = Layout::new(script, limits, &aggregations);
        let clauses = script
            .clauses
            .iter()
            .map(|clause| records::schema(&script.types, sizes, clause))
            .collect();
        Generator {
            script,
            layout,
            clauses,
            aggregations,
            operands: Vec::new(),
            errors: (0, Vec::new()),
            stamps_records: false,
        }
    }

    /// These clauses run, as those of the probe ERROR of that number, when another clause cannot go on. To be said
    /// before programs are made.
    pub fn on_errors(&mut self, probe: u32, clauses: &[usize]) {
        self.errors = (probe, clauses.to_vec());
    }

    /// Behind each record stands when it was handed over, ns of CLOCK_MONOTONIC: by that, records of several engines
    /// are put in order. To be said before programs are made.
    pub fn stamp_records(&mut self) {
        self.stamps_records = true;
    }

    /// The kind of static probes whose arguments are these.
    pub fn static_site(&mut self, operands: &[Operand]) -> Site {
        let known = self.operands.iter().position(|known| known == operands);
        let at = known.unwrap_or_else(|| {
            self.operands.push(operands.to_vec());
            self.operands.len() - 1
        });
        Site::Static(at as u32)
    }

    fn operands(&self, at: u32) -> &[Operand] {
        &self.operands[at as usize]
    }

    /// The program of a kind of probe at which these clauses (by their place in the script) run in this order.
    pub fn program(
        &mut self,
        site: Site,
        numbering: &Numbering,
        clauses: &[usize],
    ) -> Result<Program, CodeError> {
        match program::generate(self, site, numbering, clauses, false) {
            Err(CodeError::TooDeep) => program::generate(self, site, numbering, clauses, true),
            result => result,
        }
    }

    /// What programs keep; complete once all of them are made.
    pub fn stores(&self) -> Vec<Store> {
        let mut stores = self.layout.stores.clone();
        stores[MEMORY as usize] = Store::Memory {
            size: self.layout.memory.len() as u32,
        };
        stores
    }

    /// What [`MEMORY`] holds at first; complete once all programs are made.
    pub fn memory(&self) -> &[u8] {
        &self.layout.memory
    }

    /// Whether programs want to know [`control::THREAD_POINTER`]; complete once all of them are made.
    pub fn needs_thread_pointer(&self) -> bool {
        self.layout.needs_thread_pointer
    }

    /// Whether the limits leave each array and aggregation room for one element, and a buffer of so many bytes has room
    /// for one record of each clause.
    pub fn fits(&self, buffer: u64) -> bool {
        let header = size_of::<RecordHeader>() as u64;
        let sizes = self.clauses.iter().map(|clause| clause.size.into());
        let largest: u64 = sizes.max().unwrap_or(0);
        self.layout.fits && (largest == 0 || header + largest <= buffer)
    }

    /// The records of each clause.
    pub fn clauses(&self) -> &[ClauseSchema] {
        &self.clauses
    }

    /// The aggregations by id.
    pub fn aggregations(&self) -> &[AggregationSchema] {
        &self.aggregations
    }

    /// Bytes of each of the four strings in [`NAMES`].
    pub fn string_size(&self) -> u32 {
        self.layout.sizes.string
    }

    /// The store of an aggregation; none if it is never filled.
    pub fn sums_store(&self, aggregation: AggregationId) -> Option<u32> {
        self.layout.sums_of(aggregation.0 as usize)
    }

    /// What an entry of a store of sums says of an aggregation; none if it is another's that shares the store.
    pub fn row(&self, aggregation: AggregationId, key: &[u8], value: &[u8]) -> Option<Row> {
        let schema = &self.aggregations[aggregation.0 as usize];
        let key = key.strip_prefix(&prefix(aggregation))?;
        Some(Row {
            key: key.into(),
            values: aggregate::values(schema.function, value)?,
        })
    }

    /// The key in the store of sums for a key of an aggregation.
    pub fn store_key(&self, aggregation: AggregationId, key: &[u8]) -> Vec<u8> {
        [&prefix(aggregation)[..], key].concat()
    }
}

/// What stands before the keys of an aggregation.
fn prefix(aggregation: AggregationId) -> [u8; layout::AGGREGATION_PREFIX as usize] {
    u64::from(aggregation.0).to_le_bytes()
}

fn aggregation_schema(
    script: &Script,
    sizes: fields::Sizes,
    aggregation: &Aggregation,
) -> AggregationSchema {
    let (keys, key_size) = fields::key_fields(&script.types, sizes, &aggregation.keys);
    AggregationSchema {
        name: aggregation.name.clone(),
        keys,
        key_size,
        function: aggregation
            .function
            .unwrap_or(crate::schema::Aggregate::Count),
        signed: aggregation.signed,
    }
}
