//! Lets a thread of the target make a system call for us, and go on as if it had not.
//!
//! The thread is stopped, its program counter alone is set to a few instructions of ours, and it is let
//! go. Those instructions make the call, put every register back, and jump to where the thread was (or
//! begin its interrupted system call anew). So nothing depends on us once it runs: killed at any
//! instant, we leave a thread that has either not begun or finishes by itself.
//!
//! The instructions stand in bytes that belong to nobody: between the end of a file's code and the end
//! of its last page.
use super::PatchError;
use super::contexts::saved;
use super::ptrace;
use super::space::{Mapping, Space, mapping_at, status_field, threads};
use super::threads::{Threads, in_tracer};
use dwell_elf::ElfFile;
use libc::user_regs_struct;
use std::time::{Duration, Instant};

/// Longest a thread is waited for to stop; others run meanwhile.
const STOP_LIMIT: Duration = Duration::from_millis(20);
/// Longest a borrowed thread is waited for to finish: it may be in a signal handler.
const FINISH_LIMIT: Duration = Duration::from_secs(2);
/// Longest a thread is looked for.
const SEARCH_LIMIT: Duration = Duration::from_secs(10);
/// Given to a borrowed thread before it is stopped again.
const HEAD_START: Duration = Duration::from_micros(30);

/// A system call and its arguments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub number: i64,
    pub arguments: [u64; 6],
}

/// Executable bytes of a process that nothing uses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slack {
    start: u64,
    end: u64,
}

/// Bytes the instructions of a call cannot exceed: 16 registers loaded, the call, the jump.
const LONGEST_CODE: u64 = 16 * 10 + 2 + 14;

impl Slack {
    /// The roomiest slack of all mapped files.
    pub fn find(space: &Space, mappings: &[Mapping]) -> Option<Slack> {
        let candidates = mappings.iter().filter(|m| m.executable && !m.writable);
        let found = candidates.filter_map(|m| Slack::behind(space, m));
        found
            .max_by_key(|s| s.end - s.start)
            .filter(|s| s.end - s.start >= LONGEST_CODE)
    }

    /// What lies behind the code of an executable mapping. Only the headers are read, from memory for
    /// the vdso and from the file for all else.
    fn behind(space: &Space, mapping: &Mapping) -> Option<Slack> {
        const HEADERS: usize = 4096;
        let mut bytes = vec![0; HEADERS];
        if mapping.path == "[vdso]" {
            space.read(mapping.start, &mut bytes).ok()?;
        } else if mapping.inode != 0 {
            use std::os::unix::fs::FileExt;
            let got = space
                .open_mapped(mapping)
                .ok()?
                .read_at(&mut bytes, 0)
                .ok()?;
            bytes.truncate(got);
        } else {
            return None;
        }
        let file = ElfFile::parse(&bytes).ok()?;
        let bias = file.mapping_bias(mapping.start, mapping.file_offset)?;
        let segments = file
            .segments()
            .filter(|s| s.executable && s.file_size == s.mem_size);
        let ends = segments.map(|s| bias.wrapping_add(s.stated_end()));
        let start = ends
            .filter(|e| (mapping.start..mapping.end).contains(e))
            .max()?;
        let start = start.next_multiple_of(16);
        // No more than its page: what follows that is something else.
        let end = start.next_multiple_of(4096).min(mapping.end);
        (end > start).then_some(Slack { start, end })
    }
}

/// Has some thread of the process make a call, of which `done` tells whether it has had its effect.
pub(super) fn system_call(
    space: &Space,
    call: Call,
    done: impl Fn() -> Result<bool, PatchError> + Sync,
) -> Result<(), PatchError> {
    let pid = space.pid;
    let begin = Instant::now();
    let mut why = "none stopped";
    while begin.elapsed() < SEARCH_LIMIT {
        for tid in threads(pid)? {
            let slack = Slack::find(space, &space.mappings()?);
            let slack = slack.ok_or(PatchError::NoThread {
                pid,
                why: "no file of it has room for code",
            })?;
            match in_tracer(|| try_thread(space, tid, call, slack, &done))? {
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
    call: Call,
    slack: Slack,
    done: &(impl Fn() -> Result<bool, PatchError> + Sync),
) -> Result<Result<(), &'static str>, PatchError> {
    let Some(stopped) = Threads::stop_one(space.pid, tid, STOP_LIMIT)? else {
        return Ok(Err("it did not stop"));
    };
    let outcome = borrow(space, tid, call, slack, done);
    stopped.release();
    outcome
}

fn borrow(
    space: &Space,
    tid: i32,
    call: Call,
    slack: Slack,
    done: &(impl Fn() -> Result<bool, PatchError> + Sync),
) -> Result<Result<(), &'static str>, PatchError> {
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
    let code = instructions(call, &registers);
    let mut before = vec![0; code.len()];
    space
        .read(slack.start, &mut before)
        .map_err(PatchError::io("reading code"))?;
    space.write(slack.start, &code)?;
    let mut redirected = registers;
    redirected.rip = slack.start;
    // No call is to be restarted now: the instructions do it.
    redirected.orig_rax = u64::MAX;
    if ptrace::set_registers(tid, &redirected).is_err() {
        return Ok(Err("it is ending"));
    }
    let finished = finish(space, tid, slack)?;
    if !finished {
        // The thread will pass through the instructions yet: they stay.
        return Ok(Err("it does not come back from a signal handler"));
    }
    space.write(slack.start, &before)?;
    match done()? {
        true => Ok(Ok(())),
        false => Ok(Err("the call failed")),
    }
}

/// Lets a redirected thread run until it has left the instructions; it is stopped again then.
fn finish(space: &Space, tid: i32, slack: Slack) -> Result<bool, PatchError> {
    let begin = Instant::now();
    let range = slack.start..slack.end;
    let mut signal = 0;
    loop {
        if ptrace::resume(tid, signal).is_err() {
            return Err(PatchError::Ended(space.pid));
        }
        std::thread::sleep(HEAD_START);
        let _ = ptrace::interrupt(tid);
        let status = loop {
            match ptrace::status(tid) {
                Ok(ptrace::Status::Running) if begin.elapsed() < FINISH_LIMIT => {
                    std::thread::sleep(HEAD_START);
                }
                Ok(status) => break status,
                Err(_) => return Err(PatchError::Ended(space.pid)),
            }
        };
        signal = match status {
            ptrace::Status::Ended => return Err(PatchError::Ended(space.pid)),
            ptrace::Status::Running => return Ok(false),
            ptrace::Status::Signal(signal) => signal,
            _ => 0,
        };
        let Ok(registers) = ptrace::registers(tid) else {
            continue;
        };
        let at = super::threads::Position {
            pc: registers.rip,
            sp: registers.rsp,
        };
        let mappings = space.mappings()?;
        let away = !range.contains(&registers.rip)
            && !saved(space, &mappings, at)
                .iter()
                .any(|s| range.contains(&s.pc));
        if away && signal == 0 {
            return Ok(true);
        }
        if begin.elapsed() > FINISH_LIMIT {
            return Ok(false);
        }
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

fn instructions(call: Call, registers: &user_regs_struct) -> Vec<u8> {
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
    let [a, b, c, d, e, f] = call.arguments;
    let mut code = Vec::new();
    let arguments = [(RDI, a), (RSI, b), (RDX, c), (R10, d), (R8, e), (R9, f)];
    for (register, value) in [(RAX, call.number as u64)].into_iter().chain(arguments) {
        load(&mut code, register, value);
    }
    code.extend([0x0f, 0x05]); // syscall
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
    code
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

/// Maps memory at exactly this address, where nothing may be yet.
pub(super) fn map(
    space: &Space,
    address: u64,
    len: u64,
    protection: i32,
    flags: i32,
) -> Result<(), PatchError> {
    let flags = flags | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let arguments = [address, len, protection as u64, flags as u64, u64::MAX, 0];
    let call = Call {
        number: libc::SYS_mmap,
        arguments,
    };
    let free = space.mappings()?;
    if free
        .iter()
        .any(|m| m.start < address + len && address < m.end)
    {
        return Err(PatchError::NoMemory {
            pid: space.pid,
            len,
        });
    }
    let done = || {
        let mappings = space.mappings()?;
        match mapping_at(&mappings, address) {
            Some(m) if m.end >= address + len => Ok(true),
            _ => Err(PatchError::NoMemory {
                pid: space.pid,
                len,
            }),
        }
    };
    system_call(space, call, done)
}

/// Unmaps what is mapped in a range.
pub(super) fn unmap(space: &Space, address: u64, len: u64) -> Result<(), PatchError> {
    let arguments = [address, len, 0, 0, 0, 0];
    let call = Call {
        number: libc::SYS_munmap,
        arguments,
    };
    let done = || Ok(mapping_at(&space.mappings()?, address).is_none());
    system_call(space, call, done)
}
