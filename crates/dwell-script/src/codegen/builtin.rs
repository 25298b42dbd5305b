//! Variables that the probe or the system gives.
use super::error::CodeError;
use super::frame::Location;
use super::layout::{NAMES, control};
use super::program::Maker;
use super::site::{Site, registers};
use crate::span::Span;
use crate::typed::Builtin;
use dwell_abi::program::Instruction;
use dwell_abi::program::instruction::{Alu, Jump};
use dwell_abi::program::operation as op;

/// Bytes of a thread's name in the kernel.
const NAME_SIZE: u32 = 16;

impl Maker<'_, '_> {
    /// A number into register 0.
    pub(super) fn builtin(&mut self, builtin: Builtin, span: Span) -> Result<(), CodeError> {
        match builtin {
            Builtin::Arg(n) => self.argument(n, span)?,
            Builtin::Register(n) if n < registers::COUNT => self.user_register(8 * i16::from(n))?,
            Builtin::Register(_) => {
                return Err(CodeError::unsupported("a register of that number", span));
            }
            Builtin::Cpu => self.code.call(op::PROCESSOR),
            Builtin::Id => self.code.mov(0, 7),
            // Enabled probes are clauses, counted from 1, as in messages about errors.
            Builtin::Epid => self.code.constant(0, self.clause as i64 + 1),
            Builtin::Errno => self.errno(),
            Builtin::Pid | Builtin::Gid => {
                self.code.call(if builtin == Builtin::Pid {
                    op::IDS
                } else {
                    op::USER
                });
                self.code.alu_imm(Alu::Rsh, 0, 32);
            }
            Builtin::Tid | Builtin::Uid => {
                self.code.call(if builtin == Builtin::Tid {
                    op::IDS
                } else {
                    op::USER
                });
                self.cut(0, 4, false);
            }
            Builtin::Ipl => self.code.constant(0, 0),
            Builtin::Timestamp => self.timestamp(),
            Builtin::Walltimestamp => {
                self.code.call(op::WALL_TIME);
                self.load_word(1, Location::Memory(control::WALL_OFFSET));
                self.code.alu(Alu::Add, 0, 1);
            }
            Builtin::CurrentTask => self.code.call(op::TASK),
            Builtin::Ucaller => self.user_caller()?,
            Builtin::Caller => self.kernel_caller()?,
            Builtin::UserStackDepth | Builtin::StackDepth => {
                self.depth(builtin == Builtin::UserStackDepth)?;
            }
            Builtin::Vtimestamp => self.thread_time()?,
            Builtin::Execname
            | Builtin::ProbeFunction
            | Builtin::ProbeModule
            | Builtin::ProbeName
            | Builtin::ProbeProvider => {
                return Err(CodeError::unsupported("a string as a number", span));
            }
        }
        Ok(())
    }

    /// The time is one for the whole firing: read when it is first asked for.
    fn timestamp(&mut self) {
        let at = self
            .time
            .expect("the program's start saw that the time is used");
        let known = self.code.label();
        self.load_word(0, at);
        self.code.jump_imm(Jump::Ne, 0, 0, known);
        self.code.call(op::MONOTONIC_TIME);
        self.store_word(at, 0);
        self.code.place(known);
    }

    fn thread_time(&mut self) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let room = self.frame.room(op::THREAD_TIME_ROOM)?;
        self.code.emit(Instruction {
            offset: room,
            ..Instruction::call(op::THREAD_TIME)
        });
        self.frame.release(mark);
        Ok(())
    }

    /// The error of the system call that returns; else 0.
    fn errno(&mut self) {
        if self.site != Site::SyscallReturn {
            self.code.constant(0, 0);
            return;
        }
        let [failed, done] = self.code.labels();
        self.code
            .load(dwell_abi::program::instruction::Width::W8, 0, 6, 8);
        self.code.jump_imm(Jump::SLt, 0, 0, failed);
        self.code.constant(0, 0);
        self.code.jump(done);
        self.code.place(failed);
        self.code.alu_imm(Alu::Neg, 0, 0);
        self.code.place(done);
    }

    /// Who called the kernel's function where the probe is: the second address of `stack()`. A probe in a program has
    /// been called by nobody in the kernel.
    fn kernel_caller(&mut self) -> Result<(), CodeError> {
        if !self.site.is_in_kernel() {
            self.code.constant(0, 0);
            return Ok(());
        }
        let mark = self.frame.mark();
        let at = self.frame.buffer(16)?;
        self.zero(at, 16);
        self.code.mov(1, 6);
        self.address(2, at);
        self.code.constant(3, 16);
        self.code.constant(4, 0);
        self.code.call(op::STACK);
        self.load_word(0, at.plus(8));
        self.frame.release(mark);
        Ok(())
    }

    /// How deep a stack is.
    fn depth(&mut self, user: bool) -> Result<(), CodeError> {
        const MAX_FRAMES: u32 = 127;
        if !self.frame.has_slot {
            return Err(CodeError::TooDeep);
        }
        let mark = self.frame.mark();
        let at = self.frame.buffer(8 * MAX_FRAMES)?;
        self.take_stack(at, 8 * MAX_FRAMES, user);
        let fine = self.code.label();
        self.code.jump_imm(Jump::SGe, 0, 0, fine);
        self.code.constant(0, 0);
        self.code.place(fine);
        self.code.alu_imm(Alu::Rsh, 0, 3);
        self.frame.release(mark);
        Ok(())
    }

    /// A name.
    pub(super) fn builtin_string(
        &mut self,
        builtin: Builtin,
        span: Span,
    ) -> Result<Location, CodeError> {
        let to = self.new_string()?;
        self.zero_string(to);
        let part = match builtin {
            Builtin::Execname => {
                self.address(1, to);
                self.code
                    .constant(2, i64::from(NAME_SIZE.min(self.strsize())));
                self.code.call(op::NAME);
                return Ok(to);
            }
            Builtin::ProbeProvider => 0,
            Builtin::ProbeModule => 1,
            Builtin::ProbeFunction => 2,
            Builtin::ProbeName => 3,
            _ => return Err(CodeError::unsupported("a number as a string", span)),
        };
        let mark = self.frame.mark();
        let key = self.frame.temporary()?;
        self.store_word(key, 7);
        self.lookup(NAMES, key);
        let missing = self.code.label();
        self.code.jump_imm(Jump::Eq, 0, 0, missing);
        let size = self.strsize();
        self.code.mov(3, 0);
        self.code.alu_imm(Alu::Add, 3, (part * size) as i32);
        self.address(1, to);
        self.copy_call(size);
        self.code.place(missing);
        self.frame.release(mark);
        Ok(to)
    }
}
