//! Keeps the clock by which programs inside tell the time: the processor's counter, placed on CLOCK_MONOTONIC.
use dwell_agent::script::layout::{Clock, State};
use dwell_collector::clock_ns;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// Between two adjustments.
const PERIOD: Duration = Duration::from_millis(100);
/// Shortest time over which the counter's speed is measured.
const SHORTEST: u64 = 5_000_000;
/// Readings of which the quickest counts.
const READINGS: usize = 8;

/// An instant on both clocks.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    counter: u64,
    ns: u64,
}

/// Measures the counter and sets the clock.
pub(super) struct TimeKeeper {
    first: Anchor,
    adjusted: Instant,
}

fn counter() -> u64 {
    // SAFETY: reads a register that every x86-64 processor has.
    unsafe { core::arch::x86_64::_rdtsc() }
}

fn anchor() -> Anchor {
    let reading = || {
        let before = counter();
        let ns = clock_ns(libc::CLOCK_MONOTONIC);
        let after = counter();
        let counter = before + (after - before) / 2;
        (after - before, Anchor { counter, ns })
    };
    let readings = std::iter::repeat_with(reading).take(READINGS);
    let best = readings.min_by_key(|(width, _)| *width);
    best.expect("there are readings").1
}

impl TimeKeeper {
    pub(super) fn begin() -> Self {
        TimeKeeper {
            first: anchor(),
            adjusted: Instant::now(),
        }
    }

    /// Sets the clock, for the first time or anew.
    pub(super) fn set(&mut self, state: &State) {
        let mut now = anchor();
        while now.ns - self.first.ns < SHORTEST {
            std::thread::sleep(Duration::from_nanos(SHORTEST));
            now = anchor();
        }
        self.adjusted = Instant::now();
        let steps = u128::from(now.counter - self.first.counter);
        let speed = (u128::from(now.ns - self.first.ns) << 32) / steps;
        let current = state.time.current.load(Acquire);
        let [first, second] = &state.time.clocks;
        let (used, free) = if current == 0 {
            (first, second)
        } else {
            (second, first)
        };
        let (ns, speed) = joined(used, now, speed);
        free.counter.store(now.counter, Relaxed);
        free.ns.store(ns, Relaxed);
        free.ns_per_step.store(speed, Relaxed);
        let tai = clock_ns(libc::CLOCK_TAI).wrapping_sub(clock_ns(libc::CLOCK_MONOTONIC));
        free.tai.store(tai, Relaxed);
        state.time.current.store(1 - current, Release);
    }

    /// The same when it is time.
    pub(super) fn adjust(&mut self, state: &State) {
        if self.adjusted.elapsed() >= PERIOD {
            self.set(state);
        }
    }
}

/// Where and how fast a clock goes on so that it does not jump, and is right one second later.
fn joined(used: &Clock, now: Anchor, speed: u128) -> (u64, u64) {
    const SECOND: i128 = 1_000_000_000;
    let is_set = used.ns_per_step.load(Relaxed) != 0;
    let shown = used.at(now.counter);
    let error = i128::from(now.ns) - i128::from(shown);
    if !is_set || error.abs() > SECOND / 1000 {
        return (now.ns, speed as u64);
    }
    let speed = speed as i128;
    (shown, (speed + speed * error / SECOND) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It shows what the kernel's shows, and never steps back.
    #[test]
    fn the_clock_is_the_kernels() {
        let state = State::default();
        let mut keeper = TimeKeeper::begin();
        keeper.set(&state);
        let mut last = 0;
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(2));
            let before = clock_ns(libc::CLOCK_MONOTONIC);
            let current = &state.time.clocks[state.time.current.load(Acquire) as usize];
            let shown = current.at(counter());
            let after = clock_ns(libc::CLOCK_MONOTONIC);
            assert!(shown >= last, "{shown} after {last}");
            assert!(
                shown + 20_000 > before && shown < after + 20_000,
                "{before} {shown} {after}"
            );
            last = shown;
            keeper.set(&state);
        }
    }
}
