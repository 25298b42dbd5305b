//! `args[n]`, the typed arguments of a probe.

use super::Checker;
use crate::ast;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Builtin, Expr, ExprKind, ProbePattern};
use crate::types::Type;
use crate::world::{Argument, Arguments, Passed};

impl Checker<'_> {
    pub(super) fn argument(&mut self, keys: &[ast::Expr], span: Span) -> Checked<Expr> {
        let at = self.constant_index("args", keys, span)?;
        let Some(probe) = self.probe.clone() else {
            let message = "args[ ] may not be referenced outside of a probe clause";
            return Err(Fault::new(Tag::ArgsNone, span, message));
        };
        let outside = |probe: &ProbePattern| {
            let message = format!(
                "index {at} is out of range for {} args[ ]",
                described(probe)
            );
            Fault::new(Tag::ArgsIdx, span, message)
        };
        if at < 0 || ["BEGIN", "END"].contains(&&*probe.name) {
            return Err(outside(&probe));
        }
        let known = match self.world.arguments(&probe, &mut self.script.types) {
            Arguments::Known(types) => types,
            Arguments::Ambiguous => {
                let message = format!(
                    "args[ ] may not be referenced because probe description {} matches an unstable set of probes",
                    described(&probe)
                );
                return Err(Fault::new(Tag::ArgsMulti, span, message));
            }
            Arguments::Unknown => {
                let message = format!("failed to resolve native type for args[{at}]");
                return Err(Fault::new(Tag::ArgsType, span, message));
            }
        };
        let found = usize::try_from(at).ok().and_then(|at| known.get(at));
        let Some(Argument { ty, passed }) = found.copied() else {
            return Err(outside(&probe));
        };
        let scalar = matches!(
            self.types().actual(ty),
            Type::Int { .. } | Type::Enum { .. } | Type::Pointer(_) | Type::Array { .. }
        );
        let number = match passed {
            Passed::Word(number) if scalar => number,
            passed => {
                let why = match passed {
                    Passed::Otherwise(why) => why,
                    Passed::Word(_) => "is not passed as one word",
                };
                let message = format!("args[{at}] of type \"{}\" {why}", self.type_text(ty));
                return Err(Fault::new(Tag::ArgsType, span, message));
            }
        };
        let word = Expr {
            kind: ExprKind::Builtin(Builtin::Arg(number)),
            ty: self.common.int64,
            span,
        };
        let ty = match *self.types().actual(ty) {
            Type::Array { of, .. } => self.script.types.add(Type::Pointer(of)),
            _ => ty,
        };
        let kind = ExprKind::Cast(word.into());
        Ok(Expr { kind, ty, span })
    }
}

/// A probe description as it is written.
pub(super) fn described(probe: &ProbePattern) -> String {
    match probe.id {
        Some(id) => id.to_string(),
        None => format!(
            "{}:{}:{}:{}",
            probe.provider, probe.module, probe.function, probe.name
        ),
    }
}
