//! The ELF header and the program headers.
use super::Merge;
use super::image::{Image, Load, R, W};
use super::tables::Tables;
use super::writable::Writable;
use crate::PAGE;
use object::elf;
use std::ops::Range;

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
    /// Bytes of a program header.
    pub(crate) const BYTES: usize = 56;

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

    /// Its settled pages, which are its first ones, and the rest of it.
    fn split(self, settled: &[Range<u64>]) -> [Option<Self>; 2] {
        let own = settled.iter().find(|pages| pages.start == page_of(self.at));
        let len = own.map_or(0, |pages| self.mem_size.min(pages.end - self.at));
        if self.flags & W == 0 || len == 0 || len > self.file_size {
            return [Some(self), None];
        }
        let first = Segment {
            flags: self.flags & !W,
            file_size: len,
            mem_size: len,
            ..self
        };
        let rest = Segment {
            at: self.at + len,
            file_size: self.file_size - len,
            mem_size: self.mem_size - len,
            ..self
        };
        [Some(first), Some(rest).filter(|rest| rest.mem_size > 0)]
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
        let mut bytes = Vec::with_capacity(Self::BYTES);
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

/// The ELF header of the merged file: the program's, with other tables.
pub(crate) fn elf_header(
    image: &mut Image,
    fixed: bool,
    (entry, table): (u64, (u64, usize)),
    sections: (u64, usize),
) {
    let start = image.start;
    let kind = if fixed { elf::ET_EXEC } else { elf::ET_DYN };
    image.put(start + 16, &kind.0.to_le_bytes());
    image.put(start + 24, &entry.to_le_bytes());
    let (at, count) = table;
    image.put(start + 32, &(at - start).to_le_bytes());
    image.put(start + 40, &sections.0.to_le_bytes());
    image.put(start + 56, &(count as u16).to_le_bytes());
    image.put(start + 58, &64u16.to_le_bytes());
    image.put(start + 60, &(sections.1 as u16).to_le_bytes());
    image.put(start + 62, &(sections.1 as u16 - 1).to_le_bytes());
}

/// Ranges that nobody writes to become one where the next one begins on the page behind the last: each range costs
/// time at start. What lies between them is zeroes of the file.
fn fused(loads: Vec<Segment>) -> Vec<Segment> {
    let mut fused: Vec<Segment> = Vec::new();
    for load in loads {
        if let Some(last) = fused.last_mut()
            && (last.flags | load.flags) & W == 0
            && (last.at + last.mem_size).next_multiple_of(PAGE) == page_of(load.at)
        {
            last.flags |= load.flags;
            last.file_size = load.at + load.file_size - last.at;
            last.mem_size = last.file_size;
            last.align = last.align.max(load.align);
        } else {
            fused.push(load);
        }
    }
    fused
}

/// The page of an address.
pub(crate) fn page_of(at: u64) -> u64 {
    at & !(PAGE - 1)
}

/// Begin and length.
pub(crate) fn span(range: &Range<u64>) -> (u64, u64) {
    (range.start, range.end - range.start)
}

/// Rounded down to pages at both ends, as the loader does with what it makes read-only.
pub(crate) fn pages(range: &Range<u64>) -> Range<u64> {
    page_of(range.start)..page_of(range.end)
}

impl Tables {
    /// All program headers, padded to the place that was kept for them.
    pub(crate) fn program_headers(
        &self,
        merge: &Merge<'_, '_>,
        image: &Image,
        writable: &Writable,
    ) -> Vec<Segment> {
        let of = |kind: elf::ProgramType, name: &str, align: u64| {
            let table = self.table(name);
            Segment::table(kind.0, R, table.at, table.len, align)
        };
        let own = Segment::table(elf::PT_LOAD.0, R, self.at, self.bytes.len() as u64, PAGE);
        let table_len = (Segment::BYTES * self.headers) as u64;
        let mut headers = vec![Segment::table(elf::PT_PHDR.0, R, self.at, table_len, 8)];
        headers.push(of(elf::PT_INTERP, ".interp", 1));
        let inside = merge.layout.loader.map(|(index, _)| index);
        let seen = image
            .loads
            .iter()
            .filter(|l| inside.is_none() || l.module != inside);
        let seen = seen.flat_map(|load| Segment::of(load).split(&writable.settled));
        let loads = seen.flatten().chain([own]).collect();
        headers.extend(if merge.fuse { fused(loads) } else { loads });
        let (at, len) = span(&writable.dynamic);
        headers.push(Segment::table(elf::PT_DYNAMIC.0, R | W, at, len, 8));
        headers.push(of(elf::PT_NOTE, ".note", 4));
        headers.push(of(elf::PT_GNU_EH_FRAME, ".eh_frame_hdr", 4));
        headers.push(Segment::table(elf::PT_GNU_STACK.0, R | W, 0, 0, 16));
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
            let own = merge.layout.own();
            let relro = pages(&(relro.start + own..relro.end + own));
            let len = relro.end - relro.start;
            headers.push(Segment::table(elf::PT_GNU_RELRO.0, R, relro.start, len, 1));
        }
        // The table's place was kept for all of them.
        let unused = Segment::table(elf::PT_NULL.0, 0, 0, 0, 0);
        headers.resize(self.headers, unused);
        headers
    }

    /// The kernel's own table when the loader is in the file: with it, and without a loader to be loaded.
    pub(crate) fn kernel_headers(
        &self,
        merge: &Merge<'_, '_>,
        image: &Image,
        seen: &[Segment],
    ) -> Vec<Segment> {
        let Some((index, _)) = merge.layout.loader else {
            return Vec::new();
        };
        let of_loader = image.loads.iter().filter(|l| l.module == Some(index));
        let is_load = |s: &&Segment| s.kind == elf::PT_LOAD.0;
        let mut loads: Vec<Segment> = fused(of_loader.map(Segment::of).collect());
        loads.extend(seen.iter().filter(is_load));
        loads.sort_by_key(|s| s.at);
        let at = self.at + (Segment::BYTES * self.headers) as u64;
        let len = (Segment::BYTES * self.for_kernel) as u64;
        let mut headers = vec![Segment::table(elf::PT_PHDR.0, R, at, len, 8)];
        headers.extend(loads);
        let left_out = [
            elf::PT_PHDR.0,
            elf::PT_LOAD.0,
            elf::PT_INTERP.0,
            elf::PT_NULL.0,
        ];
        headers.extend(seen.iter().filter(|s| !left_out.contains(&s.kind)));
        let unused = Segment::table(elf::PT_NULL.0, 0, 0, 0, 0);
        headers.resize(self.for_kernel, unused);
        headers
    }
}
