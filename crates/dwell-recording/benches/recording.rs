//! What writing and reading a recording costs, in CPU time of one thread:
//! `cargo bench -p dwell-recording`.
use dwell_recording::rows::{
    LockBlockRow, SampleRow, SliceRow, StackRow, block_end, block_part, state,
};
use dwell_recording::{Buffered, Meta, Recording, Writer};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Seconds of recording that are written.
const SECONDS: u64 = 30;
/// Slices and samples in one of them, as many as a busy machine gives.
const SLICES: u64 = 20_000;
const SAMPLES: u64 = 2_000;
/// Holds of locks that others waited for, in a second of two threads that do nothing else.
const HOLDS: u64 = 50_000;

fn main() {
    println!("{SECONDS} segments each; medians of 5 runs");
    println!(
        "{:12} {:>12} {:>14} {:>14} {:>10}",
        "table", "rows/s", "write ns/row", "read ns/row", "bytes/row"
    );
    one_table("slices", |rng, second| {
        (0..SLICES)
            .map(|n| slice(rng, second, n))
            .collect::<Vec<_>>()
    });
    one_table("samples", |rng, second| {
        (0..SAMPLES)
            .map(|n| sample(rng, second, n))
            .collect::<Vec<_>>()
    });
    one_table("lock_blocks", |rng, second| {
        (0..HOLDS).map(|n| hold(rng, second, n)).collect::<Vec<_>>()
    });
    one_table("stacks", |rng, second| {
        (0..500)
            .map(|n| stack(rng, second * 500 + n))
            .collect::<Vec<_>>()
    });
    together();
}

/// Rows of one table alone.
fn one_table<R: Buffered>(name: &str, rows_of: impl Fn(&mut fastrand::Rng, u64) -> Vec<R>) {
    let runs = (0..5).map(|seed| {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let seconds: Vec<Vec<R>> = (0..SECONDS).map(|second| rows_of(rng, second)).collect();
        let rows = seconds.iter().map(Vec::len).sum::<usize>() as f64;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (wall, before) = (Instant::now(), cpu_ns());
        let mut writer = Writer::create(folder.path(), Meta::default()).expect("create");
        for second in seconds {
            writer.append(second).expect("append");
            writer.close_segment().expect("close");
        }
        writer.finish().expect("finish");
        let (write, wall) = (cpu_ns() - before, wall.elapsed().as_secs_f64());
        let before = cpu_ns();
        let read = Recording::open(folder.path())
            .and_then(|recording| recording.read::<R>())
            .expect("read");
        assert_eq!(read.len() as f64, rows);
        let read_ns = cpu_ns() - before;
        [
            rows / wall,
            write / rows,
            read_ns / rows,
            bytes(folder.path()) / rows,
        ]
    });
    let [rows, write, read, bytes] = medians(runs.collect());
    println!("{name:12} {rows:12.0} {write:14.1} {read:14.1} {bytes:10.1}");
}

/// All of it, as a recorder does: the share of one processor it takes.
fn together() {
    let runs = (0..5).map(|seed| {
        let rng = &mut fastrand::Rng::with_seed(seed);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut writer = Writer::create(folder.path(), Meta::default()).expect("create");
        let mut cpu = 0.0;
        for second in 0..SECONDS {
            let stacks: Vec<_> = (0..100).map(|n| stack(rng, second * 100 + n)).collect();
            let samples: Vec<_> = (0..SAMPLES).map(|n| sample(rng, second, n)).collect();
            let slices: Vec<_> = (0..SLICES).map(|n| slice(rng, second, n)).collect();
            let before = cpu_ns();
            writer.append(stacks).expect("append");
            writer.append(samples).expect("append");
            writer.append(slices).expect("append");
            writer.close_segment().expect("close");
            cpu += cpu_ns() - before;
        }
        [
            cpu / SECONDS as f64 / 1e9 * 100.0,
            bytes(folder.path()) / SECONDS as f64,
        ]
    });
    let [share, bytes] = medians(runs.collect());
    println!(
        "{SLICES} slices/s + {SAMPLES} samples/s + 100 stacks/s: {share:.2} % of one CPU, {bytes:.0} bytes/s"
    );
}

fn slice(rng: &mut fastrand::Rng, second: u64, n: u64) -> SliceRow {
    const WAKERS: [&str; 5] = ["stockfish", "redis-server", "[timer]", "[softirq]", ""];
    SliceRow {
        thread: rng.u32(..16),
        site: rng.u32(..200),
        start_ns: second * 1_000_000_000 + n * 50_000 + rng.u64(..40_000),
        blocked_ns: 1 << rng.u32(8..24),
        runnable_ns: rng.u64(..30_000),
        cpu: rng.u32(..8),
        stack: n.is_multiple_of(10).then(|| rng.u32(..2000)),
        waker_tid: Some(4000 + rng.u32(..16)),
        waker_thread: Some(rng.u32(..16)),
        waker_name: WAKERS[rng.usize(..WAKERS.len())].into(),
        waker_stack: n.is_multiple_of(10).then(|| rng.u32(..2000)),
        result: String::new(),
    }
}

fn hold(rng: &mut fastrand::Rng, second: u64, n: u64) -> LockBlockRow {
    let until_ns = second * 1_000_000_000 + n * 20_000 + rng.u64(..15_000);
    LockBlockRow {
        block: (n / 20) as u32,
        part: block_part::HOLD.into(),
        ns_tid: 4000 + rng.u32(..2),
        start_ns: rng.bool().then(|| until_ns - rng.u64(..3000)),
        end_ns: Some(until_ns),
        end: block_end::RELEASED.into(),
        frame: Some(53),
        release_frame: Some(50),
        blamed_ns: rng.u64(..30_000),
        ..LockBlockRow::default()
    }
}

fn sample(rng: &mut fastrand::Rng, second: u64, n: u64) -> SampleRow {
    let waits = rng.bool();
    SampleRow {
        time_ns: second * 1_000_000_000 + n * 500_000 + rng.u64(..400_000),
        thread: rng.u32(..16),
        cpu: rng.u32(..8),
        state: if waits {
            state::BLOCKED
        } else {
            state::RUNNING
        }
        .into(),
        stack: rng.u32(..2000),
        site: waits.then(|| rng.u32(..200)),
        weight_ns: 10_000_000 + rng.u64(..1_000_000),
    }
}

fn stack(rng: &mut fastrand::Rng, id: u64) -> StackRow {
    StackRow {
        stack: id as u32,
        frames: (0..rng.usize(5..40)).map(|_| rng.u32(..5000)).collect(),
        end: "complete".into(),
    }
}

/// CPU time of this thread, ns.
fn cpu_ns() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    text.split(' ')
        .next()
        .and_then(|ns| ns.parse().ok())
        .expect("schedstat")
}

fn bytes(folder: &Path) -> f64 {
    let files = fs::read_dir(folder)
        .expect("read")
        .map(|entry| entry.expect("read"));
    let segments = files.filter(|file| {
        file.path()
            .extension()
            .is_some_and(|name| name == "parquet")
    });
    segments
        .map(|file| file.metadata().expect("read").len())
        .sum::<u64>() as f64
}

fn medians<const N: usize>(mut runs: Vec<[f64; N]>) -> [f64; N] {
    std::array::from_fn(|column| {
        runs.sort_by(|a, b| a[column].total_cmp(&b[column]));
        runs[runs.len() / 2][column]
    })
}
