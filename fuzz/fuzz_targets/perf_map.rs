//! Any bytes as a perf map file; the address asked for comes first.
#![no_main]

use dwell_symbols::name_from_perf_map;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((address, map)) = data.split_first_chunk() else {
        return;
    };
    let address = u64::from_le_bytes(*address);
    let Some(name) = name_from_perf_map(map, address) else {
        return;
    };
    // A name is never made up: it stands in the file, as one line's end.
    assert!(!name.is_empty() && !name.contains('\n'));
    assert!(map.windows(name.len()).any(|part| part == name.as_bytes()));
    // What is added for code elsewhere changes nothing.
    let elsewhere = address.wrapping_add(1 << 32);
    let mut longer = map.to_vec();
    longer.extend(format!("{elsewhere:x} 1 elsewhere\n").bytes());
    if map.ends_with(b"\n") {
        assert_eq!(name_from_perf_map(&longer, address), Some(name));
    }
});
