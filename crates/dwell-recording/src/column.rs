//! One column: how a field of a row becomes Parquet values and comes back.
use crate::word::Word;
use bytes::Bytes;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::schema::types::{Type, TypePtr};
use std::sync::Arc;

/// What a column holds, which decides its Parquet type and encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An id, a number of a thread or processor, a flag, a status.
    Number,
    /// An instant. Stored signed, so that SQL can subtract; has minimum and maximum in the footer.
    Time,
    /// A duration or a count. Stored signed, so that SQL can subtract.
    Amount,
    /// An address or an offset. Stored unsigned, kernel addresses use the top bit.
    Address,
    /// Text of few distinct values: a dictionary.
    Word,
    /// Text that seldom repeats.
    Text,
}

/// The values of one column between rows and Parquet; kept and reused.
#[derive(Default)]
pub struct Values {
    pub(crate) ints: Vec<i32>,
    pub(crate) longs: Vec<i64>,
    pub(crate) bools: Vec<bool>,
    pub(crate) texts: Vec<ByteArray>,
    /// 1 where there is a value, 0 where there is none (optional columns and lists).
    pub(crate) present: Vec<i16>,
    /// 0 at the first element of a list, 1 at the others.
    pub(crate) repeat: Vec<i16>,
}

impl Values {
    pub(crate) fn clear(&mut self) {
        self.ints.clear();
        self.longs.clear();
        self.bools.clear();
        self.texts.clear();
        self.present.clear();
        self.repeat.clear();
    }
}

/// A type that a field of a row may have.
pub trait Field {
    /// The Parquet column for it.
    fn column(name: &str, kind: Kind) -> TypePtr;
    /// Appends the values of all rows to `out`, which is empty before.
    fn gather<'a>(fields: impl Iterator<Item = &'a Self>, out: &mut Values)
    where
        Self: 'a;
    /// Puts the values read back into the rows; an error says why they cannot be.
    fn scatter<'a>(
        values: &mut Values,
        fields: impl Iterator<Item = &'a mut Self>,
    ) -> Result<(), String>
    where
        Self: 'a;
    /// Memory it owns outside the row, bytes.
    fn heap_bytes(&self) -> usize {
        0
    }
}

/// Builds a column; the parts are constants of this crate, so it cannot fail.
fn primitive(
    name: &str,
    physical: Physical,
    logical: Option<LogicalType>,
    repetition: Repetition,
) -> TypePtr {
    let built = Type::primitive_type_builder(name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition)
        .build();
    Arc::new(built.expect("the schema is a constant of this crate"))
}

fn unsigned(bit_width: i8) -> Option<LogicalType> {
    Some(LogicalType::integer(bit_width, false))
}

fn long(name: &str, kind: Kind, repetition: Repetition) -> TypePtr {
    let logical = if kind == Kind::Address {
        unsigned(64)
    } else {
        None
    };
    primitive(name, Physical::INT64, logical, repetition)
}

/// The next value of a column that has one per row.
fn next<T>(values: &mut impl Iterator<Item = T>) -> Result<T, String> {
    values
        .next()
        .ok_or_else(|| "the column has fewer values than rows".to_string())
}

fn text(bytes: &ByteArray) -> Result<&str, String> {
    bytes.as_utf8().map_err(|_| "text is not UTF-8".to_string())
}

/// A required column of plain values: field type, buffer, Parquet column, both conversions.
macro_rules! required {
    ($field:ty, $buffer:ident, $column:expr, $to:expr, $from:expr) => {
        impl Field for $field {
            fn column(name: &str, kind: Kind) -> TypePtr {
                $column(name, kind, Repetition::REQUIRED)
            }
            fn gather<'a>(fields: impl Iterator<Item = &'a Self>, out: &mut Values) {
                out.$buffer.extend(fields.map($to));
            }
            fn scatter<'a>(
                values: &mut Values,
                fields: impl Iterator<Item = &'a mut Self>,
            ) -> Result<(), String> {
                let mut read = values.$buffer.iter();
                for field in fields {
                    *field = $from(next(&mut read)?);
                }
                Ok(())
            }
        }
        impl Field for Option<$field> {
            fn column(name: &str, kind: Kind) -> TypePtr {
                $column(name, kind, Repetition::OPTIONAL)
            }
            fn gather<'a>(fields: impl Iterator<Item = &'a Self>, out: &mut Values) {
                for field in fields {
                    out.present.push(i16::from(field.is_some()));
                    out.$buffer.extend(field.iter().map($to));
                }
            }
            fn scatter<'a>(
                values: &mut Values,
                fields: impl Iterator<Item = &'a mut Self>,
            ) -> Result<(), String> {
                let (mut read, mut present) = (values.$buffer.iter(), values.present.iter());
                for field in fields {
                    *field = match next(&mut present)? {
                        0 => None,
                        _ => Some($from(next(&mut read)?)),
                    };
                }
                Ok(())
            }
        }
    };
}

required!(
    u32,
    ints,
    |name, _, repetition| primitive(name, Physical::INT32, unsigned(32), repetition),
    |v: &u32| v.cast_signed(),
    |v: &i32| v.cast_unsigned()
);
required!(
    i32,
    ints,
    |name, _, repetition| primitive(name, Physical::INT32, None, repetition),
    |v: &i32| *v,
    |v: &i32| *v
);
required!(u64, longs, long, |v: &u64| v.cast_signed(), |v: &i64| v
    .cast_unsigned());
required!(
    bool,
    bools,
    |name, _, repetition| primitive(name, Physical::BOOLEAN, None, repetition),
    |v: &bool| *v,
    |v: &bool| *v
);

/// A required column of text: field type, how a text is appended, and the memory that a field owns elsewhere.
macro_rules! required_text {
    ($field:ty, $push:expr, $heap_bytes:expr) => {
        impl Field for $field {
            fn column(name: &str, _: Kind) -> TypePtr {
                primitive(
                    name,
                    Physical::BYTE_ARRAY,
                    Some(LogicalType::String),
                    Repetition::REQUIRED,
                )
            }
            fn gather<'a>(fields: impl Iterator<Item = &'a Self>, out: &mut Values) {
                for field in fields {
                    $push(field, &mut out.texts);
                }
            }
            fn scatter<'a>(
                values: &mut Values,
                fields: impl Iterator<Item = &'a mut Self>,
            ) -> Result<(), String> {
                let mut read = values.texts.iter();
                for field in fields {
                    *field = text(next(&mut read)?)?.into();
                }
                Ok(())
            }
            fn heap_bytes(&self) -> usize {
                $heap_bytes(self)
            }
        }
    };
}

required_text!(
    String,
    |text: &str, to| push_text(text, to),
    String::capacity
);
required_text!(Word, push_word, Word::heap_bytes);

impl Field for Option<String> {
    fn column(name: &str, _: Kind) -> TypePtr {
        primitive(
            name,
            Physical::BYTE_ARRAY,
            Some(LogicalType::String),
            Repetition::OPTIONAL,
        )
    }
    fn gather<'a>(fields: impl Iterator<Item = &'a Self>, out: &mut Values) {
        for field in fields {
            out.present.push(i16::from(field.is_some()));
            if let Some(field) = field {
                push_text(field, &mut out.texts);
            }
        }
    }
    fn scatter<'a>(
        values: &mut Values,
        fields: impl Iterator<Item = &'a mut Self>,
    ) -> Result<(), String> {
        let (mut read, mut present) = (values.texts.iter(), values.present.iter());
        for field in fields {
            *field = match next(&mut present)? {
                0 => None,
                _ => Some(text(next(&mut read)?)?.to_owned()),
            };
        }
        Ok(())
    }
    fn heap_bytes(&self) -> usize {
        self.as_ref().map_or(0, String::capacity)
    }
}

/// How far back [`push_text`] looks for an equal text.
const TEXTS_COMPARED: usize = 4;

/// Appends a text, sharing the bytes of an equal one among the last few: states, reasons and waker
/// names repeat, and a comparison is cheaper than an allocation.
fn push_text(text: &str, texts: &mut Vec<ByteArray>) {
    let recent = texts.iter().rev().take(TEXTS_COMPARED);
    let shared = recent
        .into_iter()
        .find(|other| other.data() == text.as_bytes())
        .cloned();
    texts.push(shared.unwrap_or_else(|| ByteArray::from(text)));
}

/// Appends a word. One that the format names is neither compared nor counted: its bytes are there for good.
fn push_word(word: &Word, texts: &mut Vec<ByteArray>) {
    match word.known() {
        Some(text) => texts.push(Bytes::from_static(text.as_bytes()).into()),
        None => push_text(word, texts),
    }
}

impl Field for Vec<u32> {
    fn column(name: &str, kind: Kind) -> TypePtr {
        let repeated = Type::group_type_builder("list")
            .with_repetition(Repetition::REPEATED)
            .with_fields(vec![u32::column("element", kind)])
            .build();
        let list = Type::group_type_builder(name)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::List))
            .with_fields(vec![Arc::new(
                repeated.expect("the schema is a constant of this crate"),
            )])
            .build();
        Arc::new(list.expect("the schema is a constant of this crate"))
    }
    fn gather<'a>(fields: impl Iterator<Item = &'a Self>, out: &mut Values) {
        for field in fields {
            if field.is_empty() {
                out.present.push(0);
                out.repeat.push(0);
            }
            out.ints.extend(field.iter().map(|v| v.cast_signed()));
            out.present.extend(field.iter().map(|_| 1));
            out.repeat
                .extend((0..field.len()).map(|i| i16::from(i > 0)));
        }
    }
    fn scatter<'a>(
        values: &mut Values,
        fields: impl Iterator<Item = &'a mut Self>,
    ) -> Result<(), String> {
        let mut read = values.ints.iter();
        let mut levels = values.repeat.iter().zip(&values.present).peekable();
        for field in fields {
            let (_, mut present) = next(&mut levels)?;
            field.clear();
            while *present != 0 {
                field.push(next(&mut read)?.cast_unsigned());
                match levels.next_if(|(repeat, _)| **repeat != 0) {
                    Some((_, more)) => present = more,
                    None => break,
                }
            }
        }
        Ok(())
    }
    fn heap_bytes(&self) -> usize {
        self.capacity() * size_of::<u32>()
    }
}
