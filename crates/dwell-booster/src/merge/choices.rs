//! What functions that are chosen at start (IFUNC) were chosen to be, and the guard of that choice.
//!
//! A program is asked first: a merged file is made that does nothing but tell what its resolvers, called by the
//! loader as ever, gave ([`Question`]). In the file that is made with the answer, calls go to the chosen functions
//! themselves. Each resolver is still called once at start, and its choice compared with the one that was built in,
//! before any other code of the file runs. Where one differs (another processor, GLIBC_TUNABLES) the stock
//! program runs instead. So nothing needs to be known of how resolvers choose.
//!
//! The comparison is a resolver itself, for the place behind those of the others: the loader calls resolvers in the
//! order of their relocations, when all other relocations are done.
use super::{Made, Merge};
use crate::closure::Closure;
use crate::layout::Layout;
use crate::selection::{LOADER, select};
use crate::values::{Import, Value, Values};
use crate::{Inputs, Options, Refusal};
use object::elf;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Which function each resolver chose; both as distances from the image's begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices(BTreeMap<u64, u64>);

impl Choices {
    /// How many functions were chosen.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A program that tells what its resolvers choose, and ends.
#[derive(Clone, Debug)]
pub struct Question {
    /// The file to be run, without arguments and variables. It prints the answer.
    pub bytes: Vec<u8>,
    /// Image address of what it prints, and of the resolvers in that order.
    place: u64,
    resolvers: Vec<u64>,
    image: std::ops::Range<u64>,
    code: Vec<(u64, u64)>,
}

/// Makes the question for a program; none when nothing is chosen at start, or nothing is to be bound.
pub fn question(inputs: &Inputs, options: &Options) -> Result<Option<Question>, Refusal> {
    if !binds(options) {
        return Ok(None);
    }
    let closure = Closure::of(inputs)?;
    let verdicts = select(&closure, options)?;
    let path = &closure.modules[0].path;
    let layout = Layout::of(&closure, &verdicts, options);
    let layout = layout.map_err(|why| Refusal::unsupported(path, why))?;
    let merge = Merge::new(&closure, &layout, options, Guard::Ask);
    // Only what it chooses is asked: direct calls and copies of hot functions do not change that.
    let made = merge.make(&Options::default())?;
    super::verify::verify(&merge, &made)?;
    let Made { image, chosen, .. } = made;
    Ok((!chosen.resolvers.is_empty()).then(|| Question {
        code: super::direct::code_of(&image),
        image: layout.start..layout.end,
        bytes: image.bytes,
        place: chosen.place,
        resolvers: chosen.resolvers,
    }))
}

/// Whether functions are to be bound: calls are to be direct, and the C library, which has most of them, is merged.
pub(super) fn binds(options: &Options) -> bool {
    options.direct && options.libc
}

impl Question {
    /// Reads the answer. None when it is none. Choices outside of the merged code (the kernel's vDSO) are left out.
    pub fn choices(&self, answer: &[u8]) -> Option<Choices> {
        let (words, rest) = answer.as_chunks::<8>();
        let (own, chosen) = words.split_first()?;
        if !rest.is_empty() || chosen.len() != self.resolvers.len() {
            return None;
        }
        let bias = u64::from_le_bytes(*own).wrapping_sub(self.place);
        let image = chosen
            .iter()
            .map(|w| u64::from_le_bytes(*w).wrapping_sub(bias));
        let inside = |at: u64| self.code.iter().any(|&(from, to)| from <= at && at < to);
        let bound = self.resolvers.iter().zip(image);
        let bound = bound.filter(|&(_, at)| self.image.contains(&at) && inside(at));
        let start = self.image.start;
        Some(Choices(
            bound
                .map(|(r, at)| (r.wrapping_sub(start), at - start))
                .collect(),
        ))
    }
}

/// What the guard does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guard<'a> {
    /// There is none: functions are chosen at start.
    None,
    /// It prints what was chosen.
    Ask,
    /// It compares, and becomes the stock program (its path) when a choice differs.
    Compare(&'a Choices, &'a [u8]),
}

/// What is bound, and where the resolvers' results are kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chosen {
    /// Resolvers whose choice is looked at, image addresses.
    pub resolvers: Vec<u64>,
    /// What they chose; empty in a question.
    targets: Vec<u64>,
    /// Image address of the results; the first one is this address itself. The guard's own place follows.
    pub place: u64,
}

impl Chosen {
    /// Puts what was chosen where resolvers' results would go.
    pub(crate) fn bind(values: &mut Values, layout: &Layout, guard: Guard<'_>) -> Self {
        let mut chosen = Chosen::default();
        match guard {
            Guard::None => {}
            Guard::Ask => {
                let resolvers = values.places.values().filter_map(|v| match v {
                    Value::Indirect(resolver) => Some(*resolver),
                    _ => None,
                });
                let resolvers: BTreeSet<u64> = resolvers.collect();
                chosen.resolvers = resolvers.into_iter().collect();
            }
            Guard::Compare(choices, _) => {
                let mut used = BTreeMap::new();
                for value in values.places.values_mut() {
                    let Value::Indirect(resolver) = *value else {
                        continue;
                    };
                    if let Some(target) = choices.0.get(&resolver.wrapping_sub(layout.start)) {
                        let target = target + layout.start;
                        used.insert(resolver, target);
                        *value = Value::Image(target);
                    }
                }
                (chosen.resolvers, chosen.targets) = used.into_iter().unzip();
            }
        }
        chosen
    }

    /// Bytes of the places.
    pub(crate) fn len(&self) -> u64 {
        match self.resolvers.len() as u64 {
            0 => 0,
            // The address of the loader's variable, the own address, the results, the guard's.
            count => 8 * (count + 3),
        }
    }

    /// Adds what goes into the places, which begin at `at`; `code` is where the guard is.
    pub(crate) fn put(
        &mut self,
        merge: &Merge<'_, '_>,
        values: &mut Values,
        (at, code): (u64, u64),
    ) {
        if self.resolvers.is_empty() {
            return;
        }
        debug_assert!(merge.kept().any(|m| m.name == LOADER));
        let stack = stack_end(values);
        values.places.insert(at, stack);
        self.place = at + 8;
        values.places.insert(self.place, Value::Image(self.place));
        let all = self.resolvers.iter().chain([&code]);
        for (place, &resolver) in (self.place + 8..).step_by(8).zip(all) {
            values.places.insert(place, Value::Indirect(resolver));
        }
    }

    /// The guard's code for the image address `at`.
    /// `differently` is what it calls first where a choice differs.
    pub(crate) fn code(&self, guard: Guard<'_>, at: u64, differently: Option<u64>) -> Vec<u8> {
        match guard {
            _ if self.resolvers.is_empty() => Vec::new(),
            Guard::None => Vec::new(),
            Guard::Ask => {
                let mut bytes = ASK.to_vec();
                put(&mut bytes, 8, self.place.wrapping_sub(at + 12) as u32);
                put(&mut bytes, 13, 8 * (self.resolvers.len() as u32 + 1));
                bytes
            }
            Guard::Compare(_, stock) => {
                let mut bytes = self.comparison(stock, at);
                if let Some(to) = differently {
                    let distance = to.wrapping_sub(at + (OTHER.start + 5) as u64) as u32;
                    bytes[OTHER].copy_from_slice(&[0xe8, 0, 0, 0, 0, 0x66, 0x90]); // call; nop
                    put(&mut bytes, OTHER.start + 1, distance);
                }
                bytes
            }
        }
    }

    fn comparison(&self, stock: &[u8], at: u64) -> Vec<u8> {
        let mut bytes = COMPARE.to_vec();
        let table = at + bytes.len() as u64;
        for target in [self.place].iter().chain(&self.targets) {
            bytes.extend((target.wrapping_sub(table) as u32).to_le_bytes());
        }
        let path = at + bytes.len() as u64;
        bytes.extend(stock);
        bytes.push(0);
        let text = at + bytes.len() as u64;
        bytes.extend(LOST);
        let distances = [
            (3, self.place),
            (10, table),
            (0x33, self.place - 8),
            (0x6f, path),
            (0x82, path),
            (0x95, text),
        ];
        for (offset, to) in distances {
            put(
                &mut bytes,
                offset,
                to.wrapping_sub(at + offset as u64 + 4) as u32,
            );
        }
        put(&mut bytes, 0xf, self.targets.len() as u32 + 1);
        put(&mut bytes, 0x74, stock.len() as u32 + 1);
        put(&mut bytes, 0x9a, LOST.len() as u32);
        bytes
    }
}

/// The address of the loader's variable that tells where the stack began.
pub(crate) fn stack_end(values: &mut Values) -> Value {
    let import = values.import(Import {
        name: b"__libc_stack_end".to_vec(),
        version: Some(("GLIBC_2.2.5".into(), LOADER.into())),
    });
    Value::Import {
        kind: elf::R_X86_64_GLOB_DAT.0,
        import,
        addend: 0,
    }
}

fn put(bytes: &mut [u8], offset: usize, word: u32) {
    bytes[offset..offset + 4].copy_from_slice(&word.to_le_bytes());
}

/// Told when the stock program cannot be run, either. To go on would be to call functions that the processor may lack.
const LOST: &[u8] =
    b"dwell: this boosted program was made for another processor, and the stock program is gone: \
    reinstall its package\n";

/// Tells the results and ends.
const ASK: [u8; 33] = [
    0xbf, 0x01, 0x00, 0x00, 0x00, // mov edi,1
    0x48, 0x8d, 0x35, 0x00, 0x00, 0x00, 0x00, // lea rsi,[rip+0]
    0xba, 0x44, 0x33, 0x22, 0x11, // mov edx,0x11223344
    0xb8, 0x01, 0x00, 0x00, 0x00, // mov eax,1
    0x0f, 0x05, // syscall
    0x31, 0xff, // xor edi,edi
    0xb8, 0xe7, 0x00, 0x00, 0x00, // mov eax,231
    0x0f, 0x05, // syscall
];

/// The two instructions of [`COMPARE`] that find the arguments in the stack: who is called there does that, too.
const OTHER: Range<usize> = 0x3a..0x41;

/// Compares the results with the table behind the code: (distance of what was chosen from the table). A path and a text
/// follow. The loader's variable says where the stack began: argc, argv, envp, auxv. A program that already runs
/// under the stock one's name would only run itself again.
const COMPARE: [u8; 177] = [
    0x48, 0x8d, 0x35, 0x00, 0x00, 0x00, 0x00, // guard: lea rsi,[rip+0]
    0x48, 0x8d, 0x3d, 0x00, 0x00, 0x00, 0x00, // lea rdi,[rip+0]
    0xb9, 0x44, 0x33, 0x22, 0x11, // mov ecx,0x11223344
    0x49, 0x89, 0xf8, // mov r8,rdi
    0x48, 0x63, 0x07, // next: movsxd rax,dword ptr [rdi]
    0x4c, 0x01, 0xc0, // add rax,r8
    0x48, 0x3b, 0x06, // cmp rax,[rsi]
    0x75, 0x0f, // jne other
    0x48, 0x83, 0xc7, 0x04, // add rdi,4
    0x48, 0x83, 0xc6, 0x08, // add rsi,8
    0xff, 0xc9, // dec ecx
    0x75, 0xe9, // jne next
    0x31, 0xc0, // xor eax,eax
    0xc3, // ret
    0x48, 0x8b, 0x15, 0x00, 0x00, 0x00, 0x00, // other: mov rdx,[rip+0]
    0x48, 0x8b, 0x12, // mov rdx,[rdx]
    0x48, 0x8b, 0x0a, // mov rcx,[rdx]
    0x48, 0x8d, 0x72, 0x08, // lea rsi,[rdx+8]
    0x48, 0x8d, 0x54, 0xca, 0x10, // lea rdx,[rdx+rcx*8+16]
    0x49, 0x89, 0xd1, // mov r9,rdx
    0x49, 0x8b, 0x01, // variable: mov rax,[r9]
    0x49, 0x83, 0xc1, 0x08, // add r9,8
    0x48, 0x85, 0xc0, // test rax,rax
    0x75, 0xf4, // jne variable
    0x49, 0x8b, 0x01, // fact: mov rax,[r9]
    0x49, 0x83, 0xc1, 0x10, // add r9,16
    0x85, 0xc0, // test eax,eax
    0x74, 0x1f, // je become
    0x83, 0xf8, 0x1f, // cmp eax,31
    0x75, 0xf0, // jne fact
    0x49, 0x89, 0xf2, // mov r10,rsi
    0x49, 0x8b, 0x71, 0xf8, // mov rsi,[r9-8]
    0x48, 0x8d, 0x3d, 0x00, 0x00, 0x00, 0x00, // lea rdi,[rip+0]
    0xb9, 0x44, 0x33, 0x22, 0x11, // mov ecx,0x11223344
    0xf3, 0xa6, // repe cmpsb
    0x4c, 0x89, 0xd6, // mov rsi,r10
    0x74, 0x0e, // je lost
    0x48, 0x8d, 0x3d, 0x00, 0x00, 0x00, 0x00, // become: lea rdi,[rip+0]
    0xb8, 0x3b, 0x00, 0x00, 0x00, // mov eax,59
    0x0f, 0x05, // syscall
    0xbf, 0x02, 0x00, 0x00, 0x00, // lost: mov edi,2
    0x48, 0x8d, 0x35, 0x00, 0x00, 0x00, 0x00, // lea rsi,[rip+0]
    0xba, 0x44, 0x33, 0x22, 0x11, // mov edx,0x11223344
    0xb8, 0x01, 0x00, 0x00, 0x00, // mov eax,1
    0x0f, 0x05, // syscall
    0xbf, 0x7f, 0x00, 0x00, 0x00, // mov edi,127
    0xb8, 0xe7, 0x00, 0x00, 0x00, // mov eax,231
    0x0f, 0x05, // syscall
];
