//! Words and objects.
use crate::layout::Layout;
use dwell_maps::Memory;

/// The address that a word leads to, if it is that of an object.
pub(crate) fn object(word: u64) -> Option<u64> {
    // Two bits: 11 is a reference that may be cleared.
    (word & 3 == 1).then(|| word - 1)
}

/// The number that a word is, if it is one.
pub(crate) fn small(word: u64) -> Option<i32> {
    (word as u32 == 0).then_some((word >> 32) as i32)
}

/// An engine's objects.
pub(crate) struct Heap<'m, M> {
    pub(crate) memory: &'m M,
    pub(crate) layout: &'m Layout,
}

impl<M: Memory> Heap<'_, M> {
    /// A word of an object.
    pub(crate) fn field(&self, object: u64, offset: u64) -> Option<u64> {
        self.memory.word(object.checked_add(offset)?)
    }

    /// The object that a field leads to.
    pub(crate) fn object_at(&self, from: u64, offset: u64) -> Option<u64> {
        object(self.field(from, offset)?)
    }

    /// The number in a field.
    pub(crate) fn small_at(&self, from: u64, offset: u64) -> Option<i32> {
        small(self.field(from, offset)?)
    }

    /// What an object is.
    pub(crate) fn type_of(&self, object: u64) -> Option<u16> {
        let map = self.object_at(object, 0)?;
        let address = map.checked_add(self.layout.instance_type)?;
        self.memory.short(address)
    }
}
