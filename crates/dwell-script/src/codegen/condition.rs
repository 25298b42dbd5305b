//! Conditions: jumps instead of truth values.
use super::assembler::Label;
use super::error::CodeError;
use super::fields::is_string;
use super::operators::condition_of;
use super::program::Maker;
use crate::typed::*;
use dwell_abi::program::instruction::{Alu, Jump};

impl Maker<'_, '_> {
    /// Jumps if an expression is 0, and goes on if it is not.
    pub(super) fn unless(&mut self, e: &Expr, no: Label) -> Result<(), CodeError> {
        match &e.kind {
            ExprKind::Binary(operator, a, b) if condition_of(*operator, false).is_some() => {
                self.unless_compared(*operator, a, b, no)
            }
            ExprKind::And(a, b) => {
                self.unless(a, no)?;
                self.unless(b, no)
            }
            ExprKind::Or(a, b) => {
                let [second, yes] = self.code.labels();
                self.unless(a, second)?;
                self.code.jump(yes);
                self.code.place(second);
                self.unless(b, no)?;
                self.code.place(yes);
                Ok(())
            }
            ExprKind::Unary(Unary::Not, a) => {
                let otherwise = self.code.label();
                self.unless(a, otherwise)?;
                self.code.jump(no);
                self.code.place(otherwise);
                Ok(())
            }
            _ if is_string(&self.script.types, e.ty) => self.string(e).map(drop),
            _ => {
                self.value(e)?;
                self.code.jump_imm(Jump::Eq, 0, 0, no);
                Ok(())
            }
        }
    }

    /// The truth of `&&`, `||` and `^^` as a number.
    pub(super) fn truth(&mut self, e: &Expr) -> Result<(), CodeError> {
        if let ExprKind::Xor(a, b) = &e.kind {
            let mark = self.frame.mark();
            self.value(a)?;
            self.normalise_truth();
            let left = self.spill()?;
            self.value(b)?;
            self.normalise_truth();
            self.load_word(1, left);
            self.code.alu(Alu::Xor, 0, 1);
            self.frame.release(mark);
            return Ok(());
        }
        let [no, done] = self.code.labels();
        self.unless(e, no)?;
        self.code.constant(0, 1);
        self.code.jump(done);
        self.code.place(no);
        self.code.constant(0, 0);
        self.code.place(done);
        Ok(())
    }
}
