//! `printa`, `trunc`, `normalize`, and what is printed of aggregations at the end.

use std::collections::{HashMap, HashSet};
use std::io::Write;

use super::format::Format;
use super::names::Names;
use super::options::Options;
use super::printf::{self, Arguments, Value, scalar};
use super::table::{Line, Table, lines};
use super::trace::{self, Context};
use super::{Aggregations, Layout, OutputError, Sink, histogram};
use crate::aggregate::Sorting;
use crate::schema::AggregationId;

/// Text is handed on when there is so much of it.
const BATCH: usize = 1 << 16;

/// What is known of the aggregations beyond their rows.
#[derive(Debug, Default)]
pub struct States {
    /// What `normalize` divides by.
    divisors: HashMap<AggregationId, u64>,
    /// Those of which a row was printed; they are not printed at the end.
    printed: HashSet<AggregationId>,
}

impl States {
    /// `normalize`, or with a divisor of 1 `denormalize`. Nothing can be divided by 0, so that changes nothing.
    pub fn normalize(&mut self, aggregation: AggregationId, divisor: u64) {
        if divisor != 0 {
            self.divisors.insert(aggregation, divisor);
        }
    }

    fn divisor(&self, aggregation: AggregationId) -> u64 {
        self.divisors.get(&aggregation).copied().unwrap_or(1)
    }
}

/// What printing aggregations needs.
pub struct Tables<'t> {
    /// The script's aggregations.
    pub layout: Layout<'t>,
    /// The options.
    pub options: &'t Options,
    /// Their rows.
    pub aggregations: &'t mut dyn Aggregations,
    /// What addresses stand for.
    pub names: &'t mut dyn Names,
    /// Where the text goes.
    pub out: &'t mut dyn Sink,
}

impl<'t> Tables<'t> {
    /// Prints one aggregation or several side by side, `format` deciding on the layout of a row.
    pub fn printa(
        &mut self,
        states: &mut States,
        format: Option<&Format>,
        ids: &[AggregationId],
    ) -> Result<(), OutputError> {
        let mut text = Vec::new();
        if format.is_none() {
            text.push(b'\n');
        }
        let mut tables: Vec<Table> = Vec::new();
        for id in ids {
            if !tables.iter().any(|table| table.id == *id) {
                tables.push(self.gather(*id)?);
            }
        }
        let columns = ids
            .iter()
            .filter_map(|id| tables.iter().find(|table| table.id == *id));
        let columns: Vec<&Table> = columns.collect();
        let zeros: Vec<Box<[i64]>> = columns.iter().map(|table| table.zeros()).collect();
        let lines = lines(&tables, &columns, &zeros, &self.options.sorting);
        if !lines.is_empty() {
            states.printed.extend(ids);
        }
        self.lines(text, states, format, &columns, &lines)
    }

    /// Prints every aggregation that never was, in the order of their numbers.
    pub fn rest(&mut self, states: &mut States) -> Result<(), OutputError> {
        let ids = 0..self.layout.aggregations.len() as u32;
        let mut ids: Vec<AggregationId> = ids.map(AggregationId).collect();
        if self.options.sorting.reverse {
            ids.reverse();
        }
        ids.retain(|id| !states.printed.contains(id));
        for id in ids {
            let table = self.gather(id)?;
            let lines = table.lines(&self.options.sorting);
            self.lines(Vec::new(), states, None, &[&table], &lines)?;
        }
        Ok(())
    }

    /// Forgets all but the greatest `keep` rows, or for a negative `keep` all but the least.
    pub fn truncate(&mut self, id: AggregationId, keep: i64) -> Result<(), OutputError> {
        let table = self.gather(id)?;
        let lines = table.lines(&Sorting {
            reverse: keep >= 0,
            ..Sorting::default()
        });
        let keep = usize::try_from(keep.unsigned_abs()).unwrap_or(usize::MAX);
        let gone = lines.iter().skip(keep);
        let gone = gone.flat_map(|line| table.sources(line.key.1));
        let gone: Vec<Box<[u8]>> = gone.collect();
        self.aggregations.remove(id, &gone);
        Ok(())
    }

    /// The rows of an aggregation. Those whose addresses print alike become one.
    fn gather(&mut self, id: AggregationId) -> Result<Table<'t>, OutputError> {
        let schema = self.layout.aggregations.get(id.0 as usize);
        let schema = schema.ok_or(OutputError::Aggregation(id.0))?;
        let rows = self.aggregations.rows(id);
        Table::new(id, schema, rows, self.names)
    }

    /// Writes lines behind the text that is there already.
    fn lines(
        &mut self,
        mut text: Vec<u8>,
        states: &States,
        format: Option<&Format>,
        columns: &[&Table],
        lines: &[Line],
    ) -> Result<(), OutputError> {
        for line in lines {
            self.line(&mut text, states, format, columns, line)?;
            if text.len() >= BATCH {
                self.out.write_all(&text)?;
                text.clear();
            }
        }
        self.out.write_all(&text)?;
        Ok(())
    }

    /// Writes one line.
    fn line(
        &mut self,
        text: &mut Vec<u8>,
        states: &States,
        format: Option<&Format>,
        columns: &[&Table],
        line: &Line,
    ) -> Result<(), OutputError> {
        let mut context = Context {
            options: self.options,
            names: self.names,
        };
        let mut values = Vec::with_capacity(columns.len());
        for (table, kept) in columns.iter().zip(&line.values) {
            values.push(Value {
                schema: table.schema,
                values: kept,
                divisor: states.divisor(table.id),
            });
        }
        let (fields, data) = line.key;
        if let Some(format) = format {
            let arguments = Arguments {
                fields: fields.iter(),
                data,
                values: &values,
            };
            return printf::print(text, format, arguments, &mut context);
        }
        for field in fields {
            trace::key(text, field, data, &mut context)?;
        }
        for value in &values {
            column(text, *value);
        }
        text.push(b'\n');
        Ok(())
    }
}

/// What an aggregation holds, without a format.
fn column(text: &mut Vec<u8>, value: Value) {
    match scalar(value) {
        Some(number) => {
            // Writing to memory does not fail.
            let _ = write!(text, " {number:>16}");
        }
        None => histogram::print(text, value.schema.function, value.values, value.divisor),
    }
}
