//! Loads, stores and copies: of the firing's own memory, and of the target's and the kernel's.
use super::error::CodeError;
use super::frame::Location;
use super::program::{FaultKind, Maker};
use dwell_abi::program::Instruction;
use dwell_abi::program::instruction::{Alu, Jump, Width};
use dwell_abi::program::operation as op;

/// From so many bytes on, a copy is a call.
const LONG: u32 = 64;

/// How many bytes are copied.
#[derive(Clone, Copy)]
pub(super) enum Size {
    Constant(u32),
    /// What lies there, `most` at most.
    Computed {
        at: Location,
        most: u32,
    },
}

impl Size {
    /// The most that it may be.
    pub(super) fn most(self) -> u32 {
        match self {
            Size::Constant(size) | Size::Computed { most: size, .. } => size,
        }
    }
}

impl Maker<'_, '_> {
    /// A base register and distance for a location; `scratch` is used for memory that has no register.
    fn base(&mut self, at: Location, scratch: u8) -> (u8, i16) {
        match at {
            Location::Stack(offset) => (10, offset as i16),
            Location::Slot(offset) => (9, offset as i16),
            Location::Memory(_) => {
                self.address(scratch, at);
                (scratch, 0)
            }
        }
    }

    /// `dst` = the unsigned integer of that width at a location.
    pub(super) fn load_at(&mut self, width: Width, dst: u8, at: Location) {
        let (base, offset) = self.base(at, dst);
        self.code.load(width, dst, base, offset);
    }

    /// Writes a register's low bytes. Register 5 is lost.
    pub(super) fn store_at(&mut self, width: Width, at: Location, src: u8) {
        let (base, offset) = self.base(at, 5);
        self.code.store(width, base, offset, src);
    }

    pub(super) fn load_word(&mut self, dst: u8, at: Location) {
        self.load_at(Width::W8, dst, at);
    }

    pub(super) fn store_word(&mut self, at: Location, src: u8) {
        self.store_at(Width::W8, at, src);
    }

    /// Writes 8 bytes. Register 5 is lost.
    pub(super) fn store_constant(&mut self, at: Location, value: i32) {
        let (base, offset) = self.base(at, 5);
        self.code
            .emit(Instruction::store_imm(Width::W8, base, offset, value));
    }

    /// Register 0 into a temporary.
    pub(super) fn spill(&mut self) -> Result<Location, CodeError> {
        let at = self.frame.temporary()?;
        self.store_word(at, 0);
        Ok(at)
    }

    /// Zeros at a location in the frame.
    pub(super) fn zero(&mut self, at: Location, size: u32) {
        for offset in (0..size.next_multiple_of(8)).step_by(8) {
            self.store_constant(at.plus(offset), 0);
        }
    }

    /// Copies between locations; sizes are multiples of 8.
    pub(super) fn copy(&mut self, to: Location, from: Location, size: u32) {
        if to == from {
            return;
        }
        if size >= LONG {
            self.address(1, to);
            self.address(3, from);
            self.copy_call(size);
            return;
        }
        for offset in (0..size).step_by(8) {
            self.load_word(0, from.plus(offset));
            self.store_word(to.plus(offset), 0);
        }
    }

    /// Copies from the address in register 3 to that in register 1, both ours.
    pub(super) fn copy_call(&mut self, size: u32) {
        self.copy_sized(Size::Constant(size));
    }

    /// Likewise.
    pub(super) fn copy_sized(&mut self, size: Size) {
        self.load_size(2, size);
        self.code.call(op::READ_KERNEL);
    }

    /// A size into a register. What was computed is bounded once more, for the verifier to see.
    pub(super) fn load_size(&mut self, register: u8, size: Size) {
        match size {
            Size::Constant(size) => self.code.constant(register, i64::from(size)),
            Size::Computed { at, most } => {
                self.load_word(register, at);
                self.at_most(register, most);
            }
        }
    }

    /// A register becomes `most` if it is more.
    pub(super) fn at_most(&mut self, register: u8, most: u32) {
        let fits = self.code.label();
        self.code.jump_imm(Jump::Le, register, most as i32, fits);
        self.code.constant(register, most.into());
        self.code.place(fits);
    }

    /// Register 0 becomes the unsigned integer of so many bytes at the address it holds. What cannot be read is an
    /// error of the script.
    pub(super) fn read_memory(&mut self, size: u32) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let word = self.frame.temporary()?;
        if size < 8 {
            self.store_constant(word, 0);
        }
        self.read_bytes(word, size)?;
        self.load_word(0, word);
        self.frame.release(mark);
        Ok(())
    }

    /// Reads bytes from the address in register 0, of the target's half or of the kernel's, to a location.
    pub(super) fn read_bytes(&mut self, to: Location, size: u32) -> Result<(), CodeError> {
        self.read_sized(to, Size::Constant(size))
    }

    /// Likewise.
    pub(super) fn read_sized(&mut self, to: Location, size: Size) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let from = self.spill()?;
        self.code.mov(3, 0);
        self.address(1, to);
        self.load_size(2, size);
        self.call_for_half(op::READ_USER, op::READ_KERNEL);
        let fine = self.code.label();
        self.code.jump_imm(Jump::Eq, 0, 0, fine);
        self.load_word(2, from);
        self.fault(FaultKind::BadAddress);
        self.code.place(fine);
        self.frame.release(mark);
        Ok(())
    }

    /// Reads the bytes up to a zero from the address in register 0 to a location, `size` at most, and pads with
    /// zeros.
    pub(super) fn read_string(&mut self, to: Location, size: Size) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let from = self.spill()?;
        self.zero(to, size.most());
        self.load_word(3, from);
        self.address(1, to);
        self.load_size(2, size);
        self.call_for_half(op::READ_USER_STRING, op::READ_KERNEL_STRING);
        let fine = self.code.label();
        self.code.jump_imm(Jump::SGe, 0, 0, fine);
        self.load_word(2, from);
        self.fault(FaultKind::BadAddress);
        self.code.place(fine);
        self.frame.release(mark);
        Ok(())
    }

    /// The address in register 3 tells whose memory it is: the kernel's half is negative.
    fn call_for_half(&mut self, user: u32, kernel: u32) {
        let [ours, done] = self.code.labels();
        self.code.jump_imm(Jump::SLt, 3, 0, ours);
        self.code.call(user);
        self.code.jump(done);
        self.code.place(ours);
        self.code.call(kernel);
        self.code.place(done);
    }

    /// Cuts register 0 to so many bytes and extends it again.
    pub(super) fn cut(&mut self, register: u8, size: u32, signed: bool) {
        if size >= 8 {
            return;
        }
        let bits = 64 - 8 * size as i32;
        if !signed && size <= 2 {
            self.code.alu_imm(Alu::And, register, (1 << (8 * size)) - 1);
            return;
        }
        self.code.alu_imm(Alu::Lsh, register, bits);
        self.code
            .alu_imm(if signed { Alu::Arsh } else { Alu::Rsh }, register, bits);
    }
}
