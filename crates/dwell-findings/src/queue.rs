//! A lock as a closed queue: so many threads think, wait for the lock, hold it, and think again.
//!
//! With think time w and hold h of N threads, throughput is at most min(N/(w+h), 1/h): the bound that is met when both
//! never vary. When both vary as much as exponential ones do, mean value analysis is exact. Programs lie between, so
//! every prediction is made with both and given as a range.
//!
//! Times are in units of the hold: acquiring counts as a part of it.

/// How long threads think and what that says of everything else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// Threads.
    pub threads: u64,
    /// Think time, in holds.
    pub think: f64,
    /// Whether times vary (mean value analysis), or not (the bound).
    pub varies: bool,
}

impl Model {
    /// Both models of so many threads that spend this part of their time waiting for the lock.
    pub fn of(threads: u64, waiting: f64) -> [Model; 2] {
        let threads = threads.max(1);
        // Not waiting is thinking and holding; a lock that is never free has one hold after the other.
        let steady = Model {
            threads,
            think: (threads as f64 * (1.0 - waiting) - 1.0).max(0.0),
            varies: false,
        };
        let varying = Model {
            threads,
            think: think_that_waits(threads, waiting),
            varies: true,
        };
        [steady, varying]
    }

    /// Holds in the time of one that begin.
    pub fn throughput(&self) -> f64 {
        match self.varies {
            true => mean_values(self.threads, self.think, 1.0),
            false => bound(self.threads, self.think, 1.0),
        }
    }

    /// What the same work takes less, if so many units of work are taken in each hold instead of one.
    pub fn saved_by_batches(&self, batch: f64) -> f64 {
        let then = batch * self.after(batch * self.think, 1.0);
        saved(self.throughput(), then)
    }

    /// What the same work takes less, if acquiring and holding cost nothing any more: only the work outside is left.
    pub fn saved_at_most(&self) -> f64 {
        let outside = self.think * self.throughput() / self.threads as f64;
        (1.0 - outside).clamp(0.0, 1.0)
    }

    /// What the same work takes less, if a part of each hold is done outside of it.
    pub fn saved_by_moving(&self, part: f64) -> f64 {
        let then = self.after(self.think + part, 1.0 - part);
        saved(self.throughput(), then)
    }

    /// The same, if there were so many locks that are wanted equally often, as if each had its part of the threads; but
    /// throughput grows `at_most` so many times.
    pub fn saved_by_shards(&self, shards: f64, at_most: f64) -> f64 {
        let threads = ((self.threads as f64 / shards).ceil() as u64).max(1);
        let of_one = match self.varies {
            true => mean_values(threads, self.think, 1.0),
            false => bound(threads, self.think, 1.0),
        };
        let now = self.throughput();
        let all = of_one * (self.threads as f64 / threads as f64);
        saved(now, all.min(now * at_most.max(1.0)))
    }

    fn after(&self, think: f64, hold: f64) -> f64 {
        match self.varies {
            true => mean_values(self.threads, think, hold),
            false => bound(self.threads, think, hold),
        }
    }
}

/// What the same work takes less when throughput rises.
fn saved(now: f64, then: f64) -> f64 {
    (1.0 - now / then).clamp(0.0, 1.0)
}

/// The smallest batch with which threads no longer wait, if nothing varies: N = 1 + b·w/h; none where there is next to
/// no work outside the lock.
pub fn batch_that_ends_it(threads: u64, waiting: f64) -> Option<u64> {
    const LEAST_WORK: f64 = 0.02;
    let [steady, _] = Model::of(threads, waiting);
    if steady.think < LEAST_WORK {
        return None;
    }
    // A hair less, so that rounding errors do not make six of five.
    let batch = (steady.threads as f64 - 1.0) / steady.think - 1e-6;
    Some(batch.ceil().max(2.0) as u64)
}

/// The same, with which the lock is free half of the time, so that threads hardly meet at it even if times vary:
/// 2N = 1 + b·w/h.
pub fn batch_that_leaves_room(threads: u64, waiting: f64) -> Option<u64> {
    batch_that_ends_it(threads, waiting)?;
    let [steady, _] = Model::of(threads, waiting);
    let batch = (2.0 * steady.threads as f64 - 1.0) / steady.think - 1e-6;
    Some(batch.ceil().max(2.0) as u64)
}

fn bound(threads: u64, think: f64, hold: f64) -> f64 {
    let cycle = (think + hold).max(f64::MIN_POSITIVE);
    let free = threads as f64 / cycle;
    if hold > 0.0 {
        free.min(1.0 / hold)
    } else {
        free
    }
}

/// Exact mean value analysis of one queue and a think time.
fn mean_values(threads: u64, think: f64, hold: f64) -> f64 {
    let (mut queued, mut throughput) = (0.0, 0.0);
    for thread in 1..=threads {
        let stay = hold * (1.0 + queued);
        throughput = thread as f64 / (think + stay).max(f64::MIN_POSITIVE);
        queued = throughput * stay;
    }
    throughput
}

/// The part of their time that threads wait.
fn waiting_part(threads: u64, think: f64) -> f64 {
    let cycle = threads as f64 / mean_values(threads, think, 1.0);
    1.0 - (think + 1.0) / cycle
}

/// Think time with which threads wait this part of their time: found by halving, since more thinking means less waiting.
fn think_that_waits(threads: u64, waiting: f64) -> f64 {
    const LONGEST: f64 = 1e6;
    let (mut short, mut long) = (0.0, LONGEST);
    for _ in 0..60 {
        let middle = f64::midpoint(short, long);
        if waiting_part(threads, middle) > waiting {
            short = middle;
        } else {
            long = middle;
        }
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bruce Dawson's trace: 39 threads, 52.0 of 60.3 s spinning, one page per acquisition.
    #[test]
    fn the_published_convoy_has_five_useful_threads_and_ends_at_nine_pages() {
        let waiting = 52.0 / 60.3;
        let [steady, varying] = Model::of(39, waiting);
        let useful = steady.think + 1.0;
        assert!((5.3..5.5).contains(&useful), "{useful}");
        assert_eq!(batch_that_ends_it(39, waiting), Some(9));
        let [least, most] = [varying, steady].map(|m| m.saved_by_batches(9.0));
        assert!(least < most && least > 0.8 && most < 0.9, "{least} {most}");
    }

    #[test]
    fn a_model_of_a_wait_waits_as_much() {
        for (threads, waiting) in [(2, 0.2), (2, 0.45), (8, 0.5), (39, 0.862)] {
            let [steady, varying] = Model::of(threads, waiting);
            let part = |m: &Model| 1.0 - (m.think + 1.0) * m.throughput() / threads as f64;
            assert!((part(&steady) - waiting).abs() < 1e-6, "{steady:?}");
            assert!((part(&varying) - waiting).abs() < 1e-6, "{varying:?}");
        }
    }

    #[test]
    fn nothing_is_saved_where_nobody_waits() {
        for model in Model::of(4, 0.0) {
            assert!(model.saved_by_batches(8.0) <= 0.25, "{model:?}");
            assert!(model.saved_by_moving(0.5) < 0.05, "{model:?}");
        }
        assert_eq!(batch_that_ends_it(1, 0.0), None);
    }

    #[test]
    fn batches_never_make_it_worse_and_moving_all_is_no_lock() {
        for model in Model::of(8, 0.6) {
            let mut before = 0.0;
            for batch in 1..50 {
                let saved = model.saved_by_batches(f64::from(batch));
                assert!(saved >= before - 1e-9, "{model:?} {batch}");
                before = saved;
            }
            let free = 1.0 - model.throughput() / (8.0 / (model.think + 1.0));
            assert!(
                (model.saved_by_moving(1.0) - free).abs() < 1e-6,
                "{model:?}"
            );
        }
    }
}
