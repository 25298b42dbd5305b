//! A module's file and what holds its debug information, for who reads more of it than names of functions.
use memmap2::Mmap;

/// The files of one module, mapped.
#[derive(Debug)]
pub struct DebugData {
    pub(crate) file: Mmap,
    pub(crate) debug: Option<Mmap>,
    pub(crate) shared: Option<Mmap>,
}

impl DebugData {
    /// The bytes of the file itself.
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// The bytes of its separate debug file, if it has none of its own and one was found.
    pub fn debug(&self) -> Option<&[u8]> {
        self.debug.as_deref()
    }

    /// The bytes of the file with entries that several debug files share (`dwz` makes it).
    pub fn shared(&self) -> Option<&[u8]> {
        self.shared.as_deref()
    }
}
