//! The few DWARF expressions that compilers and linkers write into call frame information.
use super::cfi::{RBP, RIP, RSP};
use super::sections::Slice;
use gimli::{Encoding, EndianSlice, Expression, Format, LittleEndian, Operation, Register};

/// Longest expression that is looked at, in operations; the longest known form has 9.
const MAX_OPERATIONS: usize = 9;

/// An expression for the CFA that a rule can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CfaForm {
    /// rsp + 8 + (((rip & 15) >= n) << 3): a PLT stub, which pushes at offset n of its 16 bytes.
    Plt(u8),
    /// *(register + offset) + add
    Deref(Register, i64, u64),
}

type Op<'a> = Operation<Slice<'a>, usize>;

fn operations(bytes: &[u8]) -> Option<([Op<'_>; MAX_OPERATIONS], usize)> {
    let encoding = Encoding {
        address_size: 8,
        format: Format::Dwarf32,
        version: 4,
    };
    let mut operations = Expression(EndianSlice::new(bytes, LittleEndian)).operations(encoding);
    let mut found = [Operation::Nop; MAX_OPERATIONS];
    let mut count = 0;
    while let Some(operation) = operations.next().ok()? {
        *found.get_mut(count)? = operation;
        count += 1;
    }
    Some((found, count))
}

/// Recognises the CFA of a PLT stub and of a realigned stack.
pub(crate) fn cfa_form(bytes: &[u8]) -> Option<CfaForm> {
    let (found, count) = operations(bytes)?;
    match &found[..count] {
        [
            Operation::RegisterOffset {
                register: RSP,
                offset: 8,
                ..
            },
            Operation::RegisterOffset {
                register: RIP,
                offset: 0,
                ..
            },
            Operation::UnsignedConstant { value: 15 },
            Operation::And,
            Operation::UnsignedConstant { value: pushed_at },
            Operation::Ge,
            Operation::UnsignedConstant { value: 3 },
            Operation::Shl,
            Operation::Plus,
        ] => u8::try_from(*pushed_at)
            .ok()
            .filter(|&n| n < 16)
            .map(CfaForm::Plt),
        [
            Operation::RegisterOffset {
                register, offset, ..
            },
            Operation::Deref {
                size: 8,
                space: false,
                ..
            },
        ] => Some(CfaForm::Deref(*register, *offset, 0)),
        [
            Operation::RegisterOffset {
                register, offset, ..
            },
            Operation::Deref {
                size: 8,
                space: false,
                ..
            },
            Operation::PlusConstant { value },
        ] => Some(CfaForm::Deref(*register, *offset, *value)),
        _ => None,
    }
}

/// The offset in an expression that is just "rbp + offset".
pub(crate) fn rbp_offset(bytes: &[u8]) -> Option<i64> {
    let (found, count) = operations(bytes)?;
    match &found[..count] {
        [
            Operation::RegisterOffset {
                register: RBP,
                offset,
                ..
            },
        ] => Some(*offset),
        _ => None,
    }
}
