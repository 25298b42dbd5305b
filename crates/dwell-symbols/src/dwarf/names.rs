//! Names of functions, which may stand at another entry, in another unit, or in a file shared by
//! several.
use std::collections::HashMap;
use std::rc::Rc;

use gimli::{AttributeValue, DebugInfoOffset, UnitOffset};

use super::{Dwarf, Name, Slice, Unit};

/// Longest chain of references from a function to its name; compilers need three.
const MAX_HOPS: usize = 16;
/// Units kept because names were looked up in them.
const MAX_KEPT: usize = 32;

/// Finds names, keeping the units they were last found in.
pub(super) struct Names<'u, 'd> {
    own: Foreign<'d>,
    /// Of the shared file.
    shared: Option<Foreign<'d>>,
    own_dwarf: &'u Dwarf<'d>,
}

/// The units of one file that are referred to from other units.
struct Foreign<'d> {
    headers: Vec<DebugInfoOffset>,
    units: HashMap<DebugInfoOffset, Option<Rc<Unit<'d>>>>,
}

/// Where to look next.
enum Reference {
    Unit(UnitOffset),
    Own(DebugInfoOffset),
    Shared(DebugInfoOffset),
}

impl<'u, 'd> Names<'u, 'd> {
    /// `headers` are the offsets of all units of `dwarf`.
    pub(super) fn new(dwarf: &'u Dwarf<'d>, headers: &[DebugInfoOffset]) -> Self {
        let shared = dwarf.sup().map(|shared| Foreign::new(headers_of(shared)));
        Self {
            own: Foreign::new(headers.to_vec()),
            shared,
            own_dwarf: dwarf,
        }
    }

    /// The name of the function at `die`.
    pub(super) fn of(
        &mut self,
        dwarf: &Dwarf<'d>,
        unit: &Unit<'d>,
        die: UnitOffset,
    ) -> Option<Name> {
        let mut plain = None;
        let mut next = match look(dwarf, unit, die, &mut plain) {
            Look::Found(name) => return Some(name),
            Look::Next(next) => next,
        };
        // The unit the chain is in, once it has left the first one, and the file of that.
        let mut away: Option<(Rc<Unit<'d>>, bool)> = None;
        for _ in 0..MAX_HOPS {
            let Some(reference) = next else { break };
            let in_shared = away.as_ref().is_some_and(|(_, shared)| *shared);
            let die = match reference {
                Reference::Unit(die) => Some(die),
                Reference::Own(at) => self.enter(at, in_shared, &mut away),
                Reference::Shared(at) => self.enter(at, true, &mut away),
            };
            let Some(die) = die else { break };
            let looked = match &away {
                None => look(dwarf, unit, die, &mut plain),
                Some((unit, false)) => look(self.own_dwarf, unit, die, &mut plain),
                Some((unit, true)) => match self.own_dwarf.sup() {
                    Some(shared) => look(shared, unit, die, &mut plain),
                    None => break,
                },
            };
            match looked {
                Look::Found(name) => return Some(name),
                Look::Next(after) => next = after,
            }
        }
        plain.map(Name::Plain)
    }

    /// Goes to the unit that holds the entry at `at`; gives the entry's place in it.
    fn enter(
        &mut self,
        at: DebugInfoOffset,
        shared: bool,
        away: &mut Option<(Rc<Unit<'d>>, bool)>,
    ) -> Option<UnitOffset> {
        let (dwarf, foreign) = match shared {
            true => (self.own_dwarf.sup()?, self.shared.as_mut()?),
            false => (self.own_dwarf, &mut self.own),
        };
        let unit = foreign.unit(dwarf, at)?;
        let die = at.to_unit_offset(&unit.header)?;
        *away = Some((unit, shared));
        Some(die)
    }
}

/// What an entry says about the name.
enum Look {
    Found(Name),
    Next(Option<Reference>),
}

fn look<'d>(
    dwarf: &Dwarf<'d>,
    unit: &Unit<'d>,
    die: UnitOffset,
    plain: &mut Option<String>,
) -> Look {
    let Ok(entry) = unit.entry(die) else {
        return Look::Next(None);
    };
    let string = |value| {
        let text = dwarf.attr_string(unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    };
    let mut next = None;
    for attribute in entry.attrs() {
        match attribute.name() {
            gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                if let Some(name) = string(attribute.value()) {
                    return Look::Found(Name::Linkage(name));
                }
            }
            gimli::DW_AT_name if plain.is_none() => *plain = string(attribute.value()),
            gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                next = reference(attribute.value());
            }
            _ => {}
        }
    }
    Look::Next(next)
}

fn reference(value: AttributeValue<Slice<'_>>) -> Option<Reference> {
    match value {
        AttributeValue::UnitRef(offset) => Some(Reference::Unit(offset)),
        AttributeValue::DebugInfoRef(offset) => Some(Reference::Own(offset)),
        AttributeValue::DebugInfoRefSup(offset) => Some(Reference::Shared(offset)),
        _ => None,
    }
}

impl<'d> Foreign<'d> {
    fn new(headers: Vec<DebugInfoOffset>) -> Self {
        Self {
            headers,
            units: HashMap::new(),
        }
    }

    /// The unit that holds the entry at `at`.
    fn unit(&mut self, dwarf: &Dwarf<'d>, at: DebugInfoOffset) -> Option<Rc<Unit<'d>>> {
        let after = self.headers.partition_point(|h| h.0 <= at.0);
        let header = *self.headers.get(after.checked_sub(1)?)?;
        if self.units.len() >= MAX_KEPT && !self.units.contains_key(&header) {
            self.units.clear();
        }
        let read = || Some(Rc::new(dwarf.unit(dwarf.unit_header(header).ok()?).ok()?));
        self.units.entry(header).or_insert_with(read).clone()
    }
}

fn headers_of(dwarf: &Dwarf<'_>) -> Vec<DebugInfoOffset> {
    let mut offsets = Vec::new();
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        offsets.extend(header.debug_info_offset());
    }
    offsets
}
