//! What code does in place of a call, next to what the agent says: sums by many threads and signal handlers are exact,
//! the clock is the agent's, a thread's memory its own.
mod common;

use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width, atomic};
use dwell_abi::program::operation as op;
use dwell_agent::script::layout::{DIRECT, OWNERS, State, THREADS, Table, Thread, counter};
use dwell_jit::{Frame, Gate, Links, Nearby, Sums, translate};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};

/// What is where in one mapping, bytes: the code, the agent, and the state.
const AGENT: usize = 0x1_0000;
const STATE: usize = 0x10_0000;
/// From the start of the state: the table, keys that are noted, slots, memory, threads, theirs, the pool.
const TABLE: u64 = 0x1000;
const NOTED: u64 = 0x2000;
const SLOTS: u64 = 0x3000;
const MARKS: u64 = 0x3800;
const MEMORY: u64 = 0x4000;
const THREAD_PLACES: u64 = 0x1_0000;
const THREAD_MEMORY: u64 = 0x8_0000;
const THREAD_SIZE: u64 = 64;
const POOL: u64 = 0x10_0000;
const POOL_BITS: u8 = 16;
const POOL_PART: u64 = 1 << POOL_BITS;
const LEN: usize = STATE + (POOL + POOL_PART * (OWNERS as u64 + 1)) as usize;
const VALUE: u64 = 8;

struct World {
    at: u64,
    is_noted: bool,
}

impl Links for World {
    fn operation(&self, operation: u32) -> Option<u64> {
        let offset = match operation {
            op::LOOKUP => dwell_agent::SCRIPT_LOOKUP_OFFSET,
            op::UPDATE => dwell_agent::SCRIPT_UPDATE_OFFSET,
            op::THREAD => dwell_agent::SCRIPT_THREAD_OFFSET,
            _ => return None,
        };
        Some(self.at + AGENT as u64 + offset)
    }
    fn store(&self, store: u32) -> u64 {
        self.state() + if store == 0 { TABLE } else { MEMORY }
    }
    fn store_address(&self, store: u32) -> u64 {
        self.store(store)
    }
    fn state(&self) -> u64 {
        self.at + STATE as u64
    }
    fn nearby(&self) -> Option<Nearby> {
        Some(Nearby {
            threads: THREAD_PLACES as i32,
            thread_memory: THREAD_MEMORY as i32,
            thread_memory_size: THREAD_SIZE as i32,
            pool: POOL as i32,
            pool_bits: POOL_BITS,
            sum: self.at + AGENT as u64 + dwell_agent::SCRIPT_SUM_OFFSET,
        })
    }
    fn sums(&self, store: u32) -> Option<Sums> {
        (store == 0).then_some(Sums {
            value: VALUE as i32,
            direct: self.is_noted.then_some(NOTED as i32),
        })
    }
}

impl World {
    /// A state as dwell fills it, and a program at the start of the mapping.
    fn new(program: &[Instruction], is_noted: bool) -> World {
        // SAFETY: new memory of our own.
        let memory = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            libc::mmap(std::ptr::null_mut(), LEN, protection, flags, -1, 0)
        };
        assert_ne!(memory, libc::MAP_FAILED);
        let world = World {
            at: memory as u64,
            is_noted,
        };
        let open = world.state() + MEMORY + 0x800;
        let gate = Gate { open, owner: None };
        let frame = Frame::Probe { gate, kept: 0 };
        let code = translate(program, frame, &world, world.at).expect("it is translated");
        let mut state = State {
            len: (LEN - STATE) as u64,
            pid: std::process::id().into(),
            ..State::default()
        };
        state.threads.start = THREAD_PLACES;
        state.threads.memory = THREAD_MEMORY;
        state.threads.memory_size = THREAD_SIZE;
        state.pool.start = POOL;
        state.pool.part = POOL_PART;
        state.pool.used = AtomicU64::new(8);
        let table = Table {
            start: SLOTS,
            slots: 16,
            slot_size: 16,
            key: 8,
            value: VALUE,
            is_sums: 1,
            direct: if is_noted { NOTED } else { 0 },
            marks: MARKS,
        };
        const { assert!(NOTED + 4 * DIRECT <= SLOTS) };
        const { assert!(THREAD_PLACES + THREADS * size_of::<Thread>() as u64 <= THREAD_MEMORY) };
        // SAFETY: all of it is within the mapping, apart from each other.
        unsafe {
            let copy = |bytes: &[u8], to: usize| {
                let to = memory.cast::<u8>().add(to);
                to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            };
            copy(&code, 0);
            copy(dwell_agent::CODE, AGENT);
            (world.state() as *mut State).write(state);
            (world.store(0) as *mut Table).write(table);
            (open as *mut u32).write(1);
        }
        world
    }

    fn state_of(&self) -> &State {
        // SAFETY: written by `new`; what changes in it is atomic.
        unsafe { &*(Links::state(self) as *const State) }
    }

    fn word(&self, distance: u64) -> u64 {
        // SAFETY: within the mapping, aligned; others may change it.
        unsafe { ((Links::state(self) + distance) as *const u64).read_volatile() }
    }

    fn fire(&self) {
        let mut registers = [0; 15];
        // SAFETY: a program of ours stands there, called as a probe.
        unsafe { common::dwell_test_probe(self.at as *const u8, registers.as_mut_ptr()) };
    }

    /// What the parts of the pool have: the one of all, those of threads. A key that several brought at once has
    /// several values in each, which count together.
    fn parts(&self) -> Vec<u64> {
        let used = self.state_of().pool.used.load(Ordering::Relaxed);
        let part = |n| {
            let values = (8..used).step_by(VALUE as usize);
            values.map(|at| self.word(POOL + n * POOL_PART + at)).sum()
        };
        (0..OWNERS as u64 + 1).map(part).collect()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing runs there.
        unsafe { libc::munmap(self.at as *mut libc::c_void, LEN) };
    }
}

fn key() -> [Instruction; 4] {
    let [store, rest] = Instruction::load_store(1, 0);
    [
        store,
        rest,
        Instruction::alu(Alu::Mov, 2, 10),
        Instruction::alu_imm(Alu::Add, 2, -8),
    ]
}

/// `@ = count()` as the code generator writes it.
fn count() -> Vec<Instruction> {
    let mut code = vec![
        Instruction::alu(Alu::Mov, 6, 1),
        Instruction::store_imm(Width::W8, 10, -8, 3),
    ];
    code.extend(key());
    code.extend([
        Instruction::call(op::LOOKUP),
        Instruction::jump_imm(Jump::Ne, 0, 0, 12),
    ]);
    code.extend(key());
    code.extend([
        Instruction::alu(Alu::Mov, 3, 2),
        Instruction::alu_imm(Alu::Mov, 4, 1),
        Instruction::call(op::UPDATE),
    ]);
    code.extend(key());
    code.push(Instruction::call(op::LOOKUP));
    code.extend([
        Instruction::alu(Alu::Mov, 8, 0),
        Instruction::alu_imm(Alu::Mov, 2, 1),
        Instruction::atomic(atomic::ADD, 8, 0, 2),
        Instruction::alu_imm(Alu::Mov, 0, 0),
        Instruction::exit(),
    ]);
    code
}

static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
static INTERRUPTIONS: AtomicU64 = AtomicU64::new(0);
/// Handlers that run.
static HANDLERS: AtomicU64 = AtomicU64::new(0);

extern "C" fn interrupt(_: i32) {
    HANDLERS.fetch_add(1, Ordering::SeqCst);
    let world = WORLD.load(Ordering::SeqCst);
    if !world.is_null() {
        // SAFETY: who takes it away waits for the handlers before it is gone.
        unsafe { &*world }.fire();
        INTERRUPTIONS.fetch_add(1, Ordering::SeqCst);
    }
    HANDLERS.fetch_sub(1, Ordering::SeqCst);
}

/// From now on no handler fires; how often they have.
fn end_interruptions() -> u64 {
    set_timer(0);
    WORLD.store(std::ptr::null_mut(), Ordering::SeqCst);
    while HANDLERS.load(Ordering::SeqCst) != 0 {
        std::thread::yield_now();
    }
    INTERRUPTIONS.swap(0, Ordering::SeqCst)
}

/// A signal every 200 µs, in whatever thread runs.
fn set_timer(microseconds: i64) {
    let time = libc::timeval {
        tv_sec: 0,
        tv_usec: microseconds,
    };
    let timer = libc::itimerval {
        it_interval: time,
        it_value: time,
    };
    // SAFETY: the handler is made for any instant; the timer is ours.
    unsafe {
        libc::signal(libc::SIGALRM, interrupt as *const () as usize);
        libc::setitimer(libc::ITIMER_REAL, &timer, std::ptr::null_mut());
    }
}

/// More threads than have a part of their own, and handlers of signals that fire in the middle of firing.
#[test]
fn sums_of_threads_and_signal_handlers_are_exact() {
    const COUNT: u64 = 1_000;
    const WORKERS: u64 = 24;
    for is_noted in [true, false] {
        let mut world = World::new(&count(), is_noted);
        WORLD.store(&mut world, Ordering::SeqCst);
        set_timer(200);
        let fired = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    let mut rounds = 0;
                    // However quick this machine is.
                    while rounds == 0 || INTERRUPTIONS.load(Ordering::SeqCst) < 500 {
                        (0..COUNT).for_each(|_| world.fire());
                        rounds += 1;
                    }
                    fired.fetch_add(rounds * COUNT, Ordering::SeqCst);
                });
            }
        });
        let interruptions = end_interruptions();
        let parts = world.parts();
        let sum: u64 = parts.iter().sum();
        let fired = fired.load(Ordering::SeqCst);
        assert_eq!(sum, fired + interruptions, "{parts:?}");
        let own = parts[1..].iter().filter(|n| **n >= COUNT).count();
        assert!(parts[0] >= COUNT && own >= 4, "{parts:?}");
        // Once a thread has a part it is found without a call.
        let flag = &world.state_of().threads.have_control_blocks;
        assert_eq!(flag.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn the_clock_is_the_agents() {
    let [address, rest] = Instruction::load_address(9, 1, 0);
    let code = [
        Instruction::alu(Alu::Mov, 6, 1),
        Instruction::call(op::MONOTONIC_TIME),
        address,
        rest,
        Instruction::store(Width::W8, 9, 0, 0),
        Instruction::exit(),
    ];
    let world = World::new(&code, true);
    // Slow, fast, and set to an instant that this processor's counter has not reached.
    for (speed, ahead) in [(1 << 31, 0), (3 << 32, 0), (1 << 32, u64::MAX >> 20)] {
        for setting in 6..8 {
            let state = world.state_of();
            state.time.settings.store(setting, Ordering::Relaxed);
            let clock = state.time.clock(setting);
            clock.counter.store(counter() + ahead, Ordering::Relaxed);
            clock.ns.store(u64::MAX >> 8, Ordering::Relaxed);
            clock.ns_per_step.store(speed, Ordering::Relaxed);
            let before = clock.at(counter());
            world.fire();
            let shown = world.word(MEMORY);
            let after = clock.at(counter());
            assert!(
                (before..=after).contains(&shown),
                "{before} {shown} {after}"
            );
        }
    }
}

/// The processor reads its counter ahead of what comes before, if it may: some in a thousand such pairs were equal.
#[test]
fn time_passes_between_two_readings() {
    let [address, rest] = Instruction::load_address(9, 1, 0);
    let code = [
        Instruction::alu(Alu::Mov, 6, 1),
        Instruction::call(op::MONOTONIC_TIME),
        address,
        rest,
        Instruction::store(Width::W8, 9, 0, 0),
        Instruction::call(op::MONOTONIC_TIME),
        Instruction::store(Width::W8, 9, 8, 0),
        Instruction::exit(),
    ];
    let world = World::new(&code, true);
    // A third of a ns a step.
    let clock = world.state_of().time.clock(0);
    clock.ns_per_step.store((1 << 32) / 3, Ordering::Relaxed);
    for _ in 0..1_000_000 {
        world.fire();
        let [first, second] = [MEMORY, MEMORY + 8].map(|at| world.word(at));
        assert!(first < second, "{first} {second}");
    }
}

/// All threads at once, so that none has the address of one that has gone.
#[test]
fn every_thread_has_its_own_memory() {
    const COUNT: u64 = 1_000;
    const WORKERS: usize = 40;
    let [store, rest] = Instruction::load_store(1, 1);
    let code = [
        Instruction::alu(Alu::Mov, 6, 1),
        Instruction::call(op::THREAD),
        Instruction::alu(Alu::Mov, 2, 0),
        store,
        rest,
        Instruction::call(op::THREAD_MEMORY),
        Instruction::load(Width::W8, 3, 0, 0),
        Instruction::alu_imm(Alu::Add, 3, 1),
        Instruction::store(Width::W8, 0, 0, 3),
        // Asked again it is the same.
        Instruction::call(op::THREAD),
        Instruction::load(Width::W8, 3, 0, 0),
        Instruction::alu_imm(Alu::Add, 3, 1),
        Instruction::store(Width::W8, 0, 0, 3),
        Instruction::exit(),
    ];
    let world = World::new(&code, true);
    let all = Arc::new(Barrier::new(WORKERS));
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            let (all, world) = (all.clone(), &world);
            scope.spawn(move || {
                all.wait();
                (0..COUNT).for_each(|_| world.fire());
                all.wait();
            });
        }
    });
    let words = (0..THREADS).map(|n| world.word(THREAD_MEMORY + n * THREAD_SIZE));
    let used: Vec<u64> = words.filter(|n| *n != 0).collect();
    assert_eq!(used, vec![2 * COUNT; WORKERS]);
}
