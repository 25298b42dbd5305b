//! `print`: values with their types and their members' names. What is zero is left out.

use std::io::Write;

use crate::types::{Member, Type, TypeId, Types};

/// Spaces before the outermost line.
const INDENT: usize = 44;
/// Deeper members are not shown.
const DEEPEST: usize = 10;

/// Writes a value of a type on lines of their own, of its bytes at most `limit`.
pub fn value(out: &mut Vec<u8>, types: &Types, ty: TypeId, bytes: &[u8], limit: u64) {
    let mut lines = Lines {
        out,
        types,
        bytes,
        end: limit.min(bytes.len() as u64),
        open: Vec::new(),
    };
    let whole = Part {
        name: "",
        ty,
        offset_bits: 0,
        bits: None,
    };
    // Beyond the limit nothing follows but the ends of what is open.
    let _ = lines.part(&whole, 0);
    lines.close(0);
}

/// There is nothing more to print.
struct Stop;

/// A part of the value.
struct Part<'t> {
    /// The member's name, empty without one.
    name: &'t str,
    ty: TypeId,
    /// From the start of the whole.
    offset_bits: u64,
    /// The width of a bit-field.
    bits: Option<u8>,
}

/// The lines of a value.
struct Lines<'l> {
    out: &'l mut Vec<u8>,
    types: &'l Types,
    bytes: &'l [u8],
    /// Parts from this byte on are not shown.
    end: u64,
    /// The depths of the records whose last member may have been shown.
    open: Vec<usize>,
}

impl<'l> Lines<'l> {
    /// Writes a part and those within it.
    fn part(&mut self, part: &Part, depth: usize) -> Result<(), Stop> {
        if part.offset_bits / 8 >= self.end || depth >= DEEPEST {
            self.line(depth, b"...");
            return Err(Stop);
        }
        self.close(depth);
        if depth > 0 && self.is_zero(part) {
            return Ok(());
        }
        let types = self.types;
        match types.actual(part.ty) {
            Type::Record(record) => {
                self.named(part, depth, b"{");
                self.open.push(depth);
                self.members(&record.members, part, depth)
            }
            Type::Array { of, count } => self.array(part, depth, *of, *count),
            _ => {
                if let Some(text) = self.scalar(part) {
                    self.named(part, depth, &text);
                }
                Ok(())
            }
        }
    }

    /// The members of a record.
    fn members(&mut self, members: &[Member], of: &Part, depth: usize) -> Result<(), Stop> {
        members.iter().try_for_each(|member| {
            let part = Part {
                name: &member.name,
                ty: member.ty,
                offset_bits: of.offset_bits + u64::from(member.offset_bits),
                bits: member.bits,
            };
            self.part(&part, depth + 1)
        })
    }

    /// An array; one of characters up to a zero.
    fn array(&mut self, part: &Part, depth: usize, of: TypeId, count: u32) -> Result<(), Stop> {
        let size = size(self.types, of);
        if count == 0 || size == 0 {
            self.named(part, depth, b"[],");
            return Ok(());
        }
        self.named(part, depth, b"[");
        let text = is_character(self.types, of);
        for at in 0..u64::from(count) {
            let element = Part {
                name: "",
                ty: of,
                offset_bits: at
                    .saturating_mul(size.saturating_mul(8))
                    .saturating_add(part.offset_bits),
                bits: None,
            };
            if text && self.is_zero(&element) {
                break;
            }
            self.part(&element, depth + 1)?;
        }
        self.close(depth + 1);
        self.line(depth, b"],");
        Ok(())
    }

    /// Whether all bytes of a part, or the bits of a bit-field, are zero.
    fn is_zero(&self, part: &Part) -> bool {
        if part.bits.is_some() {
            return self.number(part) == Some(0);
        }
        let start = (part.offset_bits / 8) as usize;
        let end = start.saturating_add(size(self.types, part.ty) as usize);
        let bytes = self.bytes.get(start..).unwrap_or_default();
        bytes[..bytes.len().min(end - start)]
            .iter()
            .all(|byte| *byte == 0)
    }

    /// The bits of a part as an unsigned number; `None` if they are more than 64.
    fn number(&self, part: &Part) -> Option<u64> {
        let bits = part.bits.map_or(size(self.types, part.ty) * 8, u64::from);
        if bits > 64 {
            return None;
        }
        let start = (part.offset_bits / 8) as usize;
        let bytes = self.bytes.get(start..).unwrap_or_default();
        let mut wide = [0; 16];
        let present = bytes.len().min(16);
        wide[..present].copy_from_slice(&bytes[..present]);
        let number = u128::from_le_bytes(wide) >> (part.offset_bits % 8);
        Some((number & ((1 << bits) - 1)) as u64)
    }

    /// The text of a part that has none within it, `None` for what is not shown.
    fn scalar(&self, part: &Part) -> Option<Vec<u8>> {
        if let Type::String = self.types.actual(part.ty) {
            let text = super::data::until_zero(self.bytes);
            return Some([b"\"", text, b"\","].concat());
        }
        let number = self.number(part)?;
        let bits = part.bits.map_or(size(self.types, part.ty) * 8, u64::from);
        let unused = 64u64.saturating_sub(bits) as u32;
        let extended = (number.checked_shl(unused).unwrap_or(0) as i64)
            .checked_shr(unused)
            .unwrap_or(0);
        let text = match self.types.actual(part.ty) {
            Type::Int { name, .. } if &**name == "char" && is_bare(self.types, part.ty) => {
                // As it is: it need not be a character of its own.
                return Some(vec![b'\'', number as u8, b'\'', b',']);
            }
            Type::Int { signed: true, .. } => format!("{extended},"),
            Type::Int { .. } => format!("{number},"),
            Type::Enum { signed, values, .. } => {
                let value = if *signed { extended } else { number as i64 };
                match values.iter().find(|known| known.1 == value) {
                    Some((name, _)) => format!("{name},"),
                    None => format!("{value},"),
                }
            }
            Type::Pointer(_) => format!("{number:#x},"),
            Type::Float { size: 4, .. } => format!("{},", f32::from_bits(number as u32)),
            Type::Float { size: 8, .. } => format!("{},", f64::from_bits(number)),
            _ => return None,
        };
        Some(text.into_bytes())
    }

    /// `.name = (type)value`; structures and arrays have a space behind the type.
    fn named(&mut self, part: &Part, depth: usize, value: &[u8]) {
        let ty = type_name(self.types, part.ty);
        let space = if value.starts_with(b"{") || value.starts_with(b"[") {
            " "
        } else {
            ""
        };
        let text = match part.name {
            "" => format!("({ty}){space}"),
            name => format!(".{name} = ({ty}){space}"),
        };
        self.line(depth, &[text.as_bytes(), value].concat());
    }

    /// Writes a line.
    fn line(&mut self, depth: usize, text: &[u8]) {
        // Writing to memory does not fail.
        let _ = write!(self.out, "{:1$}", "", INDENT + depth);
        self.out.extend_from_slice(text);
        self.out.push(b'\n');
    }

    /// Ends the open records at this depth and deeper ones. That is done late, so that `...` stands before it.
    fn close(&mut self, depth: usize) {
        while let Some(open) = self.open.pop_if(|open| *open >= depth) {
            self.line(open, if open == 0 { b"}" } else { b"}," });
        }
    }
}

/// Bytes of a value of a type.
fn size(types: &Types, ty: TypeId) -> u64 {
    match types.actual(ty) {
        Type::Int { size, .. } | Type::Float { size, .. } | Type::Enum { size, .. } => {
            u64::from(*size)
        }
        Type::Pointer(_) => 8,
        Type::Array { of, count } => size(types, *of).saturating_mul(u64::from(*count)),
        Type::Record(record) => u64::from(record.size),
        _ => 0,
    }
}

/// Whether a type is one of C's three character types, under whatever name.
fn is_character(types: &Types, ty: TypeId) -> bool {
    matches!(types.actual(ty), Type::Int { name, size: 1, .. } if name.ends_with("char"))
}

/// Whether a type is no typedef.
fn is_bare(types: &Types, ty: TypeId) -> bool {
    types.resolved(ty) == ty
}

/// A type as C writes it: `char *[5]`.
pub fn type_name(types: &Types, ty: TypeId) -> String {
    declared(types, ty, String::new())
}

/// A type around what its declarator would be.
fn declared(types: &Types, ty: TypeId, declarator: String) -> String {
    let base = match types.get(ty) {
        Type::Pointer(to) => {
            let grouped = matches!(types.get(*to), Type::Array { .. } | Type::Function);
            let declarator = match grouped {
                true => format!("(*{declarator})"),
                false => format!("*{declarator}"),
            };
            return declared(types, *to, declarator);
        }
        Type::Array { of, count } => {
            return declared(types, *of, format!("{declarator}[{count}]"));
        }
        Type::Function => return format!("void {declarator}()"),
        Type::Void => "void".to_owned(),
        Type::Int { name, .. } | Type::Float { name, .. } | Type::Typedef { name, .. } => {
            name.to_string()
        }
        Type::Record(record) => tagged(record.keyword, &record.name),
        Type::Enum { name, .. } => tagged("enum", name),
        Type::Incomplete { keyword, name } => tagged(keyword, name),
        Type::String => "string".to_owned(),
        Type::Stack { .. } => "stack".to_owned(),
        Type::Address { .. } => "address".to_owned(),
    };
    match declarator.is_empty() {
        true => base,
        false => format!("{base} {declarator}"),
    }
}

/// `struct name`, or the keyword alone for what has no name.
fn tagged(keyword: &str, name: &str) -> String {
    match name {
        "" => keyword.to_owned(),
        name => format!("{keyword} {name}"),
    }
}
