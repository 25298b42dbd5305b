//! Pages that the target's threads read without asking the kernel, which takes a hundred times as long.
//!
//! A load from a page that is not there would be the end of the target, so it must be sure that the page is there:
//!
//! - They are those of the program's own segments: no `dlclose` takes the program away, and the kernel lets nobody write
//!   to or truncate a file that is being executed, so none is beyond the file's end. Everything else (the heap, stacks,
//!   libraries, files that the program maps) is read by the kernel.
//! - Only the process itself takes them away, by a system call, and those are made by functions of the C library: a
//!   program of ours at the entry of each that could do it looks at the addresses. Where one of these functions cannot be
//!   patched, all is read by the kernel; so it is for good once one of the pages may be gone.
//! - The pages are written down first, then it is looked whether they are there, and then they are used, unless a call in
//!   between has touched them.
//! - Between a thread's look at what is written down and its call, or its load, there are some instructions: whoever
//!   changes something waits for [`GRACE`], so does the agent.
//!
//! What is not seen are system calls that a program makes by an instruction of its own to take a page of its own variables
//! away.
//!
//! In the same way the agent learns that the target is about to forbid itself system calls (seccomp): its own would end the
//! target, so programs rest from then on.
use super::Made;
use super::code::Block;
use super::memory::Memory;
use super::places;
use dwell_abi::program::instruction::Width;
use dwell_abi::program::{Instruction, Program, operation as op};
use dwell_agent::script::layout::{PAGE_RANGES, pages};
use dwell_elf::ElfFile;
use dwell_maps::{Mapping, Module};
use dwell_patch::plan::Place;
use dwell_patch::process::{FunctionAt, Spot};
use dwell_patch::{Attachment, Hook, Probe};
use dwell_script::codegen::Site;
use std::ops::Range;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::time::Duration;

const PAGE: u64 = 4096;
/// The agent's has the same length.
const GRACE: Duration = Duration::from_millis(10);
/// Functions with the system calls they make: that of `syscall` is its first argument. The first of them may forbid
/// system calls, all but the first may take pages away.
const FUNCTIONS: [(&str, Option<u32>); 9] = [
    ("prctl", Some(libc::SYS_prctl as u32)),
    ("syscall", None),
    ("munmap", Some(libc::SYS_munmap as u32)),
    ("mmap", Some(libc::SYS_mmap as u32)),
    ("mprotect", Some(libc::SYS_mprotect as u32)),
    ("pkey_mprotect", Some(libc::SYS_pkey_mprotect as u32)),
    ("mremap", Some(libc::SYS_mremap as u32)),
    ("madvise", Some(libc::SYS_madvise as u32)),
    ("shmat", Some(libc::SYS_shmat as u32)),
];
/// How many of them are watched where no program reads memory.
const FORBIDDING: usize = 2;
/// Distances of functions' arguments in `pt_regs`.
const ARGUMENTS: [i16; 5] = [112, 104, 96, 88, 72];

/// The programs that watch over pages, if others read memory, and over system calls' being forbidden.
pub(super) struct Watch {
    /// The file with the functions.
    library: Option<String>,
    functions: &'static [(&'static str, Option<u32>)],
    is_complete: bool,
}

fn reads_memory(made: &Made) -> bool {
    let reads = [op::READ_USER, op::READ_USER_STRING].map(Instruction::call);
    made.program.code.iter().any(|i| reads.contains(i))
}

/// Tells the agent what system call is about to be made.
fn program(number: Option<u32>) -> Program {
    use Instruction as I;
    use dwell_abi::program::instruction::Alu;
    let mut code = vec![I::alu(Alu::Mov, 6, 1)];
    let first = match number {
        Some(number) => {
            code.push(I::alu_imm(Alu::Mov, 1, number as i32));
            2
        }
        None => 1,
    };
    let registers = (first..=5).zip(ARGUMENTS);
    code.extend(registers.map(|(register, at)| I::load(Width::W8, register, 6, at)));
    code.extend([
        I::call(op::MAPPING_CALL),
        I::alu_imm(Alu::Mov, 0, 0),
        I::exit(),
    ]);
    Program { code }
}

/// The C library: of a program that is linked with it, the program itself.
fn library(modules: &[Module]) -> Option<String> {
    const NAMES: [&str; 4] = ["libc.so", "libc-2.", "ld-musl-", "libc.musl-"];
    let is_library = |m: &&Module| NAMES.iter().any(|n| m.mapping.file_name().starts_with(n));
    let found = modules.iter().find(is_library);
    let found = found.or_else(|| modules.iter().find(|m| m.is_program));
    found.map(|m| m.mapping.file().to_owned())
}

impl Watch {
    /// What it takes to watch over a process.
    pub(super) fn new(pid: u32, made: &[Made]) -> Watch {
        let modules = dwell_maps::modules(pid).ok();
        Watch {
            library: modules.and_then(|all| library(&all)),
            functions: match made.iter().any(reads_memory) {
                true => &FUNCTIONS,
                false => &FUNCTIONS[..FORBIDDING],
            },
            is_complete: false,
        }
    }

    /// Its programs.
    pub(super) fn programs(&self) -> Vec<Made> {
        let made = |(_, number): &(&str, Option<u32>)| Made {
            site: Site::Entry,
            program: program(*number),
            members: Vec::new(),
        };
        let functions = self.library.iter().flat_map(|_| self.functions);
        functions.map(made).collect()
    }

    /// Where they go; in a block they come from this one on.
    pub(super) fn probes(&self, block: &Block<'_>, first: usize) -> Vec<Probe> {
        let probe = |(file, (n, (name, _))): (&String, (usize, &(&str, Option<u32>)))| Probe {
            file: file.clone(),
            function: FunctionAt::Name((*name).into()),
            place: Place::Entry,
            hook: Hook::Program {
                code: block.start(first + n),
                number: u32::MAX,
            },
        };
        let all = self
            .library
            .iter()
            .flat_map(|file| std::iter::repeat(file).zip(self.functions.iter().enumerate()));
        all.map(probe).collect()
    }

    /// Looks which of them were patched, from this probe on.
    pub(super) fn attached(&mut self, attachment: &Attachment, first: usize) {
        let spots = attachment.spots().iter();
        let ours: Vec<&Spot> = spots.filter(|spot| spot.probe > first).collect();
        // `munmap` is a function that every C library has; others may not be there.
        let munmap = first + FORBIDDING;
        self.is_complete = ours.iter().any(|spot| spot.probe == munmap)
            && ours.iter().all(|spot| spot.refusal.is_none());
    }

    /// Tells the agent of the pages of a process in which programs run.
    pub(super) fn publish(&self, pid: u32, memory: &Memory) {
        let there = &memory.state().pages;
        let found = self.is_complete.then(|| segments(pid)).flatten();
        let Some(found) = found else { return };
        for (range, [start, end]) in found.iter().zip(&there.ranges) {
            start.store(range.start, Relaxed);
            end.store(range.end, Release);
        }
        std::thread::sleep(GRACE);
        if segments(pid) == Some(found) {
            let (from, to) = (pages::UNKNOWN, pages::THERE);
            let _ = there.state.compare_exchange(from, to, AcqRel, Relaxed);
        }
    }
}

/// Nothing is read without the kernel any more.
pub(super) fn forget(memory: &Memory) {
    memory.state().pages.state.store(pages::GONE, Release);
}

/// The program's segments as far as they are mapped to be read, those with variables first.
fn segments(pid: u32) -> Option<Vec<Range<u64>>> {
    let modules = dwell_maps::modules(pid).ok()?;
    let program = modules.into_iter().find(|m| m.is_program)?.mapping;
    let file = places::Module::open(&program.reach(pid), pid).ok()?;
    let elf = ElfFile::parse(&file.data).ok()?;
    let bias = elf.mapping_bias(program.start, program.file_offset)?;
    let mappings = dwell_maps::read(pid).ok()?;
    let is_own = |m: &&Mapping| {
        let is_file = (m.device, m.inode) == (program.device, program.inode);
        m.readable && (m.inode == 0 || is_file)
    };
    let mut segments: Vec<_> = elf.segments().filter(|s| s.readable).collect();
    segments.sort_by_key(|s| !s.writable);
    let mut found: Vec<Range<u64>> = Vec::new();
    for segment in segments {
        let start = bias.wrapping_add(segment.stated_address) & !(PAGE - 1);
        let end = bias
            .wrapping_add(segment.stated_end())
            .next_multiple_of(PAGE);
        for mapping in mappings.iter().filter(is_own) {
            let (start, end) = (start.max(mapping.start), end.min(mapping.end));
            match found.last_mut() {
                _ if start >= end => {}
                Some(last) if last.end == start => last.end = end,
                _ => found.push(start..end),
            }
        }
    }
    found.truncate(PAGE_RANGES);
    Some(found)
}
