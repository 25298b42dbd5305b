//! Code at the very beginning of a merged file that knows when to be the stock program.
//!
//! It goes on only where the merged program may run: its guard exists, and no variable names other libraries. Else
//! it becomes the stock program, and goes on if there is none. It does not become what it already is: then it was
//! the stock program's name that led here.
use crate::StandIn;
use std::ops::Range;

/// The stack holds argc, argv, envp, auxv; rdx is the loader's, for the program. Two paths follow.
const CODE: [u8; 171] = [
    0x49, 0x89, 0xd4, // mov r12, rdx
    0x48, 0x8d, 0x3d, 0x00, 0x00, 0x00, 0x00, // lea rdi, [rip + guard]
    0x31, 0xf6, // xor esi, esi          ; F_OK
    0xb8, 0x15, 0x00, 0x00, 0x00, // mov eax, 21           ; access
    0x0f, 0x05, // syscall
    0x48, 0x8b, 0x0c, 0x24, // mov rcx, [rsp]        ; argc
    0x48, 0x8d, 0x54, 0xcc, 0x10, // lea rdx, [rsp + rcx*8 + 16] ; envp
    0x49, 0x89, 0xd5, // mov r13, rdx
    0x85, 0xc0, // test eax, eax
    0x75, 0x3d, // jne stock
    0x49, 0xb8, b'L', b'D', b'_', b'P', b'R', b'E', b'L', b'O', // mov r8, "LD_PRELO"
    0x49, 0xb9, b'L', b'D', b'_', b'A', b'U', b'D', b'I', b'T', // mov r9, "LD_AUDIT"
    0x49, 0xba, b'L', b'D', b'_', b'L', b'I', b'B', b'R', b'A', // mov r10, "LD_LIBRA"
    0x49, 0x8b, 0x75, 0x00, // next: mov rsi, [r13]
    0x49, 0x83, 0xc5, 0x08, // add r13, 8
    0x48, 0x85, 0xf6, // test rsi, rsi
    0x74, 0x5a, // je merged
    0x48, 0x8b,
    0x06, // mov rax, [rsi]        ; the file's name and a zero word follow the last
    0x4c, 0x39, 0xc0, // cmp rax, r8
    0x74, 0x0a, // je stock
    0x4c, 0x39, 0xc8, // cmp rax, r9
    0x74, 0x05, // je stock
    0x4c, 0x39, 0xd0, // cmp rax, r10
    0x75, 0xe1, // jne next
    0x49, 0x89, 0xd5, // stock: mov r13, rdx
    0x49, 0x8b, 0x45, 0x00, // variable: mov rax, [r13]
    0x49, 0x83, 0xc5, 0x08, // add r13, 8
    0x48, 0x85, 0xc0, // test rax, rax
    0x75, 0xf3, // jne variable
    0x49, 0x8b, 0x45, 0x00, // fact: mov rax, [r13]
    0x49, 0x83, 0xc5, 0x10, // add r13, 16
    0x85, 0xc0, // test eax, eax         ; AT_NULL
    0x74, 0x19, // je become
    0x83, 0xf8, 0x1f, // cmp eax, 31           ; AT_EXECFN
    0x75, 0xef, // jne fact
    0x49, 0x8b, 0x75, 0xf8, // mov rsi, [r13 - 8]
    0x48, 0x8d, 0x3d, 0x00, 0x00, 0x00, 0x00, // lea rdi, [rip + path]
    0xb9, 0x00, 0x00, 0x00, 0x00, // mov ecx, its length
    0xf3, 0xa6, // repe cmpsb
    0x74, 0x13, // je merged
    0x48, 0x8d, 0x3d, 0x00, 0x00, 0x00, 0x00, // become: lea rdi, [rip + path]
    0x48, 0x8d, 0x74, 0x24, 0x08, // lea rsi, [rsp + 8]
    0xb8, 0x3b, 0x00, 0x00, 0x00, // mov eax, 59           ; execve
    0x0f, 0x05, // syscall
    0x4c, 0x89, 0xe2, // merged: mov rdx, r12
];
/// The system call that looks for the guard, and what it is where there is none: its success.
const ACCESS: Range<usize> = 0x0c..0x13;
const UNGUARDED: [u8; 7] = [0x31, 0xc0, 0x90, 0x90, 0x90, 0x90, 0x90]; // xor eax, eax
/// Offsets in the code: distances of the paths, and the length of the second.
const GUARD: usize = 0x06;
const PATHS: [usize; 2] = [0x88, 0x98];
const LEN: usize = 0x8d;

/// The code as a resolver (IFUNC), for the image address `at`. The loader calls it while it relocates the file: with the
/// C library in the file and an auditor it would not get as far as the entry. `stack` is the place that holds the
/// address of the loader's `__libc_stack_end`.
pub(crate) fn resolver(stand_in: &StandIn, at: u64, stack: u64) -> Vec<u8> {
    let mut bytes = ENTER.to_vec();
    let distance = stack.wrapping_sub(at + STACK as u64 + 4) as u32;
    bytes[STACK..STACK + 4].copy_from_slice(&distance.to_le_bytes());
    bytes.extend(code(stand_in));
    bytes.extend(LEAVE);
    bytes
}

/// The code reads the stack that the program began with, and pushes nothing. No signal has a handler yet.
const ENTER: [u8; 18] = [
    0x53, // push rbx
    0x41, 0x54, // push r12
    0x41, 0x55, // push r13
    0x48, 0x89, 0xe3, // mov rbx, rsp
    0x48, 0x8b, 0x05, 0x00, 0x00, 0x00, 0x00, // mov rax, [rip + stack]
    0x48, 0x8b, 0x20, // mov rsp, [rax]
];
const LEAVE: [u8; 11] = [
    0x48, 0x89, 0xdc, // mov rsp, rbx
    0x41, 0x5d, // pop r13
    0x41, 0x5c, // pop r12
    0x5b, // pop rbx
    0x31, 0xc0, // xor eax, eax
    0xc3, // ret
];
const STACK: usize = 0x0b;

/// The code; the merged program's entry follows.
pub(crate) fn code(stand_in: &StandIn) -> Vec<u8> {
    let guard = stand_in.guard.as_ref();
    let guard = guard.map_or(&[][..], |guard| guard.as_bytes_with_nul());
    let path = stand_in.stock.as_bytes_with_nul();
    let mut bytes = CODE.to_vec();
    if guard.is_empty() {
        bytes[ACCESS].copy_from_slice(&UNGUARDED);
    }
    // The paths lie between the code and what follows, which is jumped to.
    let jump = bytes.len();
    bytes.extend([0xe9, 0, 0, 0, 0]); // jmp behind the paths
    let guard_at = bytes.len();
    let path_at = guard_at + guard.len();
    bytes.extend(guard);
    bytes.extend(path);
    let mut put = |offset: usize, word: usize| {
        bytes[offset..offset + 4].copy_from_slice(&(word as u32).to_le_bytes());
    };
    put(GUARD, guard_at - (GUARD + 4));
    for offset in PATHS {
        put(offset, path_at - (offset + 4));
    }
    put(LEN, path.len());
    put(jump + 1, guard.len() + path.len());
    bytes
}
