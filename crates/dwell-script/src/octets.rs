//! Any bytes as text: scripts are read as text, but what a string holds need not be UTF-8. A byte that is part of no
//! character is kept as one of the last 128 code points, which mean nothing; their own bytes are kept likewise, so that
//! nothing is ambiguous.

/// The code point of byte 0.
const BASE: u32 = 0x10_ff00;

/// Bytes as text, from which [`bytes_of`] makes the same bytes.
pub fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match kept(c) {
                Some(_) => keep(&mut text, c.encode_utf8(&mut [0; 4]).as_bytes()),
                None => text.push(c),
            }
        }
        keep(&mut text, chunk.invalid());
    }
    text
}

/// The bytes that a text stands for.
pub fn bytes_of(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match kept(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

fn keep(text: &mut String, bytes: &[u8]) {
    text.extend(
        bytes
            .iter()
            .filter_map(|byte| char::from_u32(BASE + u32::from(*byte))),
    );
}

/// The byte that a character stands for, if it does for one.
pub(crate) fn kept(c: char) -> Option<u8> {
    let byte = u32::from(c).checked_sub(BASE)?;
    u8::try_from(byte).ok().filter(|byte| !byte.is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_whatever_they_are() {
        let all: Vec<u8> = (0..=255).collect();
        let own = "\u{10ff80}\u{10ffff}\u{10ff7f}".as_bytes();
        for bytes in [
            &all[..],
            b"plain",
            "größe €".as_bytes(),
            b"\xe2\x82",
            b"\xff\xf4\x8f",
            own,
        ] {
            assert_eq!(bytes_of(&text_of(bytes)), bytes);
        }
        assert_eq!(text_of("größe".as_bytes()), "größe");
    }
}
