//! The compiled table and its two searches.
use dwell_abi::unwind::{Row, Rule};

/// The unwind rows of one file, covering its text without a hole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnwindTable {
    /// First stated address of the executable segments.
    pub text_start: u64,
    /// First stated address past the last executable segment.
    pub text_end: u64,
    /// Sorted by `pc`, strictly increasing, the first at 0 (none for an empty text); neighbours differ.
    pub rows: Vec<Row>,
    /// The rules that rows of `KIND_RULE` refer to.
    pub rules: Vec<Rule>,
}

impl UnwindTable {
    /// The row that holds at a stated pc; none outside of the text. For a return address, pass the
    /// address minus one: the call may be the last instruction of its function.
    pub fn lookup(&self, stated_pc: u64) -> Option<Row> {
        if stated_pc >= self.text_end {
            return None;
        }
        let pc = u32::try_from(stated_pc.checked_sub(self.text_start)?).ok()?;
        let after = self.rows.partition_point(|row| row.pc <= pc);
        self.rows.get(after.checked_sub(1)?).copied()
    }

    /// The index for a search in slots of `2^shift` bytes of text: entry `i` is the first row whose
    /// `pc` is at or after the start of slot `i`; one entry more than there are slots, the last being
    /// the number of rows. A pc in slot `i` belongs to one of the rows
    /// `index[i].saturating_sub(1) ..= index[i + 1] - 1`.
    pub fn index(&self, shift: u32) -> Vec<u32> {
        let shift = shift.min(31);
        let slots = (self.text_end - self.text_start).div_ceil(1 << shift);
        let mut row = 0;
        (0..=slots)
            .map(|slot| {
                let start = slot << shift;
                while self.rows.get(row).is_some_and(|r| u64::from(r.pc) < start) {
                    row += 1;
                }
                row as u32
            })
            .collect()
    }

    /// Bytes that rows and rules take.
    pub fn size(&self) -> usize {
        std::mem::size_of_val(&*self.rows) + std::mem::size_of_val(&*self.rules)
    }
}
