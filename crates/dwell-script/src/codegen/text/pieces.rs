//! Parts of strings, and strings put together.
use super::super::error::CodeError;
use super::super::frame::Location;
use super::super::program::Maker;
use crate::typed::Expr;
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width};
use dwell_abi::program::operation as op;

/// More than any index in a string.
const INDEX_MASK: i32 = 0xffff;

impl Maker<'_, '_> {
    /// The part of a string from an index on, so many bytes at most; empty if the index is negative.
    pub(super) fn piece(
        &mut self,
        from: Location,
        start: Location,
        length: Option<Location>,
    ) -> Result<Location, CodeError> {
        let to = self.new_string()?;
        let size = self.strsize() as i32;
        let [none, fits] = self.code.labels();
        self.zero_string(to);
        self.load_word(4, start);
        self.code.jump_imm(Jump::SLt, 4, 0, none);
        self.code.constant(2, size.into());
        if let Some(length) = length {
            self.load_word(2, length);
            self.code.jump_imm(Jump::SLt, 2, 0, none);
            self.code.alu_imm(Alu::Add, 2, 1);
            self.code.jump_imm(Jump::Le, 2, size, fits);
            self.code.constant(2, size.into());
            self.code.place(fits);
        }
        self.code.alu_imm(Alu::And, 4, INDEX_MASK);
        self.address(3, from);
        self.code.alu(Alu::Add, 3, 4);
        self.address(1, to);
        self.code.call(op::READ_KERNEL_STRING);
        self.code.place(none);
        Ok(to)
    }

    /// The length of a string into register 0.
    pub(in crate::codegen) fn length(&mut self, from: Location) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let to = self.new_string()?;
        let known = self.forgotten()?;
        let size = self.strsize();
        self.address(1, to);
        self.code.constant(2, size.into());
        self.address(3, from);
        self.code.call(op::READ_KERNEL_STRING);
        self.code.alu_imm(Alu::Sub, 0, 1);
        let fine = self.code.label();
        self.code.jump_imm(Jump::SGe, 0, 0, fine);
        self.code.constant(0, 0);
        self.code.place(fine);
        self.store_word(known, 0);
        self.load_word(0, known);
        self.frame.release(mark);
        Ok(())
    }

    pub(super) fn strjoin(&mut self, a: &Expr, b: &Expr) -> Result<Location, CodeError> {
        let size = self.strsize();
        let to = self.frame.buffer(2 * size)?;
        let mark = self.frame.mark();
        let (left, right) = (self.string(a)?, self.string(b)?);
        let at = self.forgotten()?;
        self.zero(to, size);
        self.length(left)?;
        self.store_word(at, 0);
        for (from, is_second) in [(left, false), (right, true)] {
            self.address(1, to);
            if is_second {
                let fine = self.code.label();
                self.load_word(4, at);
                self.code.jump_imm(Jump::Lt, 4, size as i32, fine);
                self.code.constant(4, 0);
                self.code.place(fine);
                self.code.alu(Alu::Add, 1, 4);
            }
            self.code.constant(2, size.into());
            self.address(3, from);
            self.code.call(op::READ_KERNEL_STRING);
        }
        // What is too long ends with the first half.
        self.code.constant(0, 0);
        self.store_at(Width::W1, to.plus(size - 1), 0);
        self.frame.release(mark);
        Ok(to)
    }

    /// `substr(text, index, length)`: a negative index counts from the end, a negative length leaves so many out there.
    pub(super) fn substr(&mut self, arguments: &[Expr]) -> Result<Location, CodeError> {
        let text = self.string(&arguments[0])?;
        let (index, rest) = (self.forgotten()?, self.forgotten()?);
        let size = self.strsize() as i32;
        self.signed_value(&arguments[1])?;
        self.store_word(index, 0);
        match arguments.get(2) {
            Some(length) => self.signed_value(length)?,
            None => self.code.constant(0, size.into()),
        }
        self.store_word(rest, 0);
        self.length(text)?;
        self.load_word(1, index);
        self.load_word(2, rest);
        let [from_start, none, all, done] = self.code.labels();
        self.code.jump_imm(Jump::SGe, 1, 0, from_start);
        self.code.alu(Alu::Add, 1, 0);
        self.code.jump_imm(Jump::SGe, 1, 0, from_start);
        // What is before the start is not there: the rest of the length counts.
        self.code.alu(Alu::Add, 2, 1);
        self.code.jump_imm(Jump::SLe, 2, 0, none);
        self.code.constant(1, 0);
        self.code.place(from_start);
        self.code.jump_if(Jump::SGe, 1, 0, none);
        self.code.jump_imm(Jump::SGe, 2, 0, all);
        self.code.alu(Alu::Add, 2, 0);
        self.code.alu(Alu::Sub, 2, 1);
        self.code.jump_imm(Jump::SGe, 2, 0, all);
        self.code.place(none);
        self.code.constant(1, -1);
        self.code.place(all);
        self.code.jump_imm(Jump::SLe, 2, size, done);
        self.code.constant(2, size.into());
        self.code.place(done);
        self.store_word(index, 1);
        self.store_word(rest, 2);
        self.piece(text, index, Some(rest))
    }

    /// A number with its sign, whatever its type's size.
    pub(super) fn signed_value(&mut self, e: &Expr) -> Result<(), CodeError> {
        self.value(e)?;
        let (size, signed) = self.shape(e.ty);
        self.cut(0, size, signed);
        Ok(())
    }

    /// A constant byte at a place that register 8 counts.
    pub(super) fn put_byte(&mut self, at: Location, byte: u8) {
        self.address(2, at);
        self.code.alu(Alu::Add, 2, 8);
        self.code
            .emit(Instruction::store_imm(Width::W1, 2, 0, byte.into()));
    }
}
