//! Evaluates every function entry (FDE) of a file, in the order of the sections.
use super::cfi::{Machine, Prologue};
use super::convert::{Converter, Place, Rules};
use super::sections::Slice;
use super::{CfiSections, MAX_ROWS, TextRange, gaps};
use crate::{ElfError, ElfFile};
use dwell_abi::unwind::{KIND_SIGNAL, KIND_UNSUPPORTED, Row};
use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, FrameDescriptionEntry, Section as _,
    UnwindSection,
};
use std::collections::HashMap;

/// The part of the text one FDE speaks for, and its rows in [`Units::rows`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unit {
    /// First stated address.
    pub start: u64,
    /// First stated address past the end.
    pub end: u64,
    pub first_row: usize,
    pub rows: usize,
}

/// Everything that the sections say, not yet in the order of addresses.
#[derive(Default)]
pub(crate) struct Units {
    /// From `.eh_frame`.
    pub eh: Vec<Unit>,
    /// From `.debug_frame`, which speaks only where `.eh_frame` is silent.
    pub debug: Vec<Unit>,
    pub rows: Vec<Row>,
    pub rules: Rules,
}

pub(crate) fn units(
    file: &ElfFile<'_>,
    sections: &CfiSections<'_>,
    text: TextRange,
) -> Result<Units, ElfError> {
    let mut units = Units::default();
    let bases = sections.bases();
    if let Some(section) = sections.eh_frame() {
        let bytes = section.reader().slice();
        units.eh = Collector::new(
            file,
            &section,
            bytes,
            &bases,
            text,
            &mut units.rows,
            &mut units.rules,
        )
        .run()?;
    }
    if let Some(section) = sections.debug_frame() {
        let bytes = section.reader().slice();
        units.debug = Collector::new(
            file,
            &section,
            bytes,
            &bases,
            text,
            &mut units.rows,
            &mut units.rules,
        )
        .run()?;
    }
    Ok(units)
}

/// A CIE and what it gives to its functions; none when it is damaged or not for x86-64.
type Cie<'a> = Option<(CommonInformationEntry<Slice<'a>>, Prologue)>;

struct Collector<'a, 'b, S: UnwindSection<Slice<'a>>> {
    file: &'b ElfFile<'b>,
    section: &'b S,
    bases: &'b BaseAddresses,
    text: TextRange,
    rows: &'b mut Vec<Row>,
    converter: Converter<'b>,
    cies: HashMap<usize, Cie<'a>>,
}

impl<'a: 'b, 'b, S> Collector<'a, 'b, S>
where
    S: UnwindSection<Slice<'a>>,
    S::Offset: gimli::UnwindOffset<usize>,
{
    fn new(
        file: &'b ElfFile<'b>,
        section: &'b S,
        bytes: &'b [u8],
        bases: &'b BaseAddresses,
        text: TextRange,
        rows: &'b mut Vec<Row>,
        rules: &'b mut Rules,
    ) -> Self {
        let converter = Converter {
            section: bytes,
            rules,
        };
        Collector {
            file,
            section,
            bases,
            text,
            rows,
            converter,
            cies: HashMap::new(),
        }
    }

    fn run(mut self) -> Result<Vec<Unit>, ElfError> {
        let mut units = Vec::new();
        let mut entries = self.section.entries(self.bases);
        // A damaged length makes everything behind it unreadable; what came before still holds.
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let cie_offset = partial.cie_offset();
            let key: usize = gimli::UnwindOffset::into(cie_offset);
            let cie = self
                .cies
                .entry(key)
                .or_insert_with(|| read_cie(self.section, self.bases, cie_offset));
            let Some((cie, prologue)) = cie else { continue };
            let (cie, prologue) = (cie.clone(), *prologue);
            let Ok(fde) = partial.parse(|_, _, _| Ok(cie.clone())) else {
                continue;
            };
            if let Some(unit) = self.unit(&fde, &prologue) {
                units.push(unit);
            }
            if self.rows.len() > MAX_ROWS {
                return Err(ElfError::TooManyRows(MAX_ROWS));
            }
        }
        Ok(units)
    }

    /// None for an entry that speaks for no byte of the text (discarded functions keep entries
    /// with address 0 in `.debug_frame`).
    fn unit(
        &mut self,
        fde: &FrameDescriptionEntry<Slice<'a>>,
        prologue: &Prologue,
    ) -> Option<Unit> {
        let start = fde.initial_address();
        let end = fde.end_address().min(self.text.end);
        let first = self.text.relative(start).filter(|_| start < end)?;
        let first_row = self.rows.len();
        if fde.is_signal_trampoline() {
            self.rows.push(self.trampoline(start, end).at(first));
        } else {
            self.rows_of(fde, prologue, end);
        }
        Some(Unit {
            start,
            end,
            first_row,
            rows: self.rows.len() - first_row,
        })
    }

    /// The kernel's frame layout is known only for the real `rt_sigreturn` trampoline. Other code
    /// marked as a signal frame describes its own registers, which takes the full stepper.
    fn trampoline(&self, start: u64, end: u64) -> Place {
        let bytes = self.file.bytes_from(start).unwrap_or_default();
        let len = (end - start).min(gaps::MAX_TRAMPOLINE as u64) as usize;
        let bytes = &bytes[..bytes.len().min(len)];
        let kind = if gaps::find_sigreturn(bytes).is_some() {
            KIND_SIGNAL
        } else {
            KIND_UNSUPPORTED
        };
        Place::plain(kind)
    }

    fn rows_of(&mut self, fde: &FrameDescriptionEntry<Slice<'a>>, prologue: &Prologue, end: u64) {
        let start = fde.initial_address();
        let mut machine = Machine::new(prologue, start);
        let (rows, converter, text) = (&mut *self.rows, &mut self.converter, self.text);
        let first_row = rows.len();
        let mut push = |pc: u64, place: Place| {
            let same = rows.len() > first_row && Place::of(&rows[rows.len() - 1]) == place;
            if pc < end && !same {
                rows.push(place.at((pc - text.start) as u32));
            }
        };
        let outcome = machine.run(fde.instructions(self.section, self.bases), |pc, state| {
            if pc < end {
                push(pc, converter.place(state));
            }
        });
        let last = match outcome {
            Ok(()) => converter.place(&machine.state),
            // Known to be described, but not how from here on.
            Err(_) => Place::plain(KIND_UNSUPPORTED),
        };
        push(machine.pc, last);
    }
}

fn read_cie<'a, S: UnwindSection<Slice<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    offset: S::Offset,
) -> Cie<'a> {
    let cie = section.cie_from_offset(bases, offset).ok()?;
    // Another column would mean code of another processor.
    if cie.return_address_register() != super::cfi::RIP {
        return None;
    }
    let instructions = cie.instructions(section, bases);
    let prologue = Prologue::evaluate(
        cie.code_alignment_factor(),
        cie.data_alignment_factor(),
        instructions,
    )
    .ok()?;
    Some((cie, prologue))
}
