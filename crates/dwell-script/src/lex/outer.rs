//! Outside of clauses: a declaration or a probe description comes next.

use super::{IntToken, Lexer, TokenKind, literal};
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;

/// Words that begin a declaration.
const DECLARING: &[&str] = &[
    "auto",
    "char",
    "const",
    "double",
    "enum",
    "extern",
    "float",
    "inline",
    "int",
    "long",
    "provider",
    "register",
    "restrict",
    "self",
    "short",
    "signed",
    "static",
    "string",
    "struct",
    "this",
    "translator",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
];

/// What comes next outside of clauses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outer {
    End,
    /// A declaration, which was not read yet.
    Declaration,
    /// A probe description, macros expanded, quotes still around quoted names.
    Probe(String, Span),
    /// A probe's number.
    Id(u64, Span),
}

impl<'a> Lexer<'a> {
    /// `is_type` tells whether a name that could be either is a type's.
    pub fn outer(&mut self, is_type: &mut dyn FnMut(&str) -> bool) -> Checked<Outer> {
        self.skip_blank()?;
        let start = self.at;
        if self.rest().is_empty() {
            return Ok(Outer::End);
        }
        let length = self.description_length();
        let text = &self.source[start..start + length];
        if text.is_empty() {
            let first = self.rest().chars().next().unwrap_or_default();
            self.at += first.len_utf8();
            return Err(self.syntax(start, format!("syntax error near \"{first}\"")));
        }
        if declares(text, is_type) {
            return Ok(Outer::Declaration);
        }
        self.at += length;
        let span = self.span_from(start);
        if text.starts_with(|c: char| c.is_ascii_digit()) && !text.contains(':') {
            return Ok(Outer::Id(literal::integer(text, span)?.value, span));
        }
        Ok(Outer::Probe(self.expand_description(text, start)?, span))
    }

    /// A comma, which continues a list of probes.
    pub fn description_comma(&mut self) -> Checked<bool> {
        self.skip_blank()?;
        let comma = self.rest().starts_with(',');
        self.at += usize::from(comma);
        Ok(comma)
    }

    /// Bytes of the description that begins here; blanks and anything else only within quotes.
    fn description_length(&self) -> usize {
        let mut quoted = false;
        for (offset, c) in self.rest().char_indices() {
            match c {
                '\n' => return offset,
                '"' => quoted = !quoted,
                _ if quoted || is_description(c) => {}
                _ => return offset,
            }
        }
        self.rest().len()
    }

    /// Macro variables within a description stand for their text.
    fn expand_description(&self, text: &'a str, start: usize) -> Checked<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            out.push_str(&rest[..at]);
            let name = rest[at..].trim_start_matches('$');
            let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let (name, after) = name.split_at(end.unwrap_or(name.len()));
            let begin = start + (text.len() - rest.len()) + at;
            let span = Span {
                start: begin as u32,
                end: (start + text.len() - after.len()) as u32,
            };
            out.push_str(&self.description_macro(name, span)?);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    fn description_macro(&self, name: &str, span: Span) -> Checked<String> {
        if let Ok(index) = name.parse::<usize>() {
            if let Some(value) = self.macros.arguments.get(index) {
                self.used.note(index);
                return Ok((*value).to_owned());
            }
        } else if let Some(value) = self.macros.variable(name) {
            return Ok(value.to_string());
        }
        let kind = if name.starts_with(|c: char| c.is_ascii_digit()) {
            "argument"
        } else {
            "variable"
        };
        let message = format!("macro {kind} ${name} is not defined");
        let fault = Fault::new(Tag::MacroUndef, span, message);
        Err(fault.suggesting(name, self.macros.variables.iter().map(|(name, _)| *name)))
    }
}

fn is_description(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-$:_.?*\\[]!`+@~^".contains(c)
}

/// Whether what could be a probe's description begins a declaration.
fn declares(text: &str, is_type: &mut dyn FnMut(&str) -> bool) -> bool {
    let word = text.split('*').next().unwrap_or_default();
    if DECLARING.contains(&word) {
        return true;
    }
    let only_probe = text.contains([':', '-', '.', '?', '!', '`', '$', '"', '[']);
    let special = ["BEGIN", "END", "ERROR"].contains(&text);
    !only_probe && !special && !word.is_empty() && is_type(word)
}

impl<'a> TokenKind<'a> {
    /// What is shown of the token in a message.
    pub fn text(&self) -> String {
        match self {
            TokenKind::End => "end of input".into(),
            TokenKind::Name(name) => (*name).into(),
            TokenKind::Symbol(module, name) => format!("{}`{name}", module.unwrap_or_default()),
            TokenKind::Aggregation(name) => format!("@{name}"),
            TokenKind::Int(IntToken { value, .. }) => value.to_string(),
            TokenKind::String(text) => (**text).into(),
            TokenKind::Punctuation(text) => (*text).into(),
        }
    }
}
