//! One recording of an agent, made by a process of its own.
use super::AgentArgs;
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// What is kept of what a recorder says.
const MOST_SAID: u64 = 4096;

/// A recording that is being made.
pub struct Window {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Window {
    /// Starts a recording. Its process ends with ours, and cleanly.
    pub fn start(args: &AgentArgs, path: &Path) -> io::Result<Self> {
        let mut options: Vec<OsString> = vec!["record".into(), "-q".into()];
        let mut add = |option: &str, value: &dyn AsRef<std::ffi::OsStr>| {
            options.extend([option.into(), value.as_ref().to_owned()]);
        };
        add("--duration", &format!("{}ms", args.window.as_millis()));
        add("-o", &path);
        if let Some(frequency) = args.frequency {
            add("-F", &frequency.to_string());
        }
        if let Some(cgroup) = &args.cgroup {
            add("--cgroup", cgroup);
        } else {
            options.push("-a".into());
        }
        if args.memory {
            options.push("--memory".into());
        }
        // Our own file, also when an upgrade has replaced it.
        let mut command = Command::new("/proc/self/exe");
        command
            .args(options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C reaches it by way of us, and once.
            .process_group(0);
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
        Ok(Window {
            child: command.spawn()?,
            ended: None,
        })
    }

    /// Whether it is over.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        self.ended = self.child.try_wait()?;
        Ok(self.ended.is_some())
    }

    /// Has it end now, with what it has.
    pub fn interrupt(&self) {
        // SAFETY: no memory is touched; the child is not reaped yet, so the number is its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
    }

    /// Ends it at once; what it had written stays.
    pub fn kill(&mut self) {
        // Who has ended already need not be.
        let _ = self.child.kill();
    }

    /// Why it is not a whole recording, in its own words.
    pub fn failure(&mut self) -> Option<String> {
        let status = self.ended.filter(|status| !status.success())?;
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            // Less than all of it is better than nothing.
            let _ = stderr.take(MOST_SAID).read_to_string(&mut said);
        }
        let said = said.trim().trim_start_matches("dwell: ");
        Some(if said.is_empty() {
            format!("the recorder ended with {status}")
        } else {
            said.to_owned()
        })
    }
}

/// Processor time of this process and of its children that have ended.
pub fn cpu_time() -> Duration {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .map(usage)
        .iter()
        .sum()
}

fn usage(who: i32) -> Duration {
    // SAFETY: the struct is plain memory, which the call fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(who, &mut usage);
        usage
    };
    let time = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}
