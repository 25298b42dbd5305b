//! Holds a program that is about to be executed at its first instruction, when its loader has done its
//! work: its libraries are mapped and relocated, their constructors have run, and nothing of its own has.
//!
//! The process is traced from before the exec until it has executed the program. There a nap is put before
//! the first instruction (`entry_nap`), and the process let go. When it naps, its only thread is moved to a
//! longer one, in a system call of code that is there anyway and that returns to the first instruction, which
//! is as it was again. We end the nap when all is done. Either ends by itself when we do not live to do that:
//! there is no instant at which our end is the program's.
//!
//! A 32-bit program, in which nothing is patched, stays where its exec has stopped it, before its loader, for as long as
//! a thread of ours traces it.
use super::entry_nap::EntryNap;
use super::space::{Mapping, Space, is_zombie};
use super::threads::{Threads, in_tracer};
use super::{PatchError, ptrace};
use libc::user_regs_struct;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a loader may take; a program with many libraries on a slow disk takes seconds.
const LOADER_LIMIT: Duration = Duration::from_secs(60);
/// How long the nap lasts when nobody ends it, s.
const NAP_SECONDS: u64 = 10;
/// How long a thread may take to stop.
const STOP_LIMIT: Duration = Duration::from_millis(200);
/// Between two looks.
const POLL: Duration = Duration::from_micros(50);

/// `syscall; ret`: every libc, loader or vdso has it somewhere.
const SYSTEM_CALL_AND_RETURN: [u8; 3] = [0x0f, 0x05, 0xc3];
/// Code segment of 32-bit programs.
const SHORT_MODE: u64 = 0x23;
/// The key of the first instruction in the auxiliary vector.
const AT_ENTRY: u64 = 9;
/// Where below the stack pointer the nap's length is written: nothing is there yet.
const NAP_BELOW: u64 = 256;

/// A process that is about to execute a program.
pub struct AtEntry {
    led: Receiver<Result<Led, PatchError>>,
    release: Sender<()>,
    tracer: JoinHandle<()>,
}

/// A program that has executed nothing of its own yet.
pub struct Held(Hold);

/// How it is held.
enum Hold {
    Nap(Box<Nap>),
    /// It is stopped while somebody can be told to let it go: the tracing thread waits for the end of the channel.
    Stop {
        release: Sender<()>,
        tracer: JoinHandle<()>,
    },
}

/// Where a program naps.
struct Nap {
    pid: i32,
    /// At its first instruction.
    registers: user_regs_struct,
    /// Where its thread sleeps: the address of the system call.
    call: u64,
}

/// Where a program was led.
enum Led {
    Napping(Box<Nap>),
    /// Code of 32 bits, stopped at its exec.
    Short,
    /// It runs or has ended.
    Gone,
}

impl AtEntry {
    /// Begins to trace a process, of one thread, that will execute a program.
    pub fn expect(pid: i32) -> Result<AtEntry, PatchError> {
        let (tell, told) = mpsc::channel();
        let (tell_led, led) = mpsc::channel();
        let (release, released) = mpsc::channel();
        let tracer = std::thread::Builder::new().name("dwell-entry".into());
        let tracer = tracer.spawn(move || {
            let seized = ptrace::seize_for_exec(pid);
            let is_traced = seized.is_ok();
            let _ = tell.send(seized);
            if !is_traced {
                return;
            }
            let led = lead_to_entry(pid);
            let is_short = matches!(led, Ok(Led::Short));
            let _ = tell_led.send(led);
            if is_short {
                let _ = released.recv();
            }
            // The end of this thread lets go of the process.
        });
        let tracer = tracer.map_err(PatchError::io("starting a thread"))?;
        match told.recv() {
            Ok(Err(error)) => Err(PatchError::NotAllowed { pid, error }),
            _ => Ok(AtEntry {
                led,
                release,
                tracer,
            }),
        }
    }

    /// Waits until the program is held. None when it has ended before, or runs already: a signal stopped it on its way.
    pub fn held(self) -> Result<Option<Held>, PatchError> {
        let AtEntry {
            led,
            release,
            tracer,
        } = self;
        let Ok(led) = led.recv() else {
            // It told nothing: it panicked, or has not traced at all.
            let ended = tracer.join();
            return ended.map_or_else(|panic| std::panic::resume_unwind(panic), |()| Ok(None));
        };
        Ok(match led? {
            Led::Napping(nap) => Some(Held(Hold::Nap(nap))),
            Led::Short => Some(Held(Hold::Stop { release, tracer })),
            Led::Gone => None,
        })
    }
}

impl Held {
    /// Whether it can be patched: its loader has done its work, and it is of 64 bits.
    pub fn is_loaded(&self) -> bool {
        matches!(self.0, Hold::Nap(_))
    }

    /// Lets the program begin.
    pub fn begin(self) -> Result<(), PatchError> {
        match self.0 {
            Hold::Nap(nap) => nap.end(),
            Hold::Stop { release, tracer } => {
                drop(release);
                let _ = tracer.join();
                Ok(())
            }
        }
    }
}

impl Nap {
    fn end(self) -> Result<(), PatchError> {
        in_tracer(|| {
            let Some(stopped) = Threads::stop_one(self.pid, self.pid, STOP_LIMIT)? else {
                return Ok(()); // the nap ends by itself
            };
            if let Ok(now) = ptrace::registers(self.pid)
                && self.is_napping(&now)
            {
                let _ = ptrace::set_registers(self.pid, &self.registers);
            }
            stopped.release();
            Ok(())
        })
    }

    /// At the call, to begin it anew, or behind it.
    fn is_napping(&self, now: &user_regs_struct) -> bool {
        let is_there = now.rip == self.call || now.rip == self.call + 2;
        is_there && now.rsp == self.registers.rsp - 8
    }
}

fn lead_to_entry(pid: i32) -> Result<Led, PatchError> {
    let begin = Instant::now();
    if await_stop(pid, begin, |status| status == ptrace::Status::Event)?.is_none() {
        return Ok(Led::Gone);
    }
    if ptrace::registers(pid).is_ok_and(|r| r.cs == SHORT_MODE) {
        return Ok(Led::Short);
    }
    let Some(entry) = entry_of(pid) else {
        return Ok(Led::Gone);
    };
    let space = Space::open(pid)?;
    let Some(before) = EntryNap::plan(&space, entry)? else {
        return Ok(Led::Gone);
    };
    before.put(&space)?;
    let _ = ptrace::detach(pid, 0);
    while begin.elapsed() < LOADER_LIMIT && !is_zombie(pid, pid) {
        if before.is_taken(pid)
            && let Some(held) = take_back(&space, &before, |at_entry| nap(&space, at_entry))?
        {
            return Ok(held.map_or(Led::Gone, |nap| Led::Napping(nap.into())));
        }
        std::thread::sleep(POLL);
    }
    // It has ended, or its loader takes too long: it is to begin as if we had not been there.
    if !is_zombie(pid, pid) {
        // If it does not stop, the nap ends by itself.
        take_back(&space, &before, |at_entry| {
            let _ = ptrace::set_registers(pid, &at_entry);
            Ok(None::<Nap>)
        })?;
    }
    Ok(Led::Gone)
}

/// Takes the nap back. A program that is in it goes on `from_entry`, with the registers of its first instruction. None
/// when it did not stop.
fn take_back<T>(
    space: &Space,
    before: &EntryNap,
    from_entry: impl FnOnce(user_regs_struct) -> Result<Option<T>, PatchError>,
) -> Result<Option<Option<T>>, PatchError> {
    let Some(stopped) = Threads::stop_one(space.pid, space.pid, STOP_LIMIT)? else {
        return Ok(None);
    };
    let mut made = None;
    if let Ok(mut registers) = ptrace::registers(space.pid) {
        if before.is_at(registers.rip) {
            registers.rip = before.entry();
            registers.orig_rax = u64::MAX;
            made = from_entry(registers)?;
        }
        before.take_back(space)?;
    }
    stopped.release();
    Ok(Some(made))
}

/// Waits for the stop that is wanted and returns the registers; signals on the way are delivered. None
/// when the process has ended or something else has stopped it: then it is to be let go.
fn await_stop(
    pid: i32,
    begin: Instant,
    is_wanted: impl Fn(ptrace::Status) -> bool,
) -> Result<Option<user_regs_struct>, PatchError> {
    let mut asked = false;
    loop {
        let status = ptrace::status(pid).map_err(PatchError::io("waiting for a program"))?;
        match status {
            status if is_wanted(status) => return Ok(ptrace::registers(pid).ok()),
            ptrace::Status::Signal(signal) => {
                let _ = ptrace::resume(pid, signal);
            }
            ptrace::Status::Running => {}
            _ => return Ok(None),
        }
        if begin.elapsed() > LOADER_LIMIT && !asked {
            // It stops, and that is not what is wanted.
            asked = ptrace::interrupt(pid).is_ok();
        }
        std::thread::sleep(POLL);
    }
}

/// The first instruction of the program that a process runs.
pub fn entry_of(pid: i32) -> Option<u64> {
    let bytes = std::fs::read(format!("{}/auxv", dwell_maps::folder(pid as u32))).ok()?;
    let (words, _) = bytes.as_chunks();
    let (pairs, _) = words.as_chunks::<2>();
    let pair = pairs.iter().find(|p| u64::from_le_bytes(p[0]) == AT_ENTRY);
    pair.map(|p| u64::from_le_bytes(p[1]))
}

/// Puts a stopped thread to sleep before the instruction that these registers stand at; it begins when it
/// is let go. None, with the thread at that instruction, when there is no code to sleep in.
fn nap(space: &Space, registers: user_regs_struct) -> Result<Option<Nap>, PatchError> {
    let pid = space.pid;
    let Some(call) = find_call(space, &space.mappings()?) else {
        let _ = ptrace::set_registers(pid, &registers);
        return Ok(None);
    };
    let length = registers.rsp - NAP_BELOW;
    let timespec: Vec<u8> = [NAP_SECONDS, 0]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    space.write(length, &timespec)?;
    space.write(registers.rsp - 8, &registers.rip.to_le_bytes())?;
    // A program begins with its stack pointer and rdx; the call changes neither, nor does the rest matter.
    let asleep = user_regs_struct {
        rip: call,
        rsp: registers.rsp - 8,
        rax: libc::SYS_nanosleep as u64,
        orig_rax: u64::MAX,
        rdi: length,
        rsi: 0,
        ..registers
    };
    ptrace::set_registers(pid, &asleep).map_err(PatchError::io("setting registers"))?;
    Ok(Some(Nap {
        pid,
        registers,
        call,
    }))
}

/// The address of a system call with a return behind it, in the smallest mapping that has one.
fn find_call(space: &Space, mappings: &[Mapping]) -> Option<u64> {
    let mut code: Vec<&Mapping> = mappings.iter().filter(|m| m.executable).collect();
    code.sort_by_key(|m| m.end - m.start);
    code.into_iter().find_map(|mapping| {
        let mut bytes = vec![0; (mapping.end - mapping.start) as usize];
        let got = space.read_some(mapping.start, &mut bytes);
        let found = bytes[..got]
            .windows(SYSTEM_CALL_AND_RETURN.len())
            .position(|w| w == SYSTEM_CALL_AND_RETURN)?;
        Some(mapping.start + found as u64)
    })
}
