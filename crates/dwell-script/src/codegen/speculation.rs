//! Speculations: which are in use.
//!
//! A speculation has two words in memory: its number while it is in use (0 when it is free), and how often it was
//! taken. Numbers are never the same twice, so that records of an old speculation, which other processors may still
//! be sending when it has ended, do not become those of a new one.
use super::frame::Location;
use super::program::Maker;
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width, atomic};

/// Bytes of a speculation's words.
pub(super) const SIZE: u32 = 16;
/// Distance of the second word.
const TAKEN: i16 = 8;

impl Maker<'_, '_> {
    /// `speculation()`: the number of a free one into register 0, or 0.
    pub(super) fn speculation(&mut self) {
        let (count, at) = self.generator.layout.speculations;
        let space = count.next_power_of_two() as i32;
        let done = self.code.label();
        for index in 0..count {
            let next = self.code.label();
            self.address(1, Location::Memory(at + SIZE * index));
            self.code.constant(0, 0);
            self.code.constant(2, -1);
            self.code
                .emit(Instruction::atomic(atomic::COMPARE_EXCHANGE, 1, 0, 2));
            self.code.jump_imm(Jump::Ne, 0, 0, next);
            self.code.constant(0, 1);
            self.code
                .emit(Instruction::atomic(atomic::FETCH_ADD, 1, TAKEN, 0));
            // Numbers stay positive as an int.
            self.code.alu_imm(Alu::Mul, 0, space);
            self.code.alu_imm(Alu::And, 0, i32::MAX & !(space - 1));
            self.code.alu_imm(Alu::Add, 0, index as i32 + 1);
            self.code.store(Width::W8, 1, 0, 0);
            self.code.jump(done);
            self.code.place(next);
        }
        self.count(super::layout::control::NO_SPECULATION);
        self.code.constant(0, 0);
        self.code.place(done);
    }

    /// Register 0, a number, becomes 0 if no speculation has it.
    pub(super) fn unless_active(&mut self) {
        let active = self.code.label();
        self.speculation_of(0);
        self.code.load(Width::W8, 1, 1, 0);
        self.code.jump_if(Jump::Eq, 0, 1, active);
        self.code.constant(0, 0);
        self.code.place(active);
    }

    /// Frees the speculation of the number in register 0, if one has it.
    pub(super) fn end_speculation(&mut self) {
        self.speculation_of(0);
        self.code.constant(2, 0);
        self.code
            .emit(Instruction::atomic(atomic::COMPARE_EXCHANGE, 1, 0, 2));
    }

    /// The address of a number's words into register 1.
    fn speculation_of(&mut self, number: u8) {
        let (count, at) = self.generator.layout.speculations;
        let last = count.next_power_of_two() as i32 - 1;
        self.code.mov(2, number);
        self.code.alu_imm(Alu::Sub, 2, 1);
        self.code.alu_imm(Alu::And, 2, last);
        self.code.alu_imm(Alu::Mul, 2, SIZE as i32);
        self.address(1, Location::Memory(at));
        self.code.alu(Alu::Add, 1, 2);
    }
}
