//! How the window divides, per thread, thread group and process.
use crate::groups::Groups;
use crate::profile::Profile;
use crate::state::Times;
use dwell_recording::rows::ThreadRow;
use dwell_recording::tables::Tables;

/// Sums over some threads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Number of threads.
    pub threads: u64,
    /// Time they existed in the window, ns.
    pub lifetime_ns: u64,
    /// How it divides.
    pub times: Times,
    /// Times they went to sleep.
    pub voluntary_switches: u64,
    /// Times they were switched out while they wanted to go on.
    pub involuntary_switches: u64,
}

impl Share {
    fn add(&mut self, row: &ThreadRow, times: &Times) {
        self.threads += 1;
        self.lifetime_ns = self.lifetime_ns.saturating_add(lifetime_ns(row));
        self.times.add_all(times);
        self.voluntary_switches = self
            .voluntary_switches
            .saturating_add(row.voluntary_switches);
        self.involuntary_switches = self
            .involuntary_switches
            .saturating_add(row.involuntary_switches);
    }

    /// Processors in use on average over a window of this length.
    pub fn cpus(&self, window_ns: u64) -> f64 {
        if window_ns == 0 {
            0.0
        } else {
            self.times.running() as f64 / window_ns as f64
        }
    }
}

/// How the window divides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Length of the window, ns.
    pub window_ns: u64,
    /// Every thread together.
    pub total: Share,
    /// In step with `threads`.
    pub threads: Vec<Share>,
    /// In step with [`Groups::groups`].
    pub groups: Vec<Share>,
    /// In step with `processes`.
    pub processes: Vec<Share>,
    /// The largest |lifetime - sum| / lifetime of any thread.
    pub closure_error: f64,
    /// Position of the thread with that error; none when every thread closes exactly.
    pub closure_worst: Option<usize>,
}

/// Time a thread existed in the window, ns.
pub fn lifetime_ns(row: &ThreadRow) -> u64 {
    row.until_ns.saturating_sub(row.start_ns)
}

impl Summary {
    /// Adds everything up.
    pub fn of(tables: &Tables, groups: &Groups, profile: &Profile) -> Summary {
        let mut summary = Summary {
            window_ns: tables.meta.end_ns.saturating_sub(tables.meta.start_ns),
            threads: vec![Share::default(); tables.threads.len()],
            groups: vec![Share::default(); groups.groups.len()],
            processes: vec![Share::default(); tables.processes.len()],
            ..Summary::default()
        };
        let mut times = vec![Times::default(); tables.threads.len()];
        for entry in &profile.entries {
            times[entry.thread as usize].add(entry.state, entry.weight_ns);
        }
        for (position, row) in tables.threads.iter().enumerate() {
            let times = &times[position];
            let group = groups.of_thread(position);
            summary.total.add(row, times);
            summary.threads[position].add(row, times);
            summary.groups[group].add(row, times);
            if let Some(process) = groups.groups[group].process {
                summary.processes[process].add(row, times);
            }
            summary.check_closure(position, lifetime_ns(row), times.total());
        }
        summary
    }

    fn check_closure(&mut self, thread: usize, lifetime_ns: u64, sum_ns: u64) {
        let error = match (lifetime_ns, sum_ns) {
            (0, 0) => 0.0,
            (0, _) => 1.0,
            _ => lifetime_ns.abs_diff(sum_ns) as f64 / lifetime_ns as f64,
        };
        if error > self.closure_error {
            self.closure_error = error;
            self.closure_worst = Some(thread);
        }
    }
}
