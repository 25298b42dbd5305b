//! `cleanpath`: a path without empty parts, `.` and `..`.
use super::super::assembler::Label;
use super::super::error::CodeError;
use super::super::frame::Location;
use super::super::program::Maker;
use crate::typed::Expr;
use dwell_abi::program::Instruction;
use dwell_abi::program::instruction::{Alu, Jump, Width};

/// What has been written, as far as the path was read.
#[derive(Clone, Copy)]
struct Written {
    /// The bytes.
    to: Location,
    /// How many.
    at: Location,
    /// Where the last component begins.
    begin: Location,
    /// Where those before it begin that `..` takes away, and how many.
    begins: Location,
    depth: Location,
    /// One more than the greatest index of a byte, and of a component; powers of two.
    bytes: u32,
    components: u32,
}

impl Maker<'_, '_> {
    pub(super) fn cleanpath(&mut self, path: &Expr) -> Result<Location, CodeError> {
        let from = self.string(path)?;
        let bytes = self.strsize().next_power_of_two();
        let written = Written {
            at: self.forgotten_constant(0)?,
            begin: self.forgotten_constant(0)?,
            depth: self.forgotten_constant(0)?,
            to: self.frame.buffer(bytes + 8)?,
            begins: self.frame.buffer(4 * bytes)?,
            bytes,
            components: bytes / 2,
        };
        let relative = self.code.label();
        self.load_at(Width::W1, 0, from);
        self.code.jump_imm(Jump::Ne, 0, b'/'.into(), relative);
        self.put(&written);
        self.store_constant(written.begin, 1);
        self.code.place(relative);
        self.each_byte(from, |maker, _| maker.clean_byte(&written, from));
        let start = self.forgotten_constant(0)?;
        let clean = self.piece(written.to, start, Some(written.at))?;
        self.here_if_empty(from, clean);
        Ok(clean)
    }

    /// Register 0 has the next byte.
    fn clean_byte(&mut self, written: &Written, from: Location) {
        let [ends, next] = self.code.labels();
        self.code.jump_imm(Jump::Eq, 0, 0, ends);
        self.code.jump_imm(Jump::Eq, 0, b'/'.into(), ends);
        self.put(written);
        self.code.jump(next);
        self.code.place(ends);
        self.component_ends(written, from, next);
        self.code.place(next);
    }

    /// A component ends; register 0 has what it ends with.
    fn component_ends(&mut self, written: &Written, from: Location, next: Label) {
        let [dot, dots, keep, top] = self.code.labels();
        self.load_word(3, written.begin);
        self.load_word(2, written.at);
        self.code.alu(Alu::Sub, 2, 3);
        self.code.jump_imm(Jump::Eq, 2, 0, next);
        self.code.alu_imm(Alu::And, 3, written.bytes as i32 - 1);
        self.address(4, written.to);
        self.code.alu(Alu::Add, 4, 3);
        self.code.load(Width::W2, 4, 4, 0);
        self.code.jump_imm(Jump::Eq, 2, 2, dots);
        self.code.jump_imm(Jump::Ne, 2, 1, keep);
        self.code.alu_imm(Alu::And, 4, 0xff);
        self.code.jump_imm(Jump::Ne, 4, b'.'.into(), keep);
        self.code.place(dot);
        self.load_word(3, written.begin);
        self.store_word(written.at, 3);
        self.code.jump(next);
        self.code.place(dots);
        let two = i32::from(u16::from_le_bytes(*b".."));
        self.code.jump_imm(Jump::Ne, 4, two, keep);
        self.load_word(3, written.depth);
        self.code.jump_imm(Jump::Eq, 3, 0, top);
        self.code.alu_imm(Alu::Sub, 3, 1);
        self.store_word(written.depth, 3);
        self.begin_of(written);
        self.code.load(Width::W8, 3, 4, 0);
        self.store_word(written.begin, 3);
        self.code.jump(dot);
        // Above the root is the root; above where a relative path begins nothing is known.
        self.code.place(top);
        self.load_at(Width::W1, 3, from);
        self.code.jump_imm(Jump::Eq, 3, b'/'.into(), dot);
        self.code.jump_imm(Jump::Eq, 0, 0, next);
        self.put(written);
        self.load_word(2, written.at);
        self.store_word(written.begin, 2);
        self.code.jump(next);
        self.code.place(keep);
        self.code.jump_imm(Jump::Eq, 0, 0, next);
        self.put(written);
        self.load_word(3, written.depth);
        self.begin_of(written);
        self.load_word(2, written.begin);
        self.code.store(Width::W8, 4, 0, 2);
        self.code.alu_imm(Alu::Add, 3, 1);
        self.store_word(written.depth, 3);
        self.load_word(2, written.at);
        self.store_word(written.begin, 2);
    }

    /// The address of the word for a component into register 4; register 3 has its number, which is cut to size.
    fn begin_of(&mut self, written: &Written) {
        self.code
            .alu_imm(Alu::And, 3, written.components as i32 - 1);
        self.code.mov(2, 3);
        self.code.alu_imm(Alu::Lsh, 2, 3);
        self.address(4, written.begins);
        self.code.alu(Alu::Add, 4, 2);
    }

    /// Writes the byte in register 0. Registers 2 and 4 are lost.
    fn put(&mut self, written: &Written) {
        self.load_word(2, written.at);
        self.code.alu_imm(Alu::And, 2, written.bytes as i32 - 1);
        self.address(4, written.to);
        self.code.alu(Alu::Add, 4, 2);
        self.code.store(Width::W1, 4, 0, 0);
        self.code.alu_imm(Alu::Add, 2, 1);
        self.store_word(written.at, 2);
    }

    /// A path of which nothing is left was one to where it begins.
    fn here_if_empty(&mut self, from: Location, clean: Location) {
        let done = self.code.label();
        self.load_at(Width::W1, 0, clean);
        self.code.jump_imm(Jump::Ne, 0, 0, done);
        self.load_at(Width::W1, 0, from);
        self.code.jump_imm(Jump::Eq, 0, 0, done);
        self.address(1, clean);
        let here = Instruction::store_imm(Width::W1, 1, 0, b'.'.into());
        self.code.emit(here);
        self.code.place(done);
    }
}
