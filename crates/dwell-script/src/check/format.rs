//! The formats of `printf`, `printa` and their kind against the types of their arguments.

use super::Checker;
use crate::ast;
use crate::error::{Checked, Fault};
use crate::output::format::{self, Conversion, Extent, Piece};
use crate::schema::AggregationId;
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Expr, ExprKind, Recording};
use crate::types::Type;

impl Checker<'_> {
    /// The format and arguments of `printf`, `system` and `freopen`.
    pub(super) fn formatted(
        &mut self,
        name: &str,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<(Box<str>, Vec<Expr>)> {
        let format = self.string_constant(name, &arguments[0])?;
        let conversions = conversions(name, &format, arguments[0].span)?;
        let mut values = Vec::new();
        for argument in &arguments[1..] {
            values.push(match self.is_action(argument) {
                true => Err(argument.span),
                false => Ok(self.recorded(argument)?),
            });
        }
        let mut rest = values.into_iter();
        let mut taken = Vec::new();
        for (number, conversion) in conversions.iter().enumerate() {
            for (extent, mark) in [(conversion.width, "*"), (conversion.precision, ".*")] {
                if extent == Extent::Argument {
                    let at = taken.len() + 2;
                    let place = (name, number, conversion, at);
                    taken.push(self.dynamic_argument(place, mark, rest.next(), span)?);
                }
            }
            if conversion.aggregation {
                let message = format!(
                    "%@ conversion requires an aggregation and is not for use with {name}( )"
                );
                return Err(Fault::new(Tag::PrintfAggConv, span, message));
            }
            let Some(value) = rest.next() else {
                return Err(missing_argument(name, number, conversion, span));
            };
            let at = taken.len() + 2;
            let value = value.map_err(|span| {
                let wanted = any_prototype(conversion);
                incompatible((name, number, conversion, at), wanted, "void", span)
            })?;
            taken.push(self.converted(name, number, conversion, value, at)?);
        }
        if rest.next().is_some() {
            let message = format!(
                "{name}( ) prototype mismatch: only {} arguments required by this format string",
                taken.len()
            );
            return Err(Fault::new(Tag::PrintfArgExtra, span, message));
        }
        Ok((format, taken))
    }

    /// The width or precision that a `*` stands for; an action gives none, but its place.
    fn dynamic_argument(
        &mut self,
        (name, number, conversion, at): ConversionOf<'_>,
        mark: &str,
        value: Option<Result<Expr, Span>>,
        span: Span,
    ) -> Checked<Expr> {
        let (ty, span) = match value {
            None => {
                let message = format!(
                    "{name}( ) prototype mismatch: conversion #{} (%{}) is missing a corresponding \"{mark}\" argument",
                    number + 1,
                    conversion.name
                );
                return Err(Fault::new(Tag::PrintfDynProto, span, message));
            }
            Some(Ok(value)) if self.types().is_int(value.ty) => {
                return Ok(self.convert(value, self.common.int));
            }
            Some(Ok(value)) => (self.type_text(value.ty), value.span),
            Some(Err(span)) => ("void".to_owned(), span),
        };
        let message = format!(
            "{name}( ) argument #{at} is incompatible with conversion #{} prototype:\n\tconversion: %{mark}{}\n\t prototype: int\n\t  argument: {ty}",
            number + 1,
            conversion.name,
        );
        Err(Fault::new(Tag::PrintfDynType, span, message))
    }

    /// The argument of a conversion; characters become a string where one is wanted.
    fn converted(
        &mut self,
        name: &str,
        number: usize,
        conversion: &Conversion,
        value: Expr,
        at: usize,
    ) -> Checked<Expr> {
        if let Some(wanted) = self.prototype(conversion, &value) {
            let ty = self.type_text(value.ty);
            let place = (name, number, conversion, at);
            return Err(incompatible(place, wanted, &ty, value.span));
        }
        if matches!(&*conversion.name, "s" | "S") {
            let string = self.common.string;
            return Ok(self.convert(value, string));
        }
        Ok(self.decayed(value))
    }

    /// What the conversion takes, if that is not the value's type.
    fn prototype(&self, conversion: &Conversion, value: &Expr) -> Option<&'static str> {
        let types = self.types();
        let ty = value.ty;
        let size = types.size(ty).unwrap_or(0);
        let letter = conversion.name.chars().last().unwrap_or_default();
        let prefix = conversion.name.trim_end_matches(letter);
        let address =
            |user| matches!(types.actual(ty), Type::Address { user: found, .. } if *found == user);
        let number = types.is_int(ty) || types.is_pointer_like(ty);
        let (fits, prototype) = match letter {
            'a' => (number || address(false), "pointer or integer"),
            'p' => (number, "pointer or integer"),
            'A' => (
                address(true) || (number && self.has_target),
                "usymaddr, or pointer or integer (with -p/-c)",
            ),
            'c' | 'C' if prefix.is_empty() => {
                (types.is_int(ty) && size <= 4, "char, short, or int")
            }
            'e' | 'E' | 'f' | 'g' | 'G' => (
                matches!(types.actual(ty), Type::Float { .. }),
                "float, double, or long double",
            ),
            'k' => (matches!(types.actual(ty), Type::Stack { .. }), "stack"),
            's' | 'S' if prefix.is_empty() => (
                types.is_string_like(ty),
                "char [] or string (or use stringof)",
            ),
            's' => (
                types
                    .element(ty)
                    .is_some_and(|of| types.size(of) == Some(4)),
                "wchar_t []",
            ),
            'T' | 'Y' => (types.is_int(ty) && size == 8, "int64_t"),
            _ => (
                types.is_int(ty) && self.prefix_fits(prefix, size),
                prefix_prototype(prefix),
            ),
        };
        (!fits).then_some(prototype)
    }

    /// A size that is said must be the argument's.
    fn prefix_fits(&self, prefix: &str, size: u64) -> bool {
        match prefix {
            "h" => size == 2,
            "l" | "ll" => size == 8,
            _ => true,
        }
    }

    /// `printa([format,] @a, ...)`.
    pub(super) fn printa(&mut self, arguments: &[ast::Expr], span: Span) -> Checked<Recording> {
        let first_is_aggregation = matches!(arguments[0].kind, ast::ExprKind::Aggregation(_));
        let format = match first_is_aggregation {
            true => None,
            false => Some(self.string_constant("printa", &arguments[0])?),
        };
        let rest = &arguments[usize::from(format.is_some())..];
        if rest.is_empty() {
            let message = "printa( ) prototype mismatch: 1 arg passed, at least 2 expected";
            return Err(Fault::new(Tag::PrintaProto, span, message));
        }
        let mut ids = Vec::new();
        for argument in rest {
            ids.push(self.aggregation_argument("printa", argument)?);
        }
        for id in &ids[1..] {
            self.check_same_keys(ids[0], *id, span)?;
        }
        if let Some(format) = &format {
            self.check_printa_format(format, ids[0], arguments[0].span)?;
        }
        Ok(Recording::Printa(format, ids))
    }

    fn check_same_keys(
        &self,
        first: AggregationId,
        other: AggregationId,
        span: Span,
    ) -> Checked<()> {
        let [a, b] = [first, other].map(|id| &self.script.aggregations[id.0 as usize]);
        let plural = |count| if count == 1 { "key" } else { "keys" };
        if a.keys.len() != b.keys.len() {
            let message = format!(
                "printa( ): @{} and @{} do not have matching key signatures: @{} has {} {}, @{} has {} {}",
                a.name,
                b.name,
                a.name,
                a.keys.len(),
                plural(a.keys.len()),
                b.name,
                b.keys.len(),
                plural(b.keys.len())
            );
            return Err(Fault::new(Tag::PrintaAggkey, span, message));
        }
        let types = self.types();
        for (at, (x, y)) in a.keys.iter().zip(&b.keys).enumerate() {
            let ints = types.is_int(*x) && types.is_int(*y);
            let strings = types.is_string_like(*x) && types.is_string_like(*y);
            if !ints && !strings && !types.compatible(*x, *y) {
                let at = at + 1;
                let message = format!(
                    "printa( ): @{}[ ] key #{at} is incompatible with @{}:\n{:>9} key #{at}: {}\n{:>9} key #{at}: {}",
                    b.name,
                    a.name,
                    a.name,
                    types.name(*x),
                    b.name,
                    types.name(*y)
                );
                return Err(Fault::new(Tag::PrintaAggproto, span, message));
            }
        }
        Ok(())
    }

    /// Conversions take the keys in their order; `%@` the value.
    fn check_printa_format(&mut self, format: &str, id: AggregationId, span: Span) -> Checked<()> {
        let aggregation = &self.script.aggregations[id.0 as usize];
        let mut keys = aggregation.keys.clone().into_iter();
        let value_type = match aggregation.function {
            Some(crate::schema::Aggregate::Count) => self.common.uint64,
            _ => self.common.int64,
        };
        for (number, conversion) in conversions("printa", format, span)?.iter().enumerate() {
            let ty = match conversion.aggregation {
                true => Some(value_type),
                false => keys.next(),
            };
            let Some(ty) = ty else {
                return Err(missing_argument("printa", number, conversion, span));
            };
            let value = Expr {
                kind: ExprKind::Int(1),
                ty,
                span,
            };
            self.converted("printa", number, conversion, value, number + 2)?;
        }
        Ok(())
    }
}

fn prefix_prototype(prefix: &str) -> &'static str {
    match prefix {
        "h" => "short",
        "l" => "long",
        "ll" => "long long",
        _ => "char, short, int, long, or long long",
    }
}

/// A function's name; the number of a conversion from 0, the conversion, and the number of its argument from 1.
type ConversionOf<'a> = (&'a str, usize, &'a Conversion, usize);

/// What a conversion would take, for who gives it nothing.
fn any_prototype(conversion: &Conversion) -> &'static str {
    let letter = conversion.name.chars().last().unwrap_or_default();
    match letter {
        's' | 'S' => "char [] or string (or use stringof)",
        'k' => "stack",
        'a' | 'p' => "pointer or integer",
        'A' => "usymaddr, or pointer or integer (with -p/-c)",
        _ => prefix_prototype(conversion.name.trim_end_matches(letter)),
    }
}

fn incompatible(
    (name, number, conversion, at): ConversionOf<'_>,
    wanted: &str,
    given: &str,
    span: Span,
) -> Box<Fault> {
    let message = format!(
        "{name}( ) argument #{at} is incompatible with conversion #{} prototype:\n\tconversion: %{}\n\t prototype: {wanted}\n\t  argument: {given}",
        number + 1,
        conversion.name,
    );
    Fault::new(Tag::PrintfArgType, span, message)
}

fn missing_argument(name: &str, number: usize, conversion: &Conversion, span: Span) -> Box<Fault> {
    let message = format!(
        "{name}( ) prototype mismatch: conversion #{} (%{}) is missing a corresponding value argument",
        number + 1,
        conversion.name
    );
    Fault::new(Tag::PrintfArgProto, span, message)
}

/// The conversions of a format.
fn conversions(name: &str, format: &str, span: Span) -> Checked<Vec<Conversion>> {
    if format.is_empty() && name != "freopen" {
        let message = format!("{name}( ) format string is empty");
        return Err(Fault::new(Tag::PrintfFmtEmpty, span, message));
    }
    let format = format::parse(format);
    let format = format.map_err(|error| Fault::new(Tag::Syntax, span, error.to_string()))?;
    let conversions = format.pieces.into_iter().filter_map(|piece| match piece {
        Piece::Text(_) => None,
        Piece::Conversion(conversion) => Some(conversion),
    });
    Ok(conversions.collect())
}
