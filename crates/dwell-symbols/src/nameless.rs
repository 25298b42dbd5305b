//! Functions that nothing names: where they begin.
//!
//! Call frame information stays in stripped programs and has an entry for each function. So the time of a function
//! without a name is that of one function still, and not that of as many places as there are samples.
use gimli::{BaseAddresses, EhFrame, EhFrameHdr, LittleEndian, UnwindSection};
use object::{Object, ObjectSection};

use crate::elf::Elf;

const HEADER: &str = ".eh_frame_hdr";
const ENTRIES: &str = ".eh_frame";
/// Their entry covers all stubs of a section.
const STUBS: &str = ".plt";

/// The call frame information of one file.
pub(crate) struct Functions<'d> {
    header: gimli::ParsedEhFrameHdr<gimli::EndianSlice<'d, LittleEndian>>,
    entries: EhFrame<gimli::EndianSlice<'d, LittleEndian>>,
    bases: BaseAddresses,
    /// Where stubs are, stated addresses.
    stubs: Vec<std::ops::Range<u64>>,
}

impl<'d> Functions<'d> {
    /// None when the file has none, or no table to look addresses up in.
    pub(crate) fn of(elf: &Elf<'d>) -> Option<Self> {
        let address = |name| Some(elf.file.section_by_name(name)?.address());
        let bases = BaseAddresses::default()
            .set_eh_frame_hdr(address(HEADER)?)
            .set_eh_frame(address(ENTRIES)?);
        let header = EhFrameHdr::new(elf.raw_section(HEADER)?, LittleEndian);
        let header = header.parse(&bases, size_of::<u64>() as u8).ok()?;
        header.table()?;
        let stubs = elf
            .file
            .sections()
            .filter(|s| s.name().is_ok_and(|name| name.starts_with(STUBS)));
        Some(Self {
            header,
            entries: EhFrame::new(elf.raw_section(ENTRIES)?, LittleEndian),
            bases,
            stubs: stubs
                .map(|s| s.address()..s.address().saturating_add(s.size()))
                .collect(),
        })
    }

    /// The *stated* address at which the function around `address` begins; none where nothing tells.
    pub(crate) fn start_of(&self, address: u64) -> Option<u64> {
        if self.stubs.iter().any(|stubs| stubs.contains(&address)) {
            return None;
        }
        let table = self.header.table()?;
        let found = table.lookup(address, &self.bases).ok()?;
        let offset = table.pointer_to_offset(found).ok()?;
        let entry = self
            .entries
            .fde_from_offset(&self.bases, offset, EhFrame::cie_from_offset);
        let entry = entry.ok().filter(|entry| entry.contains(address))?;
        Some(entry.initial_address())
    }
}
