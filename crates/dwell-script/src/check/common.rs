//! The types that the language itself names.

use crate::builtins::types::{INTEGERS, TYPEDEFS};
use crate::types::{Type, TypeId, Types};

/// Types that are needed at every turn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    pub void: TypeId,
    pub void_pointer: TypeId,
    pub char: TypeId,
    pub int: TypeId,
    pub uint: TypeId,
    pub long: TypeId,
    pub ulong: TypeId,
    pub long_long: TypeId,
    pub ulong_long: TypeId,
    pub int64: TypeId,
    pub uint64: TypeId,
    pub size: TypeId,
    pub difference: TypeId,
    pub string: TypeId,
}

impl Common {
    pub fn new(types: &mut Types) -> Self {
        let mut named = |name| type_of_name(types, name).expect("the tables name it");
        let mut common = Common {
            void: named("void"),
            void_pointer: named("void"),
            char: named("char"),
            int: named("int"),
            uint: named("unsigned int"),
            long: named("long"),
            ulong: named("unsigned long"),
            long_long: named("long long"),
            ulong_long: named("unsigned long long"),
            int64: named("int64_t"),
            uint64: named("uint64_t"),
            size: named("size_t"),
            difference: named("ptrdiff_t"),
            string: named("string"),
        };
        common.void_pointer = types.add(Type::Pointer(common.void));
        common
    }
}

/// A type of C or D by its name.
pub(crate) fn type_of_name(types: &mut Types, name: &str) -> Option<TypeId> {
    if let Some((name, size, signed)) = INTEGERS.iter().find(|(known, ..)| *known == name) {
        return Some(types.add(Type::Int {
            name: (*name).into(),
            size: *size,
            signed: *signed,
        }));
    }
    let float = |size| Type::Float {
        name: name.into(),
        size,
    };
    let ty = match name {
        "void" => Type::Void,
        "string" => Type::String,
        "float" => float(4),
        "double" => float(8),
        "long double" => float(16),
        _ => {
            let (_, base) = TYPEDEFS.iter().find(|(known, _)| *known == name)?;
            let to = type_of_name(types, base)?;
            Type::Typedef {
                name: name.into(),
                to,
            }
        }
    };
    Some(types.add(ty))
}
