//! Any bytes as the notes of static probes. The first byte is 0: each line of the rest is the text for the
//! arguments in a note that is whole. Else it says how many of the rest are the section
//! `.note.stapsdt`, in units of 256; what remains is `.note.dwell`.
#![no_main]

use dwell_elf::ElfFile;
use dwell_elf::static_probes::Register;
use libfuzzer_sys::fuzz_target;

const NAMES: &[u8] = b"\0.note.stapsdt\0.note.dwell\0.stapsdt.base\0.symtab\0.strtab\0";
const STRINGS: &[u8] = b"\0counter\0";
const HEADER: u64 = 64;
const SEGMENT: u64 = 56;
const SECTION: u64 = 64;
const SYMBOL: u64 = 24;

/// A program whose whole address space below 2 GiB is code, with these two sections of notes, a base
/// at 0x1000 and a variable `counter`.
fn program(probes: &[u8], kinds: &[u8]) -> Vec<u8> {
    let mut symbols = vec![0; SYMBOL as usize];
    symbols.extend(1u32.to_le_bytes()); // st_name
    symbols.extend([1, 0, 1, 0]); // STT_OBJECT, defined
    symbols.extend([0x4000u64, 4].map(u64::to_le_bytes).concat());
    let contents = [probes, kinds, &[], &symbols, STRINGS, NAMES];
    let mut body = Vec::new();
    let mut headers = vec![0; SECTION as usize];
    let first = HEADER + SEGMENT;
    let names = [1, 15, 27, 41, 49, 49u32];
    let types = [7, 7, 1, 2, 3, 3u32]; // SHT_NOTE, PROGBITS, SYMTAB, STRTAB
    for k in 0..contents.len() {
        let address = if k == 2 { 0x1000 } else { 0 };
        let link = if k == 3 { 5 } else { 0u32 };
        let entry = if k == 3 { SYMBOL } else { 0 };
        headers.extend(names[k].to_le_bytes());
        headers.extend(types[k].to_le_bytes());
        let place = first + body.len() as u64;
        headers.extend(
            [0, address, place, contents[k].len() as u64]
                .map(u64::to_le_bytes)
                .concat(),
        );
        headers.extend([link, 0].map(u32::to_le_bytes).concat());
        headers.extend([4, entry].map(u64::to_le_bytes).concat());
        body.extend_from_slice(contents[k]);
    }
    let mut file = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    file.extend([3u16, 62].map(u16::to_le_bytes).concat()); // ET_DYN, x86-64
    file.extend(1u32.to_le_bytes());
    let sections = first + body.len() as u64;
    file.extend([0, HEADER, sections].map(u64::to_le_bytes).concat());
    file.extend(0u32.to_le_bytes());
    let counts = [
        HEADER,
        SEGMENT,
        1,
        SECTION,
        contents.len() as u64 + 1,
        contents.len() as u64,
    ];
    file.extend(counts.map(|n| (n as u16).to_le_bytes()).concat());
    file.extend([1u32, 5].map(u32::to_le_bytes).concat()); // PT_LOAD, readable and executable
    file.extend(
        [0, 0, 0, 0, 1 << 31, 4096u64]
            .map(u64::to_le_bytes)
            .concat(),
    );
    file.extend(body);
    file.extend(headers);
    file
}

/// Notes that are whole, one for each line of arguments.
fn whole_notes(text: &[u8]) -> Vec<u8> {
    let mut notes = Vec::new();
    for (k, line) in text.split(|&b| b == b'\n').enumerate() {
        let mut description = [0x2000 + k as u64, 0x1000, 0]
            .map(u64::to_le_bytes)
            .concat();
        description.extend(b"fuzzed\0probe\0");
        description.extend(line);
        description.push(0);
        notes.extend(
            [8, description.len() as u32, 3]
                .map(u32::to_le_bytes)
                .concat(),
        );
        notes.extend(b"stapsdt\0");
        notes.extend(description);
        notes.resize(notes.len().next_multiple_of(4), 0);
    }
    notes
}

fuzz_target!(|data: &[u8]| {
    let Some((&split, rest)) = data.split_first() else {
        return;
    };
    let (probes, kinds) = rest.split_at(rest.len().min(usize::from(split) * 256));
    let whole = whole_notes(rest);
    let probes = if split == 0 { &whole } else { probes };
    let bytes = program(probes, kinds);
    let file = ElfFile::parse(&bytes).expect("a whole header");
    assert_eq!(
        file.section(".note.stapsdt").and_then(|s| s.raw_bytes()),
        Some(probes)
    );
    let found = file.static_probes();
    for probe in &found.probes {
        assert!(!probe.name.is_empty() && probe.address < 1 << 31);
        for argument in probe.arguments.iter().flatten() {
            assert!([1, 2, 4, 8].contains(&argument.size));
            let register = |r: Register| 0x8000_0000_0000_0000 >> r as u32;
            let _ = argument.value(
                register,
                u64::from,
                |at, size| Some(at ^ u64::from(size)),
                1 << 40,
            );
        }
    }
    for skipped in &found.skipped {
        assert!(!skipped.to_string().is_empty());
    }
});
