//! Recordings of every earlier format version open. Each folder below `recordings/` was written by the
//! program of that version (`make_sample_recording`, one second of it).
use dwell_recording::rows::{MemoryPlaceRow, SiteRow, SliceRow};
use dwell_recording::{FORMAT_VERSION, Recording, Tables};
use std::path::Path;

/// The recording that the program of this version wrote.
fn version(version: u32) -> Tables {
    let folder = format!("tests/recordings/version-{version}.dwell");
    let recording = Recording::open(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let tables = recording.load().unwrap();
    assert_eq!(recording.warnings().len(), 0);
    assert_eq!(tables.meta.format_version, FORMAT_VERSION);
    let counts = [
        tables.processes.len(),
        tables.threads.len(),
        tables.mappings.len(),
        tables.frames.len(),
        tables.stacks.len(),
    ];
    assert_eq!(counts, [3, 11, 3, 16, 12]);
    tables
}

#[test]
fn version_7_does_not_know_which_spin_locks_and_has_everything_else() {
    let tables = version(7);
    let of_which = |row: &MemoryPlaceRow| row.zone_waits + row.list_waits;
    assert!(tables.memory_places.iter().all(|row| of_which(row) == 0));
    assert!(tables.memory_places.iter().any(|row| row.mmap_waits > 0));
}

#[test]
fn version_6_does_not_know_who_held_memory_and_has_everything_else() {
    let tables = version(6);
    assert!(tables.memory_places.iter().all(|row| row.peak_pages == 0));
    assert!(
        tables
            .memory_places
            .iter()
            .any(|row| row.allocated_pages > 0)
    );
    assert!(tables.meta.memory.is_some());
}

#[test]
fn version_5_has_no_ledger_of_memory_and_everything_else() {
    let tables = version(5);
    assert!(tables.memory_places.is_empty() && tables.meta.memory.is_none());
    assert!(tables.threads.iter().any(|row| row.stolen_ns > 0));
    assert_eq!(tables.kernel_locks.len(), 3);
}

#[test]
fn version_4_has_no_stolen_time_and_everything_else() {
    let tables = version(4);
    assert!(tables.threads.iter().all(|row| row.stolen_ns == 0));
    assert!(tables.threads.iter().any(|row| row.running_ns > 0));
    assert!(!tables.lock_blocks.is_empty());
}

#[test]
fn version_3_has_no_blocks_and_everything_else() {
    let tables = version(3);
    assert!(tables.lock_blocks.is_empty());
    assert_eq!((tables.locks.len(), tables.kernel_locks.len()), (5, 3));
    let [counted] = &tables.meta.counted[..] else {
        panic!("{:?}", tables.meta.counted);
    };
    assert_eq!((counted.events, counted.lost_events), (0, 0));
    assert!(counted.attach.times > 0);
}

#[test]
fn version_2_does_not_know_what_spins_and_has_everything_else() {
    let tables = version(2);
    assert!(tables.frames.iter().all(|row| row.spinning.is_none()));
    assert_eq!(tables.frames[13].module, "[kernel]");
    assert_eq!(tables.futexes.len(), 6);
    assert!(tables.sites.iter().any(|row| row.futex.is_some()));
}

#[test]
fn version_1_has_no_futexes_and_everything_else() {
    let tables = version(1);
    assert!(tables.futexes.is_empty());
    let futex = |row: &&SiteRow| row.syscall == "futex";
    let site = tables
        .sites
        .iter()
        .find(futex)
        .expect("it has waits at locks");
    assert_eq!((site.futex, site.timed, site.shared), (None, false, false));
    assert_eq!(
        (site.reason.as_str(), site.operation.as_str()),
        ("lock", "")
    );
    assert!(tables.slices.len() > 100 && tables.samples.len() > 100);
    assert!(
        tables
            .slices
            .iter()
            .all(|row: &SliceRow| row.result.is_empty())
    );
    let waits: u64 = tables.site_times.iter().map(|row| row.count).sum();
    assert!(waits >= tables.slices.len() as u64);
}

#[test]
fn version_2_has_no_counts_and_everything_else() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings/version-2.dwell");
    let recording = Recording::open(folder).unwrap();
    let tables = recording.load().unwrap();
    assert_eq!(recording.warnings().len(), 0);
    assert_eq!(tables.meta.format_version, FORMAT_VERSION);
    assert!(
        tables.locks.is_empty() && tables.kernel_locks.is_empty() && tables.meta.counted.is_empty()
    );
    assert_eq!((tables.futexes.len(), tables.threads.len()), (6, 11));
    let is_futex = |row: &&SiteRow| row.syscall == "futex";
    let site = tables.sites.iter().find(is_futex);
    let site = site.expect("it has waits at locks");
    assert!(site.futex.is_some() && !site.operation.is_empty());
    assert!(tables.slices.iter().any(|row| row.result == "woken"));
}
