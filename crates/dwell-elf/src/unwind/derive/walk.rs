//! Follows code along all of its branches.
use super::super::convert::Place;
use super::entries::Entries;
use super::frame::Frame;
use super::pieces::Pieces;
use super::{Code, jump_table};
use crate::ElfFile;
use iced_x86::{FlowControl, Instruction, Mnemonic, OpKind};
use std::ops::Range;

/// Addresses that a function took, kept to find the tables of its switches.
const MAX_BASES: usize = 16;

/// An instruction that was reached.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reached {
    /// Stated address.
    pub address: u64,
    /// Length in bytes.
    pub len: u8,
    /// What holds before it.
    pub place: Place,
}

/// Every instruction of `codes` that was reached, in the order of addresses.
pub(super) fn reached(file: &ElfFile<'_>, codes: &[Code<'_>], entries: &Entries) -> Vec<Reached> {
    let pieces = Pieces::new(codes);
    let table_budget = pieces.len();
    let mut walk = Walk {
        file,
        entries,
        pieces,
        reached: Vec::new(),
        pending: Vec::new(),
        bases: Vec::new(),
        compared: None,
        unresolved: None,
        is_broken: false,
        table_budget,
    };
    walk.all();
    walk.reached.sort_unstable_by_key(|reached| reached.address);
    walk.reached
}

struct Walk<'a, 'data> {
    file: &'a ElfFile<'data>,
    entries: &'a Entries,
    pieces: Pieces<'data>,
    reached: Vec<Reached>,
    pending: Vec<(u64, Frame)>,
    bases: Vec<u64>,
    /// How many cases the last comparison with a constant allows.
    compared: Option<u32>,
    /// Last frame at an indirect jump whose targets were not found.
    unresolved: Option<Frame>,
    /// Whether something was reached that no program executes.
    is_broken: bool,
    /// What may still be spent on jump tables: hostile code could share one among all of its jumps.
    table_budget: usize,
}

impl Walk<'_, '_> {
    /// Every known function first, then what is left between them.
    fn all(&mut self) {
        let entries = self.entries.all();
        let mut unresolved = Vec::with_capacity(entries.len());
        for &entry in entries {
            let frame = if self.entries.program == Some(entry) {
                Frame::OUTERMOST
            } else {
                Frame::ENTRY
            };
            self.function(entry, frame);
            unresolved.push(self.unresolved.take());
        }
        let first = entries.first().copied().unwrap_or(u64::MAX);
        self.leftovers(0..first, None);
        for (i, &entry) in entries.iter().enumerate() {
            let next = entries.get(i + 1).copied().unwrap_or(u64::MAX);
            self.leftovers(entry..next, unresolved[i]);
        }
    }

    /// Follows code from `entry` and everything it leads to within the function.
    fn function(&mut self, entry: u64, frame: Frame) {
        self.bases.clear();
        self.unresolved = None;
        let function = self.entries.function_at(entry);
        self.pending.push((entry, frame));
        while let Some((address, frame)) = self.pending.pop() {
            self.straight(address, frame, &function);
        }
    }

    /// Follows instructions one after the other until control leaves for good.
    fn straight(&mut self, start: u64, mut frame: Frame, function: &Range<u64>) {
        let Some(mut at) = self.pieces.position(start) else {
            return;
        };
        let mut instruction = Instruction::default();
        let mut address = start;
        self.compared = None;
        loop {
            let Some(next) = self.pieces.decode(at, &mut instruction) else {
                return;
            };
            if is_no_program(&instruction) {
                self.is_broken = true;
                return;
            }
            self.reached.push(Reached {
                address,
                len: instruction.len() as u8,
                place: frame.place(),
            });
            self.remember(&instruction);
            if !self.branch(&instruction, frame, function) {
                return;
            }
            frame = frame.after(&instruction);
            (at, address) = (next, instruction.next_ip());
            if self.entries.contains(address) {
                return;
            }
        }
    }

    /// Keeps what a later indirect jump needs to find its table.
    fn remember(&mut self, instruction: &Instruction) {
        if instruction.mnemonic() == Mnemonic::Cmp && instruction.op0_kind() == OpKind::Register {
            let is_immediate = !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
            self.compared =
                is_immediate.then(|| (instruction.immediate(1) as u32).saturating_add(1));
        }
        if instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand() {
            if self.bases.len() == MAX_BASES {
                self.bases.remove(0);
            }
            self.bases.push(instruction.ip_rel_memory_address());
        }
    }

    /// Notes where an instruction may jump to; false when the next one does not follow.
    fn branch(&mut self, instruction: &Instruction, frame: Frame, function: &Range<u64>) -> bool {
        match instruction.flow_control() {
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
                let target = instruction.near_branch_target();
                let is_tail_call = self.entries.contains(target);
                if instruction.op0_kind() == OpKind::NearBranch64
                    && self.pieces.contains(target)
                    && !is_tail_call
                {
                    self.pending.push((target, frame));
                }
                instruction.flow_control() == FlowControl::ConditionalBranch
            }
            FlowControl::IndirectBranch => {
                let targets = self.jump_targets(instruction, function);
                if targets.is_empty() {
                    self.unresolved = Some(frame);
                }
                self.pending
                    .extend(targets.into_iter().map(|target| (target, frame)));
                false
            }
            FlowControl::Return | FlowControl::Exception => false,
            FlowControl::Interrupt => instruction.mnemonic() != Mnemonic::Int3,
            // `hlt` ends a program start; it never continues in user space.
            _ => instruction.mnemonic() != Mnemonic::Hlt,
        }
    }

    fn jump_targets(&mut self, jump: &Instruction, function: &Range<u64>) -> Vec<u64> {
        let cost = 1 + self.bases.len();
        if self.table_budget < cost {
            return Vec::new();
        }
        let is_target = |address: u64, is_bounded: bool| {
            // A table of known length may lead to the function's cold part, which can be anywhere.
            let is_near =
                function.contains(&address) || is_bounded && !self.entries.contains(address);
            is_near && self.pieces.contains(address)
        };
        let targets = jump_table::targets(
            self.file,
            self.entries,
            jump,
            &self.bases,
            self.compared,
            &is_target,
        );
        self.table_budget = self.table_budget.saturating_sub(cost + targets.len());
        targets
    }

    /// Code in `range` that nothing known leads to. The cases of a switch whose table was not found
    /// continue with its frame, anything else is a function that only pointers lead to.
    fn leftovers(&mut self, mut range: Range<u64>, unresolved: Option<Frame>) {
        while let Some((start, bytes)) = self.pieces.next_left(&range) {
            let before = start
                .checked_sub(5)
                .and_then(|at| self.file.bytes_at(at, 5));
            let frame = unresolved.unwrap_or(first_frame(bytes));
            self.leftover(start, frame.behind(before.unwrap_or_default()));
            range.start = start + 1;
        }
    }

    /// Follows code that may turn out to be data: it is taken back when it leads to what cannot be
    /// an instruction of a program.
    fn leftover(&mut self, start: u64, frame: Frame) {
        let before = self.reached.len();
        self.is_broken = false;
        self.function(start, frame);
        if self.is_broken {
            self.reached.truncate(before);
        }
    }
}

/// What only data, or a walk that has lost the thread, leads to.
fn is_no_program(instruction: &Instruction) -> bool {
    instruction.is_invalid()
        || instruction.is_privileged() && instruction.mnemonic() != Mnemonic::Hlt
}

/// `push disp32(%rip); jmp *disp32(%rip)`: the PLT's common part, which stubs jump to.
fn first_frame(bytes: &[u8]) -> Frame {
    match bytes {
        [0xff, 0x35, _, _, _, _, 0xff, 0x25, ..] => Frame::PLT_HEADER,
        _ => Frame::ENTRY,
    }
}
