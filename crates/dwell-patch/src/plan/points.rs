//! A wanted place as instructions of its function.
use super::{Function, Image, Place, Refusal, Request};
use dwell_agent::layout::JUMP_LEN;
use iced_x86::{
    FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};
use std::collections::BTreeSet;

/// Functions that one leads to by jumps at most: more than real ones do.
const MAX_PARTS: usize = 64;

/// The instructions of a function and which of them are wanted.
pub(super) struct Points {
    pub instructions: Vec<Instruction>,
    /// Indices of `instructions`.
    pub wanted: Vec<usize>,
    pub place: Place,
}

pub(super) fn of(image: &Image<'_>, request: Request) -> Result<(Function, Points), Refusal> {
    let function = image.function(request.function)?;
    let instructions = image.decode(function)?;
    let wanted = match request.place {
        Place::Entry | Place::Head => vec![entry(&instructions)?],
        Place::Offset(offset) => {
            let address = function.start + u64::from(offset);
            let index = instructions.binary_search_by_key(&address, Instruction::ip);
            vec![index.map_err(|_| Refusal::NotAnInstruction)?]
        }
        Place::Returns => returns(image, function, &instructions)?,
        Place::Rets => rets(image, function, &instructions)?,
    };
    let place = request.place;
    Ok((
        function,
        Points {
            instructions,
            wanted,
            place,
        },
    ))
}

/// Stated addresses of the functions in which a call of `function` may return: itself, and those that
/// it leads to by jumps. Other calls may return there as well.
pub fn parts(image: &Image<'_>, function: u64) -> Vec<u64> {
    let mut found = BTreeSet::new();
    let mut pending = vec![function];
    while let Some(start) = pending.pop() {
        if found.len() == MAX_PARTS || !found.insert(start) {
            continue;
        }
        let Ok(part) = image.function(start) else {
            continue;
        };
        let instructions = image.decode(part).unwrap_or_default();
        let targets = leaving(part, &instructions).filter_map(|t| image.function_around(t).ok());
        pending.extend(targets.map(|f| f.start));
    }
    found.into_iter().collect()
}

/// Whether a function is seen to have its first argument in rdi still when it returns: it calls nothing,
/// and none of its instructions writes there.
pub fn keeps_first_argument(image: &Image<'_>, function: u64) -> bool {
    let mut uses = InstructionInfoFactory::new();
    let mut keeps = |instruction: &Instruction| {
        let goes_elsewhere = matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall | FlowControl::IndirectBranch
        );
        let used = uses.info(instruction).used_registers();
        let writes = used.iter().any(|u| {
            u.register().full_register() == Register::RDI
                && !matches!(u.access(), OpAccess::Read | OpAccess::CondRead)
        });
        !goes_elsewhere && !writes
    };
    parts(image, function).into_iter().all(|part| {
        let code = image.function(part).and_then(|f| image.decode(f));
        code.is_ok_and(|code| code.iter().all(&mut keeps))
    })
}

/// Whether a function begins a hardware transaction.
pub fn begins_transaction(image: &Image<'_>, function: u64) -> bool {
    let code = image.function(function).and_then(|f| image.decode(f));
    code.is_ok_and(|code| code.iter().any(|i| i.mnemonic() == Mnemonic::Xbegin))
}

/// Where the function's own jumps lead into the bytes at its entry: how many bytes from its start the first
/// instruction is that can be overwritten instead and that every call passes, maybe more than once. None where
/// the stack, or the first argument in rdi, is another by then.
pub fn past_entry(image: &Image<'_>, function: u64) -> Option<u32> {
    let function = image.function(function).ok()?;
    let code = image.decode(function).ok()?;
    let targets: Vec<u64> = code
        .iter()
        .filter(|i| i.op_count() == 1 && i.op0_kind() == OpKind::NearBranch64)
        .map(Instruction::near_branch_target)
        .collect();
    let mut uses = InstructionInfoFactory::new();
    let mut changes = |instruction: &Instruction| {
        let used = uses.info(instruction).used_registers();
        instruction.flow_control() != FlowControl::Next
            || used.iter().any(|u| {
                matches!(u.register().full_register(), Register::RDI | Register::RSP)
                    && !matches!(u.access(), OpAccess::Read | OpAccess::CondRead)
            })
    };
    let start = entry(&code).ok()?;
    for (index, first) in code.iter().enumerate().skip(start) {
        let rest = code[index..].iter();
        let end = rest
            .map(Instruction::next_ip)
            .find(|end| end - first.ip() >= JUMP_LEN as u64)?;
        if !targets.iter().any(|t| (first.ip() + 1..end).contains(t)) {
            return (index > start).then(|| (first.ip() - function.start) as u32);
        }
        if changes(first) {
            return None;
        }
    }
    None
}

/// Where the direct jumps of a function lead that leave it.
fn leaving(function: Function, instructions: &[Instruction]) -> impl Iterator<Item = u64> {
    let jumps = instructions.iter().filter(|i| {
        matches!(
            i.flow_control(),
            FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
        )
    });
    jumps
        .map(Instruction::near_branch_target)
        .filter(move |target| !(function.start..function.end).contains(target))
}

/// The `ret`s of a function; refused where it may end in a place that is not known.
fn rets(
    image: &Image<'_>,
    function: Function,
    instructions: &[Instruction],
) -> Result<Vec<usize>, Refusal> {
    for target in leaving(function, instructions) {
        image.function_around(target)?;
    }
    let mut found = Vec::new();
    for (index, instruction) in instructions.iter().enumerate() {
        match instruction.flow_control() {
            FlowControl::Return => found.push(index),
            FlowControl::IndirectBranch if !is_switch(instructions, index) => {
                return Err(Refusal::IndirectJump);
            }
            _ => {}
        }
    }
    Ok(found)
}

/// The first instruction that may be replaced: indirect calls must still find the `endbr64`.
fn entry(instructions: &[Instruction]) -> Result<usize, Refusal> {
    let index = usize::from(
        instructions
            .first()
            .is_some_and(|i| i.mnemonic() == Mnemonic::Endbr64),
    );
    match index < instructions.len() {
        true => Ok(index),
        false => Err(Refusal::TooShort),
    }
}

fn returns(
    image: &Image<'_>,
    function: Function,
    instructions: &[Instruction],
) -> Result<Vec<usize>, Refusal> {
    let inside = function.start..function.end;
    let mut found = Vec::new();
    for (index, instruction) in instructions.iter().enumerate() {
        match instruction.flow_control() {
            FlowControl::Return => found.push(index),
            branch @ (FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch) => {
                let leaves = image.leaves(&inside, instruction.near_branch_target())?;
                match branch {
                    FlowControl::ConditionalBranch if leaves => {
                        return Err(Refusal::ConditionalTail);
                    }
                    _ if leaves => found.push(index),
                    _ => {}
                }
            }
            FlowControl::IndirectBranch if !is_switch(instructions, index) => {
                return Err(Refusal::IndirectJump);
            }
            _ => {}
        }
    }
    match found.is_empty() {
        true => Err(Refusal::NoReturn),
        false => Ok(found),
    }
}

/// Whether an indirect jump dispatches a switch: the compiler computes its destination from a table
/// shortly before, by `add` (relative tables) or an indexed load (absolute ones). Anything else may be
/// a tail call through a pointer.
fn is_switch(instructions: &[Instruction], index: usize) -> bool {
    let jump = &instructions[index];
    if jump.op0_kind() == iced_x86::OpKind::Memory {
        return jump.memory_index() != iced_x86::Register::None && jump.memory_index_scale() == 8;
    }
    let register = jump.op0_register();
    let mut before = instructions[index.saturating_sub(4)..index].iter().rev();
    before.any(|i| {
        i.mnemonic() == Mnemonic::Add
            && i.op0_register() == register
            && i.op1_kind() == iced_x86::OpKind::Register
    })
}
