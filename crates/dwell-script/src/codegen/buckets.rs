//! In which bucket a value falls: register 1 becomes the index, below the number of buckets.
//! [`crate::aggregate`] is the definition.
use super::program::Maker;
use crate::aggregate::{Linear, LogLinear};
use crate::schema::Aggregate;
use dwell_abi::program::instruction::{Alu, Jump};

/// The bucket of zero.
const ZERO: i32 = 63;

impl Maker<'_, '_> {
    pub(super) fn bucket(&mut self, function: Aggregate) {
        if let Some(shape) = Linear::of(function) {
            self.linear(shape);
        } else if let Some(shape) = LogLinear::of(function) {
            self.log_linear(shape);
        } else {
            self.power();
        }
    }

    /// `quantize`, without branches: 63 plus or minus the number of significant bits of the amount.
    fn power(&mut self) {
        // The sign, all ones or zeros, stays in 3; the amount in 1, of which -2^63 has one less.
        self.code.mov(3, 1);
        self.code.alu_imm(Alu::Arsh, 3, 63);
        self.negate_if(1, 3);
        self.code.mov(2, 1);
        self.code.alu_imm(Alu::Rsh, 2, 63);
        self.code.alu(Alu::Sub, 1, 2);
        // floor(log2(2a + 1)) is the number of significant bits of a.
        self.code.alu_imm(Alu::Lsh, 1, 1);
        self.code.alu_imm(Alu::Or, 1, 1);
        self.code.constant(0, 0);
        for shift in [32, 16, 8, 4, 2, 1] {
            // 2 = shift if 1 has a bit from there on, else 0.
            self.code.mov(2, 1);
            self.code.alu_imm(Alu::Rsh, 2, shift);
            self.code.alu_imm(Alu::Neg, 2, 0);
            self.code.alu_imm(Alu::Rsh, 2, 63);
            self.code.alu_imm(Alu::Mul, 2, shift);
            self.code.alu(Alu::Rsh, 1, 2);
            self.code.alu(Alu::Or, 0, 2);
        }
        self.negate_if(0, 3);
        self.code.alu_imm(Alu::Add, 0, ZERO);
        self.code.alu_imm(Alu::And, 0, 127);
        self.code.mov(1, 0);
    }

    fn linear(&mut self, shape: Linear) {
        let [below, inside, done] = self.code.labels();
        self.code.jump_imm(Jump::SLt, 1, shape.base, below);
        self.code.constant(2, i64::from(shape.base));
        self.code.alu(Alu::Sub, 1, 2);
        self.code.alu_imm(Alu::Div, 1, i32::from(shape.step));
        self.limit(shape.steps as i32, inside);
        self.code.place(inside);
        self.code.alu_imm(Alu::Add, 1, 1);
        self.code.jump(done);
        self.code.place(below);
        self.code.constant(1, 0);
        self.code.place(done);
    }

    /// Register 1 becomes the limit if it is above.
    fn limit(&mut self, most: i32, fine: super::assembler::Label) {
        self.code.jump_imm(Jump::Le, 1, most, fine);
        self.code.constant(1, i64::from(most));
    }

    fn log_linear(&mut self, shape: LogLinear) {
        let middle = shape.middle() as i32;
        self.code.mov(3, 1);
        self.code.alu_imm(Alu::Arsh, 3, 63);
        self.negate_if(1, 3);
        self.distance(shape);
        let fine = self.code.label();
        self.limit(middle, fine);
        self.code.place(fine);
        let [negative, done] = self.code.labels();
        self.code.jump_imm(Jump::Ne, 3, 0, negative);
        self.code.alu_imm(Alu::Add, 1, middle);
        self.code.jump(done);
        self.code.place(negative);
        self.code.constant(2, i64::from(middle));
        self.code.alu(Alu::Sub, 2, 1);
        self.code.mov(1, 2);
        self.code.place(done);
    }

    /// The distance from the middle bucket of the amount in register 1.
    fn distance(&mut self, shape: LogLinear) {
        let done = self.code.label();
        let mut end = shape.factor.pow(shape.low);
        let mut before = 1;
        let parts = shape.steps - shape.steps / shape.factor;
        self.unless_below(end, |maker| maker.code.constant(1, 0), done);
        for magnitude in shape.low..=shape.high {
            end *= shape.factor;
            let first = before as i64 - (shape.steps / shape.factor) as i64;
            self.unless_below(
                end,
                |maker| {
                    let divisor = if magnitude == 0 {
                        maker.code.constant(2, shape.steps as i64);
                        maker.code.alu(Alu::Mul, 1, 2);
                        end
                    } else {
                        end / shape.steps
                    };
                    maker.code.constant(2, divisor as i64);
                    maker.code.alu(Alu::Div, 1, 2);
                    maker.code.constant(2, first);
                    maker.code.alu(Alu::Add, 1, 2);
                },
                done,
            );
            before += parts;
        }
        self.code.constant(1, shape.middle() as i64);
        self.code.place(done);
    }

    /// If register 1 is below a number, does something and leaves.
    fn unless_below(
        &mut self,
        end: u64,
        then: impl FnOnce(&mut Self),
        done: super::assembler::Label,
    ) {
        let next = self.code.label();
        self.code.constant(2, end as i64);
        self.code.jump_if(Jump::Ge, 1, 2, next);
        then(self);
        self.code.jump(done);
        self.code.place(next);
    }
}
