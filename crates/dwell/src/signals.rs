//! The signals that end a daemon, as a descriptor. Children begin with none blocked: the standard library sees to it.
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// What ends dwell, and SIGCHLD; they are blocked from now on, also in threads that are started later.
pub struct Signals(OwnedFd);

impl Signals {
    pub fn take() -> io::Result<Self> {
        // SAFETY: sigset_t is plain memory that sigemptyset initialises; all pointers are valid, and the descriptor
        // is new and nobody else's.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for signal in dwell_collector::ending_signals().chain([libc::SIGCHLD]) {
                libc::sigaddset(&mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            let fd = libc::signalfd(-1, &set, libc::SFD_NONBLOCK | libc::SFD_CLOEXEC);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Signals(OwnedFd::from_raw_fd(fd)))
        }
    }

    /// Reads all; whether one says that it is time to end.
    pub fn end(&self) -> bool {
        let mut end = false;
        loop {
            // SAFETY: the struct is plain memory, and no more than its size is written to it.
            let (read, info) = unsafe {
                let mut info: libc::signalfd_siginfo = std::mem::zeroed();
                let size = size_of_val(&info);
                let to = std::ptr::from_mut(&mut info).cast();
                (libc::read(self.0.as_raw_fd(), to, size), info)
            };
            if read <= 0 {
                return end;
            }
            end |= info.ssi_signo != libc::SIGCHLD as u32;
        }
    }

    pub fn raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waits until one of them can be read, for so long at most, ms.
pub fn wait(fds: &[RawFd], ms: i32) {
    let wanted = |fd: &RawFd| libc::pollfd {
        fd: *fd,
        events: libc::POLLIN,
        revents: 0,
    };
    let mut polls: Vec<libc::pollfd> = fds.iter().map(wanted).collect();
    // SAFETY: a valid array of its length; an interruption only means an early return.
    unsafe { libc::poll(polls.as_mut_ptr(), polls.len() as libc::nfds_t, ms) };
}
