//! Writes a small recording that looks real, for tests of queries and readers:
//! `cargo run -p dwell-recording --example make_sample_recording X.dwell`.
//!
//! Eight seconds of a server with workers, a logger, an idle pool and short helpers, simulated from
//! a fixed seed. Sums are kept at every switch as a recorder keeps them; stacks are taken about once
//! per period of thread time. It has what queries must get right: threads that slept throughout,
//! sites without a sample or with weights of 0 only, threads too short to be scaled on their own,
//! lost time, waits whose site is unknown, and rows of a key written again every second.
use dwell_recording::meta::{
    ClockAnchor, CountedProcess, HeldThreads, KernelThreadCost, Machine, MemoryCosts, RecorderCost,
};
use dwell_recording::{Meta, Overwrite, RecordingError, Writer};
use std::path::PathBuf;

#[path = "make_sample_recording/simulation.rs"]
mod simulation;
#[path = "make_sample_recording/world.rs"]
mod world;

use simulation::Simulation;

/// Start of the window, ns.
pub const START: u64 = 1_000_000_000_000;
/// One second, ns.
pub const SECOND: u64 = 1_000_000_000;
/// Length of the window, s.
const SECONDS: u64 = 8;
/// Mean distance of stacks, ns.
pub const PERIOD: u64 = 10_000_000;

fn main() -> Result<(), RecordingError> {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: make_sample_recording FOLDER");
        std::process::exit(2);
    };
    let mut writer = Writer::create_with(&path, meta(), Overwrite::Replace)?;
    writer.append(world::frames())?;
    writer.append(world::symbols())?;
    writer.append(world::stacks())?;
    writer.append(world::mappings())?;
    writer.append(world::futexes())?;
    let mut simulation = Simulation::new(7);
    for second in 1..=SECONDS {
        simulation.run_until(START + second * SECOND);
        let rows = simulation.take();
        writer.append(world::processes(START + second * SECOND))?;
        writer.append(world::locks(START + second * SECOND))?;
        writer.append(world::lock_blocks(START + (second - 1) * SECOND))?;
        writer.append(rows.threads)?;
        writer.append(rows.sites)?;
        writer.append(rows.site_times)?;
        writer.append(rows.samples)?;
        writer.append(rows.slices)?;
        writer.append(rows.events)?;
        writer.meta_mut().end_ns = START + second * SECOND;
        writer.close_segment()?;
    }
    writer.append(world::kernel_locks())?;
    writer.append(world::memory_places())?;
    let produced = simulation.waits;
    let meta = writer.meta_mut();
    meta.produced = [
        ("stacks".to_string(), 2000),
        ("waits".to_string(), produced),
    ]
    .into();
    meta.losses = [("stacks".to_string(), 3)].into();
    meta.recorder = RecorderCost {
        cpu_ns: 40_000_000,
        peak_rss_bytes: 20 << 20,
        bpf_ns: Some(9_000_000),
        copied_stacks: 2,
        waits_passed_over: 0,
    };
    meta.counted = vec![counted()];
    meta.memory = Some(MemoryCosts {
        clear_cached_ns: 60.0,
        clear_uncached_ns: 300.0,
        machine_allocated_pages: 2000,
        kernel_allocated_pages: 0,
        machine_freed_pages: 1900,
        kernel_threads: vec![KernelThreadCost {
            name: "kswapd0".into(),
            cpu_ns: 4_000_000,
        }],
    });
    meta.exit_code = Some(0);
    writer.finish()
}

/// How the server's locks were counted.
fn counted() -> CountedProcess {
    let held = |longest_ns| HeldThreads {
        longest_ns,
        times: 1,
        threads: 6,
    };
    CountedProcess {
        process: 1,
        pid: 4000,
        libc: "glibc".into(),
        attach: held(300_000),
        detach: Some(held(250_000)),
        forgotten: 0,
        events: 300,
        lost_events: 4,
        released_free: 1,
        missed: Vec::new(),
    }
}

fn meta() -> Meta {
    Meta {
        tool: "make_sample_recording 1".into(),
        machine: Machine {
            host: "sample".into(),
            kernel: "6.18.0".into(),
            arch: "x86_64".into(),
            cpus: 2,
        },
        clock: ClockAnchor {
            boottime_ns: START,
            realtime_ns: 1_790_000_000 * SECOND,
        },
        target: "server".into(),
        command_line: ["dwell", "record", "--", "server"]
            .map(String::from)
            .to_vec(),
        period_ns: PERIOD,
        start_ns: START,
        end_ns: START,
        ..Meta::default()
    }
}
