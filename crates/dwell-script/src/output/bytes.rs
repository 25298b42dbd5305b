//! Strings and memory.

use std::io::Write;

use super::c_format::{Shape, string};
use super::data::until_zero;

/// A dump as `tracemem` prints it: a head, then 16 bytes to a line with their offset and as characters. Nothing for
/// no bytes.
pub fn dump(out: &mut Vec<u8>, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    out.extend_from_slice(b"\n           ");
    for digit in "0123456789abcdef".chars() {
        let _ = write!(out, "  {digit}");
    }
    out.extend_from_slice(b"  0123456789abcdef\n");
    for (line, bytes) in bytes.chunks(16).enumerate() {
        dump_line(out, line * 16, bytes);
    }
}

/// One line of a dump.
fn dump_line(out: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    // Writing to memory does not fail.
    let _ = write!(out, "     {offset:5x}:");
    for byte in bytes {
        let _ = write!(out, " {byte:02x}");
    }
    out.resize(out.len() + 3 * (16 - bytes.len()) + 2, b' ');
    let character = |byte: &u8| match byte {
        b' '..=b'~' => *byte,
        _ => b'.',
    };
    out.extend(bytes.iter().map(character));
    out.push(b'\n');
}

/// A string filled up with spaces to the right.
pub fn column(out: &mut Vec<u8>, bytes: &[u8], width: usize) {
    let left = Shape {
        left: true,
        width,
        ..Shape::default()
    };
    out.extend_from_slice(b"  ");
    string(out, until_zero(bytes), &left);
}

/// Bytes of unknown meaning: as a string if they look like one (printable, and zeros only behind), else dumped.
pub fn guessed(out: &mut Vec<u8>, bytes: &[u8], width: usize) {
    let text = until_zero(bytes);
    let printable = |byte: &u8| matches!(byte, b' '..=b'~' | 7..=13);
    let zeros = bytes[text.len()..].iter().all(|byte| *byte == 0);
    match !text.is_empty() && zeros && text.iter().all(printable) {
        true => column(out, text, width),
        false => dump(out, bytes),
    }
}

/// A string up to a zero with C's escapes for what is not printable, the zero itself included, as `%S` prints it.
pub fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            0 => {
                out.extend_from_slice(b"\\0");
                break;
            }
            7..=13 => out.extend([b'\\', b"abtnvfr"[usize::from(byte - 7)]]),
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            b' '..=b'~' => out.push(*byte),
            _ => {
                // Writing to memory does not fail.
                let _ = write!(out, "\\{byte:03o}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(print: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        print(&mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn dumps_have_sixteen_bytes_to_a_line() {
        let bytes: Vec<u8> = b"Linux version 6.18\x80".to_vec();
        let expected = "\n             0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f  0123456789abcdef\n\
            \u{20}        0: 4c 69 6e 75 78 20 76 65 72 73 69 6f 6e 20 36 2e  Linux version 6.\n\
            \u{20}       10: 31 38 80                                         18.\n";
        assert_eq!(printed(|out| dump(out, &bytes)), expected);
        assert_eq!(printed(|out| dump(out, &[])), "");
    }

    #[test]
    fn guesses() {
        assert_eq!(printed(|out| guessed(out, b"ab\0\0", 4)), "  ab  ");
        assert_eq!(printed(|out| guessed(out, b"abc", 2)), "  abc");
        for binary in [&b"a\0b"[..], b"\0\0", b"\x01a", b"\xc3\xa9"] {
            assert!(printed(|out| guessed(out, binary, 4)).starts_with("\n     "));
        }
    }

    #[test]
    fn escapes_end_with_the_zero() {
        assert_eq!(
            escaped(b"a\"\n\x1b\\\xff\0\0"),
            b"a\\\"\\n\\033\\\\\\377\\0"
        );
        assert_eq!(escaped(b"\x07\x08\x09\x0b\x0c\x0d"), b"\\a\\b\\t\\v\\f\\r");
    }
}
