//! A running process: stops it, patches it, restores it.
//!
//! `threads` stops and releases; `borrow` lets a thread make system calls, by
//! the instructions of `detour`; `arena` says where our memory goes; `modules` finds what to patch; `attach`
//! puts these together, and `restore` undoes it from what the target's own memory says.
mod arena;
mod attach;
mod borrow;
mod contexts;
mod detour;
mod entry;
mod entry_nap;
mod error;
mod modules;
mod owner;
mod ptrace;
mod restore;
mod segment;
mod slack;
mod space;
mod threads;

pub use attach::{Attachment, Placed, Programs, Spot, State};
pub use entry::{AtEntry, Held, entry_of};
pub use error::PatchError;
pub use modules::{FunctionAt, Module, Probe, modules};
pub use restore::{Restored, recover};
pub use segment::{Segment, Shared};

use dwell_agent::layout::JUMP_LEN;
use space::Space;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use threads::{Threads, in_tracer};

/// Longest all threads are held in wait for one that does not stop.
const PAUSE_LIMIT: Duration = Duration::from_millis(12);
/// For how long stopping all threads is tried, over and over: on a machine with more to do than it can,
/// a thread may wait long for the processor it needs to come to its stop.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries, at first.
const BACK_OFF: Duration = Duration::from_millis(1);

/// What holding all threads of a process cost it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Longest single time that threads were held.
    pub longest: Duration,
    /// How often.
    pub times: u32,
    /// Threads held the last time.
    pub threads: usize,
}

impl Pause {
    fn add(&mut self, held: Duration, threads: usize) {
        self.longest = self.longest.max(held);
        self.times += 1;
        self.threads = threads;
    }
}

/// Stops all threads and calls `operation`; again, after letting them run, for as long as that answers
/// none.
fn while_stopped<T: Send>(
    space: &Space,
    pause: &mut Pause,
    mut operation: impl FnMut(&Threads) -> Result<Option<T>, PatchError> + Send,
) -> Result<Option<T>, PatchError> {
    let mut unstoppable = None;
    let begin = Instant::now();
    let mut tries = 0;
    while begin.elapsed() < PATIENCE {
        tries += 1;
        let attempt = || -> Result<Result<Option<T>, i32>, PatchError> {
            let begin = Instant::now();
            let threads = match Threads::stop_all(space.pid, PAUSE_LIMIT)? {
                Ok(threads) => threads,
                Err(tid) => {
                    pause.add(begin.elapsed(), 0);
                    return Ok(Err(tid));
                }
            };
            let count = threads.held().len();
            let outcome = operation(&threads);
            pause.add(threads.release(), count);
            outcome.map(Ok)
        };
        match in_tracer(attempt)? {
            Ok(Some(answer)) => return Ok(Some(answer)),
            Ok(None) => unstoppable = None,
            Err(tid) => unstoppable = Some(tid),
        }
        std::thread::sleep(BACK_OFF * (1 + tries % 8));
    }
    match unstoppable {
        Some(tid) => Err(PatchError::DoesNotStop {
            pid: space.pid,
            tid,
            limit: PAUSE_LIMIT,
            tries,
        }),
        None => Ok(None),
    }
}

/// The jump at an address to another; none when that is out of reach.
fn jump(at: u64, to: u64) -> Option<[u8; JUMP_LEN]> {
    let distance = to.wrapping_sub(at.wrapping_add(JUMP_LEN as u64)) as i64;
    let [a, b, c, d] = i32::try_from(distance).ok()?.to_le_bytes();
    Some([0xe9, a, b, c, d])
}

/// A word that no other arena has, and no memory by chance.
fn cookie() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.as_nanos() as u64 ^ u64::from(std::process::id()) << 40
}
