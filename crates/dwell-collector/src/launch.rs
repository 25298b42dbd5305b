//! Starting a command that waits until the recording is ready.
use crate::error::CollectError;
use crate::preload::find_command;
use std::ffi::{CString, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A command that is started, or about to be.
pub struct Launched {
    /// Its process id.
    pub pid: u32,
    go: Option<std::io::PipeWriter>,
    failure: std::io::PipeReader,
}

/// Exit codes as shells give them for commands that cannot be run.
const NOT_FOUND: i32 = 127;
const NOT_EXECUTABLE: i32 = 126;

impl Launched {
    /// Forks a child that keeps our terminal, process group and descriptors, and waits for
    /// [`Launched::go`] before it becomes the command. `mask` is the signal mask, `files` the limit
    /// of open files it shall have.
    pub fn prepare(
        command: &[OsString],
        mask: &libc::sigset_t,
        files: libc::rlimit,
    ) -> Result<Self, CollectError> {
        let words: Result<Vec<CString>, _> =
            command.iter().map(|w| CString::new(w.as_bytes())).collect();
        let words = words.map_err(|_| {
            CollectError::Target("the command has a NUL byte in an argument".into())
        })?;
        let mut argv: Vec<*const libc::c_char> = words.iter().map(|w| w.as_ptr()).collect();
        argv.push(std::ptr::null());
        let system = |e| CollectError::from_io("making a pipe", e, "");
        let (go_reader, go) = io::pipe().map_err(system)?;
        let (failure, failure_writer) = io::pipe().map_err(system)?;
        // SAFETY: the child calls nothing but async-signal-safe functions until it execs or exits.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(CollectError::system("starting the command", ""));
        }
        if pid == 0 {
            // SAFETY: see above; argv ends with a null pointer and its strings live.
            unsafe {
                libc::close(go.as_raw_fd());
                let mut byte = 0u8;
                if libc::read(go_reader.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
                    libc::_exit(NOT_FOUND);
                }
                libc::sigprocmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
                // As it would have been without us: Rust ignores SIGPIPE, and we opened more files.
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
                libc::setrlimit(libc::RLIMIT_NOFILE, &files);
                libc::execvp(argv[0], argv.as_ptr());
                let error = *libc::__errno_location();
                libc::write(failure_writer.as_raw_fd(), (&raw const error).cast(), 4);
                libc::_exit(if error == libc::ENOENT {
                    NOT_FOUND
                } else {
                    NOT_EXECUTABLE
                });
            }
        }
        Ok(Launched {
            pid: pid as u32,
            go: Some(go),
            failure,
        })
    }

    /// Looks whether the command is there at all, as execvp(3) will.
    pub fn check(&self, name: &OsString) -> Result<(), CollectError> {
        match find_command(name) {
            Some(_) => Ok(()),
            None => {
                let there = name.as_bytes().contains(&b'/') && Path::new(name).exists();
                let errno = if there { libc::EACCES } else { libc::ENOENT };
                Err(CollectError::Command {
                    command: name.to_string_lossy().into_owned(),
                    error: io::Error::from_raw_os_error(errno),
                })
            }
        }
    }

    /// Lets it run. An error: it could not be executed.
    pub fn go(&mut self, name: &OsString) -> Result<(), CollectError> {
        if let Some(mut go) = self.go.take() {
            let _ = go.write_all(&[1]);
        }
        let mut error = [0; 4];
        // The pipe closes on exec.
        match self.failure.read_exact(&mut error) {
            Ok(()) => Err(CollectError::Command {
                command: name.to_string_lossy().into_owned(),
                error: io::Error::from_raw_os_error(i32::from_ne_bytes(error)),
            }),
            Err(_) => Ok(()),
        }
    }

    /// Its exit code once it is over: 128 + signal when a signal ended it.
    pub fn exit_code(&self, block: bool) -> Option<i32> {
        let mut status = 0;
        // SAFETY: waits for our own child; `status` is valid to write to.
        let got = unsafe {
            libc::waitpid(
                self.pid as i32,
                &mut status,
                if block { 0 } else { libc::WNOHANG },
            )
        };
        if got != self.pid as i32 {
            return None;
        }
        Some(if libc::WIFSIGNALED(status) {
            128 + libc::WTERMSIG(status)
        } else {
            libc::WEXITSTATUS(status)
        })
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill has no memory effects; the child is not reaped yet or the call fails.
        unsafe { libc::kill(self.pid as i32, signal) };
    }
}

/// A descriptor that becomes readable when a process ends.
pub fn pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
