//! Why a thread waits, told by the kernel's functions on its stack.
use dwell_recording::rows::reason;

/// Functions of the kernel by a part of their names. The first rule that fits any frame decides: a page
/// fault waits for storage, and storage is not its reason.
const RULES: &[(&str, &[&str])] = &[
    (
        reason::STOPPED,
        &["ptrace_stop", "do_signal_stop", "__refrigerator"],
    ),
    (
        reason::FAULT,
        &["exc_page_fault", "do_user_addr_fault", "handle_mm_fault"],
    ),
    (
        reason::LOCK,
        &[
            "futex_wait",
            "futex_do_wait",
            "futex_lock_pi",
            "__futex_wait",
        ],
    ),
    (
        reason::POLL,
        &[
            "do_epoll_wait",
            "ep_poll",
            "do_sys_poll",
            "do_select",
            "poll_schedule_timeout",
        ],
    ),
    (
        reason::CHILD,
        &["do_wait", "kernel_wait", "wait_for_vfork_done"],
    ),
    (
        reason::SLEEP,
        &["nanosleep", "do_sigtimedwait", "sys_pause", "sigsuspend"],
    ),
    (
        reason::PIPE,
        &[
            "pipe_read",
            "pipe_write",
            "pipe_wait",
            "eventfd_read",
            "n_tty_read",
            "tty_write",
            "wait_for_partner",
        ],
    ),
    (
        reason::SOCKET,
        &[
            "unix_stream",
            "unix_dgram",
            "skb_wait_for_more_packets",
            "sk_wait_data",
            "tcp_",
            "udp_",
            "inet_",
            "vsock_",
            "sock_",
        ],
    ),
    (
        reason::IO,
        &[
            "io_schedule",
            "folio_wait",
            "wait_on_page",
            "blkdev_",
            "submit_bio_wait",
            "jbd2_",
            "ext4_",
            "xfs_",
            "btrfs_",
            "fsync",
            "io_cqring_wait",
        ],
    ),
];

/// Entries of system calls: `__x64_sys_futex`.
const ENTRIES: [&str; 3] = ["__x64_sys_", "__ia32_sys_", "__arm64_sys_"];

/// Why, and the system call. `functions` are the kernel's, in any order; `in_disk_sleep`: its state says that
/// no signal ends the wait.
pub fn of<'f>(
    functions: impl Iterator<Item = &'f str> + Clone,
    in_disk_sleep: bool,
) -> (&'static str, String) {
    let fits = |parts: &[&str]| {
        functions
            .clone()
            .any(|f| parts.iter().any(|p| f.contains(p)))
    };
    let rule = RULES.iter().find(|(_, parts)| fits(parts));
    let reason = match rule {
        Some((reason, _)) => reason,
        None if in_disk_sleep && functions.clone().next().is_none() => reason::IO,
        None => reason::OTHER,
    };
    let entry = functions
        .clone()
        .find_map(|f| ENTRIES.iter().find_map(|e| f.strip_prefix(e)));
    (reason, entry.unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_functions_tell_why() {
        let of = |text: &'static str| of(text.split_whitespace(), false);
        assert_eq!(
            of("entry_SYSCALL_64 do_syscall_64 __x64_sys_futex do_futex futex_wait schedule"),
            ("lock", "futex".into())
        );
        assert_eq!(
            of("asm_exc_page_fault exc_page_fault filemap_fault folio_wait_bit io_schedule"),
            ("fault", String::new())
        );
        assert_eq!(
            of("__x64_sys_epoll_wait do_epoll_wait schedule_hrtimeout_range"),
            ("poll", "epoll_wait".into())
        );
        assert_eq!(
            of("kthread worker_thread schedule"),
            ("other", String::new())
        );
    }
}
