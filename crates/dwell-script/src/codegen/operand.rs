//! Arguments of static probes: where a note says they are when the site is reached.
use super::error::CodeError;
use super::program::Maker;
use super::site::registers;
use crate::span::Span;
use dwell_abi::program::instruction::{Alu, Width};

/// An argument of a static probe.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operand {
    /// Bytes that count, the lowest ones: 1, 2, 4 or 8.
    pub size: u8,
    /// Whether they are sign-extended.
    pub signed: bool,
    /// Where they are.
    pub place: OperandPlace,
}

/// Where an argument is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperandPlace {
    /// The value itself.
    Constant(i64),
    /// A register, by its index in `uregs[]`, shifted to the right by so many bits.
    Register {
        /// Which.
        index: u8,
        /// Bits.
        shift: u8,
    },
    /// Memory at a sum that wraps around.
    Memory {
        /// A register that is added, by its index in `uregs[]`.
        base: Option<u8>,
        /// A register that is multiplied and added.
        index: Option<(u8, u8)>,
        /// A number that is added.
        displacement: i64,
    },
    /// Out of reach, and why.
    Unreadable(Box<str>),
}

impl Maker<'_, '_> {
    /// `argN` of a static probe into register 0; 0 beyond the last one, as in dtrace.
    pub(super) fn operand(&mut self, operands: u32, n: usize, span: Span) -> Result<(), CodeError> {
        let Some(operand) = self.generator.operands(operands).get(n).cloned() else {
            self.code.constant(0, 0);
            return Ok(());
        };
        let size = u32::from(operand.size);
        match operand.place {
            OperandPlace::Constant(value) => self.code.constant(0, value),
            OperandPlace::Register { index, shift } => {
                self.register(0, index);
                self.code.alu_imm(Alu::Rsh, 0, shift.into());
            }
            OperandPlace::Memory {
                base,
                index,
                displacement,
            } => {
                self.code.constant(0, displacement);
                if let Some(base) = base {
                    self.register(1, base);
                    self.code.alu(Alu::Add, 0, 1);
                }
                if let Some((index, scale)) = index {
                    self.register(1, index);
                    self.code.alu_imm(Alu::Mul, 1, scale.into());
                    self.code.alu(Alu::Add, 0, 1);
                }
                self.read_memory(size)?;
            }
            OperandPlace::Unreadable(why) => {
                let what = format!("arg{n} of this static probe ({why})");
                return Err(CodeError::unsupported(what, span));
            }
        }
        self.cut(0, size, operand.signed);
        Ok(())
    }

    /// A register of the context's, by its index in `uregs[]`.
    fn register(&mut self, dst: u8, index: u8) {
        debug_assert!(index < registers::COUNT);
        self.code.load(Width::W8, dst, 6, 8 * i16::from(index));
    }
}
