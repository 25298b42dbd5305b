//! Any bytes as an ELF file: every fact is asked for. A good start is a corpus of small real files:
//! `cargo +nightly fuzz run elf CORPUS /lib/x86_64-linux-gnu`.
#![no_main]

use dwell_elf::{ElfFile, unwind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(file) = ElfFile::parse(data) else {
        return;
    };
    let _ = (
        file.build_id(),
        file.interp(),
        file.debug_link(),
        file.gnu_debugdata(),
    );
    let _ = (file.is_go(), file.kind(), file.entry());
    for segment in file.segments() {
        let _ = file.stated_address(segment.file_offset);
        let _ = file.mapping_bias(segment.stated_address, segment.file_offset);
        let _ = file.bytes_at(segment.stated_address, 16);
    }
    for (_, section) in file.sections().take(64) {
        // A section may honestly claim to decompress to a lot; that is not what is looked for here.
        if section.size() < 1 << 12 {
            let _ = section.bytes();
        }
    }
    file.symbols().for_each(drop);
    let probes = file.static_probes();
    assert!(probes.probes.iter().all(|p| !p.name.is_empty()));
    let Ok(table) = unwind::compile(&file) else {
        return;
    };
    assert!(table.rows.windows(2).all(|pair| pair[0].pc < pair[1].pc));
    assert!(table.rows.first().is_none_or(|row| row.pc == 0));
});
