//! The rows of aggregations, joined and in order.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::OutputError;
use super::data::{bytes, words};
use super::names::Names;
use crate::aggregate::{Sorting, add, compare_keys, compare_values, length};
use crate::schema::{AddressPart, AggregationId, AggregationSchema, Field, FieldKind, Row};

/// An aggregation with its rows as they are now.
pub struct Table<'s> {
    /// Its number.
    pub id: AggregationId,
    /// What is known of it.
    pub schema: &'s AggregationSchema,
    rows: Vec<Row>,
    /// For rows that were made of several the keys of those.
    sources: HashMap<Box<[u8]>, Vec<Box<[u8]>>>,
}

/// One line: a key and what each aggregation holds for it.
pub struct Line<'l> {
    /// The key's fields and bytes.
    pub key: (&'l [Field], &'l [u8]),
    /// What the functions keep, for each column.
    pub values: Vec<&'l [i64]>,
}

impl<'s> Table<'s> {
    /// Takes rows as they come. Those whose addresses print alike become one.
    pub fn new(
        id: AggregationId,
        schema: &'s AggregationSchema,
        rows: Vec<Row>,
        names: &mut dyn Names,
    ) -> Result<Table<'s>, OutputError> {
        let wanted = length(schema.function);
        if let Some(row) = rows.iter().find(|row| row.values.len() != wanted) {
            let found = row.values.len();
            return Err(OutputError::Values { wanted, found });
        }
        let sources = HashMap::new();
        let mut table = Table {
            id,
            schema,
            rows,
            sources,
        };
        if schema.keys.iter().any(is_reduced) {
            table.reduce(names)?;
        }
        Ok(table)
    }

    /// What a column shows where a key has no row.
    pub fn zeros(&self) -> Box<[i64]> {
        vec![0; length(self.schema.function)].into()
    }

    /// The keys that a line stands for.
    pub fn sources(&self, key: &[u8]) -> Vec<Box<[u8]>> {
        let own = || vec![Box::from(key)];
        self.sources.get(key).cloned().unwrap_or_else(own)
    }

    /// A line for each row.
    pub fn lines(&self, sorting: &Sorting) -> Vec<Line<'_>> {
        lines(std::slice::from_ref(self), &[self], &[], sorting)
    }

    /// Replaces addresses by those that stand for all that print alike.
    fn reduce(&mut self, names: &mut dyn Names) -> Result<(), OutputError> {
        let mut at: HashMap<Box<[u8]>, usize> = HashMap::new();
        let mut reduced: Vec<Row> = Vec::new();
        for mut row in std::mem::take(&mut self.rows) {
            let original = row.key.clone();
            for field in self.schema.keys.iter().filter(|field| is_reduced(field)) {
                reduce_field(field, &mut row.key, names)?;
            }
            self.sources
                .entry(row.key.clone())
                .or_default()
                .push(original);
            match at.get(&row.key) {
                Some(at) => add(self.schema.function, &mut reduced[*at].values, &row.values),
                None => {
                    at.insert(row.key.clone(), reduced.len());
                    reduced.push(row);
                }
            }
        }
        self.rows = reduced;
        Ok(())
    }
}

/// Whether several addresses may print alike.
fn is_reduced(field: &Field) -> bool {
    let part = match field.kind {
        FieldKind::KernelAddress(part) | FieldKind::UserAddress(part) => part,
        _ => return false,
    };
    part != AddressPart::Exact
}

/// Replaces the address in a field of a key.
fn reduce_field(field: &Field, key: &mut [u8], names: &mut dyn Names) -> Result<(), OutputError> {
    let held = bytes(field, key)?;
    let numbers: Vec<u64> = words(held).collect();
    let (part, place, address) = match (&field.kind, &numbers[..]) {
        (FieldKind::KernelAddress(part), [address]) => (*part, names.kernel(*address), *address),
        (FieldKind::UserAddress(part), [pid, address]) => {
            (*part, names.user(*pid as u32, *address), *address)
        }
        _ => return Err(OutputError::Size { size: held.len() }),
    };
    let end = (field.offset + field.size) as usize;
    let address = place.representative(address, part).to_le_bytes();
    key[end - address.len()..end].copy_from_slice(&address);
    Ok(())
}

/// A line for each key that any of the tables has, in order. `columns` are the tables as they are shown, in which one
/// may be twice; `zeros` what each shows for a key that it has not.
pub fn lines<'l>(
    tables: &'l [Table],
    columns: &[&'l Table],
    zeros: &'l [Box<[i64]>],
    sorting: &Sorting,
) -> Vec<Line<'l>> {
    let rows = tables.iter().flat_map(|table| {
        let fields = &table.schema.keys[..];
        table
            .rows
            .iter()
            .map(move |row| (table.id, (fields, &row.key[..]), row))
    });
    let mut rows: Vec<_> = rows.collect();
    // In one table no key is twice. Stable: for equal keys, the tables stay in their order.
    if tables.len() > 1 {
        rows.sort_by(|left, right| compare_keys(left.1, right.1, 0));
    }
    let groups = rows.chunk_by(|left, right| compare_keys(left.1, right.1, 0).is_eq());
    let lines = groups.map(|rows| {
        let values = columns.iter().enumerate().map(|(at, column)| {
            let row = rows.iter().find(|row| row.0 == column.id);
            let zeros = || zeros.get(at).map_or(&[][..], |zeros| zeros);
            row.map_or_else(zeros, |row| &row.2.values)
        });
        Line {
            key: rows[0].1,
            values: values.collect(),
        }
    });
    let mut lines: Vec<Line> = lines.collect();
    lines.sort_by(|left, right| sorting.directed(compare(left, right, columns, sorting)));
    lines
}

/// By values from the chosen column on, then by keys, or first by keys.
fn compare(left: &Line, right: &Line, columns: &[&Table], sorting: &Sorting) -> Ordering {
    let keys = || compare_keys(left.key, right.key, sorting.key_position);
    let count = columns.len();
    let first = if sorting.position < count {
        sorting.position
    } else {
        0
    };
    let values = || {
        let mut orders = (0..count).map(|at| (at + first) % count).map(|at| {
            let function = columns[at].schema.function;
            compare_values(function, left.values[at], right.values[at])
        });
        orders
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    };
    match sorting.by_key {
        true => keys().then_with(values),
        false => values().then_with(keys),
    }
}
