//! The functions of a file.
use super::Refusal;
use dwell_elf::unwind::{CfiSections, FunctionRange};
use dwell_elf::{ElfError, ElfFile, Symbols};
use iced_x86::{Decoder, DecoderOptions, Instruction};
use std::ops::Range;

/// A function: where it begins and ends (stated addresses).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Function {
    /// First byte.
    pub start: u64,
    /// Past the last byte.
    pub end: u64,
}

/// A file, as far as patching needs to know it.
pub struct Image<'data> {
    file: ElfFile<'data>,
    described: Vec<FunctionRange>,
    /// Every address where a function may begin, so that none is taken for padding.
    starts: Vec<u64>,
    /// Symbols by address.
    entries: Vec<Entry>,
    /// Where calls into other files pass through (`.plt` and its like).
    linkage: Vec<Range<u64>>,
}

/// What the symbols say of an address.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    /// The largest of the symbols' sizes.
    size: u64,
    indirect: bool,
}

impl<'data> Image<'data> {
    /// Reads the tables of a file.
    pub fn parse(data: &'data [u8]) -> Result<Self, ElfError> {
        let file = ElfFile::parse(data)?;
        let described = CfiSections::find(&file).functions();
        let entries = entries(&file);
        let mut starts: Vec<u64> = described.iter().map(|f| f.start).collect();
        starts.extend(entries.iter().map(|e| e.address));
        starts.sort_unstable();
        starts.dedup();
        let linkage = file
            .sections()
            .filter(|(name, _)| name.starts_with(b".plt"))
            .map(|(_, s)| s.stated_address()..s.stated_address().saturating_add(s.size()))
            .collect();
        Ok(Image {
            file,
            described,
            starts,
            entries,
            linkage,
        })
    }

    /// The file itself.
    pub fn file(&self) -> &ElfFile<'data> {
        &self.file
    }

    /// Its symbols.
    pub fn symbols(&self) -> Symbols<'data> {
        self.file.symbols()
    }

    /// What call frame information describes.
    pub(super) fn described(&self) -> &[FunctionRange] {
        &self.described
    }

    /// Every address where a function may begin, ascending.
    pub(super) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// The function that begins at a stated address, and whether it may be patched at all.
    pub fn function(&self, start: u64) -> Result<Function, Refusal> {
        if self.file.is_go() {
            return Err(Refusal::Go);
        }
        let entry = self.entries.binary_search_by_key(&start, |e| e.address);
        let entry = entry.ok().map(|found| self.entries[found]);
        if entry.is_some_and(|e| e.indirect) {
            return Err(Refusal::Indirect);
        }
        let by_symbol = entry.map(|e| e.size).filter(|&size| size > 0);
        let by_frame = || self.described_at(start).map(|f| f.end - start);
        let size = by_symbol.or_else(by_frame).ok_or(Refusal::NoFunction)?;
        let end = start.checked_add(size).ok_or(Refusal::NoFunction)?;
        self.file
            .bytes_at(start, size as usize)
            .ok_or(Refusal::NoFunction)?;
        Ok(Function { start, end })
    }

    /// The function that an address lies in, of this file.
    pub fn function_around(&self, address: u64) -> Result<Function, Refusal> {
        if self.linkage.iter().any(|l| l.contains(&address)) {
            return Err(Refusal::LeavesFile);
        }
        /// Symbols that may begin within the function, before the address.
        const LABELS: usize = 64;
        let next = self.starts.partition_point(|&s| s <= address);
        let before = self.starts[..next].iter().rev().take(LABELS);
        before
            .filter_map(|&start| self.function(start).ok())
            .find(|f| address < f.end)
            .ok_or(Refusal::NoFunction)
    }

    fn described_at(&self, start: u64) -> Option<&FunctionRange> {
        let found = self
            .described
            .binary_search_by_key(&start, |f| f.start)
            .ok()?;
        Some(&self.described[found])
    }

    /// Whether a jump to `target` from within `inside` leaves that function for good; refused where it
    /// goes to a part of the function that lies elsewhere and comes back.
    pub(super) fn leaves(&self, inside: &Range<u64>, target: u64) -> Result<bool, Refusal> {
        if inside.contains(&target) {
            return Ok(false);
        }
        if self.linkage.iter().any(|l| l.contains(&target)) {
            return Ok(true);
        }
        let Ok(other) = self.function(target) else {
            return Err(Refusal::Split);
        };
        let comes_back = |i: &Instruction| {
            let to = i.near_branch_target();
            i.is_jcc_short_or_near() && inside.contains(&to) && to != inside.start
                || i.is_jmp_short_or_near() && inside.contains(&to) && to != inside.start
        };
        match self.decode(other)?.iter().any(comes_back) {
            true => Err(Refusal::Split),
            false => Ok(true),
        }
    }

    /// Whether a function may begin in this range of stated addresses.
    pub(super) fn begins_in(&self, range: Range<u64>) -> bool {
        let next = self.starts.partition_point(|&s| s < range.start);
        self.starts.get(next).is_some_and(|s| range.contains(s))
    }

    /// The instructions of a range, in order; refused where one cannot be decoded.
    pub(super) fn decode(&self, function: Function) -> Result<Vec<Instruction>, Refusal> {
        let len = (function.end - function.start) as usize;
        let bytes = self
            .file
            .bytes_at(function.start, len)
            .ok_or(Refusal::NoFunction)?;
        let instructions: Vec<Instruction> =
            Decoder::with_ip(64, bytes, function.start, DecoderOptions::NONE)
                .into_iter()
                .collect();
        match instructions.iter().any(Instruction::is_invalid) {
            true => Err(Refusal::Undecodable),
            false => Ok(instructions),
        }
    }

    /// Whether the bytes of a range are padding: nothing but `int3` and no-operations.
    pub(super) fn is_padding(&self, range: Range<u64>) -> bool {
        let Some(bytes) = self.file.bytes_from(range.start) else {
            return false;
        };
        let bytes = &bytes[..bytes.len().min(64)];
        let mut decoder = Decoder::with_ip(64, bytes, range.start, DecoderOptions::NONE);
        while decoder.ip() < range.end {
            let instruction = decoder.decode();
            let idle = matches!(
                instruction.mnemonic(),
                iced_x86::Mnemonic::Nop | iced_x86::Mnemonic::Int3
            );
            if !idle || instruction.is_invalid() {
                return false;
            }
        }
        true
    }
}

fn entries(file: &ElfFile<'_>) -> Vec<Entry> {
    let mut entries: Vec<Entry> = file
        .symbols()
        .map(|s| Entry {
            address: s.address,
            size: s.size,
            indirect: s.indirect,
        })
        .collect();
    entries.sort_unstable_by_key(|e| e.address);
    entries.dedup_by(|next, kept| {
        let same = next.address == kept.address;
        if same {
            kept.size = kept.size.max(next.size);
            kept.indirect |= next.indirect;
        }
        same
    });
    entries
}
