//! Why a thread is off the processor, from its system call, the kind of file and the task's state.
use dwell_abi::events::*;
use dwell_recording::rows::reason;
use syscalls::Sysno;

/// Name of a system call, empty outside system calls.
pub fn syscall_name(nr: i32) -> &'static str {
    usize::try_from(nr)
        .ok()
        .and_then(Sysno::new)
        .map_or("", |s| s.name())
}

/// The reason of a sleep (see `dwell_recording::rows::reason`), empty for a preemption.
pub fn reason(nr: i32, fd_kind: u8, flags: u8) -> &'static str {
    if flags & SITE_PREEMPTED != 0 {
        return "";
    }
    if flags & SITE_STOPPED != 0 {
        return reason::STOPPED;
    }
    let iowait = flags & SITE_IOWAIT != 0;
    if flags & SITE_KTHREAD != 0 {
        return if iowait { reason::IO } else { reason::OTHER };
    }
    let Some(call) = usize::try_from(nr).ok().and_then(Sysno::new) else {
        // Outside system calls only an exception can make a thread sleep uninterruptibly.
        return if flags & SITE_UNINTERRUPTIBLE != 0 {
            reason::FAULT
        } else {
            reason::OTHER
        };
    };
    let by_call = of_call(call, fd_kind, flags);
    // A lock or a pipe does not wait for storage: the call touched a page that had to be read.
    match by_call {
        reason::LOCK
        | reason::POLL
        | reason::SLEEP
        | reason::SOCKET
        | reason::PIPE
        | reason::CHILD
            if iowait =>
        {
            reason::FAULT
        }
        other => other,
    }
}

fn of_call(call: Sysno, fd_kind: u8, flags: u8) -> &'static str {
    use Sysno::*;
    match call {
        futex | futex_waitv | flock | semop | semtimedop => reason::LOCK,
        fcntl => reason::LOCK,
        // Address space calls sleep for mmap_lock, unless they wait for storage.
        mmap | munmap | mprotect | madvise | brk | mremap if flags & SITE_IOWAIT == 0 => {
            reason::LOCK
        }
        read | write | pread64 | pwrite64 | readv | writev | preadv | pwritev | preadv2
        | pwritev2 | sendfile | splice | tee | ioctl | vmsplice => of_file(fd_kind),
        fsync | fdatasync | sync | syncfs | msync | sync_file_range | fallocate | io_getevents
        | io_pgetevents | io_submit | io_uring_enter | getdents64 | openat | open | close
        | stat | newfstatat | statx | unlink | unlinkat | rename | renameat | renameat2 | mkdir
        | mkdirat | rmdir | ftruncate | truncate | readahead | fadvise64 | execve | execveat
        | copy_file_range | mmap | munmap | mprotect | madvise => reason::IO,
        accept | accept4 | connect | recvfrom | recvmsg | recvmmsg | sendto | sendmsg
        | sendmmsg | shutdown => reason::SOCKET,
        poll | ppoll | select | pselect6 | epoll_wait | epoll_pwait | epoll_pwait2 => reason::POLL,
        nanosleep | clock_nanosleep | pause | rt_sigtimedwait | rt_sigsuspend => reason::SLEEP,
        wait4 | waitid | vfork | clone | clone3 => reason::CHILD,
        msgrcv | msgsnd | mq_timedreceive | mq_timedsend => reason::PIPE,
        _ => reason::OTHER,
    }
}

fn of_file(fd_kind: u8) -> &'static str {
    match fd_kind {
        FD_SOCKET => reason::SOCKET,
        FD_PIPE | FD_CHAR | FD_ANON => reason::PIPE,
        _ => reason::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_real_sleeps() {
        let call = |c: Sysno| c.id();
        assert_eq!(reason(call(Sysno::futex), FD_NONE, 0), reason::LOCK);
        assert_eq!(reason(call(Sysno::read), FD_PIPE, 0), reason::PIPE);
        assert_eq!(reason(call(Sysno::read), FD_SOCKET, 0), reason::SOCKET);
        assert_eq!(
            reason(
                call(Sysno::read),
                FD_FILE,
                SITE_UNINTERRUPTIBLE | SITE_IOWAIT
            ),
            reason::IO
        );
        assert_eq!(
            reason(-1, FD_NONE, SITE_UNINTERRUPTIBLE | SITE_IOWAIT),
            reason::FAULT
        );
        assert_eq!(
            reason(
                call(Sysno::futex),
                FD_NONE,
                SITE_UNINTERRUPTIBLE | SITE_IOWAIT
            ),
            reason::FAULT
        );
        assert_eq!(
            reason(call(Sysno::sched_yield), FD_NONE, SITE_PREEMPTED),
            ""
        );
        assert_eq!(
            syscall_name(call(Sysno::clock_nanosleep)),
            "clock_nanosleep"
        );
        assert_eq!(syscall_name(-1), "");
    }
}
