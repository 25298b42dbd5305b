//! Lets a thread of the target make a system call for us, and go on as if it had not.
//!
//! The thread is stopped, its program counter alone is set to a few instructions of ours, and it is let
//! go. Those instructions make the call, put every register back, and jump to where the thread was (or
//! begin its interrupted system call anew). So nothing depends on us once it runs: killed at any
//! instant, we leave a thread that has either not begun or finishes by itself. Signals are held back
//! meanwhile, by a mask that the instructions take back: a handler that never returned would keep us
//! from taking the instructions away.
//!
//! The instructions stand in bytes that belong to nobody, see `slack`.
use super::PatchError;
use super::ptrace;
use super::slack::Slack;
use super::space::{Mapping, Space, mapping_at, status_field, threads};
use super::threads::{Threads, in_tracer};
use libc::user_regs_struct;
use std::ops::Range;
use std::time::{Duration, Instant};

/// Longest a thread is waited for to stop; others run meanwhile.
const STOP_LIMIT: Duration = Duration::from_millis(20);
/// Longest a borrowed thread is waited for to get a processor and finish.
const FINISH_LIMIT: Duration = Duration::from_secs(10);
/// Longest a thread is looked for.
const SEARCH_LIMIT: Duration = Duration::from_secs(10);
/// Longest a thread is given for its call before it is looked at.
const PROGRESS_LIMIT: Duration = Duration::from_millis(100);
/// Between two looks at a borrowed thread, at first.
const HEAD_START: Duration = Duration::from_micros(30);

/// A system call and its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub number: i64,
    pub arguments: [u64; 6],
}

/// Bytes that a call cannot exceed: seven registers loaded, and the call.
const LONGEST_CALL: usize = 7 * 10 + 2;
/// Bytes that the way back cannot exceed: the call for the mask and the mask, nine registers loaded, and
/// a jump.
const LONGEST_RETURN: usize = 64 + 9 * 10 + 14;

/// How many calls there is room for.
fn calls_in(slack: &Slack) -> usize {
    slack.len().saturating_sub(LONGEST_RETURN) / LONGEST_CALL
}

/// Has some thread of the process make calls, of which `done` tells whether they have had their effect.
pub(super) fn system_calls(
    space: &Space,
    calls: &[Call],
    done: impl Fn() -> Result<bool, PatchError> + Sync,
) -> Result<(), PatchError> {
    let pid = space.pid;
    let slack = Slack::find(space, &space.mappings()?).filter(|s| calls_in(s) >= calls.len());
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
    while begin.elapsed() < SEARCH_LIMIT {
        for tid in threads(pid)? {
            match in_tracer(|| try_thread(space, tid, calls, &slack, &done))? {
                Ok(()) => return Ok(()),
                Err(reason) => why = reason,
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(PatchError::NoThread { pid, why })
}

/// One attempt with one thread; the inner error says why it was not suited.
fn try_thread(
    space: &Space,
    tid: i32,
    calls: &[Call],
    slack: &Slack,
    done: &(impl Fn() -> Result<bool, PatchError> + Sync),
) -> Result<Result<(), &'static str>, PatchError> {
    let Some(mut stopped) = Threads::stop_one(space.pid, tid, STOP_LIMIT)? else {
        return Ok(Err("it did not stop"));
    };
    let outcome = borrow(space, &mut stopped, calls, slack, done);
    stopped.release();
    outcome
}

fn borrow(
    space: &Space,
    stopped: &mut Threads,
    calls: &[Call],
    slack: &Slack,
    done: &(impl Fn() -> Result<bool, PatchError> + Sync),
) -> Result<Result<(), &'static str>, PatchError> {
    let tid = stopped.held()[0].tid;
    if ptrace::status(tid).ok() != Some(ptrace::Status::Stopped) {
        return Ok(Err("it is about to handle a signal"));
    }
    let Ok(registers) = ptrace::registers(tid) else {
        return Ok(Err("it is ending"));
    };
    if registers.cs != 0x33 {
        return Ok(Err("it runs 32-bit code"));
    }
    if in_restartable_sequence(space, tid, registers.rip) {
        return Ok(Err("it is in a restartable sequence"));
    }
    if has_seccomp(space.pid, tid) && ptrace::suspend_seccomp(tid).is_err() {
        return Err(PatchError::Seccomp(space.pid));
    }
    let Ok(mask) = ptrace::signal_mask(tid) else {
        return Ok(Err("it is ending"));
    };
    let detour = instructions(calls, &registers, mask, slack.start);
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
    if masked && !finish(stopped, slack, &way_back, done)? {
        // The thread will pass through the instructions yet: they stay.
        return Err(PatchError::NoThread {
            pid: space.pid,
            why: "it does not come to run",
        });
    }
    slack.restore(space)?;
    match done()? {
        true => Ok(Ok(())),
        false => Ok(Err("it ended, or the call failed")),
    }
}

/// How a thread gets on once its signals come through again.
struct WayBack {
    /// The instructions from here on only put registers back.
    from: u64,
    /// What they put back.
    registers: user_regs_struct,
}

/// Lets a redirected thread run until it has left the instructions, or has ended; it is stopped again
/// then. False when it is still in them.
fn finish(
    stopped: &mut Threads,
    slack: &Slack,
    way_back: &WayBack,
    done: &(impl Fn() -> Result<bool, PatchError> + Sync),
) -> Result<bool, PatchError> {
    let begin = Instant::now();
    let tid = stopped.held()[0].tid;
    // Signals are masked, but for one that stops the process.
    let mut owed = 0;
    while begin.elapsed() < FINISH_LIMIT {
        if ptrace::resume(tid, 0).is_err() {
            return Ok(true);
        }
        // Asked to stop although it has stopped by itself, as a thread of a stopped process does at
        // once, it would stop again before its next instruction, and so for ever.
        if await_progress(tid, done) == Progress::Running {
            let _ = ptrace::interrupt(tid);
        }
        let signal = match next_stop(tid, begin) {
            Ok(ptrace::Status::Running) => return Ok(false),
            Ok(ptrace::Status::Signal(signal)) => signal,
            Ok(ptrace::Status::Ended) | Err(_) => return Ok(true),
            Ok(_) => 0,
        };
        let Ok(registers) = ptrace::registers(tid) else {
            return Ok(true);
        };
        if !slack.range().contains(&registers.rip) {
            stopped.owe_signal(if signal == 0 { owed } else { signal });
            return Ok(true);
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
            return Ok(true);
        }
    }
    Ok(false)
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

/// Where the thread goes on, and with which rax: what the kernel does with an interrupted call.
fn resumption(registers: &user_regs_struct) -> (u64, u64) {
    const SYSCALL_LEN: u64 = 2;
    let again = registers.rip.wrapping_sub(SYSCALL_LEN);
    let in_call = registers.orig_rax as i64 >= 0;
    match registers.rax as i64 {
        // ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND
        -514..=-512 if in_call => (again, registers.orig_rax),
        // ERESTART_RESTARTBLOCK
        -516 if in_call => (again, libc::SYS_restart_syscall as u64),
        _ => (registers.rip, registers.rax),
    }
}

/// The registers of a thread that is back where it was.
fn resumed(registers: &user_regs_struct) -> user_regs_struct {
    let (rip, rax) = resumption(registers);
    user_regs_struct {
        rip,
        rax,
        // The call begins anew by itself.
        orig_rax: u64::MAX,
        ..*registers
    }
}

/// What a borrowed thread runs.
struct Detour {
    code: Vec<u8>,
    /// Offset behind the call that takes the mask back.
    unmasked: usize,
}

/// The instructions at `at` that make the calls, take `mask` for the signal mask, and go back.
fn instructions(calls: &[Call], registers: &user_regs_struct, mask: u64, at: u64) -> Detour {
    /// Numbers of the registers in instructions.
    const RAX: u8 = 0;
    const RCX: u8 = 1;
    const RDX: u8 = 2;
    const RSI: u8 = 6;
    const RDI: u8 = 7;
    const R8: u8 = 8;
    const R9: u8 = 9;
    const R10: u8 = 10;
    const R11: u8 = 11;
    let (pc, rax) = resumption(registers);
    // The mask comes first, where its address is known, and is jumped over.
    const MASK_BYTES: u64 = 8;
    let take_mask = Call {
        number: libc::SYS_rt_sigprocmask,
        arguments: [libc::SIG_SETMASK as u64, at + 2, 0, MASK_BYTES, 0, 0],
    };
    let mut code = vec![0xeb, MASK_BYTES as u8]; // jmp over it
    code.extend(mask.to_le_bytes());
    for call in calls.iter().chain([&take_mask]) {
        let [a, b, c, d, e, f] = call.arguments;
        let arguments = [(RDI, a), (RSI, b), (RDX, c), (R10, d), (R8, e), (R9, f)];
        for (register, value) in [(RAX, call.number as u64)].into_iter().chain(arguments) {
            load(&mut code, register, value);
        }
        code.extend([0x0f, 0x05]); // syscall
    }
    let unmasked = code.len();
    // The call changes rax, rcx and r11; the rest we did. No instruction here changes a flag.
    let r = registers;
    let restored = [
        (RAX, rax),
        (RDI, r.rdi),
        (RSI, r.rsi),
        (RDX, r.rdx),
        (R10, r.r10),
        (R8, r.r8),
        (R9, r.r9),
        (RCX, r.rcx),
        (R11, r.r11),
    ];
    for (register, value) in restored {
        load(&mut code, register, value);
    }
    code.extend([0xff, 0x25, 0, 0, 0, 0]); // jmp *0(%rip)
    code.extend(pc.to_le_bytes());
    Detour { code, unmasked }
}

/// `mov $value,register`, in the shortest form that leaves the flags alone.
fn load(code: &mut Vec<u8>, register: u8, value: u64) {
    let extended = register >> 3;
    let opcode = 0xb8 + (register & 7);
    if let Ok(short) = u32::try_from(value) {
        if extended == 1 {
            code.push(0x41);
        }
        code.push(opcode);
        code.extend(short.to_le_bytes());
    } else {
        code.extend([0x48 | extended, opcode]);
        code.extend(value.to_le_bytes());
    }
}

/// Memory to be mapped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub address: u64,
    pub len: u64,
    /// `PROT_READ` and others.
    pub protection: i32,
    /// `MAP_PRIVATE` or `MAP_SHARED`.
    pub sharing: i32,
}

impl Area {
    fn call(&self) -> Call {
        let flags = self.sharing | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let arguments = [
            self.address,
            self.len,
            self.protection as u64,
            flags as u64,
            u64::MAX,
            0,
        ];
        Call {
            number: libc::SYS_mmap,
            arguments,
        }
    }

    fn is_free(&self, mappings: &[Mapping]) -> bool {
        !mappings
            .iter()
            .any(|m| m.start < self.address + self.len && self.address < m.end)
    }

    /// Whether it is mapped, by us: as wanted, and empty.
    fn is_mapped(&self, space: &Space, mappings: &[Mapping]) -> bool {
        let is_alike = |m: &&Mapping| {
            m.end >= self.address + self.len
                && m.executable == (self.protection & libc::PROT_EXEC != 0)
                && m.writable == (self.protection & libc::PROT_WRITE != 0)
        };
        mapping_at(mappings, self.address)
            .filter(is_alike)
            .is_some()
            && space.read_u64(self.address).is_ok_and(|word| word == 0)
    }
}

/// Maps areas where nothing may be yet. When one cannot be mapped, the others may be.
pub(super) fn map(space: &Space, areas: &[Area]) -> Result<(), PatchError> {
    let mappings = space.mappings()?;
    let len = areas.iter().map(|a| a.len).sum();
    if !areas.iter().all(|a| a.is_free(&mappings)) {
        return Err(PatchError::NoMemory {
            pid: space.pid,
            len,
        });
    }
    let at_once = Slack::find(space, &mappings).map_or(1, |s| calls_in(&s).max(1));
    for some in areas.chunks(at_once) {
        let calls: Vec<Call> = some.iter().map(Area::call).collect();
        let done = || {
            let mappings = space.mappings()?;
            Ok(some.iter().all(|a| a.is_mapped(space, &mappings)))
        };
        system_calls(space, &calls, done)?;
    }
    Ok(())
}

/// Has children that the process forks find zeroes in a range of its memory.
pub(super) fn wipe_on_fork(space: &Space, range: &Range<u64>) -> Result<(), PatchError> {
    if range.is_empty() {
        return Ok(());
    }
    let arguments = [
        range.start,
        range.end - range.start,
        libc::MADV_WIPEONFORK as u64,
        0,
        0,
        0,
    ];
    let call = Call {
        number: libc::SYS_madvise,
        arguments,
    };
    // It makes the range a mapping of its own.
    let done = || {
        let mappings = space.mappings()?;
        Ok(mappings
            .iter()
            .any(|m| (m.start, m.end) == (range.start, range.end)))
    };
    system_calls(space, &[call], done)
}

/// Unmaps what is mapped in a range.
pub(super) fn unmap(space: &Space, address: u64, len: u64) -> Result<(), PatchError> {
    let arguments = [address, len, 0, 0, 0, 0];
    let call = Call {
        number: libc::SYS_munmap,
        arguments,
    };
    let done = || Ok(mapping_at(&space.mappings()?, address).is_none());
    system_calls(space, &[call], done)
}
