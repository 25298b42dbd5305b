//! Shared by the tests of starting, ending and bad luck: processes that never outlive a test, what
//! they left in the kernel, and recordings to look into.

pub use crate::shared::*;

use dwell_recording::Tables;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Longer than anything here takes on a loaded machine: whoever is not done by then hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The user that owns nothing.
pub const NOBODY: u32 = 65534;

/// The program under test.
pub fn dwell() -> Command {
    bare_dwell()
}

/// How a process ended.
#[derive(Debug)]
pub struct Ran {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    /// Exit code, or 128 + signal, as shells tell it.
    pub fn code(&self) -> i32 {
        let by_signal = || 128 + self.status.signal().expect("a code or a signal");
        self.status.code().unwrap_or_else(by_signal)
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.stdout.clone()).expect("UTF-8")
    }

    /// Fails the test unless the exit code was 0.
    #[track_caller]
    pub fn good(self) -> Self {
        assert_eq!(self.code(), 0, "stderr: {}", self.stderr);
        self
    }

    /// Fails the test unless this was an error that is told properly: exit code 1, a message that
    /// names the program and `cause` and ends in no panic.
    #[track_caller]
    pub fn told(self, cause: &str) -> Self {
        assert_eq!(self.code(), 1, "stderr: {}", self.stderr);
        assert!(self.stderr.starts_with("dwell: "), "{}", self.stderr);
        assert!(
            self.stderr.contains(cause),
            "no {cause:?} in {}",
            self.stderr
        );
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }
}

/// A file in memory, for what a process prints: it never blocks the process, and can be read at any
/// time.
fn memory_file() -> File {
    // SAFETY: the name is a C string; the kernel gives a new descriptor or -1.
    let fd = unsafe { libc::memfd_create(c"output".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0, "memfd_create: {}", io::Error::last_os_error());
    // SAFETY: the descriptor is new and ours.
    unsafe { File::from_raw_fd(fd) }
}

fn contents(file: &File) -> Vec<u8> {
    let length = file.metadata().expect("fstat").len() as usize;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0).expect("a memory file");
    bytes
}

/// A process in a process group of its own, which is killed when this is dropped.
pub struct Process {
    child: Child,
    stdout: File,
    stderr: File,
}

impl Process {
    pub fn start(command: &mut Command) -> Self {
        command.process_group(0);
        Process::start_in_session(command)
    }

    /// For a command that makes itself a session, and with it a process group.
    pub fn start_in_session(command: &mut Command) -> Self {
        let (stdout, stderr) = (memory_file(), memory_file());
        let to = |file: &File| file.try_clone().expect("a descriptor");
        let child = command.stdout(to(&stdout)).stderr(to(&stderr)).spawn();
        let child = child.unwrap_or_else(|e| panic!("{command:?}: {e}"));
        Process {
            child,
            stdout,
            stderr,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&contents(&self.stdout)).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&contents(&self.stderr)).into_owned()
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("our child").is_none()
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: kill has no memory effects; the child is not reaped yet, so the id is its own.
        assert_eq!(unsafe { libc::kill(self.pid() as i32, signal) }, 0);
    }

    /// Waits until it has printed `text`.
    #[track_caller]
    pub fn wait_for_output(&mut self, text: &str) {
        until(&format!("{text:?} to be printed"), || {
            self.stdout().contains(text) || !self.is_alive()
        });
        assert!(self.stdout().contains(text), "ended: {}", self.stderr());
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(&mut self) -> Ran {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("our child") {
                return Ran {
                    status,
                    stdout: contents(&self.stdout),
                    stderr: self.stderr(),
                };
            }
            assert!(begun.elapsed() < PATIENCE, "hangs: {}", self.stderr());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let pid = self.pid() as i32;
        // SAFETY: no memory effects. Its group is its own, and outlives it when it left children.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command to its end.
#[track_caller]
pub fn run(command: &mut Command) -> Ran {
    Process::start(command).end()
}

/// Runs dwell to its end, in a folder.
#[track_caller]
pub fn run_in(folder: &Scratch, args: &[&str]) -> Ran {
    run(dwell().current_dir(folder.path()).args(args))
}

/// Waits until something is true.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every thread's states add up to its life: the invariant of the table.
#[track_caller]
pub fn assert_closed(tables: &Tables) {
    for t in &tables.threads {
        let sum = t.states_ns();
        assert_eq!(sum, t.until_ns - t.start_ns, "{t:?}");
    }
}

/// Losses other than of stacks: of threads, of sums, of waits. There must be none.
///
/// A thread that waits while it ends never comes back to its program, where its stack would be taken:
/// such stacks are missing, and counted. The same goes for stacks that the kernel could not schedule.
/// A switch that no program saw (an attachment met a thread midway) has no stack either; its sums are
/// rebuilt.
pub fn lost_beyond_stacks(tables: &Tables) -> Vec<(&str, u64)> {
    let losses = tables
        .meta
        .losses
        .iter()
        .map(|(name, n)| (name.as_str(), *n));
    losses
        .filter(|&(name, n)| {
            let of_stacks = [
                "wait_stacks_missing",
                "stacks_of_unseen_switches",
                "wakers_of_unseen_wakings",
            ];
            n > 0 && !of_stacks.contains(&name)
        })
        .collect()
}

/// Now, on the clock of recordings.
pub fn boottime_ns() -> u64 {
    clock_ns(libc::CLOCK_BOOTTIME)
}

/// eBPF programs, maps and links that a process holds, by kind and id.
pub struct KernelObjects(BTreeSet<(&'static str, u32)>);

impl KernelObjects {
    /// Those of a process that lives.
    pub fn of(pid: u32) -> Self {
        let mut found = BTreeSet::new();
        let folder = format!("/proc/{pid}/fdinfo");
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            for line in text.lines() {
                let Some((name, value)) = line.split_once(':') else {
                    continue;
                };
                let kinds = ["prog_id", "map_id", "link_id"];
                let kind = kinds.into_iter().find(|&kind| kind == name);
                if let (Some(kind), Ok(id)) = (kind, value.trim().parse()) {
                    found.insert((kind, id));
                }
            }
        }
        KernelObjects(found)
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn has(&self, kind: &str) -> bool {
        self.0.iter().any(|o| o.0 == kind)
    }

    /// Those that are still in the kernel.
    pub fn left(&self) -> Vec<(&'static str, u32)> {
        self.0.iter().copied().filter(|&o| exists(o)).collect()
    }

    /// Fails when they do not go away: the kernel frees them in the background, within a moment.
    #[track_caller]
    pub fn assert_gone(&self) {
        assert!(self.count() > 0, "nothing was seen, so nothing is shown");
        let begun = Instant::now();
        while !self.left().is_empty() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.left(), [], "left behind");
    }
}

/// Asks the kernel for a descriptor of the object with that id.
fn exists((kind, id): (&str, u32)) -> bool {
    let command = match kind {
        "prog_id" => 13, // BPF_PROG_GET_FD_BY_ID
        "map_id" => 14,  // BPF_MAP_GET_FD_BY_ID
        _ => 30,         // BPF_LINK_GET_FD_BY_ID
    };
    let mut attributes = [0u32; 4];
    attributes[0] = id;
    // SAFETY: the command reads 16 bytes of a bpf_attr, which `attributes` has.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_mut_ptr(), 16) };
    if fd < 0 {
        let error = io::Error::last_os_error();
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "bpf(2)");
        return false;
    }
    // SAFETY: the descriptor is new and ours; dropping closes it.
    drop(unsafe { OwnedFd::from_raw_fd(fd as i32) });
    true
}

/// A program with threads that compute, wait, do I/O and sleep, which lives until it is dropped.
pub fn mixed(folder: &Scratch) -> Process {
    let mut command = Command::new(program("mixed"));
    let process = Process::start(
        command
            .args(["--seconds", "300", "--dir"])
            .arg(folder.path()),
    );
    until("mixed to start its threads", || {
        let tasks = format!("/proc/{}/task", process.pid());
        fs::read_dir(tasks).is_ok_and(|t| t.count() >= 8)
    });
    process
}

/// Starts `dwell record -o x.dwell` with the arguments, in a folder.
pub fn recorder(folder: &Scratch, args: &[&str]) -> Process {
    let mut command = dwell();
    command.current_dir(folder.path());
    Process::start(command.args(["record", "-o", "x.dwell"]).args(args))
}

/// Makes this process the parent of orphans below it, so that none can hide.
pub fn adopt_orphans() {
    // SAFETY: sets a flag of this process.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
}

/// Process ids of the children of a process, zombies included.
pub fn children_of(parent: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = processes.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| stat_field(pid, 4) == Some(i64::from(parent)))
        .collect()
}

/// A field of /proc/PID/stat, numbered as in proc(5): 4 = parent, 5 = process group …
pub fn stat_field(pid: u32, number: usize) -> Option<i64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let rest = &text[text.rfind(')')? + 2..];
    rest.split(' ').nth(number - 3)?.parse().ok()
}

/// Lets a command run as a user without any privilege (std drops the groups along with root).
pub fn as_nobody(command: &mut Command) -> &mut Command {
    command.gid(NOBODY).uid(NOBODY)
}

/// Random numbers, another sequence at each run; the seed is told so that a failure can be repeated.
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        let seed = std::env::var("DWELL_TEST_SEED")
            .ok()
            .and_then(|s| s.parse().ok());
        let seed = seed.unwrap_or_else(boottime_ns);
        eprintln!("DWELL_TEST_SEED={seed}");
        Random(seed)
    }

    /// A number below `end` (splitmix64).
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// A terminal: what a person types, and the side that a program gets.
pub struct Terminal {
    keyboard: File,
    screen: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts a command in a session of its own, with a new terminal as its controlling one.
    pub fn start(command: &mut Command) -> (Terminal, Child) {
        let (mut master, mut slave) = (-1, -1);
        let mut size = libc::winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let null = std::ptr::null_mut();
        // SAFETY: two valid places for descriptors, no name, default modes, a valid size.
        let result =
            unsafe { libc::openpty(&mut master, &mut slave, null, null.cast(), &raw mut size) };
        assert_eq!(result, 0, "openpty: {}", io::Error::last_os_error());
        // SAFETY: both descriptors are new and ours.
        let (keyboard, slave) = unsafe { (File::from_raw_fd(master), File::from_raw_fd(slave)) };
        for end in [&keyboard, &slave] {
            // SAFETY: sets a flag of a descriptor that is ours.
            unsafe { libc::fcntl(end.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
        }
        let end = || slave.try_clone().expect("a descriptor");
        command.stdin(end()).stdout(end()).stderr(end());
        let lead = || {
            // SAFETY: system calls without memory effects, on descriptor 0, which is the terminal.
            let result = unsafe {
                // Whoever runs the tests in the background ignores it, and so would all they start.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0)
            };
            if result == 0 {
                Ok(())
            } else {
                Err(io::Error::last_os_error())
            }
        };
        // SAFETY: the closure makes system calls and allocates nothing.
        unsafe { command.pre_exec(lead) };
        let child = command.spawn().expect("spawn");
        let screen = std::sync::Arc::<std::sync::Mutex<Vec<u8>>>::default();
        let (shown, mut reader) = (screen.clone(), keyboard.try_clone().expect("a descriptor"));
        // The terminal's buffer is small: it must be read all the time. Reading fails when the last
        // process has closed its side; the thread ends with that.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = io::Read::read(&mut reader, &mut bytes) {
                shown.lock().expect("lock").extend_from_slice(&bytes[..n]);
            }
        });
        (Terminal { keyboard, screen }, child)
    }

    pub fn type_in(&mut self, text: &str) {
        io::Write::write_all(&mut self.keyboard, text.as_bytes()).expect("the terminal");
    }

    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().expect("lock")).into_owned()
    }
}

/// The end of a child that was started elsewhere; killed with its session's group when it hangs.
#[track_caller]
pub fn end_of(child: &mut Child) -> i32 {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("our child") {
            return status
                .code()
                .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        }
        if begun.elapsed() > PATIENCE {
            // SAFETY: no memory effects; the child leads its group and is not reaped.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            let _ = child.wait();
            panic!("hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A time as answers write it: `16.3 s`, `4.01 ms`.
#[track_caller]
pub fn nanoseconds(number: &str, unit: &str) -> f64 {
    let factor = match unit {
        "s" => 1e9,
        "ms" => 1e6,
        "µs" => 1e3,
        "ns" => 1.0,
        _ => panic!("unknown unit {unit}"),
    };
    number.parse::<f64>().expect("a number") * factor
}
