//! The sections that hold a file's debug information, decompressed where need be.
use std::cell::OnceCell;

use dwell_symbols::DebugData;
use gimli::SectionId;
use object::{Object, ObjectSection};

/// The sections that types, variables and functions are read from.
const WANTED: [SectionId; 8] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    // Units are refused without.
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];
/// Deflate makes at most 1 032 bytes from one: a header that promises more is a bomb.
const MAX_RATIO: u64 = 1032;
/// The largest section that is decompressed, bytes.
const MAX_SIZE: u64 = 1 << 30;

/// The files of a module.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) data: DebugData,
    own: [OnceCell<Vec<u8>>; WANTED.len()],
    shared: [OnceCell<Vec<u8>>; WANTED.len()],
}

impl Files {
    pub(crate) fn new(data: DebugData) -> Files {
        Files {
            data,
            own: Default::default(),
            shared: Default::default(),
        }
    }

    /// A section with debug information, empty if there is none.
    pub(crate) fn section(&self, id: SectionId) -> &[u8] {
        let data = self.data.debug().unwrap_or(self.data.file());
        section(data, id, &self.own)
    }

    /// A section of the entries that several files share.
    pub(crate) fn shared_section(&self, id: SectionId) -> &[u8] {
        let shared = self.data.shared();
        shared.map_or(&[], |data| section(data, id, &self.shared))
    }
}

fn section<'d>(data: &'d [u8], id: SectionId, unpacked: &'d [OnceCell<Vec<u8>>]) -> &'d [u8] {
    let Some(at) = WANTED.iter().position(|wanted| *wanted == id) else {
        return &[];
    };
    let file = object::File::parse(data).ok();
    let found = file
        .as_ref()
        .and_then(|file| file.section_by_name(id.name()));
    let Some(found) = found.and_then(|section| section.compressed_data().ok()) else {
        return &[];
    };
    if found.format == object::CompressionFormat::None {
        return found.data;
    }
    let size = found.uncompressed_size;
    if size > MAX_SIZE || size / MAX_RATIO > found.data.len() as u64 {
        return &[];
    }
    unpacked[at].get_or_init(|| {
        found
            .decompress()
            .map_or_else(|_| Vec::new(), |bytes| bytes.into_owned())
    })
}
