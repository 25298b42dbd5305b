//! Sequences of instructions for which the processor has fewer.
use crate::encode::*;
use dwell_abi::program::Instruction;
use dwell_abi::program::instruction::Alu;

/// Instructions of [`is_logarithm`].
pub(crate) const LOGARITHM: usize = 6 * 7;

/// Whether a program begins with what `quantize()` computes a logarithm by: register 0 gets the bits of the number
/// of register 1's highest bit, by halves; register 2 helps.
pub(crate) fn is_logarithm(program: &[Instruction]) -> bool {
    let steps = [32, 16, 8, 4, 2, 1].into_iter().flat_map(|shift| {
        [
            Instruction::alu(Alu::Mov, 2, 1),
            Instruction::alu_imm(Alu::Rsh, 2, shift),
            Instruction::alu_imm(Alu::Neg, 2, 0),
            Instruction::alu_imm(Alu::Rsh, 2, 63),
            Instruction::alu_imm(Alu::Mul, 2, shift),
            Instruction::alu(Alu::Rsh, 1, 2),
            Instruction::alu(Alu::Or, 0, 2),
        ]
    });
    program.len() >= LOGARITHM && steps.eq(program[..LOGARITHM].iter().copied())
}

/// The same. Of zero there is none: then nothing is added, and the others are zero.
pub(crate) fn logarithm(code: &mut Code) {
    code.mov_constant(RSI, 0);
    code.two(true, Two::Test, RDI, RDI);
    let of_zero = code.jump_if(Condition::Equal);
    code.highest_bit(RSI, RDI);
    code.two(true, Two::Or, RAX, RSI);
    code.constant(true, Two::And, RSI, 1);
    code.mov_constant(RDI, 1);
    code.land(of_zero);
}
