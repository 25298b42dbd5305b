//! Locks of the kernel that followed threads waited for: what `bpf/kernel_locks.h` has summed up.
use crate::error::CollectError;
use crate::programs::Programs;
use crate::state::State;
use dwell_recording::rows::KernelLockRow;
use libbpf_rs::{MapCore, MapFlags};

/// The programs; loaded only when they are wanted.
pub const PROGRAMS: [&str; 2] = ["on_contention_begin", "on_contention_end"];

/// `enum lcb_flags` of the kernel.
const SPIN: u32 = 1;
const READ: u32 = 2;
const WRITE: u32 = 4;
const REALTIME: u32 = 8;
const PER_PROCESSOR: u32 = 16;
const MUTEX: u32 = 32;

/// Everything that was seen.
#[derive(Default)]
pub struct KernelLocks {
    /// The sums.
    pub rows: Vec<KernelLockRow>,
    /// Waits that ended.
    pub produced: u64,
    /// Of these, those that are in no row.
    pub lost: u64,
}

/// Lets the kernel tell of its locks from now on.
pub fn attach(programs: &mut Programs) -> Result<(), CollectError> {
    // The end first: one without a beginning counts for nothing.
    for name in PROGRAMS.iter().rev() {
        programs.attach_tracepoint(name)?;
    }
    Ok(())
}

/// Reads the sums; stacks get their numbers.
pub fn read(programs: &Programs, state: &mut State) -> Result<KernelLocks, CollectError> {
    let [produced, lost] = counts(programs)?;
    let mut found = KernelLocks {
        produced,
        lost,
        ..KernelLocks::default()
    };
    let places = programs.map("lock_places")?;
    let stacks = programs.map("lock_stacks")?;
    for key in places.keys() {
        let Some(sums) = places
            .lookup(&key, MapFlags::ANY)
            .map_err(CollectError::map)?
        else {
            continue;
        };
        let (place, [waits, waited_ns, max_ns]) = (Place::of(&key), words(&sums));
        let Some(process) = state.processes.last_of(place.tgid) else {
            found.lost += waits;
            continue;
        };
        let stack = match place.stack {
            0.. => stacks
                .lookup(&place.stack.to_ne_bytes(), MapFlags::ANY)
                .map_err(CollectError::map)?,
            _ => None,
        };
        let (kind, access) = kind(place.flags);
        found.rows.push(KernelLockRow {
            process,
            address: place.lock,
            kind: kind.to_owned(),
            access: access.to_owned(),
            stack: stack.map(|pcs| state.kernel_stack(pcs_of(&pcs))),
            waits,
            waited_ns,
            max_ns,
        });
    }
    Ok(found)
}

/// `struct lock_place`.
struct Place {
    lock: u64,
    tgid: u32,
    flags: u32,
    stack: i32,
}

impl Place {
    fn of(bytes: &[u8]) -> Place {
        let [lock, process, stack] = words(bytes);
        Place {
            lock,
            tgid: process as u32,
            flags: (process >> 32) as u32,
            stack: stack as u32 as i32,
        }
    }
}

/// The first words of some bytes; zeroes where there are fewer.
fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    let mut words = crate::records::words(bytes);
    std::array::from_fn(|_| words.next().unwrap_or(0))
}

/// The pcs of a stack of the kernel's; zeroes follow.
fn pcs_of(bytes: &[u8]) -> &[u8] {
    let (chunks, _) = bytes.as_chunks::<8>();
    let depth = chunks.iter().take_while(|c| **c != [0; 8]).count();
    &bytes[..8 * depth]
}

/// Waits that ended, and those that found no room.
fn counts(programs: &Programs) -> Result<[u64; 2], CollectError> {
    programs.sums("lock_counts")
}

/// What kind of lock waits with these flags, and what for.
fn kind(flags: u32) -> (&'static str, &'static str) {
    let has = |flag| flags & flag != 0;
    let shared = has(READ) || has(WRITE);
    let kind = match () {
        () if has(MUTEX) => "mutex",
        () if has(PER_PROCESSOR) => "percpu-rwsem",
        () if has(REALTIME) && shared => "rwbase",
        () if has(REALTIME) => "rtmutex",
        () if has(SPIN) && shared => "rwlock",
        () if has(SPIN) => "spin",
        () if shared => "rwsem",
        () => "semaphore",
    };
    let access = match () {
        () if has(READ) => "read",
        () if has(WRITE) => "write",
        () => "",
    };
    (kind, access)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel's own callers pass them.
    #[test]
    fn kinds_by_flags() {
        for (flags, wanted) in [
            (SPIN, ("spin", "")),
            (SPIN | READ, ("rwlock", "read")),
            (SPIN | WRITE, ("rwlock", "write")),
            (SPIN | MUTEX, ("mutex", "")),
            (MUTEX, ("mutex", "")),
            (READ, ("rwsem", "read")),
            (WRITE, ("rwsem", "write")),
            (REALTIME, ("rtmutex", "")),
            (REALTIME | READ, ("rwbase", "read")),
            (PER_PROCESSOR | READ, ("percpu-rwsem", "read")),
            (0, ("semaphore", "")),
        ] {
            assert_eq!(kind(flags), wanted, "{flags}");
        }
    }

    #[test]
    fn a_place_as_it_lies() {
        let mut bytes = 0xffff_8880_0000_1000u64.to_ne_bytes().to_vec();
        for word in [4711u32, SPIN, (-14i32) as u32, 0] {
            bytes.extend(word.to_ne_bytes());
        }
        let place = Place::of(&bytes);
        assert_eq!(
            (place.lock, place.tgid, place.flags, place.stack),
            (0xffff_8880_0000_1000, 4711, SPIN, -14)
        );
    }
}
