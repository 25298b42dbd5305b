//! Measures what locks and the scheduler cost, with real threads on real locks.
use super::calibration::processors;
use super::locks::{Shared, turns};
use dwell_whatif::{Costs, Kind, Machine};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Work between two measurements of one thing, turns.
const HOLD: u32 = 400;
/// Work outside of the lock: longer than a hand-over, shorter than the hold.
const THINK: u32 = 250;
/// Waiters with which hand-overs to many are measured, where there are as many processors.
const MANY: usize = 7;
/// How long each lock is measured.
const SPAN: Duration = Duration::from_millis(40);

/// Measures everything: about a second.
pub fn all() -> Machine {
    let processors = processors();
    let turn_ns = turn_ns();
    let crowded = (turn_ns_of_all(processors) / turn_ns).clamp(1.0, 3.0);
    let line_ns = if processors > 1 { line_ns() } else { 0.0 };
    let (wake_ns, wake_latency_ns, sleep_ns) = waking();
    let costs = Kind::ALL.map(|kind| costs(kind, processors, turn_ns * crowded, line_ns));
    let enter_ns = enter_ns();
    let (slice_ns, switch_ns) = sharing();
    Machine {
        processors,
        crowded,
        slice_ns,
        switch_ns,
        wake_latency_ns,
        wake_ns,
        enter_ns,
        // A sleep begins with entering the kernel.
        sleep_ns: (sleep_ns - enter_ns).max(0.0),
        spin_ns: spin_ns(),
        costs,
    }
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

fn costs(kind: Kind, processors: usize, turn_ns: f64, line_ns: f64) -> Costs {
    let pairs = |threads| pair_ns(kind, threads, 0, 0);
    let alone_ns = pairs(1);
    let moved_ns = alone_ns + line_ns;
    if processors < 2 {
        return Costs {
            alone_ns,
            moved_ns,
            handoff_ns: alone_ns,
            per_waiter_ns: 0.0,
        };
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
    Costs {
        alone_ns,
        moved_ns,
        handoff_ns,
        per_waiter_ns,
    }
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

/// How long the kernel takes to find that a lock is free again, and to come back, ns.
fn enter_ns() -> f64 {
    const CALLS: u32 = 200;
    let word = AtomicU32::new(0);
    let once = || {
        let start = Instant::now();
        (0..CALLS).for_each(|_| super::locks::futex_wait(&word, 1));
        start.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    median((0..20).map(|_| once()).collect())
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
