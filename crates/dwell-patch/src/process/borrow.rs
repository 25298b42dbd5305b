//! Lets a thread of the target make a system call for us, and go on as if it had not.
//!
//! The thread is stopped, its program counter alone is set to a few instructions of ours, and it is let
//! go. Those instructions make the call, put every register back, and jump to where the thread was (or
//! begin its interrupted system call anew). So nothing depends on us once it runs: killed at any
//! instant, we leave a thread that has either not begun or finishes by itself. Signals are held back
//! meanwhile, by a mask that the instructions take back: a handler that never returned would keep us
//! from taking the instructions away.
//!
//! The instructions stand in bytes that belong to nobody, see `slack`; `detour` writes them.
use super::PatchError;
use super::detour::{Call, Detour, Errand, Resumption, Room, resumed};
use super::memory_limits;
use super::ptrace;
use super::slack::Slack;
use super::space::{Space, status_field, threads};
use super::threads::{Threads, in_tracer};
use libc::user_regs_struct;
use std::time::{Duration, Instant};

/// Longest a thread is waited for to stop, at first; others run meanwhile.
const STOP_LIMIT: Duration = Duration::from_millis(20);
/// The same in the end: on a machine with more to do than it can, all threads may be slow.
const LONGEST_STOP_LIMIT: Duration = Duration::from_secs(8);
/// Longest a borrowed thread is waited for to get a processor and finish.
const FINISH_LIMIT: Duration = Duration::from_secs(60);
/// Longest a thread is looked for.
const SEARCH_LIMIT: Duration = Duration::from_secs(60);
/// Longest a thread is given for its call before it is looked at.
const PROGRESS_LIMIT: Duration = Duration::from_millis(100);
/// How often a call may fail. What was in its way may be gone the next time.
const CALLS: u32 = 3;
/// Between two looks at a borrowed thread, at first.
const HEAD_START: Duration = Duration::from_micros(30);

/// Has some thread of the process run an errand, of which `done` tells whether it has had its effect.
fn send(
    space: &Space,
    errand: &Errand,
    done: impl Fn() -> Result<bool, PatchError> + Sync,
) -> Result<(), PatchError> {
    let pid = space.pid;
    let slack = Slack::find(space, &space.mappings()?);
    let slack = slack.filter(|s| s.len() >= Detour::longest(errand));
    let slack = slack.ok_or(PatchError::NoThread {
        pid,
        why: "its program has no room for code",
    })?;
    if !slack.clear(space)? {
        return Err(PatchError::NoThread {
            pid,
            why: "one is borrowed already",
        });
    }
    let begin = Instant::now();
    let mut why = "none stopped";
    let mut refused = 0;
    let mut limit = STOP_LIMIT;
    while begin.elapsed() < SEARCH_LIMIT {
        for tid in threads(pid)? {
            let attempt = || {
                let stopped = Threads::stop_one(pid, tid, limit)?;
                try_thread(space, stopped, errand, &slack, &done)
            };
            match in_tracer(attempt)? {
                Ok(()) => return Ok(()),
                Err(Failure::Thread(reason)) => why = reason,
                Err(Failure::Call) => {
                    refused += 1;
                    if refused == CALLS {
                        return Err(PatchError::CallRefused(pid));
                    }
                }
            }
        }
        limit = (limit * 2).min(LONGEST_STOP_LIMIT);
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(PatchError::NoThread { pid, why })
}

/// One attempt with one thread; the inner error says why it was not suited.
fn try_thread(
    space: &Space,
    stopped: Option<Threads>,
    errand: &Errand,
    slack: &Slack,
    done: &(impl Fn() -> Result<bool, PatchError> + Sync),
) -> Result<Result<(), Failure>, PatchError> {
    let Some(mut stopped) = stopped else {
        return Ok(Err(Failure::Thread("it did not stop")));
    };
    let outcome = borrow(space, &mut stopped, errand, slack, done);
    stopped.release();
    outcome
}

fn borrow(
    space: &Space,
    stopped: &mut Threads,
    errand: &Errand,
    slack: &Slack,
    done: &(impl Fn() -> Result<bool, PatchError> + Sync),
) -> Result<Result<(), Failure>, PatchError> {
    let tid = stopped.held()[0].tid;
    if ptrace::status(tid).ok() != Some(ptrace::Status::Stopped) {
        return Ok(Err(Failure::Thread("it is about to handle a signal")));
    }
    let Ok(registers) = ptrace::registers(tid) else {
        return Ok(Err(Failure::Thread("it is ending")));
    };
    if registers.cs != 0x33 {
        return Ok(Err(Failure::Thread("it runs 32-bit code")));
    }
    if in_restartable_sequence(space, tid, registers.rip) {
        return Ok(Err(Failure::Thread("it is in a restartable sequence")));
    }
    if has_seccomp(space.pid, tid) && ptrace::suspend_seccomp(tid).is_err() {
        return Err(PatchError::Seccomp(space.pid));
    }
    let Ok(mask) = ptrace::signal_mask(tid) else {
        return Ok(Err(Failure::Thread("it is ending")));
    };
    let detour = Detour::new(errand, &Resumption::of(&registers), mask, slack.start);
    space.write(slack.start, &detour.code)?;
    let mut redirected = registers;
    redirected.rip = slack.start;
    // No call is to be restarted now: the instructions do it.
    redirected.orig_rax = u64::MAX;
    let begun = ptrace::set_registers(tid, &redirected).is_ok();
    // Only after the instructions are sure to take it back.
    let masked = begun && ptrace::set_signal_mask(tid, u64::MAX).is_ok();
    let way_back = WayBack {
        from: slack.start + detour.unmasked as u64,
        registers: resumed(&registers),
    };
    let end = match masked {
        true => finish(stopped, slack, &way_back, done)?,
        false => End::Gone,
    };
    if end == End::Inside {
        // The thread will pass through the instructions yet: they stay.
        return Err(PatchError::NoThread {
            pid: space.pid,
            why: "it does not come to run",
        });
    }
    slack.restore(space)?;
    match (done()?, end) {
        (true, _) => Ok(Ok(())),
        (false, End::Back) => Ok(Err(Failure::Call)),
        (false, _) => Ok(Err(Failure::Thread("it ended"))),
    }
}

/// Where a thread is that was borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Where it was before, having run the instructions.
    Back,
    /// It has ended, or never came to run them.
    Gone,
    /// Still in the instructions.
    Inside,
}

/// Why an attempt with one thread came to nothing.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// It was not suited, and another may be.
    Thread(&'static str),
    /// The kernel refused the call, as it would another thread's.
    Call,
}

/// How a thread gets on once its signals come through again.
struct WayBack {
    /// The instructions from here on only put registers back.
    from: u64,
    /// What they put back.
    registers: user_regs_struct,
}

/// Lets a redirected thread run until it has left the instructions, or has ended; it is stopped again
/// then.
fn finish(
    stopped: &mut Threads,
    slack: &Slack,
    way_back: &WayBack,
    done: &(impl Fn() -> Result<bool, PatchError> + Sync),
) -> Result<End, PatchError> {
    let begin = Instant::now();
    let tid = stopped.held()[0].tid;
    // Signals are masked, but for one that stops the process.
    let mut owed = 0;
    while begin.elapsed() < FINISH_LIMIT {
        if ptrace::resume(tid, 0).is_err() {
            return Ok(End::Gone);
        }
        // Asked to stop although it has stopped by itself, as a thread of a stopped process does at
        // once, it would stop again before its next instruction, and so for ever.
        if await_progress(tid, done) == Progress::Running {
            let _ = ptrace::interrupt(tid);
        }
        let signal = match next_stop(tid, begin) {
            Ok(ptrace::Status::Running) => return Ok(End::Inside),
            Ok(ptrace::Status::Signal(signal)) => signal,
            Ok(ptrace::Status::Ended) | Err(_) => return Ok(End::Gone),
            Ok(_) => 0,
        };
        let Ok(registers) = ptrace::registers(tid) else {
            return Ok(End::Gone);
        };
        if !slack.range().contains(&registers.rip) {
            stopped.owe_signal(if signal == 0 { owed } else { signal });
            return Ok(End::Back);
        }
        if signal == 0 {
            continue;
        }
        // A signal that waited for the mask comes right behind it. Its handler must find the thread
        // where it was.
        owed = signal;
        if registers.rip >= way_back.from && ptrace::set_registers(tid, &way_back.registers).is_ok()
        {
            stopped.owe_signal(owed);
            return Ok(End::Back);
        }
    }
    Ok(End::Inside)
}

/// What a borrowed thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Running,
    Stopped,
}

/// Gives a thread time to make its call: stopped before it gets a processor, it would not get on.
fn await_progress(tid: i32, done: &(impl Fn() -> Result<bool, PatchError> + Sync)) -> Progress {
    let begin = Instant::now();
    let mut nap = HEAD_START;
    loop {
        std::thread::sleep(nap);
        if ptrace::status(tid).is_ok_and(|s| s != ptrace::Status::Running) {
            return Progress::Stopped;
        }
        let has_called = || done().is_ok_and(|done| done);
        if has_called() || begin.elapsed() > PROGRESS_LIMIT {
            return Progress::Running;
        }
        nap = (nap * 2).min(Duration::from_millis(1));
    }
}

/// Waits for a thread to stop; still running after the limit.
fn next_stop(tid: i32, begin: Instant) -> std::io::Result<ptrace::Status> {
    loop {
        let status = ptrace::status(tid)?;
        if status != ptrace::Status::Running || begin.elapsed() > FINISH_LIMIT {
            return Ok(status);
        }
        std::thread::sleep(HEAD_START);
    }
}

fn has_seccomp(pid: i32, tid: i32) -> bool {
    status_field(pid, tid, "Seccomp").is_some_and(|mode| mode != "0")
}

/// Whether a thread stands in code that the kernel would abort if it noticed the thread elsewhere.
fn in_restartable_sequence(space: &Space, tid: i32, pc: u64) -> bool {
    const POINTER_TO_SEQUENCE: u64 = 8;
    const START: u64 = 8;
    const LENGTH: u64 = 16;
    let Some(area) = ptrace::rseq_area(tid) else {
        return false;
    };
    let Some(sequence) = space
        .read_u64(area + POINTER_TO_SEQUENCE)
        .ok()
        .filter(|&s| s != 0)
    else {
        return false;
    };
    let start = space.read_u64(sequence + START).unwrap_or(0);
    let length = space.read_u64(sequence + LENGTH).unwrap_or(0);
    pc.wrapping_sub(start) < length
}

/// Maps memory for an arena: all of it, or none. Fails with [`PatchError::Taken`] when something else is there by
/// then.
pub(super) fn map(space: &Space, room: &Room) -> Result<(), PatchError> {
    let range = room.range();
    let done = || {
        let (address, value) = room.mark;
        if space.read_u64(address).is_ok_and(|word| word == value) {
            return Ok(true);
        }
        let mappings = space.mappings()?;
        let is_taken = mappings
            .iter()
            .any(|m| m.start < range.end && range.start < m.end);
        match is_taken {
            true => Err(PatchError::Taken(space.pid)),
            false => Ok(false),
        }
    };
    match send(space, &Errand::Map(room), done) {
        Err(PatchError::CallRefused(pid)) => Err(PatchError::NoMemory {
            pid,
            len: room.len,
            why: memory_limits::why(
                pid,
                room.len,
                room.shared.iter().any(|s| s.segment.is_some()),
            ),
        }),
        outcome => outcome,
    }
}

/// Unmaps a range that has `value` at `mark`, which tells it from what the process may map there as soon as
/// it is gone.
pub(super) fn unmap(
    space: &Space,
    address: u64,
    len: u64,
    (mark, value): (u64, u64),
) -> Result<(), PatchError> {
    let is_gone = || space.read_u64(mark).map_or(true, |word| word != value);
    let unmap = Errand::Call(Call::unmap(address, len));
    send(space, &unmap, || Ok(is_gone()))
}
