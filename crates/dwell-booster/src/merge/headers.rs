//! Program headers, section headers, the dynamic section, notes.
use super::image::{Image, Load, R, W, X};
use super::strings::Strings;
use crate::PAGE;
use object::elf;

/// A program header's fields but for what `Image` knows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub kind: u32,
    pub flags: u32,
    pub at: u64,
    pub file_size: u64,
    pub mem_size: u64,
    pub align: u64,
}

impl Segment {
    pub(crate) fn of(load: &Load) -> Self {
        Segment {
            kind: elf::PT_LOAD.0,
            flags: load.flags,
            at: load.at,
            file_size: load.file_size,
            mem_size: load.mem_size,
            align: load.align,
        }
    }

    pub(crate) fn table(kind: u32, flags: u32, at: u64, len: u64, align: u64) -> Self {
        Segment {
            kind,
            flags,
            at,
            file_size: len,
            mem_size: len,
            align,
        }
    }

    pub(crate) fn bytes(&self, start: u64) -> Vec<u8> {
        let offset = self.at.saturating_sub(start);
        let mut bytes = Vec::with_capacity(56);
        bytes.extend(self.kind.to_le_bytes());
        bytes.extend(self.flags.to_le_bytes());
        let words = [
            offset,
            self.at,
            self.at,
            self.file_size,
            self.mem_size,
            self.align,
        ];
        bytes.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        bytes
    }
}

/// A section header.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    /// Image address; 0 for what is not loaded.
    pub at: u64,
    pub offset: u64,
    pub size: u64,
    pub link: u32,
    pub info: u32,
    pub entry: u64,
}

impl Section {
    pub(crate) fn bytes(&self, names: &mut Strings) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        bytes.extend(names.add(self.name.as_bytes()).to_le_bytes());
        bytes.extend(self.kind.to_le_bytes());
        for word in [self.flags, self.at, self.offset, self.size] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.link.to_le_bytes());
        bytes.extend(self.info.to_le_bytes());
        bytes.extend(8u64.to_le_bytes());
        bytes.extend(self.entry.to_le_bytes());
        bytes
    }
}

/// A section for each loaded range of a module, so that symbols have one: `.text` for the program's
/// code, `.text.libz.so.1` for a library's.
pub(crate) fn sections_of_modules(image: &Image, names: &[&str]) -> Vec<Section> {
    let of_modules = image.loads.iter().filter_map(|l| Some((l, l.module?)));
    let mut sections = Vec::new();
    for (load, module) in of_modules {
        let suffix = match module {
            0 => String::new(),
            _ => format!(".{}", names[module]),
        };
        let (name, flags) = match load.flags {
            f if f & X != 0 => (".text", elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0),
            f if f & W != 0 => (".data", elf::SHF_ALLOC.0 | elf::SHF_WRITE.0),
            _ => (".rodata", elf::SHF_ALLOC.0),
        };
        let section = |name: &str, kind: u32, from: u64, size: u64| Section {
            name: format!("{name}{suffix}"),
            kind,
            flags,
            at: load.at + from,
            offset: load.at + from - image.start,
            size,
            link: 0,
            info: 0,
            entry: 0,
        };
        sections.push(section(name, elf::SHT_PROGBITS.0, 0, load.file_size));
        let rest = load.mem_size - load.file_size;
        if rest > 0 {
            sections.push(section(".bss", elf::SHT_NOBITS.0, load.file_size, rest));
        }
    }
    sections
}

/// One note, padded.
pub(crate) fn note(owner: &str, kind: u32, description: &[u8]) -> Vec<u8> {
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

/// The ELF header of the merged file: the program's, with other tables.
pub(crate) fn elf_header(image: &mut Image, table: (u64, usize), sections: (u64, usize)) {
    let start = image.start;
    let (at, count) = table;
    image.put(start + 32, &(at - start).to_le_bytes());
    image.put(start + 40, &sections.0.to_le_bytes());
    image.put(start + 56, &(count as u16).to_le_bytes());
    image.put(start + 58, &64u16.to_le_bytes());
    image.put(start + 60, &(sections.1 as u16).to_le_bytes());
    image.put(start + 62, &(sections.1 as u16 - 1).to_le_bytes());
}

/// The headers that are not `PT_LOAD` begin with these, the loaded ones follow in order of address.
pub(crate) fn stack() -> Segment {
    Segment::table(elf::PT_GNU_STACK.0, R | W, 0, 0, 16)
}

/// Rounded down and up to pages.
pub(crate) fn pages(range: &std::ops::Range<u64>) -> std::ops::Range<u64> {
    range.start & !(PAGE - 1)..range.end & !(PAGE - 1)
}
