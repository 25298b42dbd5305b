//! Any bytes as a script's schema, its records and its aggregations' rows: they are printed or refused.
#![no_main]

use std::io;

use dwell_script::aggregate::length;
use dwell_script::output::{
    Aggregations, Layout, LocalTime, Names, Options, Place, Printer, Sink, World,
};
use dwell_script::schema::{
    Action, ActionKind, AddressPart, Aggregate, AggregationId, AggregationSchema, ClauseSchema,
    Field, FieldKind, ProbeName, RecordHeader, Row,
};
use dwell_script::types::{Member, Record, Type, TypeId, Types};
use libfuzzer_sys::fuzz_target;

/// The fuzzer's bytes, taken one after the other; zeros when there are no more.
struct Dice<'d>(&'d [u8]);

impl<'d> Dice<'d> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn bytes(&mut self) -> &'d [u8] {
        let length = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        bytes
    }

    fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        // Mostly small, now and then anything.
        let count = match self.byte() {
            0..200 => 1,
            200..240 => 4,
            _ => 8,
        };
        bytes[..count].fill_with(|| self.byte());
        u64::from_le_bytes(bytes)
    }

    fn text(&mut self) -> Box<str> {
        String::from_utf8_lossy(self.bytes()).into()
    }

    fn field(&mut self) -> Field {
        let part = match self.byte() % 4 {
            0 => AddressPart::Function,
            1 => AddressPart::Module,
            2 => AddressPart::Symbol,
            _ => AddressPart::Exact,
        };
        let kind = match self.byte() % 10 {
            0 => FieldKind::Int { signed: true },
            1 => FieldKind::Int { signed: false },
            2 => FieldKind::Pointer,
            3 => FieldKind::String,
            4 => FieldKind::Bytes,
            5 => FieldKind::KernelStack,
            6 => FieldKind::UserStack {
                strings: self.number() as u32,
            },
            7 => FieldKind::KernelAddress(part),
            8 => FieldKind::UserAddress(part),
            _ => FieldKind::Typed(TypeId(u32::from(self.byte() % TYPES))),
        };
        Field {
            offset: self.number() as u32,
            size: self.number() as u32,
            kind,
        }
    }

    fn fields(&mut self) -> Vec<Field> {
        (0..self.byte() % 6).map(|_| self.field()).collect()
    }

    fn aggregation(&mut self) -> AggregationId {
        AggregationId(u32::from(self.byte() % 4))
    }

    fn action(&mut self) -> ActionKind {
        match self.byte() % 19 {
            0 => ActionKind::Trace(self.field()),
            1 => ActionKind::Tracemem {
                bytes: self.field(),
                length: (self.byte() % 2 == 0).then(|| self.field()),
            },
            2 => ActionKind::Print(self.field()),
            3 => ActionKind::PrintAt {
                address: self.field(),
                value: self.field(),
            },
            4 | 5 => ActionKind::Printf {
                format: self.text(),
                fields: self.fields(),
            },
            6 | 7 => ActionKind::Printa {
                format: (self.byte() % 2 == 0).then(|| self.text()),
                aggregations: (0..self.byte() % 4).map(|_| self.aggregation()).collect(),
            },
            8 => ActionKind::Clear(self.aggregation()),
            9 => ActionKind::Trunc(self.aggregation(), Some(self.field())),
            10 => ActionKind::Normalize(self.aggregation(), self.field()),
            11 => ActionKind::Denormalize(self.aggregation()),
            12 => ActionKind::Exit(self.field()),
            13 => ActionKind::Speculate(self.field()),
            14 => ActionKind::Commit(self.field()),
            15 => ActionKind::Discard(self.field()),
            16 => ActionKind::System {
                format: self.text(),
                fields: self.fields(),
            },
            17 => ActionKind::Freopen {
                format: self.text(),
                fields: self.fields(),
            },
            _ => ActionKind::Setopt {
                name: OPTIONS[usize::from(self.byte()) % OPTIONS.len()].into(),
                value: Some(self.text()),
            },
        }
    }

    fn clause(&mut self) -> ClauseSchema {
        let actions = (0..self.byte() % 5).map(|_| Action {
            condition: (self.byte() % 3 == 0).then(|| self.byte()),
            kind: self.action(),
        });
        ClauseSchema {
            size: 0,
            actions: actions.collect(),
            default_action: false,
        }
    }

    fn function(&mut self) -> Aggregate {
        match self.byte() % 9 {
            0 => Aggregate::Count,
            1 => Aggregate::Sum,
            2 => Aggregate::Min,
            3 => Aggregate::Max,
            4 => Aggregate::Avg,
            5 => Aggregate::Stddev,
            6 => Aggregate::Quantize,
            7 => Aggregate::Lquantize {
                base: self.number() as i32,
                limit: self.number() as i32,
                step: self.number() as u16,
            },
            _ => Aggregate::Llquantize {
                factor: self.number() as u16,
                low: self.number() as u16,
                high: self.number() as u16,
                steps: self.number() as u16 % 1000,
            },
        }
    }
}

const OPTIONS: [&str; 8] = [
    "quiet",
    "flowindent",
    "rawbytes",
    "stackindent",
    "aggsortkey",
    "aggsortkeypos",
    "aggsortrev",
    "no such",
];

/// How many types there are.
const TYPES: u8 = 12;

/// Types that refer to those before them.
fn types(dice: &mut Dice) -> Types {
    let mut types = Types::default();
    types.add(Type::Int {
        name: "char".into(),
        size: 1,
        signed: true,
    });
    for at in 1..u32::from(TYPES) {
        let mut earlier = || TypeId(u32::from(dice.byte()) % at);
        let (one, two) = (earlier(), earlier());
        let member = |ty, offset_bits, bits| Member {
            name: "m".into(),
            ty,
            offset_bits,
            bits,
        };
        let ty = match dice.byte() % 7 {
            0 => Type::Pointer(one),
            1 => Type::Array {
                of: one,
                count: dice.number() as u32,
            },
            2 => Type::Record(Record {
                keyword: "struct",
                name: "s".into(),
                size: dice.number() as u32,
                members: vec![
                    member(one, dice.number() as u32, None),
                    member(two, dice.number() as u32, Some(dice.byte())),
                ],
            }),
            3 => Type::Typedef {
                name: "t".into(),
                to: one,
            },
            4 => Type::Enum {
                name: "e".into(),
                size: dice.byte(),
                signed: true,
                values: vec![("A".into(), 1)],
            },
            5 => Type::Float {
                name: "f".into(),
                size: dice.byte(),
            },
            _ => Type::Int {
                name: "int".into(),
                size: dice.byte(),
                signed: dice.byte() % 2 == 0,
            },
        };
        // Equal types share a number; a void keeps the count.
        let id = types.add(ty);
        if id.0 != at {
            types.add(Type::Enum {
                name: "unique".into(),
                size: 4,
                signed: false,
                values: Vec::new(),
            });
        }
    }
    types
}

/// Addresses have names where they are even.
struct Book(ProbeName);

impl Names for Book {
    fn kernel(&mut self, address: u64) -> Place {
        let symbol = ("symbol".into(), address % 4096);
        Place {
            module: (address % 2 == 0).then(|| "module".into()),
            module_offset: address % 65536,
            symbol: (address % 4 == 0).then_some(symbol),
        }
    }
    fn user(&mut self, pid: u32, address: u64) -> Place {
        self.kernel(address ^ u64::from(pid))
    }
    fn probe(&mut self, id: u32) -> Option<&ProbeName> {
        (id < 3).then_some(&self.0)
    }
    fn local_time(&mut self, seconds: i64) -> LocalTime {
        LocalTime {
            offset: seconds as i32 % 90_000,
            zone: "UTC".into(),
        }
    }
}

/// The rows of four aggregations.
struct Store(Vec<Vec<Row>>);

impl Aggregations for Store {
    fn rows(&mut self, aggregation: AggregationId) -> Vec<Row> {
        self.0
            .get(aggregation.0 as usize)
            .cloned()
            .unwrap_or_default()
    }
    fn clear(&mut self, _: AggregationId) {}
    fn remove(&mut self, aggregation: AggregationId, keys: &[Box<[u8]>]) {
        self.0[aggregation.0 as usize].retain(|row| !keys.contains(&row.key));
    }
}

/// Counts what is written.
struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Counter {
    fn reopen(&mut self, _: Option<&[u8]>) -> io::Result<()> {
        Err(io::Error::other("no files here"))
    }
    fn run(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// An aggregation and its rows.
fn aggregation(dice: &mut Dice) -> (AggregationSchema, Vec<Row>) {
    let schema = AggregationSchema {
        name: "".into(),
        keys: dice.fields(),
        key_size: 0,
        function: dice.function(),
        signed: dice.byte() % 2 == 0,
    };
    // Now and then the wrong number of values.
    let count = length(schema.function).min(4096) + usize::from(dice.byte() == 1);
    let rows = (0..dice.byte() % 8).map(|_| Row {
        key: dice.bytes().into(),
        values: (0..count)
            .map(|at| if at < 8 { dice.number() as i64 } else { 0 })
            .collect(),
    });
    let rows = rows.collect();
    (schema, rows)
}

fuzz_target!(|data: &[u8]| {
    let mut dice = Dice(data);
    let types = types(&mut dice);
    let (aggregations, rows): (Vec<_>, Vec<_>) = (0..3).map(|_| aggregation(&mut dice)).unzip();
    let clauses: Vec<ClauseSchema> = (0..3).map(|_| dice.clause()).collect();
    let layout = Layout {
        clauses: &clauses,
        aggregations: &aggregations,
        types: &types,
    };
    let Ok(mut printer) = Printer::new(layout, Options::default()) else {
        return;
    };
    let (mut out, mut names, mut store) = (Counter(0), Book(ProbeName::default()), Store(rows));
    let mut world = World {
        out: &mut out,
        names: &mut names,
        aggregations: &mut store,
    };
    while !dice.0.is_empty() {
        let header = RecordHeader {
            clause: u32::from(dice.byte() % 4),
            probe: u32::from(dice.byte() % 4),
            speculation: u32::from(dice.byte() % 3),
            done: dice.number(),
            ..RecordHeader::default()
        };
        let outcome = printer.record(&header, dice.bytes(), &mut world);
        outcome.expect("what cannot be printed is no error of the output");
    }
    let _ = printer.finish(&mut world);
});
