//! Keeps the clock by which programs inside tell the time: the processor's counter, placed on CLOCK_MONOTONIC.
use dwell_agent::script::layout::{Clock, State, counter};
use dwell_collector::clock_ns;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// Between two adjustments.
const PERIOD: Duration = Duration::from_millis(100);
/// Shortest time over which the counter's speed is measured.
const SHORTEST: u64 = 5_000_000;
/// Readings of which the quickest counts.
const READINGS: usize = 8;
/// Steps of the counter within which a clock begins and is in use: some 2 µs.
const SWIFT: u64 = 1 << 12;
/// How often that is tried.
const TRIES: usize = 10;
/// ns.
const SECOND: i128 = 1_000_000_000;

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
        let setting = state.time.settings.load(Acquire);
        let used = state.time.clock(setting);
        let free = state.time.clock(setting + 1);
        let tai = clock_ns(libc::CLOCK_TAI).wrapping_sub(clock_ns(libc::CLOCK_MONOTONIC));
        free.tai.store(tai, Relaxed);
        if setting == 0 {
            put(free, now.counter, now.ns, speed);
        } else {
            go_on(free, used, now, speed);
        }
        state.time.settings.store(setting + 1, Release);
    }

    /// The same when it is time.
    pub(super) fn adjust(&mut self, state: &State) {
        if self.adjusted.elapsed() >= PERIOD {
            self.set(state);
        }
    }
}

fn put(clock: &Clock, counter: u64, ns: u64, speed: u128) {
    clock.counter.store(counter, Relaxed);
    clock.ns.store(ns, Relaxed);
    clock.ns_per_step.store(speed as u64, Relaxed);
}

/// Has a clock go on where the used one is. Until it is in use others go on reading that: so it begins at the last
/// moment and, if it is the slower one, where both meet a moment later. Then nobody sees the time run backwards.
fn go_on(free: &Clock, used: &Clock, now: Anchor, measured: u128) {
    let error = i128::from(now.ns) - i128::from(used.at(now.counter));
    let (ahead, speed) = course(error, measured);
    let is_slower = speed < u128::from(used.ns_per_step.load(Relaxed));
    for _ in 0..TRIES {
        let begun = counter();
        let meets = begun + if is_slower { SWIFT } else { 0 };
        put(free, meets, used.at(meets) + ahead, speed);
        if counter() - begun < SWIFT {
            break;
        }
    }
}

/// How far a clock with an error jumps, ns, and how fast it goes on: so that it is right one second later. One that is
/// far behind is right at once; one that is far ahead goes on at half the speed, since time never runs backwards.
fn course(error: i128, measured: u128) -> (u64, u128) {
    if error > SECOND / 1000 {
        return (error as u64, measured);
    }
    let measured = measured as i128;
    let change = measured * error.max(-SECOND / 2) / SECOND;
    (0, (measured + change) as u128)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

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
            let (shown, _) = state.time.now();
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
    /// However wrong it is, and while it is set: it only goes faster, slower, or jumps ahead.
    #[test]
    fn time_never_runs_backwards() {
        let state = State::default();
        let mut keeper = TimeKeeper::begin();
        keeper.set(&state);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !over.load(Relaxed) {
                        let (shown, _) = state.time.now();
                        if shown < last {
                            over.store(true, Relaxed);
                            panic!("{shown} after {last}");
                        }
                        last = shown;
                    }
                });
            }
            let begun = keeper.first;
            let mut furthest = [0, 0];
            for round in 0..300 {
                std::thread::sleep(Duration::from_millis(1));
                // As if the counter were twice, half, and really as fast as it is.
                let passed = clock_ns(libc::CLOCK_MONOTONIC) - begun.ns;
                let now = state.time.now().0 as i64 - (begun.ns + passed) as i64;
                furthest = [furthest[0].min(now), furthest[1].max(now)];
                keeper.first.ns = match round % 20 {
                    0..3 => begun.ns - passed,
                    3..12 => begun.ns + passed / 2,
                    _ => begun.ns,
                };
                keeper.set(&state);
                if over.load(Relaxed) {
                    break;
                }
            }
            over.store(true, Relaxed);
            let [behind, ahead] = furthest;
            assert!(behind < -100_000 && ahead > 100_000, "{behind} to {ahead}");
        });
    }
}
