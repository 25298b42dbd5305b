//! The ledger of memory: what followed threads did to get and give back memory, as `bpf/memory.h` has summed it up.
use crate::error::CollectError;
use crate::programs::Programs;
use crate::reasons::syscall_name;
use crate::records::{Trail, words};
use crate::state::State;
use dwell_abi::events::StackRecord;
use dwell_recording::meta::MemoryCosts;
use dwell_recording::rows::MemoryPlaceRow;
use hashbrown::HashMap;
use libbpf_rs::{MapCore, MapFlags};
use std::time::{Duration, Instant};

mod calibration;
mod freed_counts;
mod kernel_threads;
mod machine_pages;

pub use kernel_threads::KernelThreads;
use machine_pages::MachinePages;

/// The programs at tracepoints; loaded only when they are wanted.
pub const PROGRAMS: [&str; 20] = [
    "on_memory_switch",
    "on_memory_exit",
    "on_fault_user",
    "on_fault_kernel",
    "on_filemap_fault",
    "on_filemap_map",
    "on_page_alloc",
    "on_softirq_begin",
    "on_softirq_end",
    "on_sys_enter",
    "on_sys_exit",
    "on_tlb_flush",
    "on_call_begin",
    "on_call_end",
    "on_single_call_begin",
    "on_single_call_end",
    "on_memory_lock_wait",
    "on_memory_lock_got",
    SWEEP,
    LOOK,
];
/// The one that is run when the recording ends.
pub const SWEEP: &str = "on_memory_sweep";
/// The one that looks which pages are in use, whenever user space wants it to.
const LOOK: &str = "on_memory_look";

/// So often it is counted who holds memory, at most; and it may take one part in so many of a processor.
pub const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOK_SHARE: u32 = 100;

const NR_EXIT: i32 = -2;
/// Stacks kept of a place; of more, later ones take the place of earlier ones by chance.
const STACKS_MOST: usize = 64;

/// What is kept while it is recorded.
pub struct Memory {
    costs: MemoryCosts,
    kernel_threads: KernelThreads,
    machine_pages: MachinePages,
    next_look: Instant,
}

impl Memory {
    /// Measures the machine and lets the kernel tell of memory from now on.
    pub fn begin(programs: &mut Programs) -> Result<Memory, CollectError> {
        let cleared = calibration::clear_ns();
        let distance = freed_counts::distance_from_queue().ok_or(CollectError::FreedCounts)?;
        programs
            .map("data.memory_freed")?
            .update(&0u32.to_ne_bytes(), &distance.to_ne_bytes(), MapFlags::ANY)
            .map_err(CollectError::map)?;
        for name in PROGRAMS.iter().filter(|name| ![SWEEP, LOOK].contains(name)) {
            programs.attach_tracepoint(name)?;
        }
        Ok(Memory {
            costs: MemoryCosts {
                clear_cached_ns: cleared.cached,
                clear_uncached_ns: cleared.uncached,
                ..MemoryCosts::default()
            },
            kernel_threads: KernelThreads::now(),
            machine_pages: MachinePages::now(),
            next_look: Instant::now(),
        })
    }

    /// Has the pages in use counted, when it is time. Call it often.
    pub fn look(&mut self, programs: &Programs) -> Result<(), CollectError> {
        let now = Instant::now();
        if now < self.next_look {
            return Ok(());
        }
        programs.run_once(LOOK)?;
        self.next_look = now + LOOK_EVERY.max(now.elapsed() * LOOK_SHARE);
        Ok(())
    }

    /// Reads the sums, once all other programs are detached.
    pub fn end(mut self, programs: &Programs, state: &mut State) -> Result<Ended, CollectError> {
        self.costs.kernel_threads = self.kernel_threads.until_now();
        let machine = MachinePages::now();
        self.costs.machine_allocated_pages = machine
            .allocated
            .saturating_sub(self.machine_pages.allocated);
        self.costs.machine_freed_pages = machine.freed.saturating_sub(self.machine_pages.freed);
        programs.run_iterator(SWEEP)?;
        let [produced, mut lost, stacks_skipped, owners_lost, by_kernel] =
            programs.sums("memory_counts")?;
        self.costs.kernel_allocated_pages = by_kernel;
        let mut rows = Vec::new();
        let peaks = peaks(programs)?;
        let places = programs.map("memory_places")?;
        for key in places.keys() {
            let found = places.lookup(&key, MapFlags::ANY);
            let Some(sums) = found.map_err(CollectError::map)? else {
                continue;
            };
            match row(state, Place::of(&key), &sums, &peaks) {
                Some(row) => rows.extend(is_used(&sums).then_some(row)),
                None => lost += 1,
            }
        }
        rows.sort_unstable_by(|a, b| {
            (a.process, &a.syscall, a.pc).cmp(&(b.process, &b.syscall, b.pc))
        });
        Ok(Ended {
            costs: self.costs,
            rows,
            produced,
            lost,
            stacks_skipped,
            owners_lost,
        })
    }
}

/// At which look each process held most, by process id.
fn peaks(programs: &Programs) -> Result<HashMap<u32, u64>, CollectError> {
    let held = programs.map("memory_held")?;
    let mut peaks = HashMap::new();
    for key in held.keys() {
        let found = held.lookup(&key, MapFlags::ANY);
        let found = found.map_err(CollectError::map)?.unwrap_or_default();
        // `struct memory_held`.
        if let (Ok(tgid), Some(look)) = (key[..].try_into(), words(&found).nth(3)) {
            peaks.insert(u32::from_ne_bytes(tgid), look);
        }
    }
    Ok(peaks)
}

/// Everything that was seen.
pub struct Ended {
    /// Of the machine.
    pub costs: MemoryCosts,
    /// The sums.
    pub rows: Vec<MemoryPlaceRow>,
    /// Sums that threads gave up.
    pub produced: u64,
    /// Of these, those without a place of their own.
    pub lost: u64,
    /// Times that a thread came to a place whose stack was not known and was not taken, for there were too many.
    pub stacks_skipped: u64,
    /// Pages that were to be followed and found no room.
    pub owners_lost: u64,
}

/// `struct memory_place`.
#[derive(Clone, Copy)]
struct Place {
    tgid: u32,
    nr: i32,
    ip: u64,
    sp: u64,
}

impl Place {
    fn of(bytes: &[u8]) -> Place {
        let mut words = words(bytes);
        let mut next = || words.next().unwrap_or(0);
        let process = next();
        Place {
            tgid: process as u32,
            nr: (process >> 32) as u32 as i32,
            ip: next(),
            sp: next(),
        }
    }

    /// What its stacks know it by; as `place_hash`.
    fn hash(&self) -> u64 {
        let call = u64::from(self.nr as u32) << 48;
        (self.ip ^ call).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.sp.wrapping_mul(0xc2b2_ae3d_27d4_eb4f)
    }
}

/// Stacks taken at places.
#[derive(Default)]
pub struct PlaceStacks {
    /// By process id and the hash of the place.
    by_place: HashMap<(u32, u64), Stacks>,
}

#[derive(Default)]
struct Stacks {
    kept: Vec<u32>,
    taken: usize,
}

impl Stacks {
    /// Keeps every stack with the same chance; the pseudo-random place is that of a number's hash.
    fn add(&mut self, stack: u32) {
        self.taken += 1;
        if self.kept.len() < STACKS_MOST {
            return self.kept.push(stack);
        }
        let chance = (self.taken as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let place = (chance as usize * self.taken) >> 32;
        if let Some(kept) = self.kept.get_mut(place) {
            *kept = stack;
        }
    }
}

impl State {
    /// Takes in the user stack of a place.
    pub(crate) fn memory_stack(&mut self, head: &StackRecord, trail: Trail<'_>) {
        let Some(process) = self.processes.id_of(head.tgid) else {
            self.losses.orphans += 1;
            return;
        };
        let stack = self.user_stack(process, head.end, trail);
        let place = (head.tgid, head.sp);
        let stacks = &mut self.memory_stacks.by_place;
        stacks.entry(place).or_default().add(stack);
    }
}

/// The time of all calls, from that of those that were timed.
fn scaled(timed_ns: u64, calls: u64, timed: u64) -> u64 {
    if timed == 0 {
        return 0;
    }
    let all = u128::from(timed_ns) * u128::from(calls) / u128::from(timed);
    u64::try_from(all).unwrap_or(u64::MAX)
}

fn is_used(sums: &[u8]) -> bool {
    words(sums).any(|n| n > 0)
}

/// The row of a place; none of a process that is not known.
fn row(
    state: &mut State,
    place: Place,
    sums: &[u8],
    peaks: &HashMap<u32, u64>,
) -> Option<MemoryPlaceRow> {
    let process = state.processes.last_of(place.tgid)?;
    let mut sums = words(sums);
    let mut next = || sums.next().unwrap_or(0);
    let stacks = &mut state.memory_stacks.by_place;
    let stacks = stacks.remove(&(place.tgid, place.hash()));
    // In the order of `struct memory_sums`.
    let [minor_faults, major_faults] = [next(), next()];
    let kinds: [u64; 7] = std::array::from_fn(|_| next());
    let [calls, timed, timed_ns] = [next(), next(), next()];
    Some(MemoryPlaceRow {
        process,
        syscall: match place.nr {
            NR_EXIT => "exit".to_owned(),
            nr => syscall_name(nr).to_owned(),
        },
        pc: place.ip,
        minor_faults,
        major_faults,
        anonymous_faults: kinds[0],
        copied_faults: kinds[1],
        file_faults: kinds[2],
        stack_faults: kinds[3],
        huge_faults: kinds[4],
        populated_faults: kinds[5],
        other_faults: kinds[6],
        calls,
        call_ns: scaled(timed_ns, calls, timed),
        allocated_pages: next(),
        freed_pages: next(),
        zeroed_pages: next(),
        zeroed_huge_pages: next(),
        shootdowns: next(),
        remote_flushes: next(),
        remote_ns: next(),
        mmap_waits: next(),
        mmap_wait_ns: next(),
        spins: next(),
        spin_ns: next(),
        zone_waits: next(),
        zone_wait_ns: next(),
        list_waits: next(),
        list_wait_ns: next(),
        // `struct memory_entry` ends with these.
        peak_pages: {
            let [pages, look] = [next(), next()];
            if peaks.get(&place.tgid) == Some(&look) {
                pages
            } else {
                0
            }
        },
        stacks: stacks.map(|s| s.kept).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_as_it_lies() {
        let mut bytes = 4711u32.to_ne_bytes().to_vec();
        bytes.extend(NR_EXIT.to_ne_bytes());
        bytes.extend(0x5555_0000u64.to_ne_bytes());
        bytes.extend(0x7ffc_0000u64.to_ne_bytes());
        let place = Place::of(&bytes);
        assert_eq!(
            (place.tgid, place.nr, place.ip, place.sp),
            (4711, -2, 0x5555_0000, 0x7ffc_0000)
        );
    }

    #[test]
    fn of_many_stacks_late_ones_are_kept_as_often_as_early_ones() {
        let mut stacks = Stacks::default();
        for stack in 0..6400 {
            stacks.add(stack);
        }
        assert_eq!(stacks.kept.len(), STACKS_MOST);
        let early = stacks.kept.iter().filter(|s| **s < 3200).count();
        assert!((16..48).contains(&early), "{early}");
    }
}
