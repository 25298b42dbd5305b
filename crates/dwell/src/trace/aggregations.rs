//! Aggregations as the printer wants them: what the kernel added up, less what was cleared.
use dwell_script::aggregate::identity;
use dwell_script::output::Aggregations;
use dwell_script::schema::{Aggregate, AggregationId, Row};
use dwell_trace::Session;
use std::collections::HashMap;

type ByKey = HashMap<Box<[u8]>, Box<[i64]>>;

/// The values that keys had when they were cleared. The kernel's sums go on: nothing that is added while they are
/// read is lost.
#[derive(Default)]
pub struct Cleared(HashMap<AggregationId, ByKey>);

/// A session's aggregations.
pub struct Sums<'s, 'c> {
    pub session: &'c Session<'s>,
    pub cleared: &'c mut Cleared,
    /// What went wrong in reading, to be told after.
    pub failure: Option<dwell_trace::TraceError>,
}

impl Sums<'_, '_> {
    fn function(&self, aggregation: AggregationId) -> Aggregate {
        self.session.aggregations()[aggregation.0 as usize].function
    }

    fn read(&mut self, aggregation: AggregationId) -> Vec<Row> {
        self.session.rows(aggregation).unwrap_or_else(|error| {
            self.failure = Some(error);
            Vec::new()
        })
    }
}

/// Whether what was there before can be taken away again.
fn is_sum(function: Aggregate) -> bool {
    !matches!(function, Aggregate::Min | Aggregate::Max)
}

fn subtract(function: Aggregate, from: &mut [i64], less: &[i64]) {
    if let (Aggregate::Stddev, [_, _, low, high], [_, _, less_low, less_high]) =
        (function, &mut *from, less)
    {
        let wide = |low: i64, high: i64| i128::from(high) << 64 | i128::from(low as u64);
        let squares = wide(*low, *high).wrapping_sub(wide(*less_low, *less_high));
        (*low, *high) = (squares as i64, (squares >> 64) as i64);
    }
    let squares = if function == Aggregate::Stddev {
        2
    } else {
        from.len()
    };
    for (value, less) in from.iter_mut().zip(less).take(squares) {
        *value = value.wrapping_sub(*less);
    }
}

impl Aggregations for Sums<'_, '_> {
    fn rows(&mut self, aggregation: AggregationId) -> Vec<Row> {
        let function = self.function(aggregation);
        let mut rows = self.read(aggregation);
        let Some(cleared) = self.cleared.0.get(&aggregation) else {
            return rows;
        };
        if is_sum(function) {
            for row in &mut rows {
                if let Some(before) = cleared.get(&row.key) {
                    subtract(function, &mut row.values, before);
                }
            }
            return rows;
        }
        let missing = cleared
            .keys()
            .filter(|key| !rows.iter().any(|row| row.key == **key));
        let missing: Vec<Row> = missing
            .map(|key| Row {
                key: key.clone(),
                values: identity(function),
            })
            .collect();
        rows.extend(missing);
        rows
    }

    fn clear(&mut self, aggregation: AggregationId) {
        let function = self.function(aggregation);
        let rows = self.read(aggregation);
        if !is_sum(function) {
            // The least of what comes is not to be known from the least of all: the keys begin anew.
            let keys: Vec<Box<[u8]>> = rows.iter().map(|row| row.key.clone()).collect();
            self.session.remove(aggregation, &keys);
        }
        let values = rows.into_iter().map(|row| (row.key, row.values));
        self.cleared
            .0
            .entry(aggregation)
            .or_default()
            .extend(values);
    }

    fn remove(&mut self, aggregation: AggregationId, keys: &[Box<[u8]>]) {
        self.session.remove(aggregation, keys);
        if let Some(cleared) = self.cleared.0.get_mut(&aggregation) {
            keys.iter().for_each(|key| drop(cleared.remove(key)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dwell_script::aggregate::record;

    #[test]
    fn what_was_before_can_be_taken_away() {
        let functions = [
            Aggregate::Count,
            Aggregate::Sum,
            Aggregate::Avg,
            Aggregate::Stddev,
            Aggregate::Quantize,
        ];
        for function in functions {
            let (mut all, mut after) = (identity(function), identity(function));
            for value in [3, -9, i64::MAX, 1 << 40] {
                record(function, &mut all, value, 1);
            }
            let before = all.clone();
            for value in [7, i64::MIN, -1] {
                record(function, &mut all, value, 1);
                record(function, &mut after, value, 1);
            }
            subtract(function, &mut all, &before);
            assert_eq!(all, after, "{function:?}");
        }
    }
}
