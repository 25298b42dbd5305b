//! What stands for a number when a loop is executed on dependencies.

/// What is known of a value besides where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Constant(i64),
    /// An address in the function's own stack: a distance from where this register pointed when the
    /// turn began.
    Stack(Base, i64),
}

/// Registers that stack addresses count from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    StackPointer,
    FramePointer,
}

/// Locations that may change from turn to turn, as a set of their numbers.
pub(crate) type Locations = u128;

/// In a set of locations: changes from turn to turn of a loop inside the loop.
pub(crate) const INNER: Locations = 1 << 127;

/// Reads of memory, as a set of their numbers.
pub(crate) type Reads = u64;

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub kind: Kind,
    /// Reads of this turn that it depends on.
    pub reads: Reads,
    /// Locations whose contents at the beginning of the turn it depends on, as far as they change.
    pub carried: Locations,
    /// Equal for equal values.
    pub term: u64,
}

impl Value {
    pub const fn constant(number: i64) -> Self {
        Value {
            kind: Kind::Constant(number),
            reads: 0,
            carried: 0,
            term: mix(1, number as u64),
        }
    }

    pub fn stack(base: Base, distance: i64) -> Self {
        Value {
            kind: Kind::Stack(base, distance),
            reads: 0,
            carried: 0,
            term: mix(mix(2, base as u64), distance as u64),
        }
    }

    /// A value of which no more is known than that it is the same every turn.
    pub fn same(term: u64) -> Self {
        Value {
            kind: Kind::Plain,
            reads: 0,
            carried: 0,
            term: mix(3, term),
        }
    }

    /// What an operation makes of some values.
    pub fn made(operation: u64, of: &[Value]) -> Self {
        of.iter().fold(
            Value {
                term: mix(4, operation),
                ..Value::same(0)
            },
            |made, input| Value {
                reads: made.reads | input.reads,
                carried: made.carried | input.carried,
                term: mix(made.term, input.term),
                ..made
            },
        )
    }

    pub fn is_constant(&self) -> bool {
        matches!(self.kind, Kind::Constant(_))
    }
}

/// Two numbers to one that is hardly that of two others.
pub(crate) const fn mix(a: u64, b: u64) -> u64 {
    let sum = a.rotate_left(23) ^ b.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let sum = (sum ^ (sum >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    sum ^ (sum >> 29)
}
