//! The functions of an ELF file, and what their calls lead to.
use crate::answer::{NotSpinning, Spinning};
use crate::function::Function;
use crate::judge::{Callee, Callees, Target, judge_with, waits};
use dwell_elf::ElfFile;
use dwell_elf::unwind::CfiSections;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

/// Functions of other modules that do nothing but let others run.
const WAITS: &[&[u8]] = &[
    b"sched_yield",
    b"__sched_yield",
    b"pthread_yield",
    b"thrd_yield",
];

/// Instructions that are kept decoded.
const MAX_KEPT: usize = 1 << 20;

/// Relocations that are read at most: twice as many as the largest program we know of has.
const MAX_RELOCATIONS: usize = 4 << 20;

/// An ELF file whose places are asked for. What was found is kept for a while, so places are best asked
/// for in the order of their addresses.
pub struct Module<'data> {
    file: ElfFile<'data>,
    cfi: CfiSections<'data>,
    /// Disjoint, in the order of addresses; found when first asked for.
    functions: OnceCell<Vec<Range<u64>>>,
    /// Slots of the global offset table that lead to a function of [`WAITS`]; found when first asked for.
    waits: OnceCell<HashSet<u64>>,
    decoded: RefCell<Decoded>,
}

#[derive(Default)]
struct Decoded {
    by_start: HashMap<u64, Option<Rc<Function>>>,
    /// By the function's start and the number of a loop.
    waits: HashMap<(u64, usize), Result<(), NotSpinning>>,
    instructions: usize,
}

impl<'data> Module<'data> {
    /// Reads nothing yet.
    pub fn new(file: ElfFile<'data>) -> Self {
        Module {
            cfi: CfiSections::find(&file),
            functions: OnceCell::new(),
            waits: OnceCell::new(),
            decoded: RefCell::default(),
            file,
        }
    }

    /// Stated addresses of the functions: from the file's symbols and, for what they leave out, from its
    /// call frame information.
    pub fn functions(&self) -> &[Range<u64>] {
        self.functions
            .get_or_init(|| functions(&self.file, &self.cfi))
    }

    /// The function around an address: where a table leads to its call frame information at once, the
    /// others need not be found.
    fn range(&self, address: u64) -> Option<Range<u64>> {
        if let Some(found) = self.cfi.function_at(address) {
            return Some(found.start..found.end);
        }
        let functions = self.functions();
        let i = functions.partition_point(|f| f.end <= address);
        functions.get(i).filter(|f| f.contains(&address)).cloned()
    }

    fn waits_at(&self, slot: u64) -> bool {
        let waits = self
            .waits
            .get_or_init(|| wait_slots(&self.file).unwrap_or_default());
        waits.contains(&slot)
    }

    /// Whether the place at a stated address spins; see [`crate::judge()`].
    pub fn judge(&self, address: u64) -> Result<Spinning, NotSpinning> {
        let function = self.function(address).ok_or(NotSpinning::NoInstruction)?;
        let start = function.start();
        judge_with(&function, address, |number| {
            let known = self.decoded.borrow().waits.get(&(start, number)).copied();
            known.unwrap_or_else(|| {
                let found = waits(&function, number, self);
                self.decoded
                    .borrow_mut()
                    .waits
                    .insert((start, number), found);
                found
            })
        })
    }

    /// The function around a stated address; none where none is known, or it is too large.
    pub fn function(&self, address: u64) -> Option<Rc<Function>> {
        let range = self.range(address)?;
        let decoded = &mut *self.decoded.borrow_mut();
        if decoded.instructions > MAX_KEPT {
            *decoded = Decoded::default();
        }
        if let Some(known) = decoded.by_start.get(&range.start) {
            return known.clone();
        }
        let bytes = self
            .file
            .bytes_at(range.start, (range.end - range.start) as usize);
        let function = bytes
            .and_then(|bytes| Function::decode(range.start, bytes))
            .map(Rc::new);
        decoded.instructions += function.as_ref().map_or(1, |f| f.len());
        decoded.by_start.insert(range.start, function.clone());
        function
    }

    /// What a stub of the procedure linkage table jumps through.
    fn stub_slot(&self, address: u64) -> Option<u64> {
        let mut bytes = self.file.bytes_from(address)?;
        let mut at = address;
        for prefix in [&[0xf3, 0x0f, 0x1e, 0xfa][..], &[0xf2]] {
            if let Some(rest) = bytes.strip_prefix(prefix) {
                bytes = rest;
                at = at.wrapping_add(prefix.len() as u64);
            }
        }
        let distance = bytes.strip_prefix(&[0xff, 0x25])?.first_chunk::<4>()?;
        let distance = i64::from(i32::from_le_bytes(*distance));
        Some(at.wrapping_add(6).wrapping_add_signed(distance))
    }
}

impl Callees for Module<'_> {
    fn callee(&self, target: Target) -> Callee {
        let slot = match target {
            Target::Slot(slot) => Some(slot),
            Target::Address(address) => self.stub_slot(address),
        };
        match (slot, target) {
            (Some(slot), _) if self.waits_at(slot) => Callee::Waits,
            (None, Target::Address(address)) => {
                let starts = |f: &Rc<Function>| f.start() == address;
                self.function(address)
                    .filter(starts)
                    .map_or(Callee::Unknown, Callee::Code)
            }
            _ => Callee::Unknown,
        }
    }
}

/// The functions of a file, disjoint. A symbol without a size, as hand-written code has, ends where
/// the next one begins.
fn functions(file: &ElfFile<'_>, cfi: &CfiSections<'_>) -> Vec<Range<u64>> {
    let mut code: Vec<Range<u64>> = file
        .segments()
        .filter(|s| s.executable)
        .map(|s| s.stated_address..s.stated_address.saturating_add(s.file_size))
        .collect();
    code.sort_unstable_by_key(|c| c.start);
    let segment_end = |start: u64| code.iter().find(|c| c.contains(&start)).map(|c| c.end);
    let mut found: Vec<(u64, u64)> = file
        .symbols()
        .map(|s| (s.address, s.address.saturating_add(s.size)))
        .collect();
    let described = cfi.functions();
    found.extend(described.iter().map(|f| (f.start, f.end)));
    // The longest of those that begin at one place first.
    found.sort_unstable_by_key(|&(start, end)| (start, std::cmp::Reverse(end)));
    found.dedup_by_key(|f| f.0);
    let mut functions: Vec<Range<u64>> = Vec::with_capacity(found.len());
    for (i, &(start, end)) in found.iter().enumerate() {
        let Some(limit) = segment_end(start) else {
            continue;
        };
        let next = found.get(i + 1).map_or(limit, |f| f.0);
        let end = if end > start { end } else { next };
        // One that begins inside another is an entry into it.
        if functions.last().is_none_or(|last| last.end <= start) && start < end.min(limit) {
            functions.push(start..end.min(limit));
        }
    }
    functions
}

/// The slots that lead to functions that wait.
fn wait_slots(file: &ElfFile<'_>) -> Option<HashSet<u64>> {
    const SLOTS: [u32; 2] = [6, 7]; // R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT
    let symbols = file.section(".dynsym")?.raw_bytes()?;
    let strings = file.section(".dynstr")?.raw_bytes()?;
    let word = |bytes: &[u8], at: usize| {
        bytes
            .get(at..)
            .and_then(|b| b.first_chunk::<8>())
            .map_or(0, |b| u64::from_le_bytes(*b))
    };
    let name = |symbol: usize| {
        let at = (word(symbols, symbol.checked_mul(24)?) & 0xffff_ffff) as usize;
        let rest = strings.get(at..)?;
        rest.get(..rest.iter().position(|&b| b == 0)?)
    };
    let mut found = HashSet::new();
    for section in [".rela.plt", ".rela.dyn"] {
        let Some(bytes) = file.section(section).and_then(|s| s.raw_bytes()) else {
            continue;
        };
        let (entries, _) = bytes.as_chunks::<24>();
        for entry in entries.iter().take(MAX_RELOCATIONS) {
            let (slot, info) = (word(entry, 0), word(entry, 8));
            let is_wait = || name((info >> 32) as usize).is_some_and(|n| WAITS.contains(&n));
            if SLOTS.contains(&(info as u32)) && is_wait() {
                found.insert(slot);
            }
        }
    }
    Some(found)
}
