//! The one piece of code that is added: it makes read-only what each module wants read-only.
//!
//! The loader does that for one range of a file (`PT_GNU_RELRO`), which is the program's.
use super::headers::pages;
use crate::closure::Closure;
use crate::layout::Layout;
use std::ops::Range;

/// Called as the first constructor. Its table follows: (distance from the entry, bytes), the last 0.
const CODE: [u8; 48] = [
    0x53, // push rbx
    0x48, 0x8d, 0x1d, 0x28, 0x00, 0x00, 0x00, // lea rbx, [rip + 40]   ; the table
    0x8b, 0x73, 0x04, // next: mov esi, [rbx + 4]
    0x85, 0xf6, // test esi, esi
    0x74, 0x18, // je done
    0x48, 0x63, 0x3b, // movsxd rdi, [rbx]
    0x48, 0x01, 0xdf, // add rdi, rbx
    0xba, 0x01, 0x00, 0x00, 0x00, // mov edx, 1             ; PROT_READ
    0xb8, 0x0a, 0x00, 0x00, 0x00, // mov eax, 10            ; mprotect
    0x0f, 0x05, // syscall
    0x48, 0x83, 0xc3, 0x08, // add rbx, 8
    0xeb, 0xe1, // jmp next
    0x5b, // done: pop rbx
    0xc3, // ret
    0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, // int3
];

/// Pages to be made read-only, image addresses: every library's, not the program's.
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
pub(crate) fn code(at: u64, ranges: &[Range<u64>]) -> Vec<u8> {
    let mut bytes = CODE.to_vec();
    for range in ranges {
        let entry = at + bytes.len() as u64;
        bytes.extend((range.start.wrapping_sub(entry) as u32).to_le_bytes());
        bytes.extend(((range.end - range.start) as u32).to_le_bytes());
    }
    bytes.extend([0; 8]);
    bytes
}
