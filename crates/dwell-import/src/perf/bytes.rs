//! Little-endian numbers out of bytes, none where they end.

/// What is left of some bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bytes<'b> {
    rest: &'b [u8],
}

impl<'b> Bytes<'b> {
    /// All of them.
    pub fn new(rest: &'b [u8]) -> Self {
        Bytes { rest }
    }

    /// How many are left.
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// The next `n`.
    pub fn take(&mut self, n: u64) -> Option<&'b [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(n).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next number.
    pub fn u16(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.take(2)?.try_into().ok()?))
    }

    /// The next number.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// The next number.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// So many numbers.
    pub fn u64s(
        &mut self,
        n: u64,
    ) -> Option<impl DoubleEndedIterator<Item = u64> + Clone + use<'b>> {
        let bytes = self.take(n.checked_mul(8)?)?;
        let (words, _) = bytes.as_chunks::<8>();
        Some(words.iter().map(|w| u64::from_le_bytes(*w)))
    }

    /// Text up to a zero byte, which must be there.
    pub fn c_text(&mut self) -> Option<String> {
        let end = self.rest.iter().position(|b| *b == 0)?;
        let text = String::from_utf8_lossy(self.take(end as u64)?).into_owned();
        self.take(1)?;
        Some(text)
    }

    /// perf's way of writing text in its header: its length with padding, the bytes, zeroes.
    pub fn header_text(&mut self) -> Option<String> {
        let len = self.u32()?;
        Some(text(self.take(u64::from(len))?))
    }
}

/// Text up to its first zero byte, or its end.
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
