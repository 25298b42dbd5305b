//! The second half of declarations: pointers, names, arrays, tuples of keys, functions.

use super::Parser;
use crate::ast::{Base, Declarator, Parameter, Step, TypeName};
use crate::error::{Checked, Fault};
use crate::lex::{TokenKind, is_keyword};
use crate::tag::Tag;

impl Parser<'_, '_> {
    /// A type without a name.
    pub(super) fn type_name(&mut self) -> Checked<TypeName> {
        let specifiers = self.specifiers()?;
        let declarator = self.declarator()?;
        if let Some(name) = &declarator.name {
            let message = format!("syntax error near \"{}\"", name.text);
            return Err(Fault::new(Tag::Syntax, name.span, message));
        }
        Ok(TypeName {
            specifiers,
            declarator,
        })
    }

    /// With or without a name.
    pub(super) fn declarator(&mut self) -> Checked<Declarator> {
        self.nested(|parser| {
            let start = parser.here()?;
            let mut steps = Vec::new();
            while parser.eat("*")? {
                while parser.eat_word("const")?
                    || parser.eat_word("volatile")?
                    || parser.eat_word("restrict")?
                {}
                steps.push(Step::Pointer);
            }
            let (name, inner) = parser.direct_declarator()?;
            let mut suffixes = Vec::new();
            while let Some(step) = parser.opt_suffix()? {
                suffixes.push(step);
            }
            suffixes.reverse();
            steps.extend(suffixes);
            steps.extend(inner);
            let span = parser.span_from(start);
            Ok(Declarator { name, steps, span })
        })
    }

    /// A name, or a declarator in parentheses.
    fn direct_declarator(&mut self) -> Checked<(Option<crate::ast::Name>, Vec<Step>)> {
        if self.at("(")? {
            let nested = match self.peek_at(1)?.kind {
                TokenKind::Punctuation(text) => ["*", "(", "["].contains(&text),
                TokenKind::Name(word) => !is_keyword(word) && !self.is_type(word),
                _ => false,
            };
            if nested {
                self.take()?;
                let inner = self.declarator()?;
                self.expect(")")?;
                return Ok((inner.name, inner.steps));
            }
            return Ok((None, Vec::new()));
        }
        match self.peek()? {
            TokenKind::Name(word) if !is_keyword(word) => Ok((Some(self.name()?), Vec::new())),
            TokenKind::Symbol(_, name) => {
                let name = (*name).to_owned();
                let span = self.take()?.span;
                let message =
                    format!("D scoping operator may not be used in a declaration name (`{name})");
                Err(Fault::new(Tag::DeclScope, span, message))
            }
            _ => Ok((None, Vec::new())),
        }
    }

    fn opt_suffix(&mut self) -> Checked<Option<Step>> {
        if self.eat("(")? {
            self.parameters(")")?;
            return Ok(Some(Step::Function));
        }
        if !self.eat("[")? {
            return Ok(None);
        }
        if self.eat("]")? {
            return Ok(Some(Step::Array(None)));
        }
        if self.type_at(0)? || self.at("...")? {
            return self.parameters("]").map(|keys| Some(Step::Tuple(keys)));
        }
        let count = self.conditional()?;
        self.expect("]")?;
        Ok(Some(Step::Array(Some(count))))
    }

    /// Types with or without names, up to the closing bracket.
    pub(super) fn parameters(&mut self, close: &'static str) -> Checked<Vec<Parameter>> {
        let is_array = close == "]";
        let mut list = Vec::new();
        if self.eat(close)? {
            return Ok(list);
        }
        loop {
            if self.at("...")? {
                let span = self.take()?.span;
                if is_array {
                    let message = "array prototype may not use a variable-length argument list";
                    return Err(Fault::new(Tag::DeclProtoVarargs, span, message));
                }
            } else {
                list.push(self.parameter()?);
            }
            if self.eat(close)? {
                check_prototype(&list, is_array)?;
                return Ok(list);
            }
            self.expect(",")?;
        }
    }

    pub(super) fn parameter(&mut self) -> Checked<Parameter> {
        let specifiers = self.specifiers()?;
        let mut declarator = self.declarator()?;
        let name = declarator.name.take();
        Ok(Parameter {
            ty: TypeName {
                specifiers,
                declarator,
            },
            name,
        })
    }
}

/// Refuses parameters that cannot be.
fn check_prototype(list: &[Parameter], is_array: bool) -> Checked<()> {
    let kind = if is_array { "array" } else { "function" };
    for (at, parameter) in list.iter().enumerate() {
        let TypeName {
            specifiers,
            declarator,
        } = &parameter.ty;
        let name = parameter.name.as_ref().map(|name| &*name.text);
        if specifiers.class.is_some() {
            let message = "inappropriate storage class for function or associative array parameter";
            return Err(Fault::new(Tag::DeclParmclass, specifiers.span, message));
        }
        let is_dynamic = matches!(declarator.steps[..], [.., Step::Tuple(_)]);
        let is_void = matches!(&specifiers.base, Base::Words(words) if words[..] == ["void"])
            && declarator.steps.is_empty();
        if is_dynamic || (is_void && is_array) {
            let what = if is_void { "void" } else { "dynamic variable" };
            let message = format!(
                "{kind} prototype may not use parameter of type {what}: {}, parameter #{}",
                name.unwrap_or("(anonymous)"),
                at + 1
            );
            return Err(Fault::new(Tag::DeclProtoType, specifiers.span, message));
        }
        if is_void && list.len() > 1 {
            let message = "void must be sole parameter";
            return Err(Fault::new(Tag::DeclProtoVoid, specifiers.span, message));
        }
        if let Some(name) = name.filter(|_| is_void) {
            let message = format!("void parameter may not have a name: {name}");
            return Err(Fault::new(Tag::DeclProtoName, specifiers.span, message));
        }
    }
    Ok(())
}
