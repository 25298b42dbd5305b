//! Processes that may not have more memory, or keep all that they have.
mod common;

use common::{Puppet, assert_pristine, at_entry, size};
use dwell_patch::process::State;
use dwell_patch::{Attachment, Hook, PatchError};
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// As much as the hooks of a script share.
const STATE: State = State {
    own_len: MIB,
    shared_len: 256 * MIB,
    head: Vec::new(),
    is_common: true,
};

/// Lets a process have no more than so much address space; returns what it might have.
fn limit_address_space(pid: i32, most: u64) -> u64 {
    // SAFETY: rlimit is plain memory, and the pointers are valid.
    unsafe {
        let mut before: libc::rlimit = std::mem::zeroed();
        libc::prlimit(pid, libc::RLIMIT_AS, std::ptr::null(), &mut before);
        let after = libc::rlimit {
            rlim_cur: most,
            ..before
        };
        assert_eq!(
            libc::prlimit(pid, libc::RLIMIT_AS, &after, std::ptr::null_mut()),
            0
        );
        before.rlim_cur
    }
}

/// It is told at once, with what to do, and the process is as it was; with that done it is patched.
#[test]
#[ignore = "needs root"]
fn a_limit_of_address_space_is_told() {
    let mut target = Puppet::start("counted", &["3"]);
    let pid = target.pid();
    let probe = [at_entry("/counted", "add", Hook::Count)];
    let before = limit_address_space(pid, size(pid, "VmSize") + 64 * MIB);
    target.run();
    let begin = Instant::now();
    let refused = Attachment::with_state(pid, &probe, &STATE).map(drop);
    let Err(PatchError::NoMemory { why, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        begin.elapsed() < Duration::from_secs(5),
        "{:?}",
        begin.elapsed()
    );
    let remedy = format!("`prlimit --pid {pid} --as=");
    assert!(
        why.contains("address space") && why.contains(&remedy),
        "{why}"
    );
    target.park();
    assert_pristine(pid);
    target.run();
    limit_address_space(pid, before);
    let attachment = Attachment::with_state(pid, &probe, &STATE).expect("it can be attached to");
    attachment.detach().expect("it can be let go of");
    target.finish();
}

/// A process that locks its memory, now and from now on, would have all of ours in use at once.
#[test]
#[ignore = "needs root"]
fn what_a_process_locks_is_its_own_memory_only() {
    let mut target = Puppet::start("counted", &["3"]);
    let pid = target.pid();
    target.tell("l");
    let locked = size(pid, "VmLck");
    assert!(locked > 0);
    let probe = [at_entry("/counted", "add", Hook::Count)];
    let attachment = Attachment::with_state(pid, &probe, &STATE).expect("it can be attached to");
    assert_eq!(size(pid, "VmLck"), locked);
    let resident = size(pid, "VmRSS");
    assert!(
        resident < locked + 8 * MIB,
        "{resident} bytes in use, {locked} locked"
    );
    target.run();
    std::thread::sleep(Duration::from_millis(20));
    let truth = target.park()["add"];
    let counted = attachment.counts().expect("it runs")[0];
    assert!((1..=truth).contains(&counted), "{counted} of {truth}");
    target.run();
    attachment.detach().expect("it can be let go of");
    target.park();
    assert_eq!(size(pid, "VmLck"), locked);
    assert_pristine(pid);
    target.run();
    target.finish();
}
