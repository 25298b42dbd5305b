//! What tells the merged file from others: its build id, and a note of what it was made of.
use super::Merge;
use super::hot::Hot;
use object::elf;

/// Type of our own note: what the file was made of, a line each: name, base, build id, path.
const NOTE_ORIGIN: u32 = 0x4457_4231;

/// Type of our own note: the copied functions, three words each: image address of the copy, of the original, bytes.
const NOTE_COPIES: u32 = 0x4457_4232;

/// The notes of the merged file.
pub(crate) fn notes(merge: &Merge<'_, '_>, hot: &Hot) -> Vec<u8> {
    let origin = origin(merge);
    let copies = copies(hot);
    let id = digest(&[origin.as_bytes(), &copies].concat());
    let mut notes = note("GNU", elf::NT_GNU_BUILD_ID.0, &id);
    notes.extend(note("dwell", NOTE_ORIGIN, origin.as_bytes()));
    if !copies.is_empty() {
        notes.extend(note("dwell", NOTE_COPIES, &copies));
    }
    notes
}

/// Whether a file is one that was made here.
pub fn is_merged(file: &[u8]) -> bool {
    let parsed = dwell_elf::ElfFile::parse(file);
    parsed.is_ok_and(|elf| elf.find_note(b"dwell", NOTE_ORIGIN).is_some())
}

/// What a merged file was made of, as its notes say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// In the order of their bases.
    pub modules: Vec<OriginModule>,
    /// Copied functions: image address of the copy, of the original, bytes; sorted.
    copies: Vec<(u64, u64, u64)>,
}

/// A file that was merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginModule {
    /// Its path.
    pub path: String,
    /// Its build id in hexadecimal.
    pub build_id: String,
    /// What was added to its stated addresses.
    pub base: u64,
}

impl Origin {
    /// Of a merged file; none of others.
    pub fn of(file: &[u8]) -> Option<Self> {
        let elf = dwell_elf::ElfFile::parse(file).ok()?;
        let text = elf.find_note(b"dwell", NOTE_ORIGIN)?;
        let text = std::str::from_utf8(text).ok()?;
        let mut modules: Vec<OriginModule> = text.lines().skip(1).filter_map(module).collect();
        modules.sort_by_key(|m| m.base);
        let copies = elf.find_note(b"dwell", NOTE_COPIES).unwrap_or_default();
        let word = |bytes: &[u8], at: usize| {
            let word = bytes[at..].first_chunk::<8>();
            word.map_or(0, |w| u64::from_le_bytes(*w))
        };
        let (entries, _) = copies.as_chunks::<24>();
        let mut copies: Vec<_> = entries
            .iter()
            .map(|e| (word(e, 0), word(e, 8), word(e, 16)))
            .collect();
        copies.sort_unstable();
        Some(Origin { modules, copies })
    }

    /// The module that has an image address, and the stated one; a copy's is its original's.
    pub fn place(&self, image: u64) -> Option<(usize, u64)> {
        let next = self.copies.partition_point(|c| c.0 <= image);
        let copy = next.checked_sub(1).map(|i| self.copies[i]);
        let original = match copy.filter(|&(at, _, len)| image - at < len) {
            Some((at, original, _)) => original.checked_add(image - at)?,
            None => image,
        };
        let next = self.modules.partition_point(|m| m.base <= original);
        let module = next.checked_sub(1)?;
        Some((module, original - self.modules[module].base))
    }
}

/// A line of the note: name, base, build id, path.
fn module(line: &str) -> Option<OriginModule> {
    let mut words = line.splitn(4, ' ').skip(1);
    let base = words.next()?.strip_prefix("0x")?;
    Some(OriginModule {
        base: u64::from_str_radix(base, 16).ok()?,
        build_id: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
    })
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

fn copies(hot: &Hot) -> Vec<u8> {
    let words = hot.clones.iter().flat_map(|c| [c.at, c.body.at, c.len()]);
    words.flat_map(u64::to_le_bytes).collect()
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
