//! The memory of an interpreted program: regions at made-up addresses, each access within one of them.
use alloc::vec;
use alloc::vec::Vec;

/// Regions lie so far apart that no distance of an instruction leads from one to the next.
const SPACING: u64 = 1 << 32;
/// Where the first one begins: in the kernel's half of the address space, as a kernel's own memory does.
const FIRST: u64 = 0xffff_8000_0000_0000;

/// A region of [`Memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region(usize);

/// All regions.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    regions: Vec<Vec<u8>>,
}

impl Memory {
    /// Adds a region with these contents.
    pub fn add(&mut self, bytes: Vec<u8>) -> Region {
        self.regions.push(bytes);
        Region(self.regions.len() - 1)
    }

    /// Adds a region of zeros.
    pub fn add_zeroed(&mut self, size: usize) -> Region {
        self.add(vec![0; size])
    }

    /// Where a region begins.
    pub fn address(&self, region: Region) -> u64 {
        FIRST + region.0 as u64 * SPACING
    }

    /// A region's contents.
    pub fn bytes(&self, region: Region) -> &[u8] {
        &self.regions[region.0]
    }

    /// A region's contents, to be changed.
    pub fn bytes_mut(&mut self, region: Region) -> &mut [u8] {
        &mut self.regions[region.0]
    }

    /// The bytes at an address, if they are all of one region.
    pub fn at(&self, address: u64, size: usize) -> Option<&[u8]> {
        let (region, start) = Self::place(address)?;
        self.regions
            .get(region)?
            .get(start..start.checked_add(size)?)
    }

    /// As [`Memory::at`], to be changed.
    pub fn at_mut(&mut self, address: u64, size: usize) -> Option<&mut [u8]> {
        let (region, start) = Self::place(address)?;
        self.regions
            .get_mut(region)?
            .get_mut(start..start.checked_add(size)?)
    }

    /// The bytes from an address to the end of its region.
    pub fn from(&self, address: u64) -> Option<&[u8]> {
        let (region, start) = Self::place(address)?;
        self.regions.get(region)?.get(start..)
    }

    /// An integer of 1, 2, 4 or 8 bytes, zero-extended.
    pub fn load(&self, address: u64, size: usize) -> Option<u64> {
        let mut word = [0; 8];
        word.get_mut(..size)?
            .copy_from_slice(self.at(address, size)?);
        Some(u64::from_le_bytes(word))
    }

    /// Writes the low bytes of a value.
    pub fn store(&mut self, address: u64, size: usize, value: u64) -> Option<()> {
        let word = value.to_le_bytes();
        self.at_mut(address, size)?
            .copy_from_slice(word.get(..size)?);
        Some(())
    }

    fn place(address: u64) -> Option<(usize, usize)> {
        let distance = address.checked_sub(FIRST)?;
        Some(((distance / SPACING) as usize, (distance % SPACING) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_never_leaves_its_region() {
        let mut memory = Memory::default();
        let first = memory.add(vec![1, 2, 3, 4]);
        let second = memory.add_zeroed(8);
        let at = memory.address(first);
        assert_eq!(memory.load(at, 4), Some(0x0403_0201));
        assert_eq!(memory.load(at + 1, 4), None);
        assert_eq!(memory.load(at.wrapping_sub(1), 1), None);
        assert_eq!(memory.store(memory.address(second) + 4, 4, 7), Some(()));
        assert_eq!(memory.bytes(second), [0, 0, 0, 0, 7, 0, 0, 0]);
        assert_eq!(memory.load(0, 1), None);
        assert_eq!(memory.load(u64::MAX, 8), None);
    }
}
