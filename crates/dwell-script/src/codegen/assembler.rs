//! Puts instructions together: jumps to labels that may come later.
use super::error::CodeError;
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width};

/// A place in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Code that is being made.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<Instruction>,
    /// By label, once it is placed.
    places: Vec<Option<usize>>,
    /// Jumps and where they lead.
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// The next instruction is what the label means.
    pub(super) fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.code.len());
    }

    pub(super) fn emit(&mut self, instruction: Instruction) {
        self.code.push(instruction);
    }

    pub(super) fn pair(&mut self, pair: [Instruction; 2]) {
        self.code.extend(pair);
    }

    pub(super) fn call(&mut self, operation: u32) {
        self.emit(Instruction::call(operation));
    }

    pub(super) fn alu(&mut self, op: Alu, dst: u8, src: u8) {
        self.emit(Instruction::alu(op, dst, src));
    }

    pub(super) fn alu_imm(&mut self, op: Alu, dst: u8, imm: i32) {
        self.emit(Instruction::alu_imm(op, dst, imm));
    }

    pub(super) fn mov(&mut self, dst: u8, src: u8) {
        if dst != src {
            self.alu(Alu::Mov, dst, src);
        }
    }

    pub(super) fn constant(&mut self, dst: u8, value: i64) {
        match i32::try_from(value) {
            Ok(imm) => self.alu_imm(Alu::Mov, dst, imm),
            Err(_) => self.pair(Instruction::load_64(dst, value as u64)),
        }
    }

    pub(super) fn load(&mut self, width: Width, dst: u8, src: u8, offset: i16) {
        self.emit(Instruction::load(width, dst, src, offset));
    }

    pub(super) fn store(&mut self, width: Width, dst: u8, offset: i16, src: u8) {
        self.emit(Instruction::store(width, dst, offset, src));
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.jump_imm(Jump::Always, 0, 0, to);
    }

    pub(super) fn jump_imm(&mut self, condition: Jump, dst: u8, imm: i32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(Instruction::jump_imm(condition, dst, imm, 0));
    }

    pub(super) fn jump_if(&mut self, condition: Jump, dst: u8, src: u8, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(Instruction::jump(condition, dst, src, 0));
    }

    /// The code with all jumps in place.
    pub(super) fn finish(mut self) -> Result<Vec<Instruction>, CodeError> {
        for (at, label) in self.jumps {
            let to = self.places[label.0].expect("every label is placed");
            let distance = to as isize - at as isize - 1;
            self.code[at].offset = i16::try_from(distance).map_err(|_| CodeError::TooLong)?;
        }
        Ok(self.code)
    }
}
