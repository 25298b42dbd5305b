//! What `printf` prints of numbers and strings against the C library's own printf.

use std::ffi::{CString, c_char, c_int};
use std::io;

use dwell_script::output::{
    Aggregations, Layout, LocalTime, Names, Options, Place, Printer, Sink, World,
};
use dwell_script::schema::{
    Action, ActionKind, AggregationId, ClauseSchema, Field, FieldKind, ProbeName, RecordHeader, Row,
};
use dwell_script::types::Types;

unsafe extern "C" {
    fn snprintf(buffer: *mut c_char, size: usize, format: *const c_char, ...) -> c_int;
}

/// Nothing is asked of it here.
struct Nothing;

impl Names for Nothing {
    fn kernel(&mut self, _: u64) -> Place {
        Place::default()
    }
    fn user(&mut self, _: u32, _: u64) -> Place {
        Place::default()
    }
    fn probe(&mut self, _: u32) -> Option<&ProbeName> {
        None
    }
    fn local_time(&mut self, _: i64) -> LocalTime {
        LocalTime {
            offset: 0,
            zone: "UTC".into(),
        }
    }
}

impl Aggregations for Nothing {
    fn rows(&mut self, _: AggregationId) -> Vec<Row> {
        Vec::new()
    }
    fn clear(&mut self, _: AggregationId) {}
    fn remove(&mut self, _: AggregationId, _: &[Box<[u8]>]) {}
}

#[derive(Default)]
struct Page(Vec<u8>);

impl io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Page {
    fn reopen(&mut self, _: Option<&[u8]>) -> io::Result<()> {
        Ok(())
    }
    fn run(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// What D prints.
fn ours(format: &str, kind: FieldKind, bytes: &[u8]) -> String {
    let field = Field {
        offset: 0,
        size: bytes.len() as u32,
        kind,
    };
    let kind = ActionKind::Printf {
        format: format.into(),
        fields: vec![field],
    };
    let condition = None;
    let clauses = [ClauseSchema {
        size: bytes.len() as u32,
        actions: vec![Action { condition, kind }],
        default_action: false,
    }];
    let layout = Layout {
        clauses: &clauses,
        aggregations: &[],
        types: &Types::default(),
    };
    let options = Options {
        quiet: true,
        ..Options::default()
    };
    let mut printer = Printer::new(layout, options).expect(format);
    let (mut page, mut names, mut aggregations) = (Page::default(), Nothing, Nothing);
    let mut world = World {
        out: &mut page,
        names: &mut names,
        aggregations: &mut aggregations,
    };
    let header = RecordHeader::default();
    printer.record(&header, bytes, &mut world).expect(format);
    String::from_utf8(page.0).expect("ASCII")
}

/// An argument of a C function.
enum Argument<'a> {
    Integer(i64),
    Float(f64),
    String(&'a CString),
}

/// What C prints.
fn theirs(format: &str, argument: Argument) -> String {
    let format = CString::new(format).expect("no zeros");
    let mut buffer = [0u8; 512];
    let (text, size) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: the buffer has this size, and each format has one conversion, for the argument's type.
    let length = unsafe {
        match argument {
            Argument::Integer(value) => snprintf(text, size, format.as_ptr(), value),
            Argument::Float(value) => snprintf(text, size, format.as_ptr(), value),
            Argument::String(value) => snprintf(text, size, format.as_ptr(), value.as_ptr()),
        }
    };
    let length = usize::try_from(length).expect("a valid format");
    String::from_utf8(buffer[..length].to_vec()).expect("ASCII")
}

/// All combinations of flags, widths and precisions, as they stand behind the `%`.
fn shapes() -> Vec<String> {
    let mut shapes = Vec::new();
    for set in 0..32 {
        let flags = "#0-+ ".chars().enumerate();
        let flags: String = flags
            .filter(|(bit, _)| set >> bit & 1 == 1)
            .map(|(_, flag)| flag)
            .collect();
        for width in ["", "1", "9", "24"] {
            for precision in ["", ".1", ".3", ".15"] {
                shapes.push(format!("{flags}{width}{precision}"));
            }
        }
    }
    shapes
}

#[test]
fn integers() {
    let values = [0, 1, -1, 7, 255, 1_000_000, i64::MIN, i64::MAX];
    for shape in shapes() {
        for conversion in ["d", "i", "u", "x", "X", "o"] {
            for value in values {
                let kind = FieldKind::Int { signed: true };
                let format = format!("%{shape}{conversion}");
                let ours = ours(&format, kind, &value.to_le_bytes());
                let theirs = theirs(&format!("%{shape}ll{conversion}"), Argument::Integer(value));
                assert_eq!(ours, theirs, "{format} of {value}");
            }
        }
    }
}

#[test]
fn floats() {
    let values = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        2.5,
        0.000_099_999_95,
        999_999.5,
        1e10,
        1e-5,
        123_456_789.125,
        f64::MAX / 3.0,
        5e-324,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::from_bits(0x7ff8_0000_0000_0000),
        f64::from_bits(0xfff8_0000_0000_0000),
    ];
    for shape in shapes() {
        for conversion in ["e", "E", "f", "g", "G"] {
            for value in values {
                // The C library forgets zeros that `#` wants when rounding makes one more digit of a number.
                let shortest = matches!(conversion, "g" | "G");
                if shortest && shape.contains('#') && value == 999_999.5 {
                    continue;
                }
                let format = format!("%{shape}{conversion}");
                let ours = ours(&format, FieldKind::Bytes, &value.to_le_bytes());
                assert_eq!(
                    ours,
                    theirs(&format, Argument::Float(value)),
                    "{format} of {value}"
                );
            }
        }
    }
}

#[test]
fn strings() {
    for text in ["", "a", "hello world"] {
        let c_text = CString::new(text).expect("no zeros");
        for shape in shapes()
            .iter()
            .filter(|shape| !shape.contains(['#', '0', '+', ' ']))
        {
            let format = format!("<%{shape}s>");
            let ours = ours(&format, FieldKind::String, c_text.as_bytes_with_nul());
            assert_eq!(
                ours,
                theirs(&format, Argument::String(&c_text)),
                "{format} of {text}"
            );
        }
    }
}
