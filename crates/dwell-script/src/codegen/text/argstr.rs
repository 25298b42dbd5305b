//! `argstr`: the strings of a command's arguments as one.
use super::super::error::CodeError;
use super::super::frame::Location;
use super::super::program::{FaultKind, Maker};
use crate::typed::Expr;
use dwell_abi::program::instruction::{Alu, Jump};
use dwell_abi::program::operation as op;

impl Maker<'_, '_> {
    /// `argstr(address, length)`: so many bytes of the target's memory, with blanks for the zeros between them.
    pub(super) fn argstr(&mut self, arguments: &[Expr]) -> Result<Location, CodeError> {
        let to = self.new_string()?;
        let mark = self.frame.mark();
        let (from, length) = (self.forgotten()?, self.forgotten()?);
        let most = self.strsize() as i32 - 1;
        self.zero_string(to);
        self.value(&arguments[0])?;
        self.store_word(from, 0);
        self.value(&arguments[1])?;
        let [fits, fine] = self.code.labels();
        self.code.jump_imm(Jump::Le, 0, most, fits);
        self.code.constant(0, most.into());
        self.code.place(fits);
        self.code.mov(2, 0);
        self.store_word(length, 0);
        self.address(1, to);
        self.load_word(3, from);
        self.code.call(op::READ_USER);
        self.code.jump_imm(Jump::Eq, 0, 0, fine);
        self.load_word(2, from);
        self.fault(FaultKind::BadAddress);
        self.code.place(fine);
        self.each_byte(to, |maker, done| {
            let full = maker.code.label();
            maker.load_word(2, length);
            maker.code.mov(3, 8);
            maker.code.alu_imm(Alu::Add, 3, 1);
            maker.code.jump_if(Jump::Ge, 3, 2, done);
            maker.code.jump_imm(Jump::Ne, 0, 0, full);
            maker.put_byte(to, b' ');
            maker.code.place(full);
        });
        self.frame.release(mark);
        Ok(to)
    }
}
