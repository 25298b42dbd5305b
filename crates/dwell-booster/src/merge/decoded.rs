//! Instructions with their bytes, for code that moves and for who examines it in the finished file.
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use std::ops::Range;

/// An instruction, its bytes, and where among them a distance or another constant of its operand is; empty for none.
pub(crate) struct Decoded<'b> {
    pub instruction: Instruction,
    pub bytes: &'b [u8],
    pub distance: Range<usize>,
}

impl Decoded<'_> {
    /// Whether all bytes but the distance are the same: with equal targets or places both do the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let (begin, end) = (self.distance.start, self.distance.end);
        self.distance == other.distance
            && self.bytes.len() == other.bytes.len()
            && self.bytes[..begin] == other.bytes[..begin]
            && self.bytes[end..] == other.bytes[end..]
    }
}

/// All instructions of some bytes; none when something in them is no instruction.
pub(crate) fn decode(bytes: &[u8], at: u64) -> Option<Vec<Decoded<'_>>> {
    let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
    let mut all = Vec::new();
    while decoder.can_decode() {
        let begin = decoder.position();
        let instruction = decoder.decode();
        if instruction.is_invalid() {
            return None;
        }
        let fields = decoder.get_constant_offsets(&instruction);
        let (field, size) = match branch_target(&instruction) {
            Some(_) => (fields.immediate_offset(), fields.immediate_size()),
            None => (fields.displacement_offset(), fields.displacement_size()),
        };
        all.push(Decoded {
            instruction,
            bytes: &bytes[begin..decoder.position()],
            distance: field..field + size,
        });
    }
    Some(all)
}

/// Where a direct branch or call leads.
pub(crate) fn branch_target(i: &Instruction) -> Option<u64> {
    let near = i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64;
    near.then(|| i.near_branch_target())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_distance_may_differ() {
        let one = |bytes: &'static [u8]| decode(bytes, 0x1000).expect("it can be read").remove(0);
        let call = one(&[0xe8, 1, 2, 3, 4]);
        assert_eq!(
            (call.distance.clone(), branch_target(&call.instruction)),
            (1..5, Some(0x0403_1206))
        );
        assert!(call.is_like(&one(&[0xe8, 5, 6, 7, 0])));
        assert!(!call.is_like(&one(&[0xe9, 1, 2, 3, 4])));
        // cmp dword [rip+16], 5: the number behind the distance counts.
        let compare = one(&[0x83, 0x3d, 16, 0, 0, 0, 5]);
        assert!(compare.is_like(&one(&[0x83, 0x3d, 17, 0, 0, 0, 5])));
        assert!(!compare.is_like(&one(&[0x83, 0x3d, 16, 0, 0, 0, 6])));
        assert!(decode(&[0x90, 0x06], 0).is_none());
    }
}
