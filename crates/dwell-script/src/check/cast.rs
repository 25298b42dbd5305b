//! Conversions, said and unsaid; `sizeof`, `offsetof`, `stringof`.

use super::Checker;
use super::arith::is_null;
use crate::ast;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Expr, ExprKind, Place, PlaceKind};
use crate::types::{Type, TypeId};

impl Checker<'_> {
    /// `(type)x`.
    pub(super) fn cast(&mut self, ty: &ast::TypeName, of: &ast::Expr, span: Span) -> Checked<Expr> {
        let ty = self.type_name(ty)?;
        let of = self.expr(of)?;
        let types = self.types();
        let from_array =
            types.is_pointer_like(of.ty) && matches!(types.actual(ty), Type::Pointer(_));
        let to_string = types.is_string(ty)
            && (types.is_scalar(of.ty) || types.is_pointer_like(of.ty) || types.is_string(of.ty));
        let scalars = types.is_scalar(ty) && (types.is_scalar(of.ty) || types.is_string(of.ty));
        let fits =
            types.compatible(ty, of.ty) || from_array || to_string || scalars || types.is_void(ty);
        if !fits {
            let (from, to) = (types.name(of.ty), types.name(ty));
            let message = format!("invalid cast expression: \"{from}\" to \"{to}\"");
            return Err(Fault::new(Tag::CastInval, span, message));
        }
        let of = if to_string { of } else { self.decayed(of) };
        Ok(self.cast_to(of, ty, span))
    }

    /// A conversion that keeps the type's own name.
    fn cast_to(&mut self, of: Expr, ty: TypeId, span: Span) -> Expr {
        if let (ExprKind::Int(value), true) = (&of.kind, self.types().is_scalar(ty)) {
            return self.int(self.cut(*value, ty), ty, span);
        }
        if of.ty == ty {
            return of;
        }
        let kind = ExprKind::Cast(of.into());
        Expr { kind, ty, span }
    }

    /// A value as one of the type, where rules allow it without a cast.
    pub(super) fn convert(&mut self, value: Expr, ty: TypeId) -> Expr {
        let types = self.types();
        let span = value.span;
        if types.is_string(ty) {
            return match types.is_string(value.ty) {
                true => value,
                false => Expr {
                    kind: ExprKind::Cast(value.into()),
                    ty,
                    span,
                },
            };
        }
        let same = types.size(value.ty) == types.size(ty)
            && types.is_signed(value.ty) == types.is_signed(ty);
        let constant = matches!(value.kind, ExprKind::Int(_));
        if !types.is_scalar(ty) || !(types.is_scalar(value.ty) || types.is_pointer_like(value.ty)) {
            return value;
        }
        if (same && types.is_int(value.ty) == types.is_int(ty)) && !constant {
            return value;
        }
        let value = self.decayed(value);
        self.cast_to(value, ty, span)
    }

    /// Like [`Self::convert`]; a null pointer becomes an empty string where a string is wanted.
    pub(super) fn convert_or_null(&mut self, value: Expr, ty: TypeId) -> Expr {
        if self.types().is_string(ty) && is_null(&value) {
            return self.string("", value.span);
        }
        self.convert(value, ty)
    }

    /// Whether a value can be assigned to a place of the type, or passed for a parameter of it.
    pub(super) fn assignable(&self, value: &Expr, ty: TypeId) -> bool {
        let types = self.types();
        if types.is_int(ty) || types.is_int(value.ty) {
            let null = is_null(value) && (types.is_pointer_like(ty) || types.is_string(ty));
            return null || (types.is_int(ty) && types.is_int(value.ty));
        }
        if types.is_string(ty) || types.is_string(value.ty) {
            let null = is_null(value) && types.is_pointer_like(value.ty);
            return types.is_string(ty) && (types.is_string_like(value.ty) || null);
        }
        match (types.element(ty), types.element(value.ty)) {
            (Some(to), Some(from)) => {
                types.is_void(to) || types.is_void(from) || types.compatible(to, from)
            }
            (None, None) => types.compatible(ty, value.ty) && !types.is_void(ty),
            _ => false,
        }
    }

    pub(super) fn sizeof_type(&mut self, ty: &ast::TypeName, span: Span) -> Checked<Expr> {
        let ty = self.type_name(ty)?;
        self.size_constant(ty, span)
    }

    pub(super) fn sizeof_expr(&mut self, of: &ast::Expr, span: Span) -> Checked<Expr> {
        let of = self.expr(of)?;
        if let ExprKind::Read(place) = &of.kind
            && matches!(place.kind, PlaceKind::Bits { .. })
        {
            return Err(Fault::new(
                Tag::SizeofBitfield,
                span,
                "cannot apply sizeof to a bit-field",
            ));
        }
        self.size_constant(of.ty, span)
    }

    fn size_constant(&self, ty: TypeId, span: Span) -> Checked<Expr> {
        let size = match self.types().actual(ty) {
            Type::String => Some(self.options.number("strsize").unwrap_or(256) as u64),
            Type::Void => None,
            _ => self.types().size(ty),
        };
        match size {
            Some(size) => Ok(self.int(size as i64, self.common.size, span)),
            None => {
                let message = "cannot apply sizeof to an operand of unknown size";
                Err(Fault::new(Tag::SizeofType, span, message))
            }
        }
    }

    pub(super) fn offsetof(
        &mut self,
        ty: &ast::TypeName,
        member: &ast::Name,
        span: Span,
    ) -> Checked<Expr> {
        let ty = self.type_name(ty)?;
        let ty = self.completed(ty);
        if !self.types().is_record(ty) {
            let message = "offsetof operand must be a struct or union type";
            return Err(Fault::new(Tag::OffsetofType, span, message));
        }
        let found = self.find_member(ty, member)?;
        if found.bits.is_some() {
            let message = format!("cannot take offset of a bit-field: {}", member.text);
            return Err(Fault::new(Tag::OffsetofBitfield, span, message));
        }
        Ok(self.int(i64::from(found.offset_bits / 8), self.common.size, span))
    }

    pub(super) fn stringof(&mut self, of: &ast::Expr, span: Span) -> Checked<Expr> {
        let of = self.expr(of)?;
        let types = self.types();
        if !(types.is_scalar(of.ty) || types.is_pointer_like(of.ty) || types.is_string(of.ty)) {
            let message = format!(
                "cannot apply stringof to a value of type {}",
                types.name(of.ty)
            );
            return Err(Fault::new(Tag::StringofType, span, message));
        }
        let string = self.common.string;
        let of = if self.types().is_string_like(of.ty) {
            of
        } else {
            self.decayed(of)
        };
        let mut value = self.convert(of, string);
        value.span = span;
        Ok(value)
    }

    /// The address of a place as a pointer.
    pub(super) fn address_of_place(&mut self, place: Place, span: Span) -> Expr {
        let ty = self.script.types.add(Type::Pointer(place.ty));
        match place.kind {
            PlaceKind::Memory(address) => match address.kind {
                ExprKind::Int(value) => self.int(value, ty, span),
                kind if address.ty == ty => Expr { kind, ty, span },
                kind => {
                    let address = Expr { kind, ..address };
                    Expr {
                        kind: ExprKind::Cast(address.into()),
                        ty,
                        span,
                    }
                }
            },
            kind => {
                let place = Place { kind, ty: place.ty };
                Expr {
                    kind: ExprKind::AddressOf(place.into()),
                    ty,
                    span,
                }
            }
        }
    }
}
