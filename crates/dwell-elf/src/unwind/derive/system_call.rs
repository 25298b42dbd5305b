//! Which system call was made: behind that of `clone`, two threads run the same code.
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// Numbers of `clone` and `clone3`.
const CLONES: [u32; 2] = [56, 435];

/// What rax holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SystemCall {
    /// Anything.
    Unknown,
    /// A constant, perhaps the number of a system call.
    Number(u32),
    /// The result of `clone`: 0 in the new thread.
    Cloned,
}

impl SystemCall {
    /// Behind code that ends in `mov $number, %eax`.
    pub fn behind(before: &[u8]) -> Self {
        match before {
            [.., 0xb8, a, b, c, d] => SystemCall::Number(u32::from_le_bytes([*a, *b, *c, *d])),
            _ => SystemCall::Unknown,
        }
    }

    /// Whether this may be a new thread.
    pub fn may_have_cloned(self) -> bool {
        self == SystemCall::Cloned
    }

    /// What holds after `instruction`, on the way to the next one.
    pub fn after(self, instruction: &Instruction) -> Self {
        match instruction.mnemonic() {
            Mnemonic::Syscall => match self {
                SystemCall::Number(number) if CLONES.contains(&number) => SystemCall::Cloned,
                _ => SystemCall::Unknown,
            },
            Mnemonic::Call => SystemCall::Unknown,
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Push => self,
            _ if writes_rax(instruction) => self.written(instruction),
            _ => self,
        }
    }

    fn written(self, instruction: &Instruction) -> Self {
        let constant = match instruction.op1_kind() {
            OpKind::Immediate8 | OpKind::Immediate32 | OpKind::Immediate32to64 => {
                Some(instruction.immediate(1) as u32)
            }
            _ => None,
        };
        let register = instruction.op0_register();
        match (instruction.mnemonic(), constant, self) {
            (Mnemonic::Mov, Some(low), SystemCall::Number(n)) if register == Register::AL => {
                SystemCall::Number(n & !0xff | low)
            }
            (Mnemonic::Mov, Some(n), _) if register.size() >= 4 => SystemCall::Number(n),
            (Mnemonic::Xor, ..) if register.size() >= 4 && zeroes(instruction) => {
                SystemCall::Number(0)
            }
            _ => SystemCall::Unknown,
        }
    }
}

fn writes_rax(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op0_register().full_register() == Register::RAX
}

fn zeroes(instruction: &Instruction) -> bool {
    instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn after(before: &[u8], code: &[u8]) -> SystemCall {
        Decoder::new(64, code, DecoderOptions::NONE)
            .iter()
            .fold(SystemCall::behind(before), |call, i| call.after(&i))
    }

    #[test]
    fn clone_as_libraries_write_it() {
        // glibc: mov $435,%eax | syscall; test %rax,%rax
        let number = [0xb8, 0xb3, 0x01, 0x00, 0x00];
        let code = [0x0f, 0x05, 0x48, 0x85, 0xc0];
        assert_eq!(after(&number, &code), SystemCall::Cloned);
        // musl: xor %eax,%eax; mov $56,%al; mov %rdi,%r11; syscall; test %eax,%eax
        let code = [
            0x31, 0xc0, 0xb0, 0x38, 0x49, 0x89, 0xfb, 0x0f, 0x05, 0x85, 0xc0,
        ];
        assert_eq!(after(&[], &code), SystemCall::Cloned);
    }

    #[test]
    fn other_calls_and_what_comes_later() {
        // mov $1,%eax; syscall
        assert_eq!(
            after(&[0xb8, 1, 0, 0, 0], &[0x0f, 0x05]),
            SystemCall::Unknown
        );
        // syscall; neg %eax
        let number = [0xb8, 0x38, 0x00, 0x00, 0x00];
        assert_eq!(
            after(&number, &[0x0f, 0x05, 0xf7, 0xd8]),
            SystemCall::Unknown
        );
        // syscall; call *%rdx
        assert_eq!(
            after(&number, &[0x0f, 0x05, 0xff, 0xd2]),
            SystemCall::Unknown
        );
        // mov %rdi,%rax; syscall
        assert_eq!(
            after(&number, &[0x48, 0x89, 0xf8, 0x0f, 0x05]),
            SystemCall::Unknown
        );
    }
}
