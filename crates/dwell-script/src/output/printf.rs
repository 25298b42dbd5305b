//! `printf`, and what `printa` does with the fields of one row.

use super::bytes::escaped;
use super::c_format::{self, Base, Shape, WIDEST};
use super::data::{self, signed, unsigned, until_zero};
use super::format::{Conversion, Extent, Format, Kind, Piece};
use super::names::{mail_time, time, user_address};
use super::trace::{Context, user_field};
use super::{OutputError, histogram, stacks};
use crate::aggregate::{average, normalized, standard_deviation};
use crate::octets;
use crate::schema::{AddressPart, Aggregate, AggregationSchema, Field, FieldKind};

/// What one of the aggregations of a row holds.
#[derive(Clone, Copy)]
pub struct Value<'v> {
    /// Which function's.
    pub schema: &'v AggregationSchema,
    /// What it keeps.
    pub values: &'v [i64],
    /// What `normalize` divides it by.
    pub divisor: u64,
}

/// The arguments of a format, taken one after the other.
pub struct Arguments<'a> {
    /// The fields that are left.
    pub fields: std::slice::Iter<'a, Field>,
    /// The bytes they lie in.
    pub data: &'a [u8],
    /// For conversions with `@`: the next, and last again and again.
    pub values: &'a [Value<'a>],
}

impl<'a> Arguments<'a> {
    /// Those of a `printf`.
    pub fn of(fields: &'a [Field], data: &'a [u8]) -> Arguments<'a> {
        Arguments {
            fields: fields.iter(),
            data,
            values: &[],
        }
    }

    /// The next field.
    fn next(&mut self, conversion: &Conversion) -> Result<(&'a Field, &'a [u8]), OutputError> {
        let field = self.fields.next().ok_or_else(|| mismatch(conversion))?;
        Ok((field, data::bytes(field, self.data)?))
    }

    /// What the next aggregation holds.
    fn next_value(&mut self, conversion: &Conversion) -> Result<Value<'a>, OutputError> {
        let (value, rest) = self
            .values
            .split_first()
            .ok_or_else(|| mismatch(conversion))?;
        if !rest.is_empty() {
            self.values = rest;
        }
        Ok(*value)
    }

    /// A width or a precision.
    fn extent(&mut self, extent: Extent, conversion: &Conversion) -> Result<i64, OutputError> {
        match extent {
            Extent::Fixed(extent) => Ok(extent as i64),
            Extent::Argument => {
                let (_, bytes) = self.next(conversion)?;
                let value = signed(bytes).ok_or(OutputError::Size { size: bytes.len() })?;
                Ok(i64::from(value as i32).clamp(-(WIDEST as i64), WIDEST as i64))
            }
        }
    }
}

/// The error of a conversion that cannot print what it is given.
fn mismatch(conversion: &Conversion) -> OutputError {
    OutputError::Argument(conversion.name.clone())
}

/// Writes a format with its arguments.
pub fn print(
    out: &mut Vec<u8>,
    format: &Format,
    mut arguments: Arguments,
    context: &mut Context,
) -> Result<(), OutputError> {
    for piece in &format.pieces {
        match piece {
            Piece::Text(text) => out.extend_from_slice(&octets::bytes_of(text)),
            Piece::Conversion(conversion) => convert(out, conversion, &mut arguments, context)?,
        }
    }
    Ok(())
}

/// Writes one conversion.
fn convert(
    out: &mut Vec<u8>,
    conversion: &Conversion,
    arguments: &mut Arguments,
    context: &mut Context,
) -> Result<(), OutputError> {
    let width = arguments.extent(conversion.width, conversion)?;
    let precision = arguments.extent(conversion.precision, conversion)?;
    let shape = Shape {
        alternate: conversion.alternate,
        zero: conversion.zero && width >= 0,
        left: conversion.left || width < 0,
        plus: conversion.plus,
        space: conversion.space,
        width: width.unsigned_abs() as usize,
        precision: usize::try_from(precision).ok().filter(|p| *p > 0),
    };
    if conversion.aggregation {
        let value = arguments.next_value(conversion)?;
        return aggregated(out, conversion, &shape, value, context);
    }
    let (field, bytes) = arguments.next(conversion)?;
    write(out, conversion, &shape, (&field.kind, bytes), context)
}

/// Writes what an aggregation holds: a distribution as always, whatever the conversion, all else as an integer of 8
/// bytes.
fn aggregated(
    out: &mut Vec<u8>,
    conversion: &Conversion,
    shape: &Shape,
    value: Value,
    context: &mut Context,
) -> Result<(), OutputError> {
    let function = value.schema.function;
    let Some(number) = scalar(value) else {
        histogram::print(out, function, value.values, value.divisor);
        return Ok(());
    };
    let signed = function != Aggregate::Count;
    let bytes = number.to_le_bytes();
    let argument = (&FieldKind::Int { signed }, &bytes[..]);
    write(out, conversion, shape, argument, context)
}

/// The number that is printed of what an aggregation holds, `None` for distributions.
pub fn scalar(value: Value) -> Option<i64> {
    let divisor = value.divisor;
    match (value.schema.function, value.values) {
        (Aggregate::Avg, [count, sum]) => Some(average([*count, *sum], divisor)),
        (Aggregate::Stddev, [count, sum, low, high]) => {
            let deviation = standard_deviation([*count, *sum, *low, *high], divisor);
            Some(deviation as i64)
        }
        (_, [number]) => Some(normalized(*number, divisor, value.schema.signed)),
        _ => None,
    }
}

/// Writes an argument as a conversion wants it.
fn write(
    out: &mut Vec<u8>,
    conversion: &Conversion,
    shape: &Shape,
    (kind, bytes): (&FieldKind, &[u8]),
    context: &mut Context,
) -> Result<(), OutputError> {
    let size = OutputError::Size { size: bytes.len() };
    match conversion.kind {
        Kind::Stack => return stack(out, conversion, shape, (kind, bytes), context),
        Kind::KernelAddress | Kind::UserAddress => {
            let name = address(conversion, (kind, bytes), context)?;
            c_format::string(out, name.as_bytes(), shape);
        }
        // A module's name is printed whatever the conversion.
        _ if matches!(
            kind,
            FieldKind::KernelAddress(_) | FieldKind::UserAddress(_)
        ) =>
        {
            let name = address(conversion, (kind, bytes), context)?;
            c_format::string(out, name.as_bytes(), shape);
        }
        Kind::String => c_format::string(out, until_zero(bytes), shape),
        Kind::EscapedString => c_format::string(out, &escaped(bytes), shape),
        Kind::WideString => c_format::string(out, wide(bytes).as_bytes(), shape),
        Kind::Float(letter) => {
            let value = float(bytes).ok_or(size)?;
            c_format::float(out, value, letter, shape);
        }
        _ => integer(out, conversion, shape, (kind, bytes), context).ok_or(size)?,
    }
    Ok(())
}

/// Conversions of integers; `None` if the argument is none.
fn integer(
    out: &mut Vec<u8>,
    conversion: &Conversion,
    shape: &Shape,
    (kind, bytes): (&FieldKind, &[u8]),
    context: &mut Context,
) -> Option<()> {
    let value = unsigned(bytes)?;
    let without_precision = Shape {
        precision: None,
        ..*shape
    };
    match conversion.kind {
        Kind::Decimal if *kind == (FieldKind::Int { signed: true }) => {
            c_format::signed(out, signed(bytes)?, shape);
        }
        Kind::Decimal => c_format::unsigned(out, value, Base::Decimal, shape),
        Kind::Signed => c_format::signed(out, signed(bytes)?, shape),
        Kind::Unsigned(base) => c_format::unsigned(out, value, base, shape),
        Kind::Character => c_format::string(out, &[value as u8], &without_precision),
        Kind::EscapedCharacter => c_format::string(out, &escaped(&[value as u8]), shape),
        Kind::WideCharacter => {
            let text = wide(&(value as u32).to_le_bytes());
            c_format::string(out, text.as_bytes(), &without_precision);
        }
        Kind::Time => c_format::string(out, time(context.names, value).as_bytes(), shape),
        Kind::MailTime => c_format::string(out, mail_time(context.names, value).as_bytes(), shape),
        _ => return None,
    }
    Some(())
}

/// An address by name.
fn address(
    conversion: &Conversion,
    (kind, bytes): (&FieldKind, &[u8]),
    context: &mut Context,
) -> Result<String, OutputError> {
    if let FieldKind::UserAddress(part) = kind {
        return Ok(user_field(bytes, *part, context));
    }
    let address = unsigned(bytes).ok_or(OutputError::Size { size: bytes.len() })?;
    let part = match kind {
        FieldKind::KernelAddress(part) => *part,
        _ => AddressPart::Exact,
    };
    if conversion.kind == Kind::UserAddress {
        let at = (context.options.target, address);
        return Ok(user_address(context.names, context.options, at, part));
    }
    Ok(context.names.kernel(address).part(address, part))
}

/// `%k`. A width to the left is the indent; to the right, that of each frame.
fn stack(
    out: &mut Vec<u8>,
    conversion: &Conversion,
    shape: &Shape,
    (kind, bytes): (&FieldKind, &[u8]),
    context: &mut Context,
) -> Result<(), OutputError> {
    let (indent, width) = match shape.left {
        true => (shape.width, 0),
        false => (0, shape.width),
    };
    let layout = stacks::Layout {
        indent,
        frame: Shape { width, ..*shape },
    };
    match kind {
        FieldKind::KernelStack => stacks::kernel(out, bytes, layout, context.names),
        FieldKind::UserStack { strings } => {
            let options = context.options;
            stacks::user(out, bytes, *strings, layout, context.names, options);
        }
        _ => return Err(mismatch(conversion)),
    }
    Ok(())
}

/// Characters of 4 bytes up to a zero.
fn wide(bytes: &[u8]) -> String {
    let (units, _) = bytes.as_chunks::<4>();
    let units = units.iter().map(|unit| u32::from_le_bytes(*unit));
    let character = |unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
    units.take_while(|unit| *unit != 0).map(character).collect()
}

/// A number of 4, 8 or 16 bytes (the x87's, of which 10 count); the last is rounded to 53 bits.
fn float(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        4 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        8 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        16 => {
            let mantissa = u64::from_le_bytes(bytes[..8].try_into().ok()?);
            let head = u16::from_le_bytes(bytes[8..10].try_into().ok()?);
            Some(extended(mantissa, head))
        }
        _ => None,
    }
}

/// A number of 80 bits: `mantissa * 2^(exponent - 16383 - 63)`.
fn extended(mantissa: u64, head: u16) -> f64 {
    let sign = if head & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(head & 0x7fff);
    let fraction = mantissa << 1;
    if exponent == 0x7fff {
        return if fraction == 0 {
            sign * f64::INFINITY
        } else {
            f64::NAN
        };
    }
    // In two halves, since the power alone may be too small for a number that is not.
    let power = exponent - 16_383 - 63;
    let half = power / 2;
    sign * mantissa as f64 * 2f64.powi(half) * 2f64.powi(power - half)
}
