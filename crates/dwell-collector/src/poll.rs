//! Waits for descriptors.
use std::os::fd::RawFd;
use std::time::Duration;

/// Waits until one of them can be read, at most this long (whole ms), or is interrupted.
pub fn poll(fds: impl IntoIterator<Item = RawFd>, timeout: Duration) {
    let mut fds: Vec<libc::pollfd> = fds.into_iter().map(wanted).collect();
    let (len, ms) = (fds.len() as libc::nfds_t, timeout.as_millis() as i32);
    // SAFETY: `fds` is a valid array of its length; an interruption only means an early return.
    unsafe { libc::poll(fds.as_mut_ptr(), len, ms) };
}

/// Whether it can be read now. Of a process' descriptor: whether it has ended.
pub fn is_readable(fd: RawFd) -> bool {
    let mut poll = wanted(fd);
    // SAFETY: one valid pollfd; returns at once.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

fn wanted(fd: RawFd) -> libc::pollfd {
    libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    }
}
