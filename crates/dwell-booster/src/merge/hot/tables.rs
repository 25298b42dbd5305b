//! Jump tables whose copies lead into the copy of their function.
use super::clones::Clones;

/// Where a copied function names its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Use {
    /// Image address of the instruction in the original, and of the one behind it.
    pub at: u64,
    pub next: u64,
    /// Offset of the 4 bytes that are to lead to the copied table.
    pub field: usize,
    /// Whether they are the table's address, and not a distance.
    pub absolute: bool,
}

/// A copied jump table.
#[derive(Debug)]
pub(crate) struct Table {
    /// The function that uses it, and the original table; image addresses.
    pub function: u64,
    pub original: u64,
    /// Image address of the copy.
    pub at: u64,
    /// Where the original's entries lead.
    pub targets: Vec<u64>,
    /// Whether entries are addresses of 8 bytes, and not distances of 4 from the table's begin.
    pub absolute: bool,
    pub uses: Vec<Use>,
}

impl Table {
    /// Bytes of an entry.
    pub(crate) fn width(&self) -> usize {
        if self.absolute { 8 } else { 4 }
    }

    /// Bytes.
    pub(crate) fn len(&self) -> u64 {
        (self.width() * self.targets.len()) as u64
    }

    /// The copy: every entry leads where the original's leads, or to the copy of that place.
    pub(crate) fn bytes(&self, clones: &Clones) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for &target in &self.targets {
            let target = clones.lead(target);
            match self.absolute {
                true => bytes.extend(target.to_le_bytes()),
                false => bytes.extend(super::clones::distance(self.at, target)?),
            }
        }
        Some(bytes)
    }

    /// Whether the original's instruction at `at` names the table where its copy names the copied one.
    pub(crate) fn is_used_at(&self, at: u64, place: u64, copy: u64) -> bool {
        place == self.original && copy == self.at && self.uses.iter().any(|u| u.at == at)
    }
}
