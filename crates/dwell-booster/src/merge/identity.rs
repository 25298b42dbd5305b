//! What tells the merged file from others: its build id, and a note of what it was made of.
use super::Merge;
use object::elf;

/// Type of our own note: what the file was made of, a line each: name, base, build id, path.
const NOTE_ORIGIN: u32 = 0x4457_4231;

/// The notes of the merged file.
pub(crate) fn notes(merge: &Merge<'_, '_>) -> Vec<u8> {
    let origin = origin(merge);
    let id = digest(origin.as_bytes());
    let mut notes = note("GNU", elf::NT_GNU_BUILD_ID.0, &id);
    notes.extend(note("dwell", NOTE_ORIGIN, origin.as_bytes()));
    notes
}

/// Whether a file is one that was made here.
pub fn is_merged(file: &[u8]) -> bool {
    let parsed = dwell_elf::ElfFile::parse(file);
    parsed.is_ok_and(|elf| elf.find_note(b"dwell", NOTE_ORIGIN).is_some())
}

/// One note, padded.
fn note(owner: &str, kind: u32, description: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words = [owner.len() as u32 + 1, description.len() as u32, kind];
    bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    bytes.extend(owner.as_bytes());
    bytes.push(0);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(description);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// What the file was made of.
fn origin(merge: &Merge<'_, '_>) -> String {
    let mut lines = format!("dwell boost {}\n", env!("CARGO_PKG_VERSION"));
    for (index, base) in merge.layout.merged() {
        let module = &merge.closure.modules[index];
        let id = module
            .elf
            .build_id()
            .map_or_else(|| digest(module.elf.data()).to_vec(), <[u8]>::to_vec);
        let id: String = id.iter().map(|b| format!("{b:02x}")).collect();
        // Not where it all begins: that may be chosen at random.
        let base = base - merge.layout.own();
        lines += &format!("{} {base:#x} {id} {}\n", module.name, module.path);
    }
    lines
}

/// A build id of 20 bytes: FNV-1a of the text from three beginnings. It tells builds apart; nobody
/// is kept from making another file with the same one, as with a linker's.
fn digest(text: &[u8]) -> [u8; 20] {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut id = [0; 20];
    for (number, part) in id.chunks_mut(8).enumerate() {
        let start = 0xcbf2_9ce4_8422_2325u64 ^ (number as u64 + 1).wrapping_mul(PRIME);
        let hash = text
            .iter()
            .fold(start, |h, &b| (h ^ u64::from(b)).wrapping_mul(PRIME));
        part.copy_from_slice(&hash.to_le_bytes()[..part.len()]);
    }
    id
}
