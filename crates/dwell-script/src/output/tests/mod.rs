//! Hand-made records of what scripts would leave, and the text that dtrace documents for them.

mod aggregations;
mod distributions;
mod hostile;
mod lines;
mod printf;
mod stacks;
mod typed;

use std::collections::HashMap;
use std::io;

use super::{
    Aggregations, Layout, LocalTime, Names, Options, Outcome, Place, Printer, Sink, World,
};
use crate::aggregate::{identity, record};
use crate::schema::{
    Action, ActionKind, Aggregate, AggregationId, AggregationSchema, ClauseSchema, Field,
    FieldKind, ProbeName, RecordHeader, Row,
};
use crate::types::Types;

/// The data of a record or a key under construction.
#[derive(Default)]
struct Data {
    bytes: Vec<u8>,
}

impl Data {
    /// Appends a value, aligned to its size up to 8.
    fn field(&mut self, bytes: &[u8], kind: FieldKind) -> Field {
        let align = bytes.len().next_power_of_two().min(8);
        let align = if bytes.len() > 8 { 8 } else { align };
        self.bytes
            .resize(self.bytes.len().next_multiple_of(align), 0);
        let offset = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        let size = bytes.len() as u32;
        Field { offset, size, kind }
    }

    fn i8(&mut self, value: i8) -> Field {
        self.field(&value.to_le_bytes(), FieldKind::Int { signed: true })
    }

    fn i16(&mut self, value: i16) -> Field {
        self.field(&value.to_le_bytes(), FieldKind::Int { signed: true })
    }

    fn i32(&mut self, value: i32) -> Field {
        self.field(&value.to_le_bytes(), FieldKind::Int { signed: true })
    }

    fn i64(&mut self, value: i64) -> Field {
        self.field(&value.to_le_bytes(), FieldKind::Int { signed: true })
    }

    fn unsigned(&mut self, value: u64, size: usize) -> Field {
        let bytes = value.to_le_bytes();
        self.field(&bytes[..size], FieldKind::Int { signed: false })
    }

    fn pointer(&mut self, value: u64) -> Field {
        self.field(&value.to_le_bytes(), FieldKind::Pointer)
    }

    /// A string with room for 24 bytes.
    fn string(&mut self, text: &str) -> Field {
        let mut bytes = [0; 24];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        self.field(&bytes, FieldKind::String)
    }

    fn words(&mut self, words: &[u64], kind: FieldKind) -> Field {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.field(&bytes, kind)
    }
}

/// What is kept for each key.
type Kept = HashMap<Box<[u8]>, Box<[i64]>>;

/// Aggregations in memory.
#[derive(Default)]
struct Store {
    functions: Vec<Aggregate>,
    rows: HashMap<u32, Kept>,
}

impl Aggregations for Store {
    fn rows(&mut self, aggregation: AggregationId) -> Vec<Row> {
        let rows = self.rows.entry(aggregation.0).or_default();
        let mut copied = Vec::new();
        for (key, values) in rows {
            let (key, values) = (key.clone(), values.clone());
            copied.push(Row { key, values });
        }
        copied
    }

    fn clear(&mut self, aggregation: AggregationId) {
        let function = self.functions[aggregation.0 as usize];
        let rows = self.rows.entry(aggregation.0).or_default();
        rows.values_mut()
            .for_each(|values| *values = identity(function));
    }

    fn remove(&mut self, aggregation: AggregationId, keys: &[Box<[u8]>]) {
        let rows = self.rows.entry(aggregation.0).or_default();
        rows.retain(|key, _| !keys.contains(key));
    }
}

/// Everything that was written, with marks for what else was asked for.
#[derive(Default)]
struct Page {
    text: Vec<u8>,
}

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Page {
    fn reopen(&mut self, file: Option<&[u8]>) -> io::Result<()> {
        let file = file.map(String::from_utf8_lossy);
        if file.as_deref() == Some("/missing/file") {
            return Err(io::Error::other("No such file or directory"));
        }
        let mark = format!("[file {}]", file.unwrap_or_default());
        self.text.extend_from_slice(mark.as_bytes());
        Ok(())
    }

    fn run(&mut self, command: &[u8]) -> io::Result<()> {
        let mark = format!("[run {}]", String::from_utf8_lossy(command));
        self.text.extend_from_slice(mark.as_bytes());
        Ok(())
    }
}

/// Symbols of 256 bytes each: in the kernel from 0xffff_0000 on (`vmlinux`), in every process from 0x40_0000 on
/// (`app`). The last symbol of each is one that nobody named.
struct Book {
    probes: Vec<ProbeName>,
    offset: i32,
}

impl Book {
    fn place(module: &str, base: u64, symbols: &[&str], address: u64) -> Place {
        let Some(distance) = address.checked_sub(base).filter(|d| *d < 0x1000) else {
            return Place::default();
        };
        let symbol = symbols.get((distance / 256) as usize);
        Place {
            module: Some(module.into()),
            module_offset: distance,
            symbol: symbol.map(|name| ((*name).into(), distance % 256)),
        }
    }
}

impl Names for Book {
    fn kernel(&mut self, address: u64) -> Place {
        let symbols = ["ksys_read", "vfs_read", "max_pfn"];
        Book::place("vmlinux", 0xffff_0000, &symbols, address)
    }

    fn user(&mut self, pid: u32, address: u64) -> Place {
        match pid {
            77 => Place::default(),
            _ => Book::place("app", 0x40_0000, &["main", "work"], address),
        }
    }

    fn probe(&mut self, id: u32) -> Option<&ProbeName> {
        self.probes.get(id as usize)
    }

    fn local_time(&mut self, _: i64) -> LocalTime {
        LocalTime {
            offset: self.offset,
            zone: if self.offset == 0 { "UTC" } else { "XYZ" }.into(),
        }
    }
}

/// A script with the records it left.
struct Run {
    options: Options,
    clauses: Vec<ClauseSchema>,
    aggregations: Vec<AggregationSchema>,
    types: Types,
    store: Store,
    book: Book,
    records: Vec<(RecordHeader, Vec<u8>)>,
    outcomes: Vec<Outcome>,
}

impl Run {
    /// A run whose probe 1 is BEGIN.
    fn new() -> Run {
        let mut run = Run {
            options: Options::default(),
            clauses: Vec::new(),
            aggregations: Vec::new(),
            types: Types::default(),
            store: Store::default(),
            book: Book {
                probes: vec![ProbeName::default()],
                offset: 0,
            },
            records: Vec::new(),
            outcomes: Vec::new(),
        };
        run.probe("dtrace", "", "BEGIN");
        run
    }

    fn quiet() -> Run {
        let mut run = Run::new();
        run.options.quiet = true;
        run
    }

    fn probe(&mut self, provider: &str, function: &str, name: &str) -> u32 {
        self.book.probes.push(ProbeName {
            provider: provider.into(),
            module: "".into(),
            function: function.into(),
            name: name.into(),
        });
        self.book.probes.len() as u32 - 1
    }

    /// Adds a clause; its actions may stand in an `if`.
    fn clause(&mut self, actions: Vec<(Option<u8>, ActionKind)>) -> u32 {
        let action = |(condition, kind)| Action { condition, kind };
        self.clauses.push(ClauseSchema {
            size: 0,
            default_action: actions.is_empty(),
            actions: actions.into_iter().map(action).collect(),
        });
        self.clauses.len() as u32 - 1
    }

    /// A clause that fires once, at BEGIN on processor 0.
    fn once(&mut self, actions: Vec<ActionKind>, data: Data) {
        let actions = actions.into_iter().map(|kind| (None, kind)).collect();
        let clause = self.clause(actions);
        self.fire(clause, data, |_| {});
    }

    /// A firing of a clause, at BEGIN on processor 0 unless `change` says otherwise.
    fn fire(&mut self, clause: u32, data: Data, change: impl FnOnce(&mut RecordHeader)) {
        let mut header = RecordHeader {
            clause,
            probe: 1,
            ..RecordHeader::default()
        };
        change(&mut header);
        self.records.push((header, data.bytes));
    }

    fn aggregation(&mut self, function: Aggregate) -> AggregationId {
        self.aggregations.push(AggregationSchema {
            name: "".into(),
            keys: Vec::new(),
            key_size: 0,
            function,
            signed: true,
        });
        self.store.functions.push(function);
        AggregationId(self.aggregations.len() as u32 - 1)
    }

    /// `@[key] = function(value)`, `times` over.
    fn add(
        &mut self,
        to: AggregationId,
        key: impl FnOnce(&mut Data) -> Vec<Field>,
        value: i64,
        times: i64,
    ) {
        let mut data = Data::default();
        let schema = &mut self.aggregations[to.0 as usize];
        schema.keys = key(&mut data);
        let rows = self.store.rows.entry(to.0).or_default();
        let values = rows.entry(data.bytes.into());
        let values = values.or_insert_with(|| identity(schema.function));
        record(schema.function, values, value, times);
    }

    /// What is printed of all records.
    fn records(&mut self) -> String {
        self.print(false)
    }

    /// What is printed of all records and at the end.
    fn all(&mut self) -> String {
        self.print(true)
    }

    fn print(&mut self, finish: bool) -> String {
        let layout = Layout {
            clauses: &self.clauses,
            aggregations: &self.aggregations,
            types: &self.types,
        };
        let mut page = Page::default();
        let mut printer =
            Printer::new(layout, self.options.clone()).expect("the formats are right");
        let mut world = World {
            out: &mut page,
            names: &mut self.book,
            aggregations: &mut self.store,
        };
        for (header, data) in &self.records {
            let outcome = printer.record(header, data, &mut world);
            self.outcomes.push(outcome.expect("the record is right"));
        }
        if finish {
            printer.finish(&mut world).expect("memory takes everything");
        }
        String::from_utf8(page.text).expect("tests print text")
    }
}

/// `printf` with these fields.
fn printf(format: &str, fields: Vec<Field>) -> ActionKind {
    ActionKind::Printf {
        format: format.into(),
        fields,
    }
}

/// `printa`, with or without a format.
fn printa(format: Option<&str>, aggregations: &[AggregationId]) -> ActionKind {
    ActionKind::Printa {
        format: format.map(Into::into),
        aggregations: aggregations.to_vec(),
    }
}

/// No keys.
fn no_key(_: &mut Data) -> Vec<Field> {
    Vec::new()
}
