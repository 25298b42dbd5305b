//! The general registers of a frame.

/// The sixteen general registers and rip, each known or not, by DWARF number (x86-64 psABI,
/// figure 3.36: rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 … r15, rip).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    values: [Option<u64>; Registers::COUNT],
}

impl Registers {
    /// How many there are.
    pub const COUNT: usize = 17;
    /// DWARF number of rax.
    pub const RAX: u16 = 0;
    /// DWARF number of rbx.
    pub const RBX: u16 = 3;
    /// DWARF number of rdi.
    pub const RDI: u16 = 5;
    /// DWARF number of rbp.
    pub const RBP: u16 = 6;
    /// DWARF number of rsp.
    pub const RSP: u16 = 7;
    /// DWARF number of r12.
    pub const R12: u16 = 12;
    /// DWARF number of r13.
    pub const R13: u16 = 13;
    /// DWARF number of r15.
    pub const R15: u16 = 15;
    /// DWARF number of rip.
    pub const RIP: u16 = 16;

    /// Only the three registers that every unwinder needs.
    pub fn new(pc: u64, sp: u64, bp: u64) -> Self {
        let mut registers = Registers::default();
        registers.set(Self::RIP, Some(pc));
        registers.set(Self::RSP, Some(sp));
        registers.set(Self::RBP, Some(bp));
        registers
    }

    /// All registers known, in the order of their DWARF numbers.
    pub fn from_dwarf_order(values: [u64; Registers::COUNT]) -> Self {
        Registers {
            values: values.map(Some),
        }
    }

    /// The value of a register by DWARF number; none when it is not known or not a general register.
    pub fn get(&self, register: u16) -> Option<u64> {
        self.values.get(usize::from(register)).copied().flatten()
    }

    /// Sets or forgets a register by DWARF number; others than the general ones are ignored.
    pub fn set(&mut self, register: u16, value: Option<u64>) {
        if let Some(slot) = self.values.get_mut(usize::from(register)) {
            *slot = value;
        }
    }

    /// Whether the psABI makes a callee keep this register.
    pub(crate) fn is_callee_saved(register: u16) -> bool {
        matches!(register, Self::RBX | Self::RBP | Self::R12..=Self::R15)
    }
}
