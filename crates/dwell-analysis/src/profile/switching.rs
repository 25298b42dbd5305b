//! How long threads ran where no stack of a running thread can be taken.
//!
//! A sample of a running thread stands for its weight whatever else happened, so what the samples of all
//! threads leave of the running time was never sampled. It is spent at switches, so much for each:
//! `u = (running - claimed) / switches`, over the whole recording.
//!
//! A pool of threads has its own remainder as well: noisy, but its own. Both are joined in inverse
//! proportion to their variances: the remainder's is that of a count of samples, and what a switch takes
//! differs from thread to thread by about half.
use dwell_recording::rows::ThreadRow;
use dwell_recording::rows::state::RUNNING;
use dwell_recording::tables::Tables;

/// A switch takes microseconds; what is more is not a switch's (the host stole it).
const SWITCH_MAX_NS: f64 = 50_000.0;
/// Standard errors from which on a remainder is not taken for chance.
const SIGNIFICANT: f64 = 2.0;

/// What switching costs in a recording.
pub(super) struct Switching {
    /// Running time per switch that no sample covers, ns.
    ns_per_switch: f64,
    /// What a sample stands for beyond its weight, since others of its kind were lost.
    lost_factor: f64,
    period_ns: f64,
}

impl Switching {
    pub(super) fn of(tables: &Tables) -> Switching {
        let mut switching = Switching {
            ns_per_switch: 0.0,
            lost_factor: lost_factor(tables),
            period_ns: tables.meta.period_ns as f64,
        };
        let running = tables.samples.iter().filter(|s| s.state == RUNNING);
        let weights: Vec<u64> = running.map(|s| s.weight_ns).collect();
        let (remainder, variance) = switching.remainder(tables.threads.iter(), &weights);
        let switches: f64 = tables.threads.iter().map(switches).sum();
        if remainder > SIGNIFICANT * variance.sqrt() {
            switching.ns_per_switch = (remainder / switches.max(1.0)).min(SWITCH_MAX_NS);
        }
        switching
    }

    /// Time of switching of each of these threads, no more than it ran, ns. `weights` are those of their
    /// running samples.
    pub(super) fn of_pool<'r>(
        &self,
        threads: impl Iterator<Item = &'r ThreadRow> + Clone,
        weights: &[u64],
    ) -> Vec<u64> {
        let switches_of_all: f64 = threads.clone().map(switches).sum();
        let expected = self.ns_per_switch * switches_of_all;
        let per_switch = if expected > 0.0 {
            let (remainder, variance) = self.remainder(threads.clone(), weights);
            let own_variance = (expected / 2.0).powi(2);
            let joined =
                (expected * variance + remainder * own_variance) / (variance + own_variance);
            joined.clamp(0.0, 2.0 * expected) / switches_of_all
        } else {
            0.0
        };
        threads
            .map(|t| ((per_switch * switches(t)) as u64).min(t.running_ns))
            .collect()
    }

    /// Running time that these samples do not cover, and its variance.
    fn remainder<'r>(
        &self,
        threads: impl Iterator<Item = &'r ThreadRow>,
        weights: &[u64],
    ) -> (f64, f64) {
        let running: f64 = threads.map(|t| t.running_ns as f64).sum();
        let claimed: f64 = weights.iter().map(|w| *w as f64).sum();
        let squares: f64 = weights.iter().map(|w| (*w as f64).powi(2)).sum();
        let variance = squares * self.lost_factor.powi(2) + self.period_ns.powi(2);
        (running - claimed * self.lost_factor, variance)
    }
}

fn switches(thread: &ThreadRow) -> f64 {
    thread.voluntary_switches as f64 + thread.involuntary_switches as f64
}

/// Produced over reported, of stacks of running threads.
fn lost_factor(tables: &Tables) -> f64 {
    let number = |of: &std::collections::BTreeMap<String, u64>| {
        of.get("running_stacks").copied().unwrap_or(0) as f64
    };
    let (produced, lost) = (number(&tables.meta.produced), number(&tables.meta.losses));
    if lost > 0.0 && lost < produced {
        produced / (produced - lost)
    } else {
        1.0
    }
}
