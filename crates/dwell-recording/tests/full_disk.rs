//! No room: the error names the remedy, nothing written before is lost, what is lost is counted.
mod common;
use common::meta;
use dwell_recording::rows::*;
use dwell_recording::{Recording, RecordingError, Writer, lost_rows};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small file system of its own, unmounted at the end.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(kib: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={kib}k");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .status()
            .unwrap();
        assert!(mounted.success(), "mount failed");
        Self(folder)
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Whether a test that needs root may run; without root it fails where every test must run (CI=true).
fn root() -> bool {
    let root = fs::read_to_string("/proc/self/status")
        .unwrap()
        .contains("\nUid:\t0\t");
    let mount = Command::new("unshare")
        .args(["-m", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !(root && mount) {
        assert!(
            std::env::var_os("CI").is_none_or(|ci| ci != "true"),
            "this test needs root to mount a tmpfs"
        );
        println!("skipped: needs root to mount a tmpfs");
    }
    root && mount
}

/// One second of rows that hardly compress: 100 stacks, each taken `times` times.
fn append_second(
    writer: &mut Writer,
    rng: &mut fastrand::Rng,
    second: u32,
    times: usize,
) -> Result<(), RecordingError> {
    let ids = second * 100..(second + 1) * 100;
    writer.append(ids.clone().map(|stack| StackRow {
        stack,
        frames: vec![stack; 3],
        end: String::new(),
    }))?;
    writer.append([ThreadRow {
        thread: 1,
        until_ns: u64::from(second) + 1,
        ..ThreadRow::default()
    }])?;
    let taken = ids.flat_map(|stack| std::iter::repeat_n(stack, times));
    writer.append(taken.map(|stack| SampleRow {
        stack,
        time_ns: rng.u64(..),
        weight_ns: rng.u64(..),
        ..SampleRow::default()
    }))
}

/// How often each stack is taken in what `fill` records.
const SAMPLED: usize = 30;

/// Records until the disk is full and is killed then. Seconds written before it was full.
fn fill(path: &Path) -> (u32, RecordingError) {
    let rng = &mut fastrand::Rng::with_seed(1);
    let mut writer = Writer::create(path, meta()).unwrap();
    for second in 0..10_000 {
        append_second(&mut writer, rng, second, SAMPLED).unwrap();
        if let Err(error) = writer.close_segment() {
            let lost: Vec<_> = writer.lost().iter().collect();
            assert_eq!(
                lost,
                [(&"samples", &(SAMPLED as u64 * 100))],
                "the samples of this second"
            );
            drop(writer);
            return (second, error);
        }
    }
    panic!("the disk is never full");
}

#[test]
fn root_a_full_disk_keeps_what_was_written_and_names_the_remedy() {
    if !root() {
        return;
    }
    let disk = Tmpfs::mount(1960);
    let path = disk.0.path().join("full.dwell");
    let (seconds, error) = fill(&path);
    assert!(seconds > 10, "{seconds}");
    assert!(matches!(error, RecordingError::NoSpace { .. }), "{error}");
    assert!(error.to_string().contains("free space"), "{error}");
    let recording = Recording::open(&path).unwrap();
    assert_eq!(
        recording.read::<SampleRow>().unwrap().len(),
        seconds as usize * 100 * SAMPLED
    );
    assert_eq!(
        recording.read::<StackRow>().unwrap().len(),
        (seconds as usize + 1) * 100,
        "the rest of that second is on the disk"
    );
    let threads = recording.read::<ThreadRow>().unwrap();
    assert_eq!(
        threads.last().unwrap().until_ns,
        u64::from(seconds) + 1,
        "the exact sums above all"
    );
    assert_eq!(
        recording.meta().losses[&lost_rows("samples")],
        SAMPLED as u64 * 100
    );
    assert_eq!(recording.warnings(), [""; 0], "no half segment is left");
}

#[test]
fn root_a_recording_ends_well_on_a_full_disk() {
    if !root() {
        return;
    }
    let disk = Tmpfs::mount(728);
    let path = disk.0.path().join("full.dwell");
    let rng = &mut fastrand::Rng::with_seed(1);
    let mut writer = Writer::create(&path, meta()).unwrap();
    let (mut failed, mut second) = (0, 0);
    while failed < 5 {
        append_second(&mut writer, rng, second, 1).unwrap();
        failed += u64::from(writer.close_segment().is_err());
        second += 1;
    }
    append_second(&mut writer, rng, second, 1).unwrap();
    let lost_before = writer.lost()["samples"];
    let error = writer.finish().unwrap_err();
    assert!(matches!(error, RecordingError::NoSpace { .. }), "{error}");
    assert_eq!(lost_before % 100, 0);

    let recording = Recording::open(&path).unwrap();
    let all = recording.load().unwrap();
    assert!(all.meta.complete, "it ended, with losses");
    let lost = all.meta.losses[&lost_rows("samples")] as usize;
    assert_eq!(
        all.samples.len() + lost,
        (second as usize + 1) * 100,
        "kept + lost = appended"
    );
    assert_eq!(
        all.stacks.len(),
        (second as usize + 1) * 100,
        "what others refer to was kept for the end"
    );
    assert_eq!(
        all.threads[0].until_ns,
        u64::from(second) + 1,
        "and so were the exact sums"
    );
    assert!(!path.join(".reserve").exists() && !path.join(".unfinished").exists());
}

#[test]
fn root_a_disk_with_room_again_goes_on() {
    if !root() {
        return;
    }
    let disk = Tmpfs::mount(728);
    let ballast = disk.0.path().join("ballast");
    fs::write(&ballast, vec![1; 350 << 10]).unwrap();
    let path = disk.0.path().join("full.dwell");
    let rng = &mut fastrand::Rng::with_seed(2);
    let mut writer = Writer::create(&path, meta()).unwrap();
    let mut second = 0;
    loop {
        append_second(&mut writer, rng, second, 1).unwrap();
        second += 1;
        if writer.close_segment().is_err() {
            break;
        }
    }
    fs::remove_file(&ballast).unwrap();
    for _ in 0..5 {
        append_second(&mut writer, rng, second, 1).unwrap();
        writer.close_segment().unwrap();
        second += 1;
    }
    writer.finish().unwrap();
    let all = Recording::open(&path).unwrap().load().unwrap();
    assert_eq!(all.meta.losses[&lost_rows("samples")], 100);
    assert_eq!(
        (all.samples.len(), all.stacks.len()),
        (second as usize * 100 - 100, second as usize * 100)
    );
}

/// What cannot be written is kept in bounded memory, and the sums outlast all else.
#[test]
fn root_the_exact_sums_outlast_a_disk_that_stays_full() {
    const SITES: u32 = 5_000;
    const SECONDS: u32 = 40;
    if !root() {
        return;
    }
    let disk = Tmpfs::mount(800);
    let path = disk.0.path().join("full.dwell");
    let mut writer = Writer::create(&path, meta()).unwrap();
    let ballast = disk.0.path().join("ballast");
    let _ = fs::write(&ballast, vec![1; 800 << 10]);
    for second in 0..SECONDS {
        let ids = second * 5_000..(second + 1) * 5_000;
        let _ = writer.append(ids.map(|stack| StackRow {
            stack,
            frames: vec![stack; 3],
            end: String::new(),
        }));
        let _ = writer.append((0..SITES).map(|site| SiteTimeRow {
            site,
            time_ns: u64::from(second),
            blocked_ns: 10,
            runnable_ns: 1,
            count: 2,
            max_ns: u64::from(second % 7),
        }));
        assert!(writer.close_segment().is_err(), "there is no room");
    }
    let lost = writer.lost()["stacks"];
    assert!(!writer.lost().contains_key("site_times"));
    fs::remove_file(&ballast).unwrap();
    writer.finish().unwrap();
    let all = Recording::open(&path).unwrap().load().unwrap();
    assert_eq!(all.stacks.len() as u64 + lost, u64::from(SECONDS) * 5_000);
    assert_eq!(all.meta.losses[&lost_rows("stacks")], lost);
    let mut sums = all.site_times;
    sums.sort_by_key(|row| row.site);
    assert_eq!(sums.len(), SITES as usize);
    let seconds = u64::from(SECONDS);
    let sum = |row: &SiteTimeRow| (row.blocked_ns, row.runnable_ns, row.count, row.max_ns);
    assert!(
        sums.iter()
            .all(|row| sum(row) == (10 * seconds, seconds, 2 * seconds, 6))
    );
}

#[test]
fn root_no_room_for_the_first_file_is_an_error_at_once() {
    if !root() {
        return;
    }
    let disk = Tmpfs::mount(64);
    let error = Writer::create(&disk.0.path().join("x.dwell"), meta())
        .err()
        .unwrap();
    assert!(matches!(error, RecordingError::NoSpace { .. }), "{error}");
}

const LIMITED: &str = "DWELL_TEST_LIMITED_FOLDER";

/// Runs under a limit on file sizes, see the test below.
#[test]
fn child_with_a_limit_on_file_sizes() {
    let Some(folder) = std::env::var_os(LIMITED).map(PathBuf::from) else {
        return;
    };
    let mut writer = Writer::create(&folder, meta()).unwrap();
    writer
        .append([EventRow {
            detail: "small".into(),
            ..EventRow::default()
        }])
        .unwrap();
    writer.close_segment().unwrap();
    writer
        .append([EventRow {
            detail: "x".repeat(2 << 20),
            ..EventRow::default()
        }])
        .unwrap();
    let error = writer.close_segment().unwrap_err();
    assert!(
        matches!(error, RecordingError::FileTooLarge { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("ulimit -f"), "{error}");
    writer.finish().unwrap();
    fs::write(folder.with_extension("passed"), "").unwrap();
}

#[test]
fn a_limit_on_file_sizes_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.dwell");
    // 1024 blocks of 1 KiB (bash) or 512 bytes (POSIX): more than the reserve, less than the row.
    let limited = Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 1024; exec \"$0\" --exact child_with_a_limit_on_file_sizes",
        ])
        .arg(std::env::current_exe().unwrap())
        .env(LIMITED, &path)
        .status()
        .unwrap();
    assert!(limited.success());
    assert!(path.with_extension("passed").exists(), "the child ran");
    let all = Recording::open(&path).unwrap().load().unwrap();
    assert_eq!(
        all.events
            .iter()
            .map(|row| row.detail.as_str())
            .collect::<Vec<_>>(),
        ["small"]
    );
    assert_eq!(all.meta.losses[&lost_rows("events")], 1);
}
