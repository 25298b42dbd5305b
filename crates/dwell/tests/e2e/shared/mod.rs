//! What every end-to-end test needs: programs, folders, recordings, the clock.

#[path = "../../../../../tests/programs/locate.rs"]
mod locate;
pub use locate::*;
#[path = "../../../../../tests/programs/stolen.rs"]
mod stolen;
pub use stolen::*;

use dwell_recording::{Recording, Tables};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that everybody may enter (servers that give up root must), removed when dropped.
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    pub fn new() -> Self {
        Scratch::within(&std::env::temp_dir())
    }

    /// On the disk of the build: waits for storage need a disk, which a temporary folder may not be.
    pub fn on_disk() -> Self {
        Scratch::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub fn within(folder: &Path) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("dwell-test-{}-{number}", std::process::id()));
        fs::create_dir(&path).expect("a folder of our own");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
        Scratch { path }
    }

    /// One for all tests of a binary, removed when the process ends: nobody drops what is static.
    pub fn until_exit() -> PathBuf {
        static FOLDERS: Mutex<Vec<Scratch>> = Mutex::new(Vec::new());
        extern "C" fn remove() {
            let folders = FOLDERS.lock().map(|mut list| std::mem::take(&mut *list));
            drop(folders);
        }
        let folder = Scratch::new();
        let path = folder.path.clone();
        FOLDERS.lock().expect("lock").push(folder);
        // SAFETY: the handler is a plain function that never unwinds.
        unsafe { libc::atexit(remove) };
        path
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The path of a file in it, as text.
    pub fn file(&self, name: &str) -> String {
        text(self.join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn text(path: PathBuf) -> String {
    path.into_os_string()
        .into_string()
        .expect("a path in UTF-8")
}

/// Runs the command that follows where the kernel's list of tracepoints is mounted, for it alone if need be.
pub const WITH_TRACEPOINTS: [&str; 6] = [
    "/usr/bin/unshare",
    "-m",
    "sh",
    "-c",
    "mountpoint -q /sys/kernel/tracing || mount -t tracefs none /sys/kernel/tracing; exec \"$@\"",
    "sh",
];

/// perf, where tracepoints are mounted: else it would mount them for good.
pub fn perf() -> Command {
    let mut command = Command::new(WITH_TRACEPOINTS[0]);
    command.args(&WITH_TRACEPOINTS[1..]).arg("perf");
    command
}

/// Whether a Python finds this true.
pub fn python_finds(python: &str, condition: &str) -> bool {
    let code = format!("import sys; sys.exit(not ({condition}))");
    let output = Command::new(python).args(["-c", &code]).output();
    output.is_ok_and(|o| o.status.success())
}

/// The Pythons of a version (`3.12`) that pyenv has installed, beside those of the distribution.
pub fn pythons_of_pyenv(version: &str) -> Vec<String> {
    let folder = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".pyenv/versions"));
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok());
    let of_version = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let minor = name.to_str().and_then(|name| name.rsplit_once('.'));
        minor.is_some_and(|(minor, _)| minor == version)
    };
    let entries = entries.into_iter().flatten().flatten().filter(of_version);
    entries
        .map(|entry| text(entry.path().join("bin/python3")))
        .collect()
}

/// True when a command, or the file of this path, is there; otherwise says what is left out. In CI
/// everything must be there.
pub fn installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // (An absolute path replaces the folder.)
    let there = std::env::split_paths(&path).any(|folder| folder.join(name).exists());
    assert!(
        there || std::env::var("CI").as_deref() != Ok("true"),
        "{name} is not installed"
    );
    if !there {
        eprintln!("{name} is not installed; what needs it is left out");
    }
    there
}

/// The program under test, with nothing on its standard input and no say from our environment, also when that is to
/// outlive its terminal (nohup).
pub fn bare_dwell() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dwell"));
    for name in ["COLUMNS", "NO_COLOR", "DEBUGINFOD_URLS", "DWELL_DEBUG_BPF"] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    // SAFETY: a system call on the process to be.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGHUP, libc::SIG_DFL);
            Ok(())
        });
    }
    command
}

/// Reads a recording.
#[track_caller]
pub fn load(path: impl AsRef<Path>) -> Tables {
    let recording = Recording::open(path).unwrap_or_else(|e| panic!("{e}"));
    recording.load().unwrap_or_else(|e| panic!("{e}"))
}

/// Now, ns of a clock.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes one timespec through a valid pointer.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
