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
    let Ok(number) = usize::try_from(nr) else {
        // Outside system calls a thread sleeps in a page fault: for storage, for memory, for the lock
        // of its address space, or (interruptibly) for who handles it with userfaultfd.
        return reason::FAULT;
    };
    let Some(call) = Sysno::new(number) else {
        return if iowait { reason::IO } else { reason::OTHER };
    };
    match of_call(call, fd_kind) {
        // These sleep so that signals reach them. What does not has touched a page on its way and waits for it, or
        // for the lock of the address space.
        reason::SLEEP if flags & SITE_UNINTERRUPTIBLE != 0 => reason::FAULT,
        reason::LOCK if flags & SITE_UNINTERRUPTIBLE != 0 && waits_for_words(call) => reason::FAULT,
        // The same. Pipes and sockets have locks of their own, which are not killable; what devices have is unknown.
        reason::POLL if flags & SITE_UNINTERRUPTIBLE != 0 => reason::FAULT,
        reason::PIPE | reason::SOCKET
            if flags & SITE_KILLABLE != 0 && fd_kind != FD_CHAR && !moves_files(call) =>
        {
            reason::FAULT
        }
        // These move file contents: waiting for storage is what they do.
        reason::LOCK | reason::SOCKET | reason::PIPE if iowait && moves_files(call) => reason::IO,
        // A lock or a pipe does not wait for storage: the call touched a page that had to be read.
        reason::LOCK | reason::SLEEP | reason::SOCKET | reason::PIPE | reason::CHILD if iowait => {
            reason::FAULT
        }
        reason::OTHER if iowait => reason::IO,
        known => known,
    }
}

/// Whether a system call reads or writes files by itself, not at the bidding of its buffers.
fn moves_files(call: Sysno) -> bool {
    use Sysno::*;
    matches!(
        call,
        sendfile | splice | tee | vmsplice | mmap | munmap | mprotect | madvise | brk | mremap
    )
}

fn waits_for_words(call: Sysno) -> bool {
    matches!(call, Sysno::futex | Sysno::futex_waitv)
}

fn of_call(call: Sysno, fd_kind: u8) -> &'static str {
    use Sysno::*;
    match call {
        futex | futex_waitv | flock | fcntl | semop | semtimedop => reason::LOCK,
        // Address space calls sleep for mmap_lock, unless they wait for storage.
        mmap | munmap | mprotect | madvise | brk | mremap => reason::LOCK,
        read | write | pread64 | pwrite64 | readv | writev | preadv | pwritev | preadv2
        | pwritev2 | sendfile | splice | tee | vmsplice => of_file(fd_kind),
        // Of a device: a disk, a graphics processor. What others wait for is theirs.
        ioctl if matches!(fd_kind, FD_CHAR | FD_FILE) => reason::IO,
        ioctl if fd_kind == FD_ANON => reason::OTHER,
        ioctl => of_file(fd_kind),
        fsync | fdatasync | sync | syncfs | msync | sync_file_range | fallocate | io_getevents
        | io_pgetevents | io_submit | io_uring_enter | readahead | fadvise64 | copy_file_range
        | mlock | mlock2 | mlockall | execve | execveat => reason::IO,
        open | openat | openat2 | creat | close | close_range | getdents | getdents64 | stat
        | lstat | fstat | newfstatat | statx | statfs | fstatfs | access | faccessat
        | faccessat2 | readlink | readlinkat | unlink | unlinkat | rename | renameat
        | renameat2 | link | linkat | symlink | symlinkat | mkdir | mkdirat | rmdir | mknod
        | mknodat | truncate | ftruncate | lseek | chdir | chmod | fchmod | fchmodat | chown
        | fchown | lchown | fchownat | utimensat | getxattr | lgetxattr | fgetxattr | setxattr
        | lsetxattr | fsetxattr | mount | umount2 | finit_module => reason::IO,
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
        let for_mmap_lock = reason(call(Sysno::clock_nanosleep), FD_NONE, SITE_UNINTERRUPTIBLE);
        assert_eq!(for_mmap_lock, reason::FAULT);
        let for_mmap_lock = reason(call(Sysno::munmap), FD_NONE, SITE_UNINTERRUPTIBLE);
        assert_eq!(for_mmap_lock, reason::LOCK);
        // A buffer of a read that has to be mapped while another thread forks.
        let for_mmap_lock = SITE_UNINTERRUPTIBLE | SITE_KILLABLE;
        let of_read = |kind, flags| reason(call(Sysno::read), kind, flags);
        for kind in [FD_PIPE, FD_ANON, FD_SOCKET] {
            assert_eq!(of_read(kind, for_mmap_lock), reason::FAULT);
        }
        assert_eq!(of_read(FD_CHAR, for_mmap_lock), reason::PIPE);
        assert_eq!(of_read(FD_PIPE, SITE_UNINTERRUPTIBLE), reason::PIPE);
        assert_eq!(of_read(FD_FILE, for_mmap_lock), reason::IO);
        assert_eq!(
            reason(call(Sysno::poll), FD_NONE, SITE_UNINTERRUPTIBLE),
            reason::FAULT
        );
        let read = SITE_UNINTERRUPTIBLE | SITE_IOWAIT;
        assert_eq!(reason(call(Sysno::sendfile), FD_SOCKET, 0), reason::SOCKET);
        assert_eq!(reason(call(Sysno::sendfile), FD_SOCKET, read), reason::IO);
        assert_eq!(reason(call(Sysno::munmap), FD_NONE, read), reason::IO);
        assert_eq!(reason(call(Sysno::getcwd), FD_NONE, read), reason::IO);
        assert_eq!(
            reason(call(Sysno::ioctl), FD_ANON, 0),
            reason::OTHER,
            "KVM_RUN of a halted machine"
        );
        assert_eq!(reason(-1, FD_NONE, 0), reason::FAULT, "userfaultfd");
        assert_eq!(reason(-1, FD_NONE, SITE_STOPPED), reason::STOPPED);
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
