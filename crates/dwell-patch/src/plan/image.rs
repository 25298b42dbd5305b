//! The functions of a file.
use super::Refusal;
use dwell_elf::unwind::{CfiSections, FunctionRange};
use dwell_elf::{ElfError, ElfFile, Symbols};
use iced_x86::{Decoder, DecoderOptions, Instruction};

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
}

impl<'data> Image<'data> {
    /// Reads the tables of a file.
    pub fn parse(data: &'data [u8]) -> Result<Self, ElfError> {
        let file = ElfFile::parse(data)?;
        let described = CfiSections::find(&file).functions();
        let mut starts: Vec<u64> = described.iter().map(|f| f.start).collect();
        starts.extend(file.symbols().map(|s| s.address));
        starts.sort_unstable();
        starts.dedup();
        Ok(Image {
            file,
            described,
            starts,
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
        let mut symbols = self
            .file
            .symbols()
            .filter(|s| s.address == start)
            .peekable();
        if symbols.peek().is_some_and(|s| s.indirect) {
            return Err(Refusal::Indirect);
        }
        let by_symbol = symbols.map(|s| s.size).max().filter(|&size| size > 0);
        let by_frame = || {
            let found = self
                .described
                .binary_search_by_key(&start, |f| f.start)
                .ok()?;
            Some(self.described[found].end - start)
        };
        let size = by_symbol.or_else(by_frame).ok_or(Refusal::NoFunction)?;
        let end = start.checked_add(size).ok_or(Refusal::NoFunction)?;
        self.file
            .bytes_at(start, size as usize)
            .ok_or(Refusal::NoFunction)?;
        Ok(Function { start, end })
    }

    /// Whether a function may begin in this range of stated addresses.
    pub(super) fn begins_in(&self, range: std::ops::Range<u64>) -> bool {
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
    pub(super) fn is_padding(&self, range: std::ops::Range<u64>) -> bool {
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
