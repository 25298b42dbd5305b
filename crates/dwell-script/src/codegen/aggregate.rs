//! Aggregations: the entry of a key is found or made, then changed by atomic operations, since a thread may lose the
//! processor in between to another one that fires.
//!
//! An entry of zeros is one that nothing was added to: the least number is kept as the distance from the greatest
//! possible one, the greatest as the distance from the least.
use super::error::CodeError;
use super::frame::Location;
use super::layout::{AGGREGATION_PREFIX, control};
use super::program::Maker;
use crate::aggregate::length;
use crate::schema::{Aggregate, AggregationId};
use crate::typed::Expr;
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width, atomic};
use dwell_abi::program::operation as op;

/// Attempts to make an entry. The kernel keeps little memory at hand for them, and gets more by an interrupt that comes
/// just after the last of it was taken.
const NEW_ENTRY_ATTEMPTS: u32 = 3;
/// Attempts to replace a number that others replace, too.
const ATTEMPTS: u32 = 4;

/// The values that a processor's entry stands for; none if nothing was added.
pub(super) fn values(function: Aggregate, entry: &[u8]) -> Option<Box<[i64]>> {
    let mut words = entry
        .as_chunks::<8>()
        .0
        .iter()
        .map(|w| i64::from_le_bytes(*w));
    let mut values: Box<[i64]> = words.by_ref().take(length(function)).collect();
    let bias = match function {
        Aggregate::Min => i64::MAX,
        Aggregate::Max => i64::MIN,
        _ => return (values.len() == length(function)).then_some(values),
    };
    let distance = values.first_mut()?;
    *distance = match function {
        Aggregate::Min => bias.wrapping_sub(*distance),
        _ => bias.wrapping_add(*distance),
    };
    Some(values)
}

impl Maker<'_, '_> {
    pub(super) fn aggregate(
        &mut self,
        to: AggregationId,
        keys: &[Expr],
        value: &Expr,
        increment: Option<&Expr>,
    ) -> Result<(), CodeError> {
        let index = to.0 as usize;
        let schema = self.generator.aggregations[index].clone();
        let store = self
            .generator
            .layout
            .sums_of(index)
            .expect("a filled aggregation has a store");
        let prefix = AGGREGATION_PREFIX;
        let key = self.frame.buffer(prefix + schema.key_size)?;
        self.store_constant(key, index as i32);
        self.zero(key.plus(prefix), schema.key_size);
        for (expression, field) in keys.iter().zip(&schema.keys) {
            let mark = self.frame.mark();
            self.field(expression, key.plus(prefix + field.offset), field.size)?;
            self.frame.release(mark);
        }
        self.value(value)?;
        let value = self.spill()?;
        let times = match increment {
            Some(times) => {
                self.value(times)?;
                Some(self.spill()?)
            }
            None => None,
        };
        let done = self.code.label();
        self.find_entry(store, key, done);
        self.code.mov(8, 0);
        self.add(schema.function, value, times)?;
        self.code.place(done);
        Ok(())
    }

    /// The address of a key's entry into register 0; without room for one, counts that and leaves.
    fn find_entry(&mut self, store: u32, key: Location, done: super::assembler::Label) {
        let [found, missing] = self.code.labels();
        self.lookup(store, key);
        self.code.jump_imm(Jump::Ne, 0, 0, found);
        for _ in 0..NEW_ENTRY_ATTEMPTS {
            self.code.pair(Instruction::load_store(1, store));
            self.address(2, key);
            self.address(3, Location::Memory(control::ZEROS));
            self.code.constant(4, i64::from(op::IF_NEW));
            self.code.call(op::UPDATE);
            // Another thread may have made it meanwhile, so what the update says does not matter.
            self.lookup(store, key);
            self.code.jump_imm(Jump::Ne, 0, 0, found);
        }
        self.code.place(missing);
        self.count(control::AGGREGATION_DROPS);
        self.code.jump(done);
        self.code.place(found);
    }

    /// Adds a value to the entry at register 8.
    fn add(
        &mut self,
        function: Aggregate,
        value: Location,
        times: Option<Location>,
    ) -> Result<(), CodeError> {
        self.load_word(1, value);
        match function {
            Aggregate::Count => self.add_constant(0, 1),
            Aggregate::Sum => self.add_register(0, 1),
            Aggregate::Min => {
                self.code.constant(2, i64::MAX);
                self.code.alu(Alu::Sub, 2, 1);
                self.keep_greater();
            }
            Aggregate::Max => {
                self.code.constant(2, i64::MIN);
                self.code.alu(Alu::Sub, 1, 2);
                self.code.mov(2, 1);
                self.keep_greater();
            }
            Aggregate::Avg => {
                self.add_constant(0, 1);
                self.add_register(8, 1);
            }
            Aggregate::Stddev => {
                self.add_constant(0, 1);
                self.add_register(8, 1);
                self.add_square();
            }
            Aggregate::Quantize | Aggregate::Lquantize { .. } | Aggregate::Llquantize { .. } => {
                self.bucket(function);
                self.code.alu_imm(Alu::Lsh, 1, 3);
                self.code.alu(Alu::Add, 8, 1);
                match times {
                    None => self.add_constant(0, 1),
                    Some(times) => {
                        self.load_word(1, times);
                        self.add_register(0, 1);
                    }
                }
            }
        }
        Ok(())
    }

    fn add_constant(&mut self, offset: i16, value: i32) {
        self.code.alu_imm(Alu::Mov, 2, value);
        self.add_register(offset, 2);
    }

    fn add_register(&mut self, offset: i16, src: u8) {
        self.code
            .emit(Instruction::atomic(atomic::ADD, 8, offset, src));
    }

    /// The entry becomes register 2, if that is greater (without sign).
    fn keep_greater(&mut self) {
        let done = self.code.label();
        self.code.load(Width::W8, 0, 8, 0);
        for _ in 0..ATTEMPTS {
            self.code.jump_if(Jump::Ge, 0, 2, done);
            self.code.mov(3, 0);
            self.code
                .emit(Instruction::atomic(atomic::COMPARE_EXCHANGE, 8, 0, 2));
            self.code.jump_if(Jump::Eq, 0, 3, done);
        }
        self.count(control::AGGREGATION_DROPS);
        self.code.place(done);
    }

    /// Adds the square of register 1, a number of 128 bits, to the third and fourth word.
    fn add_square(&mut self) {
        // |v| = h * 2^32 + l, its square h^2 * 2^64 + 2hl * 2^32 + l^2.
        self.code.mov(2, 1);
        self.code.alu_imm(Alu::Arsh, 2, 63);
        self.negate_if(1, 2);
        self.code.mov(2, 1);
        self.code.alu_imm(Alu::Rsh, 2, 32);
        self.cut(1, 4, false);
        // 3 = h * l, below 2^63; 2 = h^2 + its upper part; 1 = l^2, to which its lower part is added.
        self.code.mov(3, 2);
        self.code.alu(Alu::Mul, 3, 1);
        self.code.alu(Alu::Mul, 2, 2);
        self.code.alu(Alu::Mul, 1, 1);
        self.code.mov(4, 3);
        self.code.alu_imm(Alu::Rsh, 4, 31);
        self.code.alu(Alu::Add, 2, 4);
        self.code.alu_imm(Alu::Lsh, 3, 33);
        self.add_with_carry(1, 3);
        // The entry's low word: what was there tells whether the sum wraps around.
        self.code.mov(4, 1);
        self.code
            .emit(Instruction::atomic(atomic::FETCH_ADD, 8, 16, 4));
        self.add_with_carry(1, 4);
        self.add_register(24, 2);
    }

    /// `low += more`, with a carry into register 2.
    fn add_with_carry(&mut self, low: u8, more: u8) {
        let none = self.code.label();
        self.code.alu(Alu::Add, low, more);
        self.code.jump_if(Jump::Ge, low, more, none);
        self.code.alu_imm(Alu::Add, 2, 1);
        self.code.place(none);
    }
}
