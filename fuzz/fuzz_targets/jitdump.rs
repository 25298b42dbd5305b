//! Any bytes as a jitdump file; the address asked for comes first. Bytes that do not begin like one
//! get a right header, so that the records behind it are reached.
#![no_main]

use dwell_symbols::name_from_jitdump;
use libfuzzer_sys::fuzz_target;

/// Magic, version, length of the header; the rest says nothing that is used.
fn header() -> Vec<u8> {
    let mut header = vec![0; 40];
    header[..4].copy_from_slice(&0x4A69_5444u32.to_ne_bytes());
    header[4] = 1;
    header[8] = 40;
    header
}

fuzz_target!(|data: &[u8]| {
    let Some((address, records)) = data.split_first_chunk() else {
        return;
    };
    let address = u64::from_le_bytes(*address);
    let _ = name_from_jitdump(records, address);
    let mut dump = header();
    dump.extend(records);
    let name = name_from_jitdump(&dump, address).expect("the header is right");
    if let Some(name) = name {
        assert!(!name.is_empty());
        // Each replacement character may stand for bytes that are no text.
        assert!(name.len() <= 3 * records.len());
    }
});
