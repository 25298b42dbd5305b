//! An entry and its attributes.
use gimli::{AttributeValue, DebuggingInformationEntry, DwAt, DwTag, UnitOffset};

use super::{Debug, Place, Slice, Unit};

/// Entries of one parent that are looked at: more than any program has.
const MAX_CHILDREN: usize = 1 << 20;

/// An entry of the debug information.
pub(crate) struct Entry<'d, 'm> {
    pub(super) debug: &'d Debug<'m>,
    pub(super) unit: &'d Unit<'m>,
    pub(crate) place: Place,
    die: DebuggingInformationEntry<Slice<'m>>,
}

impl<'d, 'm> Entry<'d, 'm> {
    pub(super) fn read(debug: &'d Debug<'m>, place: Place) -> Option<Entry<'d, 'm>> {
        let unit = debug.unit(place.shared, place.unit)?;
        let die = unit.entry(UnitOffset(place.offset)).ok()?;
        Some(Entry {
            debug,
            unit,
            place,
            die,
        })
    }

    pub(crate) fn tag(&self) -> DwTag {
        self.die.tag()
    }

    pub(crate) fn value(&self, name: DwAt) -> Option<AttributeValue<Slice<'m>>> {
        self.die.attr_value(name)
    }

    pub(crate) fn flag(&self, name: DwAt) -> bool {
        matches!(self.value(name), Some(AttributeValue::Flag(true)))
    }

    pub(crate) fn number(&self, name: DwAt) -> Option<u64> {
        self.value(name)?.udata_value()
    }

    /// A constant that may be negative: only forms with a sign are taken to have one.
    pub(crate) fn signed(&self, name: DwAt) -> Option<i64> {
        match self.value(name)? {
            AttributeValue::Sdata(value) => Some(value),
            AttributeValue::Data1(value) => Some(value.into()),
            AttributeValue::Data2(value) => Some(value.into()),
            AttributeValue::Data4(value) => Some(value.into()),
            AttributeValue::Data8(value) => Some(value as i64),
            value => value.udata_value().map(|value| value as i64),
        }
    }

    pub(crate) fn text(&self, name: DwAt) -> Option<&'m str> {
        let dwarf = self.debug.dwarf(self.place.shared);
        let text = dwarf.attr_string(self.unit, self.value(name)?).ok()?;
        std::str::from_utf8(text.slice()).ok()
    }

    pub(crate) fn name(&self) -> Option<&'m str> {
        self.text(gimli::DW_AT_name)
    }

    /// The place of the entry that an attribute names.
    pub(crate) fn place_of(&self, name: DwAt) -> Option<Place> {
        let Place { shared, unit, .. } = self.place;
        let in_section = |shared, offset| {
            let (unit, offset) = self.debug.units(shared).containing(offset)?;
            Some(Place {
                shared,
                unit,
                offset,
            })
        };
        match self.value(name)? {
            AttributeValue::UnitRef(offset) => Some(Place {
                shared,
                unit,
                offset: offset.0,
            }),
            AttributeValue::DebugInfoRef(offset) => in_section(shared, offset.0),
            AttributeValue::DebugInfoRefSup(offset) => in_section(true, offset.0),
            AttributeValue::DebugTypesRef(signature) => {
                let known = &self.debug.units(shared).signatures;
                let (unit, offset) = *known.get(&signature.0)?;
                Some(Place {
                    shared,
                    unit,
                    offset: offset.0,
                })
            }
            _ => None,
        }
    }

    /// The entry that an attribute names.
    pub(crate) fn entry_of(&self, name: DwAt) -> Option<Entry<'d, 'm>> {
        self.debug.entry(self.place_of(name)?)
    }

    /// An attribute of this entry, or of the one that it completes.
    pub(crate) fn inherited<R>(&self, get: impl Fn(&Entry<'d, 'm>) -> Option<R>) -> Option<R> {
        let own = get(self);
        if own.is_some() {
            return own;
        }
        let more = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin];
        let mut at = more.into_iter().find_map(|name| self.entry_of(name))?;
        for _ in 0..8 {
            let found = get(&at);
            if found.is_some() {
                return found;
            }
            at = more.into_iter().find_map(|name| at.entry_of(name))?;
        }
        None
    }

    /// The entries right below this one.
    pub(crate) fn children(&self) -> Vec<Entry<'d, 'm>> {
        self.below(|depth, _| depth == 1)
    }

    /// Entries below this one: those that are wanted, by their depth and tag.
    pub(crate) fn below(&self, wanted: impl Fn(isize, DwTag) -> bool) -> Vec<Entry<'d, 'm>> {
        let mut found = Vec::new();
        // Damage ends the walk; what was found before it stands.
        let _ = self.walk(wanted, &mut found);
        found
    }

    fn walk(
        &self,
        wanted: impl Fn(isize, DwTag) -> bool,
        found: &mut Vec<Entry<'d, 'm>>,
    ) -> gimli::Result<()> {
        let mut entries = self.unit.entries_raw(Some(UnitOffset(self.place.offset)))?;
        if !self.die.has_children() {
            return Ok(());
        }
        while !entries.is_empty() && found.len() < MAX_CHILDREN {
            let (at, depth) = (entries.next_offset(), entries.next_depth());
            if at.0 != self.place.offset && depth <= 0 {
                return Ok(());
            }
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            entries.skip_attributes(abbreviation.attributes())?;
            if at.0 != self.place.offset && wanted(depth, abbreviation.tag()) {
                let place = Place {
                    offset: at.0,
                    ..self.place
                };
                found.extend(self.debug.entry(place));
            }
        }
        Ok(())
    }
}
