//! Expressions whose values are in register 0, and values on their way into records and keys.
use super::error::CodeError;
use super::fields::{is_scalar, is_string};
use super::frame::Location;
use super::program::Maker;
use crate::typed::*;
use crate::types::Type;
use dwell_abi::program::instruction::{Alu, Jump, Width};
use dwell_abi::program::operation as op;

impl Maker<'_, '_> {
    /// Computes an expression for what it does.
    pub(super) fn effect(&mut self, e: &Expr) -> Result<(), CodeError> {
        let types = &self.script.types;
        if is_string(types, e.ty) {
            return self.string(e).map(drop);
        }
        match &e.kind {
            ExprKind::Assign(place, value) if !is_scalar(types, e.ty) => {
                self.assign_bytes(place, value)
            }
            _ => self.value(e),
        }
    }

    /// A scalar's value into register 0. Registers 1 to 5 are lost.
    pub(super) fn value(&mut self, e: &Expr) -> Result<(), CodeError> {
        match &e.kind {
            ExprKind::Int(value) => self.code.constant(0, *value),
            ExprKind::Read(place) => {
                let mark = self.frame.mark();
                let prepared = self.prepare(place, e.span)?;
                self.read(prepared, place.ty)?;
                self.frame.release(mark);
            }
            ExprKind::Builtin(builtin) => self.builtin(*builtin, e.span)?,
            ExprKind::AddressOf(place) => self.address_of(place, e)?,
            ExprKind::Unary(operator, a) => self.unary(*operator, a)?,
            ExprKind::Binary(operator, a, b) => self.binary(*operator, a, b)?,
            ExprKind::And(..) | ExprKind::Or(..) | ExprKind::Xor(..) => self.truth(e)?,
            ExprKind::Conditional(condition, a, b) => self.conditional(condition, a, b)?,
            ExprKind::Cast(a) if is_string(&self.script.types, a.ty) => {
                let at = self.string(a)?;
                self.own_address(at)?;
            }
            ExprKind::Cast(a) => {
                self.value(a)?;
                let (size, signed) = self.shape(e.ty);
                self.cut(0, size, signed);
            }
            ExprKind::Assign(place, value) => {
                let mark = self.frame.mark();
                let prepared = self.prepare(place, e.span)?;
                self.value(value)?;
                self.write(prepared, place.ty, e.span)?;
                self.frame.release(mark);
            }
            ExprKind::Update(place, operator, value) => {
                self.compound(place, *operator, value, e)?
            }
            ExprKind::Step { place, by, postfix } => self.step(place, *by, *postfix, e)?,
            ExprKind::Comma(a, b) => {
                self.effect(a)?;
                self.value(b)?;
            }
            ExprKind::Call(function, arguments) => self.call(*function, arguments, e)?,
            ExprKind::String(_) => {
                return Err(CodeError::unsupported("a string as a number", e.span));
            }
        }
        Ok(())
    }

    /// A value into a field of a record or a key, which is zero so far.
    pub(super) fn field(&mut self, e: &Expr, at: Location, size: u32) -> Result<(), CodeError> {
        let types = &self.script.types;
        match types.actual(e.ty) {
            Type::String => {
                let from = self.string(e)?;
                self.copy(at, from, size);
            }
            Type::Stack { user, frames } => self.stack(at, *user, *frames)?,
            Type::Address { user, .. } => self.named_address(e, *user, at)?,
            Type::Record(_) | Type::Array { .. } | Type::Float { size: 9.., .. } => {
                self.bytes(e, at, size)?;
            }
            _ => {
                self.value(e)?;
                if let Some(width) = Width::of(size) {
                    self.store_at(width, at, 0);
                }
            }
        }
        Ok(())
    }

    /// The stack of the kernel's or the user's side.
    fn stack(&mut self, at: Location, user: bool, frames: u16) -> Result<(), CodeError> {
        let mut to = at;
        if user {
            self.code.call(op::IDS);
            self.code.alu_imm(Alu::Rsh, 0, 32);
            self.store_word(at, 0);
            to = at.plus(8);
        }
        self.take_stack(to, 8 * u32::from(frames), user);
        Ok(())
    }

    /// The stack to memory of so many bytes that is zero; register 0: the bytes of its frames, or negative.
    pub(super) fn take_stack(&mut self, to: Location, size: u32, user: bool) {
        if user {
            self.takes_user_stacks = true;
            self.address(1, to);
            self.code.constant(2, i64::from(size));
            self.code.call(op::USER_STACK);
            return;
        }
        self.code.mov(1, 6);
        self.address(2, to);
        self.code.constant(3, i64::from(size));
        self.code.constant(4, 0);
        self.code.call(op::STACK);
    }

    /// An address that is printed by name, of the user's side after its process.
    fn named_address(&mut self, e: &Expr, user: bool, at: Location) -> Result<(), CodeError> {
        let address = match &e.kind {
            ExprKind::Call(Function::KernelAddress(_) | Function::UserAddress(_), arguments) => {
                &arguments[0]
            }
            _ => {
                return Err(CodeError::unsupported(
                    "a named address that is not a call",
                    e.span,
                ));
            }
        };
        self.value(address)?;
        self.store_word(at.plus(8 * u32::from(user)), 0);
        if user {
            self.code.call(op::IDS);
            self.code.alu_imm(Alu::Rsh, 0, 32);
            self.store_word(at, 0);
        }
        Ok(())
    }

    pub(super) fn address_of(&mut self, place: &Place, e: &Expr) -> Result<(), CodeError> {
        match &place.kind {
            PlaceKind::Memory(address) => self.value(address),
            _ => match self.prepare(place, e.span)? {
                super::place::Prepared::Here(at) | super::place::Prepared::Small(at) => {
                    self.own_address(at)
                }
                super::place::Prepared::Outside(address, _) => {
                    self.load_word(0, address);
                    Ok(())
                }
                _ => Err(CodeError::unsupported(
                    "the address of such a variable",
                    e.span,
                )),
            },
        }
    }

    /// The address of our own memory as a mere number, which the verifier forgets to be an address once it has been
    /// in the memory of a map.
    pub(super) fn own_address(&mut self, at: Location) -> Result<(), CodeError> {
        if !self.frame.has_slot {
            return Err(CodeError::TooDeep);
        }
        let mark = self.frame.mark();
        let word = self.frame.buffer(8)?;
        self.address(0, at);
        self.store_word(word, 0);
        self.load_word(0, word);
        self.frame.release(mark);
        Ok(())
    }

    fn conditional(&mut self, condition: &Expr, a: &Expr, b: &Expr) -> Result<(), CodeError> {
        let [otherwise, done] = self.code.labels();
        self.unless(condition, otherwise)?;
        self.value(a)?;
        self.code.jump(done);
        self.code.place(otherwise);
        self.value(b)?;
        self.code.place(done);
        Ok(())
    }

    fn compound(
        &mut self,
        place: &Place,
        operator: Binary,
        value: &Expr,
        e: &Expr,
    ) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let prepared = self.prepare(place, e.span)?;
        // As in dtrace, what was there counts as it was before the right side is computed.
        self.read(prepared, place.ty)?;
        let left = self.spill()?;
        self.value(value)?;
        self.code.mov(1, 0);
        self.load_word(0, left);
        self.operate(operator, self.shape(place.ty).1)?;
        self.write(prepared, place.ty, e.span)?;
        self.frame.release(mark);
        Ok(())
    }

    fn step(&mut self, place: &Place, by: i64, postfix: bool, e: &Expr) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let prepared = self.prepare(place, e.span)?;
        self.read(prepared, place.ty)?;
        let before = self.spill()?;
        self.code.constant(1, by);
        self.code.alu(Alu::Add, 0, 1);
        self.write(prepared, place.ty, e.span)?;
        if postfix {
            self.load_word(0, before);
        }
        self.frame.release(mark);
        Ok(())
    }

    /// Register 0 becomes 1 if it is not 0.
    pub(super) fn normalise_truth(&mut self) {
        let zero = self.code.label();
        self.code.jump_imm(Jump::Eq, 0, 0, zero);
        self.code.constant(0, 1);
        self.code.place(zero);
    }
}
