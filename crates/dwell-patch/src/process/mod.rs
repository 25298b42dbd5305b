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
mod memory_limits;
mod modules;
mod owner;
mod ptrace;
mod restore;
mod segment;
mod slack;
mod space;
mod threads;
mod vforked;

pub use attach::{Attachment, Placed, Programs, Spot, State};
pub use entry::{AtEntry, Held, entry_of};
pub use error::PatchError;
pub use modules::{FunctionAt, Module, Probe, modules};
pub use restore::{Restored, recover};
pub use segment::{Segment, Shared};

use dwell_agent::layout::JUMP_LEN;
use space::Space;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use threads::{Threads, Unstopped, in_tracer};

/// For how long it is tried to stop all threads of a process, over and over: on a machine with more to do than it can,
/// a thread may wait long for the processor that it needs to come to its stop. A process that cannot be patched is none
/// the worse for it; one that has been patched should not stay so.
const PATIENCE_TO_PATCH: Duration = Duration::from_secs(30);
const PATIENCE_TO_RESTORE: Duration = Duration::from_secs(180);
/// For so long no try holds threads for longer than the first one.
const GENTLE: Duration = Duration::from_secs(30);
/// Longest the threads that have stopped are held in wait for the others, at first.
const FIRST_LIMIT: Duration = Duration::from_millis(12);
/// The same in the end. An idle thread (`SCHED_IDLE`) that has just had its 3 ms comes again after a second for each
/// other thread that wants its processor: 3 ms times the ratio of their weights, 1024 / 3.
const LAST_LIMIT: Duration = Duration::from_secs(16);

/// For how long threads are held at most in a try, after so many that failed when [`GENTLE`] was over.
fn limit(failures: u32) -> Duration {
    /// Between two steps.
    const STEP: u32 = 2;
    let steps = failures.div_ceil(STEP).min(16);
    FIRST_LIMIT.saturating_mul(1 << steps).min(LAST_LIMIT)
}

/// Tries at least, however long they take: a machine that was suspended makes a long time of a short one.
const LEAST_TRIES: u32 = 64;
/// Between two tries, at least.
const BACK_OFF: Duration = Duration::from_millis(1);
/// How many times longer than they were held the threads run until the next try.
const RESPITE: u32 = 3;

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
    patience: Duration,
    pause: &mut Pause,
    mut operation: impl FnMut(&Threads) -> Result<Option<T>, PatchError> + Send,
) -> Result<Option<T>, PatchError> {
    let mut unstoppable = None;
    let begin = Instant::now();
    let mut failures = 0;
    for tries in 1.. {
        let limit = limit(failures);
        let attempt = || -> Result<(Result<Option<T>, Unstopped>, Duration), PatchError> {
            let begin = Instant::now();
            let threads = match Threads::stop_all(space.pid, limit)? {
                Ok(threads) => threads,
                Err(unstopped) => {
                    pause.add(begin.elapsed(), 0);
                    return Ok((Err(unstopped), begin.elapsed()));
                }
            };
            let count = threads.held().len();
            let outcome = operation(&threads);
            let held = threads.release();
            pause.add(held, count);
            Ok((Ok(outcome?), held))
        };
        let (outcome, held) = in_tracer(attempt)?;
        match outcome {
            Ok(Some(answer)) => return Ok(Some(answer)),
            Ok(None) => unstoppable = None,
            Err(unstopped) => {
                failures += u32::from(begin.elapsed() > GENTLE);
                unstoppable = Some((unstopped, tries));
            }
        }
        if begin.elapsed() > patience && tries >= LEAST_TRIES {
            break;
        }
        std::thread::sleep((held * RESPITE).max(BACK_OFF * (1 + tries % 8)));
    }
    match unstoppable {
        Some((Unstopped { tid, what }, tries)) => Err(PatchError::DoesNotStop {
            pid: space.pid,
            tid,
            what,
            limit: limit(failures),
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
