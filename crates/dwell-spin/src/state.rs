//! Registers and stack slots at a point of the loop.
use crate::depends::{Base, INNER, Kind, Locations, Value, mix};
use iced_x86::Register;
use std::collections::BTreeMap;

/// Number of a location: a register (0 to 15), the flags, or a stack slot.
pub(crate) type Location = u8;

pub(crate) const FLAGS: Location = 16;
const REGISTERS: usize = 17;
/// Slots are numbered from here on, up to the one below [`INNER`].
const FIRST_SLOT: Location = REGISTERS as Location;
const LAST_SLOT: Location = 126;

/// The number of a general register, whatever part of it is named.
pub(crate) fn location(register: Register) -> Option<Location> {
    register
        .is_gpr()
        .then(|| register.full_register().number() as Location)
}

/// What is in all locations when a turn begins, and the numbers of slots.
#[derive(Default)]
pub(crate) struct Entry {
    /// Locations that a turn changes.
    pub changing: Locations,
    /// Whether rbp points to the frame.
    frame_pointer: bool,
    slots: BTreeMap<(u8, i64), Location>,
    /// The read that stands for a slot which a turn does not change.
    pub slot_reads: BTreeMap<Location, u8>,
}

impl Entry {
    pub fn new(frame_pointer: bool) -> Self {
        Entry {
            frame_pointer,
            ..Entry::default()
        }
    }

    /// The number of a slot; none when there are too many.
    pub fn slot(&mut self, base: Base, distance: i64) -> Option<Location> {
        let next = FIRST_SLOT + self.slots.len().min(usize::from(LAST_SLOT)) as Location;
        let known = self.slots.get(&(base as u8, distance)).copied();
        let number = known.or((next <= LAST_SLOT).then_some(next))?;
        self.slots.insert((base as u8, distance), number);
        Some(number)
    }

    pub fn value(&self, location: Location) -> Value {
        let carried = self.changing & (1 << location);
        let plain = Value {
            carried,
            reads: self
                .slot_reads
                .get(&location)
                .filter(|_| carried == 0)
                .map_or(0, |r| 1 << r),
            ..Value::same(u64::from(location))
        };
        let based = |base| match carried {
            0 => Value::stack(base, 0),
            _ => plain,
        };
        match location {
            4 => based(Base::StackPointer),
            5 if self.frame_pointer => based(Base::FramePointer),
            _ => plain,
        }
    }
}

/// The contents of all locations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    registers: [Value; REGISTERS],
    /// Slots that were written in this turn.
    slots: BTreeMap<Location, Value>,
}

impl State {
    pub fn new(entry: &Entry) -> Self {
        State {
            registers: std::array::from_fn(|i| entry.value(i as Location)),
            slots: BTreeMap::new(),
        }
    }

    pub fn get(&self, location: Location, entry: &Entry) -> Value {
        match self.registers.get(usize::from(location)) {
            Some(value) => *value,
            None => self
                .slots
                .get(&location)
                .copied()
                .unwrap_or_else(|| entry.value(location)),
        }
    }

    pub fn set(&mut self, location: Location, value: Value) {
        match self.registers.get_mut(usize::from(location)) {
            Some(register) => *register = value,
            None => drop(self.slots.insert(location, value)),
        }
    }

    /// Locations that are not as they were when the turn began.
    pub fn changed(&self, entry: &Entry) -> Locations {
        let all = (0..REGISTERS as Location).chain(self.slots.keys().copied());
        all.filter(|&l| self.get(l, entry).term != entry.value(l).term)
            .fold(0, |set, l| set | 1 << l)
    }

    /// Takes in what another way to `at` brings; true when that changes anything. `deciding` is what
    /// the ways were chosen by: two constants that meet stand for it.
    pub fn join(&mut self, other: &State, at: Meeting, deciding: Value, entry: &Entry) -> bool {
        let slots: Vec<Location> = self
            .slots
            .keys()
            .chain(other.slots.keys())
            .copied()
            .collect();
        let mut changed = false;
        for location in (0..REGISTERS as Location).chain(slots) {
            let (old, new) = (self.get(location, entry), other.get(location, entry));
            let met = meet(old, new, location, at, deciding);
            if met != old {
                self.set(location, met);
                changed = true;
            }
        }
        changed
    }
}

/// Where ways meet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meeting {
    /// Tells it from other places.
    pub place: u64,
    /// A loop inside begins here: what differs changes from turn to turn of that one.
    pub inner: bool,
}

fn meet(old: Value, new: Value, location: Location, at: Meeting, deciding: Value) -> Value {
    if old == new {
        return old;
    }
    let mut met = Value {
        kind: Kind::Plain,
        reads: old.reads | new.reads,
        carried: old.carried | new.carried,
        term: mix(mix(5, at.place), u64::from(location)),
    };
    if old.is_constant() && new.is_constant() {
        met.reads |= deciding.reads;
        met.carried |= deciding.carried;
    }
    if at.inner {
        met.carried |= INNER;
    }
    met
}
