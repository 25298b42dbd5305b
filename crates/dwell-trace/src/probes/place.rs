//! Where in a function's first instructions a breakpoint is cheap and safe.
//!
//! The kernel carries out some instructions itself (`push`, `nop`, `jmp`), others it runs by a single step, which
//! costs ten times as much. A `nop` of 5 bytes is never taken: Linux 6.18 makes a call of it, which overwrites what
//! leaf functions keep below the stack pointer.
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register};

const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const NOP5: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x00];

/// Bytes from a function's start to the place that stands for its entry: after a landing pad and a `nop` of 5 bytes,
/// unless code of the function jumps there, which would be taken for a call. None if no place is safe.
pub(super) fn entry(code: &[u8]) -> Option<u64> {
    let pad = if code.starts_with(&ENDBR64) {
        ENDBR64.len()
    } else {
        0
    };
    let mut after = pad;
    while code[after..].starts_with(&NOP5) {
        after += NOP5.len();
    }
    let is_taken = is_safe(&code[after..]);
    if after == 0 {
        return is_taken.then_some(0);
    }
    if is_taken && !is_jumped_to(code, after as u64) {
        return (after < code.len()).then_some(after as u64);
    }
    // With a landing pad the probe can be there, if it is no nop; it is only slower.
    (pad > 0).then_some(0)
}

/// Whether a breakpoint at an instruction is safe, and the kernel takes it: not with a lock, nor with a segment that
/// has no meaning any more (`is_prefix_bad` in arch/x86/kernel/uprobes.c).
pub(super) fn is_safe(code: &[u8]) -> bool {
    let first = Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode();
    let segments = [Register::ES, Register::CS, Register::SS, Register::DS];
    !code.starts_with(&NOP5)
        && !first.has_lock_prefix()
        && !segments.contains(&first.segment_prefix())
}

/// Whether a jump of the code leads to a distance from its start.
fn is_jumped_to(code: &[u8], target: u64) -> bool {
    let decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    let leads = |i: Instruction| {
        let jumps = matches!(
            i.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        jumps && i.op0_kind() == OpKind::NearBranch64 && i.near_branch64() == target
    };
    decoder.into_iter().any(leads)
}

/// Whether an instruction begins at a distance from a function's start.
pub(super) fn is_instruction(code: &[u8], distance: u64) -> bool {
    let decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    decoder
        .into_iter()
        .map(|i| i.ip())
        .take_while(|ip| *ip <= distance)
        .any(|ip| ip == distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_after_what_is_slow_or_unsafe() {
        assert_eq!(entry(&[0x55, 0xc3]), Some(0));
        let padded = [&ENDBR64[..], &[0x55, 0xc3]].concat();
        assert_eq!(entry(&padded), Some(4));
        let traced = [&ENDBR64[..], &NOP5, &[0x55, 0xc3]].concat();
        assert_eq!(entry(&traced), Some(9));
        assert_eq!(entry(&[&NOP5[..], &[0xc3]].concat()), Some(5));
        // endbr64; dec %edi; jne back to the dec.
        let looping = [&ENDBR64[..], &[0xff, 0xcf, 0x75, 0xfc, 0xc3]].concat();
        assert_eq!(entry(&looping), Some(0));
        assert_eq!(entry(&NOP5), None);
        // lock decl (%rdi): refused, and so there is only a landing pad, if any.
        let locked = [0xf0, 0xff, 0x0f, 0xc3];
        assert_eq!(entry(&locked), None);
        assert_eq!(entry(&[&ENDBR64[..], &locked].concat()), Some(0));
    }

    #[test]
    fn instructions_have_beginnings() {
        let code = [0x48, 0x89, 0xc7, 0xc3];
        assert!(is_instruction(&code, 0) && is_instruction(&code, 3));
        assert!(!is_instruction(&code, 1) && !is_instruction(&code, 4));
    }
}
