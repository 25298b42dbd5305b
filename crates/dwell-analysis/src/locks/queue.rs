//! How many waited for a lock at a time, and for how long each.
use crate::waits::Wait;
use dwell_recording::tables::Tables;

/// What the waits that were kept one by one tell of a lock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Queue {
    /// Waits that were kept.
    pub kept: u64,
    /// Median wait, ns; short waits count as often as they were. 0 without kept waits.
    pub p50_ns: u64,
    /// The wait that nine in ten do not exceed, ns.
    pub p90_ns: u64,
    /// The wait that 99 in 100 do not exceed, ns.
    pub p99_ns: u64,
    /// Most threads known to wait at the same time.
    pub longest: u32,
    /// Threads that waited on average, while any did; of kept waits, so at least.
    pub mean: f64,
    /// The part of the kept waiting that was ended by a thread which had itself waited for the lock
    /// just before: the lock goes from hand to hand.
    pub handed_on: f64,
}

/// From this many waiting threads on average a lock that goes from hand to hand is a convoy.
const CONVOY: f64 = 2.0;

impl Queue {
    /// True when threads queue for the lock all the time and hand it on.
    pub fn is_convoy(&self) -> bool {
        self.mean >= CONVOY && self.handed_on >= 0.5
    }

    /// From the kept waits of one lock.
    pub fn of(tables: &Tables, kept: &[Wait]) -> Queue {
        let mut queue = Queue {
            kept: kept.len() as u64,
            ..Queue::default()
        };
        if kept.is_empty() {
            return queue;
        }
        (queue.p50_ns, queue.p90_ns, queue.p99_ns) = quantiles(kept);
        (queue.longest, queue.mean) = lengths(kept);
        queue.handed_on = handed_on(tables, kept);
        queue
    }
}

/// A kept wait stands for as many as its charge holds.
fn quantiles(kept: &[Wait]) -> (u64, u64, u64) {
    let mut waits: Vec<(u64, f64)> = kept
        .iter()
        .map(|w| {
            let ns = w.blocked_ns();
            (
                ns,
                (w.charged_ns as f64 / ns.max(1) as f64).max(f64::MIN_POSITIVE),
            )
        })
        .collect();
    waits.sort_by_key(|w| w.0);
    let all: f64 = waits.iter().map(|w| w.1).sum();
    let at = |share: f64| {
        let mut sum = 0.0;
        let found = waits.iter().find(|w| {
            sum += w.1;
            sum >= share * all
        });
        found.or(waits.last()).map_or(0, |w| w.0)
    };
    (at(0.5), at(0.9), at(0.99))
}

fn lengths(kept: &[Wait]) -> (u32, f64) {
    let starts = kept.iter().map(|w| (w.start_ns, 1i64));
    let ends = kept.iter().map(|w| (w.woken_ns, -1i64));
    let mut events: Vec<(u64, i64)> = starts.chain(ends).collect();
    // Who leaves as another comes did not wait with it.
    events.sort_unstable();
    let (mut now, mut longest, mut before) = (0i64, 0i64, 0u64);
    let (mut waited, mut any) = (0f64, 0f64);
    for (time, change) in events {
        if now > 0 {
            any += (time - before) as f64;
            waited += (time - before) as f64 * now as f64;
        }
        before = time;
        now += change;
        longest = longest.max(now);
    }
    let mean = if any > 0.0 { waited / any } else { 0.0 };
    (longest as u32, mean)
}

fn handed_on(tables: &Tables, kept: &[Wait]) -> f64 {
    let id = |w: &Wait| tables.threads[w.thread as usize].thread;
    let mut ends: Vec<(u32, u64)> = kept.iter().map(|w| (id(w), w.woken_ns)).collect();
    ends.sort_unstable();
    let (mut handed, mut all) = (0f64, 0f64);
    for wait in kept {
        all += wait.charged_ns as f64;
        let Some(waker) = tables.slices[wait.slice as usize].waker_thread else {
            continue;
        };
        // It got the lock while this one waited.
        let first = ends.partition_point(|e| *e < (waker, wait.start_ns));
        if ends
            .get(first)
            .is_some_and(|e| e.0 == waker && e.1 <= wait.woken_ns)
        {
            handed += wait.charged_ns as f64;
        }
    }
    if all > 0.0 { handed / all } else { 0.0 }
}
