//! Times the analysis and every export on a large made-up recording: `speed [seconds] [threads]
//! [mean stay ns] [period ns]`.
use dwell_analysis::testing::{Scale, fixture};
use dwell_report::{Analysis, Answer, Options, folded, pprof, svg, terminal};
use std::time::Instant;

/// CPU time of this thread, ms: other programs on the machine do not count.
fn cpu_ms() -> f64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = schedstat
        .split(' ')
        .next()
        .and_then(|ns| ns.parse::<f64>().ok());
    ns.unwrap_or(0.0) / 1e6
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (start, cpu) = (Instant::now(), cpu_ms());
    let result = work();
    let wall = start.elapsed().as_secs_f64() * 1e3;
    println!(
        "{what:<10} {wall:>8.1} ms, {:>8.1} ms of CPU",
        cpu_ms() - cpu
    );
    result
}

fn main() -> std::io::Result<()> {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|n| n.parse::<u64>().expect("a number"));
    let seconds = numbers.next().unwrap_or(60);
    let threads = numbers.next().unwrap_or(200) as u32;
    let mean_stay_ns = numbers.next().unwrap_or(2_000_000);
    let period_ns = numbers.next().unwrap_or(10_000_000);
    let tables = fixture(Scale {
        seconds,
        threads,
        mean_stay_ns,
        period_ns,
    });
    println!(
        "{} samples, {} slices, {} stacks",
        tables.samples.len(),
        tables.slices.len(),
        tables.stacks.len()
    );
    let analysis = timed("analysis", || Analysis::of(&tables));
    println!("{} entries", analysis.profile.entries.len());
    let answer = timed("answer", || Answer::of(&analysis, &Options::default()));
    timed("terminal", || {
        terminal::render(&answer, &terminal::Style::default())
    });
    let mut out = Vec::new();
    timed("folded", || {
        folded::write(&analysis, &folded::Options::default(), &mut out)
    })?;
    println!("{} bytes", out.len());
    out.clear();
    timed("svg", || {
        svg::write(&analysis, &svg::Options::default(), &mut out)
    })?;
    println!("{} bytes", out.len());
    out.clear();
    timed("pprof", || pprof::write(&analysis, &mut out))?;
    println!("{} bytes", out.len());
    Ok(())
}
