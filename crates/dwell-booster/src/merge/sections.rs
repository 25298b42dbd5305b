//! Section headers, for debuggers and profilers: the loader reads none of them.
use super::Merge;
use super::headers::span;
use super::hot::Hot;
use super::image::{Image, W, X};
use super::strings::Strings;
use super::symtab::symtab;
use super::tables::Tables;
use super::writable::Writable;
use object::elf;
use std::collections::HashMap;

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
        // Notes are padded to 4 bytes, which is what their readers take this for.
        let align = if self.kind == elf::SHT_NOTE.0 {
            4
        } else {
            8u64
        };
        bytes.extend(align.to_le_bytes());
        bytes.extend(self.entry.to_le_bytes());
        bytes
    }
}

/// A section for each loaded range of a module, so that symbols have one: `.text` for the program's
/// code, `.text.libz.so.1` for a library's. A module with several ranges of code has a number behind the later ones'.
pub(crate) fn sections_of_modules(image: &Image, names: &[&str]) -> Vec<Section> {
    let of_modules = image.loads.iter().filter_map(|l| Some((l, l.module?)));
    let mut sections = Vec::new();
    let mut seen = HashMap::new();
    let mut last_with_code = None;
    for (load, module) in of_modules {
        let suffix = match module {
            0 => String::new(),
            _ => format!(".{}", names[module]),
        };
        let (name, flags) = match load.flags {
            f if f & X != 0 => {
                last_with_code = Some(module);
                (".text", elf::SHF_ALLOC.0 | elf::SHF_EXECINSTR.0)
            }
            f if f & W != 0 => (".data", elf::SHF_ALLOC.0 | elf::SHF_WRITE.0),
            // What linkers put before the code was the loader's. valgrind refuses a second `.rodata`.
            _ if last_with_code != Some(module) => (".head", elf::SHF_ALLOC.0),
            _ => (".rodata", elf::SHF_ALLOC.0),
        };
        let mut section = |name: &str, kind: u32, from: u64, size: u64| Section {
            name: of_its_own(format!("{name}{suffix}"), &mut seen),
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

/// The name, with a number behind it where others have it already.
fn of_its_own(name: String, seen: &mut HashMap<String, usize>) -> String {
    let count = seen.entry(name.clone()).or_default();
    *count += 1;
    match count {
        1 => name,
        _ => format!("{name}.{count}"),
    }
}

impl Tables {
    /// Appends symbols and section headers, which are not loaded; gives their offset and number.
    pub(crate) fn section_headers(
        &mut self,
        merge: &Merge<'_, '_>,
        image: &mut Image,
        (writable, hot): (&Writable, &Hot),
    ) -> (u64, usize) {
        let mut sections = std::mem::take(&mut self.sections);
        let (symbols, names) = symtab(merge, hot, |at| section_of(&sections, at));
        let first_table = sections.len() as u32 + 1;
        let number = |name: &str| {
            let found = self.tables.iter().position(|t| t.name == name);
            found.map_or(0, |at| first_table + at as u32)
        };
        let strings = number(".dynstr");
        let dynsym = number(".dynsym");
        for table in &self.tables {
            let link = match table.name {
                ".dynsym" | ".gnu.version_d" | ".gnu.version_r" => strings,
                ".gnu.hash" | ".gnu.version" | ".rela.dyn" => dynsym,
                _ => 0,
            };
            // gdb would look for a loader where the kernel put none; it finds the one in the file by its symbols.
            let seen = table.name == ".interp" && merge.layout.loader.is_some();
            sections.push(Section {
                name: if seen { ".interp.inside" } else { table.name }.into(),
                kind: table.kind,
                flags: elf::SHF_ALLOC.0,
                at: table.at,
                offset: table.at - image.start,
                size: table.len,
                link,
                info: table.info,
                entry: table.entry,
            });
        }
        let (dynamic, dynamic_len) = span(&writable.dynamic);
        sections.push(Section {
            name: ".dynamic".into(),
            kind: elf::SHT_DYNAMIC.0,
            flags: elf::SHF_ALLOC.0 | elf::SHF_WRITE.0,
            at: dynamic,
            offset: dynamic - image.start,
            size: dynamic_len,
            link: strings,
            info: 0,
            entry: 16,
        });
        let strtab = sections.len() as u32 + 2;
        append_unloaded(
            image,
            &mut sections,
            (".symtab", elf::SHT_SYMTAB.0),
            &symbols,
            (strtab, 24),
        );
        append_unloaded(
            image,
            &mut sections,
            (".strtab", elf::SHT_STRTAB.0),
            &names,
            (0, 0),
        );
        write_sections(image, sections)
    }
}

fn append_unloaded(
    image: &mut Image,
    sections: &mut Vec<Section>,
    (name, kind): (&str, u32),
    bytes: &[u8],
    (link, entry): (u32, u64),
) {
    image.bytes.resize(image.bytes.len().next_multiple_of(8), 0);
    sections.push(Section {
        name: name.into(),
        kind,
        flags: 0,
        at: 0,
        offset: image.bytes.len() as u64,
        size: bytes.len() as u64,
        link,
        info: u32::from(entry > 0),
        entry,
    });
    image.bytes.extend_from_slice(bytes);
}

fn write_sections(image: &mut Image, mut sections: Vec<Section>) -> (u64, usize) {
    let mut names = Strings::new();
    for section in &sections {
        names.add(section.name.as_bytes());
    }
    names.add(b".shstrtab");
    let bytes = names.bytes.clone();
    append_unloaded(
        image,
        &mut sections,
        (".shstrtab", elf::SHT_STRTAB.0),
        &bytes,
        (0, 0),
    );
    image.bytes.resize(image.bytes.len().next_multiple_of(8), 0);
    let offset = image.bytes.len() as u64;
    image.bytes.extend([0; 64]);
    for section in &sections {
        image.bytes.extend(section.bytes(&mut names));
    }
    (offset, sections.len() + 1)
}

/// Number of the section that holds an image address; 1 when none does, since 0 would say undefined.
pub(crate) fn section_of(sections: &[Section], at: u64) -> u16 {
    let next = sections.partition_point(|s| s.at <= at);
    next.max(1) as u16
}
