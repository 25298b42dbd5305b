//! The first half of declarations and type names: storage classes, words, structs, unions and enums.

use super::Parser;
use crate::ast::{Base, Class, Expr, MemberDeclaration, Name, Specifiers};
use crate::error::{Checked, Fault};
use crate::lex::{TokenKind, is_keyword};
use crate::span::Span;
use crate::tag::Tag;

/// The words of C's own types.
const TYPE_WORDS: &[&str] = &[
    "void", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "string",
    "_Bool",
];

impl Parser<'_, '_> {
    /// Whether a type begins with the n-th token from here. A name only counts if it is known as a type's.
    pub(super) fn type_at(&mut self, n: usize) -> Checked<bool> {
        match self.peek_at(n)?.kind {
            TokenKind::Name(word) if is_type_keyword(word) => Ok(true),
            TokenKind::Name(word) if is_keyword(word) => Ok(false),
            TokenKind::Name(word) => Ok(self.is_type(word)),
            _ => Ok(false),
        }
    }

    /// Whether the parenthesis that comes next holds a type: of a cast, or else `sizeof`'s. Names nobody knows are
    /// taken for types where an expression could not continue, so that the message names the type.
    pub(super) fn parenthesis_is_type(&mut self, cast: bool) -> Checked<bool> {
        let word = match self.peek_at(1)?.kind {
            TokenKind::Name(word) if is_type_keyword(word) => return Ok(true),
            TokenKind::Symbol(Some(_), _) => "",
            TokenKind::Name(word) if !is_keyword(word) => word,
            _ => return Ok(false),
        };
        let mut n = 2;
        while matches!(self.peek_at(n)?.kind, TokenKind::Punctuation("*")) {
            n += 1;
        }
        let closed = matches!(self.peek_at(n)?.kind, TokenKind::Punctuation(")"));
        if closed && n > 2 {
            return Ok(true);
        }
        if closed && cast && self.begins_operand(n + 1)? {
            return Ok(true);
        }
        Ok(!word.is_empty() && closed && self.is_type(word))
    }

    /// Whether the n-th token can only begin an operand, never continue an expression.
    fn begins_operand(&mut self, n: usize) -> Checked<bool> {
        Ok(match self.peek_at(n)?.kind {
            TokenKind::Name(_)
            | TokenKind::Int(_)
            | TokenKind::String(_)
            | TokenKind::Symbol(..)
            | TokenKind::Aggregation(_) => true,
            TokenKind::Punctuation(text) => text == "~" || text == "!",
            TokenKind::End => false,
        })
    }

    pub(super) fn specifiers(&mut self) -> Checked<Specifiers> {
        let start = self.here()?;
        let mut class = None;
        let mut words = Vec::new();
        let mut base = None;
        loop {
            let token = self.peek_at(0)?.clone();
            let module = match token.kind {
                TokenKind::Symbol(Some(module), _) => Some(module.into()),
                _ => None,
            };
            let word = match token.kind {
                TokenKind::Name(word) | TokenKind::Symbol(Some(_), word) => word,
                _ => break,
            };
            let named = !words.is_empty() || base.is_some();
            if class.is_some() && !named && self.implicit_int(word)? {
                break;
            }
            if let Some(found) = class_of(word) {
                self.take()?;
                if class.replace(found).is_some() {
                    let message = "only one storage class allowed in a declaration";
                    return Err(Fault::new(Tag::DeclClass, token.span, message));
                }
            } else if ["const", "volatile", "restrict"].contains(&word) {
                self.take()?;
            } else if let Some(known) = TYPE_WORDS.iter().find(|known| **known == word) {
                self.take()?;
                words.push(*known);
            } else if ["struct", "union", "enum"].contains(&word) && named {
                return Err(bad_combination(&words, token.span));
            } else if ["struct", "union", "enum"].contains(&word) {
                base = Some(self.nested(Self::tagged)?);
            } else if !named && !is_keyword(word) {
                self.take()?;
                base = Some(Base::Name(module, word.into()));
            } else {
                break;
            }
            if base.is_some() && !words.is_empty() {
                let message = "invalid type combination";
                return Err(Fault::new(Tag::DeclCombo, token.span, message));
            }
        }
        let span = self.span_from(start);
        let base = match base {
            Some(base) => base,
            None if words.is_empty() && class.is_none() => return Err(self.unexpected()?),
            None => Base::Words(words),
        };
        Ok(Specifiers { class, base, span })
    }

    /// `self x;`: the name of a variable of type `int`, not of a type.
    fn implicit_int(&mut self, word: &str) -> Checked<bool> {
        let next = self.peek_at(1)?;
        let ends = matches!(next.kind, TokenKind::Punctuation(";" | "," | "["));
        Ok(ends && !is_keyword(word))
    }

    /// `struct tag { … }`, `union …`, `enum …`.
    fn tagged(&mut self) -> Checked<Base> {
        let keyword = match self.take()?.kind {
            TokenKind::Name("struct") => "struct",
            TokenKind::Name("union") => "union",
            _ => "enum",
        };
        let tag = match self.peek()? {
            TokenKind::Name(_) => Some(self.member_name()?.text),
            TokenKind::Symbol(_, name) => {
                let name = (*name).into();
                self.take()?;
                Some(name)
            }
            _ => None,
        };
        let body = self.at("{")?;
        if !body && tag.is_none() {
            return Err(self.unexpected()?);
        }
        if keyword == "enum" {
            let values = if body {
                Some(self.enumerators()?)
            } else {
                None
            };
            return Ok(Base::Enum { tag, values });
        }
        let members = if body { Some(self.members()?) } else { None };
        Ok(Base::Record {
            keyword,
            tag,
            members,
        })
    }

    fn members(&mut self) -> Checked<Vec<MemberDeclaration>> {
        self.expect("{")?;
        let mut members = vec![self.member_declaration()?];
        while !self.eat("}")? {
            members.push(self.member_declaration()?);
        }
        Ok(members)
    }

    /// `type a, *b, c : 3;`, or an anonymous struct or union alone.
    fn member_declaration(&mut self) -> Checked<MemberDeclaration> {
        let specifiers = self.specifiers()?;
        let mut members = Vec::new();
        while !self.at(";")? {
            let declarator = self.declarator()?;
            let width = match self.eat(":")? {
                true => Some(self.conditional()?),
                false => None,
            };
            members.push((declarator, width));
            if !self.at(";")? {
                self.expect(",")?;
            }
        }
        self.expect(";")?;
        Ok(MemberDeclaration {
            specifiers,
            members,
        })
    }

    fn enumerators(&mut self) -> Checked<Vec<(Name, Option<Expr>)>> {
        self.expect("{")?;
        let mut values = Vec::new();
        while values.is_empty() || !self.eat("}")? {
            let name = self.name()?;
            let value = match self.eat("=")? {
                true => Some(self.conditional()?),
                false => None,
            };
            values.push((name, value));
            if !self.at("}")? {
                self.expect(",")?;
            }
        }
        Ok(values)
    }
}

/// The error for a structure after other words of a type.
fn bad_combination(words: &[&str], span: Span) -> Box<Fault> {
    let has = |word| words.contains(&word);
    let (tag, message) = if has("signed") || has("unsigned") {
        let message =
            "invalid type declaration: signed and unsigned may only be used with integer type";
        (Tag::DeclSignint, message)
    } else if has("long") || has("short") {
        let message = "invalid type declaration: long and long long may only be used with integer or floating-point type";
        (Tag::DeclLongint, message)
    } else {
        (Tag::DeclCombo, "invalid type combination")
    };
    Fault::new(tag, span, message)
}

fn is_type_keyword(word: &str) -> bool {
    TYPE_WORDS.contains(&word)
        || ["struct", "union", "enum", "const", "volatile", "restrict"].contains(&word)
}

fn class_of(word: &str) -> Option<Class> {
    Some(match word {
        "auto" => Class::Auto,
        "register" => Class::Register,
        "static" => Class::Static,
        "extern" => Class::Extern,
        "typedef" => Class::Typedef,
        "self" => Class::Thread,
        "this" => Class::Clause,
        _ => return None,
    })
}
