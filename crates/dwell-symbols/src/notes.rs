//! What a person should know about names that are missing.

/// Most notes kept: they are for a person to read.
const MAX_NOTES: usize = 8;

/// A few distinct messages.
#[derive(Default)]
pub(crate) struct Notes {
    messages: Vec<String>,
}

impl Notes {
    /// Adds `message` unless it was said already or enough has been said.
    pub(crate) fn add(&mut self, message: String) {
        if self.messages.len() < MAX_NOTES && !self.messages.contains(&message) {
            self.messages.push(message);
        }
    }

    /// All of them, in the order they came up.
    pub(crate) fn messages(&self) -> &[String] {
        &self.messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_distinct() {
        let mut notes = Notes::default();
        for i in 0..100 {
            notes.add(format!("note {}", i / 2));
        }
        assert_eq!(notes.messages().len(), MAX_NOTES);
        assert_eq!(notes.messages()[1], "note 1");
    }
}
