//! Types of the debug information as D's.
//!
//! What a pointer leads to is only declared at first ([`Type::Incomplete`]), and completed where it stands once it
//! is asked for: a structure of a large program leads to thousands of others.
use std::collections::HashMap;

use dwell_script::types::{Type, TypeId, Types};

use super::{Debug, Entry, Place};

/// Types that contain each other deeper than this are cut off.
const MAX_DEPTH: u32 = 64;

/// What was converted of all modules, into one [`Types`].
#[derive(Debug, Default)]
pub(crate) struct Converted {
    pub(super) known: HashMap<(usize, Place), TypeId>,
    /// Structures and unions by keyword and name.
    pub(super) owners: HashMap<(&'static str, Box<str>), Owner>,
    /// What was only declared so far, and where its definition is.
    pub(super) pending: HashMap<TypeId, (usize, Place)>,
}

/// The entry by which a tag is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) id: TypeId,
    /// None while it was only declared.
    pub(super) place: Option<(usize, Place)>,
    pub(super) size: u64,
}

impl Converted {
    /// The type of a tag, if it came by.
    pub(crate) fn tagged(&self, keyword: &'static str, name: &str) -> Option<TypeId> {
        let owner = self.owners.get(&(keyword, name.into()))?;
        Some(owner.id)
    }

    /// The module that can complete a type.
    pub(crate) fn module_of(&self, id: TypeId) -> Option<usize> {
        self.pending.get(&id).map(|(module, _)| *module)
    }
}

/// Converts types of one module.
pub(crate) struct Converter<'c, 'm> {
    pub(crate) debug: &'c Debug<'m>,
    pub(crate) module: usize,
    pub(crate) types: &'c mut Types,
    pub(crate) converted: &'c mut Converted,
    pub(super) depth: u32,
}

impl<'c, 'm> Converter<'c, 'm> {
    pub(crate) fn new(
        debug: &'c Debug<'m>,
        module: usize,
        types: &'c mut Types,
        converted: &'c mut Converted,
    ) -> Self {
        Converter {
            debug,
            module,
            types,
            converted,
            depth: 0,
        }
    }

    /// The type at a place, with its members if it is a structure.
    pub(crate) fn complete_type(&mut self, place: Place) -> TypeId {
        let id = self.declared_type(place);
        self.complete(id);
        id
    }

    /// The type of an entry, `void` without one.
    pub(crate) fn type_of(&mut self, entry: &Entry<'_, 'm>) -> TypeId {
        match entry.inherited(|entry| entry.place_of(gimli::DW_AT_type)) {
            Some(place) => self.complete_type(place),
            None => self.types.add(Type::Void),
        }
    }

    /// Gives a structure that was only declared its members; also behind typedefs and as an element of arrays.
    pub(crate) fn complete(&mut self, mut id: TypeId) {
        loop {
            id = match self.types.get(id) {
                Type::Typedef { to, .. } => *to,
                Type::Array { of, .. } => *of,
                _ => break,
            };
        }
        let pending = self.converted.pending.get(&id).copied();
        if let Some((_, place)) = pending.filter(|(module, _)| *module == self.module) {
            self.converted.pending.remove(&id);
            self.define(id, place);
        }
    }

    /// The type at a place; structures may be without their members.
    pub(super) fn declared_type(&mut self, place: Place) -> TypeId {
        if let Some(known) = self.converted.known.get(&(self.module, place)) {
            return *known;
        }
        if self.depth >= MAX_DEPTH {
            return self.types.add(Type::Void);
        }
        self.depth += 1;
        let entry = self.debug.entry(place);
        let id = entry.map(|entry| self.converted_entry(&entry));
        self.depth -= 1;
        let id = id.unwrap_or_else(|| self.types.add(Type::Void));
        self.converted.known.insert((self.module, place), id);
        id
    }

    fn converted_entry(&mut self, entry: &Entry<'_, 'm>) -> TypeId {
        let ty = match entry.tag() {
            gimli::DW_TAG_base_type => base_type(entry),
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Type::Pointer(self.referred(entry)),
            gimli::DW_TAG_typedef => Type::Typedef {
                name: self.full_name(entry),
                to: self.referred(entry),
            },
            gimli::DW_TAG_array_type => return self.array(entry),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                return self.record(entry);
            }
            gimli::DW_TAG_enumeration_type => self.enumeration(entry),
            gimli::DW_TAG_subroutine_type | gimli::DW_TAG_subprogram => Type::Function,
            gimli::DW_TAG_unspecified_type => match entry.name() {
                Some("decltype(nullptr)") => Type::Pointer(self.types.add(Type::Void)),
                _ => Type::Void,
            },
            gimli::DW_TAG_ptr_to_member_type => Type::Int {
                name: "long".into(),
                size: 8,
                signed: true,
            },
            // Qualifiers.
            _ => return self.referred(entry),
        };
        self.types.add(ty)
    }

    /// What an entry's type is, without completing it.
    fn referred(&mut self, entry: &Entry<'_, 'm>) -> TypeId {
        match entry.place_of(gimli::DW_AT_type) {
            Some(place) => self.declared_type(place),
            None => self.types.add(Type::Void),
        }
    }

    /// A name with its namespaces and classes.
    pub(super) fn full_name(&self, entry: &Entry<'_, 'm>) -> Box<str> {
        let qualified = self.debug.index().qualified(entry.place);
        qualified.or(entry.name()).unwrap_or_default().into()
    }

    /// An array of as many dimensions as it has ranges.
    fn array(&mut self, entry: &Entry<'_, 'm>) -> TypeId {
        let mut id = self.referred(entry);
        let children = entry.children();
        let ranges = children
            .iter()
            .filter(|child| child.tag() == gimli::DW_TAG_subrange_type);
        let counts: Vec<u32> = ranges.map(count).collect();
        for count in counts.into_iter().rev() {
            id = self.types.add(Type::Array { of: id, count });
        }
        id
    }

    fn enumeration(&mut self, entry: &Entry<'_, 'm>) -> Type {
        let children = entry.children();
        let values: Vec<(Box<str>, i64)> = children
            .iter()
            .filter(|child| child.tag() == gimli::DW_TAG_enumerator)
            .filter_map(|child| {
                Some((
                    child.name()?.into(),
                    child.signed(gimli::DW_AT_const_value)?,
                ))
            })
            .collect();
        let of = entry
            .place_of(gimli::DW_AT_type)
            .map(|place| self.declared_type(place));
        let signed = match of {
            Some(of) => self.types.is_signed(of),
            None => values.iter().any(|(_, value)| *value < 0),
        };
        let size = entry.number(gimli::DW_AT_byte_size).unwrap_or(4);
        let name = self.full_name(entry);
        if !matches!(size, 1 | 2 | 4 | 8) {
            let keyword = "enum";
            return Type::Incomplete { keyword, name };
        }
        Type::Enum {
            name,
            size: size as u8,
            signed,
            values,
        }
    }
}

/// The elements of a range; 0 if that is not known before the program runs.
fn count(range: &Entry<'_, '_>) -> u32 {
    let count = range.number(gimli::DW_AT_count).or_else(|| {
        let last = range.signed(gimli::DW_AT_upper_bound)?;
        let first = range.signed(gimli::DW_AT_lower_bound).unwrap_or(0);
        u64::try_from(last.checked_sub(first)?.checked_add(1)?).ok()
    });
    count
        .and_then(|count| u32::try_from(count).ok())
        .unwrap_or(0)
}

fn base_type(entry: &Entry<'_, '_>) -> Type {
    let name: Box<str> = entry.name().unwrap_or_default().into();
    let size = entry.number(gimli::DW_AT_byte_size).unwrap_or(0);
    let encoding = match entry.value(gimli::DW_AT_encoding) {
        Some(gimli::AttributeValue::Encoding(encoding)) => encoding,
        _ => gimli::DW_ATE_unsigned,
    };
    let signed = matches!(
        encoding,
        gimli::DW_ATE_signed | gimli::DW_ATE_signed_char | gimli::DW_ATE_signed_fixed
    );
    match (encoding, size) {
        (gimli::DW_ATE_float, 1..=16) => Type::Float {
            name,
            size: size as u8,
        },
        (gimli::DW_ATE_complex_float, _) => opaque(name, size),
        (_, 1 | 2 | 4 | 8) => Type::Int {
            name,
            size: size as u8,
            signed,
        },
        _ => opaque(name, size),
    }
}

/// A type that D cannot compute with (`__int128`, complex numbers): its bytes.
fn opaque(name: Box<str>, size: u64) -> Type {
    Type::Record(dwell_script::types::Record {
        keyword: "struct",
        name,
        size: u32::try_from(size).unwrap_or(0),
        members: Vec::new(),
    })
}
