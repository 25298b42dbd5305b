//! Text of few distinct values, in a table that may have millions of rows.
use crate::rows::{block_end, block_part};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::Deref;

/// Words that need no memory of their own.
const KNOWN: [&str; 13] = [
    "",
    block_part::BLOCK,
    block_part::HOLD,
    block_part::WAIT,
    block_part::MADE,
    block_end::FREE,
    block_end::RELEASED,
    block_end::CONDITION,
    block_end::DIED,
    block_end::ACQUIRED,
    block_end::GAVE_UP,
    block_end::OPEN,
    block_end::UNSEEN,
];

/// A text, most of the time one of those that the format names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(Repr);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Repr {
    /// Position in [`KNOWN`].
    Known(u8),
    /// None of these.
    Other(Box<str>),
}

impl Word {
    /// The text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Known(position) => KNOWN[usize::from(*position)],
            Repr::Other(text) => text,
        }
    }

    /// The text, if the format names it.
    pub(crate) fn known(&self) -> Option<&'static str> {
        match &self.0 {
            Repr::Known(position) => Some(KNOWN[usize::from(*position)]),
            Repr::Other(_) => None,
        }
    }

    /// Memory that it owns elsewhere, bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Known(_) => 0,
            Repr::Other(text) => text.len(),
        }
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        let known = KNOWN.iter().position(|known| *known == text);
        Word(match known {
            Some(position) => Repr::Known(position as u8),
            None => Repr::Other(text.into()),
        })
    }
}

impl Default for Word {
    fn default() -> Word {
        Word::from("")
    }
}

impl Deref for Word {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq<str> for Word {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Word {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<String> for Word {
    fn eq(&self, other: &String) -> bool {
        self.as_str() == other
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_str().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word, D::Error> {
        Ok(Word::from(String::deserialize(deserializer)?.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_comes_back_and_those_of_the_format_take_no_memory() {
        for text in KNOWN.into_iter().chain(["holds", "Hold", "日本 🦀"]) {
            let word = Word::from(text);
            assert_eq!((&*word, word == text), (text, true));
            assert_eq!(word.heap_bytes() == 0, KNOWN.contains(&text));
        }
        assert_eq!(Word::default(), Word::from(""));
        assert_ne!(Word::from(block_part::HOLD), Word::from("holds"));
        assert!(size_of::<Word>() <= 16);
    }
}
