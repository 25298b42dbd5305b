//! Pages that are read without asking the kernel, until the target asks it to take one away; and the target's last
//! system calls before it forbids itself some: the agent's own would end it.
use super::layout::{OWN_LEN, Pages, State, pages};
use crate::system::{
    PR_SET_SECCOMP, SECCOMP_SET_MODE_FILTER, SYS_NANOSLEEP, SYS_PRCTL, SYS_SECCOMP, system_call,
};
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

const PAGE: u64 = 4096;
const SYS_MMAP: u64 = 9;
const SYS_MPROTECT: u64 = 10;
const SYS_MUNMAP: u64 = 11;
const SYS_MREMAP: u64 = 25;
const SYS_MADVISE: u64 = 28;
const SYS_SHMAT: u64 = 30;
const SYS_PKEY_MPROTECT: u64 = 329;
const PROT_READ: u64 = 1;
const MAP_FIXED: u64 = 0x10;
const MREMAP_FIXED: u64 = 2;
const SHM_REMAP: u64 = 0o40000;
/// Memory that is broken, and guard pages.
const MADV_HWPOISON: u64 = 100;
const MADV_GUARD_INSTALL: u64 = 102;
/// What a thread that has looked at [`Pages::state`] has for its load, ns, unless it loses the processor for longer just
/// there.
const GRACE: u64 = 10_000_000;

/// Bytes from an address to the end of the known pages around it; 0 if it is in none.
pub(super) fn known(state: &State, address: u64) -> u64 {
    let Pages { state, ranges } = &state.pages;
    if state.load(Acquire) != pages::THERE {
        return 0;
    }
    for [start, end] in ranges {
        let end = end.load(Relaxed);
        if address < end && address >= start.load(Relaxed) {
            return end - address;
        }
        if end == 0 {
            return 0;
        }
    }
    0
}

/// The target is about to make a system call, with these first arguments. If it may take away a page that is known,
/// none is from here on. If it forbids system calls, no program runs from here on.
///
/// # Safety
/// `state` must be the address of a state.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_mapping_call(
    number: u64,
    first: u64,
    second: u64,
    third: u64,
    fourth: u64,
    state: *const State,
) -> u64 {
    const EVERYTHING: (u64, u64) = (0, u64::MAX);
    let (start, len) = match number {
        SYS_MUNMAP | SYS_PKEY_MPROTECT => (first, second),
        SYS_MPROTECT if third & PROT_READ == 0 => (first, second),
        SYS_MMAP if fourth & MAP_FIXED != 0 => (first, second),
        SYS_MREMAP if fourth & MREMAP_FIXED != 0 => EVERYTHING,
        SYS_MREMAP => (first, second),
        SYS_MADVISE if matches!(third, MADV_HWPOISON | MADV_GUARD_INSTALL) => (first, second),
        SYS_SHMAT if third & SHM_REMAP != 0 => EVERYTHING,
        SYS_PRCTL if first == PR_SET_SECCOMP => return rest(state),
        SYS_SECCOMP if first <= SECCOMP_SET_MODE_FILTER => return rest(state),
        _ => return 0,
    };
    let end = start.saturating_add(len).saturating_add(PAGE - 1) & !(PAGE - 1);
    // SAFETY: by contract.
    let Pages { state, ranges } = unsafe { &(*state).pages };
    let touches = ranges.iter().any(|[first, last]| {
        let (first, last) = (first.load(Relaxed), last.load(Relaxed));
        start < last && first < end
    });
    if touches && state.swap(pages::GONE, SeqCst) == pages::THERE {
        grace();
    }
    0
}

/// Lets no program begin any more, and those that have begun end.
fn rest(state: *const State) -> u64 {
    // SAFETY: by the caller's contract this is a state; the target's own part, which begins with the gate, lies before it.
    let (gate, state) = unsafe {
        let own = state.cast::<u8>().sub(OWN_LEN as usize);
        (&*own.cast::<AtomicU8>(), &*state)
    };
    gate.store(0, SeqCst);
    state.rests.store(1, SeqCst);
    grace();
    0
}

fn grace() {
    let time = [0, GRACE];
    // SAFETY: reads the time only.
    unsafe { system_call(SYS_NANOSLEEP, [time.as_ptr() as u64, 0, 0, 0, 0, 0]) };
}
