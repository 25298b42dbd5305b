//! Puts what was collected into the order of addresses and fills the gaps.
use super::collect::{Unit, Units};
use super::convert::Place;
use super::gaps::Gaps;
use super::{MAX_ROWS, TextRange, UnwindTable};
use crate::{ElfError, ElfFile};
use dwell_abi::unwind::Row;

/// Appends rows in the order of addresses, leaving out those that repeat the one before.
#[derive(Default)]
pub(crate) struct RowSink {
    rows: Vec<Row>,
}

impl RowSink {
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn into_rows(self) -> Vec<Row> {
        self.rows
    }

    pub fn push(&mut self, row: Row) {
        // A later word on the same place replaces the earlier one.
        while self.rows.last().is_some_and(|last| last.pc >= row.pc) {
            self.rows.pop();
        }
        if self
            .rows
            .last()
            .is_none_or(|last| Place::of(last) != Place::of(&row))
        {
            self.rows.push(row);
        }
    }
}

pub(crate) fn build(
    file: &ElfFile<'_>,
    text: TextRange,
    mut units: Units,
) -> Result<UnwindTable, ElfError> {
    let ordered = in_order(
        std::mem::take(&mut units.eh),
        std::mem::take(&mut units.debug),
    );
    let mut sink = RowSink {
        rows: Vec::with_capacity(units.rows.len() + ordered.len() / 4),
    };
    let gaps = Gaps::new(file, text, &ordered);
    let mut at = text.start;
    for unit in &ordered {
        gaps.fill(at, unit.start, &mut sink);
        let end = (unit.end - text.start) as u32;
        let rows = &units.rows[unit.first_row..unit.first_row + unit.rows];
        rows.iter()
            .take_while(|row| row.pc < end)
            .for_each(|row| sink.push(*row));
        at = unit.end;
    }
    gaps.fill(at, text.end, &mut sink);
    if sink.rows.len() > MAX_ROWS {
        return Err(ElfError::TooManyRows(MAX_ROWS));
    }
    sink.rows.shrink_to_fit();
    Ok(UnwindTable {
        text_start: text.start,
        text_end: text.end,
        rows: sink.rows,
        rules: units.rules.list,
    })
}

/// Sorts the units and cuts overlaps. Where two begin together the first in the file holds; where
/// one begins inside another it holds from there on, as a search of `.eh_frame_hdr` would find it.
fn in_order(mut eh: Vec<Unit>, mut debug: Vec<Unit>) -> Vec<Unit> {
    cut_overlaps(&mut eh);
    if debug.is_empty() {
        return eh;
    }
    cut_overlaps(&mut debug);
    debug.retain(|unit| !overlaps(&eh, unit));
    eh.append(&mut debug);
    eh.sort_by_key(|unit| unit.start);
    eh
}

fn cut_overlaps(units: &mut Vec<Unit>) {
    units.sort_by_key(|unit| unit.start);
    units.dedup_by_key(|unit| unit.start);
    for i in 1..units.len() {
        units[i - 1].end = units[i - 1].end.min(units[i].start);
    }
}

/// Whether `unit` shares a byte with one of the sorted, disjoint `others`.
fn overlaps(others: &[Unit], unit: &Unit) -> bool {
    let next = others.partition_point(|other| other.end <= unit.start);
    others.get(next).is_some_and(|other| other.start < unit.end)
}
