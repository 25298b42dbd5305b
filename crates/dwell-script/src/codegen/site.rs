//! What a program finds where its probe fires: the context, and how arguments are read from it.
use super::assembler::Label;
use super::error::CodeError;
use super::frame::Location;
use super::layout::control;
use super::program::Maker;
use crate::span::Span;
use dwell_abi::calls::{CALLS_OF_32, CODE_SEGMENT_32, SAME_NUMBERS};
use dwell_abi::program::instruction::{Alu, Jump, Width};
use dwell_abi::program::operation as op;

/// A kind of probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Site {
    /// BEGIN. The context is an array of arguments.
    Begin,
    /// END: also runs when the script has stopped.
    End,
    /// ERROR: where a clause of another probe cannot go on.
    Error,
    /// The first instruction of a function. The context has the registers of the user's side.
    Entry,
    /// After a function's return.
    Return,
    /// Any other instruction.
    Offset,
    /// A static probe; the number is of its arguments, see [`super::Generator::static_site`].
    Static(u32),
    /// The entry of a system call. The context: the address of the registers, the call's number.
    SyscallEntry,
    /// Its return. The context: the address of the registers, the result.
    SyscallReturn,
    /// A tracepoint of the kernel. The context has its arguments.
    Tracepoint,
    /// `profile`: at a time on all processors. The context has the registers of what was interrupted.
    Profile,
    /// `tick`: at a time on one processor.
    Tick,
}

/// How the probes of a program are numbered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Numbering {
    /// It has only this one.
    One(u32),
    /// By what each was attached with.
    Cookie,
    /// Probes of system calls: a probe's number is the call's plus `first`.
    SystemCalls {
        /// The number of call 0.
        first: u32,
        /// The calls where the program shall run.
        wanted: Vec<u32>,
    },
}

/// One more than the greatest number of a system call.
pub const SYSTEM_CALLS: u32 = 512;

/// Distances in the kernel's `struct pt_regs` of x86-64, in the order in which it has them: `uregs[]` counts so.
pub(super) mod registers {
    pub(crate) const BP: i16 = 32;
    pub(crate) const BX: i16 = 40;
    pub(crate) const R10: i16 = 56;
    pub(crate) const R9: i16 = 64;
    pub(crate) const R8: i16 = 72;
    pub(crate) const AX: i16 = 80;
    pub(crate) const CX: i16 = 88;
    pub(crate) const DX: i16 = 96;
    pub(crate) const SI: i16 = 104;
    pub(crate) const DI: i16 = 112;
    pub(crate) const ORIG_AX: i16 = 120;
    pub(crate) const IP: i16 = 128;
    pub(crate) const CS: i16 = 136;
    pub(crate) const SP: i16 = 152;
    /// How many there are.
    pub(crate) const COUNT: u8 = 21;
}
use registers::*;

/// Where functions find their first six arguments.
const FUNCTION: [i16; 6] = [DI, SI, DX, CX, R8, R9];
/// Where system calls do.
const SYSCALL: [i16; 6] = [DI, SI, DX, R10, R8, R9];
/// Where those of 32-bit code do.
const SYSCALL_32: [i16; 6] = [BX, CX, DX, SI, DI, BP];

impl Site {
    /// Whether the probe is in the kernel's code.
    pub(super) fn is_in_kernel(self) -> bool {
        matches!(
            self,
            Site::SyscallEntry
                | Site::SyscallReturn
                | Site::Tracepoint
                | Site::Profile
                | Site::Tick
        )
    }

    /// Whether the context holds the user's registers themselves.
    fn has_registers(self) -> bool {
        matches!(
            self,
            Site::Entry | Site::Return | Site::Offset | Site::Static(_)
        )
    }
}

impl Maker<'_, '_> {
    /// The number of the probe into register 7; leaves if the system call is none of the wanted ones.
    pub(super) fn probe_number(
        &mut self,
        numbering: &Numbering,
        end: Label,
    ) -> Result<(), CodeError> {
        match numbering {
            Numbering::One(number) => self.code.constant(7, i64::from(*number)),
            Numbering::Cookie => {
                self.code.mov(1, 6);
                self.code.call(op::COOKIE);
                self.code.mov(7, 0);
            }
            Numbering::SystemCalls { first, wanted } => {
                if self.site == Site::SyscallEntry {
                    self.code.load(Width::W8, 0, 6, 8);
                } else {
                    self.saved_register(ORIG_AX)?;
                }
                self.code.mov(7, 0);
                self.translate_32_bit(wanted, end)?;
                self.leave_unless_wanted(wanted, end);
                self.code.alu_imm(Alu::Add, 7, *first as i32);
            }
        }
        Ok(())
    }

    /// Register 7 has the number of a system call; where 32-bit code made it, it becomes that of the call of that name
    /// in 64-bit code. Leaves if neither is wanted.
    fn translate_32_bit(&mut self, wanted: &[u32], end: Label) -> Result<(), CodeError> {
        let of_32 = (0u32..).zip(CALLS_OF_32);
        let of_32 = of_32.filter(|(_, call)| wanted.contains(&(*call).into()));
        let either: Vec<u32> = wanted
            .iter()
            .copied()
            .chain(of_32.map(|(n, _)| n))
            .collect();
        self.leave_unless_wanted(&either, end);
        let is_32_bit = self.frame.temporary()?;
        self.is_32_bit = Some(is_32_bit);
        let done = self.code.label();
        self.store_constant(is_32_bit, 0);
        self.saved_register(CS)?;
        self.cut(0, 2, false);
        self.code
            .jump_imm(Jump::Ne, 0, CODE_SEGMENT_32.into(), done);
        self.store_constant(is_32_bit, 1);
        self.code.jump_imm(Jump::Ge, 7, SAME_NUMBERS.into(), done);
        let table = CALLS_OF_32.map(u16::to_le_bytes).concat();
        let at = self.generator.layout.constant(&table, table.len() as u32);
        self.address(1, Location::Memory(at));
        self.code.alu_imm(Alu::Lsh, 7, 1);
        self.code.alu(Alu::Add, 1, 7);
        self.code.load(Width::W2, 7, 1, 0);
        self.code.place(done);
        Ok(())
    }

    /// `argN` of a system call into register 0.
    fn call_argument(&mut self, n: usize) -> Result<(), CodeError> {
        let Some(is_32_bit) = self.is_32_bit else {
            return self.saved_register(SYSCALL[n]);
        };
        let [of_32, done] = self.code.labels();
        self.load_word(0, is_32_bit);
        self.code.jump_imm(Jump::Ne, 0, 0, of_32);
        self.saved_register(SYSCALL[n])?;
        self.code.jump(done);
        self.code.place(of_32);
        self.saved_register(SYSCALL_32[n])?;
        self.cut(0, 4, false);
        self.code.place(done);
        Ok(())
    }

    /// Register 7 has the number of a system call.
    fn leave_unless_wanted(&mut self, wanted: &[u32], end: Label) {
        let mut bits = [0u8; (SYSTEM_CALLS / 8) as usize];
        for number in wanted.iter().filter(|n| **n < SYSTEM_CALLS) {
            bits[(number / 8) as usize] |= 1 << (number % 8);
        }
        let at = self.generator.layout.constant(&bits, SYSTEM_CALLS / 8);
        self.code.jump_imm(Jump::Ge, 7, SYSTEM_CALLS as i32, end);
        self.code.mov(2, 7);
        self.code.alu_imm(Alu::Rsh, 2, 3);
        self.address(1, Location::Memory(at));
        self.code.alu(Alu::Add, 1, 2);
        self.code.load(Width::W1, 1, 1, 0);
        self.code.mov(2, 7);
        self.code.alu_imm(Alu::And, 2, 7);
        self.code.alu(Alu::Rsh, 1, 2);
        self.code.alu_imm(Alu::And, 1, 1);
        self.code.jump_imm(Jump::Eq, 1, 0, end);
    }

    /// `argN` into register 0.
    pub(super) fn argument(&mut self, n: u8, span: Span) -> Result<(), CodeError> {
        let n = usize::from(n);
        match self.site {
            Site::Entry | Site::Offset if n < FUNCTION.len() => {
                self.code.load(Width::W8, 0, 6, FUNCTION[n]);
            }
            Site::Entry | Site::Offset => {
                self.code.load(Width::W8, 0, 6, SP);
                self.code.alu_imm(Alu::Add, 0, 8 * (n as i32 - 5));
                self.read_memory(8)?;
            }
            Site::Error => self.error_argument(n),
            Site::Static(operands) => self.operand(operands, n, span)?,
            Site::Return if n == 1 => self.code.load(Width::W8, 0, 6, AX),
            Site::SyscallEntry if n < SYSCALL.len() => self.call_argument(n)?,
            Site::SyscallReturn if n < 2 => self.code.load(Width::W8, 0, 6, 8),
            Site::Tracepoint if n < 12 => self.code.load(Width::W8, 0, 6, 8 * n as i16),
            Site::Profile | Site::Tick if n < 2 => self.interrupted(n == 1)?,
            Site::Begin | Site::End | Site::Return | Site::SyscallEntry => {
                self.code.constant(0, 0);
            }
            Site::SyscallReturn | Site::Profile | Site::Tick => self.code.constant(0, 0),
            Site::Tracepoint => return Err(CodeError::unsupported(format!("arg{n}"), span)),
        }
        Ok(())
    }

    /// A register of the user's side into register 0: its distance in `pt_regs`.
    pub(super) fn user_register(&mut self, distance: i16) -> Result<(), CodeError> {
        if self.site.has_registers() {
            self.code.load(Width::W8, 0, 6, distance);
            return Ok(());
        }
        self.code.call(op::THREAD);
        self.code.mov(1, 0);
        self.code.call(op::USER_REGISTERS);
        self.code.mov(3, 0);
        self.read_kernel_word(distance)
    }

    /// The thread pointer of the thread that fired into register 0.
    pub(super) fn thread_pointer(&mut self) -> Result<(), CodeError> {
        self.generator.layout.needs_thread_pointer = true;
        self.code.call(op::TASK);
        self.code.mov(3, 0);
        self.load_word(1, Location::Memory(control::THREAD_POINTER));
        self.code.alu(Alu::Add, 3, 1);
        self.read_kernel_word(0)
    }

    /// Of the registers that a system call's context points to.
    fn saved_register(&mut self, distance: i16) -> Result<(), CodeError> {
        self.code.load(Width::W8, 3, 6, 0);
        self.read_kernel_word(distance)
    }

    /// Eight bytes of the kernel's memory behind the address in register 3, into register 0.
    pub(super) fn read_kernel_word(&mut self, distance: i16) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let word = self.frame.temporary()?;
        self.code.alu_imm(Alu::Add, 3, i32::from(distance));
        self.store_constant(word, 0);
        self.address(1, word);
        self.code.constant(2, 8);
        self.code.call(op::READ_KERNEL);
        self.load_word(0, word);
        self.frame.release(mark);
        Ok(())
    }

    /// Where the interrupted code was: in the kernel (0 if it was not) or on the user's side.
    fn interrupted(&mut self, user: bool) -> Result<(), CodeError> {
        let done = self.code.label();
        let in_kernel = self.code.label();
        self.code.load(Width::W8, 1, 6, CS);
        self.code.alu_imm(Alu::And, 1, 3);
        if !user {
            self.code.constant(0, 0);
            self.code.jump_imm(Jump::Ne, 1, 0, done);
            self.code.load(Width::W8, 0, 6, IP);
            self.code.place(in_kernel);
        } else {
            self.code.jump_imm(Jump::Eq, 1, 0, in_kernel);
            self.code.load(Width::W8, 0, 6, IP);
            self.code.jump(done);
            self.code.place(in_kernel);
            self.user_register(IP)?;
        }
        self.code.place(done);
        Ok(())
    }

    /// The return address on top of the user's stack, where a function is entered; the second of `ustack()` where a
    /// thread may be anywhere.
    pub(super) fn user_caller(&mut self) -> Result<(), CodeError> {
        if self.site.is_in_kernel() {
            if !self.frame.has_slot {
                return Err(CodeError::TooDeep);
            }
            let mark = self.frame.mark();
            let at = self.frame.buffer(16)?;
            self.zero(at, 16);
            self.take_stack(at, 16, true);
            self.load_word(0, at.plus(8));
            self.frame.release(mark);
            return Ok(());
        }
        self.user_register(SP)?;
        self.read_memory(8)
    }

    /// The address of a location into a register.
    pub(super) fn address(&mut self, dst: u8, at: Location) {
        use dwell_abi::program::Instruction;
        match at {
            Location::Stack(offset) => {
                self.code.mov(dst, 10);
                self.code.alu_imm(Alu::Add, dst, offset);
            }
            Location::Slot(offset) => {
                self.code.mov(dst, 9);
                self.code.alu_imm(Alu::Add, dst, offset);
            }
            Location::Memory(offset) => {
                self.code
                    .pair(Instruction::load_address(dst, super::MEMORY, offset));
            }
        }
    }
}
