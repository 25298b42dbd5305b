//! Probe descriptions: `provider:module:function:name`, from the right as far as they go.

use super::Parser;
use crate::error::{Checked, Fault};
use crate::span::Span;
use crate::tag::Tag;
use crate::typed::ProbePattern;

/// What the last part of a description with fewer than four parts is: the options `-P`, `-m`, `-f` and `-n`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Specifier {
    /// `-P`: a provider.
    Provider,
    /// `-m`: a module.
    Module,
    /// `-f`: a function.
    Function,
    /// `-n` and files: a name.
    #[default]
    Name,
}

impl Parser<'_, '_> {
    pub(super) fn probe_pattern(&self, text: &str, span: Span) -> Checked<ProbePattern> {
        let mut parts =
            split(text).ok_or_else(|| invalid(text, "quotation mark is missing", span))?;
        let wanted = match self.specifier {
            Specifier::Provider => 1,
            Specifier::Module => 2,
            Specifier::Function => 3,
            Specifier::Name => 4,
        };
        if parts.len() > 4 {
            let why = "Overly long probe description; names with colons need quotation marks";
            return Err(invalid(text, why, span));
        }
        while parts.len() < wanted {
            parts.insert(0, String::new());
        }
        parts.resize(4, String::new());
        if let Some(part) = parts.iter().find(|part| !well_formed(part)) {
            return Err(invalid(
                text,
                &format!("\"{part}\" has a [ without a ]"),
                span,
            ));
        }
        let mut parts = parts.into_iter().map(String::into_boxed_str);
        let mut next = || parts.next().unwrap_or_default();
        Ok(ProbePattern {
            provider: next(),
            module: next(),
            function: next(),
            name: next(),
            id: None,
            span,
        })
    }

    pub(super) fn probe_by_id(&self, id: u64, span: Span) -> Checked<ProbePattern> {
        match u32::try_from(id) {
            Ok(id) => Ok(ProbePattern {
                id: Some(id),
                span,
                ..ProbePattern::default()
            }),
            Err(_) => {
                let message = format!("identifier {id} exceeds maximum probe id");
                Err(Fault::new(Tag::PdescInval, span, message))
            }
        }
    }
}

/// The parts between colons that are not within quotes, without the quotes.
fn split(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ':' if !quoted => parts.push(String::new()),
            _ => parts.last_mut()?.push(c),
        }
    }
    (!quoted).then_some(parts)
}

/// Whether brackets are closed; in C++ names (`operator[]`) they are.
fn well_formed(part: &str) -> bool {
    part.matches('[').count() <= part.matches(']').count()
}

fn invalid(text: &str, why: &str, span: Span) -> Box<Fault> {
    let message = format!("invalid probe description \"{text}\": {why}");
    Fault::new(Tag::PdescInval, span, message)
}
