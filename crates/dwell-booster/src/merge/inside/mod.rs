//! The loader inside of the merged file, with the processor's answers remembered: level 3.
//!
//! The kernel then loads one file, which needs no other one to begin: the file names no loader (`PT_INTERP`). Code of
//! ours is what the kernel calls; it tells the loader, by the words that the kernel gave (`AT_PHDR`, `AT_ENTRY`),
//! what it would have been told, and goes on to it. The loader finds a second table of program headers, in which
//! it is named, and which leaves it out.
//!
//! glibc's loader asks the processor some 40 times what it is (`cpuid`). In a virtual machine each question is
//! answered by the hypervisor, which takes microseconds. Here the answers are in the file. Two real questions
//! tell at each start whether it is still the same processor (leaves 1 and 7: model and features), and a register
//! whether the kernel lets programs use as much of it (XCR0: how large the loader makes places for registers depends on
//! that); if not, all are asked.
mod processor;
mod verify;
mod windows;

pub use processor::{Answer, Processor};
pub(crate) use verify::verify;

use super::Merge;
use super::image::Image;
use crate::Refusal;
use processor::GUARDS;
use std::ops::Range;
use windows::{JUMP, Window, moved, windows};

/// The loader in the file.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    /// Index of the module, and what is added to its stated addresses.
    pub module: usize,
    pub base: u64,
    /// What is changed in it, each with the stub that it jumps to.
    windows: Vec<(Window, u64)>,
    /// How many questions to the processor there are.
    pub questions: usize,
    /// Our code for it, at an image address.
    pub code: Vec<u8>,
    at: u64,
    /// Image addresses: what the kernel calls; what that leads to, if it comes to the loader; what answers questions.
    pub entry: u64,
    pub start: u64,
    answering: u64,
}

/// Where the code needs to know of other places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Where the code goes.
    pub at: u64,
    /// A writable word, 0 in the file: whether the processor is the one whose answers are remembered.
    pub known: u64,
    /// Where the merged program begins when the loader has done its work.
    pub program: u64,
}

impl Inside {
    /// Makes the code; none when the loader stays outside.
    pub(crate) fn of(merge: &Merge<'_, '_>, places: Places) -> Result<Option<Self>, Refusal> {
        let Some(((module, base), processor)) = merge.layout.loader.zip(merge.processor) else {
            return Ok(None);
        };
        let loader = &merge.closure.modules[module];
        let refuse = |why: &str| Refusal::unsupported(&loader.path, why);
        let entry = loader
            .elf
            .entry()
            .ok_or_else(|| refuse("it has no entry"))?;
        let guards = processor.guards();
        let guards = guards
            .ok_or_else(|| refuse("the processor has no leaf 7 or no XSAVE: use --level 2"))?;
        let (found, questions) = windows(loader)?;
        let mut inside = Inside {
            module,
            base,
            windows: Vec::new(),
            questions,
            code: Vec::new(),
            at: places.at,
            entry: places.at,
            start: 0,
            answering: 0,
        };
        inside.answers(processor, places.known);
        for window in found {
            let at = inside.here();
            let stub = moved(loader, &window, base, at, inside.answering);
            inside
                .code
                .extend(stub.ok_or_else(|| refuse("its code cannot be moved"))?);
            inside.windows.push((window, at));
        }
        if let Some(stand_in) = merge.stand_in {
            inside.entry = inside.here();
            inside.code.extend(super::stand_in::code(stand_in));
        } else {
            inside.entry = inside.here();
        }
        inside.begin(&guards, places, entry.wrapping_add(base));
        Ok(Some(inside))
    }

    fn here(&self) -> u64 {
        self.at + self.code.len() as u64
    }

    fn words(&mut self, words: &[u32]) -> u64 {
        let at = self.here();
        self.code.extend(words.iter().flat_map(|w| w.to_le_bytes()));
        at
    }

    /// What answers questions.
    fn answers(&mut self, processor: &Processor, known: u64) {
        let table = self.words(&processor.table());
        self.answering = self.here();
        self.code.extend(MEMO);
        // The first instruction ends with a byte behind the distance.
        self.lead(self.answering + 2, known.wrapping_sub(1));
        self.lead(self.answering + 0xe, table);
    }

    /// What the kernel calls.
    fn begin(&mut self, guards: &[u32], places: Places, loader: u64) {
        let start = self.here();
        self.start = start;
        self.code.extend(START);
        let guards = self.words(guards);
        self.lead(start + BASE, self.base);
        self.lead(start + 0x5c, places.program);
        self.lead(start + 0x69, guards);
        self.lead(start + 0xa2, places.known.wrapping_sub(4));
        self.lead(start + 0xad, loader);
        self.lead(start + 0xb2, places.program);
    }

    /// Lets a distance in the code lead to an image address.
    fn lead(&mut self, from: u64, to: u64) {
        let at = (from - self.at) as usize;
        let distance = to.wrapping_sub(from + 4) as u32;
        self.code[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// Tells the code where the loader's table of program headers is, and how many there are.
    pub(crate) fn tell(&self, image: &mut Image, (table, count): (u64, usize)) {
        let guards = 6 * GUARDS.len() as u64 + 1;
        let start = self.here() - 4 * guards - START.len() as u64;
        let distance = table.wrapping_sub(start + HEADERS + 4) as u32;
        image.put(start + HEADERS, &distance.to_le_bytes());
        image.put(start + NUMBER, &(count as u32).to_le_bytes());
    }

    /// Leads the loader's questions to the stubs.
    pub(crate) fn apply(&self, image: &mut Image) {
        for (window, stub) in &self.windows {
            let at = window.stated + self.base;
            let mut bytes = vec![0x90; window.len as usize];
            bytes[0] = 0xe9;
            let distance = stub.wrapping_sub(at + JUMP as u64) as u32;
            bytes[1..JUMP].copy_from_slice(&distance.to_le_bytes());
            image.put(at, &bytes);
        }
    }

    /// Ranges of changed bytes, in order; image addresses.
    pub(crate) fn changed(&self) -> impl Iterator<Item = Range<u64>> {
        self.windows.iter().map(|(window, _)| {
            let at = window.stated + self.base;
            at..at + window.len
        })
    }

    /// Where the stubs begin, image addresses.
    #[cfg(test)]
    pub(crate) fn stubs(&self) -> impl Iterator<Item = u64> {
        self.windows.iter().map(|(_, stub)| *stub)
    }

    /// How many questions are answered from memory.
    pub(crate) fn remembered(&self) -> usize {
        self.windows.len()
    }
}

/// Offsets in the code: the distance of the table of headers, their number, the distance of the loader.
const HEADERS: u64 = 0x43;
const NUMBER: u64 = 0x4a;
const BASE: u64 = 0x53;

/// What the kernel calls. The stack holds argc, argv, envp, auxv; rdx is 0. The leaves that tell processors apart
/// follow: (leaf, EAX, EBX, ECX, EDX, mask of EBX); then XCR0. That can be read where leaf 1 is as remembered.
const START: [u8; 182] = [
    0x48, 0x85,
    0xd2, // start: test rdx,rdx ; a loader that was there before has done everything
    0x0f, 0x85, 0xa8, 0x00, 0x00, 0x00, // jne program
    0x48, 0x8b, 0x0c, 0x24, // mov rcx,[rsp]
    0x48, 0x8d, 0x7c, 0xcc, 0x10, // lea rdi,[rsp+rcx*8+16]
    0x48, 0x8b, 0x07, // variable: mov rax,[rdi]
    0x48, 0x83, 0xc7, 0x08, // add rdi,8
    0x48, 0x85, 0xc0, // test rax,rax
    0x75, 0xf4, // jne variable
    0x48, 0x8b, 0x07, // fact: mov rax,[rdi]
    0x48, 0x85, 0xc0, // test rax,rax
    0x74, 0x40, // je check
    0x83, 0xf8, 0x03, // cmp eax,3 ; AT_PHDR
    0x74, 0x15, // je headers
    0x83, 0xf8, 0x05, // cmp eax,5 ; AT_PHNUM
    0x74, 0x19, // je number
    0x83, 0xf8, 0x07, // cmp eax,7 ; AT_BASE
    0x74, 0x1b, // je base
    0x83, 0xf8, 0x09, // cmp eax,9 ; AT_ENTRY
    0x74, 0x1f, // je entry
    0x48, 0x83, 0xc7, 0x10, // next: add rdi,16
    0xeb, 0xde, // jmp fact
    0x48, 0x8d, 0x05, 0x00, 0x00, 0x00, 0x00, // headers: lea rax,[rip] ; headers
    0xeb, 0x17, // jmp set
    0xb8, 0x00, 0x00, 0x00, 0x00, // number: mov eax, 0 ; their number
    0xeb, 0x10, // jmp set
    0x48, 0x8d, 0x05, 0x00, 0x00, 0x00, 0x00, // base: lea rax,[rip] ; loader
    0xeb, 0x07, // jmp set
    0x48, 0x8d, 0x05, 0x00, 0x00, 0x00, 0x00, // entry: lea rax,[rip] ; entry
    0x48, 0x89, 0x47, 0x08, // set: mov [rdi+8],rax
    0xeb, 0xd4, // jmp next
    0x48, 0x8d, 0x35, 0x00, 0x00, 0x00, 0x00, // check: lea rsi,[rip] ; guard
    0xbf, 0x02, 0x00, 0x00, 0x00, // mov edi,2
    0x8b, 0x06, // leaf: mov eax,[rsi]
    0x31, 0xc9, // xor ecx,ecx
    0x0f, 0xa2, // cpuid
    0x23, 0x5e, 0x14, // and ebx,[rsi+20] ; without the number of this processor
    0x3b, 0x46, 0x04, // cmp eax,[rsi+4]
    0x75, 0x2a, // jne loader
    0x3b, 0x5e, 0x08, // cmp ebx,[rsi+8]
    0x75, 0x25, // jne loader
    0x3b, 0x4e, 0x0c, // cmp ecx,[rsi+12]
    0x75, 0x20, // jne loader
    0x3b, 0x56, 0x10, // cmp edx,[rsi+16]
    0x75, 0x1b, // jne loader
    0x48, 0x83, 0xc6, 0x18, // add rsi,24
    0xff, 0xcf, // dec edi
    0x75, 0xdb, // jne leaf
    0x31, 0xc9, // xor ecx,ecx
    0x0f, 0x01, 0xd0, // xgetbv
    0x3b, 0x06, // cmp eax,[rsi]
    0x75, 0x0a, // jne loader
    0xc7, 0x05, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
    0x00, // mov dword ptr [rip],1 ; known
    0x31, 0xd2, // loader: xor edx,edx
    0xe9, 0x00, 0x00, 0x00, 0x00, // jmp .+5 ; jmp the loader's beginning
    0xe9, 0x00, 0x00, 0x00, 0x00, // program: jmp .+5 ; jmp entry
];

/// Answers the question in eax and ecx as `cpuid` does, and keeps all other registers.
const MEMO: [u8; 62] = [
    0x83, 0x3d, 0x00, 0x00, 0x00, 0x00, 0x00, // memo: cmp dword ptr [rip],0 ; known
    0x74, 0x23, // je real
    0x56, // push rsi
    0x57, // push rdi
    0x48, 0x8d, 0x35, 0x00, 0x00, 0x00, 0x00, // lea rsi,[rip] ; the table
    0x8b, 0x7e, 0x04, // next: mov edi,[rsi+4]
    0x39, 0x06, // cmp [rsi],eax
    0x75, 0x07, // jne skip
    0x21, 0xcf, // and edi,ecx
    0x3b, 0x7e, 0x08, // cmp edi,[rsi+8]
    0x74, 0x0f, // je found
    0x48, 0x83, 0xc6, 0x1c, // skip: add rsi,28
    0x83, 0x7e, 0x04, 0x01, // cmp dword ptr [rsi+4],1
    0x75, 0xe8, // jne next
    0x5f, // pop rdi
    0x5e, // pop rsi
    0x0f, 0xa2, // real: cpuid
    0xc3, // ret
    0x8b, 0x46, 0x0c, // found: mov eax,[rsi+12]
    0x8b, 0x5e, 0x10, // mov ebx,[rsi+16]
    0x8b, 0x4e, 0x14, // mov ecx,[rsi+20]
    0x8b, 0x56, 0x18, // mov edx,[rsi+24]
    0x5f, // pop rdi
    0x5e, // pop rsi
    0xc3, // ret
];
