//! A made JVM, by its bytes: what is found in it, and what is not believed.
mod made;

use dwell_abi::events::CodeHeap;
use dwell_abi::unwind::{KIND_INTERPRETED, KIND_NONE, KIND_SP};
use dwell_hotspot::{BlobKind, Jvm, code_row};
use made::*;

/// Bytes from address 0 on.
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, at: u64, bytes: &[u8]) {
        self.0[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    fn word(&mut self, at: u64, word: u64) {
        self.put(at, &word.to_le_bytes());
    }

    fn int(&mut self, at: u64, int: u32) {
        self.put(at, &int.to_le_bytes());
    }

    fn short(&mut self, at: u64, short: u16) {
        self.put(at, &short.to_le_bytes());
    }

    fn at(&self, address: u64) -> Option<u8> {
        self.0.get(address as usize).copied()
    }
}

const HEAP: u64 = 0x10000;
const SEGMENT: u64 = 128;
const SEGMENTS: u64 = 0x8000;
const INTERPRETER: u64 = HEAP + 0x8000;
/// The blob of a compiled method, and its code.
const BLOB: u64 = HEAP + 3 * SEGMENT + 16;
const CODE: u64 = BLOB + 0x180;
/// Words of its frame.
const FRAME: u32 = 6;
const OUTER: u64 = 0x4000;
const INNER: u64 = 0x4800;
const METADATA: u64 = BLOB + 0x600;
const SCOPES: u64 = BLOB + 0x640;
const PLACES: u64 = BLOB + 0x680;

/// A method with its constant part, constants and class behind it.
fn method(bytes: &mut Bytes, at: u64, class: &str, name: &str) {
    let (constant, pool, holder, texts) = (at + 0x100, at + 0x200, at + 0x300, at + 0x400);
    bytes.word(at + 8, constant);
    bytes.word(constant + 8, pool);
    bytes.short(constant + 28, 1);
    bytes.short(constant + 32, 20);
    bytes.short(constant + 34, 2);
    // Line 10 from 0 on, line 14 from 5 on, line 3 from 12 on.
    let escaped = [0xff, 2 * 7 + 1, 2 * 11];
    bytes.put(constant + 48 + 20, &[0xff, 1, 2 * 10 + 1, 5 << 3 | 4]);
    bytes.put(constant + 48 + 24, &escaped);
    bytes.word(pool + 24, holder);
    bytes.short(pool + 54, 1);
    bytes.word(pool + 72 + 8, texts);
    bytes.word(pool + 72 + 16, texts + 0x40);
    bytes.word(holder + 24, texts + 0x80);
    for (at, text) in [
        (texts, "Work.java"),
        (texts + 0x40, name),
        (texts + 0x80, class),
    ] {
        bytes.short(at + 4, text.len() as u16);
        bytes.put(at + 6, text.as_bytes());
    }
}

/// A JVM of version 20 or later in the layout of 17, whose heap has one compiled method with another one in it.
fn jvm() -> Bytes {
    let mut bytes = Bytes(vec![0; 0x20000]);
    bytes.word(HEAP_ARRAY_AT, 0x200);
    bytes.word(INTERPRETER_AT, 0x300);
    bytes.word(COLLECTED_HEAP_AT, 0x380);
    bytes.int(0x380 + 64, 7);
    bytes.word(LOADERS_AT, 0x4000);
    bytes.int(0x200, 1);
    bytes.word(0x208, 0x240);
    bytes.word(0x240, 0x280);
    for (at, word) in [(8, HEAP), (16, HEAP + 0x10000), (24, HEAP)] {
        bytes.word(0x280 + at, word);
    }
    bytes.word(0x280 + 40 + 16, SEGMENTS);
    bytes.int(0x280 + 72, 7);
    bytes.word(0x308, INTERPRETER);
    bytes.int(0x300 + 20, 0x1000);
    bytes.put(SEGMENTS, &[0xff; 0x200]);
    bytes.put(SEGMENTS + 3, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1, 2]);
    bytes.word(BLOB + 96, 0x340);
    bytes.put(0x340, b"nmethod\0");
    bytes.int(BLOB + 12, 0x700);
    bytes.int(BLOB + 28, FRAME);
    bytes.int(BLOB + 20, 12);
    bytes.word(BLOB + 32, CODE);
    bytes.word(BLOB + 112, OUTER);
    bytes.word(BLOB + 120, SCOPES);
    bytes.int(BLOB + 260, (METADATA - BLOB) as u32);
    bytes.int(BLOB + 268, (PLACES - BLOB) as u32);
    bytes.int(BLOB + 272, (PLACES - BLOB) as u32 + 4 * 16);
    bytes.int(BLOB + 304, 41);
    method(&mut bytes, OUTER, "org/example/Work", "outer");
    method(
        &mut bytes,
        INNER,
        "Work$$Lambda+0x00007f0012345678",
        "inner",
    );
    bytes.word(METADATA, OUTER);
    bytes.word(METADATA + 8, INNER);
    // At 1: outer at 5. At 5: inner at 0, in 1. Numbers are one more each, since 0 is left out.
    bytes.put(SCOPES + 1, &[1, 2, 7]);
    bytes.put(SCOPES + 5, &[2, 3, 2]);
    for (n, (pc, scope)) in [(u32::MAX, 0), (20, 1), (40, 5), (i32::MAX as u32, 0)]
        .into_iter()
        .enumerate()
    {
        bytes.int(PLACES + 16 * n as u64, pc);
        bytes.int(PLACES + 16 * n as u64 + 4, scope);
    }
    bytes
}

fn made(bytes: Bytes) -> (Made<impl Fn(u64) -> Option<u8>>, Jvm, CodeHeap) {
    let made = Made::new(21, move |at| bytes.at(at));
    let jvm = made.jvm().expect("tables");
    let heaps = jvm.code_heaps(&made);
    assert_eq!(heaps.len(), 1);
    let (range, heap) = heaps[0].clone();
    assert_eq!(range, HEAP..HEAP + 0x10000);
    assert_eq!(heap.interpreter_end, INTERPRETER + 0x1000);
    (made, jvm, heap)
}

fn told(jvm: &Jvm, made: &impl dwell_maps::Memory, address: u64) -> Vec<String> {
    let methods = jvm.methods_at(made, BLOB, OUTER, address);
    let text = |m: &dwell_hotspot::Method| {
        let file = m.file.as_deref().unwrap_or("?");
        format!("{} {file}:{}", m.full_name(), m.line.unwrap_or(0))
    };
    methods.iter().map(text).collect()
}

#[test]
fn methods_and_those_that_were_put_into_them() {
    let (made, jvm, heap) = made(jvm());
    let blob = jvm.blob(&made, &heap, CODE + 40).expect("a blob");
    assert_eq!(
        (blob.address, blob.kind),
        (
            BLOB,
            BlobKind::Method {
                method: OUTER,
                compile_id: 41
            }
        )
    );
    assert_eq!(jvm.blob(&made, &heap, BLOB + 0x700), None, "behind it");
    let outer = "org.example.Work.outer Work.java:14";
    assert_eq!(told(&jvm, &made, CODE + 20), [outer]);
    for inside in [21, 40] {
        let inner = "Work$$Lambda.inner Work.java:10";
        assert_eq!(told(&jvm, &made, CODE + inside), [inner, outer]);
    }
    // Behind the last place: only whose code it is.
    assert_eq!(
        told(&jvm, &made, CODE + 41),
        ["org.example.Work.outer Work.java:0"]
    );
    let line = |bci| jvm.method_at(&made, INNER, Some(bci)).and_then(|m| m.line);
    assert_eq!(
        [0, 4, 5, 11, 12, 19].map(line),
        [10, 10, 14, 14, 3, 3].map(Some)
    );
    assert_eq!(
        jvm.bytecode(&made, INNER, INNER + 0x100 + 48 + 19),
        Some(19)
    );
    assert_eq!(jvm.bytecode(&made, INNER, INNER + 0x100 + 48 + 20), None);
}

#[test]
fn what_goes_is_noticed() {
    let mut bytes = jvm();
    let ids = |bytes: &Bytes| {
        let (made, jvm, _) = made(Bytes(bytes.0.clone()));
        let class = jvm.class_of(&made, INNER).expect("a class");
        let class = jvm.class_name(&made, class);
        (class, jvm.epoch(&made))
    };
    let before = ids(&bytes);
    assert_eq!(before.1, [Some(7), Some(0x4000)]);
    bytes.word(INNER + 0x300 + 24, OUTER + 0x400);
    bytes.int(0x380 + 64, 8);
    bytes.word(LOADERS_AT, 0x5000);
    let after = ids(&bytes);
    assert_eq!(after.1, [Some(8), Some(0x5000)]);
    assert_ne!(before.0, after.0);
}

#[test]
fn frames_of_code() {
    let rows = |code: &[u8], at: u64, returned| {
        let mut bytes = jvm();
        bytes.put(CODE, code);
        let (made, _, heap) = made(bytes);
        let row = code_row(&made, &heap, CODE + at, returned);
        (row.kind, row.cfa_off8, row.bp_off8)
    };
    let row = |code: &[u8], at| rows(code, at, false);
    let (entry, pushed, whole) = (
        (KIND_SP, 1, 0),
        (KIND_SP, 2, -2),
        (KIND_SP, FRAME as i16, -2),
    );
    // mov %eax,-0x14000(%rsp); push %rbp; sub $0x20,%rsp: 12 bytes.
    let prologue = [
        0x89, 0x84, 0x24, 0, 0xc0, 0xfe, 0xff, 0x55, 0x48, 0x83, 0xec, 0x20,
    ];
    assert_eq!(
        [0, 7, 8, 12].map(|at| row(&prologue, at)),
        [entry, entry, pushed, whole]
    );
    // sub $0x28,%rsp; mov %rbp,0x20(%rsp)
    let no_push = [0x48, 0x83, 0xec, 0x28, 0x48, 0x89, 0x6c, 0x24, 0x20];
    assert_eq!(row(&no_push, 4), (KIND_SP, FRAME as i16, 0));
    // push %rbp; sub $0x30,%rsp; cmpl $1,0x20(%r15); jne, with the frame told to be complete behind it
    let barrier = [
        0x55, 0x48, 0x83, 0xec, 0x30, 0x41, 0x81, 0x7f, 0x20, 1, 0, 0,
    ];
    assert_eq!(row(&barrier, 5), whole);
    // add $0x20,%rsp; pop %rbp; cmp 0x350(%r15),%rsp; ja; ret
    let mut epilogue = [0x90; 12].to_vec();
    epilogue.extend([
        0x48, 0x83, 0xc4, 0x20, 0x5d, 0x49, 0x3b, 0xa7, 0x50, 3, 0, 0,
    ]);
    epilogue.extend([0x0f, 0x87, 0x10, 0, 0, 0, 0xc3]);
    let found = [12, 16, 17, 24, 30].map(|at| row(&epilogue, at));
    assert_eq!(found, [whole, pushed, entry, entry, entry]);
    assert_eq!(rows(&epilogue, 17, true), whole, "a caller has its frame");
    // A pop that no return follows.
    let mut popped = [0x90; 12].to_vec();
    popped.extend([0x5d, 0x90]);
    assert_eq!(row(&popped, 12), whole);
    let in_interpreter = row(&prologue, INTERPRETER - CODE);
    assert_eq!(in_interpreter.0, KIND_INTERPRETED);
    assert_eq!(
        row(&prologue, 0xf000 + HEAP - CODE).0,
        KIND_NONE,
        "nothing is there"
    );
}

#[test]
fn what_leads_in_circles_ends() {
    let mut bytes = jvm();
    // Scopes that are their own callers, and segments that lead to no block.
    bytes.put(SCOPES + 5, &[6, 3, 2]);
    bytes.put(SEGMENTS, &[1; 0x200]);
    let (made, jvm, heap) = made(bytes);
    assert_eq!(told(&jvm, &made, CODE + 40).len(), 1);
    assert_eq!(jvm.blob(&made, &heap, CODE), None);
}

#[test]
fn a_jvm_that_has_not_begun_has_no_code() {
    let nothing = Made::new(17, |_| None);
    let jvm = nothing.jvm().expect("the tables");
    assert!(jvm.code_heaps(&nothing).is_empty());
}
