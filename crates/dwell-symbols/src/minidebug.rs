//! `.gnu_debugdata`: a symbol table compressed with xz inside a stripped file, as Fedora ships it.
use std::io::Read;

use lzma_rust2::XzReader;

use crate::elf::Elf;

/// Largest symbol file that is unpacked, bytes. Fedora's largest are around 10 MiB.
const MAX_UNPACKED: u64 = 64 << 20;
/// Largest dictionary allowed to the decoder, KiB: what `xz -9` uses, and some air.
const MAX_DICTIONARY_KIB: u32 = 80 << 10;

/// The ELF file inside `.gnu_debugdata`. None when there is none, or it is damaged or too large.
pub(crate) fn unpack(elf: &Elf<'_>) -> Option<Vec<u8>> {
    let packed = elf.raw_section(".gnu_debugdata")?;
    let mut unpacked = Vec::new();
    let reader = XzReader::new_mem_limit(packed, true, MAX_DICTIONARY_KIB);
    reader
        .take(MAX_UNPACKED + 1)
        .read_to_end(&mut unpacked)
        .ok()?;
    (unpacked.len() as u64 <= MAX_UNPACKED).then_some(unpacked)
}
