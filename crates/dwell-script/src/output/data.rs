//! Fields of a record's or a key's bytes.

use super::OutputError;
use crate::schema::Field;

/// The bytes of a field.
pub fn bytes<'d>(field: &Field, data: &'d [u8]) -> Result<&'d [u8], OutputError> {
    let start = field.offset as usize;
    let end = start.checked_add(field.size as usize);
    end.and_then(|end| data.get(start..end))
        .ok_or(OutputError::Short {
            end: u64::from(field.offset) + u64::from(field.size),
            length: data.len(),
        })
}

/// An integer of 1, 2, 4 or 8 bytes, extended with zeros; `None` for bytes of another number.
pub fn unsigned(bytes: &[u8]) -> Option<u64> {
    Some(match bytes.len() {
        1 => u64::from(bytes[0]),
        2 => u64::from(u16::from_le_bytes(bytes.try_into().ok()?)),
        4 => u64::from(u32::from_le_bytes(bytes.try_into().ok()?)),
        8 => u64::from_le_bytes(bytes.try_into().ok()?),
        _ => return None,
    })
}

/// An integer of 1, 2, 4 or 8 bytes, extended with its sign; `None` for bytes of another number.
pub fn signed(bytes: &[u8]) -> Option<i64> {
    let unused = 64 - 8 * bytes.len() as u32 % 64;
    unsigned(bytes).map(|value| match unused {
        64 => value as i64,
        unused => (value << unused) as i64 >> unused,
    })
}

/// The integer that a field holds.
pub fn integer(field: &Field, data: &[u8]) -> Result<u64, OutputError> {
    let bytes = bytes(field, data)?;
    unsigned(bytes).ok_or(OutputError::Size { size: bytes.len() })
}

/// The integer with a sign that a field holds.
pub fn signed_integer(field: &Field, data: &[u8]) -> Result<i64, OutputError> {
    let bytes = bytes(field, data)?;
    signed(bytes).ok_or(OutputError::Size { size: bytes.len() })
}

/// The bytes before the first zero.
pub fn until_zero(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

/// The whole 8-byte numbers in bytes.
pub fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_le_bytes(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_size() {
        assert_eq!(signed(&[0xff]), Some(-1));
        assert_eq!(signed(&[0xfe, 0xff]), Some(-2));
        assert_eq!(signed(&[0, 0, 0, 0x80]), Some(i64::from(i32::MIN)));
        assert_eq!(signed(&i64::MIN.to_le_bytes()), Some(i64::MIN));
        assert_eq!(unsigned(&[0xff, 0xff]), Some(0xffff));
        assert_eq!(unsigned(&[1, 2, 3]), None);
        assert_eq!(signed(&[]), None);
        assert_eq!(words(&[1, 0, 0, 0, 0, 0, 0, 0, 9]).collect::<Vec<_>>(), [1]);
    }
}
