//! Whose fault was it? After a crash of a boosted process the stock program is run with the same arguments, where
//! nothing that it does can matter:
//!
//! - all file systems are read-only to it, and `/run`, `/tmp` and `/var/tmp` are empty (but for the one that the program
//!   is in); of devices it has null, zero and random numbers;
//! - it has no network, sees no other process, shares no memory with any, and is `nobody`, without a way to more rights;
//! - it ends after [`TIME_LIMIT`], and everything that it started with it.
//!
//! Environment, input, folder and user of the process that crashed are not known. So only a crash tells something: the
//! stock program crashes, too. That it does not may have other reasons, and the boosted one stays off.
use super::super::trial;
use anyhow::Context;
use dwell_collector::Crash;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Longest run of a replay.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The user and the group that own nothing.
const NOBODY: u32 = 65534;
/// Memory for what it writes.
const SCRATCH: &CStr = c"size=16m,mode=1777";
/// Signals that are a crash.
const CRASHES: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGILL,
    libc::SIGBUS,
    libc::SIGTRAP,
    libc::SIGABRT,
];

/// What a replay showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The stock program crashes with the same arguments.
    Stock,
    /// It does not.
    Boosted,
    /// It was not replayed, or ended otherwise; why.
    Unknown(String),
}

impl Blame {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Blame::Stock => "replayed: the stock program crashes as well".into(),
            Blame::Boosted => {
                "replayed: the stock program does not crash, so the boosted one seems to be at fault".into()
            }
            Blame::Unknown(why) => format!("not replayed: {why}"),
        }
    }
}

/// Replays a crash on the stock program, by a process of our own that gives up what must not be touched.
pub fn replay(stock: &Path, crash: &Crash) -> Blame {
    let known = crash.whole && !crash.args.is_empty();
    if !known {
        return Blame::Unknown("its arguments are not known as a whole".into());
    }
    let mut command = Command::new("/proc/self/exe");
    command
        .arg0("dwell")
        .args(["boost", "daemon", "--replay"])
        .arg(stock)
        .arg("--")
        .args(&crash.args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let output = match trial::start(&mut command).and_then(|child| child.wait_with_output()) {
        Ok(output) => output,
        Err(why) => return Blame::Unknown(why.to_string()),
    };
    match output
        .status
        .code()
        .and_then(|code| u8::try_from(code).ok())
    {
        Some(CRASHED) => Blame::Stock,
        Some(DID_NOT) => Blame::Boosted,
        _ => Blame::Unknown(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

/// How the process that replays ends.
const CRASHED: u8 = 80;
const DID_NOT: u8 = 81;

/// What that process does.
pub fn replay_here(stock: &Path, args: &[impl AsRef<OsStr>]) -> anyhow::Result<ExitCode> {
    let (name, args) = args.split_first().context("a program has a name")?;
    shut_in(stock).context("shutting it in")?;
    let first = First::start().context("starting the first process of a namespace")?;
    let mut command = Command::new(stock);
    command
        .arg0(name)
        .args(args)
        .current_dir("/run")
        .env_clear()
        .env(
            "PATH",
            "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        )
        .env("HOME", "/run")
        .env("TMPDIR", "/run")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .uid(NOBODY)
        .gid(NOBODY);
    // SAFETY: both are single system calls, which may be made between fork and exec.
    unsafe {
        command.pre_exec(|| {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            done(libc::setrlimit(libc::RLIMIT_CORE, &none))?;
            done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        });
    }
    let mut child = command
        .spawn()
        .with_context(|| format!("running {}", stock.display()))?;
    let end = Instant::now() + TIME_LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > end {
            // Before the first process: that ends when nobody else is left of its namespace, also nobody to be waited for.
            child.kill()?;
            child.wait()?;
            anyhow::bail!("it did not end within {} s", TIME_LIMIT.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    drop(first);
    let crashed = status
        .signal()
        .is_some_and(|signal| CRASHES.contains(&signal));
    Ok(ExitCode::from(if crashed { CRASHED } else { DID_NOT }))
}

fn done(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Namespaces of our own, in which nothing can be written to but some memory. Children get a numbering of their own.
fn shut_in(program: &Path) -> io::Result<()> {
    let spaces = libc::CLONE_NEWNS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWPID;
    // SAFETY: unshare takes numbers; this process has one thread.
    done(unsafe { libc::unshare(spaces) })?;
    mount(None, c"/", None, libc::MS_REC | libc::MS_PRIVATE, None)?;
    read_only()?;
    let tmpfs = |at: &CStr| {
        mount(
            Some(c"tmpfs"),
            at,
            Some(c"tmpfs"),
            libc::MS_NOSUID,
            Some(SCRATCH),
        )
    };
    devices(tmpfs)?;
    for (at, folder) in [
        (c"/run", "/run"),
        (c"/tmp", "/tmp"),
        (c"/var/tmp", "/var/tmp"),
    ] {
        if !program.starts_with(folder) && Path::new(folder).is_dir() {
            tmpfs(at)?;
        }
    }
    Ok(())
}

/// Everything that is mounted.
fn read_only() -> io::Result<()> {
    let attr = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the path ends with a zero, and the attributes are of the size that is told.
    let result = unsafe {
        let (path, flags) = (c"/".as_ptr(), libc::AT_RECURSIVE);
        let attr = (&raw const attr, size_of_val(&attr));
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            path,
            flags,
            attr.0,
            attr.1,
        )
    };
    done(result as i32)
}

/// A folder of devices that harm nobody. It is put together in `/run`.
fn devices(tmpfs: impl Fn(&CStr) -> io::Result<()>) -> io::Result<()> {
    tmpfs(c"/run")?;
    let harmless = [
        (c"/dev/null", c"/run/null"),
        (c"/dev/zero", c"/run/zero"),
        (c"/dev/random", c"/run/random"),
        (c"/dev/urandom", c"/run/urandom"),
    ];
    for (device, copy) in harmless {
        std::fs::write(Path::new(OsStr::new(&*copy.to_string_lossy())), "")?;
        mount(Some(device), copy, None, libc::MS_BIND, None)?;
    }
    mount(
        Some(c"/run"),
        c"/dev",
        None,
        libc::MS_BIND | libc::MS_REC,
        None,
    )
}

fn mount(
    what: Option<&CStr>,
    at: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let text = |text: Option<&CStr>| text.map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: each of the strings ends with a zero, or is not there, which the call knows.
    done(unsafe {
        libc::mount(
            text(what),
            at.as_ptr(),
            text(kind),
            flags,
            text(options).cast(),
        )
    })
}

/// The first process of the namespace, with whose end all others end. The program is another, since the first one is
/// spared signals that it sends itself (`abort`).
struct First(libc::pid_t);

impl First {
    fn start() -> io::Result<Self> {
        let mut ends = [0; 2];
        // SAFETY: the array has room for two descriptors. The child of this process, which has one thread, makes system
        // calls only, on memory that is its own, and never returns.
        unsafe {
            done(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC))?;
            match libc::fork() {
                -1 => Err(io::Error::last_os_error()),
                0 => {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
                    // What it sees of processes must be its own namespace's.
                    let flags = libc::MS_RDONLY | libc::MS_NOSUID;
                    let mounted = mount(Some(c"proc"), c"/proc", Some(c"proc"), flags, None);
                    let told = u8::from(mounted.is_ok());
                    libc::write(ends[1], (&raw const told).cast(), 1);
                    loop {
                        libc::pause();
                    }
                }
                child => {
                    let first = First(child);
                    let mut told = 0u8;
                    libc::close(ends[1]);
                    let read = libc::read(ends[0], (&raw mut told).cast(), 1);
                    libc::close(ends[0]);
                    match (read, told) {
                        (1, 1) => Ok(first),
                        _ => Err(io::Error::other("/proc cannot be mounted")),
                    }
                }
            }
        }
    }
}

impl Drop for First {
    fn drop(&mut self) {
        // SAFETY: numbers only; the child is ours and not yet waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}
