//! Evaluates call frame instructions for what a row can say: the CFA, rbp and the return address.
//!
//! gimli decodes the instructions; its own evaluation tracks every register, which the full stepper
//! needs but costs several times as much as these three.
use gimli::{CallFrameInstruction as Insn, CallFrameInstructionIter, Register, UnwindExpression};

use super::sections::Slice;

/// DWARF numbers of the registers of interest (x86-64 psABI, figure 3.36).
pub(crate) const RDI: Register = Register(5);
pub(crate) const RBP: Register = Register(6);
pub(crate) const RSP: Register = Register(7);
pub(crate) const RIP: Register = Register(16);

/// Nested `DW_CFA_remember_state`; compilers nest once, hand-written assembly twice.
const MAX_REMEMBERED: usize = 16;

/// How the CFA is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa {
    /// register + offset
    Register(Register, i64),
    /// The value of a DWARF expression.
    Expression(UnwindExpression<usize>),
}

/// How a register of the caller is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saved {
    /// No instruction named the register.
    Unspecified,
    /// The caller's value is lost.
    Undefined,
    /// The callee left it alone.
    Same,
    /// *(CFA + offset)
    AtCfa(i64),
    /// *(the value of a DWARF expression)
    AtExpression(UnwindExpression<usize>),
    /// In another register.
    In(Register),
    /// Something else.
    Other,
}

/// The rules that hold at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub cfa: Cfa,
    pub bp: Saved,
    pub ra: Saved,
}

impl State {
    const UNSET: State = State {
        cfa: Cfa::Register(RSP, 8),
        bp: Saved::Unspecified,
        ra: Saved::Unspecified,
    };

    fn set(&mut self, register: Register, saved: Saved) {
        match register {
            RBP => self.bp = saved,
            RIP => self.ra = saved,
            _ => {}
        }
    }
}

/// Why the instructions of an entry could not be followed to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The factors and the initial state that a CIE gives to its functions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prologue {
    pub code_factor: u64,
    pub data_factor: i64,
    pub initial: State,
}

impl Prologue {
    /// Evaluates the initial instructions of a CIE.
    pub fn evaluate(
        code_factor: u64,
        data_factor: i64,
        instructions: CallFrameInstructionIter<'_, Slice<'_>>,
    ) -> Result<Self, Malformed> {
        let blank = Prologue {
            code_factor,
            data_factor,
            initial: State::UNSET,
        };
        let mut initial = State::UNSET;
        // A CIE has no places of its own: rows it would start are not reported.
        let mut machine = Machine::new(&blank, 0);
        machine.run(instructions, |_, state| initial = *state)?;
        initial = machine.state;
        Ok(Prologue {
            code_factor,
            data_factor,
            initial,
        })
    }
}

/// Follows the instructions of one function.
pub(crate) struct Machine<'a> {
    prologue: &'a Prologue,
    pub state: State,
    pub pc: u64,
    remembered: [State; MAX_REMEMBERED],
    depth: usize,
}

impl<'a> Machine<'a> {
    pub fn new(prologue: &'a Prologue, pc: u64) -> Self {
        Machine {
            prologue,
            state: prologue.initial,
            pc,
            remembered: [State::UNSET; MAX_REMEMBERED],
            depth: 0,
        }
    }

    /// Runs the instructions; `finished` gets every state that held up to an advance, with the pc
    /// where it began. The last state stays in `self`.
    pub fn run(
        &mut self,
        mut instructions: CallFrameInstructionIter<'_, Slice<'_>>,
        mut finished: impl FnMut(u64, &State),
    ) -> Result<(), Malformed> {
        while let Some(instruction) = instructions.next().map_err(|_| Malformed)? {
            let next = match instruction {
                Insn::AdvanceLoc { delta } => self
                    .pc
                    .checked_add(u64::from(delta).wrapping_mul(self.prologue.code_factor))
                    .ok_or(Malformed)?,
                Insn::SetLoc { address } => address,
                other => {
                    self.apply(other)?;
                    continue;
                }
            };
            if next < self.pc {
                return Err(Malformed);
            }
            if next > self.pc {
                finished(self.pc, &self.state);
                self.pc = next;
            }
        }
        Ok(())
    }

    fn apply(&mut self, instruction: Insn<usize>) -> Result<(), Malformed> {
        match instruction {
            Insn::RememberState => self.remember()?,
            Insn::RestoreState => self.restore()?,
            Insn::Restore { register } => {
                let initial = &self.prologue.initial;
                let saved = if register == RBP {
                    initial.bp
                } else {
                    initial.ra
                };
                self.state.set(register, saved);
            }
            Insn::DefCfa { .. }
            | Insn::DefCfaSf { .. }
            | Insn::DefCfaRegister { .. }
            | Insn::DefCfaOffset { .. }
            | Insn::DefCfaOffsetSf { .. }
            | Insn::DefCfaExpression { .. } => self.define_cfa(instruction)?,
            _ => self.save_register(instruction),
        }
        Ok(())
    }

    fn remember(&mut self) -> Result<(), Malformed> {
        *self.remembered.get_mut(self.depth).ok_or(Malformed)? = self.state;
        self.depth += 1;
        Ok(())
    }

    fn restore(&mut self) -> Result<(), Malformed> {
        self.depth = self.depth.checked_sub(1).ok_or(Malformed)?;
        self.state = self.remembered[self.depth];
        Ok(())
    }

    fn define_cfa(&mut self, instruction: Insn<usize>) -> Result<(), Malformed> {
        let factor = self.prologue.data_factor;
        let signed = |factored: i64| factored.wrapping_mul(factor);
        self.state.cfa = match (instruction, self.state.cfa) {
            (Insn::DefCfa { register, offset }, _) => Cfa::Register(register, offset as i64),
            (
                Insn::DefCfaSf {
                    register,
                    factored_offset,
                },
                _,
            ) => Cfa::Register(register, signed(factored_offset)),
            (Insn::DefCfaExpression { expression }, _) => Cfa::Expression(expression),
            (Insn::DefCfaRegister { register }, Cfa::Register(_, offset)) => {
                Cfa::Register(register, offset)
            }
            (Insn::DefCfaOffset { offset }, Cfa::Register(register, _)) => {
                Cfa::Register(register, offset as i64)
            }
            (Insn::DefCfaOffsetSf { factored_offset }, Cfa::Register(register, _)) => {
                Cfa::Register(register, signed(factored_offset))
            }
            // Changing one half of an expression means nothing.
            _ => return Err(Malformed),
        };
        Ok(())
    }

    fn save_register(&mut self, instruction: Insn<usize>) {
        let factor = self.prologue.data_factor;
        let (register, saved) = match instruction {
            Insn::Undefined { register } => (register, Saved::Undefined),
            Insn::SameValue { register } => (register, Saved::Same),
            Insn::Offset {
                register,
                factored_offset,
            } => (
                register,
                Saved::AtCfa((factored_offset as i64).wrapping_mul(factor)),
            ),
            Insn::OffsetExtendedSf {
                register,
                factored_offset,
            } => (register, Saved::AtCfa(factored_offset.wrapping_mul(factor))),
            Insn::Register {
                dest_register,
                src_register,
            } => (dest_register, Saved::In(src_register)),
            Insn::Expression {
                register,
                expression,
            } => (register, Saved::AtExpression(expression)),
            Insn::ValOffset { register, .. }
            | Insn::ValOffsetSf { register, .. }
            | Insn::ValExpression { register, .. } => (register, Saved::Other),
            _ => return,
        };
        self.state.set(register, saved);
    }
}
