//! Functions that every stack has.

/// Functions every stack has: they tell nothing.
const PLUMBING: [&str; 29] = [
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
    "core::ops::function::impls::",
    "std::panic::catch_unwind",
    "std::panicking::",
    "std::sys::thread::unix::Thread::new::thread_start",
    "<std::sys::thread::unix::Thread>::new::thread_start",
    "std::sys::pal::unix::thread::Thread::new::thread_start",
    "std::thread::Builder::spawn_unchecked",
    "std::thread::lifecycle::spawn_unchecked",
];

/// How Rust calls what is boxed or wrapped: the call itself follows in the stack.
const CALLS_ON: &str = "as core::ops::function::FnOnce<()>>::call_once";

/// Names of which everything that starts so is plumbing.
pub(crate) fn is_plumbing(name: &str) -> bool {
    if name.starts_with('<') && name.contains(CALLS_ON) {
        return true;
    }
    PLUMBING
        .iter()
        .any(|plumbing| match name.strip_prefix(plumbing) {
            Some("") => true,
            // `schedule_timeout` and `entry_SYSCALL_64_after_hwframe`, but not `scheduler_run`.
            Some(rest) => plumbing.ends_with(['_', ':']) || rest.starts_with(['_', '@', '{', ':']),
            None => false,
        })
}

/// Whether a function is of the standard library of Rust or C++, by its name.
pub(crate) fn is_standard(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&']);
    ["std::", "core::", "alloc::"]
        .iter()
        .any(|library| path.starts_with(library))
}
