//! Strings: bytes in memory of `strsize`, zeros from their end on, so that they compare by words and serve as keys.
use super::assembler::Label;
use super::error::CodeError;
use super::fields::{Sizes, is_string};
use super::frame::Location;
use super::memory::Size;
use super::operators::condition_of;
use super::place::Prepared;
use super::program::Maker;
use crate::octets;
use crate::span::Span;
use crate::typed::*;
use crate::types::Type;
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width};
use dwell_abi::program::operation as op;

impl Maker<'_, '_> {
    /// Room for a string.
    pub(super) fn strsize(&self) -> u32 {
        self.generator.layout.sizes.string
    }

    /// A string's place. It stays valid until the frame is released to a mark from before.
    pub(super) fn string(&mut self, e: &Expr) -> Result<Location, CodeError> {
        let at = self.whole_string(e)?;
        let is_new = match &e.kind {
            ExprKind::Cast(a) => !is_string(&self.script.types, a.ty),
            ExprKind::Read(place) => matches!(place.kind, PlaceKind::Memory(_)),
            ExprKind::Builtin(_) | ExprKind::Call(..) => true,
            _ => false,
        };
        if is_new {
            self.cut_string(at);
        }
        Ok(at)
    }

    /// Zeros from the last byte on that a string may have: its room is a multiple of 8.
    fn cut_string(&mut self, at: Location) {
        let Sizes { string, most } = self.generator.layout.sizes;
        if most == string {
            return;
        }
        self.code.constant(0, 0);
        for offset in most - 1..string {
            self.store_at(Width::W1, at.plus(offset), 0);
        }
    }

    /// Likewise, as long as its room.
    fn whole_string(&mut self, e: &Expr) -> Result<Location, CodeError> {
        match &e.kind {
            ExprKind::String(text) => Ok(self.literal(text)),
            ExprKind::Int(0) => Ok(self.literal("")),
            ExprKind::Read(place) => {
                let prepared = self.prepare(place, e.span)?;
                self.read_string_at(prepared)
            }
            ExprKind::Cast(a) if is_string(&self.script.types, a.ty) => self.string(a),
            ExprKind::Cast(a) => self.string_from(a),
            ExprKind::Builtin(builtin) => self.builtin_string(*builtin, e.span),
            ExprKind::Conditional(condition, a, b) => self.string_conditional(condition, a, b),
            ExprKind::Assign(place, value) => self.string_assign(place, value, e.span),
            ExprKind::Comma(a, b) => {
                self.effect(a)?;
                self.string(b)
            }
            ExprKind::Call(function, arguments) => self.string_call(*function, arguments, e.span),
            _ => Err(CodeError::unsupported("this as a string", e.span)),
        }
    }

    /// The bytes up to a zero that a pointer leads to, or of an array of characters, which may be full.
    fn string_from(&mut self, a: &Expr) -> Result<Location, CodeError> {
        let to = self.new_string()?;
        let mut size = self.strsize();
        let mark = self.frame.mark();
        match (self.script.types.actual(a.ty), &a.kind) {
            (Type::Array { count, .. }, ExprKind::Read(place)) => {
                if (1..size).contains(count) {
                    self.zero_string(to);
                    size = count + 1;
                }
                if self.dynamic_string(place, to, size, a.span)? {
                    self.frame.release(mark);
                    return Ok(to);
                }
                self.address_of(place, a)?;
            }
            _ => self.value(a)?,
        }
        self.read_string(to, Size::Constant(size))?;
        self.frame.release(mark);
        Ok(to)
    }

    /// A string in a structure of the thread's or of an array's element; false if the place is none of these.
    fn dynamic_string(
        &mut self,
        place: &Place,
        to: Location,
        size: u32,
        span: Span,
    ) -> Result<bool, CodeError> {
        let scope = |id: VariableId| self.script.variables[id.0 as usize].scope;
        let is_dynamic = match &place.kind {
            PlaceKind::Variable(id) | PlaceKind::Part(id, _) => scope(*id) == Scope::Thread,
            PlaceKind::Element(..) | PlaceKind::ElementPart(..) => true,
            _ => false,
        };
        if !is_dynamic {
            return Ok(false);
        }
        let prepared = self.prepare(place, span)?;
        self.zero_string(to);
        let Some(offset) = self.find_kept(&prepared) else {
            return Ok(false);
        };
        let missing = self.code.label();
        self.code.jump_imm(Jump::Eq, 0, 0, missing);
        self.code.mov(3, 0);
        self.code.alu_imm(Alu::Add, 3, offset as i32);
        self.address(1, to);
        self.code.constant(2, size.into());
        self.code.call(op::READ_KERNEL_STRING);
        self.code.place(missing);
        Ok(true)
    }

    /// Memory for a string.
    pub(super) fn new_string(&mut self) -> Result<Location, CodeError> {
        let size = self.strsize();
        self.frame.buffer(size)
    }

    fn literal(&mut self, text: &str) -> Location {
        let Sizes { string: size, most } = self.generator.layout.sizes;
        let mut bytes = octets::bytes_of(text);
        bytes.truncate(most as usize - 1);
        Location::Memory(self.generator.layout.constant(&bytes, size))
    }

    fn read_string_at(&mut self, place: Prepared) -> Result<Location, CodeError> {
        match place {
            Prepared::Here(at) | Prepared::Small(at) => Ok(at),
            Prepared::SmallThread(offset) => self.read_string_at(Prepared::Thread(offset)),
            Prepared::Thread(_) | Prepared::Element { .. } | Prepared::ElementPart { .. } => {
                let to = self.new_string()?;
                self.zero_string(to);
                let size = self.strsize();
                if let Some(offset) = self.find_kept(&place) {
                    self.copy_if_found(to, offset, size);
                }
                Ok(to)
            }
            Prepared::Outside(address, _) | Prepared::Bits { address, .. } => {
                let to = self.new_string()?;
                self.load_word(0, address);
                let size = self.strsize();
                self.read_string(to, Size::Constant(size))?;
                Ok(to)
            }
        }
    }

    pub(super) fn zero_string(&mut self, to: Location) {
        let size = self.strsize();
        self.zero(to, size);
    }

    /// Copies bytes from the address in register 0, if that is not 0.
    pub(super) fn copy_if_found(&mut self, to: Location, offset: u32, size: u32) {
        let missing = self.code.label();
        self.code.jump_imm(Jump::Eq, 0, 0, missing);
        self.code.mov(3, 0);
        self.code.alu_imm(Alu::Add, 3, offset as i32);
        self.address(1, to);
        self.copy_call(size);
        self.code.place(missing);
    }

    fn string_conditional(
        &mut self,
        condition: &Expr,
        a: &Expr,
        b: &Expr,
    ) -> Result<Location, CodeError> {
        let to = self.new_string()?;
        let mark = self.frame.mark();
        let size = self.strsize();
        let [otherwise, done] = self.code.labels();
        self.unless(condition, otherwise)?;
        let from = self.string(a)?;
        self.copy(to, from, size);
        self.frame.release(mark);
        self.code.jump(done);
        self.code.place(otherwise);
        let from = self.string(b)?;
        self.copy(to, from, size);
        self.frame.release(mark);
        self.code.place(done);
        Ok(to)
    }

    fn string_assign(
        &mut self,
        place: &Place,
        value: &Expr,
        span: Span,
    ) -> Result<Location, CodeError> {
        let prepared = self.prepare(place, span)?;
        let from = self.string(value)?;
        let size = self.strsize();
        match prepared {
            Prepared::Here(at) => self.copy(at, from, size),
            Prepared::Thread(offset) => self.copy_to_thread(offset, from, size),
            Prepared::ElementPart { store, key, offset } => {
                self.copy_to_element(store, key, offset, (from, size));
            }
            Prepared::Element { store, key } if matches!(value.kind, ExprKind::Int(0)) => {
                self.delete(store, key);
            }
            Prepared::Element { store, key } => self.update(store, key, from),
            _ => {
                return Err(CodeError::unsupported(
                    "assigning to the target's memory",
                    span,
                ));
            }
        }
        Ok(from)
    }

    /// Jumps if a comparison of strings is false. Words of 8 bytes are compared as they are for equality; what
    /// differs is compared by its bytes from the first on.
    pub(super) fn unless_strings(
        &mut self,
        operator: Binary,
        a: &Expr,
        b: &Expr,
        no: Label,
    ) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let (left, right) = (self.string(a)?, self.string(b)?);
        let literal = |e: &Expr| match &e.kind {
            ExprKind::String(text) => Some(octets::bytes_of(text).len() as u32 + 1),
            _ => None,
        };
        let size = [a, b].into_iter().filter_map(literal).min();
        let size = size.map_or(self.strsize(), |size| size.min(self.strsize()));
        let [differ, done] = self.code.labels();
        self.address(3, left);
        self.address(4, right);
        for offset in (0..size.next_multiple_of(8)).step_by(8) {
            let offset = offset as i16;
            let width = Width::W8;
            self.code.load(width, 1, 3, offset);
            self.code.load(width, 2, 4, offset);
            self.code.jump_if(Jump::Ne, 1, 2, differ);
        }
        let equal_is_true = matches!(
            operator,
            Binary::Equal | Binary::LessEqual | Binary::GreaterEqual
        );
        self.code.jump(if equal_is_true { done } else { no });
        self.code.place(differ);
        self.code.emit(Instruction::swap(1, 64));
        self.code.emit(Instruction::swap(2, 64));
        let holds = condition_of(operator, false).expect("a comparison");
        self.code.jump_if(holds, 1, 2, done);
        self.code.jump(no);
        self.code.place(done);
        self.frame.release(mark);
        Ok(())
    }
}
