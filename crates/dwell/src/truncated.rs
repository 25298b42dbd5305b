//! Files that are cut while they are read.
//!
//! Programs, libraries and debug files are read through mappings. When somebody cuts such a file (a linker or `cp` that
//! writes over it in place), the pages behind its new end are gone, and reading one raises SIGBUS. That must not end a
//! recording of the whole system: such a page reads as zeros from then on, which parsers of foreign bytes refuse or ignore
//! as they do other damage.
use std::io;
use std::ptr;

/// The size of the pages that the kernel takes away, bytes.
const PAGE: usize = 4096;

/// From now on what is gone from a mapped file reads as zeros.
pub fn read_as_zeros() -> io::Result<()> {
    // SAFETY: all zeros is a valid sigaction; its fields are set before it is used.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_bus_error as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: `action` is whole, and its handler only calls what may be called in one.
    match unsafe { libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_bus_error(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid description, and SIGBUS an address.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code == libc::BUS_ADRERR && zeros_at(address & !(PAGE - 1)) {
        return;
    }
    // Anything else ends the program as it would have: the instruction runs again, or the signal is still pending.
    // SAFETY: both may be called in a handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Puts a page of zeros, only to be read, in the place of the page at `page`.
fn zeros_at(page: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the page is one of a file that is mapped and does not have it any more: nothing can be read there, so
    // nothing is lost with it. It stays part of the mapping that its owner unmaps.
    let at = unsafe { libc::mmap(page as *mut _, PAGE, libc::PROT_READ, flags, -1, 0) };
    at as usize == page
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_that_is_cut_reads_as_zeros() {
        read_as_zeros().expect("a handler");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[7; 5 * PAGE]).expect("written");
        // SAFETY: read only below, through a pointer that is read anew each time.
        let byte = |start: *const u8, at: usize| unsafe { start.add(at).read_volatile() };
        use std::os::fd::AsRawFd;
        // SAFETY: a new mapping at a place of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                5 * PAGE,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        assert_eq!(byte(start.cast(), 4 * PAGE), 7);
        file.set_len(PAGE as u64 + 10).expect("cut");
        let read: Vec<u8> = (0..5).map(|p| byte(start.cast(), p * PAGE + 20)).collect();
        assert_eq!(read, [7, 0, 0, 0, 0]);
        assert_eq!(byte(start.cast(), PAGE + 5), 7);
        // SAFETY: mapped above, and not used below.
        unsafe { libc::munmap(start, 5 * PAGE) };
    }
}
