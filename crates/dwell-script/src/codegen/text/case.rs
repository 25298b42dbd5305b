//! Small and capital letters, eight at once.
use super::super::error::CodeError;
use super::super::frame::Location;
use super::super::program::Maker;
use crate::typed::Expr;
use dwell_abi::program::instruction::{Alu, Jump, Width};

/// Letters of the alphabet.
const LETTERS: u8 = 26;

/// The same byte eight times.
fn each(byte: u8) -> i64 {
    i64::from_le_bytes([byte; 8])
}

impl Maker<'_, '_> {
    /// `tolower` and `toupper`: the letters from `first` on change their case.
    pub(super) fn changed_case(&mut self, text: &Expr, first: u8) -> Result<Location, CodeError> {
        let size = self.strsize();
        let to = self.new_string()?;
        let mark = self.frame.mark();
        let from = self.string(text)?;
        let again = self.begin_loop(0, size.next_power_of_two());
        self.address(1, from);
        self.code.alu(Alu::Add, 1, 8);
        self.code.load(Width::W8, 0, 1, 0);
        self.letters_from(first);
        // Bit 5 of a letter is its case.
        self.code.alu_imm(Alu::Rsh, 3, 2);
        self.code.alu(Alu::Xor, 0, 3);
        self.address(1, to);
        self.code.alu(Alu::Add, 1, 8);
        self.code.store(Width::W8, 1, 0, 0);
        self.code.alu_imm(Alu::Add, 8, 8);
        self.code.jump_imm(Jump::Lt, 8, size as i32, again);
        self.frame.release(mark);
        Ok(to)
    }

    /// The highest bit of each byte of register 3: whether that byte of register 0 is one of 26 letters.
    fn letters_from(&mut self, first: u8) {
        self.code.mov(2, 0);
        self.code.constant(1, each(0x7f));
        self.code.alu(Alu::And, 2, 1);
        self.code.mov(3, 2);
        // A sum's highest bit is set from a certain byte on.
        self.code.constant(1, each(0x80 - first));
        self.code.alu(Alu::Add, 2, 1);
        self.code.constant(1, each(0x80 - first - LETTERS));
        self.code.alu(Alu::Add, 3, 1);
        self.code.alu(Alu::Xor, 3, 2);
        // Bytes above 127 are no letters.
        self.code.mov(2, 0);
        self.code.alu_imm(Alu::Xor, 2, -1);
        self.code.alu(Alu::And, 3, 2);
        self.code.constant(1, each(0x80));
        self.code.alu(Alu::And, 3, 1);
    }
}
