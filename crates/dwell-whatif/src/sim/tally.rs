//! Where threads' time went in a run.

/// What a thread does at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Runs without a lock.
    Think,
    /// Runs with one.
    Hold,
    /// Waits for a lock on a processor.
    Spin,
    /// Pays for locks: taking, handing over, sleeping, waking.
    Overhead,
    /// Wants a processor.
    Ready,
    /// Sleeps for a lock.
    Asleep,
    /// Is away: I/O, timers.
    Away,
}

/// Number of [`Doing`]s.
const DOINGS: usize = 7;

/// Sums over a run, after its beginning was left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Tally {
    /// How long the run was, ns.
    pub elapsed_ns: f64,
    /// By [`Doing`], over all threads, ns.
    pub time_ns: [f64; DOINGS],
    /// Time of processors with a thread, also while it is put there, ns.
    pub busy_ns: f64,
    /// Of that: putting threads on processors, ns.
    pub switch_ns: f64,
    /// Units of work done.
    pub units: f64,
    /// By lock: how often it was wanted.
    pub acquisitions: Vec<u64>,
    /// By lock: how often it was taken then.
    pub found_taken: Vec<u64>,
    /// By lock: time it was taken, all shards together, ns.
    pub held_ns: Vec<f64>,
    /// By lock: thread time waited for it, spinning, asleep, or ready while doing so, ns.
    pub waited_ns: Vec<f64>,
    /// By lock: time it was taken or handed to a thread that was not on a processor, ns.
    pub stalled_ns: Vec<f64>,
}

impl Tally {
    pub fn new(locks: usize) -> Tally {
        Tally {
            acquisitions: vec![0; locks],
            found_taken: vec![0; locks],
            held_ns: vec![0.0; locks],
            waited_ns: vec![0.0; locks],
            stalled_ns: vec![0.0; locks],
            ..Tally::default()
        }
    }

    pub fn time(&self, doing: Doing) -> f64 {
        self.time_ns[doing as usize]
    }
}
