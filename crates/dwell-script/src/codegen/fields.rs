//! How values lie in records and keys.
use crate::schema::{Field, FieldKind};
use crate::types::{Type, TypeId, Types};

/// Sizes that options decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Room for a string, its zero included; a multiple of 8.
    pub(super) string: u32,
    /// The most bytes of a string, its zero included: `strsize`.
    pub(super) most: u32,
}

impl Sizes {
    pub(super) fn new(strsize: u32) -> Self {
        let most = strsize.max(1);
        Sizes {
            string: most.next_multiple_of(8).max(LEAST_ROOM),
            most,
        }
    }
}

/// An address of the internet as text fits into any room.
const LEAST_ROOM: u32 = 16;

/// Bytes of a type's values.
pub(super) fn size_of(types: &Types, sizes: Sizes, ty: TypeId) -> u32 {
    match types.actual(ty) {
        Type::Int { size, .. } | Type::Float { size, .. } | Type::Enum { size, .. } => {
            u32::from(*size)
        }
        Type::Array { of, count } => size_of(types, sizes, *of).saturating_mul(*count),
        Type::Record(record) => record.size,
        Type::String => sizes.string,
        Type::Stack { user, frames } => 8 * (u32::from(*frames) + u32::from(*user)),
        Type::Address { user, .. } => 8 + 8 * u32::from(*user),
        Type::Void | Type::Incomplete { .. } => 0,
        Type::Pointer(_) | Type::Function | Type::Typedef { .. } => 8,
    }
}

/// What the printer is told of a type's values.
pub(super) fn kind_of(types: &Types, ty: TypeId) -> FieldKind {
    match types.actual(ty) {
        Type::Int { signed, .. } | Type::Enum { signed, .. } => FieldKind::Int { signed: *signed },
        Type::Pointer(_) | Type::Function => FieldKind::Pointer,
        Type::String => FieldKind::String,
        Type::Stack { user: false, .. } => FieldKind::KernelStack,
        Type::Stack { user: true, .. } => FieldKind::UserStack { strings: 0 },
        Type::Address { user: false, part } => FieldKind::KernelAddress(*part),
        Type::Address { user: true, part } => FieldKind::UserAddress(*part),
        _ => FieldKind::Bytes,
    }
}

/// Whether a type's values are strings.
pub(super) fn is_string(types: &Types, ty: TypeId) -> bool {
    *types.actual(ty) == Type::String
}

/// Whether values are computed with in a register; all others lie in memory.
pub(super) fn is_scalar(types: &Types, ty: TypeId) -> bool {
    let actual = types.actual(ty);
    matches!(
        actual,
        Type::Int { .. }
            | Type::Enum { .. }
            | Type::Pointer(_)
            | Type::Function
            | Type::Float { size: ..=8, .. }
    )
}

/// Lays fields out one behind the other.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// Bytes so far.
    pub(super) size: u32,
}

impl Row {
    pub(super) fn field(&mut self, types: &Types, sizes: Sizes, ty: TypeId) -> Field {
        let size = size_of(types, sizes, ty);
        self.place(size, kind_of(types, ty))
    }

    pub(super) fn place(&mut self, size: u32, kind: FieldKind) -> Field {
        let alignment = if matches!(size, 1 | 2 | 4) { size } else { 8 };
        let offset = self.size.next_multiple_of(alignment);
        self.size = offset + size;
        Field { offset, size, kind }
    }
}

/// The fields of a key.
pub(super) fn key_fields(types: &Types, sizes: Sizes, keys: &[TypeId]) -> (Vec<Field>, u32) {
    let mut row = Row::default();
    let fields = keys.iter().map(|ty| row.field(types, sizes, *ty)).collect();
    (fields, row.size.next_multiple_of(8))
}

/// Bytes of a key, a multiple of 8.
pub(super) fn key_size(types: &Types, sizes: Sizes, keys: &[TypeId]) -> u32 {
    key_fields(types, sizes, keys).1
}
