//! The tokens of D expressions and declarations.

use crate::span::Span;

/// A token and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub kind: TokenKind<'a>,
    pub span: Span,
}

/// The kinds of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TokenKind<'a> {
    End,
    /// An identifier or a keyword.
    Name(&'a str),
    /// `` `name `` or `` module`name ``.
    Symbol(Option<&'a str>, &'a str),
    /// `@name`; `_` for `@` alone.
    Aggregation(&'a str),
    Int(IntToken),
    String(Box<str>),
    Punctuation(&'static str),
}

/// An integer constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IntToken {
    pub value: u64,
    /// Written in decimal: never becomes unsigned by its size alone.
    pub decimal: bool,
    /// `u`.
    pub unsigned: bool,
    /// The number of `l`s.
    pub longs: u8,
    /// A macro argument may bring a minus with it.
    pub negative: bool,
}

impl IntToken {
    pub fn decimal(value: u64) -> Self {
        IntToken {
            value,
            decimal: true,
            unsigned: false,
            longs: 0,
            negative: false,
        }
    }
}

/// Longest first, so that the first that fits is the right one.
pub(crate) const PUNCTUATION: &[&str] = &[
    "<<=", ">>=", "...", "++", "--", "->", "==", "!=", "<=", ">=", "<<", ">>", "&&", "||", "^^",
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "+", "-", "*", "/", "%", "&", "|", "^", "~",
    "!", "?", ":", ".", "=", "<", ">", ",", ";", "(", ")", "[", "]", "{", "}",
];

/// Words that are never identifiers.
const KEYWORDS: &[&str] = &[
    "auto",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "long",
    "offsetof",
    "register",
    "restrict",
    "return",
    "self",
    "short",
    "signed",
    "sizeof",
    "static",
    "string",
    "stringof",
    "struct",
    "switch",
    "this",
    "translator",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
    "xlate",
];

pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}
