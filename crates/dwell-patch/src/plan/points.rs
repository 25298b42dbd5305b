//! A wanted place as instructions of its function.
use super::{Function, Image, Place, Refusal, Request};
use iced_x86::{FlowControl, Instruction, Mnemonic};

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
        Place::Entry => vec![entry(&instructions)?],
        Place::Offset(offset) => {
            let address = function.start + u64::from(offset);
            let index = instructions.binary_search_by_key(&address, Instruction::ip);
            vec![index.map_err(|_| Refusal::NotAnInstruction)?]
        }
        Place::Returns => returns(image, function, &instructions)?,
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
