//! Rows from instructions, for code without call frame information.
//!
//! Each function is followed along every branch, keeping count of what it pushes. That is exact for
//! what compilers write and for nearly all assembly, except behind calls that do not return (they
//! seem to continue in what follows); where it loses track it says [`KIND_NONE`].
//! Functions begin at symbols, at the targets of calls, at addresses that code takes, and where
//! code is left over that nothing jumps to.
mod entries;
mod frame;
mod jump_table;
mod pieces;
mod system_call;
#[cfg(test)]
mod tests;
mod walk;

use super::TextRange;
use super::builder::RowSink;
use super::convert::Place;
use super::gaps::{find_sigreturn, padding};
use crate::ElfFile;
use dwell_abi::unwind::{KIND_NONE, KIND_SIGNAL, Row};
use std::ops::Range;
use walk::Reached;

/// Most bytes of code that are followed per file; the largest known body of undescribed code (the
/// assembly of video codecs) has 4 MiB, and following takes about 10 ns per byte.
const MAX_BYTES: usize = 8 << 20;

/// Instructions and their stated address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code<'data> {
    pub start: u64,
    pub bytes: &'data [u8],
}

impl<'data> Code<'data> {
    pub fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end()).contains(&address)
    }

    /// The code of a stated range within; none when it is empty.
    pub fn part(&self, range: Range<u64>) -> Option<Self> {
        let first = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let last = usize::try_from(range.end.checked_sub(self.start)?).ok()?;
        let bytes = self
            .bytes
            .get(first..last)
            .filter(|bytes| !bytes.is_empty())?;
        Some(Code {
            start: range.start,
            bytes,
        })
    }

    /// Leaves padding at the start out; none when it is all padding.
    pub fn without_padding(self) -> Option<Self> {
        self.part(self.start + padding(self.bytes) as u64..self.end())
    }
}

/// Rows for each piece of `unknown` code (sorted), with the piece's stated address. `all` is all
/// code of the file.
pub(crate) fn rows(
    file: &ElfFile<'_>,
    all: &[Code<'_>],
    unknown: &[Code<'_>],
    text: TextRange,
) -> Vec<(u64, Vec<Row>)> {
    let mut budget = MAX_BYTES;
    let followed: Vec<Code<'_>> = unknown
        .iter()
        .copied()
        .take_while(|code| {
            budget = budget.saturating_sub(code.bytes.len());
            budget > 0
        })
        .collect();
    let entries = entries::find(file, all, &followed);
    let reached = walk::reached(file, &followed, &entries);
    unknown
        .iter()
        .enumerate()
        .map(|(i, code)| {
            let rows = match followed.get(i) {
                Some(code) => rows_of(code, &reached, text),
                None => vec![Place::plain(KIND_NONE).at((code.start - text.start) as u32)],
            };
            (code.start, rows)
        })
        .collect()
}

/// The rows of one piece from what was `reached` in all of them.
fn rows_of(code: &Code<'_>, reached: &[Reached], text: TextRange) -> Vec<Row> {
    let first = reached.partition_point(|r| r.address < code.start);
    let mut sink = RowSink::default();
    let mut at = code.start;
    for &Reached {
        address,
        len,
        place,
    } in reached[first..]
        .iter()
        .take_while(|r| r.address < code.end())
    {
        if address > at || sink.is_empty() {
            unreached(code, at, address, text, &mut sink);
        }
        sink.push(place.at((address - text.start) as u32));
        at = at.max(address + u64::from(len));
    }
    unreached(code, at, code.end(), text, &mut sink);
    with_trampolines(code, text, sink.into_rows())
}

/// Bytes that are no code continue the row before when they are padding, else nothing is known.
fn unreached(code: &Code<'_>, start: u64, end: u64, text: TextRange, sink: &mut RowSink) {
    let Some(part) = code.part(start..end) else {
        return;
    };
    if part.without_padding().is_some() || sink.is_empty() {
        sink.push(Place::plain(KIND_NONE).at((start - text.start) as u32));
    }
}

/// Lets signal trampolines win over what was derived there. Their rows begin one byte early: the
/// address of a trampoline is a return address, looked up minus one.
fn with_trampolines(code: &Code<'_>, text: TextRange, rows: Vec<Row>) -> Vec<Row> {
    let mut out = RowSink::default();
    let mut rows = rows.into_iter().peekable();
    let mut last = Place::plain(KIND_NONE);
    let mut from = 0;
    while let Some(found) = find_sigreturn(&code.bytes[from..]) {
        let start = code.start + (from + found) as u64;
        let end = start + trampoline_len(&code.bytes[from + found..]) as u64;
        let first = (start.saturating_sub(1).max(text.start) - text.start) as u32;
        let after = (end - text.start) as u32;
        while let Some(row) = rows.next_if(|row| row.pc < first) {
            last = Place::of(&row);
            out.push(row);
        }
        out.push(Place::plain(KIND_SIGNAL).at(first));
        while let Some(row) = rows.next_if(|row| row.pc <= after) {
            last = Place::of(&row);
        }
        if end < code.end() {
            out.push(last.at(after));
        }
        from = (end - code.start) as usize;
    }
    rows.for_each(|row| out.push(row));
    out.into_rows()
}

/// Both encodings end in `syscall` (0f 05).
fn trampoline_len(bytes: &[u8]) -> usize {
    bytes
        .windows(2)
        .position(|pair| pair == [0x0f, 0x05])
        .map_or(bytes.len(), |at| at + 2)
}
