//! What is wrong with a script, as dtrace(1) tells it: a tag, the line, the message; and beyond dtrace the source with
//! a caret, and a suggestion.

use std::fmt;

use crate::lines::Lines;
use crate::octets;
use crate::span::Span;
use crate::tag::Tag;

/// A script that was refused.
///
/// `Display` is what follows `dtrace: failed to compile script x.d: ` on dtrace's line; [`Error::excerpt`] is the
/// source line below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of the error.
    pub tag: Tag,
    /// What is wrong, without a full stop; may have several lines, as dtrace's messages do.
    pub message: String,
    /// The file, where a line marker of the preprocessor named one.
    pub file: Option<String>,
    /// The line, counted from 1.
    pub line: u32,
    /// The column in characters, counted from 1.
    pub column: u32,
    /// The number of characters that are wrong, at least 1.
    pub width: u32,
    /// The text of the line.
    pub source_line: String,
    /// What may have been meant.
    pub suggestion: Option<String>,
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] ", self.tag)?;
        if let Some(file) = &self.file {
            write!(f, "\"{file}\", ")?;
        }
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl Error {
    /// The source line, a line with carets below the wrong place, and the suggestion, each ended by a newline.
    pub fn excerpt(&self) -> String {
        let shown: String = self
            .source_line
            .chars()
            .map(|c| match c {
                _ if c.is_control() => ' ',
                _ if octets::kept(c).is_some() => char::REPLACEMENT_CHARACTER,
                _ => c,
            })
            .collect();
        let indent = self.column.saturating_sub(1) as usize;
        let room = shown.chars().count().saturating_sub(indent).max(1);
        let carets = (self.width as usize).clamp(1, room);
        let mut text = format!(
            "  {shown}\n  {}{}\n",
            " ".repeat(indent),
            "^".repeat(carets)
        );
        if let Some(suggestion) = &self.suggestion {
            text.push_str(&format!("  did you mean {suggestion}?\n"));
        }
        text
    }
}

/// An error before its place is looked up.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub tag: Tag,
    pub message: String,
    pub span: Span,
    pub suggestion: Option<String>,
}

/// What every part of the front end returns.
pub(crate) type Checked<T> = Result<T, Box<Fault>>;

impl Fault {
    pub fn new(tag: Tag, span: Span, message: impl Into<String>) -> Box<Fault> {
        Box::new(Fault {
            tag,
            message: message.into(),
            span,
            suggestion: None,
        })
    }

    /// With the known name that is nearest to the wrong one.
    pub fn suggesting<'n>(
        mut self: Box<Self>,
        wrong: &str,
        known: impl Iterator<Item = &'n str>,
    ) -> Box<Self> {
        self.suggestion = crate::nearest::nearest(wrong, known).map(str::to_owned);
        self
    }

    /// The error for people.
    pub fn located(self, source: &str, lines: &Lines) -> Error {
        let start = (self.span.start as usize).min(source.len());
        let end = (self.span.end as usize).clamp(start, source.len());
        let line_start = source[..start].rfind('\n').map_or(0, |at| at + 1);
        let line_end = source[start..]
            .find('\n')
            .map_or(source.len(), |at| start + at);
        let (file, line) = lines.place(source, start);
        Error {
            tag: self.tag,
            message: self.message,
            file,
            line,
            column: source[line_start..start].chars().count() as u32 + 1,
            width: (source[start..end.min(line_end).max(start)].chars().count() as u32).max(1),
            source_line: source[line_start..line_end].to_owned(),
            suggestion: self.suggestion,
        }
    }
}
