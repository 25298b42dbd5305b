//! Functions that the compiler has split.
use super::{CfiSections, FunctionRange};
use crate::ElfFile;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};

/// Most bytes of a function that are looked at.
const LARGEST: u64 = 1 << 20;

impl CfiSections<'_> {
    /// Where the code of the function at a stated address is: first what is around that address, then what the compiler has put
    /// elsewhere, being seldom executed (`.cold`). Nothing where no function is known to be.
    ///
    /// Call frame information bounds such parts as if they were functions. But into the middle of a function no other one jumps,
    /// only to its beginning.
    pub fn parts_of_function(&self, file: &ElfFile<'_>, address: u64) -> Vec<FunctionRange> {
        let Some(function) = self.function_at(address) else {
            return Vec::new();
        };
        let mut parts = vec![function];
        let len = (function.end - function.start).min(LARGEST);
        let Some(code) = file.bytes_at(function.start, len as usize) else {
            return parts;
        };
        let mut decoder = Decoder::with_ip(64, code, function.start, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let target = instruction.near_branch_target();
            let jumps = matches!(
                instruction.flow_control(),
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
            );
            if jumps && !parts.iter().any(|part| part.contains(target)) {
                let other = self.function_at(target);
                parts.extend(other.filter(|other| other.start != target));
            }
        }
        parts
    }
}
