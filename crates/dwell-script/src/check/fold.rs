//! Operators on constants.

use super::Checker;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Binary, Expr, ExprKind};
use crate::types::TypeId;

impl Checker<'_> {
    /// The value of an operation on two constants of the type `ty`, if both are.
    pub(super) fn folded(
        &self,
        operator: Binary,
        left: &Expr,
        right: &Expr,
        ty: TypeId,
        span: Span,
    ) -> Checked<Option<i64>> {
        let divides = matches!(operator, Binary::Divide | Binary::Remainder);
        if divides && matches!(right.kind, ExprKind::Int(0)) {
            let message = "expression contains division by zero";
            return Err(Fault::new(Tag::DivZero, span, message));
        }
        let (&ExprKind::Int(a), &ExprKind::Int(b)) = (&left.kind, &right.kind) else {
            return Ok(None);
        };
        let signed = self.types().is_signed(ty);
        Ok(Some(compute(operator, a, b, signed)))
    }

    /// A constant cut to the size of its type.
    pub(super) fn cut(&self, value: i64, ty: TypeId) -> i64 {
        let size = self.types().size(ty).unwrap_or(8);
        if size == 0 || size >= 8 {
            return value;
        }
        let unused = 64 - 8 * size as u32;
        match self.types().is_signed(ty) {
            true => value << unused >> unused,
            false => ((value as u64) << unused >> unused) as i64,
        }
    }
}

fn compute(operator: Binary, a: i64, b: i64, signed: bool) -> i64 {
    let (x, y) = (a as u64, b as u64);
    let shift = (b & 63) as u32;
    match operator {
        Binary::Add => a.wrapping_add(b),
        Binary::Subtract => a.wrapping_sub(b),
        Binary::Multiply => a.wrapping_mul(b),
        Binary::Divide if signed => a.wrapping_div(b),
        Binary::Divide => (x / y) as i64,
        Binary::Remainder if signed => a.wrapping_rem(b),
        Binary::Remainder => (x % y) as i64,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::ShiftLeft => a.wrapping_shl(shift),
        Binary::ShiftRight if signed => a.wrapping_shr(shift),
        Binary::ShiftRight => x.wrapping_shr(shift) as i64,
        Binary::Equal => i64::from(a == b),
        Binary::NotEqual => i64::from(a != b),
        Binary::Less => i64::from(if signed { a < b } else { x < y }),
        Binary::LessEqual => i64::from(if signed { a <= b } else { x <= y }),
        Binary::Greater => i64::from(if signed { a > b } else { x > y }),
        Binary::GreaterEqual => i64::from(if signed { a >= b } else { x >= y }),
    }
}
