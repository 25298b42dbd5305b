//! A compiled table as bytes, to be kept: to compile that of a large file takes up to half a second.
use super::{MAX_ROWS, UnwindTable};
use dwell_abi::unwind::{KIND_CLONE, KIND_RULE, Row, Rule};

/// Words before the rows: where the text begins and ends, and how many rows and rules there are.
const HEAD: usize = 4;

/// More rules than any row can refer to.
const MOST_RULES: u64 = 1 << 16;

impl UnwindTable {
    /// Little-endian words: the text's start and end, the numbers of rows and rules, a word for each row, two for
    /// each rule.
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = [
            self.text_start,
            self.text_end,
            self.rows.len() as u64,
            self.rules.len() as u64,
        ];
        let words = head.into_iter().chain(self.rows.iter().map(|r| r.bits()));
        let words = words.chain(self.rules.iter().flat_map(|r| r.bits()));
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// What [`UnwindTable::to_bytes`] was given; None for bytes that are no table.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
        let (head, body) = words.split_at_checked(HEAD)?;
        let [text_start, text_end, rows, rules] = [0, 1, 2, 3].map(|i| word(&head[i]));
        let fits = rest.is_empty() && rows <= MAX_ROWS as u64 && rules <= MOST_RULES;
        if !fits || body.len() as u64 != rows + 2 * rules {
            return None;
        }
        let (rows, rules) = body.split_at(rows as usize);
        let table = UnwindTable {
            text_start,
            text_end,
            rows: rows.iter().map(|w| Row::from_bits(word(w))).collect(),
            rules: (rules.as_chunks::<2>().0.iter())
                .map(|pair| Rule::from_bits(pair.each_ref().map(word)))
                .collect(),
        };
        table.is_valid().then_some(table)
    }

    /// Whether it is what its fields' texts say.
    fn is_valid(&self) -> bool {
        let begins = self.rows.first().is_none_or(|row| row.pc == 0);
        let sorted = self.rows.is_sorted_by(|a, b| a.pc < b.pc);
        let text = self.text_end.checked_sub(self.text_start);
        let inside = text.is_some_and(|length| {
            let last = self.rows.last();
            length <= u64::from(u32::MAX) && last.is_none_or(|row| u64::from(row.pc) < length)
        });
        let known = self.rows.iter().all(|row| {
            let is_rule = row.kind == KIND_RULE;
            row.kind <= KIND_CLONE
                && (!is_rule || usize::from(row.cfa_off8 as u16) < self.rules.len())
        });
        begins && sorted && inside && known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ElfFile, unwind};

    fn table() -> UnwindTable {
        let bytes = std::fs::read("/proc/self/exe").expect("our own program");
        let table = unwind::compile(&ElfFile::parse(&bytes).expect("ELF")).expect("a table");
        assert!(table.rows.len() > 1000);
        table
    }

    #[test]
    fn a_table_comes_back() {
        let mut table = table();
        // All bits of both, whatever our own program happens to have.
        table.rules.push(Rule {
            cfa_off: -5,
            bp_off: i32::MIN,
            cfa_reg: 1,
            cfa_deref: 1,
            bp_kind: 2,
            cfa_add8: 255,
        });
        table.rows[0] = Row {
            pc: 0,
            cfa_off8: -7,
            kind: 1,
            bp_off8: -128,
        };
        assert_eq!(UnwindTable::from_bytes(&table.to_bytes()), Some(table));
        let empty = UnwindTable::default();
        assert_eq!(UnwindTable::from_bytes(&empty.to_bytes()), Some(empty));
    }

    #[test]
    fn bytes_that_are_no_table_are_refused() {
        let table = table();
        let bytes = table.to_bytes();
        for length in [0, 8, 31, 32, 40, bytes.len() - 1, bytes.len() - 8] {
            assert_eq!(UnwindTable::from_bytes(&bytes[..length]), None, "{length}");
        }
        let refused = |change: &dyn Fn(&mut UnwindTable)| {
            let mut changed = table.clone();
            change(&mut changed);
            assert_eq!(UnwindTable::from_bytes(&changed.to_bytes()), None);
        };
        refused(&|t| t.rows.swap(3, 4));
        refused(&|t| t.rows[0].pc = 1);
        refused(&|t| t.rows[5].kind = KIND_CLONE + 1);
        refused(&|t| t.text_end = t.text_start + 1);
        refused(&|t| t.text_end = t.text_start - 1);
        refused(&|t| {
            t.rows[5].kind = KIND_RULE;
            t.rows[5].cfa_off8 = t.rules.len() as u16 as i16;
        });
        let mut many = bytes.clone();
        many[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(UnwindTable::from_bytes(&many), None);
    }
}
