//! The instructions of x86-64 that are needed, as bytes.

/// A general register by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reg(pub(crate) u8);

pub(crate) const RAX: Reg = Reg(0);
pub(crate) const RCX: Reg = Reg(1);
pub(crate) const RDX: Reg = Reg(2);
pub(crate) const RBX: Reg = Reg(3);
pub(crate) const RSP: Reg = Reg(4);
pub(crate) const RBP: Reg = Reg(5);
pub(crate) const RSI: Reg = Reg(6);
pub(crate) const RDI: Reg = Reg(7);
pub(crate) const R8: Reg = Reg(8);
pub(crate) const R9: Reg = Reg(9);
pub(crate) const R10: Reg = Reg(10);
pub(crate) const R11: Reg = Reg(11);
pub(crate) const R12: Reg = Reg(12);
pub(crate) const R13: Reg = Reg(13);
pub(crate) const R14: Reg = Reg(14);
pub(crate) const R15: Reg = Reg(15);

/// Memory at a register plus a distance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mem {
    pub(crate) base: Reg,
    pub(crate) distance: i32,
}

/// Operations of two operands by the opcode that has the register as source.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Two {
    Add = 0x01,
    Or = 0x09,
    And = 0x21,
    Sub = 0x29,
    Xor = 0x31,
    Cmp = 0x39,
    Test = 0x85,
    Mov = 0x89,
}

/// The same with a constant: the number that stands in the instruction's second byte.
fn digit(operation: Two) -> u8 {
    (operation as u8) >> 3
}

/// Shifts by their number.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Shift {
    Left = 4,
    Right = 5,
    Signed = 7,
}

/// Conditions by their number.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Condition {
    Below = 2,
    AboveOrEqual = 3,
    Equal = 4,
    NotEqual = 5,
    BelowOrEqual = 6,
    Above = 7,
    Less = 12,
    GreaterOrEqual = 13,
    LessOrEqual = 14,
    Greater = 15,
}

/// The prefix of locked instructions.
const LOCK: u8 = 0xf0;

/// Where a jump's distance is to be filled in.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(crate) struct Hole(usize);

/// Code that stands at an address.
#[derive(Debug)]
pub(crate) struct Code {
    pub(crate) bytes: Vec<u8>,
    /// A bit for each register that anything was written to.
    pub(crate) written: u16,
    at: u64,
}

impl Code {
    pub(crate) fn new(at: u64) -> Self {
        let (bytes, written) = (Vec::new(), 0);
        Code { bytes, written, at }
    }

    /// Bytes up to now.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    fn emit(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Notes that a register is written to.
    pub(crate) fn writes(&mut self, register: Reg) {
        self.written |= 1 << register.0;
    }

    /// REX: which registers are of the upper eight; nothing where it would say nothing.
    fn rex(&mut self, wide: bool, reg: u8, base: u8, forced: bool) {
        let bits = u8::from(wide) << 3 | (reg >> 3) << 2 | base >> 3;
        if bits != 0 || forced {
            self.emit(&[0x40 | bits]);
        }
    }

    fn registers(&mut self, reg: u8, rm: Reg) {
        self.emit(&[0xc0 | (reg & 7) << 3 | rm.0 & 7]);
    }

    fn memory(&mut self, reg: u8, mem: Mem) {
        let short = i8::try_from(mem.distance);
        let mode = if short.is_ok() { 0x40 } else { 0x80 };
        self.emit(&[mode | (reg & 7) << 3 | mem.base.0 & 7]);
        if mem.base.0 & 7 == RSP.0 {
            self.emit(&[0x24]);
        }
        match short {
            Ok(short) => self.emit(&short.to_le_bytes()),
            Err(_) => self.emit(&mem.distance.to_le_bytes()),
        }
    }

    /// `dst = dst op src`, or what it compares.
    pub(crate) fn two(&mut self, wide: bool, operation: Two, dst: Reg, src: Reg) {
        if !matches!(operation, Two::Cmp | Two::Test) {
            self.writes(dst);
        }
        self.rex(wide, src.0, dst.0, false);
        self.emit(&[operation as u8]);
        self.registers(src.0, dst);
    }

    /// The same with a constant that is sign-extended. Not for `Mov` and `Test`.
    pub(crate) fn constant(&mut self, wide: bool, operation: Two, dst: Reg, value: i32) {
        if !matches!(operation, Two::Cmp) {
            self.writes(dst);
        }
        self.rex(wide, 0, dst.0, false);
        match i8::try_from(value) {
            Ok(short) => {
                self.emit(&[0x83]);
                self.registers(digit(operation), dst);
                self.emit(&short.to_le_bytes());
            }
            Err(_) => {
                self.emit(&[0x81]);
                self.registers(digit(operation), dst);
                self.emit(&value.to_le_bytes());
            }
        }
    }

    pub(crate) fn mov(&mut self, dst: Reg, src: Reg) {
        if dst != src {
            self.two(true, Two::Mov, dst, src);
        }
    }

    /// `dst` = a constant, sign-extended.
    pub(crate) fn mov_constant(&mut self, dst: Reg, value: i32) {
        if value == 0 {
            self.two(false, Two::Xor, dst, dst);
            return;
        }
        self.writes(dst);
        self.rex(value < 0, 0, dst.0, false);
        if value < 0 {
            self.emit(&[0xc7]);
            self.registers(0, dst);
        } else {
            self.emit(&[0xb8 | dst.0 & 7]);
        }
        self.emit(&value.to_le_bytes());
    }

    /// `dst` = 64 bits, in ten bytes whatever they are.
    pub(crate) fn mov_64(&mut self, dst: Reg, value: u64) {
        self.writes(dst);
        self.rex(true, 0, dst.0, false);
        self.emit(&[0xb8 | dst.0 & 7]);
        self.emit(&value.to_le_bytes());
    }

    /// `dst = dst * src`.
    pub(crate) fn multiply(&mut self, wide: bool, dst: Reg, src: Reg) {
        self.writes(dst);
        self.rex(wide, dst.0, src.0, false);
        self.emit(&[0x0f, 0xaf]);
        self.registers(dst.0, src);
    }

    /// `dst = dst * value`.
    pub(crate) fn multiply_constant(&mut self, wide: bool, dst: Reg, value: i32) {
        self.writes(dst);
        self.rex(wide, dst.0, dst.0, false);
        self.emit(&[0x69]);
        self.registers(dst.0, dst);
        self.emit(&value.to_le_bytes());
    }

    /// `rax, rdx = rdx:rax / by, rdx:rax % by`, unsigned.
    pub(crate) fn divide(&mut self, wide: bool, by: Reg) {
        self.writes(RAX);
        self.writes(RDX);
        self.rex(wide, 0, by.0, false);
        self.emit(&[0xf7]);
        self.registers(6, by);
    }

    pub(crate) fn negate(&mut self, wide: bool, dst: Reg) {
        self.writes(dst);
        self.rex(wide, 0, dst.0, false);
        self.emit(&[0xf7]);
        self.registers(3, dst);
    }

    pub(crate) fn shift_constant(&mut self, wide: bool, shift: Shift, dst: Reg, by: u8) {
        self.writes(dst);
        self.rex(wide, 0, dst.0, false);
        self.emit(&[0xc1]);
        self.registers(shift as u8, dst);
        self.emit(&[by]);
    }

    /// By the low bits of rcx.
    pub(crate) fn shift(&mut self, wide: bool, shift: Shift, dst: Reg) {
        self.writes(dst);
        self.rex(wide, 0, dst.0, false);
        self.emit(&[0xd3]);
        self.registers(shift as u8, dst);
    }

    /// The number of the highest bit of `src`, which must have one.
    pub(crate) fn highest_bit(&mut self, dst: Reg, src: Reg) {
        self.writes(dst);
        self.rex(true, dst.0, src.0, false);
        self.emit(&[0x0f, 0xbd]);
        self.registers(dst.0, src);
    }

    /// Reverses the bytes of a register of 32 or 64 bits.
    pub(crate) fn swap(&mut self, wide: bool, dst: Reg) {
        self.writes(dst);
        self.rex(wide, 0, dst.0, false);
        self.emit(&[0x0f, 0xc8 | dst.0 & 7]);
    }

    /// Reverses the low two bytes; the others become zero.
    pub(crate) fn swap_16(&mut self, dst: Reg) {
        self.writes(dst);
        self.emit(&[0x66]);
        self.rex(false, 0, dst.0, false);
        self.emit(&[0xc1]);
        self.registers(0, dst);
        self.emit(&[8]);
        self.rex(false, dst.0, dst.0, false);
        self.emit(&[0x0f, 0xb7]);
        self.registers(dst.0, dst);
    }

    /// Zero-extended; `width` in bytes.
    pub(crate) fn load(&mut self, width: u32, dst: Reg, from: Mem) {
        self.writes(dst);
        self.rex(width == 8, dst.0, from.base.0, false);
        match width {
            1 => self.emit(&[0x0f, 0xb6]),
            2 => self.emit(&[0x0f, 0xb7]),
            _ => self.emit(&[0x8b]),
        }
        self.memory(dst.0, from);
    }

    pub(crate) fn store(&mut self, width: u32, to: Mem, src: Reg) {
        if width == 2 {
            self.emit(&[0x66]);
        }
        // Without the prefix the second four registers' low bytes are those of others.
        self.rex(width == 8, src.0, to.base.0, width == 1);
        self.emit(&[if width == 1 { 0x88 } else { 0x89 }]);
        self.memory(src.0, to);
    }

    /// The constant is sign-extended.
    pub(crate) fn store_constant(&mut self, width: u32, to: Mem, value: i32) {
        if width == 2 {
            self.emit(&[0x66]);
        }
        self.rex(width == 8, 0, to.base.0, false);
        self.emit(&[if width == 1 { 0xc6 } else { 0xc7 }]);
        self.memory(0, to);
        self.emit(&value.to_le_bytes()[..width.min(4) as usize]);
    }

    /// The address itself.
    pub(crate) fn address(&mut self, dst: Reg, of: Mem) {
        self.writes(dst);
        self.rex(true, dst.0, of.base.0, false);
        self.emit(&[0x8d]);
        self.memory(dst.0, of);
    }

    /// What makes the next instruction one that no other processor sees half of.
    pub(crate) fn lock(&mut self) {
        self.emit(&[LOCK]);
    }

    /// The same unless the last comparison found less: then the prefix is jumped over.
    pub(crate) fn lock_unless_below(&mut self) {
        self.emit(&[0x72, 1, LOCK]); // jb behind the prefix
    }

    /// Adds 8 bytes.
    pub(crate) fn atomic_add(&mut self, to: Mem, src: Reg) {
        self.atomic(&[0x01], to, src);
    }

    /// Adds 8 bytes and gives what was there.
    pub(crate) fn atomic_fetch_add(&mut self, to: Mem, src: Reg) {
        self.writes(src);
        self.atomic(&[0x0f, 0xc1], to, src);
    }

    /// Writes 8 bytes if rax is there; gives what was there in rax.
    pub(crate) fn atomic_exchange(&mut self, to: Mem, src: Reg) {
        self.writes(RAX);
        self.atomic(&[0x0f, 0xb1], to, src);
    }

    fn atomic(&mut self, opcode: &[u8], to: Mem, src: Reg) {
        self.rex(true, src.0, to.base.0, false);
        self.emit(opcode);
        self.memory(src.0, to);
    }

    /// Compares the bytes at an address with a register.
    pub(crate) fn compare(&mut self, width: u32, with: Mem, register: Reg) {
        self.rex(width == 8, register.0, with.base.0, false);
        self.emit(&[0x39]);
        self.memory(register.0, with);
    }

    /// Compares the 32 bits at an address with zero.
    pub(crate) fn compare_zero(&mut self, with: Mem) {
        self.rex(false, 0, with.base.0, false);
        self.emit(&[0x83]);
        self.memory(7, with);
        self.emit(&[0]);
    }

    /// The first word of the thread's control block, which is its fs base.
    pub(crate) fn thread_address(&mut self, dst: Reg) {
        self.writes(dst);
        self.emit(&[0x64]);
        self.rex(true, dst.0, 0, false);
        self.emit(&[0x8b, (dst.0 & 7) << 3 | 4, 0x25, 0, 0, 0, 0]); // mov %fs:0,dst
    }

    /// `dst = dst op what is at an address`. Not for `Test`.
    pub(crate) fn with(&mut self, operation: Two, dst: Reg, from: Mem) {
        if !matches!(operation, Two::Cmp) {
            self.writes(dst);
        }
        self.rex(true, dst.0, from.base.0, false);
        self.emit(&[operation as u8 | 2]);
        self.memory(dst.0, from);
    }

    /// The processor's counter into rax, read when all before has been done; rdx is lost.
    pub(crate) fn counter(&mut self) {
        self.writes(RAX);
        self.writes(RDX);
        self.emit(&[0x0f, 0xae, 0xe8]); // lfence
        self.emit(&[0x0f, 0x31]); // rdtsc
        self.shift_constant(true, Shift::Left, RDX, 32);
        self.two(true, Two::Or, RAX, RDX);
    }

    /// rax = rax * what is at an address, with sign, bits 32 to 95; rdx is lost.
    pub(crate) fn multiply_shifted(&mut self, by: Mem) {
        self.writes(RAX);
        self.writes(RDX);
        self.rex(true, 0, by.base.0, false);
        self.emit(&[0xf7]);
        self.memory(5, by);
        self.emit(&[0x48, 0x0f, 0xac, 0xd0, 32]); // shrd $32,%rdx,%rax
    }

    pub(crate) fn push(&mut self, register: Reg) {
        self.rex(false, 0, register.0, false);
        self.emit(&[0x50 | register.0 & 7]);
    }

    pub(crate) fn pop(&mut self, register: Reg) {
        self.rex(false, 0, register.0, false);
        self.emit(&[0x58 | register.0 & 7]);
    }

    pub(crate) fn ret(&mut self) {
        self.emit(&[0xc3]);
    }

    /// The direction of string instructions as C wants it.
    pub(crate) fn clear_direction(&mut self) {
        self.emit(&[0xfc]);
    }

    /// Tests bits of the 32 at an address.
    pub(crate) fn test_word(&mut self, address: Reg, mask: u32) {
        self.rex(false, 0, address.0, false);
        self.emit(&[0xf7]);
        let base = address;
        self.memory(0, Mem { base, distance: 0 });
        self.emit(&mask.to_le_bytes());
    }

    /// A call; false where it is too far away.
    pub(crate) fn call(&mut self, target: u64) -> bool {
        self.emit(&[0xe8]);
        let after = self.at + self.len() as u64 + 4;
        let distance = i32::try_from(target.wrapping_sub(after) as i64);
        self.emit(&distance.unwrap_or(0).to_le_bytes());
        distance.is_ok()
    }

    pub(crate) fn jump(&mut self) -> Hole {
        self.emit(&[0xe9, 0, 0, 0, 0]);
        Hole(self.len())
    }

    pub(crate) fn jump_if(&mut self, condition: Condition) -> Hole {
        self.emit(&[0x0f, 0x80 | condition as u8, 0, 0, 0, 0]);
        Hole(self.len())
    }

    /// Has a jump lead to a distance from the start of the code.
    pub(crate) fn fill(&mut self, hole: Hole, target: usize) {
        let distance = (target as i64 - hole.0 as i64) as i32;
        self.bytes[hole.0 - 4..hole.0].copy_from_slice(&distance.to_le_bytes());
    }

    /// Has a jump lead here.
    pub(crate) fn land(&mut self, hole: Hole) {
        self.fill(hole, self.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As an assembler writes them.
    #[test]
    fn encodings_are_those_of_the_manual() {
        let bytes = |write: &dyn Fn(&mut Code)| {
            let mut code = Code::new(0);
            write(&mut code);
            code.bytes
        };
        let mem = |base, distance| Mem { base, distance };
        assert_eq!(
            bytes(&|c| c.two(true, Two::Add, R14, RAX)),
            [0x49, 0x01, 0xc6]
        );
        assert_eq!(
            bytes(&|c| c.store(1, mem(RSP, 8), RSI)),
            [0x40, 0x88, 0x74, 0x24, 0x08]
        );
        assert_eq!(
            bytes(&|c| c.load(8, R13, mem(R13, 0))),
            [0x4d, 0x8b, 0x6d, 0x00]
        );
        assert_eq!(
            bytes(&|c| c.store_constant(2, mem(RDI, 256), -2)),
            [0x66, 0xc7, 0x87, 0, 1, 0, 0, 0xfe, 0xff]
        );
        assert_eq!(
            bytes(&|c| c.atomic_add(mem(R14, 16), RCX)),
            [0x49, 0x01, 0x4e, 0x10]
        );
        assert_eq!(
            bytes(&|c| c.thread_address(R10)),
            [0x64, 0x4c, 0x8b, 0x14, 0x25, 0, 0, 0, 0]
        );
        assert_eq!(
            bytes(&|c| c.compare(8, mem(RDI, 512), R10)),
            [0x4c, 0x39, 0x97, 0, 2, 0, 0]
        );
        assert_eq!(
            bytes(&|c| c.compare_zero(mem(R11, 8))),
            [0x41, 0x83, 0x7b, 8, 0]
        );
        assert_eq!(
            bytes(&|c| c.with(Two::Sub, RAX, mem(R10, 8))),
            [0x49, 0x2b, 0x42, 8]
        );
        assert_eq!(
            bytes(&|c| c.multiply_shifted(mem(R10, 16))),
            [0x49, 0xf7, 0x6a, 0x10, 0x48, 0x0f, 0xac, 0xd0, 0x20]
        );
        assert_eq!(
            bytes(&|c| c.constant(false, Two::Cmp, R15, 300)),
            [0x41, 0x81, 0xff, 0x2c, 1, 0, 0]
        );
        assert_eq!(
            bytes(&|c| c.test_word(R11, 0x3fff_ffff)),
            [0x41, 0xf7, 0x43, 0, 0xff, 0xff, 0xff, 0x3f]
        );
    }
}
