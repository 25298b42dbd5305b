//! The order in which rows are printed.

use std::cmp::Ordering;

use super::{LogLinear, average, linear::Linear, powers_label, standard_deviation};
use crate::schema::{Aggregate, Field, FieldKind};

/// The options that decide the order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sorting {
    /// `aggsortkey`: by keys, not by values.
    pub by_key: bool,
    /// `aggsortkeypos`: the key that is looked at first, counted from 0; 0 if there are not so many.
    pub key_position: usize,
    /// `aggsortpos`: the aggregation whose value is looked at first when several are printed together.
    pub position: usize,
    /// `aggsortrev`: everything the other way round.
    pub reverse: bool,
}

impl Sorting {
    /// An order as the option `aggsortrev` wants it.
    pub fn directed(&self, order: Ordering) -> Ordering {
        match self.reverse {
            true => order.reverse(),
            false => order,
        }
    }
}

/// Compares two keys, field by field from `first` on around to it. Integers are compared without sign, whatever
/// their type; all else byte by byte.
pub fn compare_keys(left: (&[Field], &[u8]), right: (&[Field], &[u8]), first: usize) -> Ordering {
    let count = left.0.len();
    if count != right.0.len() {
        return count.cmp(&right.0.len());
    }
    let first = if first < count { first } else { 0 };
    (0..count)
        .map(|at| (at + first) % count)
        .map(|at| compare_field((&left.0[at], left.1), (&right.0[at], right.1)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Compares one field of two keys. Fields beyond the key's bytes are empty.
fn compare_field(left: (&Field, &[u8]), right: (&Field, &[u8])) -> Ordering {
    let (left_bytes, right_bytes) = (bytes_of(left), bytes_of(right));
    let by_size = left.0.size.cmp(&right.0.size);
    by_size.then_with(|| match &left.0.kind {
        FieldKind::String => left_bytes.cmp(right_bytes),
        FieldKind::UserAddress(_) => {
            let words = left_bytes.chunks(8).map(number);
            words.cmp(right_bytes.chunks(8).map(number))
        }
        _ => match (number(left_bytes), number(right_bytes)) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => left_bytes.cmp(right_bytes),
        },
    })
}

/// The bytes of a field of a key.
fn bytes_of<'k>((field, key): (&Field, &'k [u8])) -> &'k [u8] {
    let start = field.offset as usize;
    let end = start.saturating_add(field.size as usize);
    key.get(start..end).unwrap_or_default()
}

/// The unsigned number that bytes are, if they are as many as a number has.
fn number(bytes: &[u8]) -> Option<u64> {
    match bytes.len() {
        1 | 2 | 4 | 8 => {
            let fold = |number, byte: &u8| number << 8 | u64::from(*byte);
            Some(bytes.iter().rev().fold(0, fold))
        }
        _ => None,
    }
}

/// Compares what a function keeps for two keys: averages and deviations by what is printed of them, buckets by the
/// sum that their labels stand for and then by the bucket around 0, all others by the number.
pub fn compare_values(function: Aggregate, left: &[i64], right: &[i64]) -> Ordering {
    match function {
        Aggregate::Avg => rank(left, right, |v| average(v, 1)),
        Aggregate::Stddev => rank(left, right, |v| standard_deviation(v, 1)),
        Aggregate::Quantize => by_weight(left, right, |at| i128::from(powers_label(at)), 63),
        Aggregate::Lquantize { .. } => match Linear::of(function) {
            Some(shape) => compare_linear(shape, left, right),
            None => Ordering::Equal,
        },
        Aggregate::Llquantize { .. } => match LogLinear::of(function) {
            Some(shape) => {
                let label = |at| log_linear_label(shape, at);
                by_weight(left, right, label, shape.middle())
            }
            None => Ordering::Equal,
        },
        _ => left.first().cmp(&right.first()),
    }
}

/// Compares by what `of` makes of the values.
fn rank<const N: usize, R: Ord>(
    left: &[i64],
    right: &[i64],
    of: impl Fn([i64; N]) -> R,
) -> Ordering {
    let of = |values: &[i64]| values.try_into().map(&of).ok();
    of(left).cmp(&of(right))
}

/// Compares by the sum of the counts times what their bucket stands for, then by the count in the bucket `zero`.
fn by_weight(left: &[i64], right: &[i64], label: impl Fn(usize) -> i128, zero: usize) -> Ordering {
    let weight = |values: &[i64]| -> i128 {
        let products = values.iter().enumerate();
        products.fold(0, |sum, (at, count)| match count {
            0 => sum,
            count => sum.saturating_add(label(at).saturating_mul(i128::from(*count))),
        })
    };
    weight(left)
        .cmp(&weight(right))
        .then_with(|| left.get(zero).cmp(&right.get(zero)))
}

/// The buckets of `lquantize` stand for their lower bounds, but the lowest for `base - 1` and the highest for its
/// bound and one more.
fn compare_linear(shape: Linear, left: &[i64], right: &[i64]) -> Ordering {
    let highest = shape.len() - 1;
    let label = |at| match shape.lower_bound(at) {
        None => i64::from(shape.base) - 1,
        Some(bound) if at == highest => bound + 1,
        Some(bound) => bound,
    };
    let zero = (0..shape.len()).find(|at| label(*at) == 0);
    let zero = zero.unwrap_or(usize::MAX);
    by_weight(left, right, |at| i128::from(label(at)), zero)
}

/// The buckets of `llquantize` stand for their amount.
fn log_linear_label(shape: LogLinear, at: usize) -> i128 {
    let amount = shape.amount(at.abs_diff(shape.middle()));
    let amount = amount.map_or(0, i128::from);
    if at < shape.middle() { -amount } else { amount }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::{identity, record};

    fn int(offset: u32, size: u32) -> Field {
        Field {
            offset,
            size,
            kind: FieldKind::Int { signed: true },
        }
    }

    #[test]
    fn integers_in_keys_have_no_sign() {
        let fields = [int(0, 4), int(4, 2)];
        let key = |a: i32, b: i16| [&a.to_le_bytes()[..], &b.to_le_bytes()].concat();
        let compare = |left: &[u8], right: &[u8], first| {
            compare_keys((&fields, left), (&fields, right), first)
        };
        assert!(compare(&key(-1, 0), &key(1, 0), 0).is_gt());
        assert!(compare(&key(256, 0), &key(255, 9), 0).is_gt());
        assert!(compare(&key(256, 0), &key(255, 9), 1).is_lt());
        assert!(compare(&key(256, 0), &key(255, 9), 2).is_gt());
        assert!(compare(&key(3, 3), &key(3, 3), 1).is_eq());
    }

    /// How the values of two keys compare after these were recorded for them.
    fn compare(function: Aggregate, left: &[i64], right: &[i64]) -> Ordering {
        let kept = |values: &[i64]| {
            let mut kept = identity(function);
            let record = |value: &i64| record(function, &mut kept, *value, 1);
            values.iter().for_each(record);
            kept
        };
        compare_values(function, &kept(left), &kept(right))
    }

    #[test]
    fn averages_and_deviations_compare_by_what_is_printed() {
        assert!(compare(Aggregate::Avg, &[1, 2], &[1]).is_eq());
        assert!(compare(Aggregate::Avg, &[-4], &[1, 2]).is_lt());
        assert!(compare(Aggregate::Stddev, &[10, 20], &[100, 100]).is_gt());
        assert!(compare(Aggregate::Stddev, &[], &[100, 100]).is_eq());
    }

    #[test]
    fn buckets_compare_by_their_sum_then_by_zero() {
        let linear = Aggregate::Lquantize {
            base: -5,
            limit: 5,
            step: 1,
        };
        let log_linear = Aggregate::Llquantize {
            factor: 10,
            low: 0,
            high: 2,
            steps: 20,
        };
        for function in [Aggregate::Quantize, linear, log_linear] {
            assert!(compare(function, &[2, 2], &[4, -1]).is_gt());
            assert!(compare(function, &[4], &[-2, -2]).is_gt());
            assert!(compare(function, &[0, 4], &[4]).is_gt());
            assert!(compare(function, &[4, -4], &[2, -2]).is_eq());
        }
        assert!(compare(linear, &[100], &[4]).is_gt());
        assert!(compare(log_linear, &[100_000], &[900]).is_gt());
    }
}
