//! Source to tokens, one at a time: the parser tells whether a probe description or an expression is to come, since
//! the same bytes are different tokens in the two.

mod control;
mod literal;
mod outer;
mod token;

pub(crate) use outer::Outer;
pub(crate) use token::{IntToken, Token, TokenKind, is_keyword};

use crate::error::{Checked, Fault};
use crate::lines::Lines;
use crate::macros::{Expansion, Macros, Used};
use crate::options::Options;
use crate::span::Span;
use crate::tag::Tag;

/// Reads a source from its start to its end.
pub(crate) struct Lexer<'a> {
    source: &'a str,
    at: usize,
    macros: &'a Macros<'a>,
    /// Which macro arguments were named.
    pub used: Used,
    /// The options, changed by pragmas.
    pub options: Options,
    /// The preprocessor's line markers.
    pub lines: Lines,
}

impl<'a> Lexer<'a> {
    pub fn new(source: &'a str, macros: &'a Macros<'a>, options: Options) -> Self {
        Lexer {
            source,
            at: 0,
            macros,
            used: Used::default(),
            options,
            lines: Lines::default(),
        }
    }

    /// The next token of an expression or a declaration.
    pub fn token(&mut self) -> Checked<Token<'a>> {
        self.skip_blank()?;
        let start = self.at;
        let kind = self.token_kind()?;
        let span = self.span_from(start);
        Ok(Token { kind, span })
    }

    /// Reads again from a token on that was already read.
    pub fn rewind(&mut self, to: u32) {
        self.at = to as usize;
    }

    /// Whether a `/` that ends at `at` closes a predicate: what follows cannot continue a division.
    pub fn slash_closes(&self, at: u32) -> bool {
        let rest = self.source[at as usize..].trim_start_matches(is_blank);
        rest.is_empty() || rest.starts_with([';', '{', '/'])
    }

    fn token_kind(&mut self) -> Checked<TokenKind<'a>> {
        let Some(first) = self.rest().chars().next() else {
            return Ok(TokenKind::End);
        };
        match first {
            'a'..='z' | 'A'..='Z' | '_' => Ok(self.name_or_symbol()),
            '0'..='9' => self.number(),
            '`' => self.symbol(),
            '@' => Ok(self.aggregation()),
            '$' => self.macro_token(),
            '"' => Ok(TokenKind::String(self.string_literal()?)),
            '\'' => self.character(),
            '.' if self.rest()[1..].starts_with(|c: char| c.is_ascii_digit()) => self.number(),
            _ => self.punctuation(first),
        }
    }

    fn punctuation(&mut self, first: char) -> Checked<TokenKind<'a>> {
        let rest = self.rest();
        match token::PUNCTUATION
            .iter()
            .find(|text| rest.starts_with(**text))
        {
            Some(text) => {
                self.at += text.len();
                Ok(TokenKind::Punctuation(text))
            }
            None => {
                let start = self.at;
                self.at += first.len_utf8();
                Err(self.syntax(start, format!("syntax error near \"{first}\"")))
            }
        }
    }

    fn name_or_symbol(&mut self) -> TokenKind<'a> {
        let name = self.word();
        if self.rest().starts_with('`') {
            let mark = self.at;
            self.at += 1 + usize::from(self.rest().starts_with("``"));
            if let Some(symbol) = self.symbol_name() {
                return TokenKind::Symbol(Some(name), symbol);
            }
            self.at = mark;
        }
        TokenKind::Name(name)
    }

    /// `` `name ``, `` `module`name `` (the module with dots and dashes), ``` ``name ```.
    fn symbol(&mut self) -> Checked<TokenKind<'a>> {
        let start = self.at;
        let body = start + 1 + usize::from(self.rest().starts_with("``"));
        let is_module = |c: char| c.is_ascii_alphanumeric() || "_.-+".contains(c);
        let rest = &self.source[body..];
        let length = rest.find(|c| !is_module(c)).unwrap_or(rest.len());
        let quote = body + length;
        if length > 0 && self.source[quote..].starts_with('`') {
            self.at = quote + 1 + usize::from(self.source[quote..].starts_with("``"));
            if let Some(name) = self.symbol_name() {
                return Ok(TokenKind::Symbol(Some(&rest[..length]), name));
            }
        }
        self.at = body;
        let name = self.symbol_name();
        name.map(|name| TokenKind::Symbol(None, name))
            .ok_or_else(|| self.syntax(start, "syntax error near \"`\""))
    }

    /// A symbol's name: C++'s with `::`, or anything in quotes.
    fn symbol_name(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        if let Some(quoted) = rest.strip_prefix('"') {
            let length = quoted
                .find(['"', '\n'])
                .filter(|at| quoted[*at..].starts_with('"'))?;
            self.at += length + 2;
            return Some(&quoted[..length]).filter(|name| !name.is_empty());
        }
        let start = self.at;
        loop {
            if !self
                .rest()
                .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            {
                self.at = start;
                return None;
            }
            self.word();
            let next = self.rest().strip_prefix("::");
            if !next.is_some_and(|n| n.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')) {
                return Some(&self.source[start..self.at]);
            }
            self.at += 2;
        }
    }

    fn aggregation(&mut self) -> TokenKind<'a> {
        self.at += 1;
        if self
            .rest()
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        {
            return TokenKind::Aggregation(self.word());
        }
        TokenKind::Aggregation("_")
    }

    /// The letters, digits and underscores from here on.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        self.at += length;
        &rest[..length]
    }

    /// `$1`, `$$1`, `$target`, `$$target`.
    fn macro_token(&mut self) -> Checked<TokenKind<'a>> {
        let start = self.at;
        let as_string = self.rest().starts_with("$$");
        self.at += 1 + usize::from(as_string);
        let name = self.word();
        let text = &self.source[start..self.at];
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            let value = self.macro_argument(name, start)?;
            return match value {
                None if as_string => Ok(TokenKind::String("".into())),
                None => Ok(TokenKind::Int(IntToken::decimal(0))),
                Some(value) if as_string => Ok(TokenKind::String(literal::unescape(value).into())),
                Some(value) => self.expand(value, start),
            };
        }
        let Some(value) = self.macros.variable(name).filter(|_| !name.is_empty()) else {
            return Err(Fault::new(
                Tag::MacroUndef,
                self.span_from(start),
                format!("macro variable {text} is not defined"),
            )
            .suggesting(name, self.macros.variables.iter().map(|(name, _)| *name)));
        };
        if as_string {
            return Ok(TokenKind::String(value.to_string().into()));
        }
        let mut token = IntToken::decimal(value.unsigned_abs());
        token.negative = value < 0;
        Ok(TokenKind::Int(token))
    }

    /// The text of the argument with that number; `None` if it may be missing and is.
    fn macro_argument(&self, digits: &str, start: usize) -> Checked<Option<&'a str>> {
        let index = digits.parse().unwrap_or(usize::MAX);
        let value = self.macros.arguments.get(index);
        if value.is_some() {
            self.used.note(index);
        } else if !self.options.flag("defaultargs") || index == usize::MAX {
            let text = &self.source[start..self.at];
            return Err(Fault::new(
                Tag::MacroUndef,
                self.span_from(start),
                format!("macro argument {text} is not defined"),
            ));
        }
        Ok(value.copied())
    }

    fn expand(&self, value: &'a str, start: usize) -> Checked<TokenKind<'a>> {
        Ok(match Expansion::of(value) {
            Expansion::Name(name) => TokenKind::Name(name),
            Expansion::String(text) => TokenKind::String(literal::unescape(text).into()),
            Expansion::Int(digits, negative) => {
                let span = self.span_from(start);
                let mut token = literal::integer(digits, span).map_err(|mut fault| {
                    if fault.tag == Tag::IntOflow {
                        fault.tag = Tag::MacroOflow;
                        fault.message = format!(
                            "macro argument {} constant {digits} results in integer overflow",
                            &self.source[start..self.at]
                        );
                    }
                    fault
                })?;
                token.negative = negative;
                TokenKind::Int(token)
            }
        })
    }

    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn span_from(&self, start: usize) -> Span {
        Span {
            start: start as u32,
            end: self.at as u32,
        }
    }

    fn syntax(&self, start: usize, message: impl Into<String>) -> Box<Fault> {
        Fault::new(Tag::Syntax, self.span_from(start), message)
    }
}

pub(super) fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}
