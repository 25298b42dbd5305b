//! Integers, characters and strings.

use super::{IntToken, Lexer, TokenKind};
use crate::error::{Checked, Fault};
use crate::octets;
use crate::span::Span;
use crate::tag::Tag;

impl<'a> Lexer<'a> {
    pub(super) fn number(&mut self) -> Checked<TokenKind<'a>> {
        let start = self.at;
        let text = self.word();
        let hexadecimal = text.starts_with("0x") || text.starts_with("0X");
        let fraction = self.rest().starts_with('.');
        let exponent = !hexadecimal && text.contains(['e', 'E']);
        if fraction || exponent || text.is_empty() {
            self.at += usize::from(fraction);
            return Err(self.syntax(start, "floating-point constants are not permitted"));
        }
        Ok(TokenKind::Int(integer(text, self.span_from(start))?))
    }

    /// A string in quotes, escapes resolved.
    pub(super) fn string_literal(&mut self) -> Checked<Box<str>> {
        let start = self.at;
        match self.quoted('"') {
            Some(text) => Ok(unescape(text).into()),
            None => Err(Fault::new(
                Tag::StrNl,
                self.span_from(start),
                "newline encountered in string literal",
            )),
        }
    }

    pub(super) fn character(&mut self) -> Checked<TokenKind<'a>> {
        let start = self.at;
        let Some(text) = self.quoted('\'') else {
            let message = "newline encountered in character constant";
            return Err(Fault::new(Tag::ChrNl, self.span_from(start), message));
        };
        let span = self.span_from(start);
        let bytes = unescape_bytes(text, false);
        if text.is_empty() {
            return Err(Fault::new(Tag::ChrNull, span, "empty character constant"));
        }
        if bytes.len() > 8 {
            let message = "character constant is too long";
            return Err(Fault::new(Tag::ChrOflow, span, message));
        }
        let value = bytes
            .iter()
            .fold(0, |value, byte| value << 8 | u64::from(*byte));
        Ok(TokenKind::Int(IntToken::decimal(value)))
    }

    /// The text between two quotes on one line.
    fn quoted(&mut self, quote: char) -> Option<&'a str> {
        let body = self.at + 1;
        let mut escaped = false;
        for (offset, c) in self.source[body..].char_indices() {
            if c == '\n' {
                break;
            }
            if c == quote && !escaped {
                self.at = body + offset + 1;
                return Some(&self.source[body..body + offset]);
            }
            escaped = c == '\\' && !escaped;
        }
        let rest = &self.source[body..];
        self.at = body + rest.find('\n').unwrap_or(rest.len());
        None
    }
}

/// An integer in decimal, octal or hexadecimal with its suffixes.
pub(super) fn integer(text: &str, span: Span) -> Checked<IntToken> {
    let body = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, radix) = match body.strip_prefix("0x").or(body.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None if body.len() > 1 && body.starts_with('0') => (&body[1..], 8),
        None => (body, 10),
    };
    if let Some(wrong) = digits.chars().find(|c| !c.is_digit(radix)) {
        let message = format!("constant {text} contains invalid digit {wrong}");
        return Err(Fault::new(Tag::IntDigit, span, message));
    }
    let suffix = text[body.len()..].to_ascii_lowercase();
    let longs = suffix.bytes().filter(|byte| *byte == b'l').count() as u8;
    let unsigned = suffix.starts_with('u') || suffix.ends_with('u');
    if digits.is_empty() || longs > 2 || suffix.len() - usize::from(unsigned) != longs.into() {
        let message = format!("syntax error near \"{text}\"");
        return Err(Fault::new(Tag::Syntax, span, message));
    }
    let Ok(value) = u64::from_str_radix(digits, radix) else {
        let message = format!("constant {text} results in integer overflow");
        return Err(Fault::new(Tag::IntOflow, span, message));
    };
    Ok(IntToken {
        value,
        decimal: radix == 10,
        unsigned,
        longs,
        negative: false,
    })
}

/// C's escape sequences resolved, in text that may stand for any bytes.
pub(super) fn unescape(text: &str) -> String {
    octets::text_of(&unescape_bytes(text, true))
}

/// Escape sequences that are none are kept, as dtrace keeps them in strings, or are the character behind the backslash.
fn unescape_bytes(text: &str, keeps_others: bool) -> Vec<u8> {
    let bytes = &octets::bytes_of(text)[..];
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' || at + 1 == bytes.len() {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        at += 2;
        match bytes[at - 1] {
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'x' if bytes.get(at).is_some_and(u8::is_ascii_hexdigit) => {
                out.push(digits(bytes, &mut at, 16, 2));
            }
            b'0'..=b'7' => {
                at -= 1;
                out.push(digits(bytes, &mut at, 8, 3));
            }
            b'\n' => {}
            other @ (b'"' | b'\\') => out.push(other),
            other if keeps_others => out.extend([b'\\', other]),
            other => out.push(other),
        }
    }
    out
}

/// Up to `most` digits from `at` on as a byte.
fn digits(bytes: &[u8], at: &mut usize, radix: u32, most: usize) -> u8 {
    let mut value = 0;
    for _ in 0..most {
        let digit = bytes
            .get(*at)
            .and_then(|byte| char::from(*byte).to_digit(radix));
        let Some(digit) = digit else { break };
        value = value * radix + digit;
        *at += 1;
    }
    value as u8
}
