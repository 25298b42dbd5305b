//! Signals as a descriptor, so that Ctrl-C is an event like any other.
use crate::error::CollectError;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The signals that end what dwell does: SIGINT, SIGTERM, and SIGHUP unless dwell was started to outlive its terminal
/// (nohup).
pub fn ending() -> impl Iterator<Item = i32> {
    // SAFETY: all zeros is a valid sigaction, and no other is set, only read.
    let outlives = unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(libc::SIGHUP, std::ptr::null(), &mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    };
    let hangup = (!outlives).then_some(libc::SIGHUP);
    [libc::SIGINT, libc::SIGTERM].into_iter().chain(hangup)
}

/// Those of [`ending`] and SIGCHLD, blocked and read from a descriptor until this is dropped.
pub struct Signals {
    fd: OwnedFd,
    before: libc::sigset_t,
}

impl Signals {
    /// Takes the signals over.
    pub fn take() -> Result<Self, CollectError> {
        // SAFETY: sigset_t is plain memory that sigemptyset initialises; all pointers are valid.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in ending().chain([libc::SIGCHLD]) {
                libc::sigaddset(&mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before);
            let fd = libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(CollectError::system("opening a signalfd", ""));
            }
            Ok(Signals {
                fd: OwnedFd::from_raw_fd(fd),
                before,
            })
        }
    }

    /// The mask that was in force before, for children.
    pub fn mask_before(&self) -> &libc::sigset_t {
        &self.before
    }

    /// The descriptor to poll.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }

    /// The next signal that came.
    pub fn next(&self) -> Option<i32> {
        // SAFETY: signalfd_siginfo is plain memory; the kernel writes whole ones into it.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let size = size_of::<libc::signalfd_siginfo>();
            let n = libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size);
            (n == size as isize).then_some(info.ssi_signo as i32)
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // What came while we were closing is meant for us, not for the default action.
        while self.next().is_some() {}
        // SAFETY: restores the mask that sigprocmask gave us.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
