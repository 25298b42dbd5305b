//! The read-only tables behind the modules, and the headers that lead to them.
use super::Merge;
use super::arrays::Arrays;
use super::eh_frame::CallFrames;
use super::headers::{Section, Segment, elf_header, note, pages, sections_of_modules, stack};
use super::image::{Image, R};
use super::loader::needed_name;
use super::relocations::Relocations;
use super::strings::Strings;
use super::symbols::SymbolTables;
use super::symtab::symtab;
use super::versions::VersionTables;
use super::writable::Writable;
use crate::Refusal;
use object::elf;

/// One table: its section's name and type, its bytes, its image address.
struct Table {
    name: &'static str,
    kind: u32,
    at: u64,
    len: u64,
    entry: u64,
    info: u32,
}

/// The read-only range, written but for the program headers at its begin.
pub(crate) struct Tables {
    at: u64,
    bytes: Vec<u8>,
    tables: Vec<Table>,
    headers: usize,
    /// Offsets of names in the dynamic string table, in the dynamic section's order.
    names: Vec<(elf::DynamicTag, u32)>,
    relative: usize,
    defined: usize,
    needed: usize,
    sections: Vec<Section>,
    pub call_frames: CallFrames,
}

const HEADER: usize = 56;

impl Tables {
    pub(crate) fn new(
        merge: &Merge<'_, '_>,
        image: &Image,
        symbols: &SymbolTables<'_>,
        versions: &VersionTables,
        left: &Relocations,
    ) -> Result<Self, Refusal> {
        let names: Vec<&str> = merge
            .closure
            .modules
            .iter()
            .map(|m| m.name.as_str())
            .collect();
        // PHDR, INTERP, the tables' LOAD, DYNAMIC, NOTE, EH_FRAME, STACK, RELRO, TLS.
        let headers = image.loads.len() + 9;
        let mut tables = Tables {
            at: image.end(),
            bytes: vec![0; HEADER * headers],
            tables: Vec::new(),
            headers,
            names: Vec::new(),
            relative: left.relative,
            defined: versions.defined_len(),
            needed: versions.needed_len(),
            sections: sections_of_modules(image, &names),
            call_frames: CallFrames::default(),
        };
        tables.identify(merge);
        tables.linking(merge, symbols, versions);
        let words = left.relr.iter().flat_map(|w| w.to_le_bytes()).collect();
        tables.add(".rela.dyn", elf::SHT_RELA.0, left.rela_bytes(), 24, 0);
        tables.add(".relr.dyn", 19, words, 8, 0);
        tables.unwinding(merge)?;
        Ok(tables)
    }

    fn add(&mut self, name: &'static str, kind: u32, bytes: Vec<u8>, entry: u64, info: u32) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.tables.push(Table {
            name,
            kind,
            at: self.at + self.bytes.len() as u64,
            len: bytes.len() as u64,
            entry,
            info,
        });
        self.bytes.extend(bytes);
    }

    /// The loader's path, the build id and what the file was made of.
    fn identify(&mut self, merge: &Merge<'_, '_>) {
        let program = &merge.closure.modules[0];
        let mut interp = program.elf.interp().unwrap_or_default().to_vec();
        interp.push(0);
        self.add(".interp", elf::SHT_PROGBITS.0, interp, 0, 0);
        let origin = origin(merge);
        let id = digest(origin.as_bytes());
        let mut notes = note("GNU", elf::NT_GNU_BUILD_ID.0, &id);
        notes.extend(note("dwell", NOTE_ORIGIN, origin.as_bytes()));
        self.add(".note", elf::SHT_NOTE.0, notes, 0, 0);
    }

    fn linking(
        &mut self,
        merge: &Merge<'_, '_>,
        symbols: &SymbolTables<'_>,
        versions: &VersionTables,
    ) {
        let mut strings = Strings::new();
        for kept in merge.kept() {
            let name = strings.add(needed_name(kept).as_bytes());
            self.names.push((elf::DT_NEEDED, name));
        }
        let dynamic = &merge.closure.modules[0].dynamic;
        let own = [
            (elf::DT_SONAME, Some(merge.soname.as_str())),
            (elf::DT_RPATH, dynamic.rpath.as_deref()),
            (elf::DT_RUNPATH, dynamic.runpath.as_deref()),
        ];
        for (tag, text) in own {
            let name = text.map(|t| strings.add(t.as_bytes()));
            self.names.extend(name.map(|n| (tag, n)));
        }
        let sections = &self.sections;
        let dynsym = symbols.bytes(&mut strings, |at| section_of(sections, at));
        let definitions = versions.definitions(&mut strings);
        let needs = versions.needs(&mut strings);
        self.add(
            ".gnu.hash",
            elf::SHT_GNU_HASH.0,
            symbols.gnu_hash.clone(),
            0,
            0,
        );
        debug_assert_eq!(dynsym.len(), symbols.size());
        self.add(".dynsym", elf::SHT_DYNSYM.0, dynsym, 24, 1);
        self.add(".dynstr", elf::SHT_STRTAB.0, strings.bytes, 0, 0);
        let versym = symbols.versym.clone();
        self.add(".gnu.version", elf::SHT_GNU_VERSYM.0, versym, 2, 0);
        let (defined, needed) = (self.defined as u32, self.needed as u32);
        self.add(
            ".gnu.version_d",
            elf::SHT_GNU_VERDEF.0,
            definitions,
            0,
            defined,
        );
        self.add(".gnu.version_r", elf::SHT_GNU_VERNEED.0, needs, 0, needed);
    }

    fn unwinding(&mut self, merge: &Merge<'_, '_>) -> Result<(), Refusal> {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.at + self.bytes.len() as u64;
        let frames = CallFrames::at(at, merge.closure, merge.layout);
        let frames = frames.map_err(|(module, why)| {
            Refusal::unsupported(&merge.closure.modules[module].path, why)
        })?;
        self.add(".eh_frame", elf::SHT_PROGBITS.0, frames.bytes.clone(), 0, 0);
        let header_at = self.at + (self.bytes.len() as u64).next_multiple_of(8);
        let header = frames.header(header_at, at);
        self.add(".eh_frame_hdr", elf::SHT_PROGBITS.0, header, 0, 0);
        self.call_frames = frames;
        Ok(())
    }

    fn table(&self, name: &str) -> &Table {
        let found = self.tables.iter().find(|t| t.name == name);
        found.expect("every table is added by `new`")
    }

    /// Writes the headers and everything that leads to the tables.
    pub(crate) fn finish(
        mut self,
        merge: &Merge<'_, '_>,
        image: &mut Image,
        writable: &Writable,
        arrays: &Arrays,
    ) {
        let dynamic = self.dynamic(merge, writable, arrays);
        image.put(writable.dynamic, &dynamic);
        let headers = self.program_headers(merge, image, writable);
        debug_assert!(headers.len() <= self.headers);
        let bytes: Vec<u8> = headers.iter().flat_map(|h| h.bytes(image.start)).collect();
        self.bytes[..bytes.len()].copy_from_slice(&bytes);
        image.append(R, &self.bytes);
        let sections = self.section_headers(merge, image, writable);
        elf_header(image, (self.at, headers.len()), sections);
    }

    fn dynamic(&self, merge: &Merge<'_, '_>, writable: &Writable, arrays: &Arrays) -> Vec<u8> {
        let pie = if merge.layout.fixed {
            0
        } else {
            elf::DF_1_PIE.0
        };
        let at = |name: &str| self.table(name).at;
        let len = |name: &str| self.table(name).len;
        let names = self
            .names
            .iter()
            .map(|&(tag, name)| (tag.0, u64::from(name)));
        let mut entries: Vec<(i64, u64)> = names.collect();
        entries.extend(array_entries(writable, arrays));
        entries.extend([
            (elf::DT_GNU_HASH.0, at(".gnu.hash")),
            (elf::DT_STRTAB.0, at(".dynstr")),
            (elf::DT_SYMTAB.0, at(".dynsym")),
            (elf::DT_STRSZ.0, len(".dynstr")),
            (elf::DT_SYMENT.0, 24),
            (elf::DT_DEBUG.0, 0),
            (elf::DT_VERSYM.0, at(".gnu.version")),
            (elf::DT_VERDEF.0, at(".gnu.version_d")),
            (elf::DT_VERDEFNUM.0, self.defined as u64),
            (elf::DT_FLAGS.0, elf::DF_BIND_NOW.0),
            (elf::DT_FLAGS_1.0, elf::DF_1_NOW.0 | pie),
        ]);
        if self.needed > 0 {
            entries.push((elf::DT_VERNEED.0, at(".gnu.version_r")));
            entries.push((elf::DT_VERNEEDNUM.0, self.needed as u64));
        }
        if len(".rela.dyn") > 0 {
            entries.push((elf::DT_RELA.0, at(".rela.dyn")));
            entries.push((elf::DT_RELASZ.0, len(".rela.dyn")));
            entries.push((elf::DT_RELAENT.0, 24));
            entries.push((elf::DT_RELACOUNT.0, self.relative as u64));
        }
        if len(".relr.dyn") > 0 {
            entries.push((elf::DT_RELR.0, at(".relr.dyn")));
            entries.push((elf::DT_RELRSZ.0, len(".relr.dyn")));
            entries.push((elf::DT_RELRENT.0, 8));
        }
        let words = entries.iter().flat_map(|&(tag, value)| [tag as u64, value]);
        words.flat_map(u64::to_le_bytes).collect()
    }

    fn program_headers(
        &self,
        merge: &Merge<'_, '_>,
        image: &Image,
        writable: &Writable,
    ) -> Vec<Segment> {
        let of = |kind: elf::ProgramType, name: &str, align: u64| {
            let table = self.table(name);
            Segment::table(kind.0, R, table.at, table.len, align)
        };
        let own = Segment::table(
            elf::PT_LOAD.0,
            R,
            self.at,
            self.bytes.len() as u64,
            crate::PAGE,
        );
        let table_len = (HEADER * self.headers) as u64;
        let mut headers = vec![Segment::table(elf::PT_PHDR.0, R, self.at, table_len, 8)];
        headers.push(of(elf::PT_INTERP, ".interp", 1));
        headers.extend(image.loads.iter().map(Segment::of));
        headers.push(own);
        let (at, len) = (writable.dynamic, writable.dynamic_len);
        headers.push(Segment::table(elf::PT_DYNAMIC.0, 6, at, len, 8));
        headers.push(of(elf::PT_NOTE, ".note", 4));
        headers.push(of(elf::PT_GNU_EH_FRAME, ".eh_frame_hdr", 4));
        headers.push(stack());
        let tls = &merge.layout.tls;
        if tls.size > 0 {
            let at = merge.layout.tls_image();
            let table = Segment::table(elf::PT_TLS.0, R, at, tls.file_size, tls.align);
            headers.push(Segment {
                mem_size: tls.size,
                ..table
            });
        }
        if let Some(relro) = &merge.closure.modules[0].relro {
            let relro = pages(relro);
            let len = relro.end - relro.start;
            headers.push(Segment::table(elf::PT_GNU_RELRO.0, R, relro.start, len, 1));
        }
        // The table's place was kept for all of them.
        let unused = Segment::table(elf::PT_NULL.0, 0, 0, 0, 0);
        headers.resize(self.headers, unused);
        headers
    }

    /// Appends symbols and section headers, which are not loaded; gives their offset and number.
    fn section_headers(
        &mut self,
        merge: &Merge<'_, '_>,
        image: &mut Image,
        writable: &Writable,
    ) -> (u64, usize) {
        let mut sections = std::mem::take(&mut self.sections);
        let (symbols, names) = symtab(merge, |at| section_of(&sections, at));
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
            sections.push(Section {
                name: table.name.into(),
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
        sections.push(Section {
            name: ".dynamic".into(),
            kind: elf::SHT_DYNAMIC.0,
            flags: elf::SHF_ALLOC.0 | elf::SHF_WRITE.0,
            at: writable.dynamic,
            offset: writable.dynamic - image.start,
            size: writable.dynamic_len,
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

/// Type of our own note: what the file was made of, a line each: name, base, build id, path.
const NOTE_ORIGIN: u32 = 0x4457_4231;

fn array_entries(writable: &Writable, arrays: &Arrays) -> Vec<(i64, u64)> {
    let of = |at: elf::DynamicTag, size: elf::DynamicTag, place: u64, len: usize| {
        let entries = [(at.0, place), (size.0, 8 * len as u64)];
        entries.into_iter().filter(move |_| len > 0)
    };
    let preinit = of(
        elf::DT_PREINIT_ARRAY,
        elf::DT_PREINIT_ARRAYSZ,
        writable.preinit,
        arrays.preinit.len(),
    );
    let init = of(
        elf::DT_INIT_ARRAY,
        elf::DT_INIT_ARRAYSZ,
        writable.init,
        writable.init_len,
    );
    let fini = of(
        elf::DT_FINI_ARRAY,
        elf::DT_FINI_ARRAYSZ,
        writable.fini,
        arrays.fini.len(),
    );
    preinit.chain(init).chain(fini).collect()
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
fn section_of(sections: &[Section], at: u64) -> u16 {
    let next = sections.partition_point(|s| s.at <= at);
    next.max(1) as u16
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
