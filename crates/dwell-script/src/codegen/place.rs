//! Variables, elements of arrays and memory: reading and assigning.
use super::assembler::Label;
use super::error::CodeError;
use super::fields;
use super::frame::Location;
use super::layout::{Home, THREAD, ZEROS_SIZE, control};
use super::memory::Size;
use super::program::Maker;
use crate::span::Span;
use crate::typed::*;
use crate::types::{Type, TypeId};
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width};
use dwell_abi::program::operation as op;

/// A place whose address and keys have been computed, to be read and written any number of times.
#[derive(Debug, Clone, Copy)]
pub(super) enum Prepared {
    /// Our own memory, at a fixed place.
    Here(Location),
    /// From the start of the thread's memory.
    Thread(u32),
    /// Likewise, an integer of less than 8 bytes in a structure: whole variables have 8.
    Small(Location),
    /// Likewise, from the start of the thread's memory.
    SmallThread(u32),
    /// An element of a table; the key lies there.
    Element { store: u32, key: Location },
    /// A part of one, from that offset on.
    ElementPart {
        store: u32,
        key: Location,
        offset: u32,
    },
    /// Memory of the target or the kernel, whose address lies there; or of a variable of ours.
    Outside(Location, Option<Owner>),
    /// Likewise, some bits of an integer.
    Bits {
        address: Location,
        owner: Option<Owner>,
        shift: u8,
        width: u8,
    },
}

/// The variable that an address was computed from, as `a[i]` is from `a`: where it lies, and its bytes. Only in it may
/// be written there.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    at: Location,
    size: u32,
}

impl Maker<'_, '_> {
    pub(super) fn prepare(&mut self, place: &Place, span: Span) -> Result<Prepared, CodeError> {
        match &place.kind {
            PlaceKind::Variable(id) => Ok(self.variable(*id, 0)),
            PlaceKind::Part(id, offset) => {
                self.check_part(*id, *offset, place.ty, span)?;
                let part = self.variable(*id, *offset);
                let is_scalar = fields::is_scalar(&self.script.types, place.ty);
                let is_small = is_scalar && self.shape(place.ty).0 < 8;
                Ok(match part {
                    Prepared::Here(at) if is_small => Prepared::Small(at),
                    Prepared::Thread(at) if is_small => Prepared::SmallThread(at),
                    part => part,
                })
            }
            PlaceKind::Element(id, keys) => {
                let (store, key) = self.element(*id, keys)?;
                Ok(Prepared::Element { store, key })
            }
            PlaceKind::ElementPart(id, keys, offset) => {
                self.check_part(*id, *offset, place.ty, span)?;
                if self.generator.layout.variable_size(self.script, *id) > ZEROS_SIZE {
                    let what = "a part of an element of more than 8 KiB";
                    return Err(CodeError::unsupported(what, span));
                }
                let (store, key) = self.element(*id, keys)?;
                let offset = *offset;
                Ok(Prepared::ElementPart { store, key, offset })
            }
            PlaceKind::Memory(address) => {
                self.value(address)?;
                Ok(Prepared::Outside(self.spill()?, self.owner(address)))
            }
            PlaceKind::Bits {
                address,
                shift,
                width,
            } => {
                if u32::from(*shift) + u32::from(*width) > 64 {
                    return Err(CodeError::unsupported("a bit-field in 9 bytes", span));
                }
                let owner = self.owner(address);
                self.value(address)?;
                let address = self.spill()?;
                Ok(Prepared::Bits {
                    address,
                    owner,
                    shift: *shift,
                    width: *width,
                })
            }
            PlaceKind::ThreadPointer { offset } => {
                self.thread_pointer()?;
                self.code.constant(1, *offset);
                self.code.alu(Alu::Add, 0, 1);
                Ok(Prepared::Outside(self.spill()?, None))
            }
        }
    }

    /// The variable of ours that an address is computed from.
    fn owner(&self, address: &Expr) -> Option<Owner> {
        match &address.kind {
            ExprKind::AddressOf(place) => match &place.kind {
                PlaceKind::Variable(id) | PlaceKind::Part(id, _) => {
                    let at = match self.generator.layout.home_of(*id) {
                        Home::Memory(at) => Location::Memory(at),
                        Home::Frame => self.locals[id],
                        Home::Thread(_) | Home::Table(_) => return None,
                    };
                    let size = self.generator.layout.variable_size(self.script, *id);
                    Some(Owner { at, size })
                }
                PlaceKind::Memory(address) => self.owner(address),
                _ => None,
            },
            ExprKind::Binary(Binary::Add | Binary::Subtract, a, b) => {
                self.owner(a).or_else(|| self.owner(b))
            }
            ExprKind::Cast(a) => self.owner(a),
            _ => None,
        }
    }

    fn check_part(
        &self,
        id: VariableId,
        offset: u32,
        ty: TypeId,
        span: Span,
    ) -> Result<(), CodeError> {
        let end = offset.saturating_add(self.size_of(ty));
        if end > self.generator.layout.variable_size(self.script, id) {
            return Err(CodeError::unsupported("a place behind its variable", span));
        }
        Ok(())
    }

    pub(super) fn size_of(&self, ty: TypeId) -> u32 {
        fields::size_of(&self.script.types, self.generator.layout.sizes, ty)
    }

    fn variable(&mut self, id: VariableId, offset: u32) -> Prepared {
        match self.generator.layout.home_of(id) {
            Home::Memory(at) => Prepared::Here(Location::Memory(at + offset)),
            Home::Thread(at) => Prepared::Thread(at + offset),
            Home::Frame => Prepared::Here(self.locals[&id].plus(offset)),
            Home::Table(_) => unreachable!("an array is only used by its elements"),
        }
    }

    /// The table of an array, and where the key of an element lies.
    fn element(&mut self, id: VariableId, keys: &[Expr]) -> Result<(u32, Location), CodeError> {
        let Home::Table(store) = self.generator.layout.home_of(id) else {
            unreachable!("only arrays have elements");
        };
        let variable = &self.script.variables[id.0 as usize];
        let types = variable.keys.as_deref().unwrap_or_default();
        let own = if variable.scope == Scope::Thread {
            8
        } else {
            0
        };
        let sizes = self.generator.layout.sizes;
        let (fields, size) = fields::key_fields(&self.script.types, sizes, types);
        let key = self.frame.buffer(own + size)?;
        self.zero(key, own + size);
        for (value, field) in keys.iter().zip(fields) {
            let mark = self.frame.mark();
            self.field(value, key.plus(own + field.offset), field.size)?;
            self.frame.release(mark);
        }
        if own > 0 {
            self.code.call(op::IDS);
            self.cut(0, 4, false);
            self.store_word(key, 0);
        }
        Ok((store, key))
    }

    /// The value of a scalar at a place into register 0.
    pub(super) fn read(&mut self, place: Prepared, ty: TypeId) -> Result<(), CodeError> {
        let (size, signed) = self.shape(ty);
        match place {
            Prepared::Here(at) => self.load_word(0, at),
            Prepared::Thread(offset) => {
                self.thread_memory(0);
                self.load_if_found(offset, Width::W8);
            }
            Prepared::Small(at) => {
                self.load_at(width_of(size), 0, at);
                self.cut(0, size, signed);
            }
            Prepared::SmallThread(offset) => {
                self.thread_memory(0);
                self.load_if_found(offset, width_of(size));
                self.cut(0, size, signed);
            }
            Prepared::Element { store, key } => {
                self.lookup(store, key);
                self.load_if_found(0, Width::W8);
            }
            Prepared::ElementPart { store, key, offset } => {
                self.lookup(store, key);
                self.load_if_found(offset, width_of(size));
                self.cut(0, size, signed);
            }
            Prepared::Outside(address, _) => {
                self.load_word(0, address);
                self.read_memory(size)?;
                if signed {
                    self.cut(0, size, true);
                }
            }
            Prepared::Bits {
                address,
                shift,
                width,
                ..
            } => {
                self.load_word(0, address);
                // In packed structures the bits may reach beyond an integer of their type.
                let reached = (u32::from(shift) + u32::from(width)).div_ceil(8);
                self.read_memory(size.max(reached))?;
                let left = 64 - i32::from(shift) - i32::from(width);
                self.code.alu_imm(Alu::Lsh, 0, left);
                let right = if signed { Alu::Arsh } else { Alu::Rsh };
                self.code.alu_imm(right, 0, 64 - i32::from(width));
            }
        }
        Ok(())
    }

    /// Assigns register 0, which stays, to a scalar at a place.
    pub(super) fn write(
        &mut self,
        place: Prepared,
        ty: TypeId,
        span: Span,
    ) -> Result<(), CodeError> {
        let (size, signed) = self.shape(ty);
        self.cut(0, size, signed);
        match place {
            Prepared::Here(at) => self.store_word(at, 0),
            Prepared::Thread(offset) => self.write_thread(offset, Width::W8)?,
            Prepared::Small(at) => self.store_at(width_of(size), at, 0),
            Prepared::SmallThread(offset) => self.write_thread(offset, width_of(size))?,
            Prepared::Element { store, key } => self.write_element(store, key)?,
            Prepared::ElementPart { store, key, offset } => {
                let mark = self.frame.mark();
                let value = self.spill()?;
                let none = self.code.label();
                self.whole_element(store, key, none);
                self.load_word(1, value);
                self.code.store(width_of(size), 0, offset as i16, 1);
                self.code.place(none);
                self.load_word(0, value);
                self.frame.release(mark);
            }
            Prepared::Outside(address, owner) => self.write_own(address, owner, size)?,
            Prepared::Bits {
                address,
                owner,
                shift,
                width,
            } => {
                if u32::from(shift) + u32::from(width) > 8 * size {
                    let what = "assigning to a bit-field beyond an integer of its type";
                    return Err(CodeError::unsupported(what, span));
                }
                self.write_bits((address, owner), size, (shift, width))?;
            }
        }
        Ok(())
    }

    /// The low bits of register 0, which stays, into some of the integer of so many bytes whose address lies there.
    fn write_bits(
        &mut self,
        (address, owner): (Location, Option<Owner>),
        size: u32,
        (shift, width): (u8, u8),
    ) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let value = self.spill()?;
        self.load_word(0, address);
        self.read_memory(size)?;
        let ones = u64::MAX >> (64 - u32::from(width));
        self.code.constant(1, !(ones << shift) as i64);
        self.code.alu(Alu::And, 0, 1);
        self.load_word(1, value);
        self.code.constant(2, ones as i64);
        self.code.alu(Alu::And, 1, 2);
        self.code.alu_imm(Alu::Lsh, 1, shift.into());
        self.code.alu(Alu::Or, 0, 1);
        self.write_own(address, owner, size)?;
        self.load_word(0, value);
        self.frame.release(mark);
        Ok(())
    }

    /// Register 0, which stays, to memory of a variable, of `alloca` or `copyin`, whose address lies there. No other may
    /// be written.
    fn write_own(
        &mut self,
        address: Location,
        owner: Option<Owner>,
        size: u32,
    ) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let value = self.spill()?;
        self.load_word(0, address);
        match owner {
            Some(Owner { at, size: room }) => {
                self.pointer_within(at, room, Size::Constant(size))?
            }
            None => self.own_pointer(Size::Constant(size))?,
        }
        self.load_word(0, value);
        if let Some(width) = Width::of(size) {
            self.code.store(width, 2, 0, 0);
        }
        self.frame.release(mark);
        Ok(())
    }

    /// The address in register 0, a mere number, becomes one in register 2 at which so many bytes may be written: of
    /// what `alloca` and `copyin` gave up to now. Any other is an error of the script.
    pub(super) fn own_pointer(&mut self, size: Size) -> Result<(), CodeError> {
        let (first, end) = self.frame.kept_range().ok_or(CodeError::TooDeep)?;
        self.pointer_within(Location::Slot(first as i32), end - first, size)
    }

    /// Likewise, within so many bytes of ours.
    fn pointer_within(&mut self, first: Location, room: u32, size: Size) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let wanted = self.spill()?;
        self.own_address(first)?;
        self.load_word(2, wanted);
        self.code.alu(Alu::Sub, 2, 0);
        let [fine, bad] = self.code.labels();
        match size {
            Size::Constant(size) if size > room => self.code.jump(bad),
            Size::Constant(size) => self.code.jump_imm(Jump::Le, 2, (room - size) as i32, fine),
            Size::Computed { .. } => {
                self.code.jump_imm(Jump::Gt, 2, room as i32, bad);
                self.load_size(3, size);
                self.code.constant(4, room.into());
                self.code.alu(Alu::Sub, 4, 2);
                self.code.jump_if(Jump::Le, 3, 4, fine);
            }
        }
        self.code.place(bad);
        self.load_word(2, wanted);
        self.fault(super::program::FaultKind::BadAddress);
        self.code.place(fine);
        self.address(1, first);
        self.code.alu(Alu::Add, 1, 2);
        self.code.mov(2, 1);
        self.frame.release(mark);
        Ok(())
    }

    /// The address of an element's value, which is all zeros if it was not there, into register 0; without room for it
    /// the code goes on at the label.
    pub(super) fn whole_element(&mut self, store: u32, key: Location, none: Label) {
        let found = self.code.label();
        self.lookup(store, key);
        self.code.jump_imm(Jump::Ne, 0, 0, found);
        self.update(store, key, Location::Memory(control::ZEROS));
        self.lookup(store, key);
        self.code.jump_imm(Jump::Eq, 0, 0, none);
        self.code.place(found);
    }

    /// Likewise of the thread's memory; no room is counted.
    pub(super) fn whole_thread(&mut self, none: Label) {
        let found = self.code.label();
        self.thread_memory(op::CREATE);
        self.code.jump_imm(Jump::Ne, 0, 0, found);
        self.count(control::VARIABLE_DROPS);
        self.code.jump(none);
        self.code.place(found);
    }

    fn write_thread(&mut self, offset: u32, width: Width) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let value = self.spill()?;
        let done = self.code.label();
        self.whole_thread(done);
        self.load_word(1, value);
        self.code.store(width, 0, offset as i16, 1);
        self.code.place(done);
        self.load_word(0, value);
        self.frame.release(mark);
        Ok(())
    }

    /// Zero frees the element.
    fn write_element(&mut self, store: u32, key: Location) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let value = self.spill()?;
        let [free, done] = self.code.labels();
        self.code.jump_imm(Jump::Eq, 0, 0, free);
        self.update(store, key, value);
        self.code.jump(done);
        self.code.place(free);
        self.delete(store, key);
        self.code.place(done);
        self.load_word(0, value);
        self.frame.release(mark);
        Ok(())
    }

    /// The address of the thread's memory, or 0, into register 0.
    pub(super) fn thread_memory(&mut self, flags: i32) {
        self.code.call(op::THREAD);
        self.code.mov(2, 0);
        self.code.pair(Instruction::load_store(1, THREAD));
        self.code.constant(3, 0);
        self.code.constant(4, i64::from(flags));
        self.code.call(op::THREAD_MEMORY);
    }

    /// The address of an element's value, or 0, into register 0.
    pub(super) fn lookup(&mut self, store: u32, key: Location) {
        self.code.pair(Instruction::load_store(1, store));
        self.address(2, key);
        self.code.call(op::LOOKUP);
    }

    /// The address of what a place of the thread's memory or of an array lies in, or 0, into register 0; how far behind it
    /// the place is. None if it lies elsewhere.
    pub(super) fn find_kept(&mut self, place: &Prepared) -> Option<u32> {
        match *place {
            Prepared::Thread(offset) => {
                self.thread_memory(0);
                Some(offset)
            }
            Prepared::Element { store, key } => {
                self.lookup(store, key);
                Some(0)
            }
            Prepared::ElementPart { store, key, offset } => {
                self.lookup(store, key);
                Some(offset)
            }
            _ => None,
        }
    }

    /// Sets an element; no room is counted.
    pub(super) fn update(&mut self, store: u32, key: Location, value: Location) {
        self.code.pair(Instruction::load_store(1, store));
        self.address(2, key);
        self.address(3, value);
        self.code.constant(4, 0);
        self.code.call(op::UPDATE);
        let fine = self.code.label();
        self.code.jump_imm(Jump::Eq, 0, 0, fine);
        self.count(control::VARIABLE_DROPS);
        self.code.place(fine);
    }

    pub(super) fn delete(&mut self, store: u32, key: Location) {
        self.code.pair(Instruction::load_store(1, store));
        self.address(2, key);
        self.code.call(op::DELETE);
    }

    /// Register 0 becomes the number at the address it has, or stays 0.
    fn load_if_found(&mut self, offset: u32, width: Width) {
        let missing = self.code.label();
        self.code.jump_imm(Jump::Eq, 0, 0, missing);
        self.code.load(width, 0, 0, offset as i16);
        self.code.place(missing);
    }

    /// Bytes and signedness of a scalar.
    pub(super) fn shape(&self, ty: TypeId) -> (u32, bool) {
        match self.script.types.actual(ty) {
            Type::Int { size, signed, .. } | Type::Enum { size, signed, .. } => {
                (u32::from(*size), *signed)
            }
            Type::Float { size, .. } => (u32::from(*size), false),
            _ => (8, false),
        }
    }
}

fn width_of(size: u32) -> Width {
    Width::of(size).unwrap_or(Width::W8)
}
