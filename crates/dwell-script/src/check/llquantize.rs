//! The parameters of `llquantize`.

use super::Checker;
use crate::error::{Checked, Fault};
use crate::schema::Aggregate;
use crate::tag::Tag;
use crate::typed::{Expr, ExprKind};

impl Checker<'_> {
    /// `llquantize(x, factor, low, high, steps)`, without `x`.
    pub(super) fn llquantize(&mut self, rest: &[Expr]) -> Checked<Aggregate> {
        let refuse = |tag, at: usize, message: &str| {
            Err(Fault::new(
                tag,
                rest[at - 1].span,
                format!("llquantize( ) argument #{at} {message}"),
            ))
        };
        let factor = parameter(rest, 1, Tag::LlquantFactortype, Tag::LlquantFactorval)?;
        if factor < 2 {
            let message = "must be an unsigned 16-bit quantity greater than or equal to 2";
            return refuse(Tag::LlquantFactorval, 1, message);
        }
        let low = parameter(rest, 2, Tag::LlquantLmagtype, Tag::LlquantLmagval)?;
        let high = parameter(rest, 3, Tag::LlquantHmagtype, Tag::LlquantHmagval)?;
        if high < low {
            let message = "(high magnitude) must be at least argument #2 (low magnitude)";
            return refuse(Tag::LlquantHmagval, 3, message);
        }
        if u64::from(factor).checked_pow(u32::from(high) + 1).is_none() {
            return refuse(
                Tag::LlquantHmagval,
                3,
                "(high magnitude) will cause overflow of 64 bits",
            );
        }
        let steps = parameter(rest, 4, Tag::LlquantSteptype, Tag::LlquantStepval)?;
        if steps == 0 {
            return refuse(
                Tag::LlquantSteptype,
                4,
                "must be a non-zero positive integer constant",
            );
        }
        if let Some(message) = steps_fault(factor.into(), low.into(), steps.into()) {
            return refuse(Tag::LlquantStepval, 4, message);
        }
        Ok(Aggregate::Llquantize {
            factor,
            low,
            high,
            steps,
        })
    }
}

/// Whether the buckets of every magnitude have whole bounds.
fn steps_fault(factor: u64, low: u32, steps: u64) -> Option<&'static str> {
    if steps < factor {
        let message = "(steps) must evenly divide argument #1 (factor) when steps<factor";
        return (!factor.is_multiple_of(steps)).then_some(message);
    }
    if steps == factor {
        return None;
    }
    if !steps.is_multiple_of(factor) {
        return Some("(steps) must be a multiple of argument #1 (factor) when steps>factor");
    }
    let squared = factor * factor;
    if low == 0 && !squared.is_multiple_of(steps) {
        return Some(
            "(steps) must evenly divide the square of argument #1 (factor) when steps>factor and lmag==0",
        );
    }
    let least = factor.checked_pow(low + 1)?;
    (low > 0 && !least.is_multiple_of(steps)).then_some(
        "(steps) must evenly divide pow(argument #1 (factor), lmag (argument #2) + 1) when steps>factor and lmag>0",
    )
}

/// A parameter of 16 bits.
fn parameter(rest: &[Expr], at: usize, not_constant: Tag, not_fitting: Tag) -> Checked<u16> {
    let value = &rest[at - 1];
    let ExprKind::Int(number) = value.kind else {
        let message = format!("llquantize( ) argument #{at} must be an integer constant");
        return Err(Fault::new(not_constant, value.span, message));
    };
    u16::try_from(number).map_err(|_| {
        let message = format!("llquantize( ) argument #{at} must be an unsigned 16-bit quantity");
        Fault::new(not_fitting, value.span, message)
    })
}
