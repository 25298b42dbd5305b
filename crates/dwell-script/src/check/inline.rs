//! Inlines, and names bound to expressions: parameters of inlines and of translators.

use std::rc::Rc;

use super::Checker;
use crate::ast;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::Expr;
use crate::types::{Type, TypeId};

/// A declared inline.
#[derive(Debug)]
pub(super) struct InlineDefinition {
    pub name: Box<str>,
    pub ty: TypeId,
    /// The names and types of its keys, for an inline in brackets.
    pub keys: Option<Vec<(Box<str>, TypeId)>>,
    pub value: ast::Expr,
}

/// Names that stand for expressions within the body that is checked.
#[derive(Debug, Default)]
pub(super) struct Frame {
    bindings: Vec<Binding>,
}

#[derive(Debug)]
struct Binding {
    name: Box<str>,
    value: Expr,
    /// The number of expressions in the value.
    size: u32,
}

impl Checker<'_> {
    /// `inline type name[keys] = value;`
    pub(super) fn inline_definition(&mut self, inline: ast::Inline) -> Checked<()> {
        let Some(name) = &inline.declarator.name else {
            return Err(Fault::new(
                Tag::DeclUseless,
                inline.span,
                "inline declaration requires a name",
            ));
        };
        if inline.specifiers.class.is_some() {
            let message = "specified storage class not appropriate for inline declaration";
            return Err(Fault::new(
                Tag::DeclBadclass,
                inline.specifiers.span,
                message,
            ));
        }
        self.refuse_known(&name.text, name.span)?;
        let (ty, tuple) = self.declared_type(&inline.specifiers, &inline.declarator)?;
        let keys = match tuple {
            Some(tuple) => Some(self.inline_keys(tuple, name)?),
            None => None,
        };
        self.refuse_inline_type(ty, name)?;
        let definition = Rc::new(InlineDefinition {
            name: name.text.clone(),
            ty,
            keys,
            value: inline.value,
        });
        if definition.keys.is_none() && !self.is_translated(&definition.value) {
            self.inline_use(&definition, &[], name.span)?;
            self.refuse_misplaced()?;
        }
        self.names.inlines.insert(name.text.clone(), definition);
        Ok(())
    }

    fn inline_keys(
        &mut self,
        tuple: &[ast::Parameter],
        name: &ast::Name,
    ) -> Checked<Vec<(Box<str>, TypeId)>> {
        let mut keys = Vec::new();
        for parameter in tuple {
            let Some(key) = &parameter.name else {
                let message = format!(
                    "inline declaration requires names of its keys: {}",
                    name.text
                );
                return Err(Fault::new(Tag::DeclArrnull, name.span, message));
            };
            keys.push((key.text.clone(), self.type_name(&parameter.ty)?));
        }
        Ok(keys)
    }

    fn refuse_inline_type(&self, ty: TypeId, name: &ast::Name) -> Checked<()> {
        let (tag, what) = match self.types().actual(ty) {
            Type::Void => (Tag::DeclVoidobj, "cannot declare void inline"),
            Type::Array { .. } => (
                Tag::DeclArrnull,
                "inline declaration cannot be of scalar array type",
            ),
            Type::Incomplete { .. } => (Tag::DeclIncomplete, "incomplete struct/union/enum"),
            _ => return Ok(()),
        };
        Err(Fault::new(tag, name.span, format!("{what}: {}", name.text)))
    }

    /// The value of an inline, its keys bound.
    pub(super) fn inline_use(
        &mut self,
        inline: &Rc<InlineDefinition>,
        keys: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let parameters = inline.keys.as_deref().unwrap_or_default();
        if parameters.len() != keys.len() {
            let message = format!(
                "{}[ ] prototype mismatch: {} keys passed, {} expected",
                inline.name,
                keys.len(),
                parameters.len()
            );
            return Err(Fault::new(Tag::ProtoLen, span, message));
        }
        let mut frame = Frame::default();
        for (key, (name, ty)) in keys.iter().zip(parameters) {
            let value = self.expr(key)?;
            let value = self.assigned(value, *ty)?;
            self.bind(&mut frame, name.clone(), value)?;
        }
        let value = self.within(frame, span, |checker| checker.expr(&inline.value));
        // What is wrong with it is told where it is used: it may stand in another part of the script, or in D's library.
        let value = value.map_err(|mut fault| {
            fault.span = span;
            fault
        })?;
        let mut value = match self.assignable(&value, inline.ty) {
            true => self.convert(value, inline.ty),
            false => return Err(self.inline_mismatch(inline, &value, span)),
        };
        value.span = span;
        Ok(value)
    }

    fn inline_mismatch(&self, inline: &InlineDefinition, value: &Expr, span: Span) -> Box<Fault> {
        let message = format!(
            "inline {} definition uses incompatible types: \"{}\" = \"{}\"",
            inline.name,
            self.type_text(inline.ty),
            self.type_text(value.ty)
        );
        Fault::new(Tag::OpIncompat, span, message)
    }

    /// Lets a name stand for an expression.
    pub(super) fn bind(&mut self, frame: &mut Frame, name: Box<str>, value: Expr) -> Checked<()> {
        let extent = value.extent();
        if extent.height > super::DEPTH {
            let message = "inlines or translators are nested too deeply";
            return Err(Fault::new(Tag::Syntax, value.span, message));
        }
        let size = extent.size;
        frame.bindings.push(Binding { name, value, size });
        Ok(())
    }

    /// Checks a body in which only the frame's names are bound.
    pub(super) fn within<T>(
        &mut self,
        frame: Frame,
        span: Span,
        check: impl FnOnce(&mut Self) -> Checked<T>,
    ) -> Checked<T> {
        self.frames.push(frame);
        let result = self.deeper(span, check);
        self.frames.pop();
        result
    }

    fn binding(&self, name: &str) -> Option<&Binding> {
        let frame = self.frames.last()?;
        frame.bindings.iter().find(|binding| *binding.name == *name)
    }

    pub(super) fn is_bound(&self, name: &str) -> bool {
        self.binding(name).is_some()
    }

    /// What a bound name stands for.
    pub(super) fn bound(&mut self, name: &str, span: Span) -> Checked<Option<Expr>> {
        let Some(Binding { value, size, .. }) = self.binding(name) else {
            return Ok(None);
        };
        let (value, size) = (value.clone(), *size);
        self.charge(size, span)?;
        Ok(Some(value))
    }
}
