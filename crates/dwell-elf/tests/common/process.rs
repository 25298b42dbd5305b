//! A process that can be stopped and looked into.
use dwell_elf::step::{self, Registers, UnwindInfo};
use dwell_elf::table_step::TableModule;
use dwell_elf::{ElfFile, unwind};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, IoSliceMut};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// A file with everything that unwinding needs; kept for the life of the test.
pub struct Image {
    pub path: String,
    pub file: ElfFile<'static>,
    pub info: UnwindInfo<'static>,
}

impl Image {
    fn load(path: &str, data: Vec<u8>) -> &'static Image {
        let data: &'static [u8] = data.leak();
        let file = super::parse(path, data);
        let info = UnwindInfo::new(&file).unwrap_or_else(|e| panic!("{path}: {e}"));
        Box::leak(Box::new(Image {
            path: path.into(),
            file,
            info,
        }))
    }

    /// The image of a path, compiled once per test binary.
    pub fn of(path: &str) -> &'static Image {
        static KNOWN: OnceLock<Mutex<HashMap<String, &'static Image>>> = OnceLock::new();
        let mut known = KNOWN
            .get_or_init(Mutex::default)
            .lock()
            .expect("no test panics while loading");
        known.entry(path.into()).or_insert_with(|| {
            let data = if path == "[vdso]" {
                super::vdso()
            } else {
                std::fs::read(path).expect(path)
            };
            Image::load(path, data)
        })
    }
}

/// An executable mapping of a file.
#[derive(Clone, Copy)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    pub bias: u64,
    pub image: &'static Image,
}

/// A running program, ended when dropped.
pub struct Target {
    child: Child,
}

impl Target {
    /// Starts a program and waits until it has printed `ready` and sleeps.
    pub fn start(program: &Path, args: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("start {}: {e}", program.display()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("a line");
        assert_eq!(
            line.trim(),
            "ready",
            "{} did not get ready",
            program.display()
        );
        let target = Target { child };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !target.tids().iter().all(|&tid| target.sleeps(tid)) {
            assert!(
                Instant::now() < deadline,
                "{} does not go to sleep",
                program.display()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        target
    }

    pub fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The threads, the first one first.
    pub fn tids(&self) -> Vec<i32> {
        let list = std::fs::read_dir(format!("/proc/{}/task", self.pid())).expect("tasks");
        let mut tids: Vec<i32> = list
            .map(|e| {
                e.expect("task")
                    .file_name()
                    .to_string_lossy()
                    .parse()
                    .expect("tid")
            })
            .collect();
        tids.sort_unstable();
        tids
    }

    /// The letter that the kernel has for what a thread does; none when it is gone.
    fn state(&self, tid: i32) -> Option<char> {
        let stat = format!("/proc/{}/task/{tid}/stat", self.pid());
        let text = std::fs::read_to_string(stat).ok()?;
        text.rsplit_once(") ")?.1.chars().next()
    }

    fn sleeps(&self, tid: i32) -> bool {
        matches!(self.state(tid).expect("state"), 'S' | 'D')
    }

    /// Waits until a thread sleeps in its system call: one that another debugger has just left may
    /// stand before the call, which it is about to repeat.
    fn await_sleep(&self, tid: i32) {
        for _ in 0..5000 {
            if self.state(tid).expect("state") == 'S' {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("thread {tid} never sleeps");
    }

    /// Attaches to a thread that sleeps, stopped from then on.
    pub fn stop_asleep(&self, tid: i32) -> Stopped {
        self.await_sleep(tid);
        self.stop(tid).expect("it has not ended")
    }

    /// Attaches to a thread wherever it is, stopped from then on; none if it has ended.
    pub fn stop(&self, tid: i32) -> Option<Stopped> {
        let tid = Pid::from_raw(tid);
        if let Err(error) = ptrace::seize(tid, ptrace::Options::empty()) {
            let has_ended = matches!(self.state(tid.as_raw()), None | Some('Z' | 'X'));
            assert!(has_ended, "seize: {error}");
            return None;
        }
        ptrace::interrupt(tid).expect("interrupt");
        waitpid(tid, Some(nix::sys::wait::WaitPidFlag::__WALL)).expect("wait for the stop");
        Some(Stopped {
            pid: self.pid(),
            tid,
        })
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A thread stopped by ptrace.
pub struct Stopped {
    pid: i32,
    tid: Pid,
}

impl Drop for Stopped {
    /// A traced thread must be let go, or nobody could wait for its process' end.
    fn drop(&mut self) {
        let _ = ptrace::detach(self.tid, None);
    }
}

impl Stopped {
    /// Starts a program, stopped at its very first instruction. It ends with this thread at the latest.
    pub fn launch(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        // SAFETY: `traceme` is a single system call; it neither allocates nor takes a lock.
        unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
        let pid = command.spawn().expect("start").id() as i32;
        let tid = Pid::from_raw(pid);
        waitpid(tid, None).expect("wait");
        ptrace::setoptions(tid, ptrace::Options::PTRACE_O_EXITKILL).expect("options");
        Stopped { pid, tid }
    }

    pub fn registers(&self) -> Registers {
        let r = ptrace::getregs(self.tid).expect("registers");
        Registers::from_dwarf_order([
            r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10, r.r11,
            r.r12, r.r13, r.r14, r.r15, r.rip,
        ])
    }

    /// Executes one instruction; false when the process has ended. Signals are delivered.
    pub fn single_step(&self) -> bool {
        let mut deliver = None;
        loop {
            ptrace::step(self.tid, deliver).expect("step");
            match waitpid(self.tid, None).expect("wait") {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => return true,
                WaitStatus::Stopped(_, signal) => deliver = Some(signal),
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return false,
                _ => {}
            }
        }
    }

    /// Runs until an address is reached, by a breakpoint there.
    pub fn run_to(&self, address: u64) {
        let at = address as ptrace::AddressType;
        let word = ptrace::read(self.tid, at).expect("read code");
        ptrace::write(self.tid, at, (word & !0xff) | 0xcc).expect("write breakpoint");
        loop {
            ptrace::cont(self.tid, None).expect("continue");
            match waitpid(self.tid, None).expect("wait") {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => break,
                WaitStatus::Exited(..) | WaitStatus::Signaled(..) => {
                    panic!("ended before {address:#x}")
                }
                _ => {}
            }
        }
        ptrace::write(self.tid, at, word).expect("remove breakpoint");
        let mut registers = ptrace::getregs(self.tid).expect("registers");
        assert_eq!(registers.rip, address + 1, "stopped elsewhere");
        registers.rip = address;
        ptrace::setregs(self.tid, registers).expect("set registers");
    }

    /// The bytes of the next instruction (and what follows it).
    pub fn code(&self, address: u64) -> [u8; 16] {
        let word = |at| self.read(at).unwrap_or(0).to_le_bytes();
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&word(address));
        bytes[8..].copy_from_slice(&word(address + 8));
        bytes
    }

    pub fn read(&self, address: u64) -> Option<u64> {
        read_word(self.pid, address)
    }

    /// Every executable mapping of a file (and the vDSO).
    pub fn mappings(&self) -> Vec<Mapping> {
        mappings(self.pid)
    }
}

pub fn read_word(pid: i32, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    let remote = [RemoteIoVec {
        base: address as usize,
        len: 8,
    }];
    match process_vm_readv(
        Pid::from_raw(pid),
        &mut [IoSliceMut::new(&mut word)],
        &remote,
    ) {
        Ok(8) => Some(u64::from_le_bytes(word)),
        _ => None,
    }
}

pub fn mappings(pid: i32) -> Vec<Mapping> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    maps.lines().filter_map(mapping).collect()
}

/// `start-end perms offset device inode path`
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?;
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let path = fields.nth(2)?;
    if !permissions.contains('x') || !(path.starts_with('/') || path == "[vdso]") {
        return None;
    }
    let (start, end) = (
        u64::from_str_radix(start, 16).ok()?,
        u64::from_str_radix(end, 16).ok()?,
    );
    let image = Image::of(path);
    let bias = image.file.mapping_bias(start, offset)?;
    Some(Mapping {
        start,
        end,
        bias,
        image,
    })
}

/// The mappings as the table walk wants them.
pub fn table_modules(mappings: &[Mapping]) -> Vec<TableModule<'static>> {
    let mut modules: Vec<_> = mappings
        .iter()
        .map(|m| TableModule {
            start: m.start,
            end: m.end,
            bias: m.bias,
            table: Some(m.image.info.table()),
        })
        .collect();
    modules.sort_by_key(|m| m.start);
    modules
}

/// The mappings as the full stepper wants them.
pub fn full_modules(mappings: &[Mapping]) -> Vec<step::Module<'static>> {
    mappings
        .iter()
        .map(|m| step::Module {
            start: m.start,
            end: m.end,
            bias: m.bias,
            info: Some(&m.image.info),
        })
        .collect()
}

/// Checks that an image compiles, for tests that only need the table.
pub fn table(path: &str) -> &'static unwind::UnwindTable {
    Image::of(path).info.table()
}
