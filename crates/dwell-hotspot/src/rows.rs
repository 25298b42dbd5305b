//! Rows of compiled code, made when they are asked for: what `code_row` of the in-kernel unwinder (`unwind.h`) does, to
//! the letter.
use crate::heap;
use dwell_abi::events::{CodeHeap, compiled_mark};
use dwell_abi::unwind::{KIND_INTERPRETED, KIND_NONE, KIND_SP, Row};
use dwell_maps::Memory;

/// Words; a row has no room for more.
const LARGEST_FRAME: i32 = 0x7fff;

/// Bytes of code before an instruction that are looked at: a cmpl with a wide offset.
const BYTES_BEFORE: usize = 11;

const NONE: Row = row(KIND_NONE, 0, 0);
/// As at a function's entry.
const NO_FRAME_YET: Row = row(KIND_SP, 1, 0);
const RBP_PUSHED: Row = row(KIND_SP, 2, -2);
const INTERPRETED: Row = row(KIND_INTERPRETED, 0, 0);

const fn row(kind: u8, cfa_off8: i16, bp_off8: i8) -> Row {
    Row {
        pc: 0,
        cfa_off8,
        kind,
        bp_off8,
    }
}

/// The row at an actual address in a heap: that of a call if a frame `returned` to behind it. Its blob tells how large the
/// frame is; at the frame's top lie the return address and rbp. [`Row::pc`] tells the code from other code that may be there
/// later ([`compiled_mark`]). `KIND_NONE` for stubs.
pub fn code_row(memory: &impl Memory, heap: &CodeHeap, pc: u64, returned: bool) -> Row {
    if (heap.interpreter_start..heap.interpreter_end).contains(&pc) {
        return INTERPRETED;
    }
    find_row(memory, heap, pc, returned).unwrap_or(NONE)
}

fn find_row(memory: &impl Memory, heap: &CodeHeap, pc: u64, returned: bool) -> Option<Row> {
    let blob = heap::find(memory, heap, pc)?;
    let size = memory.int(blob.checked_add(heap.frame_size_at.into())?)?;
    if !(1..=LARGEST_FRAME).contains(&size) {
        return None;
    }
    let id = memory
        .int(blob.wrapping_add(heap.compile_id_at.into()))
        .unwrap_or(0);
    let mark = compiled_mark(id as u32);
    let whole = row(KIND_SP, size as i16, -2);
    let row = row_of_blob(memory, heap, (blob, pc, returned), whole)?;
    Some(Row { pc: mark, ..row })
}

/// The same of a blob's code at `pc`, but for the mark. `whole` is the row where the frame is complete.
fn row_of_blob(
    memory: &impl Memory,
    heap: &CodeHeap,
    (blob, pc, returned): (u64, u64, bool),
    whole: Row,
) -> Option<Row> {
    if returned {
        return Some(whole);
    }
    let complete_at = blob.checked_add(heap.frame_complete_at.into())?;
    let complete = match heap.frame_complete_bytes {
        2 => (memory.short(complete_at)? as i16).into(),
        _ => memory.int(complete_at)?,
    };
    let code_at = blob.checked_add(heap.code_at.into())?;
    let begin = match heap.code_by_offset {
        0 => memory.word(code_at)?,
        _ => blob.checked_add((memory.int(code_at)? as u32).into())?,
    };
    let mut code = [0; 16];
    let all = memory.read(pc, &mut code);
    if !all {
        memory.read(pc, &mut code[..8]);
    }
    if complete > 0 && pc < begin.wrapping_add(complete as u64) {
        let before = memory.bytes(pc.wrapping_sub(BYTES_BEFORE as u64));
        let before = before.unwrap_or([0; BYTES_BEFORE]);
        return Some(prologue(&code, &before, whole));
    }
    Some(match code {
        _ if is_returning(&code) => NO_FRAME_YET,
        [0x5d, ref rest @ ..] if is_returning(rest) => RBP_PUSHED,
        _ => whole,
    })
}

/// Where the frame is in the making: at the instruction that stands there (C1's and C2's `MacroAssembler::verified_entry`).
fn prologue(code: &[u8], before: &[u8; BYTES_BEFORE], whole: Row) -> Row {
    let is_behind_comparison = matches!(
        before,
        [_, _, _, 0x41, 0x81, 0x7f, ..] | [0x41, 0x81, 0xbf, ..]
    );
    match code {
        // cmpl N,M(%r15) and jne: the barrier of newer versions, behind all that
        [0x41, 0x81, 0x7f | 0xbf, ..] => whole,
        [0x0f, 0x85, ..] if is_behind_comparison => whole,
        // mov %rbp,N(%rsp), behind sub $N,%rsp
        [0x48, 0x89, 0x6c | 0xac, ..] => Row {
            bp_off8: 0,
            ..whole
        },
        // sub, or mov %rsp,%rbp, behind push %rbp
        [0x48, 0x83 | 0x81, 0xec, ..] | [0x48, 0x8b, 0xec, ..]
            if before[BYTES_BEFORE - 1] == 0x55 =>
        {
            RBP_PUSHED
        }
        _ => NO_FRAME_YET,
    }
}

/// Whether nothing but the poll at a return and the return itself are to come.
fn is_returning(code: &[u8]) -> bool {
    const RET: u8 = 0xc3;
    match code {
        [RET, ..] => true,
        // cmp N(%r15),%rsp
        [0x49, 0x3b, 0x67 | 0xa7, ..] => true,
        // ja
        [0x0f, 0x87, _, _, _, _, RET, ..] => true,
        // test %eax,N(%rip)
        [0x85, 0x05, _, _, _, _, RET, ..] => true,
        // test %eax,(%r10), also behind mov N(%r15),%r10
        [0x41, 0x85, 0x02, RET, ..] => true,
        [0x4d, 0x8b, 0x97, _, _, _, _, 0x41, 0x85, 0x02, RET, ..] => true,
        _ => false,
    }
}
