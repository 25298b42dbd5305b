//! Loops as compilers write them, each with what it is. The corpus of whole programs is recorded by
//! `crates/dwell/tests/e2e/spin.rs`.
use dwell_spin::{Callee, Callees, Function, NoCallees, NotSpinning, Target, judge};
use iced_x86::IcedError;
use iced_x86::code_asm::*;
use std::rc::Rc;

const START: u64 = 0x40_0000;

/// What is found of the instruction after `skip` others.
fn found(
    skip: usize,
    write: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>,
) -> Result<(), NotSpinning> {
    let mut code = CodeAssembler::new(64).expect("an assembler");
    write(&mut code).expect("instructions");
    let bytes = code.assemble(START).expect("code");
    let function = Function::decode(START, &bytes).expect("a function");
    let at = function.addresses().nth(skip).expect("an instruction");
    judge(&function, at, &NoCallees).map(drop)
}

#[test]
fn a_test_and_set_loop_spins() {
    let loops = found(1, |a| {
        let mut top = a.create_label();
        a.mov(ecx, 1)?;
        a.set_label(&mut top)?;
        a.mov(eax, ecx)?;
        a.xchg(dword_ptr(rdi), eax)?;
        a.test(eax, eax)?;
        a.jne(top)?;
        a.ret()
    });
    assert_eq!(loops, Ok(()));
}

#[test]
fn an_attempt_that_writes_something_else_each_time_does_not() {
    let loops = found(1, |a| {
        let mut top = a.create_label();
        a.mov(ecx, 1)?;
        a.set_label(&mut top)?;
        a.mov(eax, ecx)?;
        a.inc(ecx)?;
        a.xchg(dword_ptr(rdi), eax)?;
        a.test(eax, eax)?;
        a.jne(top)?;
        a.ret()
    });
    assert_eq!(loops, Err(NotSpinning::Updates));
}

#[test]
fn a_lock_free_counter_works() {
    let loops = found(1, |a| {
        let mut top = a.create_label();
        a.mov(eax, dword_ptr(rdi))?;
        a.set_label(&mut top)?;
        a.lea(edx, rax + 1)?;
        a.lock().cmpxchg(dword_ptr(rdi), edx)?;
        a.jne(top)?;
        a.ret()
    });
    assert_eq!(loops, Err(NotSpinning::Updates));
}

#[test]
fn a_maximum_kept_by_compare_exchange_works() {
    let loops = found(1, |a| {
        let (mut top, mut done) = (a.create_label(), a.create_label());
        a.nop()?;
        a.set_label(&mut top)?;
        a.mov(eax, dword_ptr(rdi))?;
        a.cmp(eax, edx)?;
        a.jge(done)?;
        a.lock().cmpxchg(dword_ptr(rdi), edx)?;
        a.jne(top)?;
        a.set_label(&mut done)?;
        a.ret()
    });
    assert_eq!(loops, Err(NotSpinning::Updates));
}

#[test]
fn a_lock_tried_for_when_it_was_seen_free_spins() {
    let loops = found(4, |a| {
        let (mut top, mut wait) = (a.create_label(), a.create_label());
        a.mov(edx, 1)?;
        a.set_label(&mut top)?;
        a.mov(eax, dword_ptr(rdi))?;
        a.test(eax, eax)?;
        a.jne(wait)?;
        a.lock().cmpxchg(dword_ptr(rdi), edx)?;
        a.jne(wait)?;
        a.ret()?;
        a.set_label(&mut wait)?;
        a.pause()?;
        a.jmp(top)
    });
    assert_eq!(loops, Ok(()));
}

#[test]
fn counting_down_a_lock_spins_where_the_loop_inside_waits_for_it() {
    let spin_lock = |a: &mut CodeAssembler| {
        let (mut top, mut wait) = (a.create_label(), a.create_label());
        a.set_label(&mut top)?;
        a.lock().dec(dword_ptr(rdi))?;
        a.jne(wait)?;
        a.ret()?;
        a.set_label(&mut wait)?;
        a.pause()?;
        a.cmp(dword_ptr(rdi), 0)?;
        a.jg(top)?;
        a.jmp(wait)
    };
    assert_eq!(found(0, spin_lock), Ok(()));
    assert_eq!(found(3, spin_lock), Ok(()));
    assert_eq!(found(2, spin_lock), Err(NotSpinning::NoLoop));
}

#[test]
fn an_exact_counter_works() {
    let unseen = found(0, |a| {
        let mut top = a.create_label();
        a.set_label(&mut top)?;
        a.lock().inc(dword_ptr(rsi))?;
        a.cmp(dword_ptr(rdi), 0)?;
        a.je(top)?;
        a.ret()
    });
    assert_eq!(unseen, Err(NotSpinning::Collects));
    let limited = found(1, |a| {
        let mut top = a.create_label();
        a.nop()?;
        a.set_label(&mut top)?;
        a.mov(eax, 1)?;
        a.lock().xadd(dword_ptr(rsi), eax)?;
        a.cmp(eax, 1000)?;
        a.jl(top)?;
        a.ret()
    });
    assert_eq!(limited, Err(NotSpinning::Updates));
}

#[test]
fn a_wait_for_a_flag_spins_unless_it_computes_or_stores() {
    let wait = |body: fn(&mut CodeAssembler) -> Result<(), IcedError>| {
        found(1, |a| {
            let mut top = a.create_label();
            a.nop()?;
            a.set_label(&mut top)?;
            body(a)?;
            a.cmp(dword_ptr(rdi), 0)?;
            a.je(top)?;
            a.ret()
        })
    };
    assert_eq!(wait(|a| a.nop()), Ok(()));
    assert_eq!(wait(|a| a.add(eax, 1)), Ok(()));
    assert_eq!(wait(|a| a.imul_3(rax, rax, 33)), Err(NotSpinning::Works));
    assert_eq!(wait(|a| a.add(eax, ecx)), Ok(()));
    assert_eq!(
        wait(|a| a.add(eax, dword_ptr(rsi))),
        Err(NotSpinning::Works)
    );
    assert_eq!(wait(|a| a.mov(dword_ptr(rsi), 1)), Err(NotSpinning::Stores));
    assert_eq!(
        wait(|a| a.mov(eax, dword_ptr(rsi))),
        Err(NotSpinning::Collects)
    );
    assert_eq!(wait(|a| a.addsd(xmm0, xmm1)), Err(NotSpinning::Instruction));
    assert_eq!(wait(|a| a.call(START + 0x1000)), Err(NotSpinning::Calls));
    assert_eq!(wait(|a| a.add(rdi, 4)), Err(NotSpinning::Walks));
}

#[test]
fn walks_along_lists_and_bytes_are_no_waits() {
    let list = found(0, |a| {
        let mut top = a.create_label();
        a.set_label(&mut top)?;
        a.mov(rdi, qword_ptr(rdi))?;
        a.test(rdi, rdi)?;
        a.jne(top)?;
        a.ret()
    });
    assert_eq!(list, Err(NotSpinning::Walks));
    let bytes = found(0, |a| {
        let mut top = a.create_label();
        a.set_label(&mut top)?;
        a.inc(rdi)?;
        a.cmp(byte_ptr(rdi), 0)?;
        a.jne(top)?;
        a.ret()
    });
    assert_eq!(bytes, Err(NotSpinning::Walks));
}

#[test]
fn a_pointer_that_is_read_anew_is_the_same_place() {
    let loops = found(0, |a| {
        let mut top = a.create_label();
        a.set_label(&mut top)?;
        a.mov(rax, qword_ptr(rdi))?;
        a.cmp(dword_ptr(rax + 8), 0)?;
        a.jne(top)?;
        a.ret()
    });
    assert_eq!(loops, Ok(()));
}

#[test]
fn a_delay_spins_by_its_pause() {
    let delay = |pauses: bool| {
        found(0, |a| {
            let mut top = a.create_label();
            a.set_label(&mut top)?;
            if pauses {
                a.pause()?;
            }
            a.dec(eax)?;
            a.jne(top)?;
            a.ret()
        })
    };
    assert_eq!(delay(true), Ok(()));
    assert_eq!(delay(false), Err(NotSpinning::Counts));
}

#[test]
fn a_reader_of_a_sequence_lock_works() {
    let loops = found(0, |a| {
        let mut top = a.create_label();
        a.set_label(&mut top)?;
        a.mov(ecx, dword_ptr(rdi))?;
        a.mov(eax, dword_ptr(rdi + 8))?;
        a.cmp(ecx, dword_ptr(rdi))?;
        a.jne(top)?;
        a.ret()
    });
    assert_eq!(loops, Err(NotSpinning::Collects));
}

#[test]
fn the_loop_that_waits_is_told_from_the_one_around_it() {
    let both = |a: &mut CodeAssembler| {
        let (mut top, mut wait) = (a.create_label(), a.create_label());
        a.set_label(&mut top)?;
        a.mov(dword_ptr(rsi), eax)?;
        a.set_label(&mut wait)?;
        a.cmp(dword_ptr(rdi), 0)?;
        a.jne(wait)?;
        a.dec(ecx)?;
        a.jne(top)?;
        a.ret()
    };
    assert_eq!(found(0, both), Err(NotSpinning::Stores));
    assert_eq!(found(1, both), Ok(()));
    assert_eq!(found(2, both), Ok(()));
    assert_eq!(found(3, both), Err(NotSpinning::Stores));
}

/// A pass over elements of which none is wanted looks like a wait, but for its counter.
#[test]
fn an_idle_turn_of_a_loop_that_works_is_work() {
    let loops = found(0, |a| {
        let (mut top, mut next) = (a.create_label(), a.create_label());
        a.set_label(&mut top)?;
        a.cmp(dword_ptr(rdi), 0)?;
        a.jne(next)?;
        a.dec(ecx)?;
        a.jne(top)?;
        a.ret()?;
        a.set_label(&mut next)?;
        a.mov(dword_ptr(rsi), ecx)?;
        a.jmp(top)
    });
    assert_eq!(loops, Err(NotSpinning::Idles));
}

#[test]
fn callers_are_known_by_the_last_byte_of_their_call() {
    let mut code = CodeAssembler::new(64).expect("an assembler");
    code.call(START).expect("a call");
    code.ret().expect("a return");
    let bytes = code.assemble(START).expect("code");
    let function = Function::decode(START, &bytes).expect("a function");
    let at = |address| judge(&function, address, &NoCallees).map(drop);
    assert_eq!(at(START + 4), Err(NotSpinning::NoLoop));
    assert_eq!(at(START + 5), Err(NotSpinning::NoLoop));
    assert_eq!(at(START + 6), Err(NotSpinning::NoInstruction));
    assert_eq!(at(START - 1), Err(NotSpinning::NoInstruction));
}

#[test]
fn a_function_of_back_edges_alone_is_judged_in_time() {
    let mut bytes = Vec::new();
    for i in 0..20_000u32 {
        // cmp %eax,(%rdi); jne to somewhere before
        bytes.extend([0x39, 0x07, 0x0f, 0x85]);
        let back = (i.wrapping_mul(2_654_435_761) % (i + 1)) * 8;
        let here = i * 8 + 8;
        bytes.extend((back as i32 - here as i32).to_le_bytes());
    }
    let function = Function::decode(START, &bytes).expect("a function");
    let started = std::time::Instant::now();
    for address in function.addresses().step_by(100) {
        let _ = judge(&function, address, &NoCallees);
    }
    assert!(started.elapsed().as_secs() < 60, "{:?}", started.elapsed());
}

/// Every call leads to the function itself.
struct Itself(Rc<Function>);

impl Callees for Itself {
    fn callee(&self, target: Target) -> Callee {
        match target {
            Target::Address(_) => Callee::Code(Rc::clone(&self.0)),
            Target::Slot(_) => Callee::Waits,
        }
    }
}

/// Bytes of which many begin instructions that the detector knows.
fn noise(seed: u64) -> Vec<u8> {
    const LIKELY: &[u8] = &[
        0xf0, 0x0f, 0xb1, 0x87, 0x07, 0xf3, 0x90, 0x75, 0xf8, 0xeb, 0xf0, 0x74, 0xe0, 0x83, 0x3f,
        0x00, 0xe8, 0xe2, 0xe3, 0xc8, 0xc9, 0x55, 0x5d, 0x48, 0x89, 0xe5, 0x8b, 0x45, 0xfc, 0x05,
        0x0d, 0xc3, 0xff, 0x25, 0xd7, 0x6c, 0xa4, 0x9a, 0xea, 0xc7, 0xcd, 0xcc, 0x64, 0x85, 0xc0,
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 32
    };
    let byte = |r: u64| match r % 8 {
        0 => (r >> 8) as u8,
        _ => LIKELY[(r >> 8) as usize % LIKELY.len()],
    };
    (0..192).map(|_| byte(next())).collect()
}

#[test]
fn any_bytes_are_judged() {
    let mut loops = 0;
    for seed in 1..4000 {
        let function = Function::decode(START, &noise(seed)).map(Rc::new);
        let function = function.expect("a function");
        let itself = Itself(Rc::clone(&function));
        for address in function.addresses() {
            let found = judge(&function, address, &itself);
            loops += usize::from(!matches!(found, Err(NotSpinning::NoLoop)));
        }
    }
    assert!(loops > 1000, "the noise has only {loops} places in loops");
}
