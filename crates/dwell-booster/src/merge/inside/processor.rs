//! What a processor says of itself (`cpuid`).

/// What a processor says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processor {
    /// Answers to all questions that a loader may have.
    pub answers: Vec<Answer>,
    /// What of it the kernel lets programs use (XCR0, lower half).
    pub enabled: u32,
}

/// The answer to one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What is asked (EAX).
    pub leaf: u32,
    /// Which part (ECX), where it matters.
    pub part: Option<u32>,
    /// EAX, EBX, ECX, EDX.
    pub registers: [u32; 4],
}

/// The leaves that tell processors apart, and which of EBX's bits count: leaf 1's upper ones say which processor
/// of the machine it is.
pub(super) const GUARDS: [(u32, u32); 2] = [(1, 0x00ff_ffff), (7, u32::MAX)];

/// Leaves whose answer depends on the part that is asked for, and how many parts are asked for.
const PARTS: [(u32, u32); 13] = [
    (4, 8),
    (7, 3),
    (0xb, 4),
    (0xd, 32),
    (0x14, 2),
    (0x17, 4),
    (0x18, 4),
    (0x1d, 2),
    (0x1f, 6),
    (0x20, 2),
    (0x24, 2),
    (0x8000_001d, 8),
    (0x8000_0026, 4),
];
/// Most leaves of a range.
const MAX_LEAVES: u32 = 0x30;

impl Processor {
    /// Asks the processor everything that a loader may ask: `ask` gives the registers for a leaf and a part, `enabled`
    /// is the register that XGETBV gives for 0.
    pub fn ask(ask: impl Fn(u32, u32) -> [u32; 4], enabled: u64) -> Self {
        let mut answers = Vec::new();
        for range in [0, 0x8000_0000u32] {
            let last = ask(range, 0)[0];
            let count = last
                .checked_sub(range)
                .map_or(0, |more| more.min(MAX_LEAVES) + 1);
            for leaf in range..range + count {
                let parts = PARTS
                    .iter()
                    .find(|(of, _)| *of == leaf)
                    .map(|(_, count)| *count);
                answers.extend((0..parts.unwrap_or(1)).map(|part| Answer {
                    leaf,
                    part: parts.is_some().then_some(part),
                    registers: ask(leaf, part),
                }));
            }
        }
        // The longest list last: it is searched from the beginning.
        answers.sort_by_key(|a| a.leaf == 0xd);
        Processor {
            answers,
            enabled: enabled as u32,
        }
    }

    fn answer(&self, leaf: u32) -> Option<&Answer> {
        let mut answers = self.answers.iter();
        answers.find(|a| a.leaf == leaf && a.part.unwrap_or(0) == 0)
    }

    /// The leaves that are asked at each start: leaf, registers, mask of EBX; then what is enabled. None for a
    /// processor that does not know them, or of which nothing is enabled.
    pub(super) fn guards(&self) -> Option<Vec<u32>> {
        let mut words = Vec::new();
        for (leaf, mask) in GUARDS {
            let [a, b, c, d] = self.answer(leaf)?.registers;
            words.extend([leaf, a, b & mask, c, d, mask]);
        }
        words.push(self.enabled);
        (self.enabled > 0).then_some(words)
    }

    /// All answers: leaf, mask of the part, part, registers; the mask 1 ends it.
    pub(super) fn table(&self) -> Vec<u32> {
        let answers = self.answers.iter().flat_map(|a| {
            let mask = if a.part.is_some() { u32::MAX } else { 0 };
            let [eax, ebx, ecx, edx] = a.registers;
            [a.leaf, mask, a.part.unwrap_or(0), eax, ebx, ecx, edx]
        });
        answers.chain([0, 1]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A processor with leaves to 0xd and no extended ones: nothing is asked beyond, and both guards are known.
    #[test]
    fn what_is_there_is_asked() {
        let processor = Processor::ask(
            |leaf, part| match leaf {
                0 => [0xd, 1, 2, 3],
                0x8000_0000 => [0, 0, 0, 0],
                _ => [leaf, 0xff00_0000 | part, leaf, part],
            },
            7,
        );
        assert!(processor.answers.iter().all(|a| a.leaf <= 0xd));
        let of = |leaf| processor.answers.iter().filter(|a| a.leaf == leaf).count();
        assert_eq!((of(1), of(4), of(0xd)), (1, 8, 32));
        let guards = processor.guards().expect("leaves 1 and 7");
        assert_eq!(guards[..6], [1, 1, 0, 1, 0, 0x00ff_ffff]);
        assert_eq!(guards[6..], [7, 7, 0xff00_0000, 7, 0, u32::MAX, 7]);
        let disabled = Processor {
            enabled: 0,
            ..processor.clone()
        };
        assert_eq!(disabled.guards(), None);
        assert_eq!(processor.table().len(), 7 * processor.answers.len() + 2);
        let old = Processor::ask(|leaf, _| if leaf == 0 { [1, 0, 0, 0] } else { [0; 4] }, 7);
        assert_eq!(old.guards(), None);
    }
}
