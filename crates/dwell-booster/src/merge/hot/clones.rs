//! The copies: where each is, and its bytes.
//!
//! What makes them right: an instruction of a copy does what its original does, and goes on where the original
//! goes on, or at the copy of that place. So a thread may pass from an original to its copy and back at any
//! instruction, and whoever leads to either is right.
use super::body::{Body, Reference};
use super::tables::Table;
use std::collections::BTreeMap;

/// Copies lie in cache lines as their originals do: loops stay aligned.
const LINE: u64 = 64;
/// `jmp` to where a function goes on that does not end.
const TAIL: usize = 5;

/// A copied function.
#[derive(Debug)]
pub(crate) struct Clone {
    /// The original.
    pub body: Body,
    /// Image address of the copy.
    pub at: u64,
}

impl Clone {
    /// Bytes of the original; the copy has a tail behind them where the function does not end.
    pub(crate) fn len(&self) -> u64 {
        self.body.bytes.len() as u64
    }
}

/// All copies, by their originals' addresses, and their jump tables.
#[derive(Debug, Default)]
pub(crate) struct Clones {
    by_original: BTreeMap<u64, Clone>,
    /// Original's address by the copy's.
    by_copy: BTreeMap<u64, u64>,
    pub tables: Vec<Table>,
    /// Image address past the last copy and table.
    pub end: u64,
}

impl Clones {
    /// Gives each function of the list a place from the image address `start` on, in that order.
    pub(crate) fn place(start: u64, bodies: Vec<Body>) -> Self {
        let mut clones = Clones {
            end: start,
            ..Clones::default()
        };
        for body in bodies {
            let at = clones.end + (body.at.wrapping_sub(clones.end) % LINE);
            clones.end = at + (body.bytes.len() + TAIL) as u64;
            clones.by_copy.insert(at, body.at);
            clones.by_original.insert(body.at, Clone { body, at });
        }
        clones
    }

    /// Gives jump tables of copied functions a place behind all copies.
    pub(crate) fn add_tables(&mut self, tables: Vec<Table>) {
        self.end = self.end.next_multiple_of(LINE);
        for mut table in tables {
            table.at = self.end;
            self.end += table.len().next_multiple_of(8);
            self.tables.push(table);
        }
        self.tables.sort_by_key(|t| t.function);
    }

    /// The copied tables of a function.
    fn tables_of(&self, function: u64) -> &[Table] {
        let from = self.tables.partition_point(|t| t.function < function);
        let to = self.tables.partition_point(|t| t.function <= function);
        &self.tables[from..to]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Clone> {
        self.by_original.values()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_original.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_original.len()
    }

    /// Image addresses of originals and their copies.
    pub(crate) fn moves(&self) -> impl Iterator<Item = (u64, u64)> {
        self.iter().map(|c| (c.body.at, c.at))
    }

    /// The copy of the function that holds an image address, and the copy of that very byte.
    pub(crate) fn copy_of(&self, at: u64) -> Option<(&Clone, u64)> {
        let (&original, clone) = self.by_original.range(..=at).next_back()?;
        let distance = at - original;
        (distance < clone.len()).then_some((clone, clone.at + distance))
    }

    /// Where a branch to an image address may lead instead: the copy of that instruction, if there is one.
    pub(crate) fn lead(&self, target: u64) -> u64 {
        match self.copy_of(target) {
            Some((clone, copy)) if clone.body.is_boundary(target) => copy,
            _ => target,
        }
    }

    /// What a place is a copy of; other places are what they are.
    pub(crate) fn original_of(&self, at: u64) -> u64 {
        let found = self.by_copy.range(..=at).next_back();
        let within = found.and_then(|(&copy, original)| {
            let len = self.by_original[original].len();
            (at - copy < len).then_some(original + (at - copy))
        });
        within.unwrap_or(at)
    }

    /// The bytes from `start` to the end; what is between copies traps. None when something is out of reach.
    pub(crate) fn bytes(&self, start: u64) -> Option<Vec<u8>> {
        const TRAP: u8 = 0xcc;
        let mut run = vec![TRAP; (self.end - start) as usize];
        for clone in self.iter() {
            let from = (clone.at - start) as usize;
            let bytes = self.copy(clone)?;
            run[from..from + bytes.len()].copy_from_slice(&bytes);
        }
        for table in &self.tables {
            let from = (table.at - start) as usize;
            let bytes = table.bytes(self)?;
            run[from..from + bytes.len()].copy_from_slice(&bytes);
        }
        Some(run)
    }

    /// One copy.
    fn copy(&self, clone: &Clone) -> Option<Vec<u8>> {
        let body = &clone.body;
        let mut bytes = body.bytes.clone();
        for fix in &body.fixes {
            let target = match fix.to {
                Reference::Branch(target) => self.lead(target),
                Reference::Memory(place) => place,
            };
            let distance = distance(clone.at + fix.next as u64, target)?;
            bytes[fix.field..fix.field + 4].copy_from_slice(&distance);
        }
        for table in self.tables_of(body.at) {
            for site in &table.uses {
                let field = (site.at - body.at) as usize + site.field;
                let word = match site.absolute {
                    true => i32::try_from(table.at).ok()?.to_le_bytes(),
                    false => distance(clone.at + (site.next - body.at), table.at)?,
                };
                bytes[field..field + 4].copy_from_slice(&word);
            }
        }
        if body.falls_through {
            let next = clone.at + (bytes.len() + TAIL) as u64;
            let distance = distance(next, self.lead(body.at + clone.len()))?;
            bytes.push(0xe9);
            bytes.extend(distance);
        }
        Some(bytes)
    }
}

/// A 32-bit distance, if it is one.
pub(crate) fn distance(from: u64, to: u64) -> Option<[u8; 4]> {
    let distance = i32::try_from(to.wrapping_sub(from) as i64).ok()?;
    Some(distance.to_le_bytes())
}
