//! Where threads have the address of their state: in a thread-specific value, whose key and place no symbol tells. They are
//! found by a thread whose state is known: the interpreter has a list of these.
use crate::layout::Layout;
use dwell_maps::Memory;

/// Where a thread has the address of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Bytes from where the thread pointer leads to.
    pub at: u32,
    /// Where the thread pointer leads to the address from which `at` counts; 0: it is that address.
    pub slots_at: u32,
}

/// Most threads that are looked at, and most interpreters.
const MOST: usize = 1024;
/// Most threads that are looked at for where they have the address of their state.
const MOST_TRIED: usize = 16;
/// Of what the thread pointer leads to, bytes that are looked at: glibc's `struct pthread` has 32 values in it.
const NEAR: u64 = 2304;
/// musl's has the address of its values within these.
const HEAD: u64 = 256;
/// Of such values, bytes: musl has 128.
const FAR: u64 = 1024;

/// The slot of some thread of a runtime, which is that of all.
pub fn slot_of(layout: &Layout, memory: &impl Memory, runtime: u64) -> Option<Slot> {
    let mut tried = threads(layout, memory, runtime).take(MOST_TRIED);
    tried.find_map(|state| {
        let thread = memory.word(state.checked_add(layout.thread_id)?)?;
        // Both C libraries begin what it leads to with its own address.
        (memory.word(thread)? == thread).then(|| find(memory, thread, state))?
    })
}

/// The states of all threads.
pub fn threads(layout: &Layout, memory: &impl Memory, runtime: u64) -> impl Iterator<Item = u64> {
    let head = runtime.wrapping_add(layout.interpreters);
    let interpreters = list(memory, head, layout.next_interpreter).into_iter();
    let threads = interpreters.flat_map(|interpreter| {
        let head = interpreter.wrapping_add(layout.threads);
        list(memory, head, layout.next_thread)
    });
    threads.take(MOST)
}

/// The members of a list whose head is at an address.
fn list(memory: &impl Memory, head: u64, next: u64) -> Vec<u64> {
    let mut members = Vec::new();
    let mut at = head;
    while members.len() < MOST
        && let Some(member) = memory.word(at).filter(|member| *member != 0)
    {
        members.push(member);
        at = member.wrapping_add(next);
    }
    members
}

fn find(memory: &impl Memory, thread: u64, state: u64) -> Option<Slot> {
    let near = offset_of(memory, thread, NEAR, state).map(|at| Slot { at, slots_at: 0 });
    near.or_else(|| {
        (8..HEAD).step_by(8).find_map(|slots_at| {
            let slots = memory.word(thread.checked_add(slots_at)?)?;
            let at = offset_of(memory, slots, FAR, state)?;
            let slots_at = slots_at as u32;
            Some(Slot { at, slots_at })
        })
    })
}

/// Where a word is within so many bytes, the last of them if there are several: what comes first may be what the thread was
/// started with.
fn offset_of(memory: &impl Memory, from: u64, bytes: u64, word: u64) -> Option<u32> {
    let offsets = (0..bytes).step_by(8);
    let found = offsets.filter(|at| {
        let address = from.checked_add(*at);
        address.and_then(|address| memory.word(address)) == Some(word)
    });
    found.last().map(|at| at as u32)
}
