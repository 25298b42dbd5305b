//! Values without a format: `trace` and its like, and the keys of aggregations.

use std::io::Write;

use super::bytes::{column, dump, guessed};
use super::data::{bytes, signed, unsigned, until_zero, words};
use super::names::{Names, user_address};
use super::options::Options;
use super::{OutputError, stacks};
use crate::schema::{AddressPart, Field, FieldKind};

/// What printing a field needs to know.
pub struct Context<'c> {
    /// The options.
    pub options: &'c Options,
    /// What numbers stand for.
    pub names: &'c mut dyn Names,
}

/// A value as `trace` and the actions for stacks and addresses print it.
pub fn value(
    out: &mut Vec<u8>,
    field: &Field,
    data: &[u8],
    context: &mut Context,
) -> Result<(), OutputError> {
    let bytes = bytes(field, data)?;
    if named(out, field, bytes, context) {
        return Ok(());
    }
    let quiet = context.options.quiet;
    match &field.kind {
        _ if context.options.raw_bytes => dump(out, bytes),
        FieldKind::String if quiet => out.extend_from_slice(until_zero(bytes)),
        FieldKind::String => column(out, bytes, 33),
        FieldKind::Int { signed: true } => match signed(bytes) {
            Some(value) => number(out, value, [3, 5, 10, 19], bytes.len(), quiet),
            None => dump(out, bytes),
        },
        FieldKind::Int { signed: false } | FieldKind::Pointer => match unsigned(bytes) {
            Some(value) => number(out, value, [3, 5, 10, 20], bytes.len(), quiet),
            None => dump(out, bytes),
        },
        _ => dump(out, bytes),
    }
    Ok(())
}

/// A number in the column of its size, or in quiet mode as it is.
fn number(out: &mut Vec<u8>, value: impl ToString, widths: [usize; 4], size: usize, quiet: bool) {
    let value = value.to_string();
    let width = widths[size.ilog2() as usize];
    // Writing to memory does not fail.
    let _ = match quiet {
        true => write!(out, "{value}"),
        false => write!(out, " {value:>width$}"),
    };
}

/// A part of an aggregation's key. The signs of 8 and 4 bytes are shown, those of shorter integers are not.
pub fn key(
    out: &mut Vec<u8>,
    field: &Field,
    key: &[u8],
    context: &mut Context,
) -> Result<(), OutputError> {
    let bytes = bytes(field, key)?;
    if named(out, field, bytes, context) {
        return Ok(());
    }
    let string = field.kind == FieldKind::String;
    // Writing to memory does not fail.
    let _ = match (bytes.len(), unsigned(bytes), signed(bytes)) {
        (8, _, Some(value)) if !string => write!(out, " {value:>16}"),
        (4, _, Some(value)) if !string => write!(out, " {value:>8}"),
        (2, Some(value), _) if !string => write!(out, " {value:>5}"),
        (1, Some(value), _) if !string => write!(out, " {value:>3}"),
        _ if context.options.raw_bytes => {
            dump(out, bytes);
            Ok(())
        }
        _ if string => {
            column(out, bytes, 50);
            Ok(())
        }
        _ => {
            guessed(out, bytes, 50);
            Ok(())
        }
    };
    Ok(())
}

/// Stacks and addresses, which look alike everywhere. False for other fields.
fn named(out: &mut Vec<u8>, field: &Field, bytes: &[u8], context: &mut Context) -> bool {
    let options = context.options;
    let layout = stacks::Layout::of(options);
    match field.kind {
        FieldKind::KernelStack => stacks::kernel(out, bytes, layout, context.names),
        FieldKind::UserStack { strings } => {
            stacks::user(out, bytes, strings, layout, context.names, options);
        }
        FieldKind::KernelAddress(part) => {
            let address = unsigned(bytes).unwrap_or(0);
            let name = context.names.kernel(address).part(address, part);
            column(out, name.as_bytes(), 50);
        }
        FieldKind::UserAddress(part) => {
            let name = user_field(bytes, part, context);
            column(out, name.as_bytes(), 50);
        }
        _ => return false,
    }
    true
}

/// The name of a field of a process' id and an address.
pub fn user_field(bytes: &[u8], part: AddressPart, context: &mut Context) -> String {
    let mut words = words(bytes);
    let pid = words.next().unwrap_or(0) as u32;
    let address = words.next().unwrap_or(0);
    user_address(context.names, context.options, (pid, address), part)
}
