//! The interpreter: what a program means.
use super::instruction::{
    ATOMIC, CALL, EXIT, LOAD_64, MAY_GIVE_UP, REGISTER, STORE, STORE_ADDRESS, SWAP, Width,
};
use super::instruction::{Instruction, atomic, class};
use super::memory::Memory;
use super::{REGISTERS, STACK_SIZE};

/// Why a program was ended. None of these is possible in a program that the kernel accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// No such instruction, or a jump beyond the program.
    Instruction(usize),
    /// A load or store at an address that is not the program's.
    Address(usize, u64),
    /// A call of an operation that is not there, or with arguments it does not take.
    Operation(u32),
    /// More steps than allowed.
    Steps,
}

/// What gives a program its operations and stores.
pub trait Machine {
    /// The memory that loads and stores reach.
    fn memory(&mut self) -> &mut Memory;
    /// Does an operation.
    fn call(&mut self, operation: u32, arguments: [u64; 5]) -> Result<u64, Fault>;
    /// A store as operations take it.
    fn store(&mut self, store: u32) -> Option<u64>;
    /// Where a store of memory begins.
    fn store_address(&mut self, store: u32) -> Option<u64>;
}

/// Runs a program; `context` is what register 1 holds at its start. Gives register 0.
pub fn run(
    code: &[Instruction],
    machine: &mut impl Machine,
    context: u64,
    max_steps: u64,
) -> Result<u64, Fault> {
    let stack = machine.memory().add_zeroed(STACK_SIZE);
    let mut registers = [0; REGISTERS];
    registers[1] = context;
    registers[10] = machine.memory().address(stack) + STACK_SIZE as u64;
    let mut run = Run {
        code,
        registers,
        next: 0,
    };
    for _ in 0..max_steps {
        if run.step(machine)? {
            return Ok(run.registers[0]);
        }
    }
    Err(Fault::Steps)
}

struct Run<'a> {
    code: &'a [Instruction],
    registers: [u64; REGISTERS],
    /// The next instruction.
    next: usize,
}

impl Run<'_> {
    /// True at the end.
    fn step(&mut self, machine: &mut impl Machine) -> Result<bool, Fault> {
        let at = self.next;
        let i = *self.code.get(at).ok_or(Fault::Instruction(at))?;
        if usize::from(i.dst.max(i.src)) >= REGISTERS {
            return Err(Fault::Instruction(at));
        }
        self.next += 1;
        match i.opcode {
            EXIT => return Ok(true),
            MAY_GIVE_UP => {}
            CALL => self.call(i, machine)?,
            LOAD_64 => self.load_64(i, at, machine)?,
            SWAP => self.registers[usize::from(i.dst)] = swapped(self.dst(i), i.imm, at)?,
            _ => match i.opcode & 7 {
                class::ALU64 | class::ALU32 => self.arithmetic(i, at)?,
                class::JMP => self.jump(i, at)?,
                class::LDX | class::ST | class::STX => self.access(i, at, machine.memory())?,
                _ => return Err(Fault::Instruction(at)),
            },
        }
        Ok(false)
    }

    fn dst(&self, i: Instruction) -> u64 {
        self.registers[usize::from(i.dst)]
    }

    fn src(&self, i: Instruction) -> u64 {
        self.registers[usize::from(i.src)]
    }

    fn operand(&self, i: Instruction) -> u64 {
        if i.opcode & REGISTER != 0 {
            self.src(i)
        } else {
            i64::from(i.imm) as u64
        }
    }

    fn call(&mut self, i: Instruction, machine: &mut impl Machine) -> Result<(), Fault> {
        let [_, a, b, c, d, e, ..] = self.registers;
        self.registers[0] = machine.call(i.imm as u32, [a, b, c, d, e])?;
        // Whoever relies on an argument's register after a call is found out.
        self.registers[1..=5].fill(0xdead_dead_dead_dead);
        Ok(())
    }

    fn load_64(
        &mut self,
        i: Instruction,
        at: usize,
        machine: &mut impl Machine,
    ) -> Result<(), Fault> {
        let second = self.code.get(self.next).ok_or(Fault::Instruction(at))?.imm as u32;
        self.next += 1;
        let first = i.imm as u32;
        let value = match i.src {
            0 => Some(u64::from(first) | u64::from(second) << 32),
            STORE => machine.store(first),
            STORE_ADDRESS => machine.store_address(first).map(|a| a + u64::from(second)),
            _ => None,
        };
        self.registers[usize::from(i.dst)] = value.ok_or(Fault::Instruction(at))?;
        Ok(())
    }

    fn arithmetic(&mut self, i: Instruction, at: usize) -> Result<(), Fault> {
        let wide = i.opcode & 7 == class::ALU64;
        let (mut a, mut b) = (self.dst(i), self.operand(i));
        if !wide {
            (a, b) = (u64::from(a as u32), u64::from(b as u32));
        }
        let bits = if wide { 63 } else { 31 };
        let shift = (b & bits) as u32;
        let value = match i.opcode & 0xf0 {
            0x00 => a.wrapping_add(b),
            0x10 => a.wrapping_sub(b),
            0x20 => a.wrapping_mul(b),
            0x30 => a.checked_div(b).unwrap_or(0),
            0x40 => a | b,
            0x50 => a & b,
            0x60 => a << shift,
            0x70 => a >> shift,
            0x80 => a.wrapping_neg(),
            0x90 => a.checked_rem(b).unwrap_or(a),
            0xa0 => a ^ b,
            0xb0 => b,
            0xc0 if wide => (a as i64 >> shift) as u64,
            0xc0 => (a as i32 >> shift) as u64,
            _ => return Err(Fault::Instruction(at)),
        };
        self.registers[usize::from(i.dst)] = if wide { value } else { u64::from(value as u32) };
        Ok(())
    }

    fn jump(&mut self, i: Instruction, at: usize) -> Result<(), Fault> {
        let (a, b) = (self.dst(i), self.operand(i));
        let (sa, sb) = (a as i64, b as i64);
        let taken = match i.opcode & 0xf0 {
            0x00 => true,
            0x10 => a == b,
            0x20 => a > b,
            0x30 => a >= b,
            0x50 => a != b,
            0x60 => sa > sb,
            0x70 => sa >= sb,
            0xa0 => a < b,
            0xb0 => a <= b,
            0xc0 => sa < sb,
            0xd0 => sa <= sb,
            _ => return Err(Fault::Instruction(at)),
        };
        if taken {
            let next = self.next.checked_add_signed(isize::from(i.offset));
            self.next = next.ok_or(Fault::Instruction(at))?;
        }
        Ok(())
    }

    fn access(&mut self, i: Instruction, at: usize, memory: &mut Memory) -> Result<(), Fault> {
        let is_load = i.opcode & 7 == class::LDX;
        let base = if is_load { self.src(i) } else { self.dst(i) };
        let address = base.wrapping_add_signed(i64::from(i.offset));
        let size = Width::from_opcode(i.opcode).bytes() as usize;
        let fault = Fault::Address(at, address);
        if is_load {
            self.registers[usize::from(i.dst)] = memory.load(address, size).ok_or(fault)?;
            return Ok(());
        }
        let value = if i.opcode & 7 == class::ST {
            i64::from(i.imm) as u64
        } else {
            self.src(i)
        };
        if i.opcode & 0xe0 != ATOMIC {
            return memory.store(address, size, value).ok_or(fault);
        }
        let there = memory.load(address, 8).ok_or(fault)?;
        let new = match i.imm {
            atomic::ADD | atomic::FETCH_ADD => there.wrapping_add(value),
            atomic::COMPARE_EXCHANGE if there == self.registers[0] => value,
            atomic::COMPARE_EXCHANGE => there,
            _ => return Err(Fault::Instruction(at)),
        };
        match i.imm {
            atomic::FETCH_ADD => self.registers[usize::from(i.src)] = there,
            atomic::COMPARE_EXCHANGE => self.registers[0] = there,
            _ => {}
        }
        memory.store(address, 8, new).ok_or(fault)
    }
}

fn swapped(value: u64, bits: i32, at: usize) -> Result<u64, Fault> {
    match bits {
        16 => Ok(u64::from((value as u16).swap_bytes())),
        32 => Ok(u64::from((value as u32).swap_bytes())),
        64 => Ok(value.swap_bytes()),
        _ => Err(Fault::Instruction(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::instruction::{Alu, Jump};
    use super::super::model::{Model, Nothing};
    use super::*;

    fn result(code: &[Instruction]) -> Result<u64, Fault> {
        run(code, &mut Model::new(&[], Nothing), 0, 1000)
    }

    #[test]
    fn arithmetic_is_that_of_the_standard() {
        let binary = |op, a: i64, b: i64| {
            let code = [
                &Instruction::load_64(0, a as u64)[..],
                &Instruction::load_64(1, b as u64),
                &[Instruction::alu(op, 0, 1), Instruction::exit()],
            ];
            result(&code.concat()).map(|v| v as i64)
        };
        assert_eq!(binary(Alu::Div, 7, 0), Ok(0));
        assert_eq!(binary(Alu::Mod, 7, 0), Ok(7));
        assert_eq!(binary(Alu::Div, -2, 2), Ok(i64::MAX), "without sign");
        assert_eq!(binary(Alu::Arsh, -8, 1), Ok(-4));
        assert_eq!(binary(Alu::Lsh, 1, 65), Ok(2));
    }

    #[test]
    fn what_a_program_may_not_do_ends_it() {
        assert_eq!(result(&[]), Err(Fault::Instruction(0)));
        let load = Instruction::load(Width::W8, 0, 10, 0);
        assert!(matches!(result(&[load]), Err(Fault::Address(0, _))));
        let forever = Instruction::jump_imm(Jump::Always, 0, 0, -1);
        assert_eq!(result(&[forever]), Err(Fault::Steps));
        assert_eq!(
            result(&[Instruction::call(99_999)]),
            Err(Fault::Operation(99_999))
        );
    }
}
