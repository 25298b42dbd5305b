//! Where the call frame information of a file is.
use crate::ElfFile;
use gimli::{
    BaseAddresses, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, ParsedEhFrameHdr,
};
use object::elf;
use object::read::elf::ProgramHeader as _;
use std::borrow::Cow;

/// How gimli reads here.
pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Largest decompressed `.debug_frame` that is read, bytes; a browser's `.eh_frame` has 30 MiB.
const MAX_DEBUG_FRAME: u64 = 256 << 20;

/// Bytes of an address on x86-64.
pub(crate) const ADDRESS_SIZE: u8 = 8;

/// The call frame information of a file, borrowed from it or (after [`CfiSections::into_owned`] and
/// for compressed sections) owned.
#[derive(Clone, Debug, Default)]
pub struct CfiSections<'data> {
    eh_frame: Option<Placed<'data>>,
    eh_frame_hdr: Option<Placed<'data>>,
    debug_frame: Option<Cow<'data, [u8]>>,
    text_address: Option<u64>,
    got_address: Option<u64>,
}

/// Bytes and their stated address.
#[derive(Clone, Debug)]
struct Placed<'data> {
    bytes: Cow<'data, [u8]>,
    stated: u64,
}

impl Placed<'_> {
    fn into_owned(self) -> Placed<'static> {
        Placed {
            bytes: Cow::Owned(self.bytes.into_owned()),
            stated: self.stated,
        }
    }
}

impl<'data> CfiSections<'data> {
    /// Finds `.eh_frame` by section header or, without those, through `PT_GNU_EH_FRAME`.
    /// `.debug_frame` is kept too: static musl programs describe libgcc in the one and libc in the
    /// other. It is left out for Go, whose `.debug_frame` does not say where rbp is saved.
    pub fn find(file: &ElfFile<'data>) -> Self {
        let eh_frame_hdr = eh_frame_hdr(file);
        let eh_frame =
            eh_frame_by_section(file).or_else(|| eh_frame_by_header(file, eh_frame_hdr.as_ref()?));
        let debug_frame = file
            .section(".debug_frame")
            .filter(|_| !file.is_go())
            .and_then(|s| s.bytes_up_to(MAX_DEBUG_FRAME).ok())
            .filter(|b| !b.is_empty());
        let address = |name| file.section(name).map(|s| s.stated_address());
        CfiSections {
            eh_frame,
            eh_frame_hdr,
            debug_frame,
            text_address: address(".text"),
            got_address: address(".got"),
        }
    }

    /// Whether the file has no call frame information at all.
    pub fn is_empty(&self) -> bool {
        self.eh_frame.is_none() && self.debug_frame.is_none()
    }

    /// Bytes of call frame information.
    pub fn size(&self) -> usize {
        self.eh_frame.as_ref().map_or(0, |s| s.bytes.len())
            + self.debug_frame.as_ref().map_or(0, |s| s.len())
    }

    /// A copy that does not borrow the file.
    pub fn into_owned(self) -> CfiSections<'static> {
        CfiSections {
            eh_frame: self.eh_frame.map(Placed::into_owned),
            eh_frame_hdr: self.eh_frame_hdr.map(Placed::into_owned),
            debug_frame: self.debug_frame.map(|b| Cow::Owned(b.into_owned())),
            text_address: self.text_address,
            got_address: self.got_address,
        }
    }

    pub(crate) fn eh_frame(&self) -> Option<EhFrame<Slice<'_>>> {
        self.eh_frame.as_ref().map(|s| {
            let mut section = EhFrame::new(&s.bytes, LittleEndian);
            section.set_address_size(ADDRESS_SIZE);
            section
        })
    }

    pub(crate) fn debug_frame(&self) -> Option<DebugFrame<Slice<'_>>> {
        self.debug_frame.as_ref().map(|bytes| {
            let mut section = DebugFrame::new(bytes, LittleEndian);
            section.set_address_size(ADDRESS_SIZE);
            section
        })
    }

    pub(crate) fn parsed_header(&self) -> Option<ParsedEhFrameHdr<Slice<'_>>> {
        let header = self.eh_frame_hdr.as_ref()?;
        EhFrameHdr::new(&header.bytes, LittleEndian)
            .parse(&self.bases(), ADDRESS_SIZE)
            .ok()
    }

    pub(crate) fn bases(&self) -> BaseAddresses {
        let mut bases = BaseAddresses::default();
        if let Some(s) = &self.eh_frame {
            bases = bases.set_eh_frame(s.stated);
        }
        if let Some(s) = &self.eh_frame_hdr {
            bases = bases.set_eh_frame_hdr(s.stated);
        }
        if let Some(address) = self.text_address {
            bases = bases.set_text(address);
        }
        if let Some(address) = self.got_address {
            bases = bases.set_got(address);
        }
        bases
    }
}

fn eh_frame_by_section<'data>(file: &ElfFile<'data>) -> Option<Placed<'data>> {
    let section = file.section(".eh_frame")?;
    let bytes = section.bytes().ok().filter(|b| !b.is_empty())?;
    Some(Placed {
        bytes,
        stated: section.stated_address(),
    })
}

fn eh_frame_hdr<'data>(file: &ElfFile<'data>) -> Option<Placed<'data>> {
    let raw = file.raw_segment(elf::PT_GNU_EH_FRAME)?;
    let bytes = raw
        .data(object::LittleEndian, file.data())
        .ok()
        .filter(|b| !b.is_empty())?;
    Some(Placed {
        bytes: Cow::Borrowed(bytes),
        stated: raw.p_vaddr(object::LittleEndian),
    })
}

/// `.eh_frame_hdr` tells where `.eh_frame` begins but not where it ends: it reaches to a terminator
/// or, at worst, to the end of its segment.
fn eh_frame_by_header<'data>(
    file: &ElfFile<'data>,
    header: &Placed<'data>,
) -> Option<Placed<'data>> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(header.stated);
    let parsed = EhFrameHdr::new(&header.bytes, LittleEndian)
        .parse(&bases, ADDRESS_SIZE)
        .ok()?;
    let stated = parsed.eh_frame_ptr().direct().ok()?;
    let bytes = file.bytes_from(stated)?;
    Some(Placed {
        bytes: Cow::Borrowed(bytes),
        stated,
    })
}
