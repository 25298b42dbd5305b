//! A recording of what is watched, made by a second dwell.
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// It goes on.
pub struct Recording {
    child: Child,
    path: PathBuf,
}

impl Recording {
    /// Starts recording these processes, or the whole system when there are none.
    pub fn start(pids: &[u32]) -> std::io::Result<Recording> {
        let path = free_name(pids);
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["record", "--quiet", "--output"]).arg(&path);
        match pids {
            [] => command.arg("--all"),
            _ => command.args(pids.iter().map(|pid| format!("--pid={pid}"))),
        };
        // It must not outlive us, whatever ends us.
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGINT) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        Ok(Recording {
            child: quiet.stderr(Stdio::piped()).spawn()?,
            path,
        })
    }

    /// Where it is written.
    pub fn path(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// It has ended by itself: its target has, or it could not begin.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it and says what has become of it.
    pub fn end(mut self) -> String {
        self.interrupt();
        let mut errors = String::new();
        if let Some(mut stderr) = self.child.stderr.take() {
            // What cannot be read is not said.
            let _ = stderr.read_to_string(&mut errors);
        }
        match self.child.wait() {
            Ok(status) if status.success() => {
                format!("recorded: dwell report {}", self.path.display())
            }
            _ => format!(
                "not recorded: {}",
                errors.lines().last().unwrap_or("it failed")
            ),
        }
    }
}

impl Recording {
    fn interrupt(&mut self) {
        if !self.has_ended() {
            // SAFETY: a signal to a child that was not waited for, so the number is still its own.
            unsafe { libc::kill(self.child.id() as i32, libc::SIGINT) };
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.interrupt();
        // How it ended is said by `end`.
        let _ = self.child.wait();
    }
}

/// `pid-4711.dwell`, or the first of `pid-4711-2.dwell` … that is not there.
fn free_name(pids: &[u32]) -> PathBuf {
    let stem = pids
        .first()
        .map_or("system".to_owned(), |pid| format!("pid-{pid}"));
    let numbered = |n: u32| match n {
        1 => PathBuf::from(format!("{stem}.dwell")),
        n => PathBuf::from(format!("{stem}-{n}.dwell")),
    };
    let free = (1..).map(numbered).find(|path| !path.exists());
    free.expect("there are more numbers than files")
}
