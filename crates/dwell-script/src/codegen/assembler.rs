//! Puts instructions together: jumps to labels that may come later.
use super::error::CodeError;
use dwell_abi::program::instruction::{Alu, EXIT, Instruction, Jump, Width, class};
use std::collections::HashMap;

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

    /// Several of them.
    pub(super) fn labels<const N: usize>(&mut self) -> [Label; N] {
        std::array::from_fn(|_| self.label())
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

    /// See [`dwell_abi::program::instruction::MAY_GIVE_UP`].
    pub(super) fn may_give_up(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(Instruction::may_give_up(0));
    }

    /// The code with all jumps in place, and without what no path leads to: the kernel refuses that.
    pub(super) fn finish(self) -> Result<Vec<Instruction>, CodeError> {
        let target = |label: Label| self.places[label.0].expect("every label is placed");
        let jumps: HashMap<usize, usize> = self
            .jumps
            .iter()
            .map(|(at, to)| (*at, target(*to)))
            .collect();
        let reached = self.reached(&jumps);
        // Where each instruction is, once those before it that nothing reaches are gone.
        let mut moved = Vec::with_capacity(reached.len());
        for is_reached in &reached {
            let before = moved
                .last()
                .map_or(0, |(at, counts)| at + usize::from(*counts));
            moved.push((before, *is_reached));
        }
        let mut code = Vec::new();
        for (at, mut instruction) in self
            .code
            .into_iter()
            .enumerate()
            .filter(|(at, _)| reached[*at])
        {
            if let Some(to) = jumps.get(&at) {
                let distance = moved[*to].0 as isize - moved[at].0 as isize - 1;
                instruction.offset = i16::try_from(distance).map_err(|_| CodeError::TooLong)?;
            }
            code.push(instruction);
        }
        Ok(code)
    }

    /// Which instructions a path leads to.
    fn reached(&self, jumps: &HashMap<usize, usize>) -> Vec<bool> {
        let mut reached = vec![false; self.code.len()];
        let mut open = vec![0];
        while let Some(at) = open.pop() {
            if at >= reached.len() || std::mem::replace(&mut reached[at], true) {
                continue;
            }
            open.extend(jumps.get(&at));
            let opcode = self.code[at].opcode;
            let ends = opcode == EXIT || opcode == Jump::Always as u8 | class::JMP;
            if !ends {
                open.push(at + 1);
            }
        }
        reached
    }
}
