//! Functions that every stack has.

/// Functions every stack has: they tell nothing.
const PLUMBING: [&str; 22] = [
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "clone",
    "clone3",
    "__clone3",
    "start_thread",
    "do_syscall_64",
    "entry_SYSCALL_64",
    "x64_sys_call",
    "__x64_sys_",
    "__do_sys_",
    "ret_from_fork",
    "schedule",
    "__schedule",
    "io_schedule",
    "asm_exc_page_fault",
    "exc_page_fault",
    "std::rt::lang_start",
    "std::sys::backtrace::__rust_begin_short_backtrace",
    "core::ops::function::FnOnce::call_once",
    "std::panicking::",
];

/// Names of which everything that starts so is plumbing.
pub(crate) fn is_plumbing(name: &str) -> bool {
    PLUMBING
        .iter()
        .any(|plumbing| match name.strip_prefix(plumbing) {
            Some("") => true,
            // `schedule_timeout` and `entry_SYSCALL_64_after_hwframe`, but not `scheduler_run`.
            Some(rest) => plumbing.ends_with(['_', ':']) || rest.starts_with(['_', '@', '{', ':']),
            None => false,
        })
}
