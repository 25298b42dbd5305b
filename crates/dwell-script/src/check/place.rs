//! `&x`, `*p`, `a[i]`: places in memory and in variables.

use super::Checker;
use crate::ast;
use crate::builtins::variables::REGISTER_COUNT;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Binary, Builtin, Expr, ExprKind, Place, PlaceKind, Scope, VariableId};
use crate::types::{Type, TypeId};

impl Checker<'_> {
    pub(super) fn address_of(&mut self, of: &ast::Expr, span: Span) -> Checked<Expr> {
        if self.is_action(of) {
            return Err(Fault::new(
                Tag::AddrofLval,
                span,
                "unacceptable operand for unary & operator",
            ));
        }
        let of = self.expr(of)?;
        let types = self.types();
        let whole = types.is_record(of.ty) || matches!(types.actual(of.ty), Type::Array { .. });
        let (tag, message) = match of.kind {
            ExprKind::Read(place) => match place.kind {
                PlaceKind::Bits { .. } => (Tag::AddrofBitfield, "cannot take address of bit-field"),
                PlaceKind::Element(..) | PlaceKind::ElementPart(..) => {
                    (Tag::AddrofVar, "cannot take address of dynamic variable")
                }
                PlaceKind::Variable(_) if !whole => {
                    (Tag::AddrofVar, "cannot take address of dynamic variable")
                }
                _ => return Ok(self.address_of_place(*place, span)),
            },
            _ => (Tag::AddrofLval, "unacceptable operand for unary & operator"),
        };
        Err(Fault::new(tag, span, message))
    }

    pub(super) fn dereference(&mut self, of: &ast::Expr, span: Span) -> Checked<Expr> {
        let of = self.expr(of)?;
        let of = self.pointer(of);
        self.read_through(of, span)
    }

    /// The value that a pointer points to.
    fn read_through(&mut self, pointer: Expr, span: Span) -> Checked<Expr> {
        let types = self.types();
        let Some(ty) = types.element(pointer.ty) else {
            let message = "cannot dereference non-pointer type";
            return Err(Fault::new(Tag::DerefNonptr, span, message));
        };
        let (tag, message) = match types.actual(ty) {
            Type::Void => (
                Tag::DerefVoid,
                "cannot dereference pointer to void".to_owned(),
            ),
            Type::Function => (
                Tag::DerefFunc,
                "cannot dereference pointer to function".to_owned(),
            ),
            Type::Incomplete { .. } => {
                let ty = self.completed(ty);
                if !matches!(self.types().actual(ty), Type::Incomplete { .. }) {
                    return Ok(self.read_at(pointer, ty, span));
                }
                let name = self.type_text(ty);
                let message = format!(
                    "operator * cannot be applied to a forward declaration: no {name} definition is available"
                );
                (Tag::OpIncomplete, message)
            }
            _ => return Ok(self.read_at(pointer, ty, span)),
        };
        Err(Fault::new(tag, span, message))
    }

    /// The value of a type at an address; the address of a place is that place again.
    pub(super) fn read_at(&mut self, address: Expr, ty: TypeId, span: Span) -> Expr {
        let kind = match address.kind {
            ExprKind::AddressOf(place) => place.kind,
            _ => PlaceKind::Memory(address),
        };
        let kind = ExprKind::Read(Place { kind, ty }.into());
        Expr { kind, ty, span }
    }

    /// `of[keys]`: an element of an associative array, `args[]`, `uregs[]`, an inline's value, or `*(of + key)`.
    pub(super) fn index(
        &mut self,
        of: &ast::Expr,
        keys: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        if let ast::ExprKind::Name(name) = &of.kind
            && !self.is_bound(name)
        {
            if let Some(inline) = self.names.inlines.get(name).cloned()
                && inline.keys.is_some()
            {
                return self.inline_use(&inline, keys, span);
            }
            match &**name {
                "args" => return self.argument(keys, span),
                "uregs" => return self.register(keys, span),
                _ => {}
            }
        }
        if let Some((scope, name)) = self.variable_named(of) {
            let Some(id) = self.variable(scope, name) else {
                return Err(self.undefined_array(scope, name, span));
            };
            if self.script.variables[id.0 as usize].keys.is_some() {
                return self.element(id, keys, span);
            }
        }
        if let ast::ExprKind::Aggregation(name) = &of.kind {
            let message = format!("aggregation '@{name}' may not be referenced as a value");
            return Err(Fault::new(Tag::OpDyn, span, message));
        }
        self.element_of_pointer(of, keys, span)
    }

    fn undefined_array(&self, scope: Scope, name: &str, span: Span) -> Box<Fault> {
        let mut fault = self.undefined(scope, name, span);
        if scope == Scope::Global {
            fault.tag = Tag::VarUndef;
            fault.message = format!("{name} has not yet been declared or assigned");
        }
        fault
    }

    /// An element of an associative array, its keys of the types they had at first.
    pub(super) fn element(
        &mut self,
        id: VariableId,
        keys: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let variable = &self.script.variables[id.0 as usize];
        let (name, ty) = (variable.name.clone(), variable.ty);
        let wanted = variable.keys.clone().unwrap_or_default();
        let keys = self.keys(&name, "", keys, &wanted, span)?;
        let kind = PlaceKind::Element(id, keys);
        let kind = ExprKind::Read(Place { kind, ty }.into());
        Ok(Expr { kind, ty, span })
    }

    fn element_of_pointer(
        &mut self,
        of: &ast::Expr,
        keys: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let base = self.expr(of)?;
        if !self.types().is_pointer_like(base.ty) && !self.types().is_string(base.ty) {
            if let Some((_, name)) = self.variable_named(of) {
                let message = format!("scalar '{name}' may not be referenced as associative array");
                return Err(Fault::new(Tag::IdentBadref, span, message));
            }
            let index = self.value(&keys[0])?;
            return Err(self.incompatible("+", &base, &index, span));
        }
        if keys.len() != 1 {
            let message = "cannot access a pointer or an array as an associative array";
            return Err(Fault::new(Tag::ArrBadref, span, message));
        }
        let index = self.value(&keys[0])?;
        self.check_bounds(&base, &index, span)?;
        let pointer = self.pointer(base);
        self.complete_element(pointer.ty);
        let size = self
            .types()
            .element(pointer.ty)
            .and_then(|of| self.step_of(of));
        let Some(size) = size.filter(|_| self.types().is_int(index.ty)) else {
            return Err(self.incompatible("+", &pointer, &index, span));
        };
        if let (ExprKind::AddressOf(place), ExprKind::Int(at)) = (&pointer.kind, &index.kind)
            && let Some(kind) = moved_place(&place.kind, at.wrapping_mul(size as i64))
        {
            let ty = place.ty;
            let kind = ExprKind::Read(Place { kind, ty }.into());
            return Ok(Expr { kind, ty, span });
        }
        let pointer = self.offset(Binary::Add, pointer, index, size, span);
        self.read_through(pointer, span)
    }

    fn check_bounds(&self, base: &Expr, index: &Expr, span: Span) -> Checked<()> {
        let (Type::Array { count, .. }, ExprKind::Int(at)) =
            (self.types().actual(base.ty), &index.kind)
        else {
            return Ok(());
        };
        let outside = *at as u64 >= u64::from(*count);
        if *count <= 1 || !outside {
            return Ok(()); // Arrays of 0 and 1 element stand for more at the end of structures.
        }
        let message = format!("index outside array bounds: {at}, max is {count}");
        Err(Fault::new(Tag::ArrBounds, span, message))
    }

    /// `uregs[n]`.
    fn register(&mut self, keys: &[ast::Expr], span: Span) -> Checked<Expr> {
        let at = self.constant_index("uregs", keys, span)?;
        if !(0..REGISTER_COUNT).contains(&at) {
            let message = format!("index {at} is out of range for array uregs");
            return Err(Fault::new(Tag::RegsIdx, span, message));
        }
        let kind = ExprKind::Builtin(Builtin::Register(at as u8));
        let ty = self.common.uint64;
        Ok(Expr { kind, ty, span })
    }

    /// The only key, a constant.
    pub(super) fn constant_index(
        &mut self,
        name: &str,
        keys: &[ast::Expr],
        span: Span,
    ) -> Checked<i64> {
        let [key] = keys else {
            let message = format!(
                "{name}[ ] prototype mismatch: {} args passed, 1 expected",
                keys.len()
            );
            return Err(Fault::new(Tag::ProtoLen, span, message));
        };
        let key = self.value(key)?;
        match key.kind {
            ExprKind::Int(at) => Ok(at),
            _ => {
                let message = format!(
                    "{name}[ ] argument #1 is incompatible with prototype:\n\tprototype: integer constant\n\t argument: {}",
                    self.type_text(key.ty)
                );
                Err(Fault::new(Tag::ProtoArg, span, message))
            }
        }
    }
}

/// A part of a variable or an element, or another thread-local place, some bytes further on.
pub(super) fn moved_place(kind: &PlaceKind, by: i64) -> Option<PlaceKind> {
    match kind {
        PlaceKind::Variable(id) => Some(PlaceKind::Part(*id, u32::try_from(by).ok()?)),
        PlaceKind::Part(id, offset) => {
            let offset = i64::from(*offset).checked_add(by)?;
            Some(PlaceKind::Part(*id, u32::try_from(offset).ok()?))
        }
        PlaceKind::Element(id, keys) => {
            let offset = u32::try_from(by).ok()?;
            Some(PlaceKind::ElementPart(*id, keys.clone(), offset))
        }
        PlaceKind::ElementPart(id, keys, offset) => {
            let offset = u32::try_from(i64::from(*offset).checked_add(by)?).ok()?;
            Some(PlaceKind::ElementPart(*id, keys.clone(), offset))
        }
        PlaceKind::ThreadPointer { offset } => Some(PlaceKind::ThreadPointer {
            offset: offset.wrapping_add(by),
        }),
        _ => None,
    }
}
