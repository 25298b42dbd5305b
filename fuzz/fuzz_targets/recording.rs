//! Any bytes as a segment of any table: the first byte chooses the table, or `meta.json`.
//!
//! Good seeds are the files of a small recording, each with a byte of its own in front.
#![no_main]
use dwell_recording::rows::*;
use dwell_recording::{Recording, Table, decode_segment};
use libfuzzer_sys::fuzz_target;

fn segment<R: Table>(bytes: &[u8]) {
    if let Ok(rows) = decode_segment::<R>(bytes.to_vec()) {
        assert!(rows.len() <= 1 << 18, "more rows than a segment may have");
    }
}

fn meta(bytes: &[u8]) {
    let folder = std::env::temp_dir().join(format!("dwell-fuzz-recording-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    std::fs::write(folder.join("meta.json"), bytes).expect("write");
    if let Ok(recording) = Recording::open(&folder) {
        let _ = recording.load();
    }
    let _ = std::fs::remove_dir_all(&folder);
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, bytes)) = data.split_first() else {
        return;
    };
    match choice % 13 {
        0 => segment::<ProcessRow>(bytes),
        1 => segment::<ThreadRow>(bytes),
        2 => segment::<MappingRow>(bytes),
        3 => segment::<FrameRow>(bytes),
        4 => segment::<SymbolRow>(bytes),
        5 => segment::<StackRow>(bytes),
        6 => segment::<SiteRow>(bytes),
        7 => segment::<SiteTimeRow>(bytes),
        8 => segment::<SampleRow>(bytes),
        9 => segment::<SliceRow>(bytes),
        10 => segment::<EventRow>(bytes),
        11 => segment::<FutexRow>(bytes),
        _ => meta(bytes),
    }
});
