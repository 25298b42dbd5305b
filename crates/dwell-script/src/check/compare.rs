//! Comparisons, `&&` and its kind, `?:`.

use super::Checker;
use super::arith::{is_null, text};
use crate::ast::{self, Logical};
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Binary, Expr, ExprKind};

impl Checker<'_> {
    pub(super) fn comparison(
        &mut self,
        operator: Binary,
        left: Expr,
        right: Expr,
        span: Span,
    ) -> Checked<Expr> {
        let ty = self.common.int;
        let types = self.types();
        let strings = types.is_string(left.ty) || types.is_string(right.ty);
        if strings {
            return self.string_comparison(operator, left, right, span);
        }
        let operands = match (types.is_int(left.ty), types.is_int(right.ty)) {
            (true, true) => self.common_type(left.ty, right.ty),
            _ if self.pointers_match(&left, &right) => self.common.ulong,
            _ if types.compatible(left.ty, right.ty) && types.is_scalar(left.ty) => left.ty,
            _ => return Err(self.incompatible(text(operator), &left, &right, span)),
        };
        let left = self.convert(left, operands);
        let right = self.convert(right, operands);
        if let (&ExprKind::Int(a), &ExprKind::Int(b)) = (&left.kind, &right.kind) {
            let left = self.int(self.cut(a, operands), operands, span);
            let right = self.int(self.cut(b, operands), operands, span);
            if let Some(value) = self.folded(operator, &left, &right, operands, span)? {
                return Ok(self.int(value, ty, span));
            }
        }
        let kind = ExprKind::Binary(operator, left.into(), right.into());
        Ok(Expr { kind, ty, span })
    }

    /// Strings compare by their bytes; a string is equal to `NULL` if it is empty, as an unset variable is.
    fn string_comparison(
        &mut self,
        operator: Binary,
        left: Expr,
        right: Expr,
        span: Span,
    ) -> Checked<Expr> {
        let mut operands = Vec::new();
        for operand in [&left, &right] {
            operands.push(if self.types().is_string_like(operand.ty) {
                let string = self.common.string;
                self.convert(operand.clone(), string)
            } else if is_null(operand) && matches!(operator, Binary::Equal | Binary::NotEqual) {
                self.string("", operand.span)
            } else {
                return Err(self.incompatible(text(operator), &left, &right, span));
            });
        }
        let (Some(right), Some(left)) = (operands.pop(), operands.pop()) else {
            unreachable!("two operands were pushed");
        };
        let kind = ExprKind::Binary(operator, left.into(), right.into());
        let ty = self.common.int;
        Ok(Expr { kind, ty, span })
    }

    pub(super) fn logical(
        &mut self,
        operator: Logical,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let left = self.value(left)?;
        let right = self.value(right)?;
        if !self.is_condition(left.ty) || !self.is_condition(right.ty) {
            let text = match operator {
                Logical::And => "&&",
                Logical::Or => "||",
                Logical::Xor => "^^",
            };
            let message = format!("operator {text} requires operands of scalar type");
            return Err(Fault::new(Tag::OpScalar, span, message));
        }
        let (left, right) = (left.into(), right.into());
        let kind = match operator {
            Logical::And => ExprKind::And(left, right),
            Logical::Or => ExprKind::Or(left, right),
            Logical::Xor => ExprKind::Xor(left, right),
        };
        let ty = self.common.int;
        Ok(Expr { kind, ty, span })
    }

    pub(super) fn conditional(
        &mut self,
        condition: &ast::Expr,
        then: &ast::Expr,
        otherwise: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        for branch in [then, otherwise] {
            if self.is_action(branch) {
                let message = "action cannot be used in a conditional context";
                return Err(Fault::new(Tag::OpAct, branch.span, message));
            }
        }
        let condition = self.value(condition)?;
        let then = self.value(then)?;
        let otherwise = self.value(otherwise)?;
        if !self.is_condition(condition.ty) {
            let message = "operator ?: expression must be of scalar type";
            return Err(Fault::new(Tag::OpScalar, span, message));
        }
        let Some(ty) = self.either_type(&then, &otherwise) else {
            let message = "operator ?: operands must have compatible types";
            return Err(Fault::new(Tag::OpIncompat, span, message));
        };
        let then = self.convert_or_null(then, ty);
        let otherwise = self.convert_or_null(otherwise, ty);
        let kind = ExprKind::Conditional(condition.into(), then.into(), otherwise.into());
        Ok(Expr { kind, ty, span })
    }
}
