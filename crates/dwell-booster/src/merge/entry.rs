//! Where the merged program begins: code of ours that does what the loader did for the libraries.
//!
//! It makes read-only what each library wants read-only (the loader does that for one range of a file,
//! `PT_GNU_RELRO`, which is the program's), calls the libraries' constructors, and goes on to the program.
//! As at that instant, the loader has called the constructors of the libraries that stay, and libc has not yet
//! noted the loader's own destructor: what constructors leave to `atexit` comes in the original order.
use super::headers::pages;
use crate::closure::Closure;
use crate::layout::Layout;
use std::ops::Range;

/// The stack holds argc, argv, envp; rdx is the loader's, for the program. A table follows: (distance from
/// the entry, bytes), the last 0.
const CODE: [u8; 88] = [
    0x49, 0x89, 0xd4, // mov r12, rdx
    0x48, 0x8d, 0x1d, 0x4e, 0x00, 0x00, 0x00, // lea rbx, [rip + 78]   ; the table
    0x8b, 0x73, 0x04, // next: mov esi, [rbx + 4]
    0x85, 0xf6, // test esi, esi
    0x74, 0x18, // je functions
    0x48, 0x63, 0x3b, // movsxd rdi, [rbx]
    0x48, 0x01, 0xdf, // add rdi, rbx
    0xba, 0x01, 0x00, 0x00, 0x00, // mov edx, 1             ; PROT_READ
    0xb8, 0x0a, 0x00, 0x00, 0x00, // mov eax, 10            ; mprotect
    0x0f, 0x05, // syscall
    0x48, 0x83, 0xc3, 0x08, // add rbx, 8
    0xeb, 0xe1, // jmp next
    0x48, 0x8d, 0x1d, 0x00, 0x00, 0x00, 0x00, // functions: lea rbx, [rip + functions]
    0xbd, 0x00, 0x00, 0x00, 0x00, // mov ebp, their number
    0x85, 0xed, // one: test ebp, ebp
    0x74, 0x17, // je program
    0x8b, 0x3c, 0x24, // mov edi, [rsp]         ; argc
    0x48, 0x8d, 0x74, 0x24, 0x08, // lea rsi, [rsp + 8]     ; argv
    0x48, 0x8d, 0x54, 0xfe, 0x08, // lea rdx, [rsi + rdi*8 + 8] ; envp
    0xff, 0x13, // call [rbx]
    0x48, 0x83, 0xc3, 0x08, // add rbx, 8
    0xff, 0xcd, // dec ebp
    0xeb, 0xe5, // jmp one
    0x4c, 0x89, 0xe2, // program: mov rdx, r12
    0xe9, 0x00, 0x00, 0x00, 0x00, // jmp program's entry
];
/// Offsets in the code: the distance of the functions, their number, the distance of the program's entry.
const FUNCTIONS: usize = 0x2c;
const NUMBER: usize = 0x31;
const PROGRAM: usize = 0x54;

/// What the code does.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    /// Pages to be made read-only, image addresses.
    pub read_only: Vec<Range<u64>>,
    /// Image address of the list of constructors, and how many there are.
    pub functions: (u64, u32),
    /// Where the program begins, image address.
    pub program: u64,
}

/// Pages of libraries to be made read-only, image addresses.
pub(crate) fn read_only_ranges(closure: &Closure<'_>, layout: &Layout) -> Vec<Range<u64>> {
    let libraries = layout.merged().skip(1);
    libraries
        .filter_map(|(index, base)| {
            let relro = closure.modules[index].relro.as_ref()?;
            let whole = pages(&(relro.start + base..relro.end + base));
            (!whole.is_empty()).then_some(whole)
        })
        .collect()
}

/// The code for the image address `at`.
pub(crate) fn code(at: u64, start: &Start) -> Vec<u8> {
    let mut bytes = CODE.to_vec();
    let mut put = |offset: usize, word: u32| {
        bytes[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
    };
    let distance = |to: u64, offset: usize| to.wrapping_sub(at + offset as u64 + 4) as u32;
    put(FUNCTIONS, distance(start.functions.0, FUNCTIONS));
    put(NUMBER, start.functions.1);
    put(PROGRAM, distance(start.program, PROGRAM));
    for range in &start.read_only {
        let entry = at + bytes.len() as u64;
        bytes.extend((range.start.wrapping_sub(entry) as u32).to_le_bytes());
        bytes.extend(((range.end - range.start) as u32).to_le_bytes());
    }
    bytes.extend([0; 8]);
    bytes
}
