//! Which thread this is, and its own memory.
use super::layout::{OWNERS, State, THREAD_BITS, THREADS, TID_IN_CONTROL_BLOCK, Thread, place_of};
use crate::system::{SYS_TGKILL, getpid, gettid, system_call};
use core::arch::asm;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

/// Places that are looked at for a thread.
const WINDOW: u64 = 16;
const NO_SUCH_THREAD: i64 = -3;

/// The fs base; 0 before libc has begun.
fn own_address(state: &State) -> u64 {
    let address;
    if state.threads.have_control_blocks.load(Relaxed) != 0 {
        // SAFETY: libc has begun, and all threads have a control block, whose first word is its address.
        unsafe { asm!("mov {}, fs:0", out(reg) address, options(nostack, readonly)) };
    } else {
        // SAFETY: reads a register; dwell has made sure that the processor and the kernel let us.
        unsafe { asm!("rdfsbase {}", out(reg) address, options(nostack, nomem)) };
    }
    address
}

/// What libc says that this thread's number is.
///
/// # Safety
/// It must have been seen to be there.
unsafe fn tid_by_libc(address: u64) -> u32 {
    // SAFETY: by contract.
    unsafe { ((address + TID_IN_CONTROL_BLOCK) as *const u32).read_volatile() }
}

fn place(state: &State, n: u64) -> &Thread {
    let threads = &state.threads;
    let at = state as *const State as u64 + threads.start;
    // SAFETY: the state has as many there.
    unsafe { &*(at as *const Thread).add((n & (THREADS - 1)) as usize) }
}

/// The part of the pool that only this thread changes; 0 if it has none.
pub(super) fn own_part(state: &State) -> u64 {
    let address = own_address(state);
    let n = place_of(address, OWNERS.trailing_zeros());
    let owner = &state.pool.owners[(n as usize) & (OWNERS - 1)];
    let there = owner.load(Relaxed);
    if address != 0 && there == address {
        return n + 1;
    }
    let is_free = address != 0 && there == 0;
    let claim = || owner.compare_exchange(0, address, AcqRel, Relaxed);
    if !is_free || claim().is_err() {
        return 0;
    }
    let mut first = 0u64;
    let is_read = super::read::read(state, &raw mut first as u64, 8, address) == 8;
    if is_read && first == address {
        state.threads.have_control_blocks.store(1, Relaxed);
    }
    n + 1
}

/// The place of this thread, with its number.
fn own_place(state: &State) -> Option<(u64, u32)> {
    let address = own_address(state);
    if address == 0 {
        return None;
    }
    let first = place_of(address, THREAD_BITS);
    for n in first..first + WINDOW {
        let thread = place(state, n);
        let there = thread.address.load(Relaxed);
        if there == address {
            return Some((n, own_number(state, n, address)));
        }
        let claimed = there == 0
            && thread
                .address
                .compare_exchange(0, address, AcqRel, Relaxed)
                .is_ok();
        if claimed {
            return Some((n, begin(state, n, address)));
        }
    }
    let evicted = (first..first + WINDOW).find(|n| {
        let thread = place(state, *n);
        let there = thread.address.load(Relaxed);
        is_gone(state, thread)
            && thread
                .address
                .compare_exchange(there, address, AcqRel, Relaxed)
                .is_ok()
    })?;
    Some((evicted, begin(state, evicted, address)))
}

fn is_gone(state: &State, thread: &Thread) -> bool {
    let tid = u64::from(thread.tid.load(Relaxed));
    let arguments = [state.pid, tid, 0, 0, 0, 0];
    // SAFETY: signal 0 is none.
    tid != 0 && unsafe { system_call(SYS_TGKILL, arguments) as i64 } == NO_SUCH_THREAD
}

/// The number of the thread at a place; the memory is emptied if it was another's.
fn own_number(state: &State, n: u64, address: u64) -> u32 {
    let thread = place(state, n);
    let tid = thread.tid.load(Relaxed);
    // SAFETY: it was there for a thread with the same address.
    let is_it =
        thread.is_in_control_block.load(Relaxed) != 0 && unsafe { tid_by_libc(address) } == tid;
    if is_it || gettid() == tid {
        return tid;
    }
    begin(state, n, address)
}

/// A new thread at a place.
fn begin(state: &State, n: u64, address: u64) -> u32 {
    let memory = memory_at(state, n);
    for word in 0..state.threads.memory_size as usize / 8 {
        // SAFETY: each place has so much memory.
        unsafe { (memory as *mut u64).add(word).write_volatile(0) };
    }
    let tid = gettid();
    let mut told = [0u64];
    let from = address + TID_IN_CONTROL_BLOCK;
    let is_told = super::read::read(state, told.as_mut_ptr() as u64, 4, from) == 4;
    let is_right = is_told && told[0] as u32 == tid;
    let thread = place(state, n);
    thread.is_in_control_block.store(is_right.into(), Relaxed);
    let pid = getpid();
    thread.pid.store(pid as u32, Relaxed);
    if pid == state.pid && is_right {
        state.threads.have_control_blocks.store(1, Relaxed);
    }
    thread.tid.store(tid, Relaxed);
    tid
}

fn memory_at(state: &State, n: u64) -> u64 {
    let threads = &state.threads;
    let index = n & (THREADS - 1);
    state as *const State as u64 + threads.memory + index * threads.memory_size
}

/// Process << 32 | thread.
pub(super) fn own_ids(state: &State) -> u64 {
    let (pid, tid) = match own_place(state) {
        Some((n, tid)) => (place(state, n).pid.load(Relaxed).into(), tid),
        None => (getpid(), gettid()),
    };
    pid << 32 | u64::from(tid)
}

/// This thread, as [`dwell_agent_script_thread_memory`] takes it; 0 if there is no place for it.
///
/// # Safety
/// `state` must be the address of a state.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_thread(
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    state: *const State,
) -> u64 {
    // SAFETY: by contract.
    let state = unsafe { &*state };
    own_place(state).map_or(0, |(n, _)| memory_at(state, n))
}

/// The address of a thread's memory; zeros as long as nothing was written.
///
/// # Safety
/// None.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn dwell_agent_script_thread_memory(_: u64, thread: u64) -> u64 {
    thread
}
