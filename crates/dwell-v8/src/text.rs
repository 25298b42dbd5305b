//! Strings.
use crate::layout::Texts;
use crate::objects::Heap;
use dwell_maps::Memory;
use std::ops::Range;

/// Strings lead to strings: so deep at most, and so many in all for what is read at once.
const MOST_DEEP: u32 = 64;
const MOST_STRINGS: u32 = 4096;

/// Characters of a string, as it has them.
pub(crate) enum Piece {
    OneByte(Vec<u8>),
    TwoByte(Vec<u16>),
}

impl<M: Memory> Heap<'_, M> {
    fn texts(&self) -> &Texts {
        &self.layout.texts
    }

    /// Whether an object is a string; how it is made.
    fn kind_of_text(&self, object: u64) -> Option<(u16, bool)> {
        let texts = self.texts();
        let kind = self.type_of(object)?;
        let one_byte = kind & texts.encoding_mask == texts.one_byte;
        (kind & texts.not_text_mask == 0).then_some((kind & texts.kind_mask, one_byte))
    }

    pub(crate) fn is_text(&self, object: u64) -> bool {
        self.kind_of_text(object).is_some()
    }

    pub(crate) fn text_length(&self, text: u64) -> Option<u32> {
        let address = text.checked_add(self.texts().length)?;
        u32::try_from(self.memory.int(address)?).ok()
    }

    /// The first characters of a string, at most so many.
    pub(crate) fn text(&self, text: u64, most: u32) -> Option<String> {
        let mut whole = String::new();
        let length = self.text_length(text)?.min(most);
        self.pieces(text, 0..length, &mut |piece| match piece {
            Piece::OneByte(bytes) => whole.extend(bytes.into_iter().map(char::from)),
            Piece::TwoByte(units) => whole.push_str(&String::from_utf16_lossy(&units)),
        })?;
        Some(whole)
    }

    /// Hands out a range of a string's characters in their order. None: not all of it could be read.
    pub(crate) fn pieces(
        &self,
        text: u64,
        range: Range<u32>,
        out: &mut impl FnMut(Piece),
    ) -> Option<()> {
        let mut left = MOST_STRINGS;
        self.pieces_within(text, range, MOST_DEEP, &mut left, out)
    }

    fn pieces_within(
        &self,
        text: u64,
        range: Range<u32>,
        deep: u32,
        left: &mut u32,
        out: &mut impl FnMut(Piece),
    ) -> Option<()> {
        let texts = self.texts();
        let (kind, one_byte) = self.kind_of_text(text)?;
        let deep = deep.checked_sub(1)?;
        *left = left.checked_sub(1)?;
        if kind == texts.cons {
            let first = self.object_at(text, texts.cons_first)?;
            let second = self.object_at(text, texts.cons_second)?;
            let middle = self.text_length(first)?;
            if range.start < middle {
                let range = range.start..range.end.min(middle);
                self.pieces_within(first, range, deep, left, out)?;
            }
            if range.end > middle {
                let range = range.start.saturating_sub(middle)..range.end - middle;
                self.pieces_within(second, range, deep, left, out)?;
            }
            return Some(());
        }
        if kind == texts.sliced {
            let parent = self.object_at(text, texts.sliced_parent)?;
            let offset = u32::try_from(self.small_at(text, texts.sliced_offset)?).ok()?;
            let range = range.start.checked_add(offset)?..range.end.checked_add(offset)?;
            return self.pieces_within(parent, range, deep, left, out);
        }
        if kind == texts.thin {
            let actual = self.object_at(text, texts.thin_actual)?;
            return self.pieces_within(actual, range, deep, left, out);
        }
        let characters = self.characters(text, kind, one_byte)?;
        self.piece(characters, one_byte, range).map(out)
    }

    /// Where the characters of a string lie that is one piece.
    fn characters(&self, text: u64, kind: u16, one_byte: bool) -> Option<u64> {
        let texts = self.texts();
        if kind == texts.sequential {
            let chars = match one_byte {
                true => texts.one_byte_chars,
                false => texts.two_byte_chars,
            };
            text.checked_add(chars)
        } else if kind == texts.external {
            // Behind what it belongs to stands where its characters are.
            self.field(text, texts.external_resource + 8)
        } else {
            None
        }
    }

    fn piece(&self, characters: u64, one_byte: bool, range: Range<u32>) -> Option<Piece> {
        let length = range.end.checked_sub(range.start)? as usize;
        let width = if one_byte { 1 } else { 2 };
        let mut bytes = vec![0; length * width as usize];
        let from = characters.checked_add(width * u64::from(range.start))?;
        if !self.memory.read(from, &mut bytes) {
            return None;
        }
        Some(match one_byte {
            true => Piece::OneByte(bytes),
            false => {
                let (units, _) = bytes.as_chunks();
                Piece::TwoByte(units.iter().map(|unit| u16::from_le_bytes(*unit)).collect())
            }
        })
    }
}
