//! Notes: the build id and Go's mark, through sections or (stripped of headers) segments.
use crate::ElfFile;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{NoteIterator, ProgramHeader as _};

/// Notes read per file; real files have fewer than 10.
const MAX_NOTES: usize = 256;
/// Longest accepted build id in bytes; SHA-256 has 32, linkers allow any hex string.
const MAX_BUILD_ID: usize = 64;
/// Type of Go's build id note (owner `Go`).
const GO_BUILD_ID: u32 = 4;

impl<'data> ElfFile<'data> {
    /// The GNU build id, raw bytes. Found through `PT_NOTE`, so section headers are not needed.
    pub fn build_id(&self) -> Option<&'data [u8]> {
        self.find_note(b"GNU", elf::NT_GNU_BUILD_ID.0)
            .filter(|id| !id.is_empty() && id.len() <= MAX_BUILD_ID)
    }

    pub(crate) fn has_go_build_id(&self) -> bool {
        self.find_note(b"Go", GO_BUILD_ID).is_some()
    }

    /// What the first note of an owner (without its zero) and a type says.
    pub fn find_note(&self, owner: &[u8], kind: u32) -> Option<&'data [u8]> {
        let in_segments = self
            .raw_segments
            .iter()
            .filter(|s| s.p_type(LE) == elf::PT_NOTE)
            .filter_map(|s| Some((s.data(LE, self.data).ok()?, s.p_align(LE))));
        // Files made by odd linkers have note sections that no PT_NOTE covers.
        let in_sections = self.sections.notes(self.data);
        in_segments.chain(in_sections).find_map(|(bytes, align)| {
            NoteIterator::<elf::FileHeader64<LE>>::new(
                LE,
                object::U64::new(LE, align).get(LE),
                bytes,
            )
            .ok()?
            .take(MAX_NOTES)
            .map_while(Result::ok)
            .find(|note| note.name() == owner && note.n_type(LE).0 == kind)
            .map(|note| note.desc())
        })
    }
}
