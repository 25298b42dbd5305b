//! Operators: register 0 becomes what it was, operator, register 1.
use super::assembler::Label;
use super::error::CodeError;
use super::fields::is_string;
use super::program::{FaultKind, Maker};
use crate::typed::*;
use dwell_abi::program::instruction::{Alu, Jump};

impl Maker<'_, '_> {
    pub(super) fn unary(&mut self, operator: Unary, a: &Expr) -> Result<(), CodeError> {
        self.value(a)?;
        match operator {
            Unary::Negate => self.code.alu_imm(Alu::Neg, 0, 0),
            Unary::Complement => self.code.alu_imm(Alu::Xor, 0, -1),
            Unary::Not => {
                self.normalise_truth();
                self.code.alu_imm(Alu::Xor, 0, 1);
            }
        }
        Ok(())
    }

    pub(super) fn binary(&mut self, operator: Binary, a: &Expr, b: &Expr) -> Result<(), CodeError> {
        if condition_of(operator, false).is_some() {
            return self.comparison(operator, a, b);
        }
        self.operands(a, b)?;
        let signed = self.shape(a.ty).1;
        self.operate(operator, signed)
    }

    /// Both operands: the left one in register 0, the right one in register 1.
    fn operands(&mut self, a: &Expr, b: &Expr) -> Result<(), CodeError> {
        if let ExprKind::Int(value) = b.kind {
            self.value(a)?;
            self.code.constant(1, value);
            return Ok(());
        }
        let mark = self.frame.mark();
        self.value(a)?;
        let left = self.spill()?;
        self.value(b)?;
        self.code.mov(1, 0);
        self.load_word(0, left);
        self.frame.release(mark);
        Ok(())
    }

    fn comparison(&mut self, operator: Binary, a: &Expr, b: &Expr) -> Result<(), CodeError> {
        let [no, done] = self.code.labels();
        self.unless_compared(operator, a, b, no)?;
        self.code.constant(0, 1);
        self.code.jump(done);
        self.code.place(no);
        self.code.constant(0, 0);
        self.code.place(done);
        Ok(())
    }

    /// Jumps if a comparison is false.
    pub(super) fn unless_compared(
        &mut self,
        operator: Binary,
        a: &Expr,
        b: &Expr,
        no: Label,
    ) -> Result<(), CodeError> {
        if is_string(&self.script.types, a.ty) || is_string(&self.script.types, b.ty) {
            return self.unless_strings(operator, a, b, no);
        }
        self.operands(a, b)?;
        let (size, signed) = self.shape(a.ty);
        for (register, operand) in [(0, a), (1, b)] {
            if is_computed(operand) {
                self.cut(register, size, signed);
            }
        }
        let opposite = condition_of(inverse(operator), signed).expect("an order or equality");
        self.code.jump_if(opposite, 0, 1, no);
        Ok(())
    }

    /// Register 0 `operator` register 1, of arithmetic only.
    pub(super) fn operate(&mut self, operator: Binary, signed: bool) -> Result<(), CodeError> {
        let op = match operator {
            Binary::Add => Alu::Add,
            Binary::Subtract => Alu::Sub,
            Binary::Multiply => Alu::Mul,
            Binary::And => Alu::And,
            Binary::Or => Alu::Or,
            Binary::Xor => Alu::Xor,
            Binary::ShiftLeft => Alu::Lsh,
            Binary::ShiftRight if signed => Alu::Arsh,
            Binary::ShiftRight => Alu::Rsh,
            Binary::Divide | Binary::Remainder => {
                self.divide(operator == Binary::Remainder, signed);
                return Ok(());
            }
            _ => unreachable!("comparisons are made elsewhere"),
        };
        if matches!(op, Alu::Lsh | Alu::Rsh | Alu::Arsh) {
            self.code.alu_imm(Alu::And, 1, 63);
        }
        self.code.alu(op, 0, 1);
        Ok(())
    }

    /// Division and remainder. The signed ones are made of unsigned ones: kernels before 6.6 have no others.
    fn divide(&mut self, remainder: bool, signed: bool) {
        let fine = self.code.label();
        self.code.jump_imm(Jump::Ne, 1, 0, fine);
        self.code.constant(2, 0);
        self.fault(FaultKind::DivisionByZero);
        self.code.place(fine);
        let op = if remainder { Alu::Mod } else { Alu::Div };
        if !signed {
            self.code.alu(op, 0, 1);
            return;
        }
        // The signs, all ones or zeros: of the dividend in 2, of the divisor in 3.
        for (value, sign) in [(0, 2), (1, 3)] {
            self.code.mov(sign, value);
            self.code.alu_imm(Alu::Arsh, sign, 63);
            self.negate_if(value, sign);
        }
        self.code.alu(op, 0, 1);
        if !remainder {
            self.code.alu(Alu::Xor, 2, 3);
        }
        self.negate_if(0, 2);
    }

    /// Negates a register if the other is all ones, not if it is 0.
    pub(super) fn negate_if(&mut self, value: u8, sign: u8) {
        self.code.alu(Alu::Xor, value, sign);
        self.code.alu(Alu::Sub, value, sign);
    }
}

/// Whether a value may have more bits than its type.
fn is_computed(e: &Expr) -> bool {
    matches!(
        e.kind,
        ExprKind::Binary(..)
            | ExprKind::Unary(..)
            | ExprKind::Conditional(..)
            | ExprKind::Comma(..)
    )
}

/// The jump of a comparison.
pub(super) fn condition_of(operator: Binary, signed: bool) -> Option<Jump> {
    Some(match (operator, signed) {
        (Binary::Equal, _) => Jump::Eq,
        (Binary::NotEqual, _) => Jump::Ne,
        (Binary::Less, true) => Jump::SLt,
        (Binary::Less, false) => Jump::Lt,
        (Binary::LessEqual, true) => Jump::SLe,
        (Binary::LessEqual, false) => Jump::Le,
        (Binary::Greater, true) => Jump::SGt,
        (Binary::Greater, false) => Jump::Gt,
        (Binary::GreaterEqual, true) => Jump::SGe,
        (Binary::GreaterEqual, false) => Jump::Ge,
        _ => return None,
    })
}

/// The comparison that is true when the other is false.
pub(super) fn inverse(operator: Binary) -> Binary {
    match operator {
        Binary::Equal => Binary::NotEqual,
        Binary::NotEqual => Binary::Equal,
        Binary::Less => Binary::GreaterEqual,
        Binary::LessEqual => Binary::Greater,
        Binary::Greater => Binary::LessEqual,
        Binary::GreaterEqual => Binary::Less,
        other => other,
    }
}
