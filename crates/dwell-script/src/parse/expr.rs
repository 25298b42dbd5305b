//! Expressions from the comma down to casts.

use super::Parser;
use super::operators::{self, Operator};
use crate::ast::{Expr, ExprKind};
use crate::error::Checked;
use crate::lex::TokenKind;
use crate::typed::Unary;

impl Parser<'_, '_> {
    /// `a, b`.
    pub(super) fn expression(&mut self) -> Checked<Expr> {
        let start = self.here()?;
        let mut left = self.assignment()?;
        while self.eat(",")? {
            let right = self.assignment()?;
            let height = left.height.max(right.height);
            left = self.node(ExprKind::Comma(left.into(), right.into()), start, height)?;
        }
        Ok(left)
    }

    /// `a = b`, `a += b`, …, from the right.
    pub(super) fn assignment(&mut self) -> Checked<Expr> {
        self.nested(|parser| {
            let start = parser.here()?;
            let left = parser.conditional()?;
            let TokenKind::Punctuation(text) = *parser.peek()? else {
                return Ok(left);
            };
            let Some(operation) = operators::assignment(text) else {
                return Ok(left);
            };
            parser.take()?;
            let right = parser.assignment()?;
            let height = left.height.max(right.height);
            let kind = ExprKind::Assign(operation, left.into(), right.into());
            parser.node(kind, start, height)
        })
    }

    /// `c ? a : b`, from the right.
    pub(super) fn conditional(&mut self) -> Checked<Expr> {
        self.nested(|parser| {
            let start = parser.here()?;
            let condition = parser.binary(1)?;
            if !parser.eat("?")? {
                return Ok(condition);
            }
            let then = parser.outside_predicate(Self::expression)?;
            parser.expect(":")?;
            let otherwise = parser.conditional()?;
            let height = condition.height.max(then.height).max(otherwise.height);
            let kind = ExprKind::Conditional(condition.into(), then.into(), otherwise.into());
            parser.node(kind, start, height)
        })
    }

    /// Binary operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8) -> Checked<Expr> {
        let start = self.here()?;
        let mut left = self.cast()?;
        loop {
            let TokenKind::Punctuation(text) = *self.peek()? else {
                return Ok(left);
            };
            let Some((operator, precedence)) = operators::binary(text) else {
                return Ok(left);
            };
            if precedence < least || (text == "/" && self.at_predicate_end()?) {
                return Ok(left);
            }
            self.take()?;
            let right = self.binary(precedence + 1)?;
            let height = left.height.max(right.height);
            let kind = match operator {
                Operator::Binary(operator) => ExprKind::Binary(operator, left.into(), right.into()),
                Operator::Logical(operator) => {
                    ExprKind::Logical(operator, left.into(), right.into())
                }
            };
            left = self.node(kind, start, height)?;
        }
    }

    /// `(type)x`.
    fn cast(&mut self) -> Checked<Expr> {
        if !self.at("(")? || !self.parenthesis_is_type(true)? {
            return self.unary();
        }
        self.nested(|parser| {
            let start = parser.here()?;
            parser.take()?;
            let ty = parser.type_name()?;
            parser.expect(")")?;
            let of = parser.cast()?;
            let height = of.height;
            parser.node(ExprKind::Cast(ty.into(), of.into()), start, height)
        })
    }

    /// Operators before their operand.
    fn unary(&mut self) -> Checked<Expr> {
        let start = self.here()?;
        match *self.peek()? {
            TokenKind::Punctuation(text) => {
                let make: fn(Box<Expr>) -> ExprKind = match text {
                    "-" => |of| ExprKind::Unary(Unary::Negate, of),
                    "~" => |of| ExprKind::Unary(Unary::Complement, of),
                    "!" => |of| ExprKind::Unary(Unary::Not, of),
                    "+" => ExprKind::Plus,
                    "&" => ExprKind::AddressOf,
                    "*" => ExprKind::Dereference,
                    "++" => |of| ExprKind::Step {
                        of,
                        by: 1,
                        postfix: false,
                    },
                    "--" => |of| ExprKind::Step {
                        of,
                        by: -1,
                        postfix: false,
                    },
                    _ => return self.postfix(),
                };
                self.prefixed(start, make)
            }
            TokenKind::Name("sizeof") => self.nested(Self::sizeof),
            TokenKind::Name("stringof") => self.prefixed(start, ExprKind::Stringof),
            _ => self.postfix(),
        }
    }

    fn prefixed(&mut self, start: u32, make: impl FnOnce(Box<Expr>) -> ExprKind) -> Checked<Expr> {
        self.nested(|parser| {
            parser.take()?;
            let of = parser.cast()?;
            let height = of.height;
            parser.node(make(of.into()), start, height)
        })
    }

    fn sizeof(&mut self) -> Checked<Expr> {
        let start = self.here()?;
        self.take()?;
        if self.at("(")? && self.parenthesis_is_type(false)? {
            self.take()?;
            let ty = self.type_name()?;
            self.expect(")")?;
            return self.node(ExprKind::SizeofType(ty.into()), start, 0);
        }
        let of = self.unary()?;
        let height = of.height;
        self.node(ExprKind::SizeofExpr(of.into()), start, height)
    }

    /// A production within parentheses or the like, where a slash divides.
    pub(super) fn outside_predicate<T>(
        &mut self,
        production: impl FnOnce(&mut Self) -> Checked<T>,
    ) -> Checked<T> {
        let before = std::mem::replace(&mut self.in_predicate, false);
        let result = production(self);
        self.in_predicate = before;
        result
    }
}
