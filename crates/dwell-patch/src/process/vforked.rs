//! Processes that run in the memory of another, as children of vfork do until they begin a program.
use std::fs;

/// A child of this thread that runs in its memory. Of several that is the youngest: only vfork makes them.
pub(super) fn child_of(tid: i32) -> Option<i32> {
    let children = fs::read_to_string(format!("/proc/{tid}/task/{tid}/children")).ok()?;
    let mut children = children.split_whitespace().rev();
    children.find_map(|child| {
        let child = child.parse().ok()?;
        shares_memory(tid, child).then_some(child)
    })
}

/// Whether two processes, each named by one of its threads, have the same memory; false where the kernel does not tell.
pub(super) fn shares_memory(one: i32, other: i32) -> bool {
    const KCMP_VM: i32 = 1;
    // SAFETY: takes numbers only.
    unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) == 0 }
}
