//! Single waits, and how much blocked time each stands for.
//!
//! A recording keeps long waits one by one, and shorter ones where a stack was taken. So that totals
//! over waits do not favour the long ones, each kept wait is weighed: by itself when every wait of its
//! length is kept, else by the Horvitz-Thompson weight of its sample, of which it gets the part that it
//! was blocked (the sample stands for its time runnable too). The weights of a site's waits are then
//! scaled to the site's exact blocked sum. What remains uncovered (sites without a kept wait) is told,
//! see [`Waits::covered_ns`].
use crate::apportion::{apportion, scaled};
use crate::index::Index;
use dwell_recording::tables::Tables;

/// A single wait that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Position in `slices`.
    pub slice: u32,
    /// Position in `threads`.
    pub thread: u32,
    /// Position in `sites`, and in [`crate::Analysis::reasons`]: where, and why.
    pub site: u32,
    /// When it left the processor, ns.
    pub start_ns: u64,
    /// When it was woken, ns.
    pub woken_ns: u64,
    /// When it ran again, ns.
    pub end_ns: u64,
    /// Blocked time it stands for, ns.
    pub charged_ns: u64,
}

impl Wait {
    /// How long it was asleep, ns.
    pub fn blocked_ns(&self) -> u64 {
        self.woken_ns - self.start_ns
    }

    /// How long it was off the processor, ns.
    fn stay_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// Every kept wait of a recording.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// Ordered by thread and wake-up.
    pub waits: Vec<Wait>,
    /// By thread: where its waits start.
    thread_start: Vec<u32>,
    /// Blocked time of all sites, ns.
    pub blocked_ns: u64,
    /// Blocked time of the sites with a kept wait, ns.
    pub covered_ns: u64,
    /// Length of all kept waits, ns.
    pub kept_ns: u64,
}

impl Waits {
    /// Weighs every kept wait.
    pub(crate) fn of(tables: &Tables, index: &Index) -> Waits {
        let mut waits = kept_waits(tables, index);
        weigh(&mut waits, tables, index);
        waits.sort_unstable_by_key(|w| w.site);
        let mut covered_ns = 0u64;
        for own in waits.chunk_by_mut(|a, b| a.site == b.site) {
            let exact = index.site_sums(own[0].site as usize).blocked_ns;
            let weights: Vec<u64> = own.iter().map(|w| w.charged_ns).collect();
            for (wait, share) in own.iter_mut().zip(apportion(exact, &weights)) {
                wait.charged_ns = share;
            }
            covered_ns = covered_ns.saturating_add(exact);
        }
        waits.sort_unstable_by_key(|w| (w.thread, w.woken_ns, w.slice));
        let thread_start = (0..=tables.threads.len())
            .map(|t| waits.partition_point(|w| (w.thread as usize) < t) as u32)
            .collect();
        let blocked_ns = index
            .site_sums
            .iter()
            .fold(0, |sum: u64, s| sum.saturating_add(s.blocked_ns));
        let kept_ns = waits
            .iter()
            .fold(0, |sum: u64, wait| sum.saturating_add(wait.blocked_ns()));
        Waits {
            kept_ns,
            waits,
            thread_start,
            blocked_ns,
            covered_ns,
        }
    }

    /// The waits of the thread at this position, by wake-up.
    pub fn of_thread(&self, thread: usize) -> &[Wait] {
        let range = self.thread_start[thread] as usize..self.thread_start[thread + 1] as usize;
        &self.waits[range]
    }
}

fn kept_waits(tables: &Tables, index: &Index) -> Vec<Wait> {
    let wait = |(slice, row): (u32, &dwell_recording::rows::SliceRow)| {
        let woken_ns = row.start_ns.saturating_add(row.blocked_ns);
        (row.blocked_ns > 0 && woken_ns > row.start_ns).then_some(())?;
        Some(Wait {
            slice,
            thread: index.thread(row.thread)? as u32,
            site: index.site(row.site)? as u32,
            start_ns: row.start_ns,
            woken_ns,
            end_ns: woken_ns.saturating_add(row.runnable_ns),
            charged_ns: row.blocked_ns,
        })
    };
    (0..).zip(&tables.slices).filter_map(wait).collect()
}

/// Weighs the waits that are kept only because a stack was taken.
fn weigh(waits: &mut [Wait], tables: &Tables, index: &Index) {
    // Every stay from this length on is kept: one was kept for its length alone. Not so where there were too many:
    // then samples stand for all.
    let for_length_alone = |w: &Wait| tables.slices[w.slice as usize].stack.is_none();
    let too_many = tables.meta.recorder.waits_passed_over > 0;
    let always_kept_ns = if too_many {
        waits
            .iter_mut()
            .filter(|w| for_length_alone(w))
            .for_each(|w| w.charged_ns = 0);
        u64::MAX
    } else {
        let kept = waits.iter().filter(|w| for_length_alone(w));
        kept.map(Wait::stay_ns).min().unwrap_or(u64::MAX)
    };
    let mut samples: Vec<(u32, u64, u64)> = tables
        .samples
        .iter()
        .filter(|s| s.site.is_some() && s.weight_ns > 0)
        .filter_map(|s| Some((index.thread(s.thread)? as u32, s.time_ns, s.weight_ns)))
        .collect();
    samples.sort_unstable();
    for wait in waits.iter_mut().filter(|w| w.stay_ns() < always_kept_ns) {
        let first = samples.partition_point(|s| (s.0, s.1) < (wait.thread, wait.start_ns));
        if let Some((thread, time_ns, weight_ns)) = samples.get(first)
            && *thread == wait.thread
            && *time_ns <= wait.end_ns
        {
            let blocked = scaled(*weight_ns, wait.blocked_ns(), wait.stay_ns());
            wait.charged_ns = blocked.unwrap_or(0);
        }
    }
}
