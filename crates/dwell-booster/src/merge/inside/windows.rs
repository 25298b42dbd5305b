//! The loader's questions to the processor (`cpuid`), and code that answers them from memory.
//!
//! The instruction has two bytes and a jump has five: some neighbours move with it to a stub. None of them is a jump
//! or a call, and nothing leads into their midst: no jump of any function, no entry of a jump table, no address
//! in data. What cannot be done so keeps asking the processor.
use crate::merge::decoded::{Decoded, decode};
use crate::merge::direct::functions;
use crate::module::Module;
use crate::{Refusal, module};
use iced_x86::{Code, FlowControl, Instruction};
use object::elf;
use std::collections::BTreeSet;
use std::ops::Range;

/// Instructions that move to a stub, with the question among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// Stated address of the first.
    pub stated: u64,
    /// Bytes of all.
    pub len: u64,
}

/// Bytes of the jump.
pub(crate) const JUMP: usize = 5;
/// Most instructions of a window before and behind the question.
const NEIGHBOURS: usize = 3;

/// The windows of all questions, and how many questions there are.
pub(crate) fn windows(loader: &Module<'_>) -> Result<(Vec<Window>, usize), Refusal> {
    let mut decoded = Vec::new();
    for (stated, len) in functions::of(loader)? {
        let bytes = loader.elf.bytes_at(stated, len as usize);
        if let Some(all) = bytes.and_then(|bytes| decode(bytes, stated)) {
            decoded.push((stated..stated + len, all));
        }
    }
    let mut entries = BTreeSet::new();
    let found = module::relocations(loader).map_err(|why| Refusal::damaged(&loader.path, why))?;
    let relative = found.iter().filter(|r| r.kind == elf::R_X86_64_RELATIVE.0);
    entries.extend(relative.map(|r| r.addend as u64));
    for (range, all) in &decoded {
        for decoded in all {
            entries_of(loader, range, &decoded.instruction, &mut entries);
        }
    }
    let mut windows = Vec::new();
    let mut questions = 0;
    for (_, all) in &decoded {
        let mut free = 0;
        let asking = |(_, d): &(usize, &Decoded<'_>)| d.instruction.code() == Code::Cpuid;
        for (number, _) in all.iter().enumerate().filter(asking) {
            questions += 1;
            if let Some(range) = choose(all, number, free, &entries) {
                let first = all[range.start].instruction.ip();
                let end = all[range.end - 1].instruction.next_ip();
                windows.push(Window {
                    stated: first,
                    len: end - first,
                });
                free = range.end;
            }
        }
    }
    Ok((windows, questions))
}

/// Adds where an instruction may lead.
fn entries_of(
    loader: &Module<'_>,
    function: &Range<u64>,
    i: &Instruction,
    entries: &mut BTreeSet<u64>,
) {
    match i.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch | FlowControl::Call => {
            entries.insert(i.near_branch_target());
        }
        _ => {}
    }
    if !i.is_ip_rel_memory_operand() {
        return;
    }
    // An address that is taken: of code, or of a table of distances to code.
    let table = i.ip_rel_memory_address();
    entries.insert(table);
    let mut at = table;
    while let Some(bytes) = loader
        .elf
        .bytes_at(at, 4)
        .and_then(|b| b.first_chunk::<4>())
    {
        let target = table.wrapping_add_signed(i32::from_le_bytes(*bytes).into());
        if !function.contains(&target) {
            break;
        }
        entries.insert(target);
        at += 4;
    }
}

/// The smallest window around a question, by the numbers of its instructions.
fn choose(
    all: &[Decoded<'_>],
    question: usize,
    free: usize,
    entries: &BTreeSet<u64>,
) -> Option<Range<usize>> {
    let mut best: Option<Range<usize>> = None;
    for before in 0..=NEIGHBOURS {
        for behind in 0..=NEIGHBOURS {
            let Some(start) = question.checked_sub(before).filter(|&s| s >= free) else {
                continue;
            };
            let end = question + behind + 1;
            let Some(inside) = all.get(start..end) else {
                continue;
            };
            let len: usize = inside.iter().map(|d| d.bytes.len()).sum();
            let moves = inside.iter().enumerate().all(|(number, decoded)| {
                let i = &decoded.instruction;
                let asks = i.code() == Code::Cpuid;
                let entered = number > 0 && entries.contains(&i.ip());
                asks == (start + number == question) && can_move(i) && !entered
            });
            let smaller = best.as_ref().is_none_or(|b| end - start < b.len());
            if len >= JUMP && moves && smaller {
                best = Some(start..end);
            }
        }
    }
    best
}

/// Whether an instruction does the same elsewhere; a distance from the instruction pointer can be changed.
fn can_move(i: &Instruction) -> bool {
    i.code() == Code::Cpuid || i.flow_control() == FlowControl::Next
}

/// The instructions of a window for the address `at`, with a call of `answer` in place of the question.
pub(crate) fn moved(
    loader: &Module<'_>,
    window: &Window,
    base: u64,
    mut at: u64,
    answer: u64,
) -> Option<Vec<u8>> {
    let bytes = loader.elf.bytes_at(window.stated, window.len as usize)?;
    let mut stub = Vec::new();
    for decoded in decode(bytes, window.stated + base)? {
        let (instruction, own) = (decoded.instruction, decoded.bytes);
        let begin = stub.len();
        if instruction.code() == Code::Cpuid {
            stub.extend(BELOW);
            let next = at + BELOW.len() as u64 + JUMP as u64;
            stub.push(0xe8); // call
            stub.extend((answer.wrapping_sub(next) as u32).to_le_bytes());
            stub.extend(ABOVE);
        } else {
            stub.extend(own);
            if instruction.is_ip_rel_memory_operand() {
                let next = at + own.len() as u64;
                let distance = instruction.ip_rel_memory_address().wrapping_sub(next) as u32;
                let offset = begin + decoded.distance.start;
                stub.get_mut(offset..offset + 4)?
                    .copy_from_slice(&distance.to_le_bytes());
            }
        }
        at += (stub.len() - begin) as u64;
    }
    stub.push(0xe9); // jmp back
    let back = window.stated + base + window.len;
    stub.extend((back.wrapping_sub(at + JUMP as u64) as u32).to_le_bytes());
    Some(stub)
}

/// lea rsp, [rsp - 128]: a function may keep variables below its stack pointer.
pub(crate) const BELOW: [u8; 5] = [0x48, 0x8d, 0x64, 0x24, 0x80];
/// lea rsp, [rsp + 128]
pub(crate) const ABOVE: [u8; 8] = [0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00];
