//! Follows a piece of code along all of its branches.
use super::super::convert::Place;
use super::entries::Entries;
use super::frame::Frame;
use super::{Code, jump_table};
use crate::ElfFile;
use crate::unwind::gaps::padding;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind};
use std::ops::Range;

/// Addresses that a function took, kept to find the tables of its switches.
const MAX_BASES: usize = 16;

/// Every instruction that was reached: stated address, length in bytes, what holds there; sorted.
pub(super) fn places(file: &ElfFile<'_>, code: &Code<'_>, entries: &Entries) -> Vec<(u64, u8, Place)> {
    let mut walk = Walk::new(file, code, entries);
    let mut ends = Vec::new();
    for &entry in entries.within(code) {
        let frame = if entries.program == Some(entry) { Frame::OUTERMOST } else { Frame::ENTRY };
        walk.function(entry, frame);
        ends.push((entry, walk.unresolved.take()));
    }
    walk.all_leftovers(&ends);
    walk.places.sort_unstable_by_key(|(address, ..)| *address);
    walk.places
}

struct Walk<'a, 'data> {
    file: &'a ElfFile<'data>,
    code: &'a Code<'data>,
    entries: &'a Entries,
    decoder: Decoder<'data>,
    /// By byte: whether an instruction that was reached begins here or covers it.
    reached: Vec<bool>,
    places: Vec<(u64, u8, Place)>,
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

impl<'a, 'data> Walk<'a, 'data> {
    fn new(file: &'a ElfFile<'data>, code: &'a Code<'data>, entries: &'a Entries) -> Self {
        Walk {
            file,
            code,
            entries,
            decoder: Decoder::with_ip(64, code.bytes, code.start, DecoderOptions::NONE),
            reached: vec![false; code.bytes.len()],
            places: Vec::new(),
            pending: Vec::new(),
            bases: Vec::new(),
            compared: None,
            unresolved: None,
            is_broken: false,
            table_budget: code.bytes.len(),
        }
    }

    fn is_reached(&self, address: u64) -> bool {
        self.reached[(address - self.code.start) as usize]
    }

    fn function(&mut self, entry: u64, frame: Frame) {
        self.bases.clear();
        self.unresolved = None;
        self.block(entry, frame, entry);
    }

    /// Follows code from `start` and everything it leads to within the function at `entry`.
    fn block(&mut self, start: u64, frame: Frame, entry: u64) {
        let within = self.entries.within(self.code);
        let next = within.get(within.partition_point(|&a| a <= entry));
        let function = entry..next.copied().unwrap_or(self.code.end());
        self.pending.push((start, frame));
        while let Some((address, frame)) = self.pending.pop() {
            self.straight(address, frame, &function);
        }
    }

    /// Follows instructions one after the other until control leaves for good.
    fn straight(&mut self, mut address: u64, mut frame: Frame, function: &Range<u64>) {
        let mut instruction = Instruction::default();
        let first = address;
        self.compared = None;
        loop {
            let is_next_function = address != first && self.entries.contains(address);
            if !self.code.contains(address) || self.is_reached(address) || is_next_function {
                return;
            }
            let offset = (address - self.code.start) as usize;
            if self.decoder.set_position(offset).is_err() {
                return;
            }
            self.decoder.set_ip(address);
            self.decoder.decode_out(&mut instruction);
            if instruction.is_invalid() || instruction.is_privileged() && instruction.mnemonic() != Mnemonic::Hlt {
                self.is_broken = true;
                return;
            }
            self.reached[offset..offset + instruction.len()].fill(true);
            self.places.push((address, instruction.len() as u8, frame.place()));
            self.remember(&instruction);
            if !self.branch(&instruction, frame, function) {
                return;
            }
            frame = frame.after(&instruction);
            address = instruction.next_ip();
        }
    }

    /// Keeps what a later indirect jump needs to find its table.
    fn remember(&mut self, instruction: &Instruction) {
        if instruction.mnemonic() == Mnemonic::Cmp && instruction.op0_kind() == OpKind::Register {
            let is_immediate = !matches!(instruction.op1_kind(), OpKind::Register | OpKind::Memory);
            self.compared = is_immediate.then(|| (instruction.immediate(1) as u32).saturating_add(1));
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
                if instruction.op0_kind() == OpKind::NearBranch64 && self.code.contains(target) && !is_tail_call {
                    self.pending.push((target, frame));
                }
                instruction.flow_control() == FlowControl::ConditionalBranch
            }
            FlowControl::IndirectBranch => {
                let targets = self.jump_targets(instruction, function);
                if targets.is_empty() {
                    self.unresolved = Some(frame);
                }
                self.pending.extend(targets.into_iter().map(|target| (target, frame)));
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
        let targets = jump_table::targets(
            self.file,
            self.code,
            function,
            jump,
            &self.bases,
            self.entries,
            self.compared,
        );
        self.table_budget = self.table_budget.saturating_sub(cost + targets.len());
        targets
    }

    /// Code that nothing known leads to, between the entries. `ends` tells for each function whether
    /// it has a jump whose targets were not found.
    fn all_leftovers(&mut self, ends: &[(u64, Option<Frame>)]) {
        let mut start = self.code.start;
        let mut unresolved = None;
        for &(entry, next_unresolved) in ends {
            self.leftovers(start..entry, unresolved);
            (start, unresolved) = (entry, next_unresolved);
        }
        self.leftovers(start..self.code.end(), unresolved);
    }

    /// The cases of a switch whose table was not found continue with its frame, anything else is a
    /// function that only pointers lead to.
    fn leftovers(&mut self, range: Range<u64>, unresolved: Option<Frame>) {
        let mut at = range.start;
        while at < range.end {
            let offset = (at - self.code.start) as usize;
            if self.reached[offset] {
                at += 1;
                continue;
            }
            let skip = padding(&self.code.bytes[offset..]);
            if skip > 0 {
                at += skip as u64;
                continue;
            }
            self.leftover(at, unresolved.unwrap_or(first_frame(&self.code.bytes[offset..])));
            at += 1;
        }
    }
}

impl Walk<'_, '_> {
    /// Follows code that may turn out to be data: it is taken back when it leads to what cannot be
    /// an instruction of a program.
    fn leftover(&mut self, start: u64, frame: Frame) {
        let before = self.places.len();
        self.is_broken = false;
        self.bases.clear();
        self.block(start, frame, start);
        if self.is_broken {
            self.places.truncate(before);
        }
    }
}

/// `push disp32(%rip); jmp *disp32(%rip)`: the PLT's common part, which stubs jump to.
fn first_frame(bytes: &[u8]) -> Frame {
    match bytes {
        [0xff, 0x35, _, _, _, _, 0xff, 0x25, ..] => Frame::PLT_HEADER,
        _ => Frame::ENTRY,
    }
}
