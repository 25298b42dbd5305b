//! Types as they are written to types as they are.

use super::Checker;
use crate::ast::{self, Base, Step};
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::ExprKind;
use crate::types::{Type, TypeId};
use crate::world::Keyword;

impl Checker<'_> {
    /// A type in a cast or the like.
    pub(super) fn type_name(&mut self, name: &ast::TypeName) -> Checked<TypeId> {
        if name.specifiers.class.is_some() {
            let message = "inappropriate storage class for a type's name";
            return Err(Fault::new(
                Tag::DeclParmclass,
                name.specifiers.span,
                message,
            ));
        }
        let (ty, tuple) = self.declared_type(&name.specifiers, &name.declarator)?;
        if tuple.is_some() {
            let message = "an associative array has no type of its own";
            return Err(Fault::new(Tag::DeclDynobj, name.declarator.span, message));
        }
        Ok(ty)
    }

    /// What a declarator declares, and the keys if it is an associative array.
    pub(super) fn declared_type<'d>(
        &mut self,
        specifiers: &ast::Specifiers,
        declarator: &'d ast::Declarator,
    ) -> Checked<(TypeId, Option<&'d [ast::Parameter]>)> {
        let base = self.base_type(&specifiers.base, specifiers.span)?;
        self.derived_type(base, declarator)
    }

    /// A base type with a declarator's pointers, arrays and functions.
    pub(super) fn derived_type<'d>(
        &mut self,
        base: TypeId,
        declarator: &'d ast::Declarator,
    ) -> Checked<(TypeId, Option<&'d [ast::Parameter]>)> {
        let mut ty = base;
        let mut tuple = None;
        for step in &declarator.steps {
            if tuple.is_some() {
                let message = "cannot declare array of associative arrays";
                return Err(Fault::new(Tag::DeclDynobj, declarator.span, message));
            }
            ty = match step {
                Step::Pointer => self.script.types.add(Type::Pointer(ty)),
                Step::Function => self.script.types.add(Type::Function),
                Step::Array(count) => self.array_of(ty, count.as_ref(), declarator.span)?,
                Step::Tuple(keys) => {
                    tuple = Some(keys.as_slice());
                    ty
                }
            };
        }
        Ok((ty, tuple))
    }

    fn array_of(&mut self, of: TypeId, count: Option<&ast::Expr>, span: Span) -> Checked<TypeId> {
        if self.types().is_void(of) {
            return Err(Fault::new(
                Tag::DeclVoidobj,
                span,
                "cannot declare array of void",
            ));
        }
        let count = match count {
            None => 0,
            Some(count) => {
                let value = self.value(count)?;
                let ExprKind::Int(value @ 0..) = value.kind else {
                    let message = "positive integral constant expression or tuple signature expected as array declaration subscript";
                    return Err(Fault::new(Tag::DeclArrsub, count.span, message));
                };
                value
            }
        };
        let size = self.types().size(of).unwrap_or(0).max(1);
        let fits = u64::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(size));
        match (u32::try_from(count), fits) {
            (Ok(count), Some(..=0x7fff_ffff)) => {
                Ok(self.script.types.add(Type::Array { of, count }))
            }
            _ => Err(Fault::new(Tag::DeclArrbig, span, "array dimension too big")),
        }
    }

    fn base_type(&mut self, base: &Base, span: Span) -> Checked<TypeId> {
        match base {
            Base::Words(words) => self.worded_type(words, span),
            Base::Name(module, name) => self.named_type(module.as_deref(), name, span),
            Base::Record {
                keyword,
                tag,
                members,
            } => match members {
                Some(members) => self.record_definition(keyword, tag.as_deref(), members, span),
                None => Ok(self.tagged_type(keyword, tag.as_deref().unwrap_or_default())),
            },
            Base::Enum { tag, values } => match values {
                Some(values) => self.enum_definition(tag.as_deref(), values, span),
                None => Ok(self.tagged_type("enum", tag.as_deref().unwrap_or_default())),
            },
        }
    }

    /// `unsigned long`, in any order of the words.
    fn worded_type(&mut self, words: &[&'static str], span: Span) -> Checked<TypeId> {
        let refuse = |tag, what: &str| Err(Fault::new(tag, span, format!("invalid type {what}")));
        let count = |word| words.iter().filter(|found| **found == word).count();
        let attributes = ["signed", "unsigned", "short", "long"];
        let mut bases = words.iter().filter(|word| !attributes.contains(word));
        let base = bases.next().copied().unwrap_or("int");
        let (unsigned, long, short) = (count("unsigned"), count("long"), count("short"));
        let sign = unsigned + count("signed");
        if bases.next().is_some() || sign > 1 || long > 2 || short > 1 || (short > 0 && long > 0) {
            return refuse(Tag::DeclCombo, "combination");
        }
        let sized = short + long > 0;
        let text = match base {
            "char" if sized => {
                return refuse(
                    Tag::DeclCharattr,
                    "declaration: short and long may not be used with char type",
                );
            }
            "char" if unsigned > 0 => "unsigned char".to_owned(),
            "char" if sign > 0 => "signed char".to_owned(),
            "void" if sized || sign > 0 => {
                return refuse(
                    Tag::DeclVoidattr,
                    "declaration: attributes may not be used with void type",
                );
            }
            "int" => {
                let size = ["int", "long", "long long"][long];
                let size = if short > 0 { "short" } else { size };
                format!("{}{size}", if unsigned > 0 { "unsigned " } else { "" })
            }
            other if sign > 0 => {
                let _ = other;
                return refuse(
                    Tag::DeclSignint,
                    "declaration: signed and unsigned may only be used with integer type",
                );
            }
            "double" if long == 1 && short == 0 => "long double".to_owned(),
            other if sized => {
                let _ = other;
                return refuse(
                    Tag::DeclLongint,
                    "declaration: long and long long may only be used with integer or floating-point type",
                );
            }
            other => other.to_owned(),
        };
        Ok(super::type_of_name(&mut self.script.types, &text).unwrap_or(self.common.int))
    }

    fn named_type(&mut self, module: Option<&str>, name: &str, span: Span) -> Checked<TypeId> {
        if let Some(ty) = self.lookup_type(module, None, name) {
            return Ok(ty);
        }
        let message = format!("failed to resolve type {name}: Unknown type name");
        let declared = self.names.typedefs.keys().map(|name| &**name);
        let own = crate::builtins::types::TYPEDEFS
            .iter()
            .map(|(name, _)| *name);
        Err(Fault::new(Tag::TypeErr, span, message).suggesting(name, declared.chain(own)))
    }

    /// A type that the script, D or the world defines.
    pub(super) fn lookup_type(
        &mut self,
        module: Option<&str>,
        keyword: Option<Keyword>,
        name: &str,
    ) -> Option<TypeId> {
        if module.is_none() {
            let declared = match keyword {
                Some(keyword) => self.names.tags.get(&(keyword.text(), name.into())),
                None => self.names.typedefs.get(name),
            };
            let declared = declared
                .copied()
                .filter(|ty| !matches!(self.types().get(*ty), Type::Incomplete { .. }));
            if declared.is_some() {
                return declared;
            }
            if let (None, Some(own)) = (keyword, super::type_of_name(&mut self.script.types, name))
            {
                return Some(own);
            }
        }
        self.world
            .type_named(module, keyword, name, &mut self.script.types)
    }

    /// `struct tag` without a body: the definition, or a type whose definition is not known.
    pub(super) fn tagged_type(&mut self, keyword: &'static str, name: &str) -> TypeId {
        let asked = match keyword {
            "union" => Keyword::Union,
            "enum" => Keyword::Enum,
            _ => Keyword::Struct,
        };
        if let Some(ty) = self.lookup_type(None, Some(asked), name) {
            return ty;
        }
        let key = (keyword, name.into());
        if let Some(ty) = self.names.tags.get(&key) {
            return *ty;
        }
        let name = name.into();
        let ty = self.script.types.add(Type::Incomplete { keyword, name });
        self.names.tags.insert(key, ty);
        ty
    }
}
