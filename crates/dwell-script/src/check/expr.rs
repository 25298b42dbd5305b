//! Expressions: one case of the syntax tree after the other.

use super::Checker;
use crate::ast::{self, ExprKind as Ast};
use crate::error::{Checked, Fault};
use crate::lex::IntToken;
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Expr, ExprKind, Place, PlaceKind, Scope, Unary};
use crate::types::{Type, TypeId};

impl Checker<'_> {
    /// The value of an expression; never an action.
    pub(super) fn expr(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        self.charge(1, expr.span)?;
        self.deeper(expr.span, |checker| checker.expr_kind(expr))
    }

    fn expr_kind(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        let span = expr.span;
        match &expr.kind {
            Ast::Int(token) => self.integer(*token, span),
            Ast::String(text) => Ok(self.string(text, span)),
            Ast::Name(name) => self.name(name, span),
            Ast::Symbol(module, name) => self.symbol(module.as_deref(), name, span),
            Ast::Thread(name) => self.scoped_name(Scope::Thread, name, span),
            Ast::Clause(name) => self.scoped_name(Scope::Clause, name, span),
            Ast::Aggregation(name) => Err(aggregation_as_value(name, span)),
            Ast::Index(of, keys) => self.index(of, keys, span),
            Ast::Call(callee, arguments) => self.call(callee, arguments, span),
            Ast::Member(of, name, arrow) => self.member(of, name, *arrow, span),
            Ast::Unary(operator, of) => self.unary(*operator, of, span),
            Ast::Plus(of) => self.plus(of, span),
            Ast::AddressOf(of) => self.address_of(of, span),
            Ast::Dereference(of) => self.dereference(of, span),
            Ast::Step { of, by, postfix } => self.step(of, *by, *postfix, span),
            Ast::SizeofExpr(of) => self.sizeof_expr(of, span),
            Ast::SizeofType(ty) => self.sizeof_type(ty, span),
            Ast::Offsetof(ty, member) => self.offsetof(ty, member, span),
            Ast::Stringof(of) => self.stringof(of, span),
            Ast::Xlate(ty, of) => self.xlate_alone(ty, of, span),
            Ast::Cast(ty, of) => self.cast(ty, of, span),
            Ast::Binary(operator, left, right) => self.binary(*operator, left, right, span),
            Ast::Logical(operator, left, right) => self.logical(*operator, left, right, span),
            Ast::Conditional(condition, then, otherwise) => {
                self.conditional(condition, then, otherwise, span)
            }
            Ast::Assign(operation, to, value) => self.assign(*operation, to, value, span),
            Ast::Comma(first, second) => self.comma(first, second, span),
        }
    }

    /// A constant has the first type that holds it: C's rule.
    pub(super) fn integer(&self, token: IntToken, span: Span) -> Checked<Expr> {
        let common = &self.common;
        let ladder = [
            (common.int, i32::MAX as u64),
            (common.uint, u32::MAX.into()),
            (common.long, i64::MAX as u64),
            (common.ulong, u64::MAX),
            (common.long_long, i64::MAX as u64),
            (common.ulong_long, u64::MAX),
        ];
        let first = usize::from(token.unsigned) + 2 * usize::from(token.longs);
        let stride = if token.decimal || token.unsigned {
            2
        } else {
            1
        };
        let mut fitting = ladder.iter().skip(first).step_by(stride);
        let Some((ty, _)) = fitting.find(|(_, limit)| token.value <= *limit) else {
            let message = format!(
                "integer constant {:#x} cannot be represented in any built-in integral type",
                token.value
            );
            return Err(Fault::new(Tag::IntOflow, span, message));
        };
        let value = token.value as i64;
        let value = if token.negative {
            value.wrapping_neg()
        } else {
            value
        };
        Ok(self.int(value, *ty, span))
    }

    pub(super) fn string(&self, text: &str, span: Span) -> Expr {
        let kind = ExprKind::String(text.into());
        let ty = self.common.string;
        Expr { kind, ty, span }
    }

    fn unary(&mut self, operator: Unary, of: &ast::Expr, span: Span) -> Checked<Expr> {
        let of = self.value(of)?;
        let types = self.types();
        let (fits, tag, needs, text) = match operator {
            Unary::Negate => (types.is_int(of.ty), Tag::OpArith, "arithmetic", "-"),
            Unary::Complement => (types.is_int(of.ty), Tag::OpInt, "integral", "~"),
            Unary::Not => (types.is_scalar(of.ty), Tag::OpScalar, "scalar", "!"),
        };
        if !fits {
            let message = format!("operator {text} requires an operand of {needs} type");
            return Err(Fault::new(tag, span, message));
        }
        let ty = if operator == Unary::Not {
            self.common.int
        } else {
            self.promoted(of.ty)
        };
        let of = if operator == Unary::Not {
            of
        } else {
            self.convert(of, ty)
        };
        if let ExprKind::Int(value) = of.kind {
            let value = match operator {
                Unary::Negate => value.wrapping_neg(),
                Unary::Complement => !value,
                Unary::Not => i64::from(value == 0),
            };
            return Ok(self.int(value, ty, span));
        }
        let kind = ExprKind::Unary(operator, of.into());
        Ok(Expr { kind, ty, span })
    }

    fn plus(&mut self, of: &ast::Expr, span: Span) -> Checked<Expr> {
        let of = self.value(of)?;
        if !self.types().is_int(of.ty) {
            let message = "operator + requires an operand of arithmetic type";
            return Err(Fault::new(Tag::OpArith, span, message));
        }
        Ok(of)
    }

    fn comma(&mut self, first: &ast::Expr, second: &ast::Expr, span: Span) -> Checked<Expr> {
        for expr in [first, second] {
            if self.is_action(expr) {
                let message = "operator , operands cannot be actions";
                return Err(Fault::new(Tag::OpAct, expr.span, message));
            }
        }
        let first = self.expr(first)?;
        let second = self.value(second)?;
        let ty = second.ty;
        let kind = ExprKind::Comma(first.into(), second.into());
        Ok(Expr { kind, ty, span })
    }

    /// A value as it is used by operators: an array becomes a pointer to its first element.
    pub(super) fn value(&mut self, expr: &ast::Expr) -> Checked<Expr> {
        let value = self.expr(expr)?;
        Ok(self.decayed(value))
    }

    pub(super) fn decayed(&mut self, value: Expr) -> Expr {
        let Type::Array { of, .. } = *self.types().actual(value.ty) else {
            return value;
        };
        let span = value.span;
        match value.kind {
            ExprKind::Read(place) => {
                let place = Place {
                    kind: place.kind,
                    ty: of,
                };
                self.address_of_place(place, span)
            }
            kind => Expr {
                kind,
                ty: value.ty,
                span,
            },
        }
    }

    /// A value that is added to, indexed or dereferenced: a string is then the address of its first character.
    pub(super) fn pointer(&mut self, value: Expr) -> Expr {
        if !self.types().is_string(value.ty) {
            return self.decayed(value);
        }
        let span = value.span;
        let character = self.common.char;
        let ty = self.script.types.add(Type::Pointer(character));
        let kind = match value.kind {
            ExprKind::Read(place) => match place.kind {
                PlaceKind::Variable(id) => PlaceKind::Part(id, 0),
                PlaceKind::Part(id, offset) => PlaceKind::Part(id, offset),
                _ => {
                    return Expr {
                        kind: ExprKind::Cast(
                            Expr {
                                kind: ExprKind::Read(place),
                                ..value
                            }
                            .into(),
                        ),
                        ty,
                        span,
                    };
                }
            },
            _ => {
                return Expr {
                    kind: ExprKind::Cast(value.into()),
                    ty,
                    span,
                };
            }
        };
        let place = Place {
            kind,
            ty: character,
        };
        Expr {
            kind: ExprKind::AddressOf(place.into()),
            ty,
            span,
        }
    }

    /// The condition of a predicate, an `if` or an operator.
    pub(super) fn is_condition(&self, ty: TypeId) -> bool {
        self.types().is_scalar(ty)
    }
}

fn aggregation_as_value(name: &str, span: Span) -> Box<Fault> {
    let message = format!("aggregation '@{name}' may not be referenced as a value");
    Fault::new(Tag::OpDyn, span, message)
}
