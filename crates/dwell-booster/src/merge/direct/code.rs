//! Instructions that go through a place which the loader fills, and what replaces them.
use iced_x86::{Decoder, DecoderOptions};
use std::ops::Range;

/// The forms that are known. All end in a 32-bit distance from the next instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// `call`, `jmp` or a conditional jump to code: perhaps a stub of the procedure linkage table.
    Branch,
    /// `call [rip + distance]`
    Call,
    /// `jmp [rip + distance]`
    Jump,
    /// `mov register, [rip + distance]`
    Load,
}

/// The form of the instruction that these bytes are, all of them.
pub(crate) fn form(instruction: &[u8]) -> Option<Form> {
    match instruction {
        [0xe8 | 0xe9, _, _, _, _] | [0x0f, 0x80..=0x8f, _, _, _, _] => Some(Form::Branch),
        [0xff, 0x15, _, _, _, _] => Some(Form::Call),
        [0xff, 0x25, _, _, _, _] => Some(Form::Jump),
        // REX.W, perhaps REX.R; the address is relative to the instruction pointer.
        [0x48 | 0x4c, 0x8b, operands, _, _, _, _] if operands & 0xc7 == 0x05 => Some(Form::Load),
        _ => None,
    }
}

/// Where an instruction of a known form at address `at` leads, or what it reads.
pub(crate) fn reference(at: u64, instruction: &[u8]) -> u64 {
    let distance = instruction.last_chunk::<4>();
    let distance = distance.map_or(0, |d| i32::from_le_bytes(*d));
    (at + instruction.len() as u64).wrapping_add_signed(distance.into())
}

/// The instruction at `at` that goes to `target` itself; as long as the old one. None when it is too far.
pub(crate) fn direct(at: u64, old: &[u8], form: Form, target: u64) -> Option<Vec<u8>> {
    let (begin, end): (&[u8], &[u8]) = match form {
        Form::Branch => (&old[..old.len() - 4], &[]),
        // An address-size prefix, which a call ignores, makes it as long.
        Form::Call => (&[0x67, 0xe8], &[]),
        // The nop is never reached.
        Form::Jump => (&[0xe9], &[0x90]),
        // lea
        Form::Load => (&[old[0], 0x8d, old[2]], &[]),
    };
    let next = at + begin.len() as u64 + 4;
    let distance = i32::try_from(target.wrapping_sub(next) as i64).ok()?;
    let new = [begin, &distance.to_le_bytes(), end].concat();
    (new.len() == old.len()).then_some(new)
}

/// The place that a stub of the procedure linkage table jumps through, when one is at `at`.
pub(crate) fn stub_place(at: u64, bytes: &[u8]) -> Option<u64> {
    const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let marked = bytes.strip_prefix(&ENDBR64).unwrap_or(bytes);
    // bnd, of the abandoned MPX extension: Ubuntu's stubs had it.
    let jump = marked.strip_prefix(&[0xf2]).unwrap_or(marked).get(..6)?;
    let skipped = bytes.len() - marked.len() + usize::from(marked.first() == Some(&0xf2));
    (form(jump) == Some(Form::Jump)).then(|| reference(at + skipped as u64, jump))
}

/// Bytes that are enough for a stub.
pub(crate) const STUB: u64 = 11;

/// The instructions of a function, each with its bytes' range. None when the last one does not end
/// with the function, or one is no instruction: then what was read as instructions may be something else.
pub(crate) fn instructions(at: u64, bytes: &[u8]) -> Option<Vec<Range<usize>>> {
    let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
    let mut instruction = iced_x86::Instruction::default();
    let mut found = Vec::new();
    while decoder.can_decode() {
        let begin = decoder.position();
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
        found.push(begin..decoder.position());
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Code, Instruction, Register};

    fn decode(at: u64, bytes: &[u8]) -> Instruction {
        Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).decode()
    }

    /// By the decoder, which knows nothing of the encoder here: each form keeps what it is, and goes where it should.
    #[test]
    fn replacements_lead_to_the_target() {
        let (at, target) = (0x40_1000, 0x12_3456);
        let cases: [(&[u8], Form, Code); 6] = [
            (&[0xe8, 1, 2, 3, 0], Form::Branch, Code::Call_rel32_64),
            (&[0xe9, 1, 2, 3, 0], Form::Branch, Code::Jmp_rel32_64),
            (&[0x0f, 0x84, 1, 2, 3, 0], Form::Branch, Code::Je_rel32_64),
            (&[0xff, 0x15, 1, 2, 3, 0], Form::Call, Code::Call_rel32_64),
            (&[0xff, 0x25, 1, 2, 3, 0], Form::Jump, Code::Jmp_rel32_64),
            (&[0x4c, 0x8b, 0x3d, 1, 2, 3, 0], Form::Load, Code::Lea_r64_m),
        ];
        for (old, expected, code) in cases {
            assert_eq!(form(old), Some(expected));
            let before = decode(at, old);
            let place = match expected {
                Form::Branch => before.near_branch_target(),
                _ => before.ip_rel_memory_address(),
            };
            assert_eq!(reference(at, old), place, "{before:?}");
            let new = direct(at, old, expected, target).expect("within reach");
            assert_eq!(new.len(), old.len());
            let after = decode(at, &new);
            assert_eq!(after.code(), code);
            match expected {
                Form::Load => {
                    assert_eq!(after.op0_register(), Register::R15);
                    assert_eq!(after.ip_rel_memory_address(), target);
                }
                _ => assert_eq!(after.near_branch_target(), target),
            }
        }
        assert_eq!(direct(at, &[0xe8, 0, 0, 0, 0], Form::Branch, 1 << 40), None);
    }

    #[test]
    fn other_instructions_have_no_form() {
        let cases: [&[u8]; 5] = [
            &[0xff, 0xd0],                         // call rax
            &[0xff, 0x35, 0, 0, 0, 0],             // push [rip]
            &[0x48, 0x8b, 0x45, 0x08],             // mov rax, [rbp + 8]
            &[0x8b, 0x05, 0, 0, 0, 0],             // mov eax, [rip]
            &[0x64, 0x48, 0x8b, 0x05, 0, 0, 0, 0], // mov rax, fs:[rip]
        ];
        for bytes in cases {
            assert_eq!(form(bytes), None, "{bytes:x?}");
        }
    }

    #[test]
    fn stubs_of_every_linker() {
        let plain = [0xff, 0x25, 0x10, 0, 0, 0, 0x68, 1, 0, 0, 0];
        assert_eq!(stub_place(0x1000, &plain), Some(0x1016));
        let marked = [0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x10, 0, 0, 0, 0x66];
        assert_eq!(stub_place(0x1000, &marked), Some(0x101a));
        let bound = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0x10, 0, 0, 0];
        assert_eq!(stub_place(0x1000, &bound), Some(0x101b));
        assert_eq!(stub_place(0x1000, &[0xff, 0x15, 0x10, 0, 0, 0]), None);
        assert_eq!(stub_place(0x1000, &[0xff, 0x25, 0x10]), None);
    }

    #[test]
    fn what_is_not_all_instructions_is_none() {
        // push rbp; then a byte that is no instruction in 64-bit code.
        assert_eq!(instructions(0, &[0x55, 0x06]), None);
        // A call that is cut short.
        assert_eq!(instructions(0, &[0x55, 0xe8, 0, 0]), None);
        assert_eq!(instructions(0, &[0x55, 0xc3]), Some(vec![0..1, 1..2]));
    }
}
