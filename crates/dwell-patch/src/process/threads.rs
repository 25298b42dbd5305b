//! Stops the threads of a process and lets them go.
use super::PatchError;
use super::ptrace::{self, Status};
use super::space::{is_zombie, status_field, threads};
use super::vforked;
use libc::user_regs_struct;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

/// `-EINTR` and `-ERESTARTNOHAND` as a stopped system call holds them in rax.
const EINTR: u64 = -4i64 as u64;
const ERESTARTNOHAND: u64 = -514i64 as u64;
/// Least and longest time between two looks at threads that have not stopped.
const POLL: Duration = Duration::from_micros(20);
const LONGEST_POLL: Duration = Duration::from_millis(1);
/// What a thread needs of a processor to come to its stop: the time between is so long per thread, since looks keep those
/// from it that wait for this processor.
const TO_STOP: Duration = Duration::from_micros(10);
/// How long threads are waited for before it is asked what keeps them, once no more stop; then after twice that, and
/// so on.
const FIRST_ASKED: Duration = Duration::from_micros(500);

/// Where a thread stands in user space.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub pc: u64,
    pub sp: u64,
}

/// A thread that runs no instruction until it is let go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub tid: i32,
    pub at: Position,
    /// Stopped by us, or asleep in the kernel with the stop pending.
    stopped: bool,
    /// A signal to deliver when it is let go.
    signal: i32,
}

/// Traced threads of a process.
pub(super) struct Threads {
    pid: i32,
    held: Vec<Held>,
    waiting: Vec<i32>,
    /// All of them are wanted, not one.
    is_whole: bool,
    /// Processes that run in its memory, each with the thread that waits until it does so no more.
    vforked: Vec<(i32, i32)>,
    since: Instant,
}

/// A thread that does not stop.
#[derive(Clone, Debug)]
pub(super) struct Unstopped {
    pub tid: i32,
    /// Its name, and what it does instead.
    pub what: String,
}

impl Threads {
    fn new(pid: i32, is_whole: bool) -> Threads {
        Threads {
            pid,
            is_whole,
            held: Vec::new(),
            waiting: Vec::new(),
            vforked: Vec::new(),
            since: Instant::now(),
        }
    }

    /// Stops every thread, those that are born meanwhile and children of vfork too. Gives up, letting all run, when
    /// one has not stopped within `limit`; the error is that thread.
    pub fn stop_all(pid: i32, limit: Duration) -> Result<Result<Threads, Unstopped>, PatchError> {
        let mut all = Threads::new(pid, true);
        loop {
            let known = all.held.len() + all.waiting.len();
            all.seize_new()?;
            if all.held.len() + all.waiting.len() == known && all.waiting.is_empty() {
                return match all.held.is_empty() {
                    true => Err(PatchError::Ended(pid)),
                    false => Ok(Ok(all)),
                };
            }
            if let Err(tid) = all.wait(limit)? {
                let unstopped = Unstopped::look_at(tid);
                all.release();
                return Ok(Err(unstopped));
            }
        }
    }

    /// Stops one thread; none when it does not stop within `limit`.
    pub fn stop_one(pid: i32, tid: i32, limit: Duration) -> Result<Option<Threads>, PatchError> {
        let mut one = Threads::new(pid, false);
        one.seize(tid)?;
        let stopped = one.wait(limit)?.is_ok() && one.held.iter().any(|h| h.stopped);
        if stopped {
            return Ok(Some(one));
        }
        one.release();
        Ok(None)
    }

    /// The threads that are held.
    pub fn held(&self) -> &[Held] {
        &self.held
    }

    fn seize_new(&mut self) -> Result<(), PatchError> {
        for tid in threads(self.pid)? {
            let known = self.held.iter().any(|h| h.tid == tid) || self.waiting.contains(&tid);
            if !known {
                self.seize(tid)?;
            }
        }
        Ok(())
    }

    fn seize(&mut self, tid: i32) -> Result<(), PatchError> {
        if let Err(error) = ptrace::seize(tid) {
            return if is_zombie(self.pid, tid) {
                Ok(())
            } else {
                Err(self.refusal(tid, error))
            };
        }
        self.waiting.push(tid);
        // It may have ended since.
        let _ = ptrace::interrupt(tid);
        Ok(())
    }

    fn refusal(&self, tid: i32, error: io::Error) -> PatchError {
        let pid = self.pid;
        let tracer = status_field(pid, tid, "TracerPid").and_then(|t| t.parse().ok());
        match tracer {
            Some(tracer) if tracer != 0 => PatchError::Traced { pid, tracer },
            _ if error.raw_os_error() == Some(libc::ESRCH) => PatchError::Ended(pid),
            _ => PatchError::NotAllowed { pid, error },
        }
    }

    /// Waits until all traced threads are held; the error is one that is not within the limit.
    fn wait(&mut self, limit: Duration) -> Result<Result<(), i32>, PatchError> {
        let mut asked = FIRST_ASKED;
        loop {
            let before = self.waiting.len();
            for tid in std::mem::take(&mut self.waiting) {
                self.look_at(tid)?;
            }
            if self.waiting.len() == before && self.since.elapsed() > asked {
                asked *= 2;
                self.waiting.retain(|tid| !is_gone(*tid));
                self.look_at_vforks();
            }
            let Some(&tid) = self.waiting.first() else {
                return Ok(Ok(()));
            };
            if self.since.elapsed() > limit {
                self.hold_sleepers();
                return Ok(if self.waiting.is_empty() {
                    Ok(())
                } else {
                    Err(tid)
                });
            }
            let to_stop = TO_STOP * self.waiting.len() as u32;
            std::thread::sleep(to_stop.clamp(POLL, LONGEST_POLL));
        }
    }

    fn look_at(&mut self, tid: i32) -> Result<(), PatchError> {
        match ptrace::status(tid) {
            Ok(Status::Running) => self.waiting.push(tid),
            Ok(Status::Ended) => {
                // The end of the first thread is its parent's business, which may be us.
                if tid != self.pid {
                    ptrace::bury(tid);
                }
            }
            Ok(status) => {
                let signal = if let Status::Signal(signal) = status {
                    signal
                } else {
                    0
                };
                self.hold(tid, signal);
            }
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {}
            Err(error) => return Err(PatchError::io(format!("waiting for thread {tid}"))(error)),
        }
        Ok(())
    }

    fn hold(&mut self, tid: i32, signal: i32) {
        // A thread that is killed while it is stopped has no registers, and runs no code either.
        let Ok(mut registers) = ptrace::registers(tid) else {
            return;
        };
        hide_interruption(tid, &mut registers);
        let is_over =
            |(child, parent): &(i32, i32)| *child == tid && !vforked::shares_memory(*parent, tid);
        if self.vforked.iter().any(is_over) {
            // It has begun another program meanwhile, and what it waits for is over.
            let _ = ptrace::detach(tid, signal);
            return;
        }
        let at = Position {
            pc: registers.rip,
            sp: registers.rsp,
        };
        self.held.push(Held {
            tid,
            at,
            stopped: true,
            signal,
        });
    }

    /// Takes threads that sleep uninterruptibly for held: our request to stop comes first when they
    /// wake. Not so a parent in vfork, unless its child is held: that runs in this memory.
    fn hold_sleepers(&mut self) {
        for tid in std::mem::take(&mut self.waiting) {
            let sleep = Sleep::of(tid).filter(|s| !s.makes_process());
            self.hold_asleep(tid, sleep);
        }
        // Its child may be among them.
        self.look_at_vforks();
    }

    fn hold_asleep(&mut self, tid: i32, sleep: Option<Sleep>) {
        match sleep {
            Some(Sleep { at, .. }) => self.held.push(Held {
                tid,
                at,
                stopped: false,
                signal: 0,
            }),
            None => self.waiting.push(tid),
        }
    }

    /// A parent in vfork sleeps until its child, which runs in the same memory, has another one or has ended: that may
    /// be long. The child is stopped instead, and as long as it is its parent does not run.
    fn look_at_vforks(&mut self) {
        if !self.is_whole {
            return;
        }
        for tid in std::mem::take(&mut self.waiting) {
            let sleep = Sleep::of(tid).filter(Sleep::makes_process);
            let child = sleep.as_ref().and_then(|_| vforked::child_of(tid));
            let is_held = |child: i32| self.held.iter().any(|h| h.tid == child);
            let is_asleep = child.is_some_and(is_held);
            self.hold_asleep(tid, sleep.filter(|_| is_asleep));
            if let Some(child) = child.filter(|c| !self.vforked.iter().any(|v| v.0 == *c)) {
                self.vforked.push((child, tid));
                // One that may not be traced is waited for.
                let _ = self.seize(child);
            }
        }
    }

    /// Sets where a stopped thread goes on; false when it is asleep instead.
    pub fn set_pc(&self, held: &Held, pc: u64) -> bool {
        let set = || {
            let mut registers = ptrace::registers(held.tid)?;
            registers.rip = pc;
            ptrace::set_registers(held.tid, &registers)
        };
        held.stopped && set().is_ok()
    }

    /// Notes a signal that is to be delivered to the only thread.
    pub fn owe_signal(&mut self, signal: i32) {
        for held in &mut self.held {
            held.signal = signal;
        }
    }

    /// Lets all threads run untraced. Returns how long the first was held.
    pub fn release(self) -> Duration {
        for held in self.held.iter().filter(|h| h.stopped) {
            let _ = ptrace::detach(held.tid, held.signal);
        }
        // What has not stopped cannot be let go of; the end of the tracing thread does that, see
        // `in_tracer`.
        self.since.elapsed()
    }
}

/// Runs an operation in a thread of its own: when that ends, the kernel lets go of everything it still
/// traces, stopped or not.
pub(super) fn in_tracer<T: Send>(operation: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let tracer = scope.spawn(|| {
            come_first();
            operation()
        });
        tracer
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Puts this thread before all others, where that is allowed: while it waits for a processor, the
/// target waits too. It sleeps between its looks.
fn come_first() {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the structure is read during the call; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const priority) };
}

fn is_gone(tid: i32) -> bool {
    !fs::exists(format!("/proc/{tid}")).unwrap_or(false) || is_zombie(tid, tid)
}

/// Some system calls end with EINTR when a thread is stopped, although no handler runs. What the
/// kernel does for all others is done for them: they begin anew, unless a handler does run.
fn hide_interruption(tid: i32, registers: &mut user_regs_struct) {
    const CALLS: [i64; 8] = [
        libc::SYS_epoll_wait,
        libc::SYS_epoll_pwait,
        libc::SYS_epoll_pwait2,
        libc::SYS_rt_sigtimedwait,
        libc::SYS_semop,
        libc::SYS_semtimedop,
        libc::SYS_io_getevents,
        libc::SYS_msgrcv,
    ];
    if registers.rax == EINTR && CALLS.contains(&(registers.orig_rax as i64)) {
        registers.rax = ERESTARTNOHAND;
        let _ = ptrace::set_registers(tid, registers);
    }
}

/// Where a thread sleeps, and in which system call; negative in a fault.
pub(super) struct Sleep {
    call: i64,
    pub at: Position,
}

impl Sleep {
    /// None when the thread runs, or waits to.
    pub fn of(tid: i32) -> Option<Sleep> {
        let text = fs::read_to_string(format!("/proc/{tid}/syscall")).ok()?;
        let mut fields = text.split_whitespace();
        let call = fields.next()?.parse().ok()?;
        let numbers: Vec<u64> = fields
            .filter_map(|f| u64::from_str_radix(f.trim_start_matches("0x"), 16).ok())
            .collect();
        let [.., sp, pc] = numbers[..] else {
            return None;
        };
        let at = Position { pc, sp };
        Some(Sleep { call, at })
    }

    /// Whether the thread makes a process or a thread: of vfork and its like the thread returns only when the child no
    /// longer needs its memory.
    fn makes_process(&self) -> bool {
        [libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3].contains(&self.call)
    }
}

impl Unstopped {
    fn look_at(tid: i32) -> Unstopped {
        let name = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        let state = status_field(tid, tid, "State").unwrap_or_default();
        let doing = match (Sleep::of(tid), state.chars().next()) {
            (Some(sleep), _) if sleep.makes_process() => {
                "it waits in vfork for a child that does not stop".to_owned()
            }
            (_, Some('R')) => "it waits for a processor".to_owned(),
            _ => format!("its state is {state}"),
        };
        let what = format!("({}): {doing}", name.trim_end());
        Unstopped { tid, what }
    }
}
