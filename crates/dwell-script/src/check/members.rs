//! Members of structures and unions.

use super::Checker;
use super::place::moved_place;
use crate::ast;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Expr, ExprKind, Place, PlaceKind};
use crate::types::{Record, Type, TypeId, Types};
use crate::world::Keyword;

/// Where a member is: found through anonymous structures and base classes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub ty: TypeId,
    pub offset_bits: u32,
    pub bits: Option<u8>,
}

impl Checker<'_> {
    /// `of.name`, or with `arrow` `of->name`.
    pub(super) fn member(
        &mut self,
        of: &ast::Expr,
        name: &ast::Name,
        arrow: bool,
        span: Span,
    ) -> Checked<Expr> {
        if let Some(value) = self.translated_member(of, name, span)? {
            return Ok(value);
        }
        let operator = if arrow { "->" } else { "." };
        let base = match arrow {
            true => self.value(of)?,
            false => self.expr(of)?,
        };
        let ty = match (arrow, self.types().element(base.ty)) {
            (true, Some(ty)) => ty,
            (true, None) => {
                let message = "operator -> must be applied to a pointer";
                return Err(Fault::new(Tag::OpPtr, span, message));
            }
            (false, _) => base.ty,
        };
        let ty = self.completed(ty);
        if let Type::Incomplete { .. } = self.types().actual(ty) {
            let message = format!(
                "operator {operator} cannot be applied to a forward declaration: no {} definition is available",
                self.type_text(ty)
            );
            return Err(Fault::new(Tag::OpIncomplete, span, message));
        }
        if !self.types().is_record(ty) {
            return Err(self.not_a_record(arrow, ty, span));
        }
        let found = self.find_member(ty, name)?;
        let whole = if arrow {
            self.read_at(base, ty, span)
        } else {
            base
        };
        self.part_of(whole, found, span)
    }

    fn not_a_record(&self, arrow: bool, ty: TypeId, span: Span) -> Box<Fault> {
        let name = self.type_text(ty);
        let message = match arrow {
            true => format!(
                "operator -> cannot be applied to pointer to type \"{name}\"; must be applied to a struct or union pointer"
            ),
            false => format!(
                "operator . cannot be applied to type \"{name}\"; must be applied to a struct or union"
            ),
        };
        Fault::new(Tag::OpSou, span, message)
    }

    /// The definition of a type that was only declared where it was named.
    pub(super) fn completed(&mut self, ty: TypeId) -> TypeId {
        let Type::Incomplete { keyword, name } = self.types().actual(ty) else {
            return ty;
        };
        let (keyword, name) = (*keyword, name.clone());
        let asked = match keyword {
            "union" => Keyword::Union,
            "enum" => Keyword::Enum,
            _ => Keyword::Struct,
        };
        self.lookup_type(None, Some(asked), &name).unwrap_or(ty)
    }

    /// Learns the definition of what a pointer leads to, where its size matters.
    pub(super) fn complete_element(&mut self, pointer: TypeId) {
        if let Some(of) = self.types().element(pointer) {
            self.completed(of);
        }
    }

    /// The member of that name.
    pub(super) fn find_member(&self, ty: TypeId, name: &ast::Name) -> Checked<Found> {
        let Type::Record(record) = self.types().actual(ty) else {
            return Err(self.not_a_record(false, ty, name.span));
        };
        if let Some(found) = find(self.types(), record, &name.text, 0) {
            return Ok(found);
        }
        let message = format!("{} is not a member of {}", name.text, self.type_text(ty));
        let known = record.members.iter().map(|member| &*member.name);
        Err(Fault::new(Tag::TypeMember, name.span, message).suggesting(&name.text, known))
    }

    /// A member of the record that was read.
    fn part_of(&mut self, whole: Expr, found: Found, span: Span) -> Checked<Expr> {
        let ty = found.ty;
        let ExprKind::Read(place) = whole.kind else {
            let message = "operator . must be applied to a variable or to memory";
            return Err(Fault::new(Tag::OpLval, span, message));
        };
        let dynamic = matches!(
            place.kind,
            PlaceKind::Element(..) | PlaceKind::ElementPart(..)
        );
        if dynamic && found.bits.is_some() {
            let message = "bit-fields of structures in associative arrays cannot be named";
            return Err(Fault::new(Tag::VarUnsup, span, message));
        }
        let kind = match found.bits {
            None => self.place_at(*place, found.offset_bits / 8, ty, span),
            Some(width) => self.bits_at(*place, found, width, span),
        };
        let kind = ExprKind::Read(Place { kind, ty }.into());
        Ok(Expr { kind, ty, span })
    }

    fn place_at(&mut self, place: Place, offset: u32, ty: TypeId, span: Span) -> PlaceKind {
        if let Some(kind) = moved_place(&place.kind, offset.into()) {
            return kind;
        }
        let address = self.address_of_place(place, span);
        let pointer = self.script.types.add(Type::Pointer(ty));
        let address = match offset {
            0 => address,
            _ => self.moved(address, offset.into(), pointer, span),
        };
        PlaceKind::Memory(address)
    }

    /// A bit-field: the integer of its type that holds it.
    fn bits_at(&mut self, place: Place, found: Found, width: u8, span: Span) -> PlaceKind {
        let unit_bits = 8 * self.types().size(found.ty).unwrap_or(8).clamp(1, 8) as u32;
        let inside = found.offset_bits % unit_bits;
        let (start, shift) = match inside + u32::from(width) <= unit_bits {
            true => (found.offset_bits - inside, inside),
            false => (found.offset_bits / 8 * 8, found.offset_bits % 8),
        };
        let kind = self.place_at(place, start / 8, found.ty, span);
        let address = self.address_of_place(Place { kind, ty: found.ty }, span);
        PlaceKind::Bits {
            address,
            shift: shift as u8,
            width,
        }
    }
}

/// Looks into members without a name too, to a bounded depth.
fn find(types: &Types, record: &Record, name: &str, depth: u32) -> Option<Found> {
    let direct = record.members.iter().find(|member| *member.name == *name);
    if let Some(member) = direct {
        return Some(Found {
            ty: member.ty,
            offset_bits: member.offset_bits,
            bits: member.bits,
        });
    }
    let unnamed = record
        .members
        .iter()
        .filter(|member| member.name.is_empty() && depth < 16);
    unnamed.into_iter().find_map(|member| {
        let Type::Record(inner) = types.actual(member.ty) else {
            return None;
        };
        let found = find(types, inner, name, depth + 1)?;
        let offset_bits = found.offset_bits.checked_add(member.offset_bits)?;
        Some(Found {
            offset_bits,
            ..found
        })
    })
}
