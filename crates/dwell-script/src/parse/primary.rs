//! Names, constants, parentheses, and what follows them: indices, calls, members, `++`.

use super::Parser;
use crate::ast::{Expr, ExprKind};
use crate::error::Checked;
use crate::lex::{TokenKind, is_keyword};

impl Parser<'_, '_> {
    pub(super) fn postfix(&mut self) -> Checked<Expr> {
        let start = self.here()?;
        let mut of = self.primary()?;
        loop {
            let TokenKind::Punctuation(text) = *self.peek()? else {
                return Ok(of);
            };
            let below = of.height;
            of = match text {
                "[" | "(" => self.bracketed(of, text, start)?,
                "." | "->" => {
                    self.take()?;
                    let name = self.member_name()?;
                    self.node(
                        ExprKind::Member(of.into(), name, text == "->"),
                        start,
                        below,
                    )?
                }
                "++" | "--" => {
                    self.take()?;
                    let by = if text == "++" { 1 } else { -1 };
                    let kind = ExprKind::Step {
                        of: of.into(),
                        by,
                        postfix: true,
                    };
                    self.node(kind, start, below)?
                }
                _ => return Ok(of),
            };
        }
    }

    /// `of[keys]` or `of(arguments)`.
    fn bracketed(&mut self, of: Expr, open: &str, start: u32) -> Checked<Expr> {
        self.take()?;
        let close = if open == "[" { "]" } else { ")" };
        let arguments = self.outside_predicate(|parser| parser.arguments(close))?;
        let height = arguments.iter().map(|argument| argument.height).max();
        let height = of.height.max(height.unwrap_or(0));
        let kind = match open {
            "[" if arguments.is_empty() => return Err(self.unexpected()?),
            "[" => ExprKind::Index(of.into(), arguments),
            _ => ExprKind::Call(of.into(), arguments),
        };
        self.node(kind, start, height)
    }

    fn arguments(&mut self, close: &'static str) -> Checked<Vec<Expr>> {
        let mut arguments = Vec::new();
        if self.eat(close)? {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.assignment()?);
            if self.eat(close)? {
                return Ok(arguments);
            }
            self.expect(",")?;
        }
    }

    fn primary(&mut self) -> Checked<Expr> {
        let start = self.here()?;
        let kind = match self.peek()?.clone() {
            TokenKind::Punctuation("(") => return self.parenthesized(),
            TokenKind::Int(value) => ExprKind::Int(value),
            TokenKind::String(text) => ExprKind::String(text),
            TokenKind::Symbol(module, name) => {
                ExprKind::Symbol(module.map(Into::into), name.into())
            }
            TokenKind::Aggregation(name) => ExprKind::Aggregation(name.into()),
            TokenKind::Name("self") => return self.scoped(ExprKind::Thread),
            TokenKind::Name("this") => return self.scoped(ExprKind::Clause),
            TokenKind::Name("offsetof") => return self.offsetof(),
            TokenKind::Name("xlate") => return self.xlate(),
            TokenKind::Name(word) if !is_keyword(word) => ExprKind::Name(word.into()),
            _ => return Err(self.unexpected()?),
        };
        self.take()?;
        self.node(kind, start, 0)
    }

    fn parenthesized(&mut self) -> Checked<Expr> {
        self.take()?;
        let inner = self.outside_predicate(Self::expression)?;
        self.expect(")")?;
        Ok(inner)
    }

    /// `self->name` and `this->name`.
    fn scoped(&mut self, make: fn(Box<str>) -> ExprKind) -> Checked<Expr> {
        let start = self.here()?;
        self.take()?;
        self.expect("->")?;
        let name = self.member_name()?;
        self.node(make(name.text), start, 0)
    }

    /// `offsetof(type, member)`.
    fn offsetof(&mut self) -> Checked<Expr> {
        let start = self.here()?;
        self.take()?;
        self.expect("(")?;
        let ty = self.type_name()?;
        self.expect(",")?;
        let member = self.member_name()?;
        self.expect(")")?;
        self.node(ExprKind::Offsetof(ty.into(), member), start, 0)
    }

    /// `xlate <type>(e)`.
    fn xlate(&mut self) -> Checked<Expr> {
        let start = self.here()?;
        self.take()?;
        self.expect("<")?;
        let ty = self.type_name()?;
        self.expect(">")?;
        self.expect("(")?;
        let of = self.outside_predicate(Self::expression)?;
        self.expect(")")?;
        let height = of.height;
        self.node(ExprKind::Xlate(ty.into(), of.into()), start, height)
    }
}
