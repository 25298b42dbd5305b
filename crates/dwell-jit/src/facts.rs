//! What is to be known of a program before its first instruction is translated.
use crate::frame::{Frame, Words};
use crate::translate::{CONTEXT, Links, STACK_END, TranslateError};
use dwell_abi::program::instruction::{LOAD_64, REGISTER, STORE, Width, class};
use dwell_abi::program::{Instruction, operation};

pub(crate) struct Facts {
    /// Register 6 has the context from the start to the end.
    pub(crate) has_context: bool,
    /// Bytes of the stack that it may use.
    pub(crate) stack: i32,
    /// All registers are saved where the context has them, since more than single ones are read there.
    pub(crate) needs_all: bool,
    /// Bytes of the longest value of its sums, if it has some that a thread may have for itself.
    pub(crate) sum_len: Option<i32>,
    /// What it is to remember.
    pub(crate) words: Words,
    /// Whether a jump leads to the instruction.
    is_target: Vec<bool>,
}

impl Facts {
    pub(crate) fn of(
        program: &[Instruction],
        frame: Frame,
        links: &dyn Links,
    ) -> Result<Self, TranslateError> {
        let has_context = matches!(frame, Frame::Probe { .. });
        if has_context && !keeps_context(program) {
            return Err(TranslateError::Instruction(0));
        }
        let reads_part = |i: &Instruction| {
            let is_read = i.opcode & 7 == class::LDX && i.src == CONTEXT;
            is_read && (Width::from_opcode(i.opcode).bytes() != 8 || i.offset % 8 != 0)
        };
        let hands_on = program.contains(&Instruction::call(operation::STACK));
        let stores = program.iter().filter(|i| is_store(i));
        let sums = stores.filter_map(|i| links.sums(i.imm as u32));
        let longest = sums.map(|s| s.value).max();
        let is_inlined = has_context && links.nearby().is_some();
        let sum_len = longest.filter(|_| is_inlined);
        let asks = Instruction::call(operation::THREAD);
        let words = Words {
            has_own: sum_len.is_some(),
            has_thread: is_inlined && program.iter().filter(|i| **i == asks).count() > 1,
        };
        Ok(Facts {
            has_context,
            stack: stack_used(program),
            needs_all: has_context && (hands_on || program.iter().any(reads_part)),
            sum_len,
            words,
            is_target: targets(program),
        })
    }

    /// The store that register 1 has at a call, if that is plain.
    pub(crate) fn store_at_call(&self, program: &[Instruction], call: usize) -> Option<u32> {
        let mut at = call;
        while !self.is_target[at] && at >= 2 {
            let (before, i) = (program[at - 2], program[at - 1]);
            if before.opcode == LOAD_64 {
                if before.dst == 1 {
                    return is_store(&before).then_some(before.imm as u32);
                }
                at -= 2;
                continue;
            }
            let is_plain = matches!(i.opcode & 7, class::ALU64 | class::ALU32 | class::LDX);
            if !is_plain || i.dst == 1 {
                return None;
            }
            at -= 1;
        }
        None
    }
}

fn is_store(i: &Instruction) -> bool {
    i.opcode == LOAD_64 && i.src == STORE
}

/// Whether the first instruction makes register 6 the context, and no other changes it.
fn keeps_context(program: &[Instruction]) -> bool {
    program.first().is_some_and(|first| {
        first.opcode == class::ALU64 | 0xb0 | REGISTER
            && first.dst == CONTEXT
            && first.src == 1
            && !program[1..].iter().any(|i| writes(*i, CONTEXT))
    })
}

fn targets(program: &[Instruction]) -> Vec<bool> {
    let mut is_target = vec![false; program.len()];
    for (at, i) in program.iter().enumerate() {
        let target = (at + 1).checked_add_signed(isize::from(i.offset));
        let target = target.filter(|_| i.opcode & 7 == class::JMP);
        if let Some(target) = target.and_then(|t| is_target.get_mut(t)) {
            *target = true;
        }
    }
    is_target
}

/// The lowest place that is reached from the end of the stack. An address may be made in two steps only: the end,
/// and a distance added.
fn stack_used(program: &[Instruction]) -> i32 {
    let mut lowest = 0;
    for (at, i) in program.iter().enumerate() {
        let is_load = i.opcode & 7 == class::LDX;
        let is_store = matches!(i.opcode & 7, class::ST | class::STX);
        if is_load && i.src == STACK_END || is_store && i.dst == STACK_END {
            lowest = lowest.min(i32::from(i.offset));
        }
        let copies = i.opcode == class::ALU64 | 0xb0 | REGISTER && i.src == STACK_END;
        if copies {
            let next = program.get(at + 1);
            let adds = |n: &&Instruction| n.opcode == class::ALU64 && n.dst == i.dst;
            let distance = next.filter(adds).map(|n| n.imm);
            lowest = lowest.min(distance.unwrap_or(-(dwell_abi::program::STACK_SIZE as i32)));
        }
    }
    (-lowest + 7) & !7
}

/// Whether an instruction changes a register of 6 to 9.
fn writes(i: Instruction, register: u8) -> bool {
    use dwell_abi::program::instruction::{ATOMIC, atomic};
    match i.opcode & 7 {
        class::ALU64 | class::ALU32 | class::LDX => i.dst == register,
        class::LD => i.opcode == LOAD_64 && i.dst == register,
        class::STX => i.opcode & 0xe0 == ATOMIC && i.imm == atomic::FETCH_ADD && i.src == register,
        _ => false,
    }
}
