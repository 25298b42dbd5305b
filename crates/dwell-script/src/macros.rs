//! Macro variables: `$1` and `$$1` from the command line, `$target`, `$pid` and the like from the caller.

use std::cell::RefCell;

/// What `$name` and `$1` stand for.
#[derive(Debug, Clone, Default)]
pub struct Macros<'a> {
    /// `$0`, the script's name, then `$1`, `$2`, … in this order.
    pub arguments: Vec<&'a str>,
    /// `$target`, `$pid`, `$ppid`, `$uid`, `$euid`, `$gid`, `$egid`, `$pgid`, `$sid`, `$projid`, `$taskid`, without `$`.
    pub variables: Vec<(&'a str, i64)>,
}

impl Macros<'_> {
    /// The value of `$name`.
    pub fn variable(&self, name: &str) -> Option<i64> {
        let found = self.variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| *value)
    }
}

/// Which of the arguments a script has named.
#[derive(Debug, Default)]
pub(crate) struct Used(RefCell<Vec<bool>>);

impl Used {
    pub fn note(&self, index: usize) {
        let mut used = self.0.borrow_mut();
        if used.len() <= index {
            used.resize(index + 1, false);
        }
        used[index] = true;
    }

    /// The last argument that was given and never named; `$0` is never missed.
    pub fn last_unused(&self, count: usize) -> Option<usize> {
        let used = self.0.borrow();
        let named = |index: usize| used.get(index).copied().unwrap_or(false);
        (1..count).rev().find(|index| !named(*index))
    }
}

/// What the text of a macro argument becomes in the place of `$1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expansion<'a> {
    Name(&'a str),
    /// An integer as it was written, and whether a minus stood before it.
    Int(&'a str, bool),
    String(&'a str),
}

impl<'a> Expansion<'a> {
    /// A name or an integer as such, anything else as a string whose quotes are taken off.
    pub fn of(text: &'a str) -> Self {
        let (digits, negative) = match text.strip_prefix('-') {
            Some(rest) => (rest, true),
            None => (text.strip_prefix('+').unwrap_or(text), false),
        };
        if digits.starts_with(|c: char| c.is_ascii_digit()) && is_word(digits) {
            return Expansion::Int(digits, negative);
        }
        if text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && is_word(text) {
            return Expansion::Name(text);
        }
        let quoted = text
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        Expansion::String(quoted.unwrap_or(text))
    }
}

fn is_word(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'`'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_names_integers_or_strings() {
        assert_eq!(Expansion::of("malloc"), Expansion::Name("malloc"));
        assert_eq!(Expansion::of("-0x10"), Expansion::Int("0x10", true));
        assert_eq!(
            Expansion::of("/etc/passwd"),
            Expansion::String("/etc/passwd")
        );
        assert_eq!(Expansion::of("\"a b\""), Expansion::String("a b"));
        assert_eq!(Expansion::of("\""), Expansion::String("\""));
        assert_eq!(Expansion::of(""), Expansion::String(""));
    }
}
