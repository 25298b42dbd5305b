//! The memory of one firing: buffers, temporary values, `this->` variables. It is the program's stack if that is
//! large enough, else a slot that the program claims for itself: a processor's own memory would not do, since a
//! thread may lose the processor in the middle of a program, and interrupts run programs of their own.
use super::error::CodeError;
use dwell_abi::program::STACK_SIZE;

/// Slots that programs claim; a firing that finds none is dropped and counted.
pub const SLOTS: u32 = 64;
/// Bytes of a slot.
pub const SLOT_SIZE: u32 = 32 << 10;
/// The most bytes that a size may be that is computed where the probe fires.
pub(super) const COMPUTED_MOST: u32 = 4096;
/// Where the memory ends that is kept. Behind it so much is free that the verifier sees: from any place before, that
/// many bytes may be written.
const KEPT_END: u32 = SLOT_SIZE - COMPUTED_MOST;
/// Bytes at the start of a slot: whether it is claimed.
const SLOT_HEADER: u32 = 8;

/// Where bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Location {
    /// From register 10.
    Stack(i32),
    /// From register 9.
    Slot(i32),
    /// In [`super::layout::MEMORY`].
    Memory(u32),
}

impl Location {
    pub(super) fn plus(self, bytes: u32) -> Location {
        match self {
            Location::Stack(at) => Location::Stack(at + bytes as i32),
            Location::Slot(at) => Location::Slot(at + bytes as i32),
            Location::Memory(at) => Location::Memory(at + bytes),
        }
    }
}

/// How much is in use; parts are given back in the reverse order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    stack: u32,
    slot: u32,
}

/// The allocation of a firing's memory.
#[derive(Debug)]
pub(super) struct Frame {
    used: Mark,
    /// The most of the stack that was in use.
    most_stack: u32,
    /// Where what is kept begins: it is taken from the slot's end.
    kept: u32,
    /// Buffers lie in a slot.
    pub(super) has_slot: bool,
}

impl Frame {
    pub(super) fn new(has_slot: bool) -> Self {
        Frame {
            used: Mark {
                stack: 0,
                slot: SLOT_HEADER,
            },
            most_stack: 0,
            kept: KEPT_END,
            has_slot,
        }
    }

    /// A value of 8 bytes, on the stack in any case: what is spilled there keeps its meaning for the verifier.
    pub(super) fn temporary(&mut self) -> Result<Location, CodeError> {
        self.on_stack(8)
    }

    /// So many bytes of the stack, from register 10.
    pub(super) fn room(&mut self, size: u32) -> Result<i16, CodeError> {
        match self.on_stack(size)? {
            Location::Stack(at) => i16::try_from(at).map_err(|_| CodeError::TooDeep),
            _ => Err(CodeError::TooDeep),
        }
    }

    /// Memory of any size, aligned to 8.
    pub(super) fn buffer(&mut self, size: u32) -> Result<Location, CodeError> {
        let size = size.next_multiple_of(8);
        if !self.has_slot {
            return self.on_stack(size);
        }
        let at = self.used.slot;
        self.used.slot += size;
        (self.used.slot <= self.kept)
            .then_some(Location::Slot(at as i32))
            .ok_or(CodeError::TooDeep)
    }

    /// Memory in the slot that is never given back.
    pub(super) fn kept(&mut self, size: u32) -> Result<Location, CodeError> {
        self.kept = self
            .kept
            .checked_sub(size.next_multiple_of(8))
            .ok_or(CodeError::TooDeep)?;
        let fits = self.kept >= self.used.slot;
        fits.then_some(Location::Slot(self.kept as i32))
            .ok_or(CodeError::TooDeep)
    }

    /// Where the memory that is kept lies in the slot, if there is a slot.
    pub(super) fn kept_range(&self) -> Option<(u32, u32)> {
        self.has_slot.then_some((self.kept, KEPT_END))
    }

    fn on_stack(&mut self, size: u32) -> Result<Location, CodeError> {
        self.used.stack += size;
        self.most_stack = self.most_stack.max(self.used.stack);
        let fits = self.used.stack <= STACK_SIZE as u32;
        fits.then_some(Location::Stack(-(self.used.stack as i32)))
            .ok_or(CodeError::TooDeep)
    }

    /// The most bytes of the stack that were in use at a time.
    pub(super) fn most_stack(&self) -> u32 {
        self.most_stack
    }

    pub(super) fn mark(&self) -> Mark {
        self.used
    }

    pub(super) fn release(&mut self, mark: Mark) {
        self.used = mark;
    }
}
