//! A string table.
use std::collections::HashMap;

/// Strings behind each other, each once.
#[derive(Debug)]
pub(crate) struct Strings {
    pub bytes: Vec<u8>,
    offsets: HashMap<Vec<u8>, u32>,
}

impl Strings {
    pub(crate) fn new() -> Self {
        Strings {
            bytes: vec![0],
            offsets: HashMap::from([(Vec::new(), 0)]),
        }
    }

    /// The offset of a string, which is added when it is new.
    pub(crate) fn add(&mut self, text: &[u8]) -> u32 {
        if let Some(&offset) = self.offsets.get(text) {
            return offset;
        }
        let offset = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text);
        self.bytes.push(0);
        self.offsets.insert(text.to_vec(), offset);
        offset
    }
}
