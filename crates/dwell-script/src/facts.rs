//! What follows from a type: its size, its name in C, what it may be used as.

use crate::types::{Type, TypeId, Types};

/// Types nest no deeper than this when they are compared or written out.
const DEPTH: u32 = 32;

impl Types {
    /// Bytes of a value; `None` for functions and what is not declared further, 0 for `void` and `string`, whose
    /// size is an option.
    pub fn size(&self, id: TypeId) -> Option<u64> {
        self.size_within(id, DEPTH)
    }

    fn size_within(&self, id: TypeId, depth: u32) -> Option<u64> {
        Some(match self.actual(id) {
            Type::Void | Type::String => 0,
            Type::Int { size, .. } | Type::Float { size, .. } | Type::Enum { size, .. } => {
                u64::from(*size)
            }
            Type::Pointer(_) => 8,
            Type::Array { of, count } => {
                let element = self.size_within(*of, depth.checked_sub(1)?)?;
                element.checked_mul(u64::from(*count))?
            }
            Type::Record(record) => u64::from(record.size),
            Type::Stack { frames, .. } => 8 * u64::from(*frames),
            Type::Address { user, .. } => {
                if *user {
                    16
                } else {
                    8
                }
            }
            Type::Function | Type::Incomplete { .. } | Type::Typedef { .. } => return None,
        })
    }

    /// Bytes that the address of a value is a multiple of.
    pub fn alignment(&self, id: TypeId) -> u64 {
        self.alignment_within(id, DEPTH)
    }

    fn alignment_within(&self, id: TypeId, depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        match self.actual(id) {
            Type::Array { of, .. } => self.alignment_within(*of, depth - 1),
            Type::Record(record) => {
                let members = record.members.iter();
                let each = members.map(|member| self.alignment_within(member.ty, depth - 1));
                each.max().unwrap_or(1)
            }
            Type::Stack { .. } => 8,
            _ => self.size(id).unwrap_or(1).clamp(1, 16),
        }
    }

    /// An integer, an enumeration included.
    pub fn is_int(&self, id: TypeId) -> bool {
        matches!(self.actual(id), Type::Int { .. } | Type::Enum { .. })
    }

    /// Whether an integer's value is sign-extended.
    pub fn is_signed(&self, id: TypeId) -> bool {
        match self.actual(id) {
            Type::Int { signed, .. } | Type::Enum { signed, .. } => *signed,
            _ => false,
        }
    }

    /// An integer or a floating-point number.
    pub fn is_arithmetic(&self, id: TypeId) -> bool {
        self.is_int(id) || matches!(self.actual(id), Type::Float { .. })
    }

    /// A number or a pointer.
    pub fn is_scalar(&self, id: TypeId) -> bool {
        self.is_arithmetic(id) || matches!(self.actual(id), Type::Pointer(_))
    }

    /// D's `string`.
    pub fn is_string(&self, id: TypeId) -> bool {
        matches!(self.actual(id), Type::String)
    }

    /// A character of one byte.
    pub fn is_char(&self, id: TypeId) -> bool {
        matches!(self.actual(id), Type::Int { name, size: 1, .. } if name.contains("char"))
    }

    /// A string, or a pointer to characters or an array of them, which can become one.
    pub fn is_string_like(&self, id: TypeId) -> bool {
        self.is_string(id) || self.element(id).is_some_and(|of| self.is_char(of))
    }

    /// What a pointer points to or an array is of.
    pub fn element(&self, id: TypeId) -> Option<TypeId> {
        match self.actual(id) {
            Type::Pointer(of) | Type::Array { of, .. } => Some(*of),
            _ => None,
        }
    }

    /// A pointer or an array.
    pub fn is_pointer_like(&self, id: TypeId) -> bool {
        self.element(id).is_some()
    }

    /// `void`.
    pub fn is_void(&self, id: TypeId) -> bool {
        matches!(self.actual(id), Type::Void)
    }

    /// A structure or union.
    pub fn is_record(&self, id: TypeId) -> bool {
        matches!(self.actual(id), Type::Record(_))
    }

    /// Whether two types are the same but for their names.
    pub fn compatible(&self, a: TypeId, b: TypeId) -> bool {
        self.compatible_within(a, b, DEPTH)
    }

    fn compatible_within(&self, a: TypeId, b: TypeId, depth: u32) -> bool {
        let (a, b) = (self.resolved(a), self.resolved(b));
        if a == b || depth == 0 {
            return true;
        }
        match (self.get(a), self.get(b)) {
            (
                Type::Int {
                    size: a, signed: s, ..
                },
                Type::Int {
                    size: b, signed: t, ..
                },
            ) => a == b && s == t,
            (Type::Pointer(a), Type::Pointer(b)) => self.compatible_within(*a, *b, depth - 1),
            (Type::Array { of: a, count: n }, Type::Array { of: b, count: m }) => {
                n == m && self.compatible_within(*a, *b, depth - 1)
            }
            (Type::Record(a), Type::Record(b)) => !a.name.is_empty() && a.name == b.name,
            (Type::Enum { name: a, .. }, Type::Enum { name: b, .. }) => !a.is_empty() && a == b,
            (Type::Record(record), Type::Incomplete { name, .. })
            | (Type::Incomplete { name, .. }, Type::Record(record)) => record.name == *name,
            (Type::Stack { user: a, .. }, Type::Stack { user: b, .. }) => a == b,
            (Type::Address { user: a, .. }, Type::Address { user: b, .. }) => a == b,
            (Type::Function, Type::Function) => true,
            _ => false,
        }
    }

    /// The type as C writes it: `struct stat *`.
    pub fn name(&self, id: TypeId) -> String {
        let mut suffix = String::new();
        let mut id = id;
        for _ in 0..DEPTH {
            match self.get(id) {
                Type::Pointer(to) => {
                    let array = matches!(self.get(*to), Type::Array { .. });
                    suffix = if array {
                        format!("(*{suffix})")
                    } else {
                        format!("*{suffix}")
                    };
                    id = *to;
                }
                Type::Array { of, count } => {
                    suffix = format!("{suffix}[{count}]");
                    id = *of;
                }
                _ => break,
            }
        }
        let base = self.base_name(id);
        if suffix.is_empty() {
            base
        } else {
            format!("{base} {suffix}")
        }
    }

    fn base_name(&self, id: TypeId) -> String {
        let tagged = |keyword: &str, name: &str| match name {
            "" => format!("{keyword} <anonymous>"),
            _ => format!("{keyword} {name}"),
        };
        match self.get(id) {
            Type::Void => "void".into(),
            Type::Int { name, .. } | Type::Float { name, .. } | Type::Typedef { name, .. } => {
                name.to_string()
            }
            Type::Record(record) => tagged(record.keyword, &record.name),
            Type::Enum { name, .. } => tagged("enum", name),
            Type::Incomplete { keyword, name } => tagged(keyword, name),
            Type::Function => "function".into(),
            Type::String => "string".into(),
            Type::Stack { .. } => "stack".into(),
            Type::Address { user: false, .. } => "_symaddr".into(),
            Type::Address { user: true, .. } => "_usymaddr".into(),
            Type::Pointer(_) | Type::Array { .. } => "…".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_c_writes_them() {
        let mut types = Types::default();
        let int = types.add(Type::Int {
            name: "int".into(),
            size: 4,
            signed: true,
        });
        let row = types.add(Type::Array { of: int, count: 3 });
        let rows = types.add(Type::Array { of: row, count: 2 });
        let to_row = types.add(Type::Pointer(row));
        let pointer = types.add(Type::Pointer(int));
        let twice = types.add(Type::Pointer(pointer));
        assert_eq!(types.name(rows), "int [2][3]");
        assert_eq!(types.name(to_row), "int (*)[3]");
        assert_eq!(types.name(twice), "int **");
        assert_eq!(types.size(rows), Some(24));
    }
}
