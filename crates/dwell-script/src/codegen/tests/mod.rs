//! Programs of scripts made by hand, run by the interpreter.
mod aggregations;
mod build;
mod expressions;
mod probes;
mod shown;
mod text;
mod variables;

use super::{ERROR_CLAUSE, Generator, Limits, MEMORY, Numbering, Site};
use crate::schema::{AggregationId, RecordHeader, Row};
use crate::typed::Script;
use dwell_abi::program::interpret;
use dwell_abi::program::model::{Model, World};
use dwell_abi::program::operation as op;

/// What the probes of a test see.
pub(super) struct Target {
    pub(super) thread: u64,
    pub(super) memory: Vec<u8>,
    pub(super) time: u64,
}

/// Where the target's memory begins.
pub(super) const TARGET_MEMORY: u64 = 0x1000;
const STEPS: u64 = 1 << 20;

impl World for Target {
    fn value(&mut self, operation: u32) -> Option<u64> {
        match operation {
            op::COOKIE => Some(77),
            op::PROCESSOR => Some(3),
            op::IDS => Some(1234 << 32 | self.thread),
            op::THREAD => Some(self.thread),
            op::MONOTONIC_TIME => {
                self.time += 5;
                Some(self.time)
            }
            _ => None,
        }
    }

    fn read_user(&mut self, address: u64, into: &mut [u8]) -> usize {
        let start = address.checked_sub(TARGET_MEMORY).unwrap_or(u64::MAX) as usize;
        let there = self.memory.get(start..).unwrap_or_default();
        let length = there.len().min(into.len());
        into[..length].copy_from_slice(&there[..length]);
        length
    }

    fn stack(&mut self, _user: bool) -> Vec<u64> {
        vec![0x10, 0x20, 0x30]
    }

    fn name(&mut self) -> [u8; 16] {
        *b"target\0\0\0\0\0\0\0\0\0\0"
    }
}

/// A script being run at a function's entry.
pub(super) struct Running<'a> {
    generator: Generator<'a>,
    code: Vec<dwell_abi::program::Instruction>,
    pub(super) model: Model<Target>,
}

impl<'a> Running<'a> {
    pub(super) fn new(script: &'a Script) -> Self {
        let clauses: Vec<usize> = (0..script.clauses.len()).collect();
        Running::with_errors(script, &clauses, &[])
    }

    /// With clauses of ERROR, whose number is 3.
    pub(super) fn with_errors(script: &'a Script, clauses: &[usize], errors: &[usize]) -> Self {
        let mut generator = Generator::new(
            script,
            &Limits {
                strsize: 32,
                ..Limits::default()
            },
        );
        generator.on_errors(3, errors);
        let program = generator
            .program(Site::Entry, &Numbering::Cookie, clauses)
            .expect("a program is made");
        Running::of(generator, program.code)
    }

    pub(super) fn of(generator: Generator<'a>, code: Vec<dwell_abi::program::Instruction>) -> Self {
        let world = Target {
            thread: 5,
            memory: Vec::new(),
            time: 0,
        };
        let mut model = Model::new(&generator.stores(), world);
        let memory = model.memory_of(MEMORY).expect("the first store is memory");
        memory.copy_from_slice(generator.memory());
        Running {
            generator,
            code,
            model,
        }
    }

    /// Fires the probe with these first two arguments.
    pub(super) fn fire(&mut self, first: i64, second: i64) {
        let mut registers = vec![0; 168];
        registers[112..120].copy_from_slice(&first.to_le_bytes());
        registers[104..112].copy_from_slice(&second.to_le_bytes());
        let context = self.model.add_memory(registers);
        let result = interpret::run(&self.code, &mut self.model, context, STEPS);
        assert_eq!(result, Ok(0));
    }

    /// The data of the records since the last call; of errors nothing but their header.
    pub(super) fn records(&mut self) -> Vec<Vec<u8>> {
        let header = size_of::<RecordHeader>();
        let records = self.model.take_records();
        records.into_iter().map(|r| r[header..].to_vec()).collect()
    }

    /// The speculations that the records since the last call are of.
    pub(super) fn speculations(&mut self) -> Vec<u32> {
        let at = std::mem::offset_of!(RecordHeader, speculation);
        let records = self.model.take_records();
        let word = |r: &Vec<u8>| u32::from_le_bytes(r[at..at + 4].try_into().expect("4 bytes"));
        records.iter().map(word).collect()
    }

    /// The kinds of errors since the last call.
    pub(super) fn faults(&mut self) -> Vec<u32> {
        let header = size_of::<RecordHeader>();
        let word =
            |r: &[u8], at: usize| u32::from_le_bytes(r[at..at + 4].try_into().expect("4 bytes"));
        let records = self.model.take_records();
        let errors = records.iter().filter(|r| word(r, 0) == ERROR_CLAUSE);
        errors.map(|r| word(r, header + 4) & 0xffff).collect()
    }

    pub(super) fn rows(&self, aggregation: u32) -> Vec<Row> {
        let id = AggregationId(aggregation);
        let store = self.generator.sums_store(id).expect("it is filled");
        let entries = self.model.entries(store);
        entries
            .filter_map(|(key, value)| self.generator.row(id, key, value))
            .collect()
    }
}
