//! The distributions of `quantize`, `lquantize` and `llquantize`.

use std::io::Write;
use std::ops::RangeInclusive;

use crate::aggregate::{Linear, LogLinear, normalized, powers_label};
use crate::schema::Aggregate;

/// The characters of a bar.
const WIDTH: u128 = 40;

/// A distribution with an empty bucket on either side of it, or nothing if the function has no buckets. Counts are
/// divided by `divisor`; bars are not.
pub fn print(out: &mut Vec<u8>, function: Aggregate, values: &[i64], divisor: u64) {
    match function {
        Aggregate::Quantize => {
            let range = shown(values).unwrap_or(62..=64);
            let label = |at| powers_label(at).to_string();
            rows(out, values, range, divisor, |at| Some(label(at)));
        }
        Aggregate::Lquantize { .. } => {
            if let Some(shape) = Linear::of(function) {
                let range = shown(values).unwrap_or(0..=2);
                rows(out, values, range, divisor, |at| linear_label(shape, at));
            }
        }
        Aggregate::Llquantize { .. } => {
            if let Some(shape) = LogLinear::of(function) {
                log_linear(out, shape, values, divisor);
            }
        }
        _ => {}
    }
}

/// The buckets that are not empty and their neighbours; `None` if all are empty.
fn shown(values: &[i64]) -> Option<RangeInclusive<usize>> {
    let first = values.iter().position(|count| *count != 0)?;
    let last = values.iter().rposition(|count| *count != 0)?;
    Some(first.saturating_sub(1)..=(last + 1).min(values.len() - 1))
}

/// `< 0`, `0`, …, `>= 100`.
fn linear_label(shape: Linear, at: usize) -> Option<String> {
    Some(match shape.lower_bound(at) {
        None => format!("< {}", shape.base),
        Some(bound) if at == shape.len() - 1 => format!(">= {bound}"),
        Some(bound) => bound.to_string(),
    })
}

/// Magnitudes may be cut finer than integers; buckets between two integers are not shown, and where the neighbour
/// would be one, the next that is none is.
fn log_linear(out: &mut Vec<u8>, shape: LogLinear, values: &[i64], divisor: u64) {
    let middle = shape.middle();
    let exists = |at: &usize| shape.amount(at.abs_diff(middle)).is_some();
    let range = shown(values).unwrap_or(middle..=middle + 2);
    let start = (0..=*range.start()).rev().find(exists).unwrap_or(0);
    let end = (*range.end()..shape.len()).find(exists);
    let range = start..=end.unwrap_or(shape.len() - 1);
    let positive = start >= middle;
    rows(out, values, range, divisor, |at| {
        log_linear_label(shape, at, positive)
    });
}

/// `<= -100`, …, `-1`, `0` or `abs() < 10`, `1`, …, `>= 100`. `positive` tells that no negative bucket is shown.
fn log_linear_label(shape: LogLinear, at: usize, positive: bool) -> Option<String> {
    let amount = shape.amount(at.abs_diff(shape.middle()))?;
    let least = shape.factor.pow(shape.low);
    Some(match at {
        0 => format!("<= -{amount}"),
        at if at == shape.middle() => match (least, positive) {
            (1, _) => "0".to_owned(),
            (_, true) => format!("< {least}"),
            (_, false) => format!("abs() < {least}"),
        },
        at if at < shape.middle() => format!("-{amount}"),
        at if at == shape.len() - 1 => format!(">= {amount}"),
        _ => amount.to_string(),
    })
}

/// The head, and a line for each bucket of the range that has a label.
fn rows(
    out: &mut Vec<u8>,
    values: &[i64],
    range: RangeInclusive<usize>,
    divisor: u64,
    label: impl Fn(usize) -> Option<String>,
) {
    let counts = values.get(range.clone()).unwrap_or_default();
    let total = counts
        .iter()
        .map(|count| u128::from(count.unsigned_abs()))
        .sum();
    let bar = Bar {
        total,
        positives: counts.iter().any(|count| *count > 0),
        negatives: counts.iter().any(|count| *count < 0),
        divisor,
    };
    let title = "------------- Distribution -------------";
    // Writing to memory does not fail.
    let _ = writeln!(out, "\n{:>16} {title:>41} {:<9}", "value", "count");
    for (at, count) in range.zip(counts) {
        if let Some(label) = label(at) {
            let _ = write!(out, "{label:>16} ");
            bar.line(out, *count);
        }
    }
}

/// What all bars of a distribution have in common.
struct Bar {
    /// The sum of the counts' amounts.
    total: u128,
    /// Whether there is a positive count.
    positives: bool,
    /// Whether there is a negative one.
    negatives: bool,
    /// What counts are divided by.
    divisor: u64,
}

impl Bar {
    /// A bar and its count. Negative counts go to the left; if there are both, each side has half the width.
    fn line(&self, out: &mut Vec<u8>, count: i64) {
        let (left, right) = match (self.positives, self.negatives) {
            (_, false) => (0, WIDTH),
            (false, true) => (WIDTH, 0),
            (true, true) => (WIDTH / 2, WIDTH / 2),
        };
        let to_left = left > 0 && count <= 0;
        let width = if to_left { left } else { right };
        let marks = "@".repeat(self.length(count, width));
        let (before, behind) = if to_left {
            (&*marks, "")
        } else {
            ("", &*marks)
        };
        let (left, right) = (left as usize, right as usize);
        let count = normalized(count, self.divisor, true);
        // Writing to memory does not fail.
        let _ = writeln!(out, "{before:>left$}|{behind:<right$} {count:<9}");
    }

    /// The part of the width that the count is of the total, rounded.
    fn length(&self, count: i64, width: u128) -> usize {
        let share = u128::from(count.unsigned_abs()) * width;
        let rounded = (2 * share + self.total).checked_div(2 * self.total);
        rounded.unwrap_or(0) as usize
    }
}
