//! The parameters of `lquantize`, and that they stay the same.

use super::Checker;
use crate::error::{Checked, Fault};
use crate::schema::Aggregate;
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::{Expr, ExprKind};

impl Checker<'_> {
    /// `lquantize(x, base, limit[, step])`, without `x`.
    pub(super) fn lquantize(&mut self, rest: &[Expr], span: Span) -> Checked<Aggregate> {
        let base = bound(&rest[0], 1, Tag::LquantBasetype, Tag::LquantBaseval)?;
        let limit = bound(&rest[1], 2, Tag::LquantLimtype, Tag::LquantLimval)?;
        if limit <= base {
            let message = "lquantize( ) base (argument #1) must be less than limit (argument #2)";
            return Err(Fault::new(Tag::LquantMismatch, span, message));
        }
        let step = match rest.get(2).map(|step| &step.kind) {
            None => 1,
            Some(ExprKind::Int(step @ 1..=0xffff)) => *step as u16,
            Some(ExprKind::Int(0x1_0000..)) => {
                let message = "lquantize( ) argument #3 must be a 16-bit quantity";
                return Err(Fault::new(Tag::LquantStepval, rest[2].span, message));
            }
            Some(_) => {
                let message =
                    "lquantize( ) argument #3 must be a non-zero positive integer constant";
                return Err(Fault::new(Tag::LquantSteptype, rest[2].span, message));
            }
        };
        let levels = (i64::from(limit) - i64::from(base)) / i64::from(step);
        if levels == 0 {
            let message = "lquantize( ) step (argument #3) too large: must have at least one quantization level";
            return Err(Fault::new(Tag::LquantSteplarge, span, message));
        }
        if levels > 0xffff {
            let message = "lquantize( ) step (argument #3) too small: number of quantization levels must be a 16-bit quantity";
            return Err(Fault::new(Tag::LquantStepsmall, span, message));
        }
        Ok(Aggregate::Lquantize { base, limit, step })
    }
}

/// A bound of 32 bits.
fn bound(value: &Expr, at: usize, not_constant: Tag, not_fitting: Tag) -> Checked<i32> {
    let ExprKind::Int(number) = value.kind else {
        let message = format!("lquantize( ) argument #{at} must be an integer constant");
        return Err(Fault::new(not_constant, value.span, message));
    };
    i32::try_from(number).map_err(|_| {
        let message = format!("lquantize( ) argument #{at} must be a 32-bit quantity");
        Fault::new(not_fitting, value.span, message)
    })
}

/// An aggregation's parameters are those it had at first.
pub(super) fn matches_previous(before: Aggregate, now: Aggregate, span: Span) -> Checked<()> {
    use Aggregate::{Llquantize, Lquantize};
    let pairs: Vec<(i64, i64, &str, Tag)> = match (before, now) {
        (
            Lquantize { base, limit, step },
            Lquantize {
                base: b,
                limit: l,
                step: s,
            },
        ) => vec![
            (
                base.into(),
                b.into(),
                "lquantize( ) base (argument #1)",
                Tag::LquantMatchbase,
            ),
            (
                limit.into(),
                l.into(),
                "lquantize( ) limit (argument #2)",
                Tag::LquantMatchlim,
            ),
            (
                step.into(),
                s.into(),
                "lquantize( ) step (argument #3)",
                Tag::LquantMatchstep,
            ),
        ],
        (
            Llquantize {
                factor,
                low,
                high,
                steps,
            },
            Llquantize {
                factor: f,
                low: l,
                high: h,
                steps: s,
            },
        ) => vec![
            (
                factor.into(),
                f.into(),
                "llquantize() factor (argument #1)",
                Tag::LlquantMatchfactor,
            ),
            (
                low.into(),
                l.into(),
                "llquantize() lmag (argument #2)",
                Tag::LlquantMatchlmag,
            ),
            (
                high.into(),
                h.into(),
                "llquantize() hmag (argument #3)",
                Tag::LlquantMatchhmag,
            ),
            (
                steps.into(),
                s.into(),
                "llquantize() steps (argument #4)",
                Tag::LlquantMatchsteps,
            ),
        ],
        _ => Vec::new(),
    };
    match pairs.into_iter().find(|(before, now, ..)| before != now) {
        None => Ok(()),
        Some((before, now, what, tag)) => {
            let message = format!(
                "{what} doesn't match previous declaration: expected {before}, found {now}"
            );
            Err(Fault::new(tag, span, message))
        }
    }
}
