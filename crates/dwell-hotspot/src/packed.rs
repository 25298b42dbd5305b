//! HotSpot's packed integers (`UNSIGNED5`, `unsigned5.hpp`).
use dwell_maps::Memory;

/// log2 of how many first bytes tell that there are more.
const LG_MORE: u32 = 6;
/// Most bytes of one.
const LONGEST: u32 = 5;

/// A stream of them.
pub struct Packed<'m, M> {
    memory: &'m M,
    at: u64,
    /// How many of the smallest bytes are not used: 1 since JDK 20, 0 before.
    excluded: u32,
}

impl<'m, M: Memory> Packed<'m, M> {
    /// The stream at an address.
    pub fn new(memory: &'m M, at: u64, excluded: u32) -> Self {
        Packed {
            memory,
            at,
            excluded,
        }
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let [byte] = self.memory.bytes(self.at)?;
        self.at = self.at.checked_add(1)?;
        Some(byte)
    }

    /// The next number.
    pub fn unsigned(&mut self) -> Option<u32> {
        let last_below = 256 - (1 << LG_MORE);
        let mut sum = 0u32;
        for n in 0..LONGEST {
            let byte = u32::from(self.byte()?);
            let digit = byte.checked_sub(self.excluded)?;
            sum = sum.wrapping_add(digit << (LG_MORE * n));
            if byte < last_below {
                break;
            }
        }
        Some(sum)
    }

    /// The next number that may be negative.
    pub fn signed(&mut self) -> Option<i32> {
        let word = self.unsigned()?;
        Some((word >> 1) as i32 ^ -((word & 1) as i32))
    }
}
