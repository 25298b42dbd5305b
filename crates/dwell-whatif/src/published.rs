//! Published figures of machines larger than most, beside what the simulation makes of them.
use crate::interval::Interval;
use crate::machine::{Kind, Machine};
use crate::model::{Change, Model, SpinShares};
use crate::predict::{Effort, Prediction, predict};

/// Threads of the published case, and the processors of its machine.
pub const THREADS: usize = 39;
const PROCESSORS: usize = 96;

/// The published case: 39 threads zero pages that were given back, each taking one 4 KiB page per acquisition of one
/// spin lock. Of 60.3 s on processors 52.0 s were spent spinning, while about 8.6 GB were zeroed (B. Dawson, "Slower
/// memory zeroing through parallelism", 2022).
pub fn zeroing() -> SpinShares {
    SpinShares {
        threads: THREADS,
        elapsed_ns: 60.3e9 / THREADS as f64,
        running_ns: 60.3e9,
        spinning_ns: 52.0e9,
        units: 8.6e9 / 4096.0,
        kind: Kind::Ttas,
    }
}

/// Which figure of a prediction was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Of the time on processors: spinning.
    Spinning,
    /// Time on processors per page, over that of the published case.
    CpuRatio,
}

/// A simulated machine, and what is known of such a one.
#[derive(Clone, Debug)]
pub struct Case {
    /// Number of processors.
    pub processors: usize,
    /// What is done there.
    pub what: String,
    /// Which figure it is about.
    pub figure: Figure,
    /// Simulated.
    pub predicted: Interval,
    /// Published; none where no figure of this program on such a machine is known.
    pub published: Option<f64>,
    /// Where it is from, or what is known instead.
    pub source: &'static str,
}

/// The same with the work that a page takes where one thread does it alone: about 150 times the 0.038 GB per CPU second of the
/// worst trace. What the profile shows beside spinning is five times as long, since lines of memory that move between
/// processors with the lock look like work there.
fn zeroing_without_moved_lines() -> SpinShares {
    let shares = zeroing();
    SpinShares {
        spinning_ns: shares.running_ns * (1.0 - ALONE),
        ..shares
    }
}

/// CPU time of one thread for the same pages, over that of 39.
const ALONE: f64 = 8.6 / 60.3 / (150.0 * 0.038);

/// The published case on its own machine, changed as its author proposes, and on larger ones with as many threads in
/// proportion. Only the first row's figure was told to the simulation.
pub fn cases(effort: Effort) -> Vec<Case> {
    let of_shares = |shares: &SpinShares, change: Change, what: &str, figure, published, source| {
        let processors = change.processors.unwrap_or(PROCESSORS);
        let model = Model::of_spin_shares(shares, Machine::server(PROCESSORS));
        Case {
            processors,
            what: what.to_owned(),
            figure,
            predicted: figure_of(&predict(&model, &change, effort), figure),
            published,
            source,
        }
    };
    let of = |change: Change, what: &str, figure, published, source| {
        of_shares(&zeroing(), change, what, figure, published, source)
    };
    let threads = |threads| Change {
        threads: Some(threads),
        ..Change::default()
    };
    let queued = || Change {
        kind: Some(Kind::Mcs),
        ..threads(12)
    };
    let larger = |processors, source| {
        let count = THREADS * processors / PROCESSORS;
        let change = Change {
            processors: Some(processors),
            ..threads(count)
        };
        let what = format!("{count} threads, a page at a time");
        of(change, &what, Figure::Spinning, None, source)
    };
    vec![
        of(
            Change::default(),
            "39 threads, a page at a time",
            Figure::Spinning,
            Some(52.0 / 60.3),
            "Dawson 2022: 52.0 of 60.3 s; what the model is made of",
        ),
        of(
            queued(),
            "12 threads, a queued lock",
            Figure::Spinning,
            Some(0.8),
            "Dawson 2022, of Windows 11: about 80 % waiting",
        ),
        of_shares(
            &zeroing_without_moved_lines(),
            queued(),
            "the same, work as of 1 thread",
            Figure::Spinning,
            Some(0.8),
            "as above; lines of memory that move with the lock are not taken for work",
        ),
        of(
            threads(1),
            "1 thread",
            Figure::CpuRatio,
            Some(ALONE),
            "Dawson 2022: one thread did about 150 times 0.038 GB per CPU second",
        ),
        larger(
            128,
            "none of this program; of another one with 128 threads: 33.5 % in the kernel's queued lock (jemalloc #1978)",
        ),
        larger(272, "none known"),
    ]
}

fn figure_of(prediction: &Prediction, figure: Figure) -> Interval {
    match figure {
        Figure::Spinning => prediction.spinning_share,
        Figure::CpuRatio => prediction.cpu_ratio,
    }
}
