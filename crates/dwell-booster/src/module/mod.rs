//! One input file: what the dynamic loader would read of it.
mod dynamic;
mod relocations;
mod symbols;
mod versions;

pub(crate) use dynamic::{Array, Dynamic};
pub(crate) use relocations::{Relocation, relocations};
pub(crate) use symbols::{Symbol, SymbolTable, can_be_found};
pub(crate) use versions::{Version, Versions};

use crate::Refusal;
use dwell_elf::{ElfFile, ElfKind, Segment};
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use std::ops::Range;

/// A program or a library, as far as merging needs it.
#[derive(Debug)]
pub(crate) struct Module<'data> {
    /// The path it was found by.
    pub path: String,
    /// The name it is needed by: `DT_SONAME`, or the end of the path.
    pub name: String,
    pub elf: ElfFile<'data>,
    pub segments: Vec<Segment>,
    pub dynamic: Dynamic,
    /// Where the dynamic section is: stated addresses of its entries and the zeroes behind them.
    pub dynamic_range: Range<u64>,
    pub symbols: SymbolTable<'data>,
    pub versions: Versions,
    /// `PT_TLS`, if there is one.
    pub tls: Option<Tls>,
    /// `PT_GNU_RELRO` as stated addresses.
    pub relro: Option<Range<u64>>,
    /// `PT_GNU_EH_FRAME`'s stated address.
    pub eh_frame_hdr: Option<u64>,
    /// Whether it wants an executable stack.
    pub exec_stack: bool,
    /// Largest alignment that a segment asks for, bytes; at least a page.
    pub align: u64,
}

/// A module's block of thread-local variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub stated: u64,
    pub file_size: u64,
    pub mem_size: u64,
    pub align: u64,
}

impl Tls {
    /// Whether a stated address lies in the block's initial image.
    pub(crate) fn contains(&self, stated: u64) -> bool {
        stated
            .checked_sub(self.stated)
            .is_some_and(|d| d < self.file_size)
    }
}

/// Largest stated address that is accepted: all of a merged program must be within 2 GiB.
const MAX_STATED: u64 = 1 << 31;
/// Largest accepted alignment, bytes: that of a huge page.
const MAX_ALIGN: u64 = 2 << 20;

impl<'data> Module<'data> {
    /// Reads a file. Whatever the loader would follow is checked to lie inside of it.
    pub(crate) fn parse(path: &str, data: &'data [u8]) -> Result<Self, Refusal> {
        Module::parse_below(MAX_STATED, path, data)
    }

    /// Reads a merged file, which may lie anywhere in a process' memory.
    pub(crate) fn parse_merged(data: &'data [u8]) -> Result<Self, Refusal> {
        Module::parse_below(1 << 47, "the merged file", data)
    }

    fn parse_below(max: u64, path: &str, data: &'data [u8]) -> Result<Self, Refusal> {
        let bad = |why: &str| Refusal::damaged(path, why);
        let elf = ElfFile::parse(data).map_err(|e| Refusal::not_elf(path, data, e))?;
        let segments: Vec<Segment> = elf.segments().collect();
        check_segments(max, &segments).map_err(bad)?;
        let facts = Facts::of(max, data).map_err(bad)?;
        let initial = |t: &Tls| elf.bytes_at(t.stated, t.file_size as usize).is_some();
        if facts
            .tls
            .as_ref()
            .is_some_and(|t| t.file_size > 0 && !initial(t))
        {
            return Err(bad("its thread-local block lies outside of the file"));
        }
        let dynamic = match facts.dynamic {
            Some(table) => Dynamic::parse(&elf, table).map_err(bad)?,
            None => return Err(Refusal::Static { path: path.into() }),
        };
        let versions = Versions::parse(&elf, &dynamic).map_err(bad)?;
        let symbols = SymbolTable::parse(&elf, &dynamic).map_err(bad)?;
        let end = path.rsplit('/').next().unwrap_or(path);
        Ok(Module {
            name: dynamic.soname.clone().unwrap_or_else(|| end.to_owned()),
            path: path.to_owned(),
            segments,
            versions,
            symbols,
            tls: facts.tls,
            relro: facts.relro,
            eh_frame_hdr: facts.eh_frame_hdr,
            exec_stack: facts.exec_stack,
            align: facts.align.max(crate::PAGE),
            dynamic,
            dynamic_range: facts.dynamic_at..facts.dynamic_at + dynamic_len(facts.dynamic),
            elf,
        })
    }

    /// First page of the module, stated.
    pub(crate) fn start(&self) -> u64 {
        let first = self.segments.iter().map(|s| s.stated_address).min();
        first.unwrap_or(0) & !(crate::PAGE - 1)
    }

    /// First page past the module, stated.
    pub(crate) fn end(&self) -> u64 {
        let last = self.segments.iter().map(Segment::stated_end).max();
        last.unwrap_or(0).next_multiple_of(crate::PAGE)
    }

    /// Whether it lies at fixed addresses.
    pub(crate) fn is_fixed(&self) -> bool {
        self.elf.kind() == ElfKind::FixedExecutable
    }

    /// A 64-bit word of memory before relocation; what lies beyond the file's bytes is zero.
    pub(crate) fn word(&self, stated: u64) -> u64 {
        let bytes = self.elf.bytes_at(stated, 8);
        bytes.map_or(0, |b| {
            u64::from_le_bytes(b.try_into().expect("bytes_at gives 8 bytes"))
        })
    }

    /// Whether a segment holds `len` bytes at a stated address.
    pub(crate) fn mapped(&self, stated: u64, len: u64) -> bool {
        self.segments.iter().any(|s| holds(s, stated, len))
    }

    /// Whether a writable segment does.
    pub(crate) fn writable(&self, stated: u64, len: u64) -> bool {
        let mut segments = self.segments.iter();
        segments.any(|s| s.writable && holds(s, stated, len))
    }
}

/// Bytes up to the first entry that is neither one nor nothing.
fn dynamic_len(table: Option<&[elf::Dyn64<LE>]>) -> u64 {
    let table = table.unwrap_or_default();
    let is_end = |d: &elf::Dyn64<LE>| d.d_tag.get(LE) == elf::DT_NULL;
    let entries = table.iter().position(is_end).unwrap_or(table.len());
    let behind = table[entries..].iter();
    let zeroes = behind.take_while(|d| is_end(d) && d.d_val.get(LE) == 0);
    16 * (entries + zeroes.count()) as u64
}

fn holds(s: &Segment, stated: u64, len: u64) -> bool {
    stated >= s.stated_address && stated.checked_add(len).is_some_and(|e| e <= s.stated_end())
}

fn check_segments(max: u64, segments: &[Segment]) -> Result<(), &'static str> {
    if segments.is_empty() {
        return Err("it has no PT_LOAD segment");
    }
    let mut end = 0;
    for s in segments {
        if s.stated_end() > max || s.file_size > s.mem_size {
            return Err("a PT_LOAD segment has an impossible size");
        }
        if s.stated_address < end {
            return Err("its PT_LOAD segments overlap");
        }
        end = s.stated_end();
    }
    Ok(())
}

fn headers(data: &[u8]) -> Option<&[elf::ProgramHeader64<LE>]> {
    let header = elf::FileHeader64::<LE>::parse(data).ok()?;
    header.program_headers(LE, data).ok()
}

/// What the program headers other than `PT_LOAD` say.
#[derive(Default)]
struct Facts<'data> {
    dynamic: Option<&'data [elf::Dyn64<LE>]>,
    tls: Option<Tls>,
    dynamic_at: u64,
    relro: Option<Range<u64>>,
    eh_frame_hdr: Option<u64>,
    exec_stack: bool,
    /// Largest of the `PT_LOAD` headers'; 0 when that is none that can be given.
    align: u64,
}

impl<'data> Facts<'data> {
    fn of(max: u64, data: &'data [u8]) -> Result<Self, &'static str> {
        let mut facts = Facts::default();
        for h in headers(data).ok_or("its program headers lie outside of the file")? {
            let (stated, size) = (h.p_vaddr(LE), h.p_memsz(LE));
            if stated.checked_add(size).is_none_or(|end| end > max) {
                if [elf::PT_TLS, elf::PT_GNU_RELRO].contains(&h.p_type(LE)) {
                    return Err("a program header has an impossible size");
                }
                continue;
            }
            match h.p_type(LE) {
                elf::PT_DYNAMIC => {
                    let table = h.dynamic(LE, data);
                    facts.dynamic = table.map_err(|_| "its dynamic section is cut short")?;
                    facts.dynamic_at = stated;
                }
                elf::PT_LOAD => facts.align = facts.align.max(h.p_align(LE)),
                elf::PT_TLS => facts.tls = Some(tls(h)?),
                elf::PT_GNU_RELRO => facts.relro = Some(stated..stated + size),
                elf::PT_GNU_EH_FRAME => facts.eh_frame_hdr = Some(stated),
                elf::PT_GNU_STACK => facts.exec_stack = h.p_flags(LE).contains(elf::PF_X),
                _ => {}
            }
        }
        if !facts.align.is_power_of_two() || facts.align > MAX_ALIGN {
            facts.align = 0;
        }
        Ok(facts)
    }
}

fn tls(h: &elf::ProgramHeader64<LE>) -> Result<Tls, &'static str> {
    let align = h.p_align(LE).max(1);
    let (file_size, mem_size) = (h.p_filesz(LE), h.p_memsz(LE));
    if !align.is_power_of_two() || align > crate::PAGE || file_size > mem_size {
        return Err("its thread-local block has an impossible size or alignment");
    }
    Ok(Tls {
        stated: h.p_vaddr(LE),
        file_size,
        mem_size,
        align,
    })
}
