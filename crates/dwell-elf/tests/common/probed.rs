//! A program run to its end, stopped at each of its static probes.
use super::process::read_word;
use dwell_elf::ElfFile;
use dwell_elf::static_probes::{Register, StaticProbe};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};

/// A probe that was reached, and its arguments: none for one that cannot be read.
pub struct Reached {
    pub name: String,
    pub values: Vec<Option<u64>>,
    /// What the first argument points to, if anything.
    pub pointed: Option<u64>,
}

/// Runs `program`, whose probes are `probes`; also gives what it printed.
pub fn run(program: &Path, data: &[u8], probes: &[StaticProbe]) -> (Vec<Reached>, String) {
    let (pid, mut stdout) = launch(program);
    let bias = bias(program, data, pid);
    let mut at: HashMap<u64, Vec<&StaticProbe>> = HashMap::new();
    for probe in probes {
        at.entry(probe.address.wrapping_add(bias))
            .or_default()
            .push(probe);
    }
    for &address in at.keys() {
        let place = address as ptrace::AddressType;
        let word = ptrace::read(pid, place).expect("read code");
        assert_eq!(word & 0xff, 0x90, "a probe's site is a nop");
        ptrace::write(pid, place, (word & !0xff) | 0xcc).expect("write breakpoint");
    }
    let mut reached = Vec::new();
    loop {
        ptrace::cont(pid, None).expect("continue");
        match waitpid(pid, None).expect("wait") {
            // The breakpoint stands for a one-byte nop: going on after it is all that is due.
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let rip = ptrace::getregs(pid).expect("registers").rip;
                for probe in &at[&(rip - 1)] {
                    reached.push(read(pid, probe, bias));
                }
            }
            WaitStatus::Exited(_, 0) => break,
            other => panic!("{}: {other:?}", program.display()),
        }
    }
    let mut printed = String::new();
    stdout.read_to_string(&mut printed).expect("its words");
    (reached, printed)
}

/// Runs `program` with a 1 in each of the semaphores (stated addresses); gives what it printed.
pub fn run_watched(program: &Path, data: &[u8], semaphores: &[u64]) -> String {
    let (pid, mut stdout) = launch(program);
    let bias = bias(program, data, pid);
    for semaphore in semaphores {
        let place = semaphore.wrapping_add(bias) as ptrace::AddressType;
        let word = ptrace::read(pid, place).expect("read a semaphore");
        assert_eq!(word & 0xffff, 0, "nobody else watches");
        ptrace::write(pid, place, word + 1).expect("write a semaphore");
    }
    ptrace::detach(pid, None).expect("detach");
    let mut printed = String::new();
    stdout.read_to_string(&mut printed).expect("its words");
    assert_eq!(waitpid(pid, None), Ok(WaitStatus::Exited(pid, 0)));
    printed
}

fn launch(program: &Path) -> (Pid, ChildStdout) {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    // Looking for leaks needs ptrace itself.
    command.env("ASAN_OPTIONS", "detect_leaks=0");
    // SAFETY: `traceme` is a single system call; it neither allocates nor takes a lock.
    unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
    #[allow(clippy::zombie_processes)] // waited for by its id
    let mut child = command.spawn().expect("start");
    let stdout = child.stdout.take().expect("piped");
    let pid = Pid::from_raw(child.id() as i32);
    waitpid(pid, None).expect("wait");
    ptrace::setoptions(pid, ptrace::Options::PTRACE_O_EXITKILL).expect("options");
    (pid, stdout)
}

fn bias(program: &Path, data: &[u8], pid: Pid) -> u64 {
    let file = ElfFile::parse(data).expect("an ELF file");
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let of_program = maps
        .lines()
        .find(|l| l.contains(" r-xp ") && l.ends_with(&*program.to_string_lossy()));
    let mut fields = of_program.expect("its mapping").split([' ', '-']);
    let hex = |text: Option<&str>| u64::from_str_radix(text.expect("a field"), 16).expect("hex");
    let start = hex(fields.next());
    let offset = hex(fields.nth(3));
    file.mapping_bias(start, offset).expect("a bias")
}

fn read(pid: Pid, probe: &StaticProbe, bias: u64) -> Reached {
    let r = ptrace::getregs(pid).expect("registers");
    let general = [
        r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12,
        r.r13, r.r14, r.r15,
    ];
    let vectors = ptrace::getregset::<ptrace::regset::NT_PRFPREG>(pid).expect("vector registers");
    let memory = |address, size: u8| {
        // Near the end of a page fewer bytes are there than a word.
        let word = read_word(pid.as_raw(), address).or_else(|| {
            Some(read_word(pid.as_raw(), address - 8 + u64::from(size))? >> (64 - 8 * size))
        });
        assert!(size <= 8);
        word
    };
    let values: Vec<Option<u64>> = probe
        .arguments
        .iter()
        .map(|argument| {
            let argument = argument.as_ref().ok()?;
            let value = argument.value(
                |register: Register| general[register as usize],
                |number| {
                    let words = &vectors.xmm_space[4 * usize::from(number)..];
                    u64::from(words[0]) | u64::from(words[1]) << 32
                },
                memory,
                bias,
            );
            Some(value.unwrap_or_else(|| panic!("{}: {argument:?}", probe.name)))
        })
        .collect();
    Reached {
        name: probe.name.clone(),
        pointed: values
            .first()
            .copied()
            .flatten()
            .and_then(|address| read_word(pid.as_raw(), address)),
        values,
    }
}
