//! Assignments, compound assignments and `++`.

use super::Checker;
use super::arith::{is_null, text};
use crate::ast;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Binary, Expr, ExprKind, Place, PlaceKind, Scope};
use crate::types::{Type, TypeId};

impl Checker<'_> {
    pub(super) fn assign(
        &mut self,
        operation: Option<Binary>,
        to: &ast::Expr,
        value: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        match operation {
            Some(operation) => self.update(operation, to, value, span),
            None => self.plain_assign(to, value, span),
        }
    }

    fn plain_assign(&mut self, to: &ast::Expr, value: &ast::Expr, span: Span) -> Checked<Expr> {
        let value = self.expr(value)?;
        let place = match self.dynamic_place(to, Some(&value))? {
            Some(place) => place,
            None => self.modifiable(to, "=")?,
        };
        let ty = place.ty;
        let value = match self.deletes(&place, &value) {
            true if self.types().is_string(ty) => self.string("", value.span),
            true => self.int(0, ty, value.span),
            false => self.assigned_to(value, ty, span)?,
        };
        let kind = ExprKind::Assign(place.into(), value.into());
        Ok(Expr { kind, ty, span })
    }

    /// Whether 0 is assigned to a thread's variable or an array's element, which frees it whatever its type.
    fn deletes(&self, place: &Place, value: &Expr) -> bool {
        is_null(value)
            && match place.kind {
                PlaceKind::Element(..) => true,
                PlaceKind::Variable(id) => {
                    self.script.variables[id.0 as usize].scope == Scope::Thread
                }
                _ => false,
            }
    }

    /// A value converted to a place's type, or the error that it cannot be.
    fn assigned_to(&mut self, value: Expr, ty: TypeId, span: Span) -> Checked<Expr> {
        let types = self.types();
        let array = matches!(types.actual(ty), Type::Array { .. } | Type::Function);
        if array {
            let message = format!(
                "operator = may not be applied to operand of type \"{}\"",
                types.name(ty)
            );
            return Err(Fault::new(Tag::OpArrfun, span, message));
        }
        if types.is_record(ty) && types.name(value.ty) == types.name(ty) {
            return Ok(value);
        }
        if !self.assignable(&value, ty) {
            let to = self.int(0, ty, span);
            return Err(self.incompatible("=", &to, &value, span));
        }
        Ok(self.convert_or_null(value, ty))
    }

    /// A value for a parameter or a key of the type.
    pub(super) fn assigned(&mut self, value: Expr, ty: TypeId) -> Checked<Expr> {
        let span = value.span;
        self.assigned_to(value, ty, span)
    }

    /// A variable or an element of an array. A first assignment makes it: of the value's type, or of 64 bits where
    /// it is counted up before it has one.
    fn dynamic_place(&mut self, to: &ast::Expr, value: Option<&Expr>) -> Checked<Option<Place>> {
        if let ast::ExprKind::Index(of, keys) = &to.kind {
            return self.element_place(of, keys, value, to.span);
        }
        let Some((scope, name)) = self.variable_named(to) else {
            return Ok(None);
        };
        let id = match self.variable(scope, name) {
            Some(id) => id,
            None => {
                let ty = self.new_type(value, to.span)?;
                self.new_variable(scope, name, ty, None)
            }
        };
        let read = self.read_variable(id, to.span)?;
        Ok(into_place(read))
    }

    fn element_place(
        &mut self,
        of: &ast::Expr,
        keys: &[ast::Expr],
        value: Option<&Expr>,
        span: Span,
    ) -> Checked<Option<Place>> {
        let Some((scope, name)) = self.variable_named(of) else {
            return Ok(None);
        };
        if let Some(id) = self.variable(scope, name) {
            return match self.script.variables[id.0 as usize].keys {
                Some(_) => self.element(id, keys, span).map(into_place),
                None => Ok(None),
            };
        }
        if scope == Scope::Clause {
            let message = format!("local variables may not be used as associative arrays: {name}");
            return Err(Fault::new(Tag::ArrLocal, span, message));
        }
        let mut key_types = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            let key = self.key(key, "associative array", at)?;
            key_types.push(key.ty);
        }
        let ty = self.new_type(value, span)?;
        let id = self.new_variable(scope, name, ty, Some(key_types));
        self.element(id, keys, span).map(into_place)
    }

    /// The type that a variable gets from the first value assigned to it.
    fn new_type(&self, value: Option<&Expr>, span: Span) -> Checked<TypeId> {
        let Some(value) = value else {
            return Ok(self.common.int64);
        };
        let types = self.types();
        Ok(match types.actual(value.ty) {
            Type::Array { of, .. } if types.is_char(*of) => self.common.string,
            Type::Void => {
                let message = format!(
                    "operands have incompatible types: \"<DYN>\" = \"{}\"",
                    types.name(value.ty)
                );
                return Err(Fault::new(Tag::OpIncompat, span, message));
            }
            _ => value.ty,
        })
    }

    fn update(
        &mut self,
        operation: Binary,
        to: &ast::Expr,
        value: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        let operator = format!("{}=", text(operation));
        let value = self.value(value)?;
        let place = match self.dynamic_place(to, None)? {
            Some(place) => place,
            None => self.modifiable(to, &operator)?,
        };
        let ty = place.ty;
        let types = self.types();
        let additive = matches!(operation, Binary::Add | Binary::Subtract);
        let step = match types.actual(ty) {
            Type::Pointer(of) if additive && types.is_int(value.ty) => self.step_of(*of),
            _ => None,
        };
        if let Some(size) = step {
            let value = self.scaled(value, size);
            let kind = ExprKind::Update(place.into(), operation, value.into());
            return Ok(Expr { kind, ty, span });
        }
        if !types.is_int(ty) || !types.is_int(value.ty) {
            return Err(self.update_mismatch(operation, ty, &value, span));
        }
        self.folded(operation, &self.int(1, ty, span), &value, ty, span)?;
        Ok(self.integer_update(place, operation, value, span))
    }

    /// The order of the operation counts where its result depends on the upper bits: then it is written out.
    fn integer_update(&mut self, place: Place, operation: Binary, value: Expr, span: Span) -> Expr {
        let ty = place.ty;
        let wide = matches!(
            operation,
            Binary::Divide | Binary::Remainder | Binary::ShiftRight
        );
        let common = self.common_type(ty, value.ty);
        let simple = matches!(place.kind, PlaceKind::Variable(_) | PlaceKind::Part(..));
        if !wide || !simple || self.types().compatible(common, ty) {
            let value = self.convert(value, ty);
            let kind = ExprKind::Update(place.into(), operation, value.into());
            return Expr { kind, ty, span };
        }
        let old = Expr {
            kind: ExprKind::Read(place.clone().into()),
            ty,
            span,
        };
        let (old, value) = (self.convert(old, common), self.convert(value, common));
        let kind = ExprKind::Binary(operation, old.into(), value.into());
        let result = self.convert(
            Expr {
                kind,
                ty: common,
                span,
            },
            ty,
        );
        let kind = ExprKind::Assign(place.into(), result.into());
        Expr { kind, ty, span }
    }

    fn update_mismatch(
        &self,
        operation: Binary,
        ty: TypeId,
        value: &Expr,
        span: Span,
    ) -> Box<Fault> {
        let operator = format!("{}=", text(operation));
        let needs = match operation {
            Binary::Add | Binary::Subtract
                if matches!(self.types().actual(ty), Type::Pointer(_)) =>
            {
                let message =
                    format!("operator {operator} requires left-hand scalar operand of known size");
                return Fault::new(Tag::OpVfptr, span, message);
            }
            Binary::Add | Binary::Subtract => {
                let to = self.int(0, ty, span);
                return self.incompatible(&operator, &to, value, span);
            }
            Binary::Multiply | Binary::Divide => (Tag::OpArith, "arithmetic"),
            _ => (Tag::OpInt, "integral"),
        };
        let message = format!("operator {operator} requires operands of {} type", needs.1);
        Fault::new(needs.0, span, message)
    }

    /// `++x` and the like.
    pub(super) fn step(
        &mut self,
        of: &ast::Expr,
        by: i64,
        postfix: bool,
        span: Span,
    ) -> Checked<Expr> {
        let operator = if by > 0 { "++" } else { "--" };
        let place = match self.dynamic_place(of, None)? {
            Some(place) => place,
            None => self.modifiable(of, operator)?,
        };
        let ty = place.ty;
        let amount = match self.types().actual(ty) {
            Type::Int { .. } | Type::Enum { .. } => Some(1),
            Type::Pointer(of) => self.step_of(*of).map(|size| size as i64),
            _ => {
                let message = format!("operator {operator} requires operand of scalar type");
                return Err(Fault::new(Tag::OpScalar, span, message));
            }
        };
        let Some(amount) = amount else {
            let message = format!("operator {operator} requires an operand of known size");
            return Err(Fault::new(Tag::OpVfptr, span, message));
        };
        let place = place.into();
        let kind = ExprKind::Step {
            place,
            by: by * amount,
            postfix,
        };
        Ok(Expr { kind, ty, span })
    }

    /// Anything else that can stand to the left of an assignment.
    fn modifiable(&mut self, to: &ast::Expr, operator: &str) -> Checked<Place> {
        let value = match &to.kind {
            ast::ExprKind::Aggregation(name) => {
                let message =
                    format!("@{name} must be assigned the result of an aggregating function");
                return Err(Fault::new(Tag::AggFunc, to.span, message));
            }
            _ => self.expr(to)?,
        };
        let unwritable = || {
            let message = format!("operator {operator} can only be applied to a writable variable");
            Fault::new(Tag::OpWrite, to.span, message)
        };
        match value.kind {
            ExprKind::Read(place) if self.is_writable(&place) => Ok(*place),
            ExprKind::Read(_) | ExprKind::Builtin(_) => Err(unwritable()),
            ExprKind::Cast(_) if matches!(to.kind, ast::ExprKind::Index(..)) => Err(unwritable()),
            _ => {
                let message =
                    format!("operator {operator} requires modifiable lvalue as an operand");
                Err(Fault::new(Tag::OpLval, to.span, message))
            }
        }
    }

    /// Variables, and memory that a variable or an allocation points to; never the target's by its symbols.
    fn is_writable(&self, place: &Place) -> bool {
        match &place.kind {
            PlaceKind::Variable(_)
            | PlaceKind::Element(..)
            | PlaceKind::ElementPart(..)
            | PlaceKind::Part(..) => true,
            PlaceKind::ThreadPointer { .. } => false,
            PlaceKind::Memory(address) | PlaceKind::Bits { address, .. } => {
                self.is_writable_base(address)
            }
        }
    }

    fn is_writable_base(&self, address: &Expr) -> bool {
        use crate::typed::Function::{Alloca, Copyin};
        match &address.kind {
            ExprKind::Binary(_, left, _) => self.is_writable_base(left),
            ExprKind::Cast(of) => self.is_writable_base(of),
            ExprKind::Read(place) | ExprKind::AddressOf(place) | ExprKind::Step { place, .. } => {
                self.is_writable(place)
            }
            ExprKind::Call(function, _) => matches!(function, Alloca | Copyin),
            _ => false,
        }
    }
}

fn into_place(read: Expr) -> Option<Place> {
    match read.kind {
        ExprKind::Read(place) => Some(*place),
        _ => None,
    }
}
