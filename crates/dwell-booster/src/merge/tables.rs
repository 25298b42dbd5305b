//! The read-only tables behind the modules.
use super::Merge;
use super::arrays::Arrays;
use super::eh_frame::CallFrames;
use super::headers::{Segment, elf_header, span};
use super::hot::Hot;
use super::identity::notes;
use super::image::{Image, R};
use super::loader::needed_name;
use super::registered::Registered;
use super::relocations::Relocations;
use super::sections::{Section, section_of, sections_of_modules};
use super::strings::Strings;
use super::symbols::SymbolTables;
use super::versions::VersionTables;
use super::writable::Writable;
use crate::Refusal;
use object::elf;

/// One table: its section's name and type, its bytes, its image address.
pub(crate) struct Table {
    pub name: &'static str,
    pub kind: u32,
    pub at: u64,
    pub len: u64,
    pub entry: u64,
    pub info: u32,
}

/// The read-only range, written but for the program headers at its begin.
pub(crate) struct Tables {
    /// Its image address.
    pub at: u64,
    pub bytes: Vec<u8>,
    pub tables: Vec<Table>,
    /// How many program headers there is place for.
    pub headers: usize,
    /// How many there are in the kernel's own table; 0 when it has none.
    pub for_kernel: usize,
    /// Offsets of names in the dynamic string table, in the dynamic section's order.
    pub names: Vec<(elf::DynamicTag, u32)>,
    /// How many relocations of `.rela.dyn` are relative.
    pub relative: usize,
    /// How many versions are defined, and of how many libraries some are needed.
    pub defined: usize,
    pub needed: usize,
    /// Those of the modules.
    pub sections: Vec<Section>,
    /// How many entries of call frame information can be found.
    pub call_frames: usize,
}

impl Tables {
    pub(crate) fn new(
        merge: &Merge<'_, '_>,
        image: &Image,
        (symbols, versions): (&SymbolTables<'_>, &VersionTables),
        writable: &Writable,
        (left, hot): (&Relocations, &Hot),
    ) -> Result<Self, Refusal> {
        let names: Vec<&str> = merge
            .closure
            .modules
            .iter()
            .map(|m| m.name.as_str())
            .collect();
        // PHDR, INTERP, the tables' LOAD, DYNAMIC, NOTE, EH_FRAME, STACK, RELRO, TLS; and what is settled, apart.
        let inside = merge.layout.loader.map(|(index, _)| index);
        let loads = image.loads.iter();
        let of_loader = loads
            .filter(|l| inside.is_some() && l.module == inside)
            .count();
        let headers = image.loads.len() - of_loader + 9 + writable.settled.len();
        // The kernel's table, behind the loader's.
        let for_kernel = inside.map_or(0, |_| headers + of_loader);
        let mut tables = Tables {
            at: image.end(),
            bytes: vec![0; Segment::BYTES * (headers + for_kernel)],
            tables: Vec::new(),
            headers,
            for_kernel,
            names: Vec::new(),
            relative: left.relative,
            defined: versions.defined_len(),
            needed: versions.needed_len(),
            sections: sections_of_modules(image, &names),
            call_frames: 0,
        };
        tables.sections.extend(hot.section(image));
        tables.identify(merge, hot);
        tables.linking(merge, symbols, versions);
        let words = left.relr.iter().flat_map(|w| w.to_le_bytes()).collect();
        tables.add(".rela.dyn", elf::SHT_RELA.0, left.rela_bytes(), 24, 0);
        tables.add(".relr.dyn", elf::SHT_RELR.0, words, 8, 0);
        tables.unwinding(merge, hot)?;
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
    fn identify(&mut self, merge: &Merge<'_, '_>, hot: &Hot) {
        let program = &merge.closure.modules[0];
        let mut interp = program.elf.interp().unwrap_or_default().to_vec();
        interp.push(0);
        self.add(".interp", elf::SHT_PROGBITS.0, interp, 0, 0);
        self.add(".note", elf::SHT_NOTE.0, notes(merge, hot), 0, 0);
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

    fn unwinding(&mut self, merge: &Merge<'_, '_>, hot: &Hot) -> Result<(), Refusal> {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let at = self.at + self.bytes.len() as u64;
        let frames = CallFrames::at(at, merge.closure, merge.layout, hot.clones.moves());
        let frames = frames.map_err(|(module, why)| {
            Refusal::unsupported(&merge.closure.modules[module].path, why)
        })?;
        let header_at = (at + frames.bytes.len() as u64).next_multiple_of(8);
        let header = frames.header(header_at, at);
        self.call_frames = frames.table.len();
        self.add(".eh_frame", elf::SHT_PROGBITS.0, frames.bytes, 0, 0);
        self.add(".eh_frame_hdr", elf::SHT_PROGBITS.0, header, 0, 0);
        Ok(())
    }

    pub(crate) fn table(&self, name: &str) -> &Table {
        let found = self.tables.iter().find(|t| t.name == name);
        found.expect("every table is added by `new`")
    }

    /// Writes the headers and everything that leads to the tables.
    pub(crate) fn finish(
        mut self,
        merge: &Merge<'_, '_>,
        image: &mut Image,
        (writable, hot): (&Writable, &Hot),
        arrays: &Arrays,
    ) {
        let mut dynamic = self.dynamic(merge, writable, arrays);
        let (at, room) = span(&writable.dynamic);
        debug_assert!(dynamic.len() + 16 <= room as usize);
        dynamic.resize(room as usize, 0);
        image.put(at, &dynamic);
        let headers = self.program_headers(merge, image, writable);
        debug_assert!(headers.len() <= self.headers);
        let kernels = self.kernel_headers(merge, image, &headers);
        let all = headers.iter().chain(&kernels);
        let bytes: Vec<u8> = all.flat_map(|h| h.bytes(image.start)).collect();
        self.bytes[..bytes.len()].copy_from_slice(&bytes);
        image.append(R, &self.bytes);
        let sections = self.section_headers(merge, image, (writable, hot));
        let mut begin = (writable.entry, (self.at, headers.len()));
        if let Some(inside) = &writable.inside {
            inside.tell(image, begin.1);
            let behind = (Segment::BYTES * self.headers) as u64;
            begin = (inside.entry, (self.at + behind, kernels.len()));
        }
        elf_header(image, merge.layout.fixed, begin, sections);
        if let Some(at) = writable.registered {
            Registered::tell(at, image, &kernels);
        }
    }
}
