//! The processes that the script is about: `-c` and `-p`.
use super::arguments::TraceArgs;
use anyhow::Context;
use dwell_collector::Launched;
use dwell_locks::{AtEntry, Held};
use std::ffi::OsString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Processes with which the script ends.
pub struct Target {
    launched: Option<Launched>,
    held: Option<Held>,
    attached: Vec<OwnedFd>,
    /// `$target`.
    pub pid: Option<u32>,
    /// The command has ended, and was waited for.
    ended: bool,
}

impl Target {
    /// Starts the command, which is held at its first instruction, or finds the processes.
    pub fn find(args: &TraceArgs) -> anyhow::Result<Target> {
        if let Some(command) = &args.command {
            return Target::launch(command);
        }
        let mut target = Target {
            launched: None,
            held: None,
            attached: Vec::new(),
            pid: args.pid.first().copied(),
            ended: false,
        };
        for pid in &args.pid {
            let opened = open_process(*pid);
            target
                .attached
                .push(opened.with_context(|| format!("failed to grab process {pid}"))?);
        }
        Ok(target)
    }

    fn launch(command: &str) -> anyhow::Result<Target> {
        let words: Vec<OsString> = words(command).into_iter().map(OsString::from).collect();
        let name = words.first().context("-c names no command")?.clone();
        let (mask, files) = inherited();
        let mut launched = Launched::prepare(&words, &mask, files)?;
        launched.check(&name)?;
        let pid = launched.pid;
        let expected = AtEntry::expect(pid as i32);
        launched.go(&name)?;
        let held = expected.and_then(AtEntry::held)?;
        Ok(Target {
            launched: Some(launched),
            held,
            attached: Vec::new(),
            pid: Some(pid),
            ended: false,
        })
    }

    /// Lets the command run.
    pub fn begin(&mut self) -> anyhow::Result<()> {
        self.held.take().map_or(Ok(()), Held::begin)?;
        Ok(())
    }

    /// Whether all of them have ended.
    pub fn has_ended(&mut self) -> bool {
        if let Some(launched) = &self.launched {
            self.ended |= launched.exit_code(false).is_some();
            return self.ended;
        }
        let was_there = !self.attached.is_empty();
        self.attached.retain(|process| !is_readable(process));
        was_there && self.attached.is_empty()
    }
}

impl Drop for Target {
    /// As with dtrace, a command that still runs ends with its script; so does one that never began, since the script
    /// was refused.
    fn drop(&mut self) {
        if self.has_ended() {
            return;
        }
        if let Some(launched) = &self.launched {
            // SAFETY: it is our child, which nobody has waited for.
            unsafe { libc::kill(launched.pid as libc::pid_t, libc::SIGKILL) };
            launched.exit_code(true);
        }
    }
}

/// A descriptor of a process.
fn open_process(pid: u32) -> std::io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// A process' descriptor is readable once it has ended.
fn is_readable(process: &OwnedFd) -> bool {
    let mut poll = libc::pollfd {
        fd: process.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one entry, which is ours.
    unsafe { libc::poll(&mut poll, 1, 0) > 0 }
}

/// The signal mask and the limit of open files that a command shall have: ours.
fn inherited() -> (libc::sigset_t, libc::rlimit) {
    // SAFETY: both are plain data that the calls fill in.
    unsafe {
        let mut mask = std::mem::zeroed();
        libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), &mut mask);
        let mut files = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut files);
        (mask, files)
    }
}

/// The words of a command, as dtrace takes them apart: at blanks, with quotes and backslashes as in a shell.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = command.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn commands_are_taken_apart_as_in_a_shell() {
        assert_eq!(words("date"), ["date"]);
        assert_eq!(words("  sh -c 'exit 3' "), ["sh", "-c", "exit 3"]);
        assert_eq!(
            words(r#"echo "a \"b" c\ d ''"#),
            ["echo", "a \"b", "c d", ""]
        );
    }
}
