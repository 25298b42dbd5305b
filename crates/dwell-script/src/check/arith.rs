//! Operators on two values and their types: dtrace's rules, which follow C's but never promote to `int` alone.

use super::Checker;
use crate::ast;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Binary, Expr, ExprKind};
use crate::types::{Type, TypeId};

impl Checker<'_> {
    pub(super) fn binary(
        &mut self,
        operator: Binary,
        left: &ast::Expr,
        right: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let left = self.value(left)?;
        let right = match self.enumerator_of(&left, operator, right)? {
            Some(value) => value,
            None => self.value(right)?,
        };
        match operator {
            Binary::Add | Binary::Subtract => self.additive(operator, left, right, span),
            Binary::Multiply | Binary::Divide => {
                self.integral(operator, left, right, span, Tag::OpArith, "arithmetic")
            }
            _ if is_comparison(operator) => self.comparison(operator, left, right, span),
            _ => self.integral(operator, left, right, span, Tag::OpInt, "integral"),
        }
    }

    /// To the right of a comparison with an enumeration its enumerators can be named.
    fn enumerator_of(
        &self,
        left: &Expr,
        operator: Binary,
        right: &ast::Expr,
    ) -> Checked<Option<Expr>> {
        let ast::ExprKind::Name(name) = &right.kind else {
            return Ok(None);
        };
        let Type::Enum { values, .. } = self.types().actual(left.ty) else {
            return Ok(None);
        };
        let Some((_, value)) = values.iter().find(|(known, _)| known == name) else {
            return Ok(None);
        };
        if !is_comparison(operator) {
            return Ok(None);
        }
        if self.variable(crate::typed::Scope::Global, name).is_some() {
            let message = format!(
                "ambiguous use of operator {}: {name} is both a {} enum tag and a global scalar",
                text(operator),
                self.type_text(left.ty)
            );
            return Err(Fault::new(Tag::IdentAmbig, right.span, message));
        }
        Ok(Some(self.int(*value, left.ty, right.span)))
    }

    /// Operators that only take integers; floating-point numbers are carried, not computed with.
    fn integral(
        &mut self,
        operator: Binary,
        left: Expr,
        right: Expr,
        span: Span,
        tag: Tag,
        needs: &str,
    ) -> Checked<Expr> {
        if !self.types().is_int(left.ty) || !self.types().is_int(right.ty) {
            let message = format!(
                "operator {} requires operands of {needs} type",
                text(operator)
            );
            return Err(Fault::new(tag, span, message));
        }
        self.on_integers(operator, left, right, span)
    }

    fn on_integers(
        &mut self,
        operator: Binary,
        left: Expr,
        right: Expr,
        span: Span,
    ) -> Checked<Expr> {
        let ty = self.common_type(left.ty, right.ty);
        let left = self.convert(left, ty);
        let right = self.convert(right, ty);
        if let Some(value) = self.folded(operator, &left, &right, ty, span)? {
            return Ok(self.int(value, ty, span));
        }
        let kind = ExprKind::Binary(operator, left.into(), right.into());
        Ok(Expr { kind, ty, span })
    }

    fn additive(&mut self, operator: Binary, left: Expr, right: Expr, span: Span) -> Checked<Expr> {
        let (left, right) = (self.pointer(left), self.pointer(right));
        self.complete_element(left.ty);
        self.complete_element(right.ty);
        let types = self.types();
        let step = |ty| types.element(ty).and_then(|of| self.step_of(of));
        match (types.is_int(left.ty), types.is_int(right.ty)) {
            (true, true) => return self.on_integers(operator, left, right, span),
            (false, true) => {
                if let Some(size) = step(left.ty) {
                    return Ok(self.offset(operator, left, right, size, span));
                }
            }
            (true, false) if operator == Binary::Add => {
                if let Some(size) = step(right.ty) {
                    return Ok(self.offset(operator, right, left, size, span));
                }
            }
            (false, false)
                if operator == Binary::Subtract && self.pointers_match(&left, &right) =>
            {
                if let Some(size) = step(left.ty).or(step(right.ty)) {
                    return Ok(self.difference(left, right, size, span));
                }
            }
            _ => {}
        }
        Err(self.incompatible(text(operator), &left, &right, span))
    }

    /// Bytes between neighbours; none for `void`, functions and unknown types.
    pub(super) fn step_of(&self, of: TypeId) -> Option<u64> {
        let size = self.types().size(of);
        size.filter(|_| !self.types().is_void(of))
    }

    /// Pointer plus or minus a number of elements.
    pub(super) fn offset(
        &mut self,
        operator: Binary,
        pointer: Expr,
        count: Expr,
        size: u64,
        span: Span,
    ) -> Expr {
        let ty = pointer.ty;
        let count = self.scaled(count, size);
        if let ExprKind::Int(count) = count.kind {
            let count = if operator == Binary::Add {
                count
            } else {
                count.wrapping_neg()
            };
            return self.moved(pointer, count, ty, span);
        }
        let kind = ExprKind::Binary(operator, pointer.into(), count.into());
        Expr { kind, ty, span }
    }

    /// A number of elements in bytes, of 64 bits.
    pub(super) fn scaled(&mut self, count: Expr, size: u64) -> Expr {
        let (ty, span) = (self.common.long, count.span);
        let count = self.convert(count, ty);
        match count.kind {
            ExprKind::Int(value) => self.int(value.wrapping_mul(size as i64), ty, span),
            _ if size == 1 => count,
            _ => {
                let size = self.int(size as i64, ty, span);
                let kind = ExprKind::Binary(Binary::Multiply, count.into(), size.into());
                Expr { kind, ty, span }
            }
        }
    }

    /// An address some bytes further on, constants added up.
    pub(super) fn moved(&mut self, address: Expr, by: i64, ty: TypeId, span: Span) -> Expr {
        let long = self.common.long;
        let (base, by) = match address.kind {
            ExprKind::Int(value) => return self.int(value.wrapping_add(by), ty, span),
            ExprKind::Binary(Binary::Add, base, more) if matches!(more.kind, ExprKind::Int(_)) => {
                let ExprKind::Int(more) = more.kind else {
                    unreachable!("just matched")
                };
                (base, by.wrapping_add(more))
            }
            kind => (Box::new(Expr { kind, ..address }), by),
        };
        if by == 0 {
            return Expr { ty, span, ..*base };
        }
        let by = self.int(by, long, span);
        let kind = ExprKind::Binary(Binary::Add, base, by.into());
        Expr { kind, ty, span }
    }

    fn difference(&mut self, left: Expr, right: Expr, size: u64, span: Span) -> Expr {
        let ty = self.common.difference;
        let kind = ExprKind::Binary(Binary::Subtract, left.into(), right.into());
        let bytes = Expr { kind, ty, span };
        if size <= 1 {
            return bytes;
        }
        let size = self.int(size as i64, ty, span);
        let kind = ExprKind::Binary(Binary::Divide, bytes.into(), size.into());
        Expr { kind, ty, span }
    }

    /// The type of a value that is one of two.
    pub(super) fn either_type(&mut self, a: &Expr, b: &Expr) -> Option<TypeId> {
        let types = self.types();
        if types.is_int(a.ty) && types.is_int(b.ty) {
            return Some(self.common_type(a.ty, b.ty));
        }
        if types.is_string(a.ty) || types.is_string(b.ty) {
            let fits = |e: &Expr| types.is_string_like(e.ty) || is_null(e);
            return (fits(a) && fits(b)).then_some(self.common.string);
        }
        if types.compatible(a.ty, b.ty) {
            return Some(a.ty);
        }
        if self.pointers_match(a, b) {
            let a_says_more = types.element(a.ty).is_some_and(|of| !types.is_void(of));
            return Some(if a_says_more { a.ty } else { b.ty });
        }
        None
    }

    /// The type that integers of two types are computed in: the larger one, of equal ones the unsigned one.
    pub(super) fn common_type(&self, a: TypeId, b: TypeId) -> TypeId {
        let (a, b) = (self.promoted(a), self.promoted(b));
        let rank =
            |ty| 8 * self.types().size(ty).unwrap_or(0) + u64::from(!self.types().is_signed(ty));
        if rank(a) >= rank(b) { a } else { b }
    }

    /// Enumerations compute as `int`.
    pub(super) fn promoted(&self, ty: TypeId) -> TypeId {
        match self.types().actual(ty) {
            Type::Enum { .. } => self.common.int,
            _ => ty,
        }
    }

    /// Whether both are pointers to the same, one is a `void *`, or one is the constant 0.
    pub(super) fn pointers_match(&self, a: &Expr, b: &Expr) -> bool {
        let types = self.types();
        match (types.element(a.ty), types.element(b.ty)) {
            (Some(a), Some(b)) => types.is_void(a) || types.is_void(b) || types.compatible(a, b),
            (Some(_), None) => is_null(b),
            (None, Some(_)) => is_null(a),
            (None, None) => false,
        }
    }

    pub(super) fn incompatible(
        &self,
        operator: &str,
        left: &Expr,
        right: &Expr,
        span: Span,
    ) -> Box<Fault> {
        let (left, right) = (self.type_text(left.ty), self.type_text(right.ty));
        let message =
            format!("operands have incompatible types: \"{left}\" {operator} \"{right}\"");
        Fault::new(Tag::OpIncompat, span, message)
    }
}

/// The constant 0, `NULL` included.
pub(super) fn is_null(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::Int(0))
}

pub(super) fn is_comparison(operator: Binary) -> bool {
    use Binary::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    matches!(
        operator,
        Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual
    )
}

/// An operator as it is written.
pub(crate) fn text(operator: Binary) -> &'static str {
    match operator {
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::Remainder => "%",
        Binary::And => "&",
        Binary::Or => "|",
        Binary::Xor => "^",
        Binary::ShiftLeft => "<<",
        Binary::ShiftRight => ">>",
        Binary::Equal => "==",
        Binary::NotEqual => "!=",
        Binary::Less => "<",
        Binary::LessEqual => "<=",
        Binary::Greater => ">",
        Binary::GreaterEqual => ">=",
    }
}
