//! A function's code, as far as a copy elsewhere needs to know it.
use super::report::Obstacle;
use crate::merge::decoded::branch_target;
use iced_x86::{
    ConstantOffsets, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};

/// What a copy of an instruction must be corrected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// A branch out of the function, to an image address.
    Branch(u64),
    /// An operand in memory, or its address, at an image address.
    Memory(u64),
}

/// A 32-bit distance that changes when the code is elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fix {
    /// Of the distance, from the function's begin.
    pub field: usize,
    /// Of the next instruction, from which it counts.
    pub next: usize,
    pub to: Reference,
}

/// A function that can be copied.
#[derive(Debug)]
pub(crate) struct Body {
    /// Image address.
    pub at: u64,
    pub bytes: Vec<u8>,
    pub instructions: Vec<Instruction>,
    pub fixes: Vec<Fix>,
    /// Whether it may go on behind its last byte.
    pub falls_through: bool,
}

impl Body {
    /// Reads a function that is at an image address; an obstacle tells why it cannot be copied.
    pub(crate) fn read(at: u64, bytes: &[u8]) -> Result<Self, Obstacle> {
        let mut body = Body {
            at,
            bytes: bytes.to_vec(),
            instructions: Vec::new(),
            fixes: Vec::new(),
            falls_through: true,
        };
        let mut decoder = Decoder::with_ip(64, bytes, at, DecoderOptions::NONE);
        let mut instruction = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut instruction);
            let fields = decoder.get_constant_offsets(&instruction);
            body.add(instruction, &fields)?;
        }
        let last = body.instructions.last().ok_or(Obstacle::Unreadable)?;
        body.falls_through = !matches!(
            last.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch | FlowControl::Return
        );
        let mut inside = body.instructions.iter().filter_map(|i| body.inside(i));
        match inside.all(|target| body.is_boundary(target) || body.skips_a_lock(target)) {
            true => Ok(body),
            false => Err(Obstacle::Overlapping),
        }
    }

    fn add(&mut self, i: Instruction, fields: &ConstantOffsets) -> Result<(), Obstacle> {
        if i.is_invalid() {
            return Err(Obstacle::Unreadable);
        }
        let offset = (i.ip() - self.at) as usize;
        let next = offset + i.len();
        // The kernel knows the place behind by the 4 bytes before it: `ud1` with a certain distance.
        let bytes = &self.bytes[offset..next];
        let rseq = i.mnemonic() == Mnemonic::Ud1 && bytes.ends_with(&RSEQ_SIG);
        if rseq || i.flow_control() == FlowControl::XbeginXabortXend {
            return Err(Obstacle::Restartable);
        }
        let has_target = i.op_count() > 0
            && matches!(
                i.op0_kind(),
                OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64
            );
        if has_target {
            let target = i.near_branch_target();
            match self.inside(&i) {
                Some(target) if i.flow_control() == FlowControl::Call && target != self.at => {
                    return Err(Obstacle::CallsInside);
                }
                Some(_) => {}
                None if fields.immediate_size() != 4 => return Err(Obstacle::ShortJump),
                None => self.fixes.push(Fix {
                    field: offset + fields.immediate_offset(),
                    next,
                    to: Reference::Branch(target),
                }),
            }
        } else if i.is_ip_rel_memory_operand() {
            if i.memory_base() != Register::RIP || fields.displacement_size() != 4 {
                return Err(Obstacle::Unreadable);
            }
            self.fixes.push(Fix {
                field: offset + fields.displacement_offset(),
                next,
                to: Reference::Memory(i.ip_rel_memory_address()),
            });
        }
        self.instructions.push(i);
        Ok(())
    }

    /// Where a direct branch leads, if that is within the function.
    pub(crate) fn inside(&self, i: &Instruction) -> Option<u64> {
        let target = branch_target(i)?;
        let distance = target.checked_sub(self.at)?;
        (distance < self.bytes.len() as u64).then_some(target)
    }

    /// Index of the instruction that begins at an image address.
    pub(crate) fn index_of(&self, at: u64) -> Option<usize> {
        self.instructions
            .binary_search_by_key(&at, Instruction::ip)
            .ok()
    }

    /// Whether an image address is one byte into an instruction, behind its `lock`: libc does without where there
    /// is one thread.
    fn skips_a_lock(&self, at: u64) -> bool {
        let index = self.index_of(at - 1);
        index.is_some_and(|index| {
            let first = self.bytes[(at - 1 - self.at) as usize];
            first == 0xf0 && self.instructions[index].has_lock_prefix()
        })
    }

    pub(crate) fn is_boundary(&self, at: u64) -> bool {
        self.index_of(at).is_some()
    }
}

/// `RSEQ_SIG` of x86-64.
const RSEQ_SIG: [u8; 4] = 0x5305_3053u32.to_le_bytes();

#[cfg(test)]
mod tests {
    use super::*;

    fn obstacle(bytes: &[u8]) -> Option<Obstacle> {
        Body::read(0x1000, bytes).err()
    }

    #[test]
    fn what_cannot_be_copied_is_told_by_reason() {
        let skips_lock = [0x74, 1, 0xf0, 0x0f, 0xb1, 0x0f, 0xc3];
        assert_eq!(obstacle(&skips_lock), None);
        let cases: [(&[u8], Obstacle); 7] = [
            (&[0x55, 0x06], Obstacle::Unreadable),
            (&[], Obstacle::Unreadable),
            (&[0x67, 0x8b, 0x05, 0, 0, 0, 0, 0xc3], Obstacle::Unreadable), // mov eax, [eip]
            (&[0xeb, 0x10], Obstacle::ShortJump),
            (&[0xe8, 0, 0, 0, 0, 0x58, 0xc3], Obstacle::CallsInside), // call next; pop rax
            (&[0x74, 1, 0xb8, 0, 0, 0, 0, 0xc3], Obstacle::Overlapping), // into mov eax, 0
            (&[0xc7, 0xf8, 0, 0, 0, 0, 0xc3], Obstacle::Restartable), // xbegin
        ];
        for (bytes, expected) in cases {
            assert_eq!(obstacle(bytes), Some(expected), "{bytes:x?}");
        }
        let signature = [&[0x0f, 0xb9, 0x3d][..], &RSEQ_SIG, &[0xc3]].concat();
        assert_eq!(obstacle(&signature), Some(Obstacle::Restartable));
    }

    #[test]
    fn distances_that_change_are_found() {
        // je +1; ret; cmp dword [rip+16], 5; call 0x2000; jmp own begin
        let bytes = [
            0x74, 0x01, 0xc3, 0x83, 0x3d, 0x10, 0, 0, 0, 5, 0xe8, 0xf1, 0x0f, 0, 0, 0xeb, 0xef,
        ];
        let body = Body::read(0x1000, &bytes).expect("it can be copied");
        let found: Vec<_> = body.fixes.iter().map(|f| (f.field, f.next, f.to)).collect();
        assert_eq!(
            found,
            [
                (5, 10, Reference::Memory(0x101a)),
                (11, 15, Reference::Branch(0x2000))
            ]
        );
        assert!(!body.falls_through);
        assert!(
            Body::read(0x1000, &bytes[..15])
                .expect("as well")
                .falls_through
        );
    }
}
