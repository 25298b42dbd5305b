//! Structures, classes and unions.
use dwell_script::types::{Member, Record, Type, TypeId};
use gimli::AttributeValue;

use super::types::{Converter, Owner};
use super::{Entry, Place};

impl<'m> Converter<'_, 'm> {
    /// The type of a structure, its members read later unless nobody could ask for them by a name of its own.
    pub(super) fn record(&mut self, entry: &Entry<'_, 'm>) -> TypeId {
        let (keyword, name) = (keyword(entry), self.full_name(entry));
        let place = (self.module, entry.place);
        if name.is_empty() {
            return self.record_apart(keyword, entry);
        }
        let is_declared = entry.flag(gimli::DW_AT_declaration);
        let size = entry.number(gimli::DW_AT_byte_size).unwrap_or(0);
        let place = (!is_declared).then_some(place);
        let key = (keyword, name.clone());
        let Some(owner) = self.converted.owners.get(&key).copied() else {
            let id = self.types.add(Type::Incomplete { keyword, name });
            self.converted.owners.insert(key, Owner { id, place, size });
            if let Some(place) = place {
                self.converted.pending.insert(id, place);
            }
            return id;
        };
        match (place, owner.place) {
            // The definition of what was only declared.
            (Some(place), None) => {
                let owner = Owner {
                    place: Some(place),
                    size,
                    ..owner
                };
                self.converted.owners.insert(key, owner);
                self.converted.pending.insert(owner.id, place);
                owner.id
            }
            (Some(_), Some(known)) if !self.is_same(entry, known, owner.size) => {
                self.record_apart(keyword, entry)
            }
            // The same again, in a module that can complete it.
            (Some(place), Some(_)) if self.converted.pending.contains_key(&owner.id) => {
                self.converted.pending.insert(owner.id, place);
                owner.id
            }
            _ => owner.id,
        }
    }

    /// A structure that its name does not tell from all others.
    fn record_apart(&mut self, keyword: &'static str, entry: &Entry<'_, 'm>) -> TypeId {
        // No tag of a program has a line feed.
        let unique = format!("\n{} {:?}", self.module, entry.place);
        let name = unique.into();
        let id = self.types.add(Type::Incomplete { keyword, name });
        self.converted.known.insert((self.module, entry.place), id);
        self.define(id, entry.place);
        id
    }

    /// Whether an entry and the one that its name is known by are the same structure: units repeat what they share.
    fn is_same(&self, entry: &Entry<'_, 'm>, known: (usize, Place), size: u64) -> bool {
        if entry.number(gimli::DW_AT_byte_size).unwrap_or(0) != size {
            return false;
        }
        if known.0 != self.module {
            return true;
        }
        let members = |entry: &Entry<'_, 'm>| -> Vec<_> {
            let children = entry.below(|depth, tag| depth == 1 && tag == gimli::DW_TAG_member);
            children
                .iter()
                .map(|member| (member.name(), offset_bits(member)))
                .collect()
        };
        let known = self.debug.entry(known.1);
        known.is_some_and(|known| known.place == entry.place || members(&known) == members(entry))
    }

    /// Makes a declared structure a whole one.
    pub(super) fn define(&mut self, id: TypeId, place: Place) {
        let Some(entry) = self.debug.entry(place) else {
            return;
        };
        let record = Record {
            keyword: keyword(&entry),
            name: self.full_name(&entry),
            size: entry
                .number(gimli::DW_AT_byte_size)
                .and_then(|size| u32::try_from(size).ok())
                .unwrap_or(0),
            members: self.members(&entry),
        };
        self.types.complete(id, Type::Record(record));
    }

    fn members(&mut self, entry: &Entry<'_, 'm>) -> Vec<Member> {
        let is_member = |tag| matches!(tag, gimli::DW_TAG_member | gimli::DW_TAG_inheritance);
        let children = entry.below(|depth, tag| depth == 1 && is_member(tag));
        let mut members = Vec::new();
        for child in &children {
            // Static members lie elsewhere; virtual bases where the object's own tables say.
            let is_static =
                child.flag(gimli::DW_AT_external) || child.flag(gimli::DW_AT_declaration);
            let (Some(offset_bits), Some(place)) =
                (offset_bits(child), child.place_of(gimli::DW_AT_type))
            else {
                continue;
            };
            if is_static {
                continue;
            }
            let is_base = child.tag() == gimli::DW_TAG_inheritance;
            let name = child.name().filter(|_| !is_base).unwrap_or_default();
            let bits = child.number(gimli::DW_AT_bit_size);
            members.push(Member {
                name: name.into(),
                ty: self.complete_type(place),
                offset_bits,
                bits: bits.and_then(|bits| u8::try_from(bits).ok()),
            });
        }
        members
    }
}

fn keyword(entry: &Entry<'_, '_>) -> &'static str {
    match entry.tag() {
        gimli::DW_TAG_union_type => "union",
        gimli::DW_TAG_class_type => "class",
        _ => "struct",
    }
}

/// Where a member begins, in bits from the start of its structure.
fn offset_bits(member: &Entry<'_, '_>) -> Option<u32> {
    let bytes = match member.value(gimli::DW_AT_data_member_location) {
        Some(AttributeValue::Exprloc(_)) => return None,
        Some(value) => value.udata_value()?,
        None => 0,
    };
    let bits = match (
        member.number(gimli::DW_AT_data_bit_offset),
        member.signed(gimli::DW_AT_bit_offset),
    ) {
        (Some(bits), _) => bits,
        // DWARF 3 counts from the most significant bit of the integer that holds them.
        (None, Some(from_top)) => {
            let own = member.entry_of(gimli::DW_AT_type)?;
            let holder = member
                .number(gimli::DW_AT_byte_size)
                .or_else(|| own.number(gimli::DW_AT_byte_size))?;
            let width = member.number(gimli::DW_AT_bit_size)? as i64;
            u64::try_from((holder as i64) * 8 - from_top - width).ok()?
        }
        (None, None) => 0,
    };
    u32::try_from(bytes.checked_mul(8)?.checked_add(bits)?).ok()
}
