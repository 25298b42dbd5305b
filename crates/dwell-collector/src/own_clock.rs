//! A timer of our own on every processor, which locks to nothing.
//!
//! Slices of the scheduler begin and end with its tick, programs have timers: at a fixed distance a
//! timer that lies just inside such a stretch of time lies there every time, and gives it up to a stack
//! too many. So each timer changes its period often, at random.
use crate::error::CollectError;
use crate::perf;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A changed timer starts anew: the time since it last fired is lost, half a period on average. That is
/// made up for, and a period is kept for at least this many firings to keep it small.
const FIRINGS_MIN: u32 = 20;
const CHANGE_EVERY: Duration = Duration::from_millis(90);
/// Half the width of the range of frequencies.
const SPREAD: f64 = 0.1;

/// The timers, one per processor. Dropping it stops them.
pub struct OwnClock {
    events: Vec<OwnedFd>,
    period_ns: u64,
    changed: Instant,
}

impl OwnClock {
    /// Starts a timer on every processor with this mean period.
    pub fn open(period_ns: u64) -> Result<OwnClock, CollectError> {
        let open = |cpu| perf::open_clock(cpu, period_ns);
        Ok(OwnClock {
            events: crate::machine::online_cpus()
                .into_iter()
                .map(open)
                .collect::<Result<_, _>>()?,
            period_ns,
            changed: Instant::now(),
        })
    }

    /// The perf events.
    pub fn events(&self) -> &[OwnedFd] {
        &self.events
    }

    /// Gives every timer another period, when the time has come.
    pub fn change(&mut self) -> Result<(), CollectError> {
        let kept = self.changed.elapsed();
        let shortest = Duration::from_nanos(self.period_ns) * FIRINGS_MIN;
        if kept < shortest.max(CHANGE_EVERY) {
            return Ok(());
        }
        self.changed = Instant::now();
        for event in &self.events {
            perf::set_period(event, changed_period(self.period_ns, kept, random()))?;
        }
        Ok(())
    }
}

/// Another period, for a `random` in [0, 1), when each lasts as long as `kept`: on average there is a
/// firing per `period_ns`.
fn changed_period(period_ns: u64, kept: Duration, random: f64) -> u64 {
    let period = period_ns as f64;
    let lost = period / (2.0 * kept.as_nanos() as f64);
    let frequency = 1.0 - SPREAD + 2.0 * SPREAD * random + lost;
    (period / frequency) as u64
}

/// Uniform in [0, 1): the clock's last digits, well mixed.
fn random() -> f64 {
    let mixed = crate::machine::boottime_ns().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firings_come_once_per_period_on_average() {
        let (period_ns, kept) = (10_000_000, Duration::from_millis(250));
        let mut firings = 0.0;
        for i in 0..1000 {
            let period = changed_period(period_ns, kept, f64::from(i) / 1000.0);
            assert!(period.abs_diff(period_ns) < period_ns / 7, "{period}");
            // Whole periods only; the part that is cut off is uniform.
            firings += kept.as_nanos() as f64 / period as f64 - 0.5;
        }
        let wanted = 1000.0 * kept.as_nanos() as f64 / period_ns as f64;
        assert!((firings / wanted - 1.0).abs() < 0.001, "{firings} {wanted}");
    }
}
