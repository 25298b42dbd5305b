//! Instructions in their standard encoding, and how to make them.

/// One instruction; a constant of 64 bits takes two.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Instruction {
    /// What it does: class in the low three bits.
    pub opcode: u8,
    /// The register that is changed, 0 to 10.
    pub dst: u8,
    /// The other register.
    pub src: u8,
    /// A distance in bytes (memory) or instructions (jumps).
    pub offset: i16,
    /// A constant.
    pub imm: i32,
}

/// Classes of instructions.
pub mod class {
    #![allow(missing_docs, reason = "the names of the standard")]
    pub const LD: u8 = 0;
    pub const LDX: u8 = 1;
    pub const ST: u8 = 2;
    pub const STX: u8 = 3;
    pub const ALU32: u8 = 4;
    pub const JMP: u8 = 5;
    pub const JMP32: u8 = 6;
    pub const ALU64: u8 = 7;
}

/// Arithmetic: the high four bits of `ALU64`'s opcodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names of the standard")]
pub enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    /// Unsigned; 0 by zero.
    Div = 0x30,
    Or = 0x40,
    And = 0x50,
    Lsh = 0x60,
    Rsh = 0x70,
    Neg = 0x80,
    /// Unsigned; the dividend by zero.
    Mod = 0x90,
    Xor = 0xa0,
    Mov = 0xb0,
    Arsh = 0xc0,
}

/// Conditions: the high four bits of `JMP`'s opcodes. `S` compares signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names of the standard")]
pub enum Jump {
    Always = 0x00,
    Eq = 0x10,
    Gt = 0x20,
    Ge = 0x30,
    Ne = 0x50,
    SGt = 0x60,
    SGe = 0x70,
    Lt = 0xa0,
    Le = 0xb0,
    SLt = 0xc0,
    SLe = 0xd0,
}

/// Widths of loads and stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs, reason = "bytes")]
pub enum Width {
    W4 = 0x00,
    W2 = 0x08,
    W1 = 0x10,
    W8 = 0x18,
}

impl Width {
    /// The width of so many bytes: 1, 2, 4 or 8.
    pub fn of(bytes: u32) -> Option<Width> {
        match bytes {
            1 => Some(Width::W1),
            2 => Some(Width::W2),
            4 => Some(Width::W4),
            8 => Some(Width::W8),
            _ => None,
        }
    }

    /// Bytes.
    pub fn bytes(self) -> u32 {
        match self {
            Width::W1 => 1,
            Width::W2 => 2,
            Width::W4 => 4,
            Width::W8 => 8,
        }
    }

    /// The width that an opcode of a load or store names.
    pub fn from_opcode(opcode: u8) -> Width {
        match opcode & 0x18 {
            0x00 => Width::W4,
            0x08 => Width::W2,
            0x10 => Width::W1,
            _ => Width::W8,
        }
    }
}

/// The source operand is a register.
pub const REGISTER: u8 = 0x08;
/// A load or store at register plus distance.
pub const MEM: u8 = 0x60;
/// An atomic operation; which one, the constant says.
pub const ATOMIC: u8 = 0xc0;
/// A constant of 64 bits.
pub const LOAD_64: u8 = 0x18;
/// A call of an operation.
pub const CALL: u8 = 0x85;
/// The end of the program.
pub const EXIT: u8 = 0x95;
/// Reverses the bytes of a register (of its low `imm` bits; the others become zero), on a little-endian machine.
pub const SWAP: u8 = 0xdc;
/// A jump that is never taken, at the head of a loop: by it the kernel's verifier knows that the loop ends, and that it
/// need not follow it turn by turn. The kernel takes it when a program runs for far too long; who does not know it
/// (before Linux 6.9) is given an instruction that does nothing.
pub const MAY_GIVE_UP: u8 = 0xe5;
/// `src` of a `LOAD_64` whose constant is a store.
pub const STORE: u8 = 1;
/// `src` of a `LOAD_64` that gives the address of a store of memory plus the constant in the second half.
pub const STORE_ADDRESS: u8 = 2;

/// Atomic operations on 8 bytes.
pub mod atomic {
    /// Adds the source register.
    pub const ADD: i32 = 0x00;
    /// As `ADD`; the source register gets what was there.
    pub const FETCH_ADD: i32 = 0x01;
    /// Writes the source register if register 0 is what is there; register 0 gets what was there.
    pub const COMPARE_EXCHANGE: i32 = 0xf1;
}

impl Instruction {
    /// `dst = dst op src` with 64 bits.
    pub fn alu(op: Alu, dst: u8, src: u8) -> Self {
        let opcode = op as u8 | REGISTER | class::ALU64;
        Instruction {
            opcode,
            dst,
            src,
            ..Default::default()
        }
    }

    /// `dst = dst op imm` with 64 bits; the constant is sign-extended.
    pub fn alu_imm(op: Alu, dst: u8, imm: i32) -> Self {
        let opcode = op as u8 | class::ALU64;
        Instruction {
            opcode,
            dst,
            imm,
            ..Default::default()
        }
    }

    /// A jump over `offset` instructions if `dst condition src`.
    pub fn jump(condition: Jump, dst: u8, src: u8, offset: i16) -> Self {
        let opcode = condition as u8 | REGISTER | class::JMP;
        Instruction {
            opcode,
            dst,
            src,
            offset,
            imm: 0,
        }
    }

    /// A jump over `offset` instructions if `dst condition imm`.
    pub fn jump_imm(condition: Jump, dst: u8, imm: i32, offset: i16) -> Self {
        let opcode = condition as u8 | class::JMP;
        Instruction {
            opcode,
            dst,
            src: 0,
            offset,
            imm,
        }
    }

    /// See [`MAY_GIVE_UP`]; the jump goes over `offset` instructions.
    pub fn may_give_up(offset: i16) -> Self {
        Instruction {
            opcode: MAY_GIVE_UP,
            offset,
            ..Default::default()
        }
    }

    /// `dst = *(src + offset)`, zero-extended.
    pub fn load(width: Width, dst: u8, src: u8, offset: i16) -> Self {
        let opcode = class::LDX | MEM | width as u8;
        Instruction {
            opcode,
            dst,
            src,
            offset,
            imm: 0,
        }
    }

    /// `*(dst + offset) = src`.
    pub fn store(width: Width, dst: u8, offset: i16, src: u8) -> Self {
        let opcode = class::STX | MEM | width as u8;
        Instruction {
            opcode,
            dst,
            src,
            offset,
            imm: 0,
        }
    }

    /// `*(dst + offset) = imm`, sign-extended.
    pub fn store_imm(width: Width, dst: u8, offset: i16, imm: i32) -> Self {
        let opcode = class::ST | MEM | width as u8;
        Instruction {
            opcode,
            dst,
            src: 0,
            offset,
            imm,
        }
    }

    /// An operation of [`atomic`] on the 8 bytes at `dst + offset`.
    pub fn atomic(operation: i32, dst: u8, offset: i16, src: u8) -> Self {
        let opcode = class::STX | ATOMIC | Width::W8 as u8;
        Instruction {
            opcode,
            dst,
            src,
            offset,
            imm: operation,
        }
    }

    /// `dst` = the constant.
    pub fn load_64(dst: u8, value: u64) -> [Self; 2] {
        Self::pair(dst, 0, value as u32 as i32, (value >> 32) as i32)
    }

    /// `dst` = a store, as operations take it.
    pub fn load_store(dst: u8, store: u32) -> [Self; 2] {
        Self::pair(dst, STORE, store as i32, 0)
    }

    /// `dst` = an address in a store of memory.
    pub fn load_address(dst: u8, store: u32, offset: u32) -> [Self; 2] {
        Self::pair(dst, STORE_ADDRESS, store as i32, offset as i32)
    }

    fn pair(dst: u8, src: u8, low: i32, high: i32) -> [Self; 2] {
        let first = Instruction {
            opcode: LOAD_64,
            dst,
            src,
            offset: 0,
            imm: low,
        };
        [
            first,
            Instruction {
                imm: high,
                ..Default::default()
            },
        ]
    }

    /// A call of an operation.
    pub fn call(operation: u32) -> Self {
        Instruction {
            opcode: CALL,
            imm: operation as i32,
            ..Default::default()
        }
    }

    /// The end of the program; register 0 is its result.
    pub fn exit() -> Self {
        Instruction {
            opcode: EXIT,
            ..Default::default()
        }
    }

    /// The bytes of a register in reverse, for 16, 32 or 64 bits.
    pub fn swap(dst: u8, bits: i32) -> Self {
        Instruction {
            opcode: SWAP,
            dst,
            imm: bits,
            ..Default::default()
        }
    }

    /// The 64 bits that the kernel takes, on a little-endian machine.
    pub fn encode(self) -> u64 {
        let registers = u64::from(self.dst & 15) | u64::from(self.src & 15) << 4;
        u64::from(self.opcode)
            | registers << 8
            | u64::from(self.offset as u16) << 16
            | u64::from(self.imm as u32) << 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_those_of_the_standard() {
        // As a disassembler prints them: r0 = 5; *(u64 *)(r10 - 8) = r6; if r1 == 0 goto +2; exit.
        assert_eq!(
            Instruction::alu_imm(Alu::Mov, 0, 5).encode(),
            0x0000_0005_0000_00b7
        );
        assert_eq!(
            Instruction::store(Width::W8, 10, -8, 6).encode(),
            0x0000_0000_fff8_6a7b
        );
        assert_eq!(
            Instruction::jump_imm(Jump::Eq, 1, 0, 2).encode(),
            0x0000_0000_0002_0115
        );
        assert_eq!(Instruction::exit().encode(), 0x0000_0000_0000_0095);
        assert_eq!(Instruction::call(14).encode(), 0x0000_000e_0000_0085);
        assert_eq!(
            Instruction::load_store(1, 3)[0].encode(),
            0x0000_0003_0000_1118
        );
    }
}
