//! A function's instructions and the edges between them.
use crate::loops::{Loop, Loops};
use iced_x86::{
    ConditionCode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
};
use std::cell::OnceCell;

/// Longest function that is decoded, bytes: the largest of interpreters have a tenth of it.
const MAX_BYTES: usize = 1 << 20;

/// Where control may go after an instruction, within its function.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Successors {
    /// The instruction behind it.
    pub next: Option<u32>,
    /// The target of its jump.
    pub jump: Option<u32>,
}

impl Successors {
    pub fn iter(self) -> impl DoubleEndedIterator<Item = usize> {
        [self.next, self.jump]
            .into_iter()
            .flatten()
            .map(|n| n as usize)
    }
}

/// A register that has a known value on one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Equal {
    /// The instruction that the way leads to.
    pub on: usize,
    pub register: Register,
    pub number: i64,
}

/// A function, decoded.
pub struct Function {
    instructions: Vec<Instruction>,
    successors: Vec<Successors>,
    /// Predecessors of instruction `i`: `predecessors[first_predecessor[i]..first_predecessor[i + 1]]`.
    predecessors: Vec<u32>,
    first_predecessor: Vec<u32>,
    /// Whether rbp points to the function's frame.
    frame_pointer: bool,
    /// Smallest first; found when first asked for.
    loops: OnceCell<Loops>,
}

impl Function {
    /// Decodes the function whose first byte is at `start`. None when it has no bytes or more than a
    /// mebibyte of them.
    pub fn decode(start: u64, bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || bytes.len() > MAX_BYTES {
            return None;
        }
        let instructions: Vec<_> = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
            .into_iter()
            .collect();
        let mut function = Function {
            frame_pointer: instructions.iter().any(sets_frame_pointer),
            successors: Vec::with_capacity(instructions.len()),
            instructions,
            predecessors: Vec::new(),
            first_predecessor: Vec::new(),
            loops: OnceCell::new(),
        };
        for i in 0..function.instructions.len() {
            let successors = function.successors_of(i);
            function.successors.push(successors);
        }
        function.cut_padding();
        function.connect_back();
        Some(function)
    }

    /// Number of instructions.
    pub(crate) fn len(&self) -> usize {
        self.instructions.len()
    }

    pub(crate) fn instruction(&self, i: usize) -> &Instruction {
        &self.instructions[i]
    }

    /// Address of its first instruction.
    pub(crate) fn start(&self) -> u64 {
        self.instructions[0].ip()
    }

    /// Addresses of all instructions.
    pub fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.instructions.iter().map(Instruction::ip)
    }

    pub(crate) fn successors(&self, i: usize) -> Successors {
        self.successors[i]
    }

    pub(crate) fn predecessors(&self, i: usize) -> impl ExactSizeIterator<Item = usize> + '_ {
        let range = self.first_predecessor[i] as usize..self.first_predecessor[i + 1] as usize;
        self.predecessors[range].iter().map(|&p| p as usize)
    }

    /// What is known on the way that the branch `i` takes where a comparison with a constant, made
    /// just before, found equality.
    pub(crate) fn equal_on(&self, i: usize) -> Option<Equal> {
        let on = match self.instructions[i].condition_code() {
            _ if !self.instructions[i].is_jcc_short_or_near() => return None,
            ConditionCode::e => self.successors[i].jump?,
            ConditionCode::ne => self.successors[i].next?,
            _ => return None,
        };
        let comparison = &self.instructions[i.checked_sub(1)?];
        if self.predecessors(i).ne([i - 1]) || comparison.op0_kind() != OpKind::Register {
            return None;
        }
        let register = comparison.op0_register();
        let number = match (comparison.mnemonic(), comparison.op1_kind()) {
            (Mnemonic::Test, OpKind::Register) if comparison.op1_register() == register => 0,
            (Mnemonic::Cmp, kind) if !matches!(kind, OpKind::Register | OpKind::Memory) => {
                comparison.try_immediate(1).ok()? as i64
            }
            _ => return None,
        };
        // A part of a register leaves the rest unknown.
        (register.size() >= 4).then_some(Equal {
            on: on as usize,
            register,
            number,
        })
    }

    /// Its natural loops, smallest first.
    pub(crate) fn loops(&self) -> &[Loop] {
        &self.found_loops().loops
    }

    /// Where edges that go back to `header` come from.
    pub(crate) fn back_edges_to(&self, header: usize) -> impl Iterator<Item = usize> + '_ {
        let edges = &self.found_loops().back_edges;
        let first = edges.partition_point(|e| e.0 < header);
        edges[first..]
            .iter()
            .take_while(move |e| e.0 == header)
            .map(|e| e.1)
    }

    fn found_loops(&self) -> &Loops {
        self.loops.get_or_init(|| Loops::of(self))
    }

    pub(crate) fn has_frame_pointer(&self) -> bool {
        self.frame_pointer
    }

    /// The instruction at `address`, which is its first byte, or a byte of a call: callers are known
    /// by the byte before the address they return to.
    pub(crate) fn at(&self, address: u64) -> Option<usize> {
        let i = self
            .instructions
            .partition_point(|x| x.ip() <= address)
            .checked_sub(1)?;
        let found = &self.instructions[i];
        let is_call = matches!(
            found.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall
        );
        (found.ip() == address || is_call && address < found.next_ip()).then_some(i)
    }

    fn starts_at(&self, address: u64) -> Option<u32> {
        let found = self
            .instructions
            .binary_search_by_key(&address, Instruction::ip);
        found.ok().map(|i| i as u32)
    }

    fn successors_of(&self, i: usize) -> Successors {
        let instruction = &self.instructions[i];
        let next = (i + 1 < self.instructions.len()).then_some(i as u32 + 1);
        let jump = match instruction.op0_kind() {
            OpKind::NearBranch64 => self.starts_at(instruction.near_branch_target()),
            _ => None,
        };
        match instruction.flow_control() {
            _ if instruction.is_invalid() => Successors::default(),
            FlowControl::ConditionalBranch => Successors { next, jump },
            FlowControl::UnconditionalBranch => Successors { next: None, jump },
            FlowControl::IndirectBranch | FlowControl::Return | FlowControl::Exception => {
                Successors::default()
            }
            FlowControl::Interrupt if instruction.mnemonic() == Mnemonic::Int3 => {
                Successors::default()
            }
            _ => Successors { next, jump: None },
        }
    }

    /// Padding behind a jump leads nowhere: it would look like a way in from nowhere.
    fn cut_padding(&mut self) {
        let mut reached = vec![false; self.len()];
        reached
            .first_mut()
            .into_iter()
            .for_each(|entry| *entry = true);
        let jumps = self.successors.iter().filter_map(|s| s.jump);
        jumps.for_each(|target| reached[target as usize] = true);
        for i in 0..self.len() {
            let is_padding = self.instructions[i].mnemonic() == Mnemonic::Nop && !reached[i];
            match self.successors[i].next {
                _ if is_padding => self.successors[i] = Successors::default(),
                Some(next) => reached[next as usize] = true,
                None => {}
            }
        }
    }

    fn connect_back(&mut self) {
        let edges = || {
            let all = self.successors.iter().zip(0u32..);
            // A branch to the next instruction is one way, not two.
            let once = |(s, from): (&Successors, u32)| {
                let jump = s.jump.filter(|jump| Some(*jump) != s.next);
                [s.next, jump]
                    .into_iter()
                    .flatten()
                    .map(move |to| (to, from))
            };
            all.flat_map(once)
        };
        let mut first = vec![0; self.len() + 1];
        edges().for_each(|(to, _)| first[to as usize + 1] += 1);
        for i in 0..self.len() {
            first[i + 1] += first[i];
        }
        let mut predecessors = vec![0; first[self.len()] as usize];
        let mut place = first.clone();
        for (to, from) in edges() {
            let place = &mut place[to as usize];
            predecessors[*place as usize] = from;
            *place += 1;
        }
        self.first_predecessor = first;
        self.predecessors = predecessors;
    }
}

/// `mov %rsp,%rbp`, or `lea disp(%rsp),%rbp`.
fn sets_frame_pointer(instruction: &Instruction) -> bool {
    let to_rbp =
        instruction.op0_kind() == OpKind::Register && instruction.op0_register() == Register::RBP;
    to_rbp
        && match instruction.mnemonic() {
            Mnemonic::Mov => {
                instruction.op1_kind() == OpKind::Register
                    && instruction.op1_register() == Register::RSP
            }
            Mnemonic::Lea => instruction.memory_base() == Register::RSP,
            _ => false,
        }
}
