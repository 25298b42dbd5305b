//! Structures and arrays as wholes: from memory and variables into others, into records and keys.
use super::error::CodeError;
use super::frame::Location;
use super::place::Prepared;
use super::program::Maker;
use crate::typed::{Expr, ExprKind, Place};
use dwell_abi::program::instruction::Alu;

impl Maker<'_, '_> {
    /// A whole structure or array to memory of the firing, which is zero so far.
    pub(super) fn bytes(&mut self, e: &Expr, at: Location, size: u32) -> Result<(), CodeError> {
        if let ExprKind::Int(0) = e.kind {
            return Ok(());
        }
        let ExprKind::Read(place) = &e.kind else {
            return Err(CodeError::unsupported("a computed structure", e.span));
        };
        let prepared = self.prepare(place, e.span)?;
        if let Some(offset) = self.find_kept(&prepared) {
            self.copy_if_found(at, offset, size);
            return Ok(());
        }
        match prepared {
            Prepared::Here(from) => self.copy_bytes(at, from, size),
            Prepared::Outside(address, _) => {
                self.load_word(0, address);
                self.read_bytes(at, size)?;
            }
            _ => return Err(CodeError::unsupported("a number as a structure", e.span)),
        }
        Ok(())
    }

    /// Assigns a structure to a variable, an element, or a part of one.
    pub(super) fn assign_bytes(&mut self, place: &Place, value: &Expr) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let size = self.size_of(place.ty);
        let to = self.prepare(place, value.span)?;
        let from = self.frame.buffer(size)?;
        self.zero(from, size);
        self.bytes(value, from, size)?;
        match to {
            Prepared::Here(at) => self.copy_bytes(at, from, size),
            Prepared::Thread(offset) => self.copy_to_thread(offset, from, size),
            Prepared::Element { store, key } if matches!(value.kind, ExprKind::Int(0)) => {
                self.delete(store, key);
            }
            Prepared::Element { store, key } => self.update(store, key, from),
            Prepared::ElementPart { store, key, offset } => {
                self.copy_to_element(store, key, offset, (from, size));
            }
            Prepared::Small(_)
            | Prepared::SmallThread(_)
            | Prepared::Outside(..)
            | Prepared::Bits { .. } => {
                let what = "assigning a structure to memory";
                return Err(CodeError::unsupported(what, value.span));
            }
        }
        self.frame.release(mark);
        Ok(())
    }

    /// Copies so many bytes, not more: what follows may be another member. Words on the stack are aligned.
    fn copy_bytes(&mut self, to: Location, from: Location, size: u32) {
        let is_aligned = |at| !matches!(at, Location::Stack(at) if at % 8 != 0);
        if size.is_multiple_of(8) && is_aligned(to) && is_aligned(from) {
            return self.copy(to, from, size);
        }
        self.address(1, to);
        self.address(3, from);
        self.copy_call(size);
    }

    /// Copies bytes to a place in the thread's memory.
    pub(super) fn copy_to_thread(&mut self, offset: u32, from: Location, size: u32) {
        let none = self.code.label();
        self.whole_thread(none);
        self.copy_to_found(offset, from, size);
        self.code.place(none);
    }

    /// Copies bytes to a part of an element.
    pub(super) fn copy_to_element(
        &mut self,
        store: u32,
        key: Location,
        offset: u32,
        (from, size): (Location, u32),
    ) {
        let none = self.code.label();
        self.whole_element(store, key, none);
        self.copy_to_found(offset, from, size);
        self.code.place(none);
    }

    /// Copies bytes to a distance from the address in register 0.
    fn copy_to_found(&mut self, offset: u32, from: Location, size: u32) {
        self.code.mov(1, 0);
        self.code.alu_imm(Alu::Add, 1, offset as i32);
        self.address(3, from);
        self.copy_call(size);
    }
}
