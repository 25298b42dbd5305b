//! What an aggregating function keeps, and how the parts that several processors keep become one.

use std::collections::HashMap;

use super::{LogLinear, POWERS, linear::Linear, powers_index};
use crate::schema::{Aggregate, Row};

/// How many values a function keeps for a key; 0 for a function that no checked script can contain.
pub fn length(function: Aggregate) -> usize {
    match function {
        Aggregate::Count | Aggregate::Sum | Aggregate::Min | Aggregate::Max => 1,
        Aggregate::Avg => 2,
        Aggregate::Stddev => 4,
        Aggregate::Quantize => POWERS,
        Aggregate::Lquantize { .. } => Linear::of(function).map_or(0, |shape| shape.len()),
        Aggregate::Llquantize { .. } => LogLinear::of(function).map_or(0, |shape| shape.len()),
    }
}

/// What a key starts with, and what `clear` sets it back to: zeros, but for `min` the greatest number and for `max`
/// the least.
pub fn identity(function: Aggregate) -> Box<[i64]> {
    let start = match function {
        Aggregate::Min => i64::MAX,
        Aggregate::Max => i64::MIN,
        _ => 0,
    };
    vec![start; length(function)].into()
}

/// Adds one value, `times` over (the last argument of `quantize` and its like; 1 for the others). Sums wrap around.
pub fn record(function: Aggregate, into: &mut [i64], value: i64, times: i64) {
    let add = |into: &mut i64, more: i64| *into = into.wrapping_add(more);
    match function {
        Aggregate::Count => add(&mut into[0], 1),
        Aggregate::Sum => add(&mut into[0], value),
        Aggregate::Min => into[0] = into[0].min(value),
        Aggregate::Max => into[0] = into[0].max(value),
        Aggregate::Avg | Aggregate::Stddev => {
            add(&mut into[0], 1);
            add(&mut into[1], value);
            if let [_, _, low, high] = into {
                let square = u128::from(value.unsigned_abs()).pow(2);
                add_squares(low, high, square as i64, (square >> 64) as i64);
            }
        }
        Aggregate::Quantize => add(&mut into[powers_index(value)], times),
        Aggregate::Lquantize { .. } => {
            if let Some(shape) = Linear::of(function) {
                add(&mut into[shape.index(value)], times);
            }
        }
        Aggregate::Llquantize { .. } => {
            if let Some(shape) = LogLinear::of(function) {
                add(&mut into[shape.index(value)], times);
            }
        }
    }
}

/// Adds what another processor kept for the same key. `min` and `max` compare as signed numbers, as where the probe
/// fired.
pub fn add(function: Aggregate, into: &mut [i64], from: &[i64]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into = match function {
            Aggregate::Min => *from.min(into),
            Aggregate::Max => *from.max(into),
            _ => into.wrapping_add(*from),
        };
    }
    if let (Aggregate::Stddev, [_, _, low, high], [_, _, more, _]) = (function, into, from) {
        // The low halves wrapped around if their sum is below either.
        *high = high.wrapping_add(i64::from((*low as u64) < *more as u64));
    }
}

/// Adds a number of 128 bits to one that is kept in two halves.
fn add_squares(low: &mut i64, high: &mut i64, more_low: i64, more_high: i64) {
    let (sum, carry) = (*low as u64).overflowing_add(more_low as u64);
    *low = sum as i64;
    *high = high.wrapping_add(more_high).wrapping_add(i64::from(carry));
}

/// One row for each key of the rows that the processors kept.
pub fn add_rows(function: Aggregate, rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    let mut sums: HashMap<Box<[u8]>, Box<[i64]>> = HashMap::new();
    for row in rows {
        match sums.get_mut(&row.key) {
            Some(sum) => add(function, sum, &row.values),
            None => drop(sums.insert(row.key, row.values)),
        }
    }
    let row = |(key, values)| Row { key, values };
    sums.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FUNCTIONS: [Aggregate; 9] = [
        Aggregate::Count,
        Aggregate::Sum,
        Aggregate::Min,
        Aggregate::Max,
        Aggregate::Avg,
        Aggregate::Stddev,
        Aggregate::Quantize,
        Aggregate::Lquantize {
            base: -100,
            limit: 1000,
            step: 7,
        },
        Aggregate::Llquantize {
            factor: 10,
            low: 0,
            high: 6,
            steps: 20,
        },
    ];

    /// Numbers of all magnitudes, the same in every run.
    fn values() -> impl Iterator<Item = i64> {
        let mut state = 0x2545_F491_4F6C_DD1Du64;
        (0..3000).map(move |round| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state as i64) >> (round % 64)
        })
    }

    #[test]
    fn parts_of_processors_add_up_to_the_whole() {
        for function in FUNCTIONS {
            let mut whole = identity(function);
            let mut parts = [identity(function), identity(function), identity(function)];
            for (at, value) in values().enumerate() {
                record(function, &mut whole, value, 1);
                record(function, &mut parts[at % 3], value, 1);
            }
            let key = Box::from(*b"key");
            let rows = parts.into_iter().map(|values| Row {
                key: Box::clone(&key),
                values,
            });
            let sum = add_rows(function, rows);
            assert_eq!(sum.len(), 1);
            assert_eq!(sum[0].values, whole, "{function:?}");
        }
    }

    #[test]
    fn every_value_is_in_one_bucket() {
        for function in &FUNCTIONS[6..] {
            let mut buckets = identity(*function);
            values().for_each(|value| record(*function, &mut buckets, value, 2));
            assert_eq!(buckets.iter().sum::<i64>(), 6000, "{function:?}");
        }
    }

    #[test]
    fn keys_stay_apart() {
        let row = |key: u8, value| Row {
            key: Box::from([key]),
            values: Box::from([value]),
        };
        let mut rows = add_rows(Aggregate::Sum, [row(1, 2), row(2, 5), row(1, 3)]);
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        assert_eq!(rows, [row(1, 5), row(2, 5)]);
    }
}
