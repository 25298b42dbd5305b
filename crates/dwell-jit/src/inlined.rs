//! Operations that need no call, most of the time.
//!
//! What a call costs is less its instructions than the registers to be saved, and a locked instruction costs more than
//! all of that. So a thread's own sums are found and added to in place, without locks: one instruction of one thread
//! is never seen half done by a signal handler of that thread, and no other thread changes them.
use crate::encode::*;
use crate::translate::{TranslateError, Translator};
use dwell_abi::program::instruction::atomic;
use dwell_abi::program::{Instruction, operation as op};
use dwell_agent::layout::STRIPE_HASH;
use dwell_agent::script::layout::{
    Clock, DIRECT, OWNERS, PLACE_SHIFT, State, THREAD_BITS, TID_IN_CONTROL_BLOCK, Thread,
};
use std::mem::offset_of;

/// Where parts of the state are, bytes from its start, and the agent's function for sums.
#[derive(Debug, Clone, Copy)]
pub struct Nearby {
    /// The places of threads.
    pub threads: i32,
    /// Their memory.
    pub thread_memory: i32,
    /// Bytes of each thread's.
    pub thread_memory_size: i32,
    /// The pool.
    pub pool: i32,
    /// Logarithm of the bytes of each of its parts.
    pub pool_bits: u8,
    /// Address of `dwell_agent_script_sum`.
    pub sum: u64,
}

/// A store of sums.
#[derive(Debug, Clone, Copy)]
pub struct Sums {
    /// Bytes of a value.
    pub value: i32,
    /// Where the values of small keys are noted, bytes from the state's start; none where they are not.
    pub direct: Option<i32>,
}

/// A way that is seldom taken: a call that does what the code in place could not.
#[derive(Debug)]
pub(crate) struct Seldom {
    from: Vec<Hole>,
    /// Where the code goes on.
    back: usize,
    what: Call,
}

#[derive(Debug, Clone, Copy)]
enum Call {
    Thread,
    /// Of the store at an address.
    Sum(u64),
}

const HAVE_CONTROL_BLOCKS: i32 = offset_of!(State, threads.have_control_blocks) as i32;
const SETTINGS: i32 = offset_of!(State, time.settings) as i32;
const CLOCKS: i32 = offset_of!(State, time.clocks) as i32;
const PART_OWNERS: i32 = offset_of!(State, pool.owners) as i32;
const CLOCK_BITS: u8 = size_of::<Clock>().trailing_zeros() as u8;
const THREAD_SIZE_BITS: u8 = size_of::<Thread>().trailing_zeros() as u8;
const _: () = assert!(size_of::<Clock>().is_power_of_two());
const _: () = assert!(size_of::<Thread>().is_power_of_two());

/// Memory at a distance from a register.
fn at(base: Reg, distance: i32) -> Mem {
    Mem { base, distance }
}

impl Translator<'_> {
    /// Does an operation without a call, if it can be.
    pub(crate) fn inlined(
        &mut self,
        number: u32,
        call: usize,
        nearby: Nearby,
    ) -> Result<bool, TranslateError> {
        let store = match number {
            op::LOOKUP | op::UPDATE => self.facts.store_at_call(self.program, call),
            _ => None,
        };
        let sums = store.and_then(|s| Some((self.links.store(s), self.links.sums(s)?)));
        match (number, sums) {
            (op::MONOTONIC_TIME, _) => self.time(),
            (op::THREAD, _) => self.thread(nearby),
            // A thread is told by its memory.
            (op::THREAD_MEMORY, _) => self.code.mov(RAX, RSI),
            (op::LOOKUP, Some((store, sums))) if self.shape.own().is_some() => match sums.direct {
                Some(direct) => self.sum(nearby, store, direct),
                None => {
                    self.plain_call(nearby.sum)?;
                    self.note_own();
                }
            },
            // A key is new only once.
            (op::UPDATE, Some(_)) => {
                let (target, state) = (self.target(number)?, self.links.state());
                let prepare = |code: &mut Code| code.mov_64(R9, state);
                if !self.shape.seldom(&mut self.code, target, prepare) {
                    return Err(TranslateError::TooFar);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The clock as `Time::now` reads it.
    fn time(&mut self) {
        let state = self.links.state();
        let code = &mut self.code;
        let again = code.len();
        code.mov_64(RAX, state);
        code.load(8, R11, at(RAX, SETTINGS));
        code.mov(R10, R11);
        code.constant(false, Two::And, R10, 1);
        code.shift_constant(true, Shift::Left, R10, CLOCK_BITS);
        code.two(true, Two::Add, R10, RAX);
        code.counter();
        code.with(
            Two::Sub,
            RAX,
            at(R10, CLOCKS + offset_of!(Clock, counter) as i32),
        );
        code.multiply_shifted(at(R10, CLOCKS + offset_of!(Clock, ns_per_step) as i32));
        code.with(
            Two::Add,
            RAX,
            at(R10, CLOCKS + offset_of!(Clock, ns) as i32),
        );
        code.mov_64(RDX, state);
        code.compare(8, at(RDX, SETTINGS), R11);
        let was_set = code.jump_if(Condition::NotEqual);
        code.fill(was_set, again);
    }

    /// `place_of` the address in a register, into that register.
    fn place(&mut self, address: Reg, bits: u32) {
        let code = &mut self.code;
        code.shift_constant(true, Shift::Right, address, PLACE_SHIFT as u8);
        code.multiply_constant(false, address, STRIPE_HASH as i32);
        code.shift_constant(false, Shift::Right, address, (32 - bits) as u8);
    }

    /// The address of this thread's memory into register 0, where it has had some and is the one that had it. A firing
    /// that asks again has it on its stack.
    fn thread(&mut self, nearby: Nearby) {
        let state = self.links.state();
        let field = |offset: usize| at(R10, nearby.threads + offset as i32);
        let word = self.shape.thread();
        let code = &mut self.code;
        let known = word.map(|word| {
            code.load(8, RAX, word);
            code.two(true, Two::Test, RAX, RAX);
            code.jump_if(Condition::NotEqual)
        });
        code.mov_64(R11, state);
        code.compare_zero(at(R11, HAVE_CONTROL_BLOCKS));
        let mut from = vec![code.jump_if(Condition::Equal)];
        code.thread_address(RAX);
        code.mov(R10, RAX);
        self.place(R10, THREAD_BITS);
        let code = &mut self.code;
        code.shift_constant(true, Shift::Left, R10, THREAD_SIZE_BITS);
        code.two(true, Two::Add, R10, R11);
        code.compare(8, field(offset_of!(Thread, address)), RAX);
        from.push(code.jump_if(Condition::NotEqual));
        code.compare_zero(field(offset_of!(Thread, is_in_control_block)));
        from.push(code.jump_if(Condition::Equal));
        code.load(4, RAX, at(RAX, TID_IN_CONTROL_BLOCK as i32));
        code.compare(4, field(offset_of!(Thread, tid)), RAX);
        from.push(code.jump_if(Condition::NotEqual));
        code.two(true, Two::Sub, R10, R11);
        code.shift_constant(true, Shift::Right, R10, THREAD_SIZE_BITS);
        code.multiply_constant(true, R10, nearby.thread_memory_size);
        code.two(true, Two::Add, R10, R11);
        code.address(RAX, at(R10, nearby.thread_memory));
        self.or_call(from, Call::Thread);
        if let (Some(word), Some(known)) = (word, known) {
            self.code.store(8, word, RAX);
            self.code.land(known);
        }
    }

    /// The address of a sum whose key is at register 2, into register 0: this thread's, if it is noted where a key's
    /// values are and the thread has a part.
    fn sum(&mut self, nearby: Nearby, store: u64, direct: i32) {
        let state = self.links.state();
        let own = self.shape.own().expect("it was looked for");
        let code = &mut self.code;
        code.mov_64(R11, state);
        code.load(8, RAX, at(RSI, 0));
        code.constant(true, Two::Cmp, RAX, DIRECT as i32);
        let mut from = vec![code.jump_if(Condition::AboveOrEqual)];
        code.compare_zero(at(R11, HAVE_CONTROL_BLOCKS));
        from.push(code.jump_if(Condition::Equal));
        code.shift_constant(true, Shift::Left, RAX, 2);
        code.two(true, Two::Add, RAX, R11);
        code.load(4, RAX, at(RAX, direct));
        code.two(false, Two::Test, RAX, RAX);
        from.push(code.jump_if(Condition::Equal));
        code.thread_address(R10);
        code.mov(RDI, R10);
        self.place(RDI, OWNERS.trailing_zeros());
        let code = &mut self.code;
        code.shift_constant(true, Shift::Left, RDI, 3);
        code.two(true, Two::Add, RDI, R11);
        code.compare(8, at(RDI, PART_OWNERS), R10);
        from.push(code.jump_if(Condition::NotEqual));
        code.two(true, Two::Sub, RDI, R11);
        code.shift_constant(true, Shift::Left, RDI, nearby.pool_bits - 3);
        code.two(true, Two::Add, RDI, R11);
        code.shift_constant(true, Shift::Left, RAX, 3);
        code.two(true, Two::Add, RAX, RDI);
        code.address(RAX, at(RAX, nearby.pool + (1 << nearby.pool_bits)));
        code.store(8, own, RAX);
        self.or_call(from, Call::Sum(store));
    }

    fn or_call(&mut self, from: Vec<Hole>, what: Call) {
        let back = self.code.len();
        self.seldom.push(Seldom { from, back, what });
    }

    /// What `dwell_agent_script_sum` says is taken apart: the address, and whether it is this thread's.
    fn note_own(&mut self) {
        let own = self.shape.own().expect("it was looked for");
        let code = &mut self.code;
        code.mov(R11, RAX);
        code.constant(true, Two::And, R11, 1);
        let shared = code.jump_if(Condition::Equal);
        code.two(true, Two::Sub, RAX, R11);
        code.store(8, own, RAX);
        code.land(shared);
    }

    /// The ways that are seldom taken, behind everything else.
    pub(crate) fn seldom_ways(&mut self) -> Result<(), TranslateError> {
        let state = self.links.state();
        for seldom in std::mem::take(&mut self.seldom) {
            seldom.from.into_iter().for_each(|h| self.code.land(h));
            let target = match seldom.what {
                Call::Thread => self.target(op::THREAD)?,
                Call::Sum(_) => self.links.nearby().map_or(0, |n| n.sum),
            };
            let prepare = |code: &mut Code| {
                if let Call::Sum(store) = seldom.what {
                    code.mov_64(RDI, store);
                }
                code.mov_64(R9, state);
            };
            if !self.shape.seldom(&mut self.code, target, prepare) {
                return Err(TranslateError::TooFar);
            }
            if matches!(seldom.what, Call::Sum(_)) {
                self.note_own();
            }
            let hole = self.code.jump();
            self.code.fill(hole, seldom.back);
        }
        Ok(())
    }

    /// A change that others see whole; without a lock where it is of a sum of this thread's own.
    pub(crate) fn atomic(&mut self, i: Instruction, to: Mem) -> Option<()> {
        let src = self.register(i.src);
        match (self.facts.sum_len, self.shape.own(), src) {
            (Some(len), Some(own), Some(_)) => {
                self.code.address(R11, to);
                self.code.load(8, R10, own);
                self.code.two(true, Two::Sub, R11, R10);
                self.code.constant(true, Two::Cmp, R11, len);
                self.code.lock_unless_below();
            }
            // What has no register of its own is computed before the lock.
            _ => {
                let _ = self.value(i.src, R11);
                self.code.lock();
            }
        }
        match i.imm {
            atomic::ADD => self.code.atomic_add(to, src.unwrap_or(R11)),
            atomic::FETCH_ADD => self.code.atomic_fetch_add(to, src?),
            atomic::COMPARE_EXCHANGE => self.code.atomic_exchange(to, src.unwrap_or(R11)),
            _ => return None,
        }
        Some(())
    }
}
