//! Reading another process.
use std::cell::RefCell;
use std::collections::HashMap;

const PAGE: u64 = 4096;

/// Memory of a process.
pub trait Memory {
    /// Fills `into` from an actual address on; false when not all of it can be read.
    fn read(&self, address: u64, into: &mut [u8]) -> bool;

    /// So many bytes.
    fn bytes<const N: usize>(&self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(address, &mut bytes).then_some(bytes)
    }

    /// An address.
    fn word(&self, address: u64) -> Option<u64> {
        self.bytes(address).map(u64::from_le_bytes)
    }

    /// A C `int`.
    fn int(&self, address: u64) -> Option<i32> {
        self.bytes(address).map(i32::from_le_bytes)
    }

    /// Two bytes, a number without a sign.
    fn short(&self, address: u64) -> Option<u16> {
        self.bytes(address).map(u16::from_le_bytes)
    }

    /// A C string of at most some 255 bytes.
    fn string(&self, address: u64) -> Option<String> {
        const MOST: usize = 255;
        const AT_ONCE: u64 = 32;
        let mut text = Vec::new();
        let mut at = address;
        while text.len() < MOST {
            // What is read at once lies in one page, which is there if its first byte is.
            let next = (at / AT_ONCE + 1).checked_mul(AT_ONCE)?;
            let mut piece = vec![0; (next - at) as usize];
            if !self.read(at, &mut piece) {
                return None;
            }
            let end = piece.iter().position(|byte| *byte == 0);
            text.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
            if end.is_some() {
                return String::from_utf8(text).ok();
            }
            at = next;
        }
        None
    }
}

/// Memory that is read a page at a time and kept: as it was when it was first looked at.
pub struct Kept<M> {
    memory: M,
    pages: RefCell<HashMap<u64, Option<Box<Page>>>>,
}

type Page = [u8; PAGE as usize];

impl<M: Memory> Kept<M> {
    /// Nothing is read yet.
    pub fn new(memory: M) -> Self {
        Kept {
            memory,
            pages: RefCell::default(),
        }
    }
}

impl<M: Memory> Memory for Kept<M> {
    fn read(&self, address: u64, mut into: &mut [u8]) -> bool {
        let mut pages = self.pages.borrow_mut();
        let mut at = address;
        while !into.is_empty() {
            let page = pages.entry(at / PAGE).or_insert_with(|| {
                let mut page = Box::new([0; PAGE as usize]);
                let start = at / PAGE * PAGE;
                self.memory.read(start, &mut page[..]).then_some(page)
            });
            let Some(page) = page else {
                return false;
            };
            let rest = &page[(at % PAGE) as usize..];
            let (piece, behind) = into.split_at_mut(rest.len().min(into.len()));
            piece.copy_from_slice(&rest[..piece.len()]);
            at = at.wrapping_add(piece.len() as u64);
            into = behind;
        }
        true
    }
}

impl<M: Memory> Memory for &M {
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        (**self).read(address, into)
    }
}
