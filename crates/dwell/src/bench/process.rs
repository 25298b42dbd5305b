//! Child processes: held back until a tool has attached, timed by the kernel.
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder for what runs leave behind; removed with everything in it. Others may enter it: a server that
/// gives up root must.
pub fn scratch() -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix("dwell-bench-")
        .permissions(Permissions::from_mode(0o755))
        .tempdir()
        .context("making a temporary folder; TMPDIR names another place")
}

/// Records a command by this very program into the folder `to`.
pub fn record(options: &[&str], to: &Path, command: &[impl AsRef<OsStr>]) -> Result<()> {
    let output = Command::new(std::env::current_exe()?)
        .args(["record", "-q"])
        .args(options)
        .arg("-o")
        .arg(to)
        .arg("--")
        .args(command)
        .stdin(Stdio::null())
        .output()?;
    ensure!(
        output.status.success(),
        "recording failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// How a child ended.
pub struct Ended {
    /// Processor time of the child and of the children it waited for, seconds.
    pub cpu_s: f64,
    /// Its peak resident memory, bytes.
    pub peak_rss_bytes: u64,
    /// True when it exited with code 0.
    pub success: bool,
}

/// Waits for a child and tells what it used.
pub fn wait(child: &Child) -> Result<Ended> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of that plain struct of integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live locals of the types wait4 writes; the pid is an own child
    // that nothing else has waited for.
    let pid = unsafe { libc::wait4(child.id() as libc::pid_t, &mut status, 0, &mut usage) };
    if pid < 0 {
        bail!(
            "waiting for pid {}: {}",
            child.id(),
            std::io::Error::last_os_error()
        );
    }
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    Ok(Ended {
        cpu_s: seconds(usage.ru_utime) + seconds(usage.ru_stime),
        peak_rss_bytes: usage.ru_maxrss as u64 * 1024,
        success: libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
    })
}

/// Sends a signal; a process that has just ended is no error.
pub fn signal(child: &Child, signal: i32) {
    // SAFETY: kill takes no pointers; the pid is a child that has not been waited for, so it cannot
    // belong to another process.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

/// True once the child has ended. Does not reap it, so that [`wait`] still can.
pub fn has_ended(child: &Child) -> bool {
    // SAFETY: an all-zero siginfo_t is a valid value; WNOWAIT leaves the child waitable.
    unsafe {
        let mut info: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_PID, child.id(), &mut info, flags) == 0 && info.si_pid() != 0
    }
}

/// Waits until the child has ended; false when it takes longer than `limit`.
pub fn ends_within(child: &Child, limit: Duration) -> bool {
    let start = Instant::now();
    while !has_ended(child) {
        if start.elapsed() > limit {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// A command that exists as a process already but begins only when released, so that a profiler can
/// attach to it first.
pub struct Gated {
    child: Child,
    gate: Option<ChildStdin>,
    output: PathBuf,
    name: String,
}

impl Gated {
    /// Starts the process. Its output goes to a file in `scratch`.
    pub fn spawn(scratch: &Path, program: &Path, arguments: &[String]) -> Result<Self> {
        let output = scratch.join("output");
        let file =
            File::create(&output).with_context(|| format!("cannot write {}", output.display()))?;
        let mut child = Command::new("/bin/sh")
            .args(["-c", "read go && exec \"$0\" \"$@\" </dev/null"])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .context("cannot start /bin/sh")?;
        let gate = child.stdin.take();
        Ok(Gated {
            child,
            gate,
            output,
            name: program.display().to_string(),
        })
    }

    /// Its process id, which the command will have.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the command begin.
    pub fn release(&mut self) -> Result<()> {
        use std::io::Write;
        let mut gate = self.gate.take().context("released twice")?;
        gate.write_all(b"go\n")
            .with_context(|| format!("{} ended before it began", self.name))
    }

    /// Waits for its end; gives what it printed and what it used.
    pub fn finish(self) -> Result<(String, Ended)> {
        let ended = wait(&self.child)?;
        let output = String::from_utf8_lossy(&fs::read(&self.output)?).into_owned();
        if !ended.success {
            bail!(
                "{} failed: {}",
                self.name,
                output.lines().last().unwrap_or("it printed nothing")
            );
        }
        Ok((output, ended))
    }
}

/// Processor time of a process, of its living descendants and of those they waited for, seconds.
///
/// To the nanosecond for living threads (`schedstat`), to the clock tick (10 ms) for the sum over
/// dead children.
pub fn tree_cpu_s(pid: u32) -> f64 {
    let stats: Vec<Stat> = numbered_entries("/proc").filter_map(Stat::read).collect();
    let mut members = vec![pid];
    let mut at = 0;
    while at < members.len() {
        let parent = members[at];
        members.extend(stats.iter().filter(|s| s.parent == parent).map(|s| s.pid));
        at += 1;
    }
    // SAFETY: sysconf takes no pointers.
    let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let dead: u64 = stats
        .iter()
        .filter(|s| members.contains(&s.pid))
        .map(|s| s.dead_children_ticks)
        .sum();
    let living: u64 = members.iter().map(|&pid| living_threads_ns(pid)).sum();
    dead as f64 / ticks_per_s + living as f64 / 1e9
}

/// The entries of a folder of /proc whose names are numbers.
fn numbered_entries(folder: &str) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Processor time of the threads of a process that live, ns.
fn living_threads_ns(pid: u32) -> u64 {
    let schedstat = |tid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok();
    let run_ns = |text: String| text.split_whitespace().next()?.parse::<u64>().ok();
    numbered_entries(&format!("/proc/{pid}/task"))
        .filter_map(|tid| run_ns(schedstat(tid)?))
        .sum()
}

/// The fields of `/proc/PID/stat` that count here.
struct Stat {
    pid: u32,
    parent: u32,
    /// User and system time of its waited-for children, clock ticks.
    dead_children_ticks: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may hold spaces and parentheses; what follows the last one does not.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        let dead_children_ticks = fields
            .get(13..15)?
            .iter()
            .filter_map(|f| f.parse::<u64>().ok())
            .sum();
        Some(Stat {
            pid,
            parent: fields.get(1)?.parse().ok()?,
            dead_children_ticks,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gated_command_begins_when_released() {
        let scratch = scratch().unwrap();
        let arguments = [
            "-c".to_owned(),
            "echo begun; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done".to_owned(),
        ];
        let mut gated = Gated::spawn(scratch.path(), Path::new("/bin/sh"), &arguments).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(
            fs::read_to_string(scratch.path().join("output")).unwrap(),
            ""
        );
        gated.release().unwrap();
        let (output, ended) = gated.finish().unwrap();
        assert_eq!(output, "begun\n");
        assert!(ended.cpu_s > 0.0 && ended.peak_rss_bytes > 0);
    }

    #[test]
    fn a_failing_command_is_an_error_with_its_last_line() {
        let scratch = scratch().unwrap();
        let arguments = ["-c".to_owned(), "echo no such thing; exit 3".to_owned()];
        let mut gated = Gated::spawn(scratch.path(), Path::new("/bin/sh"), &arguments).unwrap();
        gated.release().unwrap();
        let error = gated.finish().err().unwrap().to_string();
        assert!(error.contains("no such thing"), "{error}");
    }

    #[test]
    fn the_processor_time_of_this_process_is_seen() {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(60) {
            std::hint::black_box(start.elapsed());
        }
        assert!(tree_cpu_s(std::process::id()) >= 0.02);
    }
}
