//! The format strings of printf, printa, system and freopen.

use thiserror::Error;

use super::c_format::{Base, WIDEST};

/// A format, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Format {
    /// Text and conversions in order.
    pub pieces: Vec<Piece>,
}

/// A part of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Printed as it is: the bytes that it stands for, see [`crate::octets`].
    Text(Box<str>),
    /// A conversion.
    Conversion(Conversion),
}

/// A conversion of a format. `%%` is none: it is text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    /// What it makes of its argument.
    pub kind: Kind,
    /// The name with its size prefix, as error messages show it: `lld`.
    pub name: Box<str>,
    /// `@`: the argument is what an aggregation holds.
    pub aggregation: bool,
    /// `#`
    pub alternate: bool,
    /// `0`, unless a `-` came after it.
    pub zero: bool,
    /// `-`, unless a `0` came after it.
    pub left: bool,
    /// `+`
    pub plus: bool,
    /// A space.
    pub space: bool,
    /// The least width; 0 without one.
    pub width: Extent,
    /// The precision; 0 without one, as dtrace does not tell the two apart.
    pub precision: Extent,
}

/// A width or a precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// As it stands in the format.
    Fixed(usize),
    /// `*`: the next argument.
    Argument,
}

/// What a conversion makes of its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `%a`: an address of the kernel by name.
    KernelAddress,
    /// `%A`: an address of a process by name.
    UserAddress,
    /// `%c`
    Character,
    /// `%C`: with escapes for what cannot be printed.
    EscapedCharacter,
    /// `%d`, `%i`: as signed as its argument.
    Decimal,
    /// `%hd`, `%ld`, …: always signed.
    Signed,
    /// `%u`, `%o`, `%x`, `%X` of any size; `%p` is a hexadecimal number.
    Unsigned(Base),
    /// `%e`, `%f`, `%g`, `%E`, `%G`: the letter.
    Float(u8),
    /// `%k`: a stack.
    Stack,
    /// `%s`
    String,
    /// `%S`: with escapes.
    EscapedString,
    /// `%lc`, `%wc`
    WideCharacter,
    /// `%ls`, `%ws`
    WideString,
    /// `%Y`: `1973 Dec  3 17:20:00`.
    Time,
    /// `%T`: `Mon, 03 Dec 1973 17:20:00 UTC`.
    MailTime,
}

/// Why a format is none; `number` counts the conversions from 1.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// Two `*` for the same.
    #[error("format conversion #{number} has more than one '*' specified for the output {what}")]
    Stars {
        /// Which conversion.
        number: usize,
        /// `width` or `precision`.
        what: &'static str,
    },
    /// Two points.
    #[error("format conversion #{number} has more than one '.' specified")]
    Points {
        /// Which conversion.
        number: usize,
    },
    /// `%1$d`.
    #[error("format conversion #{number} uses unsupported positional format (%n$)")]
    Positional {
        /// Which conversion.
        number: usize,
    },
    /// `%5%`.
    #[error("format conversion #{number} cannot be combined with other format flags: %%")]
    Percent {
        /// Which conversion.
        number: usize,
    },
    /// Nothing behind the `%`.
    #[error("format conversion #{number} name expected before end of format string")]
    Unfinished {
        /// Which conversion.
        number: usize,
    },
    /// No such conversion.
    #[error("format conversion #{number} is undefined: %{name}")]
    Undefined {
        /// Which conversion.
        number: usize,
        /// As it stands there.
        name: Box<str>,
    },
    /// A width or precision that nothing could show.
    #[error("format conversion #{number} is wider than {WIDEST}")]
    Wide {
        /// Which conversion.
        number: usize,
    },
}

/// Takes a format apart.
pub fn parse(format: &str) -> Result<Format, FormatError> {
    let mut pieces = Vec::new();
    let mut rest = format;
    let mut number = 0;
    while let Some(at) = rest.find('%') {
        push_text(&mut pieces, &rest[..at]);
        number += 1;
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            push_text(&mut pieces, "%");
            rest = behind;
            continue;
        }
        let (conversion, behind) = conversion(rest, number)?;
        pieces.push(Piece::Conversion(conversion));
        rest = behind;
    }
    push_text(&mut pieces, rest);
    Ok(Format { pieces })
}

/// Adds text to the last piece.
fn push_text(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        _ if text.is_empty() => {}
        Some(Piece::Text(before)) => *before = format!("{before}{text}").into(),
        _ => pieces.push(Piece::Text(text.into())),
    }
}

/// What is known of a conversion before its name comes.
#[derive(Default)]
struct Head {
    aggregation: bool,
    alternate: bool,
    zero: bool,
    left: bool,
    plus: bool,
    space: bool,
    width: Option<Extent>,
    precision: Option<Extent>,
    point: bool,
    digits: bool,
    prefix: String,
}

/// Longer prefixes than any name has; what follows is not needed to know that there is none.
const LONGEST_PREFIX: usize = 6;

/// One conversion from behind its `%` on, and what follows it.
fn conversion(text: &str, number: usize) -> Result<(Conversion, &str), FormatError> {
    let mut head = Head::default();
    let mut rest = text;
    loop {
        let Some(letter) = rest.chars().next() else {
            return Err(FormatError::Unfinished { number });
        };
        if letter.is_ascii_digit() {
            rest = head.digits(rest, number)?;
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        if !head.flag(letter, number)? {
            return Ok((head.named(letter, number)?, rest));
        }
    }
}

impl Head {
    /// A `0` in front, or a width or precision.
    fn digits<'t>(&mut self, text: &'t str, number: usize) -> Result<&'t str, FormatError> {
        if let (false, false, Some(rest)) = (self.point, self.digits, text.strip_prefix('0')) {
            (self.zero, self.left) = (true, false);
            return Ok(rest);
        }
        let end = text.find(|c: char| !c.is_ascii_digit());
        let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
        let extent = digits.parse().unwrap_or(usize::MAX);
        if extent > WIDEST {
            return Err(FormatError::Wide { number });
        }
        self.extend(extent);
        self.digits = true;
        Ok(rest)
    }

    /// A width or precision in the format; a `*` counts for more, wherever it stands.
    fn extend(&mut self, extent: usize) {
        let place = match self.point {
            true => &mut self.precision,
            false => &mut self.width,
        };
        if *place != Some(Extent::Argument) {
            *place = Some(Extent::Fixed(extent));
        }
    }

    /// Notes a flag or a size prefix; false if the letter is the name.
    fn flag(&mut self, letter: char, number: usize) -> Result<bool, FormatError> {
        match letter {
            '#' => self.alternate = true,
            '+' => self.plus = true,
            ' ' => self.space = true,
            '-' => (self.left, self.zero) = (true, false),
            '@' => self.aggregation = true,
            // Thousands are told apart only where the locale says so, which dtrace never asks for.
            '\'' => {}
            // The width of a pointer.
            '?' if !self.point => self.extend(16),
            '?' => {}
            '*' => self.star(number)?,
            '.' if self.point => return Err(FormatError::Points { number }),
            '.' => (self.point, self.digits) = (true, false),
            '$' => return Err(FormatError::Positional { number }),
            '%' => return Err(FormatError::Percent { number }),
            'h' | 'l' | 'L' | 'w' if self.prefix.len() < LONGEST_PREFIX => self.prefix.push(letter),
            'h' | 'l' | 'L' | 'w' => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A `*`.
    fn star(&mut self, number: usize) -> Result<(), FormatError> {
        let (extent, what) = match self.point {
            true => (&mut self.precision, "precision"),
            false => (&mut self.width, "width"),
        };
        match extent.replace(Extent::Argument) {
            Some(Extent::Argument) => Err(FormatError::Stars { number, what }),
            _ => Ok(()),
        }
    }

    /// The conversion of that name.
    fn named(self, letter: char, number: usize) -> Result<Conversion, FormatError> {
        let name = format!("{}{letter}", self.prefix).into_boxed_str();
        let Some(kind) = kind(&name) else {
            return Err(FormatError::Undefined { number, name });
        };
        Ok(Conversion {
            kind,
            name,
            aggregation: self.aggregation,
            alternate: self.alternate,
            zero: self.zero,
            left: self.left,
            plus: self.plus,
            space: self.space,
            width: self.width.unwrap_or(Extent::Fixed(0)),
            precision: self.precision.unwrap_or(Extent::Fixed(0)),
        })
    }
}

/// The conversions there are.
fn kind(name: &str) -> Option<Kind> {
    let hexadecimal = |upper| Kind::Unsigned(Base::Hexadecimal { upper });
    Some(match name {
        "a" => Kind::KernelAddress,
        "A" => Kind::UserAddress,
        "c" => Kind::Character,
        "C" => Kind::EscapedCharacter,
        "d" | "i" => Kind::Decimal,
        "hd" | "hi" | "ld" | "li" | "lld" | "lli" => Kind::Signed,
        "u" | "hu" | "lu" | "llu" => Kind::Unsigned(Base::Decimal),
        "o" | "ho" | "lo" | "llo" => Kind::Unsigned(Base::Octal),
        "x" | "hx" | "lx" | "llx" | "p" => hexadecimal(false),
        "X" | "hX" | "lX" | "llX" => hexadecimal(true),
        "e" | "Le" => Kind::Float(b'e'),
        "E" | "LE" => Kind::Float(b'E'),
        "f" | "Lf" => Kind::Float(b'f'),
        "g" | "Lg" => Kind::Float(b'g'),
        "G" | "LG" => Kind::Float(b'G'),
        "k" => Kind::Stack,
        "s" => Kind::String,
        "S" => Kind::EscapedString,
        "lc" | "wc" => Kind::WideCharacter,
        "ls" | "ws" => Kind::WideString,
        "T" => Kind::MailTime,
        "Y" => Kind::Time,
        _ => return None,
    })
}
