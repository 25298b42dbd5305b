//! Translators: a member of a translated value is its definition with the input put in.

use std::rc::Rc;

use super::Checker;
use super::inline::Frame;
use crate::ast;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::Expr;
use crate::types::{Type, TypeId};

/// A declared translator.
#[derive(Debug)]
pub(super) struct TranslatorDefinition {
    to: TypeId,
    from: TypeId,
    input: Box<str>,
    members: Vec<(ast::Name, ast::Expr)>,
}

impl Checker<'_> {
    /// `translator to < from input > { … };`
    pub(super) fn translator(&mut self, translator: ast::Translator) -> Checked<()> {
        let to = self.type_name(&translator.to)?;
        let from = self.type_name(&translator.from)?;
        let to = self.completed(to);
        if !self.types().is_record(to) {
            let message = "translator output type must be a struct or union";
            return Err(Fault::new(Tag::XlateSou, translator.span, message));
        }
        if self.translator_for(to, from).is_some() {
            let message = format!(
                "translator from {} to {} has already been declared",
                self.type_text(from),
                self.type_text(to)
            );
            return Err(Fault::new(Tag::XlateRedecl, translator.span, message));
        }
        let definition = Rc::new(TranslatorDefinition {
            to,
            from,
            input: translator.input,
            members: translator.members,
        });
        self.check_translator(&definition, translator.span)?;
        self.names.translators.push(definition);
        Ok(())
    }

    /// Every member once, with an input that stands for any.
    fn check_translator(
        &mut self,
        definition: &Rc<TranslatorDefinition>,
        span: Span,
    ) -> Checked<()> {
        let null = self.int(0, self.common.ulong, span);
        let input = match self.types().is_record(definition.from) {
            true => self.read_at(null, definition.from, span),
            false => self.int(0, definition.from, span),
        };
        for (name, _) in &definition.members {
            if self.find_member(definition.to, name).is_err() {
                let message = format!(
                    "translator member {} is not a member of {}",
                    name.text,
                    self.type_text(definition.to)
                );
                return Err(Fault::new(Tag::XlateMemb, name.span, message));
            }
            self.member_value(definition, input.clone(), name, name.span)?;
        }
        Ok(())
    }

    fn translator_for(&self, to: TypeId, from: TypeId) -> Option<Rc<TranslatorDefinition>> {
        let types = self.types();
        let fits = |known: &&Rc<TranslatorDefinition>| {
            types.compatible(known.to, to) && types.compatible(known.from, from)
        };
        self.names.translators.iter().find(fits).cloned()
    }

    /// Whether an expression is an `xlate`, or an inline that is one.
    pub(super) fn is_translated(&self, expr: &ast::Expr) -> bool {
        self.is_translated_within(expr, 16)
    }

    fn is_translated_within(&self, expr: &ast::Expr, depth: u32) -> bool {
        match &expr.kind {
            ast::ExprKind::Xlate(..) => true,
            ast::ExprKind::Name(name) if depth > 0 && !self.is_bound(name) => {
                let inline = self.names.inlines.get(name);
                inline.is_some_and(|inline| {
                    inline.keys.is_none() && self.is_translated_within(&inline.value, depth - 1)
                })
            }
            _ => false,
        }
    }

    /// The translator and its input, where an expression is a translated value.
    fn translated(
        &mut self,
        expr: &ast::Expr,
    ) -> Checked<Option<(Rc<TranslatorDefinition>, Expr)>> {
        if !self.is_translated(expr) {
            return Ok(None);
        }
        match &expr.kind {
            ast::ExprKind::Xlate(ty, of) => self.xlate(ty, of, expr.span).map(Some),
            ast::ExprKind::Name(name) => {
                let Some(inline) = self.names.inlines.get(name).cloned() else {
                    return Ok(None);
                };
                self.within(Frame::default(), expr.span, |checker| {
                    checker.translated(&inline.value)
                })
            }
            _ => Ok(None),
        }
    }

    fn xlate(
        &mut self,
        ty: &ast::TypeName,
        of: &ast::Expr,
        span: Span,
    ) -> Checked<(Rc<TranslatorDefinition>, Expr)> {
        let to = self.type_name(ty)?;
        let to = match *self.types().actual(to) {
            Type::Pointer(to) => to,
            _ => to,
        };
        let input = self.expr(of)?;
        match self.translator_for(to, input.ty) {
            Some(translator) => Ok((translator, input)),
            None => {
                let message = format!(
                    "cannot translate from \"{}\" to \"{}\"",
                    self.type_text(input.ty),
                    self.type_text(to)
                );
                Err(Fault::new(Tag::XlateNone, span, message))
            }
        }
    }

    /// `xlate <type>(x)` whose members are not named.
    pub(super) fn xlate_alone(
        &mut self,
        ty: &ast::TypeName,
        of: &ast::Expr,
        span: Span,
    ) -> Checked<Expr> {
        self.xlate(ty, of, span)?;
        let message = "only members of translated values can be used";
        Err(Fault::new(Tag::OpDyn, span, message))
    }

    /// `of.name` or `of->name` where `of` is a translated value.
    pub(super) fn translated_member(
        &mut self,
        of: &ast::Expr,
        name: &ast::Name,
        span: Span,
    ) -> Checked<Option<Expr>> {
        let Some((translator, input)) = self.translated(of)? else {
            return Ok(None);
        };
        self.member_value(&translator, input, name, span).map(Some)
    }

    fn member_value(
        &mut self,
        translator: &Rc<TranslatorDefinition>,
        input: Expr,
        name: &ast::Name,
        span: Span,
    ) -> Checked<Expr> {
        let found = translator
            .members
            .iter()
            .find(|(known, _)| known.text == name.text);
        let Some((_, definition)) = found else {
            let message = format!(
                "translator does not define conversion for member: {}",
                name.text
            );
            let known = translator.members.iter().map(|(known, _)| &*known.text);
            return Err(
                Fault::new(Tag::XlateNoconv, name.span, message).suggesting(&name.text, known)
            );
        };
        let mut frame = Frame::default();
        self.bind(&mut frame, translator.input.clone(), input)?;
        let mut value = self.within(frame, span, |checker| checker.expr(definition))?;
        let wanted = self.find_member(translator.to, name)?.ty;
        let characters =
            self.types().is_string_like(wanted) && self.types().is_string_like(value.ty);
        if !characters
            && !self.assignable(&value, wanted)
            && !self.types().compatible(value.ty, wanted)
        {
            let message = format!(
                "translator member {} definition uses incompatible types: \"{}\" = \"{}\"",
                name.text,
                self.type_text(wanted),
                self.type_text(value.ty)
            );
            return Err(Fault::new(Tag::XlateIncompat, definition.span, message));
        }
        if !characters {
            value = self.convert(value, wanted);
        }
        value.span = span;
        Ok(value)
    }
}
