//! Rows for tests: every table, with values at the edges of their types.
#![allow(dead_code)]
use dwell_recording::meta::{
    ClockAnchor, CountedProcess, HeldThreads, KernelThreadCost, Machine, MemoryCosts, RecorderCost,
};
use dwell_recording::rows::*;
use dwell_recording::{Meta, RecordingError, Tables, Writer};

/// A meta with every field filled.
pub fn meta() -> Meta {
    Meta {
        format_version: dwell_recording::FORMAT_VERSION,
        tool: "dwell-recording tests".into(),
        machine: Machine {
            host: "host".into(),
            kernel: "6.18".into(),
            arch: "x86_64".into(),
            cpus: 2,
        },
        clock: ClockAnchor {
            boottime_ns: 5_000_000_000,
            realtime_ns: u64::MAX,
        },
        target: "test \"quoted\" ünï".into(),
        command_line: vec!["dwell".into(), "--".into(), String::new()],
        period_ns: 10_000_000,
        start_ns: 5_000_000_000,
        end_ns: 6_000_000_000,
        complete: false,
        exit_code: Some(137),
        losses: [("ring_full".to_string(), 3)].into(),
        produced: [("ring_full".to_string(), u64::MAX)].into(),
        recorder: RecorderCost {
            cpu_ns: 1,
            peak_rss_bytes: 2,
            bpf_ns: Some(3),
            copied_stacks: 4,
            waits_passed_over: 5,
        },
        counted: vec![CountedProcess {
            process: 1,
            pid: 4711,
            libc: "glibc".into(),
            attach: HeldThreads {
                longest_ns: u64::MAX,
                times: 2,
                threads: 3,
            },
            detach: Some(HeldThreads::default()),
            forgotten: 4,
            events: 9,
            lost_events: 2,
            released_free: 1,
            missed: vec!["pthread_spin_lock: \"why\"".into()],
        }],
        memory: Some(MemoryCosts {
            clear_cached_ns: 51.5,
            clear_uncached_ns: 301.25,
            machine_allocated_pages: u64::MAX,
            kernel_allocated_pages: 3,
            machine_freed_pages: 7,
            kernel_threads: vec![KernelThreadCost {
                name: "kswapd0".into(),
                cpu_ns: 8,
            }],
        }),
    }
}

/// A number that is often at the edge of its type.
fn edge(rng: &mut fastrand::Rng) -> u64 {
    match rng.u8(0..6) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::from(u32::MAX),
        3 => i64::MAX as u64 + 1,
        4 => rng.u64(..),
        _ => rng.u64(..1000),
    }
}

fn edge32(rng: &mut fastrand::Rng) -> u32 {
    edge(rng) as u32
}

fn text(rng: &mut fastrand::Rng) -> String {
    const TEXTS: [&str; 5] = [
        "",
        "futex",
        "日本 🦀",
        "std::vec::Vec<T, A>::push",
        "a\0b\n\"'",
    ];
    match rng.u8(0..8) {
        n if usize::from(n) < TEXTS.len() => TEXTS[usize::from(n)].into(),
        5 => "long ".repeat(rng.usize(..200)),
        _ => format!("text {}", rng.u32(..)),
    }
}

fn maybe<T>(rng: &mut fastrand::Rng, value: impl FnOnce(&mut fastrand::Rng) -> T) -> Option<T> {
    rng.bool().then(|| value(rng))
}

fn list(rng: &mut fastrand::Rng) -> Vec<u32> {
    let length = if rng.u8(..10) == 0 {
        2000
    } else {
        rng.usize(..20)
    };
    (0..length).map(|_| edge32(rng)).collect()
}

/// `rows` random rows of every table; keys count up from `first`.
pub fn tables(seed: u64, first: u32, rows: u32) -> Tables {
    let r = &mut fastrand::Rng::with_seed(seed);
    let ids = first..first + rows;
    Tables {
        meta: meta(),
        processes: ids
            .clone()
            .map(|process| ProcessRow {
                process,
                pid: edge32(r),
                ns_pid: edge32(r),
                parent_pid: edge32(r),
                name: text(r),
                command: text(r),
                exe: text(r),
                cgroup: text(r),
                start_ns: edge(r),
                end_ns: maybe(r, edge),
                exit_status: maybe(r, |r| edge32(r).cast_signed()),
            })
            .collect(),
        threads: ids
            .clone()
            .map(|thread| ThreadRow {
                thread,
                process: edge32(r),
                tid: edge32(r),
                ns_tid: edge32(r),
                name: text(r),
                start_ns: edge(r),
                until_ns: edge(r),
                ended: r.bool(),
                running_ns: edge(r),
                runnable_ns: edge(r),
                blocked_ns: edge(r),
                stolen_ns: edge(r),
                lost_ns: edge(r),
                voluntary_switches: edge(r),
                involuntary_switches: edge(r),
            })
            .collect(),
        mappings: ids
            .clone()
            .map(|_| MappingRow {
                process: edge32(r),
                start: edge(r),
                end: edge(r),
                file_offset: edge(r),
                path: text(r),
                build_id: text(r),
                start_ns: edge(r),
            })
            .collect(),
        frames: ids
            .clone()
            .map(|frame| FrameRow {
                frame,
                kind: text(r),
                module: text(r),
                build_id: text(r),
                address: edge(r),
                process: maybe(r, edge32),
                spinning: maybe(r, |r| r.bool()),
            })
            .collect(),
        symbols: ids
            .clone()
            .map(|frame| SymbolRow {
                frame,
                depth: r.u32(..3),
                function: text(r),
                file: maybe(r, text),
                line: maybe(r, edge32),
                inlined: r.bool(),
            })
            .collect(),
        stacks: ids
            .clone()
            .map(|stack| StackRow {
                stack,
                frames: list(r),
                end: text(r),
            })
            .collect(),
        sites: ids
            .clone()
            .map(|site| SiteRow {
                site,
                thread: edge32(r),
                reason: text(r),
                syscall: text(r),
                pc: edge(r),
                futex: maybe(r, edge32),
                operation: text(r),
                timed: r.bool(),
                shared: r.bool(),
            })
            .collect(),
        futexes: ids
            .clone()
            .map(|futex| FutexRow {
                futex,
                process: edge32(r),
                address: edge(r),
                module: text(r),
                build_id: text(r),
                stated: maybe(r, edge),
                symbol: text(r),
                offset: maybe(r, edge),
            })
            .collect(),
        locks: ids
            .clone()
            .map(|lock| LockRow {
                lock,
                process: edge32(r),
                address: edge(r),
                kind: text(r),
                mutex_type: text(r),
                acquired: edge(r),
                contended: maybe(r, edge),
                try_fails: edge(r),
                timeouts: edge(r),
                nested: edge(r),
                since_ns: edge(r),
                until_ns: edge(r),
            })
            .collect(),
        lock_blocks: ids
            .clone()
            .map(|block| LockBlockRow {
                block,
                process: edge32(r),
                lock: edge32(r),
                part: text(r).as_str().into(),
                ns_tid: edge32(r),
                start_ns: maybe(r, edge),
                end_ns: maybe(r, edge),
                end: text(r).as_str().into(),
                owner_ns_tid: edge32(r),
                frame: maybe(r, edge32),
                release_frame: maybe(r, edge32),
                blamed_ns: edge(r),
                unclaimed_ns: edge(r),
                queue: edge32(r),
            })
            .collect(),
        kernel_locks: ids
            .clone()
            .map(|_| KernelLockRow {
                process: edge32(r),
                address: edge(r),
                kind: text(r),
                access: text(r),
                stack: maybe(r, edge32),
                waits: edge(r),
                waited_ns: edge(r),
                max_ns: edge(r),
            })
            .collect(),
        memory_places: ids
            .clone()
            .map(|_| MemoryPlaceRow {
                process: edge32(r),
                syscall: text(r),
                pc: edge(r),
                minor_faults: edge(r),
                major_faults: edge(r),
                anonymous_faults: edge(r),
                copied_faults: edge(r),
                file_faults: edge(r),
                stack_faults: edge(r),
                huge_faults: edge(r),
                populated_faults: edge(r),
                other_faults: edge(r),
                calls: edge(r),
                call_ns: edge(r),
                allocated_pages: edge(r),
                freed_pages: edge(r),
                zeroed_pages: edge(r),
                zeroed_huge_pages: edge(r),
                shootdowns: edge(r),
                remote_flushes: edge(r),
                remote_ns: edge(r),
                mmap_waits: edge(r),
                mmap_wait_ns: edge(r),
                spins: edge(r),
                spin_ns: edge(r),
                zone_waits: edge(r),
                zone_wait_ns: edge(r),
                list_waits: edge(r),
                list_wait_ns: edge(r),
                peak_pages: edge(r),
                stacks: list(r),
            })
            .collect(),
        site_times: ids
            .clone()
            .map(|_| SiteTimeRow {
                site: edge32(r),
                time_ns: edge(r),
                blocked_ns: edge(r),
                runnable_ns: edge(r),
                count: edge(r),
                max_ns: edge(r),
            })
            .collect(),
        samples: ids
            .clone()
            .map(|_| SampleRow {
                time_ns: edge(r),
                thread: edge32(r),
                cpu: edge32(r),
                state: text(r),
                stack: edge32(r),
                site: maybe(r, edge32),
                weight_ns: edge(r),
            })
            .collect(),
        slices: ids
            .clone()
            .map(|_| SliceRow {
                thread: edge32(r),
                site: edge32(r),
                start_ns: edge(r),
                blocked_ns: edge(r),
                runnable_ns: edge(r),
                cpu: edge32(r),
                stack: maybe(r, edge32),
                waker_tid: maybe(r, edge32),
                waker_thread: maybe(r, edge32),
                waker_name: text(r),
                waker_stack: maybe(r, edge32),
                result: text(r),
            })
            .collect(),
        events: ids
            .map(|_| EventRow {
                time_ns: edge(r),
                thread: maybe(r, edge32),
                kind: text(r),
                detail: text(r),
            })
            .collect(),
    }
}

/// Appends every table.
pub fn append(writer: &mut Writer, tables: &Tables) -> Result<(), RecordingError> {
    writer.append(tables.frames.clone())?;
    writer.append(tables.symbols.clone())?;
    writer.append(tables.stacks.clone())?;
    writer.append(tables.processes.clone())?;
    writer.append(tables.threads.clone())?;
    writer.append(tables.mappings.clone())?;
    writer.append(tables.futexes.clone())?;
    writer.append(tables.locks.clone())?;
    writer.append(tables.lock_blocks.clone())?;
    writer.append(tables.kernel_locks.clone())?;
    writer.append(tables.memory_places.clone())?;
    writer.append(tables.sites.clone())?;
    writer.append(tables.site_times.clone())?;
    writer.append(tables.events.clone())?;
    writer.append(tables.samples.clone())?;
    writer.append(tables.slices.clone())
}
