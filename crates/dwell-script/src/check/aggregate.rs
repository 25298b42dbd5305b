//! `@name[keys] = function(...)`, and keys of aggregations and associative arrays.

use super::Checker;
use crate::ast;
use crate::builtins::functions::{Aggregating, Callee, Prototype};
use crate::error::{Checked, Fault};
use crate::schema::{Aggregate, AggregationId};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Aggregation, Expr, Statement};
use crate::types::{Type, TypeId};

impl Checker<'_> {
    /// `@name[keys] = function(...)`.
    pub(super) fn aggregate(
        &mut self,
        to: &ast::Expr,
        value: &ast::Expr,
        span: Span,
    ) -> Checked<Statement> {
        let (name, keys) = aggregation_named(to)?;
        let ast::ExprKind::Call(callee, arguments) = &value.kind else {
            return Err(no_function(name, span));
        };
        let prototype = self.callee(callee)?;
        let Callee::Aggregating(function) = prototype.callee else {
            return Err(no_function(name, span));
        };
        let (id, keys) = self.aggregation_keys(name, keys, to.span)?;
        let (function, value, increment) =
            self.aggregating(prototype, function, arguments, value.span)?;
        self.set_function(id, function, &value, prototype.name, span)?;
        Ok(Statement::Aggregate {
            to: id,
            keys,
            value,
            increment,
        })
    }

    /// The aggregation, with these keys at first, and its keys.
    fn aggregation_keys(
        &mut self,
        name: &str,
        keys: &[ast::Expr],
        span: Span,
    ) -> Checked<(AggregationId, Vec<Expr>)> {
        if let Some(id) = self.names.aggregations.get(name).copied() {
            let wanted = self.script.aggregations[id.0 as usize].keys.clone();
            let keys = self.keys(name, "@", keys, &wanted, span)?;
            return Ok((id, keys));
        }
        let mut values = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            values.push(self.key(key, "aggregation", at)?);
        }
        let id = AggregationId(self.script.aggregations.len() as u32);
        self.script.aggregations.push(Aggregation {
            name: if name == "_" { "".into() } else { name.into() },
            keys: values.iter().map(|key| key.ty).collect(),
            function: None,
            signed: true,
        });
        self.names.aggregations.insert(name.into(), id);
        Ok((id, values))
    }

    /// A key that decides about the type of its place in the tuple.
    pub(super) fn key(&mut self, key: &ast::Expr, kind: &str, at: usize) -> Checked<Expr> {
        let value = self.recorded(key)?;
        let types = self.types();
        match types.actual(value.ty) {
            Type::Array { of, .. } if types.is_char(*of) => {
                let string = self.common.string;
                Ok(self.convert(value, string))
            }
            Type::Void | Type::Function | Type::Incomplete { .. } => {
                let ty = types.name(value.ty);
                let message = format!(
                    "{ty} expression may not be used as {kind} index: key #{}",
                    at + 1
                );
                Err(Fault::new(Tag::KeyType, value.span, message))
            }
            _ => Ok(value),
        }
    }

    /// Keys of types that are settled.
    pub(super) fn keys(
        &mut self,
        name: &str,
        prefix: &str,
        keys: &[ast::Expr],
        wanted: &[TypeId],
        span: Span,
    ) -> Checked<Vec<Expr>> {
        if keys.len() != wanted.len() {
            let (given, plural) = (keys.len(), if keys.len() == 1 { "key" } else { "keys" });
            let message = format!(
                "{prefix}{name}[ ] prototype mismatch: {given} {plural} passed, {} expected",
                wanted.len()
            );
            return Err(Fault::new(Tag::ProtoLen, span, message));
        }
        let mut values = Vec::new();
        for (at, (key, ty)) in keys.iter().zip(wanted).enumerate() {
            let value = self.recorded(key)?;
            if !self.assignable(&value, *ty) && !self.types().compatible(value.ty, *ty) {
                let message = format!(
                    "{prefix}{name}[ ] key #{} is incompatible with prototype:\n\tprototype: {}\n\t      key: {}",
                    at + 1,
                    self.type_text(*ty),
                    self.type_text(value.ty)
                );
                return Err(Fault::new(Tag::ProtoArg, value.span, message));
            }
            values.push(self.convert_or_null(value, *ty));
        }
        Ok(values)
    }

    /// An aggregation keeps the function it got first.
    fn set_function(
        &mut self,
        id: AggregationId,
        function: Aggregate,
        value: &Expr,
        name: &str,
        span: Span,
    ) -> Checked<()> {
        let signed = function != Aggregate::Count && self.types().is_signed(value.ty);
        let aggregation = &mut self.script.aggregations[id.0 as usize];
        let Some(before) = aggregation.function else {
            aggregation.function = Some(function);
            aggregation.signed = signed;
            self.names.aggregated.insert(id, span);
            return Ok(());
        };
        if std::mem::discriminant(&before) != std::mem::discriminant(&function) {
            let at = &aggregation.name;
            let message = format!(
                "aggregation redefined: @{at}\n\t current: @{at} = {name}( )\n\tprevious: @{at} = {}( )",
                function_name(before)
            );
            return Err(Fault::new(Tag::AggRedef, span, message));
        }
        super::quantize::matches_previous(before, function, span)
    }

    /// The function, what it aggregates, and how often.
    fn aggregating(
        &mut self,
        prototype: &'static Prototype,
        function: Aggregating,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<(Aggregate, Expr, Option<Expr>)> {
        let arguments = self.arguments(prototype, arguments, span)?;
        let one = self.int(1, self.common.int, span);
        let mut arguments = arguments.into_iter();
        let value = arguments.next();
        let rest: Vec<Expr> = arguments.collect();
        let Some(value) = value else {
            return Ok((Aggregate::Count, one, None));
        };
        let value = self.decayed(value);
        if !self.types().is_scalar(value.ty) {
            let message = format!("{}( ) argument #1 must be of scalar type", prototype.name);
            return Err(Fault::new(Tag::AggScalar, value.span, message));
        }
        let (function, increment) = match function {
            Aggregating::Count => (Aggregate::Count, None),
            Aggregating::Sum => (Aggregate::Sum, None),
            Aggregating::Min => (Aggregate::Min, None),
            Aggregating::Max => (Aggregate::Max, None),
            Aggregating::Avg => (Aggregate::Avg, None),
            Aggregating::Stddev => (Aggregate::Stddev, None),
            Aggregating::Quantize => (Aggregate::Quantize, self.increment("quantize", &rest, 0)?),
            Aggregating::Lquantize => (
                self.lquantize(&rest, span)?,
                self.increment("lquantize", &rest, 3)?,
            ),
            Aggregating::Llquantize => (
                self.llquantize(&rest)?,
                self.increment("llquantize", &rest, 4)?,
            ),
        };
        Ok((function, value, increment))
    }

    /// The argument after the function's parameters: how often the value counts.
    fn increment(&mut self, name: &str, rest: &[Expr], at: usize) -> Checked<Option<Expr>> {
        let most = at + 2;
        if rest.len() > at + 1 {
            let message = format!(
                "{name}( ) prototype mismatch: {} args passed, at most {most} expected",
                rest.len() + 1
            );
            return Err(Fault::new(Tag::ProtoLen, rest[at + 1].span, message));
        }
        let Some(increment) = rest.get(at).cloned() else {
            return Ok(None);
        };
        if !self.types().is_scalar(increment.ty) {
            let message =
                format!("{name}( ) increment value (argument #{most}) must be of scalar type");
            return Err(Fault::new(Tag::ProtoArg, increment.span, message));
        }
        Ok(Some(increment))
    }
}

/// The aggregation and the keys to the left of an assignment.
fn aggregation_named(to: &ast::Expr) -> Checked<(&str, &[ast::Expr])> {
    match &to.kind {
        ast::ExprKind::Aggregation(name) => Ok((name, &[])),
        ast::ExprKind::Index(of, keys) => match &of.kind {
            ast::ExprKind::Aggregation(name) => Ok((name, keys)),
            _ => {
                let (name, _) = aggregation_named(of)?;
                let message =
                    format!("improper attempt to reference @{name} as a multi-dimensional array");
                Err(Fault::new(Tag::AggMdim, to.span, message))
            }
        },
        _ => Err(Fault::new(Tag::AggFunc, to.span, "aggregation expected")),
    }
}

/// Whether an aggregation stands to the left.
pub(super) fn is_aggregation(to: &ast::Expr) -> bool {
    match &to.kind {
        ast::ExprKind::Aggregation(_) => true,
        ast::ExprKind::Index(of, _) => is_aggregation(of),
        _ => false,
    }
}

fn no_function(name: &str, span: Span) -> Box<Fault> {
    let message = format!("@{name} must be assigned the result of an aggregating function");
    Fault::new(Tag::AggFunc, span, message)
}

/// The name of an aggregating function.
pub(crate) fn function_name(function: Aggregate) -> &'static str {
    match function {
        Aggregate::Count => "count",
        Aggregate::Sum => "sum",
        Aggregate::Min => "min",
        Aggregate::Max => "max",
        Aggregate::Avg => "avg",
        Aggregate::Stddev => "stddev",
        Aggregate::Quantize => "quantize",
        Aggregate::Lquantize { .. } => "lquantize",
        Aggregate::Llquantize { .. } => "llquantize",
    }
}
