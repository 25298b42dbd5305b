//! One instruction after the other.
use crate::encode::*;
use crate::facts::Facts;
use crate::frame::{Frame, FromContext, Shape, scratch};
use crate::idiom::{LOGARITHM, is_logarithm, logarithm};
use crate::inlined::{Nearby, Seldom, Sums};
use dwell_abi::program::instruction::{
    ATOMIC, CALL, EXIT, LOAD_64, MAY_GIVE_UP, MEM, REGISTER, STORE, STORE_ADDRESS, SWAP, Width,
    class,
};
use dwell_abi::program::{Instruction, REGISTERS, operation};

/// What code needs to know of where it will be. All addresses are those of the process that runs it.
pub trait Links {
    /// The function that does an operation; none where there is none.
    fn operation(&self, operation: u32) -> Option<u64>;
    /// A store as operations take it.
    fn store(&self, store: u32) -> u64;
    /// Where a store of memory begins.
    fn store_address(&self, store: u32) -> u64;
    /// What operations are given as their sixth argument.
    fn state(&self) -> u64;
    /// What allows common operations without calls. None where others than the target's threads run the code.
    fn nearby(&self) -> Option<Nearby> {
        None
    }
    /// What is known of a store of sums.
    fn sums(&self, _store: u32) -> Option<Sums> {
        None
    }
}

/// Why there is no code for a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TranslateError {
    /// An operation that is only there in the kernel.
    #[error("operation {0} is not there")]
    Operation(u32),
    /// A part of the context that is only there in the kernel.
    #[error("byte {0} of the context is not there")]
    Context(i16),
    /// An instruction that no program of ours has.
    #[error("instruction {0} is not known")]
    Instruction(usize),
    /// The code would be too far from what it uses.
    #[error("the code is too far from what it calls")]
    TooFar,
}

/// The registers of programs; 10, and 6 where it has the context, are none.
const MAP: [Reg; REGISTERS - 1] = [RAX, RDI, RSI, RDX, RCX, R8, RBX, R13, R14, R15];
pub(crate) const CONTEXT: u8 = 6;
pub(crate) const STACK_END: u8 = 10;

/// Makes the code of a program that will stand at an address.
pub fn translate(
    program: &[Instruction],
    frame: Frame,
    links: &dyn Links,
    at: u64,
) -> Result<Vec<u8>, TranslateError> {
    let facts = Facts::of(program, frame, links)?;
    let make = |written| {
        let mut translator = Translator {
            program,
            links,
            facts: &facts,
            code: Code::new(at),
            shape: Shape::new(frame, written, facts.stack, facts.words),
            starts: vec![None; program.len()],
            jumps: Vec::new(),
            exits: Vec::new(),
            seldom: Vec::new(),
        };
        translator.whole()?;
        Ok(translator.code)
    };
    // First as if every register were written to: that tells which ones are.
    let first = make(u16::MAX)?;
    if facts.needs_all {
        return Ok(first.bytes);
    }
    let second = make(first.written)?;
    debug_assert_eq!(second.written & !first.written, 0);
    Ok(second.bytes)
}

pub(crate) struct Translator<'a> {
    pub(crate) program: &'a [Instruction],
    pub(crate) links: &'a dyn Links,
    pub(crate) facts: &'a Facts,
    pub(crate) code: Code,
    pub(crate) shape: Shape,
    /// Where each instruction's code begins.
    starts: Vec<Option<usize>>,
    /// Jumps to instructions.
    jumps: Vec<(Hole, usize)>,
    /// Jumps to the end.
    exits: Vec<Hole>,
    /// Ways that are seldom taken, behind the rest.
    pub(crate) seldom: Vec<Seldom>,
}

impl Translator<'_> {
    fn whole(&mut self) -> Result<(), TranslateError> {
        self.exits = self.shape.enter(&mut self.code);
        let mut at = 0;
        while at < self.program.len() {
            self.starts[at] = Some(self.code.len());
            at = self.instruction(at)?;
        }
        for hole in std::mem::take(&mut self.exits) {
            self.code.land(hole);
        }
        self.shape.leave(&mut self.code);
        self.seldom_ways()?;
        for (hole, target) in std::mem::take(&mut self.jumps) {
            let start = self.starts.get(target).copied().flatten();
            let start = start.ok_or(TranslateError::Instruction(target))?;
            self.code.fill(hole, start);
        }
        Ok(())
    }

    /// Translates an instruction and says which one is next.
    fn instruction(&mut self, at: usize) -> Result<usize, TranslateError> {
        if is_logarithm(&self.program[at..]) {
            // A jump into its middle would be refused: nothing begins there any more.
            logarithm(&mut self.code);
            return Ok(at + LOGARITHM);
        }
        let i = self.program[at];
        let unknown = TranslateError::Instruction(at);
        if usize::from(i.dst.max(i.src)) >= REGISTERS {
            return Err(unknown);
        }
        match i.opcode {
            EXIT => {
                let is_last = at + 1 == self.program.len();
                if !is_last {
                    let hole = self.code.jump();
                    self.exits.push(hole);
                }
            }
            MAY_GIVE_UP => {}
            CALL => self.call(i.imm as u32, at)?,
            LOAD_64 => {
                self.load_64(i, at).ok_or(unknown)?;
                return Ok(at + 2);
            }
            SWAP => self.swap(i).ok_or(unknown)?,
            _ => match i.opcode & 7 {
                class::ALU64 | class::ALU32 => self.arithmetic(i, at).ok_or(unknown)?,
                class::JMP => self.jump(i, at).ok_or(unknown)?,
                class::LDX if i.opcode & 0xe0 == MEM => self.load(i, at)?,
                class::ST | class::STX => self.store(i).ok_or(unknown)?,
                _ => return Err(unknown),
            },
        }
        Ok(at + 1)
    }

    /// A register that can be changed.
    pub(crate) fn register(&self, number: u8) -> Option<Reg> {
        let is_fixed = self.facts.has_context && number == CONTEXT;
        MAP.get(usize::from(number)).copied().filter(|_| !is_fixed)
    }

    /// Where a register that is none points to.
    fn fixed(&self, number: u8) -> Mem {
        if number == STACK_END {
            self.shape.stack_end()
        } else {
            self.shape.context()
        }
    }

    /// A register's value, in a register.
    pub(crate) fn value(&mut self, number: u8, scratch: Reg) -> Reg {
        self.register(number).unwrap_or_else(|| {
            let of = self.fixed(number);
            self.code.address(scratch, of);
            scratch
        })
    }

    /// Memory at a register plus a distance.
    fn memory(&self, base: u8, distance: i16) -> Mem {
        let mut mem = self
            .register(base)
            .map_or_else(|| self.fixed(base), |base| Mem { base, distance: 0 });
        mem.distance += i32::from(distance);
        mem
    }

    fn call(&mut self, number: u32, at: usize) -> Result<(), TranslateError> {
        if number == operation::COOKIE && self.facts.has_context {
            self.code.load(4, RAX, self.shape.number());
            return Ok(());
        }
        match self.links.nearby() {
            Some(nearby) if self.inlined(number, at, nearby)? => Ok(()),
            _ => self.plain_call(self.target(number)?),
        }
    }

    /// The function that does an operation.
    pub(crate) fn target(&self, number: u32) -> Result<u64, TranslateError> {
        let target = self.links.operation(number);
        target.ok_or(TranslateError::Operation(number))
    }

    /// A call of a function, which may change what calls may change.
    pub(crate) fn plain_call(&mut self, target: u64) -> Result<(), TranslateError> {
        self.code.mov_64(R9, self.links.state());
        self.code.written |= scratch();
        match self.code.call(target) {
            true => Ok(()),
            false => Err(TranslateError::TooFar),
        }
    }

    fn load_64(&mut self, i: Instruction, at: usize) -> Option<()> {
        let (first, second) = (i.imm as u32, self.program.get(at + 1)?.imm as u32);
        let value = match i.src {
            0 => u64::from(first) | u64::from(second) << 32,
            STORE => self.links.store(first),
            STORE_ADDRESS => self.links.store_address(first) + u64::from(second),
            _ => return None,
        };
        self.code.mov_64(self.register(i.dst)?, value);
        Some(())
    }

    fn swap(&mut self, i: Instruction) -> Option<()> {
        let dst = self.register(i.dst)?;
        match i.imm {
            16 => self.code.swap_16(dst),
            32 => self.code.swap(false, dst),
            64 => self.code.swap(true, dst),
            _ => return None,
        }
        Some(())
    }

    fn arithmetic(&mut self, i: Instruction, at: usize) -> Option<()> {
        if self.facts.has_context && at == 0 {
            // The context's copy, which needs none.
            return Some(());
        }
        let wide = i.opcode & 7 == class::ALU64;
        let dst = self.register(i.dst)?;
        let two = match i.opcode & 0xf0 {
            0x00 => Two::Add,
            0x10 => Two::Sub,
            0x40 => Two::Or,
            0x50 => Two::And,
            0xa0 => Two::Xor,
            0xb0 => {
                self.mov(wide, dst, i);
                return Some(());
            }
            0x80 => {
                self.code.negate(wide, dst);
                return Some(());
            }
            0x20 => {
                self.multiply(wide, dst, i);
                return Some(());
            }
            0x30 | 0x90 => {
                self.divide(wide, dst, i);
                return Some(());
            }
            0x60 => return self.shift(wide, Shift::Left, dst, i),
            0x70 => return self.shift(wide, Shift::Right, dst, i),
            0xc0 => return self.shift(wide, Shift::Signed, dst, i),
            _ => return None,
        };
        if i.opcode & REGISTER == 0 {
            self.code.constant(wide, two, dst, i.imm);
        } else {
            let src = self.value(i.src, R11);
            self.code.two(wide, two, dst, src);
        }
        Some(())
    }

    fn mov(&mut self, wide: bool, dst: Reg, i: Instruction) {
        if i.opcode & REGISTER == 0 {
            // Half a register's write clears the other half.
            match wide {
                true => self.code.mov_constant(dst, i.imm),
                false => self.code.mov_64(dst, u64::from(i.imm as u32)),
            }
        } else if wide && self.register(i.src).is_none() {
            let of = self.fixed(i.src);
            self.code.address(dst, of);
        } else {
            let src = self.value(i.src, R11);
            match wide {
                true => self.code.mov(dst, src),
                false => self.code.two(false, Two::Mov, dst, src),
            }
        }
    }

    fn multiply(&mut self, wide: bool, dst: Reg, i: Instruction) {
        if i.opcode & REGISTER == 0 {
            self.code.multiply_constant(wide, dst, i.imm);
        } else {
            let src = self.value(i.src, R11);
            self.code.multiply(wide, dst, src);
        }
    }

    /// By zero, a quotient is 0 and a remainder what was divided.
    fn divide(&mut self, wide: bool, dst: Reg, i: Instruction) {
        let is_quotient = i.opcode & 0xf0 == 0x30;
        if i.opcode & REGISTER == 0 {
            self.code.mov_constant(R11, i.imm);
        } else {
            let src = self.value(i.src, R11);
            self.code.mov(R11, src);
        }
        let code = &mut self.code;
        code.two(wide, Two::Test, R11, R11);
        let by_zero = code.jump_if(Condition::Equal);
        code.mov(R9, RAX);
        code.mov(R10, RDX);
        code.mov(RAX, dst);
        code.two(false, Two::Xor, RDX, RDX);
        code.divide(wide, R11);
        code.mov(R11, if is_quotient { RAX } else { RDX });
        code.mov(RAX, R9);
        code.mov(RDX, R10);
        code.mov(dst, R11);
        let done = code.jump();
        code.land(by_zero);
        match (is_quotient, wide) {
            (true, _) => code.mov_constant(dst, 0),
            (false, true) => {}
            (false, false) => code.two(false, Two::Mov, dst, dst),
        }
        code.land(done);
    }

    fn shift(&mut self, wide: bool, shift: Shift, dst: Reg, i: Instruction) -> Option<()> {
        if i.opcode & REGISTER == 0 {
            let bits = if wide { 63 } else { 31 };
            let by = (i.imm & bits) as u8;
            match by {
                0 if wide => {}
                0 => self.code.two(false, Two::Mov, dst, dst),
                _ => self.code.shift_constant(wide, shift, dst, by),
            }
            return Some(());
        }
        let by = self.value(i.src, R10);
        let code = &mut self.code;
        // Only rcx counts; whoever has it gets it back.
        code.mov(R11, dst);
        code.mov(R10, by);
        code.mov(R9, RCX);
        code.mov(RCX, R10);
        code.shift(wide, shift, R11);
        if !wide {
            // A shift by nothing leaves the upper half.
            code.two(false, Two::Mov, R11, R11);
        }
        code.mov(RCX, R9);
        code.mov(dst, R11);
        Some(())
    }

    fn jump(&mut self, i: Instruction, at: usize) -> Option<()> {
        let target = (at + 1).checked_add_signed(isize::from(i.offset))?;
        let condition = match i.opcode & 0xf0 {
            0x00 => None,
            0x10 => Some(Condition::Equal),
            0x20 => Some(Condition::Above),
            0x30 => Some(Condition::AboveOrEqual),
            0x50 => Some(Condition::NotEqual),
            0x60 => Some(Condition::Greater),
            0x70 => Some(Condition::GreaterOrEqual),
            0xa0 => Some(Condition::Below),
            0xb0 => Some(Condition::BelowOrEqual),
            0xc0 => Some(Condition::Less),
            0xd0 => Some(Condition::LessOrEqual),
            _ => return None,
        };
        let hole = match condition {
            None => self.code.jump(),
            Some(condition) => {
                let a = self.value(i.dst, R10);
                if i.opcode & REGISTER == 0 {
                    self.code.constant(true, Two::Cmp, a, i.imm);
                } else {
                    let b = self.value(i.src, R11);
                    self.code.two(true, Two::Cmp, a, b);
                }
                self.code.jump_if(condition)
            }
        };
        self.jumps.push((hole, target));
        Some(())
    }

    fn load(&mut self, i: Instruction, at: usize) -> Result<(), TranslateError> {
        let dst = self.register(i.dst);
        let dst = dst.ok_or(TranslateError::Instruction(at))?;
        let width = Width::from_opcode(i.opcode).bytes();
        if !(self.facts.has_context && i.src == CONTEXT) {
            let from = self.memory(i.src, i.offset);
            self.code.load(width, dst, from);
            return Ok(());
        }
        match self.shape.of_context(i.offset.into(), width) {
            Some(FromContext::Saved(from)) => self.code.load(width, dst, from),
            Some(FromContext::Register(from)) => self.code.mov(dst, from),
            Some(FromContext::Address(of)) => self.code.address(dst, of),
            None => return Err(TranslateError::Context(i.offset)),
        }
        Ok(())
    }

    fn store(&mut self, i: Instruction) -> Option<()> {
        let width = Width::from_opcode(i.opcode).bytes();
        let to = self.memory(i.dst, i.offset);
        match (i.opcode & 7, i.opcode & 0xe0) {
            (class::ST, MEM) => self.code.store_constant(width, to, i.imm),
            (class::STX, MEM) => {
                let src = self.value(i.src, R11);
                self.code.store(width, to, src);
            }
            (class::STX, ATOMIC) if width == 8 => self.atomic(i, to)?,
            _ => return None,
        }
        Some(())
    }
}
