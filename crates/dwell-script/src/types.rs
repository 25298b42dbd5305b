//! Types of D expressions: C's, as D's own declarations, the target's DWARF or the kernel's BTF give them, and
//! D's `string`.

use std::collections::HashMap;

use crate::schema::AddressPart;

/// One type of a [`Types`] table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub u32);

/// What a type is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Type {
    /// `void`.
    Void,
    /// An integer, a character or a truth value. `size` in bytes: 1, 2, 4 or 8.
    Int {
        /// As C writes it: `unsigned int`.
        name: Box<str>,
        /// Bytes.
        size: u8,
        /// Whether the value is sign-extended when it is widened.
        signed: bool,
    },
    /// A floating-point number; only carried and printed, as D has no operators for it.
    Float {
        /// As C writes it.
        name: Box<str>,
        /// Bytes.
        size: u8,
    },
    /// A pointer. Whose memory it points to is told by its value: the kernel's half of the address space is read as
    /// the kernel's (and as ours: `alloca`, `copyin`), the other half as the target's.
    Pointer(TypeId),
    /// An array of so many elements.
    Array {
        /// The elements' type.
        of: TypeId,
        /// Their number; 0 for a flexible array.
        count: u32,
    },
    /// A structure, union or class with its members in the order of the declaration.
    Record(Record),
    /// An enumeration.
    Enum {
        /// The tag, empty if there is none.
        name: Box<str>,
        /// Bytes.
        size: u8,
        /// Whether values are sign-extended.
        signed: bool,
        /// The enumerators.
        values: Vec<(Box<str>, i64)>,
    },
    /// Another name.
    Typedef {
        /// The name.
        name: Box<str>,
        /// What it stands for.
        to: TypeId,
    },
    /// A function; only ever pointed to.
    Function,
    /// D's `string`: bytes up to a zero, at most the option `strsize` of them.
    String,
    /// What `stack()` and `ustack()` give as a key or a value.
    Stack {
        /// The stack of the user side.
        user: bool,
        /// The greatest number of frames.
        frames: u16,
    },
    /// What `sym()`, `usym()` and the like give: an address of 8 bytes (after the process' id in 8 bytes, for `user`)
    /// that is printed by name.
    Address {
        /// An address of the process that fired.
        user: bool,
        /// What is printed of it.
        part: AddressPart,
    },
    /// Not declared any further.
    Incomplete {
        /// `struct`, `union` or `enum`.
        keyword: &'static str,
        /// The tag.
        name: Box<str>,
    },
}

/// A structure, union or class.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Record {
    /// `struct`, `union` or `class`.
    pub keyword: &'static str,
    /// The tag, empty if there is none.
    pub name: Box<str>,
    /// Bytes.
    pub size: u32,
    /// The members; base classes are members without a name.
    pub members: Vec<Member>,
}

/// A member of a [`Record`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Member {
    /// The name, empty for an anonymous structure or union.
    pub name: Box<str>,
    /// Its type.
    pub ty: TypeId,
    /// Distance from the start of the record, in bits.
    pub offset_bits: u32,
    /// Width in bits of a bit-field.
    pub bits: Option<u8>,
}

/// All types of a script.
#[derive(Debug, Clone, Default)]
pub struct Types {
    types: Vec<Type>,
    shared: HashMap<Type, TypeId>,
}

impl Types {
    /// Adds a type; equal ones share an id, except records and enumerations, which are what they are by declaration.
    pub fn add(&mut self, ty: Type) -> TypeId {
        let shared = !matches!(ty, Type::Record(_) | Type::Enum { .. });
        if let Some(known) = self.shared.get(&ty).filter(|_| shared) {
            return *known;
        }
        let id = TypeId(self.types.len() as u32);
        if shared {
            self.shared.insert(ty.clone(), id);
        }
        self.types.push(ty);
        id
    }

    /// Replaces a type that was [`Type::Incomplete`] when it was added.
    pub fn complete(&mut self, id: TypeId, ty: Type) {
        self.shared.remove(&self.types[id.0 as usize]);
        self.types[id.0 as usize] = ty;
    }

    /// The type as it was declared.
    pub fn get(&self, id: TypeId) -> &Type {
        &self.types[id.0 as usize]
    }

    /// The type behind any typedefs.
    pub fn resolved(&self, mut id: TypeId) -> TypeId {
        while let Type::Typedef { to, .. } = self.get(id) {
            id = *to;
        }
        id
    }

    /// What the type behind any typedefs is.
    pub fn actual(&self, id: TypeId) -> &Type {
        self.get(self.resolved(id))
    }
}
