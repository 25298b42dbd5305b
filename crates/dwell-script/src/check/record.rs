//! Actions: what is recorded for the consumer, and what is done at once.

use super::Checker;
use super::call::check_count;
use super::rules::Effect;
use crate::ast;
use crate::builtins::functions::{Action, Callee, Prototype};
use crate::error::{Checked, Fault};
use crate::schema::AggregationId;
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Act, Expr, ExprKind, Recording, Statement};
use crate::types::Type;

impl Checker<'_> {
    /// A call of an action as a statement.
    pub(super) fn action(
        &mut self,
        prototype: &'static Prototype,
        arguments: &[ast::Expr],
        expr: &ast::Expr,
    ) -> Checked<Statement> {
        let span = expr.span;
        check_count(prototype, arguments.len(), span)?;
        match prototype.callee {
            Callee::Action(action) => {
                let recording = self.recording(prototype, action, arguments, span)?;
                self.note_effect(prototype, action, span)?;
                Ok(Statement::Record(recording))
            }
            Callee::Act(act) => self.act(prototype, act, arguments, span),
            _ => {
                self.rules.note(Effect::Recording, span)?;
                Ok(Statement::Record(Recording::Trace(self.recorded(expr)?)))
            }
        }
    }

    fn note_effect(&mut self, prototype: &Prototype, action: Action, span: Span) -> Checked<()> {
        let effect = match action {
            Action::Speculate => Effect::Speculate,
            Action::Commit => Effect::Commit,
            Action::Discard => Effect::Discard,
            Action::Exit => Effect::Exit,
            Action::System | Action::Freopen => {
                self.rules.note(Effect::Destructive, span)?;
                self.require_destructive(prototype.name, span)?;
                Effect::Recording
            }
            _ => Effect::Recording,
        };
        self.rules.note(effect, span)
    }

    fn require_destructive(&self, name: &str, span: Span) -> Checked<()> {
        if self.options.flag("destructive") {
            return Ok(());
        }
        let message =
            format!("{name}( ) is destructive: destructive actions are not allowed without -w");
        Err(Fault::new(Tag::Destructive, span, message))
    }

    fn act(
        &mut self,
        prototype: &'static Prototype,
        act: Act,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Statement> {
        let arguments = self.arguments(prototype, arguments, span)?;
        self.rules.note(Effect::Destructive, span)?;
        self.require_destructive(prototype.name, span)?;
        Ok(Statement::Act(act, arguments))
    }

    fn recording(
        &mut self,
        prototype: &'static Prototype,
        action: Action,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Recording> {
        Ok(match action {
            Action::Trace => Recording::Trace(self.traced(&arguments[0])?),
            Action::Tracemem => self.tracemem(arguments)?,
            Action::Print => Recording::Print(self.printed(&arguments[0])?),
            Action::Printf => {
                let (format, values) = self.formatted(prototype.name, arguments, span)?;
                Recording::Printf(format, values)
            }
            Action::System => {
                let (format, values) = self.formatted(prototype.name, arguments, span)?;
                Recording::System(format, values)
            }
            Action::Freopen => {
                let (format, values) = self.formatted(prototype.name, arguments, span)?;
                if &*format == "." {
                    let message = "freopen( ) argument #1 cannot be \".\"";
                    return Err(Fault::new(Tag::FreopenInvalid, span, message));
                }
                Recording::Freopen(format, values)
            }
            Action::Ftruncate => Recording::Freopen("".into(), Vec::new()),
            Action::Printa => self.printa(arguments, span)?,
            Action::Clear => {
                Recording::Clear(self.aggregation_argument(prototype.name, &arguments[0])?)
            }
            Action::Denormalize => {
                Recording::Denormalize(self.aggregation_argument(prototype.name, &arguments[0])?)
            }
            Action::Trunc => {
                let id = self.aggregation_argument(prototype.name, &arguments[0])?;
                let count = arguments
                    .get(1)
                    .map(|count| self.scalar_argument("trunc", 1, count));
                Recording::Trunc(id, count.transpose()?)
            }
            Action::Normalize => {
                let id = self.aggregation_argument(prototype.name, &arguments[0])?;
                Recording::Normalize(id, self.normalizer(&arguments[1])?)
            }
            Action::Exit => Recording::Exit(self.only_int(prototype, arguments, span)?),
            Action::Speculate => Recording::Speculate(self.only_int(prototype, arguments, span)?),
            Action::Commit => Recording::Commit(self.only_int(prototype, arguments, span)?),
            Action::Discard => Recording::Discard(self.only_int(prototype, arguments, span)?),
            Action::Setopt => self.setopt(prototype.name, arguments)?,
        })
    }

    fn only_int(
        &mut self,
        prototype: &'static Prototype,
        arguments: &[ast::Expr],
        span: Span,
    ) -> Checked<Expr> {
        let mut values = self.arguments(prototype, arguments, span)?;
        Ok(values.remove(0))
    }

    fn scalar_argument(&mut self, name: &str, at: usize, argument: &ast::Expr) -> Checked<Expr> {
        let value = self.value(argument)?;
        match self.types().is_int(value.ty) {
            true => Ok(self.convert(value, self.common.int64)),
            false => Err(self.wrong_argument(name, at, "int64_t", &value)),
        }
    }

    fn normalizer(&mut self, argument: &ast::Expr) -> Checked<Expr> {
        let value = self.value(argument)?;
        match self.types().is_int(value.ty) {
            true => Ok(self.convert(value, self.common.uint64)),
            false => Err(self.wrong_argument("normalize", 1, "uint64_t", &value)),
        }
    }

    /// What `trace` records: a value, a string, or an object's bytes.
    fn traced(&mut self, argument: &ast::Expr) -> Checked<Expr> {
        if self.is_action(argument) {
            let message = "trace( ) may not be applied to a void expression";
            return Err(Fault::new(Tag::TraceVoid, argument.span, message));
        }
        if let ast::ExprKind::Aggregation(_) = &argument.kind {
            let message = "trace( ) may not be applied to a dynamic expression";
            return Err(Fault::new(Tag::TraceDyn, argument.span, message));
        }
        let value = self.recorded(argument)?;
        match self.types().actual(value.ty) {
            Type::Void => {
                let message = "trace( ) may not be applied to a void expression";
                Err(Fault::new(Tag::TraceVoid, argument.span, message))
            }
            Type::Array { of, .. } if self.types().is_char(*of) => {
                let string = self.common.string;
                Ok(self.convert(value, string))
            }
            Type::Function | Type::Incomplete { .. } => {
                Err(self.wrong_argument("trace", 0, "scalar or string", &value))
            }
            _ => Ok(value),
        }
    }

    fn printed(&mut self, argument: &ast::Expr) -> Checked<Expr> {
        let value = self.recorded(argument)?;
        self.complete_element(value.ty);
        if self.types().is_string_like(value.ty) {
            let string = self.common.string;
            return Ok(self.convert(value, string));
        }
        let nothing = self.types().size(value.ty).is_none() || self.types().is_void(value.ty);
        if nothing {
            let message = format!(
                "print( ) argument #1 reference has type '{}' with size 0; cannot print( ) it.",
                self.type_text(value.ty)
            );
            return Err(Fault::new(Tag::PrintSize, argument.span, message));
        }
        Ok(value)
    }

    fn tracemem(&mut self, arguments: &[ast::Expr]) -> Checked<Recording> {
        let address = self.expr(&arguments[0])?;
        let address = self.pointer(address);
        if !self.types().is_scalar(address.ty) {
            let mut fault = self.wrong_argument("tracemem", 0, "pointer or integer", &address);
            fault.tag = Tag::TracememAddr;
            return Err(fault);
        }
        let size = self.value(&arguments[1])?;
        let ExprKind::Int(size @ 1..=0x7fff_ffff) = size.kind else {
            let message =
                "tracemem( ) argument #2 must be a non-zero positive integral constant expression";
            return Err(Fault::new(Tag::TracememSize, arguments[1].span, message));
        };
        let length = arguments
            .get(2)
            .map(|length| self.scalar_argument("tracemem", 2, length));
        Ok(Recording::Tracemem {
            address,
            size: size as u32,
            length: length.transpose()?,
        })
    }

    fn setopt(&mut self, name: &str, arguments: &[ast::Expr]) -> Checked<Recording> {
        let mut texts = Vec::new();
        for argument in arguments {
            texts.push(self.string_constant(name, argument)?);
        }
        let mut texts = texts.into_iter();
        Ok(Recording::Setopt(
            texts.next().unwrap_or_default(),
            texts.next(),
        ))
    }

    /// A string that is known now.
    pub(super) fn string_constant(
        &mut self,
        name: &str,
        argument: &ast::Expr,
    ) -> Checked<Box<str>> {
        let value = self.value(argument)?;
        match value.kind {
            ExprKind::String(text) => Ok(text),
            _ => {
                let mut fault = self.wrong_argument(name, 0, "string constant", &value);
                let string = self.types().is_string(value.ty);
                fault.tag = match name {
                    "printf" | "setopt" if !string => Tag::ProtoArg,
                    "printa" => Tag::PrintaAggarg,
                    _ => Tag::PrintfArgFmt,
                };
                Err(fault)
            }
        }
    }

    /// An aggregation as an argument; it must have been filled before.
    pub(super) fn aggregation_argument(
        &mut self,
        name: &str,
        argument: &ast::Expr,
    ) -> Checked<AggregationId> {
        let (not_one, undefined) = match name {
            "clear" => (Tag::ClearAggarg, Tag::ClearAggbad),
            "trunc" => (Tag::TruncAggarg, Tag::TruncAggbad),
            "printa" => (Tag::PrintaAggarg, Tag::PrintaAggbad),
            _ => (Tag::NormalizeAggarg, Tag::NormalizeAggbad),
        };
        let ast::ExprKind::Aggregation(aggregation) = &argument.kind else {
            let ty = self
                .value(argument)
                .map_or("unknown".into(), |value| self.type_text(value.ty));
            let message = format!(
                "{name}( ) argument #1 is incompatible with prototype:\n\tprototype: aggregation\n\t argument: {ty}"
            );
            return Err(Fault::new(not_one, argument.span, message));
        };
        if let Some(id) = self.names.aggregations.get(aggregation) {
            return Ok(*id);
        }
        let message = format!("undefined aggregation: @{aggregation}");
        let known = self.names.aggregations.keys().map(|name| &**name);
        Err(Fault::new(undefined, argument.span, message).suggesting(aggregation, known))
    }
}
