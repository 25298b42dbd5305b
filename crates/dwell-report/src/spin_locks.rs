//! What a person is told about spin locks of the kernel.
//!
//! The types are the JSON output as they stand: units in the names, lists ordered by importance.
use serde::Serialize;

/// Everything that was counted.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SpinLocksAnswer {
    /// How long operations were counted.
    pub duration_ns: u64,
    /// Processes whose operations were counted; empty for all of the system.
    pub pids: Vec<u32>,
    /// Acquisitions, and of these those that found the lock held.
    pub acquired: u64,
    /// See `acquired`.
    pub contended: u64,
    /// Releases, and of these those that somebody waited for.
    pub released: u64,
    /// See `released`.
    pub awaited: u64,
    /// Acquisitions and releases for every one that was kept: how many times longer the buffer lasts than
    /// one that keeps all. None when nothing had to be kept.
    pub buffer_lasts_times: Option<f64>,
    /// By function of the kernel.
    pub functions: Vec<OperationsAnswer>,
    /// Who found a lock held, most times first.
    pub waiters: Vec<SpinPlace>,
    /// Who released a lock that somebody waited for, most times first.
    pub holders: Vec<SpinPlace>,
    /// What is not in the numbers.
    pub losses: SpinLosses,
    /// What a person should know about names.
    pub notes: Vec<String>,
}

/// Operations of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OperationsAnswer {
    /// Its name.
    pub name: String,
    /// False where the kernel does not let it be traced: nothing is known.
    pub traced: bool,
    /// How often it acquired or released a lock.
    pub operations: u64,
    /// Of these, how often the lock was held, or waited for.
    pub contended: u64,
    /// Tries that did not get the lock.
    pub failed_tries: u64,
    /// Calls not counted: the kernel had our program running on that processor already. Of any process.
    pub missed: u64,
}

/// Contended operations at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpinPlace {
    /// Functions of the kernel, the one that wants or releases the lock first.
    pub frames: Vec<String>,
    /// How often.
    pub times: u64,
    /// How many locks.
    pub locks: u64,
}

/// What is not in the numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpinLosses {
    /// Operations not counted, of any process: the sum over the functions.
    pub missed: u64,
    /// Contended operations that were counted and have no place: the buffer was full.
    pub no_room: u64,
    /// Contended operations that were counted and have no place: they interrupted the keeping of another.
    pub nested: u64,
}
