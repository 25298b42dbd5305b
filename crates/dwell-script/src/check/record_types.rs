//! Definitions of structures, unions and enumerations: members laid out as the x86-64 ABI does.

use std::collections::HashSet;

use super::Checker;
use crate::ast;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Expr, ExprKind};
use crate::types::{Member, Record, Type, TypeId};

/// Where the next member goes.
#[derive(Debug, Default)]
struct Layout {
    union: bool,
    /// Bits used so far.
    bits: u64,
    /// Bytes of the largest alignment.
    alignment: u64,
    members: Vec<Member>,
}

impl Checker<'_> {
    pub(super) fn record_definition(
        &mut self,
        keyword: &'static str,
        tag: Option<&str>,
        members: &[ast::MemberDeclaration],
        span: Span,
    ) -> Checked<TypeId> {
        let declared = self.declare_tag(keyword, tag, span)?;
        let mut layout = Layout {
            union: keyword == "union",
            alignment: 1,
            ..Layout::default()
        };
        for declaration in members {
            self.member_declaration(declaration, &mut layout)?;
        }
        refuse_twice(&layout.members, span)?;
        let size = layout.bits.div_ceil(8).next_multiple_of(layout.alignment);
        let Ok(size) = u32::try_from(size) else {
            return Err(Fault::new(Tag::DeclArrbig, span, "structure is too big"));
        };
        let record = Type::Record(Record {
            keyword,
            name: tag.unwrap_or_default().into(),
            size,
            members: layout.members,
        });
        Ok(self.define_tag(declared, record))
    }

    /// The id that a tag had before its definition; an error if it has one.
    fn declare_tag(
        &mut self,
        keyword: &'static str,
        tag: Option<&str>,
        span: Span,
    ) -> Checked<Option<TypeId>> {
        let Some(tag) = tag else {
            return Ok(None);
        };
        let key = (keyword, tag.into());
        if let Some(known) = self.names.tags.get(&key) {
            if !matches!(self.types().get(*known), Type::Incomplete { .. }) {
                return Err(Fault::new(
                    Tag::DeclTypered,
                    span,
                    format!("type redeclared: {keyword} {tag}"),
                ));
            }
            return Ok(Some(*known));
        }
        let name = tag.into();
        let ty = self.script.types.add(Type::Incomplete { keyword, name });
        self.names.tags.insert(key, ty);
        Ok(Some(ty))
    }

    fn define_tag(&mut self, declared: Option<TypeId>, ty: Type) -> TypeId {
        match declared {
            Some(id) => {
                self.script.types.complete(id, ty);
                id
            }
            None => self.script.types.add(ty),
        }
    }

    fn member_declaration(
        &mut self,
        declaration: &ast::MemberDeclaration,
        layout: &mut Layout,
    ) -> Checked<()> {
        let nothing = ast::Declarator {
            name: None,
            steps: Vec::new(),
            span: declaration.specifiers.span,
        };
        let (base, _) = self.declared_type(&declaration.specifiers, &nothing)?;
        if declaration.members.is_empty() {
            if !self.types().is_record(base) {
                let message = "member declaration requires a name";
                return Err(Fault::new(
                    Tag::DeclMname,
                    declaration.specifiers.span,
                    message,
                ));
            }
            return self.plain_member("".into(), base, layout, declaration.specifiers.span);
        }
        for (declarator, width) in &declaration.members {
            let (ty, tuple) = self.derived_type(base, declarator)?;
            let name = declarator.name.as_ref().map_or("", |name| &name.text);
            if tuple.is_some() {
                let message = format!("cannot have dynamic member: {name}");
                return Err(Fault::new(Tag::DeclDynobj, declarator.span, message));
            }
            match width {
                Some(width) => self.bit_field(name, ty, width, layout)?,
                None if name.is_empty() => {
                    let message = "member declaration requires a name";
                    return Err(Fault::new(Tag::DeclMname, declarator.span, message));
                }
                None => self.plain_member(name.into(), ty, layout, declarator.span)?,
            }
        }
        Ok(())
    }

    fn plain_member(
        &mut self,
        name: Box<str>,
        ty: TypeId,
        layout: &mut Layout,
        span: Span,
    ) -> Checked<()> {
        let types = self.types();
        let fault = match types.actual(ty) {
            Type::Void => Some((Tag::DeclVoidobj, format!("cannot have void member: {name}"))),
            _ if types.size(ty).is_none() => {
                let message = format!("incomplete struct/union/enum {}: {name}", types.name(ty));
                Some((Tag::DeclIncomplete, message))
            }
            _ => None,
        };
        if let Some((tag, message)) = fault {
            return Err(Fault::new(tag, span, message));
        }
        let size = match types.is_string(ty) {
            true => self.options.number("strsize").unwrap_or(256) as u64,
            false => types.size(ty).unwrap_or(0),
        };
        let alignment = types.alignment(ty);
        layout.alignment = layout.alignment.max(alignment);
        let start = if layout.union {
            0
        } else {
            layout.bits.next_multiple_of(8 * alignment)
        };
        let end = start.saturating_add(8 * size);
        self.add_member(layout, name, ty, start, end, None, span)
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "all of them are what a member is"
    )]
    fn add_member(
        &self,
        layout: &mut Layout,
        name: Box<str>,
        ty: TypeId,
        start: u64,
        end: u64,
        bits: Option<u8>,
        span: Span,
    ) -> Checked<()> {
        let (Ok(offset_bits), true) = (u32::try_from(start), end <= u64::from(u32::MAX)) else {
            return Err(Fault::new(Tag::DeclArrbig, span, "structure is too big"));
        };
        layout.bits = layout.bits.max(end);
        layout.members.push(Member {
            name,
            ty,
            offset_bits,
            bits,
        });
        Ok(())
    }

    /// `type name : width`: within one integer of its type.
    fn bit_field(
        &mut self,
        name: &str,
        ty: TypeId,
        width: &ast::Expr,
        layout: &mut Layout,
    ) -> Checked<()> {
        let value = self.value(width)?;
        let least = i64::from(!name.is_empty());
        let Some(bits) = constant(&value).filter(|bits| *bits >= least) else {
            let message = "positive integral constant expression expected as bit-field size";
            return Err(Fault::new(Tag::DeclBfconst, width.span, message));
        };
        if !self.types().is_int(ty) {
            let message = format!("invalid type for bit-field: {name}");
            return Err(Fault::new(Tag::DeclBftype, width.span, message));
        }
        let unit = 8 * self.types().size(ty).unwrap_or(4);
        let bits = bits as u64;
        if bits > unit {
            let message = format!("bit-field too big for type: {name}");
            return Err(Fault::new(Tag::DeclBfsize, width.span, message));
        }
        if bits == 0 {
            layout.bits = layout.bits.next_multiple_of(unit);
            return Ok(());
        }
        let mut start = if layout.union { 0 } else { layout.bits };
        if start / unit != (start + bits - 1) / unit {
            start = start.next_multiple_of(unit);
        }
        if name.is_empty() {
            layout.bits = layout.bits.max(start + bits);
            return Ok(());
        }
        layout.alignment = layout.alignment.max(unit / 8);
        self.add_member(
            layout,
            name.into(),
            ty,
            start,
            start + bits,
            Some(bits as u8),
            width.span,
        )
    }

    pub(super) fn enum_definition(
        &mut self,
        tag: Option<&str>,
        enumerators: &[(ast::Name, Option<ast::Expr>)],
        span: Span,
    ) -> Checked<TypeId> {
        let declared = self.declare_tag("enum", tag, span)?;
        let mut values: Vec<(Box<str>, i64)> = Vec::new();
        for (name, value) in enumerators {
            let next = match values.last() {
                Some((_, last)) => last + 1,
                None => 0,
            };
            let number = match value {
                Some(value) => self.enumerator_value(name, value)?,
                None => next,
            };
            if i32::try_from(number).is_err() {
                let message = format!(
                    "enumerator '{}' value overflows INT_MAX ({})",
                    name.text,
                    i32::MAX
                );
                return Err(Fault::new(Tag::DeclEnoflow, name.span, message));
            }
            self.refuse_known(&name.text, name.span)?;
            self.names
                .enumerators
                .insert(name.text.clone(), (number, self.common.int));
            values.push((name.text.clone(), number));
        }
        let names: Vec<Box<str>> = values.iter().map(|(name, _)| name.clone()).collect();
        let ty = Type::Enum {
            name: tag.unwrap_or_default().into(),
            size: 4,
            signed: true,
            values,
        };
        let id = self.define_tag(declared, ty);
        for name in names {
            if let Some(known) = self.names.enumerators.get_mut(&name) {
                known.1 = id;
            }
        }
        Ok(id)
    }

    fn enumerator_value(&mut self, name: &ast::Name, value: &ast::Expr) -> Checked<i64> {
        let checked = self.value(value)?;
        match checked.kind {
            ExprKind::Int(number) => Ok(number),
            _ => {
                let message = format!(
                    "enumerator '{}' must be assigned to an integral constant expression",
                    name.text
                );
                Err(Fault::new(Tag::DeclEnconst, value.span, message))
            }
        }
    }
}

/// Two members of one name are an error.
fn refuse_twice(members: &[Member], span: Span) -> Checked<()> {
    let mut known = HashSet::new();
    let twice = members
        .iter()
        .find(|member| !member.name.is_empty() && !known.insert(&member.name));
    let Some(member) = twice else {
        return Ok(());
    };
    let message = format!(
        "failed to define member '{}': Duplicate member or variable name",
        member.name
    );
    Err(Fault::new(Tag::Unknown, span, message))
}

/// The value of a constant.
fn constant(value: &Expr) -> Option<i64> {
    match value.kind {
        ExprKind::Int(value) => Some(value),
        _ => None,
    }
}
