//! The ELF header, its segments, and what can be found through them alone.
use crate::ElfError;
use crate::sections::SectionIndex;
use object::LittleEndian as LE;
use object::elf;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

/// The only kind of header that is accepted.
pub(crate) type Header = elf::FileHeader64<LE>;
type RawSegment = elf::ProgramHeader64<LE>;

/// More program headers than this are refused: Linux runs no program whose headers take more than
/// 64 KiB. Files that linkers make have fewer than 20, merged programs four per library.
pub const MAX_SEGMENTS: usize = 65536 / 56;
/// Bytes of a page on x86-64.
const PAGE: u64 = 4096;
/// Longest accepted path of an interpreter, bytes (`PATH_MAX`).
const MAX_INTERP: u64 = 4096;

/// An x86-64 ELF file, parsed as far as its headers.
#[derive(Clone, Debug)]
pub struct ElfFile<'data> {
    pub(crate) data: &'data [u8],
    pub(crate) header: &'data Header,
    pub(crate) raw_segments: &'data [RawSegment],
    pub(crate) sections: SectionIndex<'data>,
}

/// What an ELF file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfKind {
    /// Executable at a fixed address.
    FixedExecutable,
    /// Position-independent executable (dynamic, or static-pie).
    PieExecutable,
    /// Shared library, dynamic loader or vDSO.
    SharedLibrary,
}

/// A `PT_LOAD` segment: a range of the file and where it is stated to be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte in the file.
    pub file_offset: u64,
    /// Stated address of that byte.
    pub stated_address: u64,
    /// Bytes that come from the file.
    pub file_size: u64,
    /// Bytes in memory; what exceeds `file_size` is zero.
    pub mem_size: u64,
    /// Whether its pages can be read.
    pub readable: bool,
    /// Whether its pages can be written.
    pub writable: bool,
    /// Whether its pages can be executed.
    pub executable: bool,
}

impl Segment {
    /// First stated address past the segment; saturates for hostile sizes.
    pub fn stated_end(&self) -> u64 {
        self.stated_address.saturating_add(self.mem_size)
    }
}

/// Where separate debug information is (`.gnu_debuglink`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugLink<'data> {
    /// File name without directory.
    pub name: &'data [u8],
    /// CRC-32 of the whole debug file.
    pub crc: u32,
}

impl<'data> ElfFile<'data> {
    /// Parses the headers. Damaged or missing section headers are tolerated (the file then has no
    /// sections), since what runs is described by the program headers alone.
    pub fn parse(data: &'data [u8]) -> Result<Self, ElfError> {
        check_ident(data)?;
        let header =
            Header::parse(data).map_err(|_| ElfError::NotElf("the header is cut short"))?;
        let machine = header.e_machine(LE);
        if machine != elf::EM_X86_64 {
            return Err(ElfError::UnsupportedArch(format!(
                "machine number {}",
                machine.0
            )));
        }
        match header.e_type(LE) {
            elf::ET_EXEC | elf::ET_DYN => {}
            elf::ET_REL => return Err(ElfError::UnsupportedType("relocatable object".into())),
            elf::ET_CORE => return Err(ElfError::UnsupportedType("core file".into())),
            other => {
                return Err(ElfError::UnsupportedType(format!(
                    "type number {}",
                    other.0
                )));
            }
        }
        let raw_segments = header
            .program_headers(LE, data)
            .map_err(|_| ElfError::BadProgramHeaders("they lie outside of the file"))?;
        if raw_segments.len() > MAX_SEGMENTS {
            return Err(ElfError::BadProgramHeaders("they take more than 64 KiB"));
        }
        let sections = SectionIndex::parse(header, data);
        Ok(ElfFile {
            data,
            header,
            raw_segments,
            sections,
        })
    }

    /// The whole file.
    pub fn data(&self) -> &'data [u8] {
        self.data
    }

    /// The `PT_LOAD` segments, in file order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        self.raw_segments
            .iter()
            .filter(|s| s.p_type(LE) == elf::PT_LOAD)
            .map(|s| {
                let flags = s.p_flags(LE);
                Segment {
                    file_offset: s.p_offset(LE),
                    stated_address: s.p_vaddr(LE),
                    file_size: s.p_filesz(LE),
                    mem_size: s.p_memsz(LE),
                    readable: flags.contains(elf::PF_R),
                    writable: flags.contains(elf::PF_W),
                    executable: flags.contains(elf::PF_X),
                }
            })
    }

    /// The bias (actual minus stated address, wrapping) of a file mapped executable at the actual
    /// address `start` from `file_offset` on, as `/proc/PID/maps` and mmap events tell it.
    ///
    /// This is not `start - stated_address(file_offset)`: the kernel rounds a segment down to pages, so
    /// a mapping may begin with bytes that belong to the segment before (as in every file that lld
    /// links). The executable segment decides.
    pub fn mapping_bias(&self, start: u64, file_offset: u64) -> Option<u64> {
        let covers = |s: &Segment| {
            let first = s.file_offset & !(PAGE - 1);
            (first..s.file_offset.saturating_add(s.file_size)).contains(&file_offset)
        };
        let segment = self.segments().filter(|s| s.executable).find(covers)?;
        let stated = segment
            .stated_address
            .wrapping_add(file_offset.wrapping_sub(segment.file_offset));
        Some(start.wrapping_sub(stated))
    }

    /// Stated address of the byte at `file_offset`, none when no segment loads it. For the start of a
    /// mapping see [`ElfFile::mapping_bias`].
    pub fn stated_address(&self, file_offset: u64) -> Option<u64> {
        self.segments()
            .find(|s| {
                file_offset
                    .checked_sub(s.file_offset)
                    .is_some_and(|d| d < s.file_size)
            })
            .and_then(|s| s.stated_address.checked_add(file_offset - s.file_offset))
    }

    /// Offset in the file of a stated address, none when the file has no byte for it.
    pub fn file_offset(&self, stated_address: u64) -> Option<u64> {
        self.segments()
            .find(|s| {
                stated_address
                    .checked_sub(s.stated_address)
                    .is_some_and(|d| d < s.file_size)
            })
            .and_then(|s| s.file_offset.checked_add(stated_address - s.stated_address))
    }

    /// The bytes from a stated address to the end of its segment in the file.
    pub fn bytes_from(&self, stated_address: u64) -> Option<&'data [u8]> {
        let segment = self.segments().find(|s| {
            stated_address
                .checked_sub(s.stated_address)
                .is_some_and(|d| d < s.file_size)
        })?;
        let skip = stated_address - segment.stated_address;
        let start = usize::try_from(segment.file_offset.checked_add(skip)?).ok()?;
        let len = usize::try_from(segment.file_size - skip).ok()?;
        let tail = self.data.get(start..)?;
        Some(&tail[..len.min(tail.len())])
    }

    /// `len` bytes at a stated address; none when the file does not have all of them.
    pub fn bytes_at(&self, stated_address: u64, len: usize) -> Option<&'data [u8]> {
        self.bytes_from(stated_address)?.get(..len)
    }

    /// Stated address of the first instruction (`e_entry`); none for a library without one.
    pub fn entry(&self) -> Option<u64> {
        Some(self.header.e_entry(LE)).filter(|&entry| entry != 0)
    }

    /// What the file is for.
    pub fn kind(&self) -> ElfKind {
        if self.header.e_type(LE) == elf::ET_EXEC {
            ElfKind::FixedExecutable
        } else if self.has_pie_flag() || self.interp().is_some() && self.so_name_tag().is_none() {
            ElfKind::PieExecutable
        } else {
            // libc.so.6 has an interpreter as well, and is a library all the same.
            ElfKind::SharedLibrary
        }
    }

    /// Whether the file is a program (fixed or position-independent).
    pub fn is_executable(&self) -> bool {
        self.kind() != ElfKind::SharedLibrary
    }

    /// Whether the file is a position-independent program.
    pub fn is_pie(&self) -> bool {
        self.kind() == ElfKind::PieExecutable
    }

    /// Path of the dynamic loader (`PT_INTERP`), none for a static program or a library.
    pub fn interp(&self) -> Option<&'data [u8]> {
        let raw = self
            .raw_segments
            .iter()
            .find(|s| s.p_type(LE) == elf::PT_INTERP)?;
        if raw.p_filesz(LE) > MAX_INTERP {
            return None;
        }
        let bytes = raw.data(LE, self.data).ok()?;
        let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
        Some(&bytes[..end]).filter(|path| !path.is_empty())
    }

    /// Where separate debug information is, by name (`.gnu_debuglink`).
    pub fn debug_link(&self) -> Option<DebugLink<'data>> {
        let bytes = self.section(".gnu_debuglink")?.raw_bytes()?;
        let end = bytes.iter().position(|&b| b == 0)?;
        let crc_at = (end + 1).next_multiple_of(4);
        let crc = bytes.get(crc_at..crc_at + 4)?.try_into().ok()?;
        Some(DebugLink {
            name: &bytes[..end],
            crc: u32::from_le_bytes(crc),
        })
    }

    /// The `.gnu_debugdata` section: an xz-compressed ELF file with more symbols ("MiniDebugInfo").
    pub fn gnu_debugdata(&self) -> Option<&'data [u8]> {
        self.section(".gnu_debugdata")?
            .raw_bytes()
            .filter(|bytes| !bytes.is_empty())
    }

    /// Whether the Go linker made this file. Go code keeps frame pointers and has no `.eh_frame`.
    pub fn is_go(&self) -> bool {
        self.section(".gopclntab").is_some()
            || self.section(".data.rel.ro.gopclntab").is_some()
            || self.section(".go.buildinfo").is_some()
            || self.has_go_build_id()
    }

    pub(crate) fn raw_segment(&self, kind: elf::ProgramType) -> Option<&'data RawSegment> {
        self.raw_segments.iter().find(|s| s.p_type(LE) == kind)
    }

    fn dynamic(&self) -> &'data [elf::Dyn64<LE>] {
        self.raw_segments
            .iter()
            .find_map(|s| s.dynamic(LE, self.data).ok().flatten())
            .unwrap_or_default()
    }

    fn has_pie_flag(&self) -> bool {
        self.dynamic()
            .iter()
            .any(|d| d.d_tag.get(LE) == elf::DT_FLAGS_1 && d.d_val.get(LE) & elf::DF_1_PIE.0 != 0)
    }

    fn so_name_tag(&self) -> Option<u64> {
        self.dynamic()
            .iter()
            .find(|d| d.d_tag.get(LE) == elf::DT_SONAME)
            .map(|d| d.d_val.get(LE))
    }
}

/// Names the reason when the identification bytes are not those of an ELF64 little-endian file.
fn check_ident(data: &[u8]) -> Result<(), ElfError> {
    let Some(ident) = data.get(..16) else {
        return Err(ElfError::NotElf("it has fewer than 16 bytes"));
    };
    if ident[..4] != *b"\x7fELF" {
        return Err(ElfError::NotElf(
            "it does not begin with the ELF magic number",
        ));
    }
    match (ident[4], ident[5]) {
        (2, 1) => Ok(()),
        (1, _) => Err(ElfError::UnsupportedArch("32-bit".into())),
        (2, 2) => Err(ElfError::UnsupportedArch("big-endian".into())),
        (class, order) => Err(ElfError::UnsupportedArch(format!(
            "class {class}, byte order {order}"
        ))),
    }
}
