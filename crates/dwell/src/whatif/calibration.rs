//! What locks and the scheduler cost on this machine, measured with real threads on real locks: once, and
//! kept for the next time.
use super::locks::{Mutex, Shared, turns};
use anyhow::Context;
use dwell_whatif::{Costs, Kind, Machine};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Changes with what is measured: older results are measured anew.
const VERSION: u32 = 1;
/// Work between two measurements of one thing, turns.
const HOLD: u32 = 400;
/// Work outside of the lock: longer than a hand-over, shorter than the hold.
const THINK: u32 = 250;
/// Waiters with which hand-overs to many are measured, where there are as many processors.
const MANY: usize = 7;
/// How long each lock is measured.
const SPAN: Duration = Duration::from_millis(40);

/// What was measured, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Calibration {
    version: u32,
    machine: String,
    /// Work on all processors takes this much longer than on one.
    pub crowded: f64,
    /// See [`Machine`].
    pub slice_ns: f64,
    pub switch_ns: f64,
    pub wake_latency_ns: f64,
    pub wake_ns: f64,
    pub sleep_ns: f64,
    pub spin_ns: f64,
    /// By kind: alone, moved, hand-over, per further waiter, ns.
    pub costs: Vec<[f64; 4]>,
}

impl Calibration {
    /// This machine's: read, or else measured and kept.
    pub fn of_here() -> Calibration {
        let file = file();
        let kept = file.as_ref().and_then(|f| std::fs::read(f).ok());
        let kept = kept.and_then(|bytes| serde_json::from_slice::<Calibration>(&bytes).ok());
        if let Some(kept) = kept.filter(|k| k.version == VERSION && k.machine == identity()) {
            return kept;
        }
        let measured = Calibration::measure();
        // A machine where nothing can be kept measures each time.
        if let Some(file) = file {
            let folder = file.parent().map(std::fs::create_dir_all);
            if folder.is_some_and(|made| made.is_ok())
                && let Ok(text) = serde_json::to_vec_pretty(&measured)
            {
                let _ = std::fs::write(file, text);
            }
        }
        measured
    }

    /// Measures: about a second.
    pub fn measure() -> Calibration {
        let processors = processors();
        let turn_ns = turn_ns();
        let crowded = (turn_ns_of_all(processors) / turn_ns).clamp(1.0, 3.0);
        let line_ns = if processors > 1 { line_ns() } else { 0.0 };
        let (wake_ns, wake_latency_ns, sleep_ns) = waking();
        let costs = Kind::ALL.map(|kind| costs(kind, processors, turn_ns * crowded, line_ns));
        let (slice_ns, switch_ns) = sharing();
        Calibration {
            version: VERSION,
            machine: identity(),
            crowded,
            slice_ns,
            switch_ns,
            wake_latency_ns,
            wake_ns,
            sleep_ns,
            spin_ns: spin_ns(),
            costs: costs.to_vec(),
        }
    }

    /// As a simulation takes it.
    pub fn machine(&self, processors: usize) -> Machine {
        let of = |kind: Kind| {
            let [alone_ns, moved_ns, handoff_ns, per_waiter_ns] =
                self.costs.get(kind as usize).copied().unwrap_or_default();
            Costs {
                alone_ns,
                moved_ns,
                handoff_ns,
                per_waiter_ns,
            }
        };
        Machine {
            processors,
            crowded: self.crowded,
            slice_ns: self.slice_ns,
            switch_ns: self.switch_ns,
            wake_latency_ns: self.wake_latency_ns,
            wake_ns: self.wake_ns,
            sleep_ns: self.sleep_ns,
            spin_ns: self.spin_ns,
            costs: Kind::ALL.map(of),
        }
    }
}

/// Where it is kept.
fn file() -> Option<PathBuf> {
    let set = |name: &str| {
        let value = std::env::var_os(name).filter(|v| !v.is_empty());
        value.map(PathBuf::from)
    };
    let cache = set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| Some(set("HOME")?.join(".cache")))?;
    Some(cache.join("dwell/calibration.json"))
}

/// What tells this machine from others: its processors and its kernel.
fn identity() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let processor = read("/proc/cpuinfo");
    let model = processor.lines().find(|l| l.starts_with("model name"));
    let kernel = read("/proc/sys/kernel/osrelease");
    format!(
        "{} x {}, Linux {}",
        processors(),
        model
            .and_then(|l| l.split(": ").nth(1))
            .unwrap_or("unknown"),
        kernel.trim()
    )
}

/// Processors that this process may use.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// One turn of work, ns: the least of several.
fn turn_ns() -> f64 {
    const TURNS: u32 = 200_000;
    let once = || {
        let start = Instant::now();
        turns(TURNS);
        start.elapsed().as_nanos() as f64 / f64::from(TURNS)
    };
    (0..20).map(|_| once()).fold(f64::MAX, f64::min)
}

fn turn_ns_of_all(processors: usize) -> f64 {
    let ready = Arc::new(Barrier::new(processors));
    let threads: Vec<_> = (0..processors)
        .map(|_| {
            let ready = Arc::clone(&ready);
            std::thread::spawn(move || {
                ready.wait();
                turn_ns()
            })
        })
        .collect();
    let all: Vec<f64> = threads.into_iter().filter_map(|t| t.join().ok()).collect();
    all.iter().sum::<f64>() / all.len().max(1) as f64
}

/// A line of memory from one processor to another, ns: half of there and back.
fn line_ns() -> f64 {
    const ROUNDS: u32 = 20_000;
    let word = Arc::new(AtomicU32::new(0));
    let there = Arc::clone(&word);
    let other = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            while there.load(Ordering::Acquire) != 2 * round + 1 {
                std::hint::spin_loop();
            }
            there.store(2 * round + 2, Ordering::Release);
        }
    });
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let start = Instant::now();
        word.store(2 * round + 1, Ordering::Release);
        while word.load(Ordering::Acquire) != 2 * round + 2 {
            std::hint::spin_loop();
        }
        rounds.push(start.elapsed().as_nanos() as f64);
    }
    let _ = other.join();
    (median(rounds) / 2.0).max(1.0)
}

/// Alone, moved, hand-over and per further waiter of a kind, ns.
fn costs(kind: Kind, processors: usize, turn_ns: f64, line_ns: f64) -> [f64; 4] {
    let pairs = |threads| pair_ns(kind, threads, 0, 0);
    let alone_ns = pairs(1);
    let moved_ns = alone_ns + line_ns;
    if processors < 2 {
        return [alone_ns, moved_ns, alone_ns, 0.0];
    }
    // With always somebody waiting, a turn of the lock is a hold and a hand-over.
    let handoff = |threads| {
        let turn = pair_ns(kind, threads, HOLD, THINK);
        (turn - f64::from(HOLD) * turn_ns).clamp(line_ns / 2.0, 50.0 * line_ns)
    };
    // Of a mutex a waiter sleeps: what that costs is measured elsewhere.
    let handoff_ns = match kind {
        Kind::Futex => line_ns,
        _ => handoff(2),
    };
    let many = (processors - 1).min(MANY);
    let per_waiter_ns = match kind {
        Kind::Futex | Kind::Mcs => 0.0,
        _ if many < 2 => line_ns / if kind == Kind::Tas { 2.0 } else { 4.0 },
        _ => ((handoff(many + 1) - handoff_ns) / (many - 1) as f64).max(0.0),
    };
    [alone_ns, moved_ns, handoff_ns, per_waiter_ns]
}

/// Time per acquisition of one lock by so many threads, ns: the least of several parts of the span, since
/// whatever else runs makes it longer.
fn pair_ns(kind: Kind, threads: usize, hold: u32, think: u32) -> f64 {
    const PARTS: u32 = 4;
    let lock = Arc::new(Shared::new(kind, threads));
    let stop = Arc::new(AtomicBool::new(false));
    let counts: Arc<Vec<AtomicU64>> = Arc::new((0..threads).map(|_| AtomicU64::new(0)).collect());
    let workers: Vec<_> = (0..threads)
        .map(|own| {
            let (lock, stop, counts) = (Arc::clone(&lock), Arc::clone(&stop), Arc::clone(&counts));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    lock.with(own, || turns(hold));
                    counts[own].fetch_add(1, Ordering::Relaxed);
                    turns(think);
                }
            })
        })
        .collect();
    let sum = || {
        counts
            .iter()
            .map(|c| c.load(Ordering::Relaxed))
            .sum::<u64>()
    };
    let mut least = f64::MAX;
    for _ in 0..PARTS {
        let (start, before) = (Instant::now(), sum());
        std::thread::sleep(SPAN / PARTS);
        let done = (sum() - before).max(1) as f64;
        least = least.min(start.elapsed().as_nanos() as f64 / done);
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        let _ = worker.join();
    }
    least
}

/// What a wake-up costs who does it, how long it takes, and what sleeping costs on the processor, ns.
fn waking() -> (f64, f64, f64) {
    const ROUNDS: u32 = 1_000;
    let start = Instant::now();
    let now = move || start.elapsed().as_nanos() as u64;
    let word = Arc::new(AtomicU32::new(0));
    let woken = Arc::new(AtomicU64::new(0));
    let (theirs, stamp) = (Arc::clone(&word), Arc::clone(&woken));
    let sleeper = std::thread::spawn(move || {
        let begin = super::locks::thread_cpu_ns();
        for round in 0..ROUNDS {
            while theirs.load(Ordering::Acquire) == round {
                super::locks::futex_wait(&theirs, round);
            }
            stamp.store(now(), Ordering::Release);
        }
        (super::locks::thread_cpu_ns() - begin) as f64 / f64::from(ROUNDS)
    });
    let (mut calls, mut latencies) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Time for it to fall asleep.
        let until = now() + 25_000;
        while now() < until {
            std::hint::spin_loop();
        }
        woken.store(0, Ordering::Relaxed);
        let before = now();
        word.store(round + 1, Ordering::Release);
        super::locks::futex_wake(&word);
        calls.push((now() - before) as f64);
        let seen = loop {
            match woken.load(Ordering::Acquire) {
                0 => std::hint::spin_loop(),
                at => break at,
            }
            if now() > before + 5_000_000 {
                break now();
            }
        };
        latencies.push(seen.saturating_sub(before) as f64);
    }
    let sleep_ns = sleeper.join().unwrap_or(2_000.0);
    (median(calls), median(latencies), sleep_ns / 2.0)
}

/// How long a thread stays while another wants its processor, and what a change of threads costs, ns.
fn sharing() -> (f64, f64) {
    let stays = super::locks::on_one_processor(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&stop);
        let rival = std::thread::spawn(move || {
            while !other.load(Ordering::Relaxed) {
                turns(1_000);
            }
        });
        let mut stays = Vec::new();
        let (begin, mut last) = (Instant::now(), Instant::now());
        let mut came = last;
        while begin.elapsed() < Duration::from_millis(300) {
            turns(200);
            let now = Instant::now();
            if now - last > Duration::from_micros(500) {
                stays.push((last - came).as_nanos() as f64);
                came = now;
            }
            last = now;
        }
        stop.store(true, Ordering::Relaxed);
        let _ = rival.join();
        stays
    });
    let stays: Vec<f64> = stays.into_iter().skip(1).collect();
    let slice_ns = if stays.len() < 5 { 3e6 } else { median(stays) };
    let switch_ns = super::locks::on_one_processor(|| {
        const YIELDS: u32 = 2_000;
        let other = std::thread::spawn(|| (0..YIELDS).for_each(|_| std::thread::yield_now()));
        let start = Instant::now();
        (0..YIELDS).for_each(|_| std::thread::yield_now());
        let each = start.elapsed().as_nanos() as f64 / f64::from(2 * YIELDS);
        let _ = other.join();
        each
    });
    (slice_ns.clamp(5e5, 2e7), switch_ns.clamp(100.0, 2e4))
}

/// How long an adaptive mutex spins before its waiter sleeps, ns: by glibc's default 100 turns with a pause.
fn spin_ns() -> f64 {
    const TURNS: u32 = 100;
    let word = AtomicU32::new(1);
    let once = || {
        let start = Instant::now();
        for _ in 0..TURNS {
            std::hint::spin_loop();
            if word.load(Ordering::Relaxed) == 0 {
                break;
            }
        }
        start.elapsed().as_nanos() as f64
    };
    median((0..100).map(|_| once()).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Tells that the calibration is short and what it is for.
pub fn told(progress: impl Fn(&str)) -> anyhow::Result<Calibration> {
    if file().is_none_or(|f| !f.exists()) {
        progress("measuring what locks cost here (a second, once)");
    }
    let calibration = Calibration::of_here();
    let sane = calibration.costs.len() == Kind::ALL.len();
    sane.then_some(calibration).context(
        "the calibration kept in the cache is damaged: remove dwell/calibration.json there",
    )
}

/// A mutex of libc as the lock of a kind, see [`Shared`].
pub(super) fn mutex(kind: Kind) -> Option<Mutex> {
    match kind {
        Kind::Futex => Some(Mutex::new(false)),
        Kind::Adaptive => Some(Mutex::new(true)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds that any machine meets, and in which a wrong unit would not lie.
    #[test]
    fn what_is_measured_is_plausible_and_can_be_kept() {
        let found = Calibration::measure();
        for (kind, [alone, moved, handoff, _]) in Kind::ALL.iter().zip(&found.costs) {
            assert!((1.0..5_000.0).contains(alone), "{kind:?} {alone}");
            assert!(
                moved >= alone && (1.0..50_000.0).contains(handoff),
                "{kind:?} {handoff}"
            );
        }
        assert!((100.0..1e6).contains(&found.wake_ns), "{found:?}");
        assert!((5e5..=2e7).contains(&found.slice_ns), "{found:?}");
        let again: Calibration =
            serde_json::from_str(&serde_json::to_string(&found).expect("JSON")).expect("JSON");
        // Text keeps all but the last bit.
        for (kept, found) in again
            .costs
            .iter()
            .flatten()
            .zip(found.costs.iter().flatten())
        {
            assert!(
                (kept - found).abs() <= found.abs() * 1e-12,
                "{kept} {found}"
            );
        }
        assert_eq!(again.machine(2).processors, 2);
    }
}
