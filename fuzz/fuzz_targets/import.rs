//! Files of other profilers: whatever their bytes, an answer or a recording that opens.
#![no_main]
use dwell_import::{Options, import};
use dwell_recording::{Overwrite, Recording};
use dwell_symbols::Symbolizer;
use libfuzzer_sys::fuzz_target;
use std::path::PathBuf;

/// In memory, where there is such a place: every run writes a recording.
fn folder() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() {
        memory
    } else {
        std::env::temp_dir()
    };
    base.join(format!("dwell-fuzz-import-{}", std::process::id()))
}

fuzz_target!(|data: &[u8]| {
    let to = folder();
    let options = Options {
        name: "x".into(),
        ..Options::default()
    };
    let mut symbolizer = Symbolizer::new(dwell_symbols::Options {
        lines: false,
        debug_directories: Vec::new(),
        ..dwell_symbols::Options::default()
    });
    if import(&data, &options, &mut symbolizer, &to, Overwrite::Replace).is_ok() {
        let tables = Recording::open(&to).expect("opens").load().expect("reads");
        assert!(tables.meta.complete);
        for thread in &tables.threads {
            assert!(thread.until_ns >= thread.start_ns);
        }
    }
    let _ = std::fs::remove_dir_all(&to);
});
