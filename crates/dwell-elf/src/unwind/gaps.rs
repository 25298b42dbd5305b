//! Text that no call frame information speaks for.
//!
//! Most gaps are padding. The rest is code that nobody described: musl, hand-written assembly, the
//! start of a program, PLT stubs of some linkers. Its rows are derived from its instructions.
use super::TextRange;
use super::builder::RowSink;
use super::collect::Unit;
use super::convert::Place;
use super::derive::{self, Code};
use crate::ElfFile;
use dwell_abi::unwind::{KIND_FP, KIND_NONE, KIND_SIGNAL, Row};
use std::ops::Range;

/// The `rt_sigreturn` trampoline's two encodings: `mov $15, %rax` or `mov $15, %eax`, then `syscall`.
const SIGRETURN: [&[u8]; 2] = [
    &[0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05],
    &[0xb8, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05],
];

/// Longest described signal trampoline in bytes; glibc's has 10 with the byte before it.
pub(crate) const MAX_TRAMPOLINE: usize = 32;

/// Offset of a signal trampoline in `bytes`.
pub(crate) fn find_sigreturn(bytes: &[u8]) -> Option<usize> {
    SIGRETURN
        .iter()
        .find_map(|code| bytes.windows(code.len()).position(|window| window == *code))
}

/// Length of padding at the start of `bytes`: no-operations of every length that assemblers write,
/// breakpoints, and zeros between sections.
pub(crate) fn padding(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&first) = bytes.get(at) {
        at += match first {
            0x90 | 0xcc | 0x00 => 1,
            _ => match long_nop(&bytes[at..]) {
                Some(len) => len,
                None => return at,
            },
        };
    }
    at
}

/// `[66 …] [2e] 0f 1f /0`, `66 … 90` and `[66] 2e … ` forms of the multi-byte no-operation.
fn long_nop(bytes: &[u8]) -> Option<usize> {
    let prefixes = bytes
        .iter()
        .take_while(|b| matches!(b, 0x66 | 0x2e))
        .count();
    match bytes[prefixes..] {
        [0x90, ..] => Some(prefixes + 1),
        [0x0f, 0x1f, modrm, ..] => {
            let sib = usize::from(modrm & 7 == 4);
            let displacement = match modrm >> 6 {
                0 => 0,
                1 => 1,
                2 => 4,
                _ => return None,
            };
            let len = prefixes + 3 + sib + displacement;
            (len <= bytes.len()).then_some(len)
        }
        _ => None,
    }
}

/// Fills the gaps between units.
pub(crate) struct Gaps<'data> {
    text: TextRange,
    /// Disjoint, sorted; what lies between is not code.
    code: Vec<Code<'data>>,
    /// Rows of the gaps that had to be derived, by stated address of the gap.
    derived: Vec<(u64, Vec<Row>)>,
}

impl<'data> Gaps<'data> {
    /// Looks at every gap at once: calls from anywhere tell where functions begin.
    pub fn new(file: &ElfFile<'data>, text: TextRange, units: &[Unit]) -> Self {
        let mut gaps = Gaps {
            text,
            code: executable_ranges(file),
            derived: Vec::new(),
        };
        let unknown = gaps.unknown_code(units);
        gaps.derived = if file.is_go() {
            unknown
                .iter()
                .map(|code| (code.start, keeps_frame_pointers(code, text)))
                .collect()
        } else {
            derive::rows(file, &gaps.code, &unknown, text)
        };
        gaps
    }

    /// The code of the gaps, without padding around it.
    fn unknown_code(&self, units: &[Unit]) -> Vec<Code<'data>> {
        let starts = std::iter::once(self.text.start).chain(units.iter().map(|u| u.end));
        let ends = units
            .iter()
            .map(|u| u.start)
            .chain(std::iter::once(self.text.end));
        let gaps = starts.zip(ends).filter(|(start, end)| start < end);
        gaps.flat_map(|(start, end)| self.code_in(start..end))
            .filter_map(Code::without_padding)
            .collect()
    }

    fn code_in(&self, gap: Range<u64>) -> impl Iterator<Item = Code<'data>> + '_ {
        let first = self.code.partition_point(|code| code.end() <= gap.start);
        self.code[first..]
            .iter()
            .take_while(move |code| code.start < gap.end)
            .filter_map(move |code| code.part(gap.start.max(code.start)..gap.end.min(code.end())))
    }

    /// Appends the rows of the gap from `start` to `end`.
    ///
    /// Padding continues the row before it: nothing executes there, and the address behind a call
    /// that does not return is looked up one byte earlier. This saves a row per function.
    pub fn fill(&self, start: u64, end: u64, sink: &mut RowSink) {
        if start >= end {
            return;
        }
        let mut at = start;
        let first = self
            .derived
            .partition_point(|(address, _)| *address < start);
        for (address, rows) in self.derived[first..]
            .iter()
            .take_while(|(address, _)| *address < end)
        {
            self.fill_padding(at, *address, sink);
            rows.iter().for_each(|row| sink.push(*row));
            at = self.code_end(*address, end);
        }
        self.fill_padding(at, end, sink);
    }

    fn code_end(&self, address: u64, gap_end: u64) -> u64 {
        self.code_in(address..gap_end)
            .find(|code| code.start == address)
            .and_then(Code::without_padding)
            .map_or(gap_end, |code| code.end())
    }

    fn fill_padding(&self, start: u64, end: u64, sink: &mut RowSink) {
        if start >= end {
            return;
        }
        let is_padding = self.code_in(start..end).next().is_some_and(|code| {
            code.start == start && code.end() == end && padding(code.bytes) == code.bytes.len()
        });
        if !is_padding || sink.is_empty() {
            sink.push(Place::plain(KIND_NONE).at((start - self.text.start) as u32));
        }
    }
}

/// Go keeps frame pointers everywhere but in its signal trampoline.
fn keeps_frame_pointers(code: &Code<'_>, text: TextRange) -> Vec<Row> {
    let mut sink = RowSink::default();
    let mut at = code.start;
    let mut push =
        |address: u64, kind| sink.push(Place::plain(kind).at((address - text.start) as u32));
    push(at, KIND_FP);
    while let Some(found) = code
        .bytes
        .get((at - code.start) as usize..)
        .and_then(find_sigreturn)
    {
        let trampoline = at + found as u64;
        // One byte early: its address is a return address, looked up minus one.
        push((trampoline - 1).max(text.start), KIND_SIGNAL);
        at = trampoline + SIGRETURN[1].len() as u64;
        push(at + 2, KIND_FP);
    }
    sink.into_rows()
}

/// The executable sections or, where the file has none, the executable segments.
fn executable_ranges<'data>(file: &ElfFile<'data>) -> Vec<Code<'data>> {
    let mut found: Vec<Code<'data>> = file
        .sections()
        .filter(|(_, s)| s.is_executable() && s.stated_address() != 0)
        .filter_map(|(_, s)| {
            Some(Code {
                start: s.stated_address(),
                bytes: s.raw_bytes()?,
            })
        })
        .collect();
    if found.is_empty() {
        let segments = file.segments().filter(|s| s.executable);
        found = segments
            .filter_map(|s| {
                Some(Code {
                    start: s.stated_address,
                    bytes: file.bytes_from(s.stated_address)?,
                })
            })
            .collect();
    }
    found.retain(|code| code.start.checked_add(code.bytes.len() as u64).is_some());
    found.sort_by_key(|code| code.start);
    let mut end = 0;
    found.retain(|code| {
        let disjoint = code.start >= end;
        end = end.max(code.end());
        disjoint
    });
    found
}
