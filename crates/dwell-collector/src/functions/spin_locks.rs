//! Spin locks of the kernel: every acquisition and release counted, those that somebody waits for kept
//! with a stack. See `bpf/spinlocks.bpf.c`.
use super::error::FunctionsError;
use super::names;
use super::programs::{Failure, explain, missed, select, set_constants};
use crate::error::CollectError;
use crate::machine;
use crate::programs::{Embedded, map, quiet_libbpf};
use libbpf_rs::{Link, Object, ObjectBuilder, OpenObject};
use memmap2::{MmapOptions, MmapRaw};
use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

static OBJECT: &Embedded<[u8]> = &Embedded(*include_bytes!(concat!(
    env!("OUT_DIR"),
    "/spinlocks.bpf.o"
)));

/// Events each processor has room for between two calls of [`SpinLocks::drain`]. A power of two.
const CAPACITY: u32 = 4096;

/// The functions, in the order of the C enum: name of the program, of the function, and what it does.
const FUNCTIONS: [(&str, &str, Operation); 10] = [
    ("on_lock", "_raw_spin_lock", Operation::Acquire),
    ("on_lock_bh", "_raw_spin_lock_bh", Operation::Acquire),
    ("on_lock_irq", "_raw_spin_lock_irq", Operation::Acquire),
    (
        "on_lock_irqsave",
        "_raw_spin_lock_irqsave",
        Operation::Acquire,
    ),
    ("on_trylock", "_raw_spin_trylock", Operation::Acquire),
    ("on_trylock_bh", "_raw_spin_trylock_bh", Operation::Acquire),
    ("on_unlock", "_raw_spin_unlock", Operation::Release),
    ("on_unlock_bh", "_raw_spin_unlock_bh", Operation::Release),
    ("on_unlock_irq", "_raw_spin_unlock_irq", Operation::Release),
    (
        "on_unlock_irqrestore",
        "_raw_spin_unlock_irqrestore",
        Operation::Release,
    ),
];

/// What is done to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Somebody wants it.
    Acquire,
    /// Somebody gives it back.
    Release,
}

/// What was counted of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operations {
    /// Its name.
    pub function: &'static str,
    /// What it does.
    pub operation: Operation,
    /// How often it did.
    pub all: u64,
    /// Of these, how often the lock was held already, or was waited for.
    pub contended: u64,
    /// Tries that did not get the lock; not part of `all`.
    pub failed: u64,
    /// Calls that the kernel kept from our program, since it ran on that processor already; not part of
    /// `all`. With processes to select these are of any process.
    pub missed: u64,
    /// False where the kernel does not let this one be traced.
    pub traced: bool,
}

/// Contended operations at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function.
    pub function: &'static str,
    /// What it does.
    pub operation: Operation,
    /// Kernel addresses, innermost first: of our program, of the function, of its caller and so on.
    pub frames: Vec<u64>,
    /// How often.
    pub times: u64,
    /// Addresses of the locks.
    pub locks: BTreeSet<u64>,
}

/// Everything that was counted.
#[derive(Clone, Debug, Default)]
pub struct SpinLockCounts {
    /// By function.
    pub functions: Vec<Operations>,
    /// Places of kept events.
    pub places: Vec<Place>,
    /// Events that were kept.
    pub kept: u64,
    /// Events to be kept that found no room.
    pub no_room: u64,
    /// Events to be kept that interrupted the keeping of another.
    pub nested: u64,
}

/// Programs at the spin locks' functions, counting since [`SpinLocks::attach`]. Dropping it takes
/// everything back.
pub struct SpinLocks {
    // Fields drop in this order: links before the object whose programs they hold.
    links: Vec<Link>,
    buffers: Buffers,
    places: HashMap<(u16, Vec<u64>), (u64, BTreeSet<u64>)>,
    kept: u64,
    /// Which of the functions the kernel lets be traced.
    traced: [bool; FUNCTIONS.len()],
    /// What was counted before all programs were there.
    before: Sums,
    object: Object,
}

impl SpinLocks {
    /// Puts programs at the functions. `pids` (processes, all their threads) select operations; none is
    /// all. `keep_all` keeps every operation, without a stack: to measure what keeping few saves.
    pub fn attach(pids: &[u32], keep_all: bool) -> Result<SpinLocks, FunctionsError> {
        let main = FUNCTIONS[0].1;
        let refused = |failure| explain(main, failure);
        let traced = names::have_types(FUNCTIONS.map(|f| f.1));
        if !traced[0] {
            return Err(refused(Failure::NoSuchFunction));
        }
        let object =
            load(traced, !pids.is_empty(), keep_all).map_err(|e| refused(Failure::Load(e)))?;
        select(&object, pids)?;
        let mut links = Vec::new();
        for program in object.progs_mut().filter(|p| p.autoload()) {
            let link = program.attach_trace();
            links.push(link.map_err(|e| refused(Failure::Attach(e)))?);
        }
        let mut locks = SpinLocks {
            links,
            buffers: Buffers::of(&object)?,
            places: HashMap::new(),
            kept: 0,
            traced,
            before: Sums::default(),
            object,
        };
        // Attaching itself takes locks, of which the programs that were there already saw a part.
        locks.buffers.drain(|_| ());
        locks.before = locks.sums();
        Ok(locks)
    }

    /// Takes the kept events out of the buffers. Call it often: a full buffer loses events.
    pub fn drain(&mut self) {
        let (places, kept) = (&mut self.places, &mut self.kept);
        self.buffers.drain(|event| {
            *kept += 1;
            let place = places.entry((event.function, event.frames)).or_default();
            place.0 += 1;
            place.1.insert(event.lock);
        });
    }

    /// Takes the programs back and reads what they counted.
    pub fn finish(mut self) -> SpinLockCounts {
        let sums = self.sums().since(&self.before);
        self.drain();
        self.links.clear();
        let functions = FUNCTIONS.iter().enumerate().map(|(at, f)| {
            let [all, contended, failed, missed] = sums.of[at];
            Operations {
                function: f.1,
                operation: f.2,
                all,
                contended,
                failed,
                missed,
                traced: self.traced[at],
            }
        });
        let place = |((function, frames), (times, locks))| {
            let (_, function, operation) = FUNCTIONS[usize::from(function)];
            Place {
                function,
                operation,
                frames,
                times,
                locks,
            }
        };
        SpinLockCounts {
            functions: functions.collect(),
            places: self.places.into_iter().map(place).collect(),
            kept: self.kept,
            no_room: sums.no_room,
            nested: sums.nested,
        }
    }

    fn sums(&self) -> Sums {
        let mut sums = self.buffers.sums();
        for (of, (program, ..)) in sums.of.iter_mut().zip(FUNCTIONS) {
            of[3] = missed(&self.object, program);
        }
        sums
    }
}

fn load(
    traced: [bool; FUNCTIONS.len()],
    filtered: bool,
    keep_all: bool,
) -> Result<Object, libbpf_rs::Error> {
    quiet_libbpf();
    let mut open = ObjectBuilder::default().open_memory(&OBJECT.0)?;
    prepare(&mut open, filtered, keep_all)?;
    for mut program in open.progs_mut() {
        let at = FUNCTIONS.iter().position(|f| program.name() == f.0);
        program.set_autoload(at.is_some_and(|at| traced[at]));
    }
    open.load()
}

/// Fills the constants, and makes room.
fn prepare(open: &mut OpenObject, filtered: bool, keep_all: bool) -> Result<(), libbpf_rs::Error> {
    // `capacity`, `filtered` and `keep_all`, which lie in this order.
    let [a, b, c, d] = CAPACITY.to_ne_bytes();
    set_constants(open, &[a, b, c, d, filtered.into(), keep_all.into()])?;
    let cpus = machine::possible_cpus();
    for mut map in open.maps_mut() {
        match map.name().to_str() {
            Some("processors") => map.set_max_entries(cpus)?,
            Some("events") => map.set_max_entries(cpus * CAPACITY)?,
            _ => {}
        }
    }
    Ok(())
}

/// Words of `struct processor`: head, tail, no_room, nested, then three for each function.
const PROCESSOR: usize = 40;
const OPERATIONS: usize = 8;
/// Words of `struct event`, and where its stack begins.
const EVENT: usize = 16;
const STACK: usize = 3;

/// An event that was kept.
struct Event {
    lock: u64,
    function: u16,
    frames: Vec<u64>,
}

#[derive(Default)]
struct Sums {
    /// All, contended, failed, missed.
    of: [[u64; 4]; FUNCTIONS.len()],
    no_room: u64,
    nested: u64,
}

impl Sums {
    fn since(mut self, before: &Sums) -> Sums {
        for (of, before) in self.of.iter_mut().flatten().zip(before.of.iter().flatten()) {
            *of -= before;
        }
        self.no_room -= before.no_room;
        self.nested -= before.nested;
        self
    }
}

/// The processors' counts and events, as they lie in the kernel.
struct Buffers {
    processors: Words,
    events: Words,
    cpus: usize,
}

impl Buffers {
    fn of(object: &Object) -> Result<Buffers, CollectError> {
        let cpus = machine::possible_cpus() as usize;
        let words = |name, count| Words::of(&map(object, name)?, count);
        Ok(Buffers {
            processors: words("processors", cpus * PROCESSOR)?,
            events: words("events", cpus * CAPACITY as usize * EVENT)?,
            cpus,
        })
    }

    fn drain(&mut self, mut take: impl FnMut(Event)) {
        for cpu in 0..self.cpus {
            let head = self.processors.get(cpu * PROCESSOR);
            let tail = self.processors.get(cpu * PROCESSOR + 1);
            for number in tail..head {
                let slot = cpu * CAPACITY as usize + number as usize % CAPACITY as usize;
                take(self.event(slot));
            }
            self.processors.set(cpu * PROCESSOR + 1, head);
        }
    }

    fn event(&self, slot: usize) -> Event {
        let word = |at: usize| self.events.get(slot * EVENT + at);
        let end = (STACK + (word(2) >> 48) as usize).min(EVENT);
        Event {
            lock: word(1),
            function: ((word(2) >> 32) as u16).min(FUNCTIONS.len() as u16 - 1),
            frames: (STACK..end).map(word).collect(),
        }
    }

    fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for cpu in 0..self.cpus {
            let word = |at: usize| self.processors.get(cpu * PROCESSOR + at);
            sums.no_room += word(2);
            sums.nested += word(3);
            for (function, of) in sums.of.iter_mut().enumerate() {
                for (at, sum) in of.iter_mut().take(3).enumerate() {
                    *sum += word(OPERATIONS + 3 * function + at);
                }
            }
        }
        sums
    }
}

/// A map's memory, which the kernel writes at the same time.
struct Words {
    memory: MmapRaw,
    count: usize,
}

impl Words {
    fn of(map: &libbpf_rs::Map<'_>, count: usize) -> Result<Words, CollectError> {
        let failed = |e| CollectError::from_io("mapping counts of spin locks", e, "");
        let memory = MmapOptions::new()
            .len(count * 8)
            .map_raw(map.as_fd().as_raw_fd());
        Ok(Words {
            memory: memory.map_err(failed)?,
            count,
        })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.count);
        // SAFETY: within the mapping, which is page-aligned; the kernel writes whole words.
        unsafe { &*self.memory.as_mut_ptr().cast::<AtomicU64>().add(at) }
    }

    fn get(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Release);
    }
}
