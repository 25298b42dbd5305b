//! Runs code natively.
#![allow(dead_code)] // no test uses all of it
pub mod draw;

use dwell_abi::program::Instruction;
use dwell_jit::{Frame, Gate, Links, translate};
use std::arch::global_asm;

/// The probe's number.
pub const NUMBER: u32 = 4711;
/// Bytes of a mapping: code, then words of the gate, then the store's memory.
const CODE_LEN: usize = 1 << 16;
const LEN: usize = CODE_LEN + 8192;

/// Where a store is, for code that is not run.
pub struct Nowhere;

impl Links for Nowhere {
    fn operation(&self, _: u32) -> Option<u64> {
        None
    }
    fn store(&self, _: u32) -> u64 {
        0
    }
    fn store_address(&self, _: u32) -> u64 {
        0
    }
    fn state(&self) -> u64 {
        0
    }
}

struct Here(u64);

impl Links for Here {
    fn operation(&self, _: u32) -> Option<u64> {
        None
    }
    fn store(&self, _: u32) -> u64 {
        self.0
    }
    fn store_address(&self, _: u32) -> u64 {
        self.0
    }
    fn state(&self) -> u64 {
        self.0
    }
}

/// A frame of a probe whose gate is to be where [`Native`] has it.
pub fn probe_frame() -> Frame {
    Frame::Probe {
        gate: Gate {
            open: 0,
            owner: None,
        },
        kept: 0,
    }
}

/// Code in memory.
pub struct Native(*mut u8);

impl Native {
    pub fn new(code: &[Instruction], frame: Frame) -> Native {
        // SAFETY: new memory of our own.
        let memory = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), LEN, protection, flags, -1, 0)
        };
        assert_ne!(memory, libc::MAP_FAILED);
        let native = Native(memory.cast());
        let at = memory as u64;
        let gate = Gate {
            open: at + CODE_LEN as u64,
            owner: Some((at + CODE_LEN as u64 + 4, 0xff)),
        };
        let frame = match frame {
            Frame::Function => Frame::Function,
            Frame::Probe { kept, .. } => Frame::Probe { gate, kept },
        };
        let bytes =
            translate(code, frame, &Here(native.store() as u64), at).expect("it is translated");
        assert!(bytes.len() <= CODE_LEN);
        // SAFETY: both fit into the mapping.
        unsafe {
            native
                .0
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            native.0.add(CODE_LEN).cast::<[u32; 2]>().write([1, 1]);
        }
        native
    }

    fn store(&self) -> *mut u8 {
        // SAFETY: within the mapping.
        unsafe { self.0.add(CODE_LEN + 4096) }
    }

    fn with_memory<R>(&self, memory: &[u8], run: impl FnOnce() -> R) -> (R, Vec<u8>) {
        // SAFETY: the store has a page.
        unsafe {
            self.store()
                .copy_from_nonoverlapping(memory.as_ptr(), memory.len());
        }
        let result = run();
        // SAFETY: as above; the code has ended.
        let after = unsafe { std::slice::from_raw_parts(self.store(), memory.len()) };
        (result, after.to_vec())
    }

    /// Runs a function with this memory; its result and what the memory is then.
    pub fn run(&self, memory: &[u8]) -> (u64, Vec<u8>) {
        // SAFETY: what was translated keeps to C's rules and to its own memory.
        let function: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(self.0) };
        self.with_memory(memory, || function(7))
    }

    /// Runs it at a probe where registers are these: registers and memory after, and what the stack pointer was.
    pub fn run_at_probe(&self, memory: &[u8], registers: &[u64; 15]) -> ([u64; 15], Vec<u8>, u64) {
        let mut all = *registers;
        let (sp, memory) = self.with_memory(memory, || {
            // SAFETY: the code keeps all registers and the stack; `all` holds as many as are stored.
            unsafe { dwell_test_probe(self.0, all.as_mut_ptr()) }
        });
        (all, memory, sp)
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nothing runs there.
        unsafe { libc::munmap(self.0.cast(), LEN) };
    }
}

/// The registers after a probe.
pub fn at_probe(code: &[Instruction], memory: &[u8], registers: &[u64; 15]) -> [u64; 15] {
    Native::new(code, probe_frame())
        .run_at_probe(memory, registers)
        .0
}

/// Distances in the kernel's `pt_regs`, and which register of a test is there.
pub const REGISTERS: [(i16, usize); 15] = [
    (80, 0),
    (40, 1),
    (88, 2),
    (96, 3),
    (104, 4),
    (112, 5),
    (32, 6),
    (72, 7),
    (64, 8),
    (56, 9),
    (48, 10),
    (24, 11),
    (16, 12),
    (8, 13),
    (0, 14),
];

unsafe extern "C" {
    /// Sets all registers but rsp (rax, rbx, rcx, rdx, rsi, rdi, rbp, r8 to r15), calls as a stub does, and stores
    /// what they are then. Gives the stack pointer at the probe.
    pub fn dwell_test_probe(code: *const u8, registers: *mut u64) -> u64;
}

global_asm!(
    ".globl dwell_test_probe",
    "dwell_test_probe:",
    "push rbx; push rbp; push r12; push r13; push r14; push r15",
    "push rsi",
    "push rdi",
    "mov r15, rsi",
    "mov rax, [r15]; mov rbx, [r15+8]; mov rcx, [r15+16]; mov rdx, [r15+24]; mov rsi, [r15+32]",
    "mov rdi, [r15+40]; mov rbp, [r15+48]; mov r8, [r15+56]; mov r9, [r15+64]; mov r10, [r15+72]",
    "mov r11, [r15+80]; mov r12, [r15+88]; mov r13, [r15+96]; mov r14, [r15+104]; mov r15, [r15+112]",
    "push {number}",
    "call [rsp+8]",
    "lea rsp, [rsp+8]",
    "xchg r15, [rsp+8]",
    "mov [r15], rax; mov [r15+8], rbx; mov [r15+16], rcx; mov [r15+24], rdx; mov [r15+32], rsi",
    "mov [r15+40], rdi; mov [r15+48], rbp; mov [r15+56], r8; mov [r15+64], r9; mov [r15+72], r10",
    "mov [r15+80], r11; mov [r15+88], r12; mov [r15+96], r13; mov [r15+104], r14",
    "mov rax, [rsp+8]",
    "mov [r15+112], rax",
    "mov rax, rsp",
    "add rsp, 16",
    "pop r15; pop r14; pop r13; pop r12; pop rbp; pop rbx",
    "ret",
    number = const NUMBER,
);
