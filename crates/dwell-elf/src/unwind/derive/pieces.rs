//! The undescribed pieces of a file's code, and what of them has been reached.
use super::Code;
use crate::unwind::gaps::padding;
use iced_x86::{Decoder, DecoderOptions, Instruction};
use std::ops::Range;

/// Disjoint pieces of code in the order of addresses.
pub(super) struct Pieces<'data> {
    list: Vec<Piece<'data>>,
}

struct Piece<'data> {
    code: Code<'data>,
    decoder: Decoder<'data>,
    /// By byte: whether an instruction that was reached covers it.
    reached: Vec<bool>,
}

/// A byte of a piece, or its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    piece: usize,
    offset: usize,
}

impl<'data> Pieces<'data> {
    pub fn new(codes: &[Code<'data>]) -> Self {
        let piece = |code: &Code<'data>| Piece {
            code: *code,
            decoder: Decoder::with_ip(64, code.bytes, code.start, DecoderOptions::NONE),
            reached: vec![false; code.bytes.len()],
        };
        Pieces {
            list: codes.iter().map(piece).collect(),
        }
    }

    /// Bytes in all pieces.
    pub fn len(&self) -> usize {
        self.list.iter().map(|piece| piece.code.bytes.len()).sum()
    }

    pub fn position(&self, address: u64) -> Option<Position> {
        let piece = self.list.partition_point(|p| p.code.end() <= address);
        let code = &self.list.get(piece)?.code;
        Some(Position {
            piece,
            offset: address.checked_sub(code.start)? as usize,
        })
    }

    pub fn contains(&self, address: u64) -> bool {
        self.position(address).is_some()
    }

    pub fn address(&self, at: Position) -> u64 {
        self.list[at.piece].code.start + at.offset as u64
    }

    /// Decodes the instruction at `at` and marks it as reached; the position behind it. None when it
    /// was reached before or the piece ends.
    pub fn decode(&mut self, at: Position, instruction: &mut Instruction) -> Option<Position> {
        let address = self.address(at);
        let piece = &mut self.list[at.piece];
        if piece.reached.get(at.offset) != Some(&false)
            || piece.decoder.set_position(at.offset).is_err()
        {
            return None;
        }
        piece.decoder.set_ip(address);
        piece.decoder.decode_out(instruction);
        let end = at.offset + instruction.len().max(1);
        piece.reached[at.offset..end.min(piece.code.bytes.len())].fill(true);
        Some(Position { offset: end, ..at })
    }

    /// The first byte of `range` that was not reached and is no padding, with the bytes from there on.
    pub fn next_left(&self, range: &Range<u64>) -> Option<(u64, &'data [u8])> {
        let first = self.list.partition_point(|p| p.code.end() <= range.start);
        self.list[first..]
            .iter()
            .take_while(|p| p.code.start < range.end)
            .find_map(|piece| {
                let offset = |address: u64| {
                    (address.clamp(piece.code.start, piece.code.end()) - piece.code.start) as usize
                };
                let at = piece.next_left(offset(range.start)..offset(range.end))?;
                Some((piece.code.start + at as u64, &piece.code.bytes[at..]))
            })
    }
}

impl Piece<'_> {
    fn next_left(&self, range: Range<usize>) -> Option<usize> {
        let mut at = range.start;
        loop {
            at += self
                .reached
                .get(at..range.end)?
                .iter()
                .position(|reached| !reached)?;
            match padding(&self.code.bytes[at..range.end]) {
                0 => return Some(at),
                skip => at += skip,
            }
        }
    }
}
