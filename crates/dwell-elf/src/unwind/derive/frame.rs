//! What an instruction does to the frame.
use super::super::convert::Place;
use super::system_call::SystemCall;
use dwell_abi::unwind::{KIND_BP, KIND_CLONE, KIND_END, KIND_NONE, KIND_SP};
use iced_x86::{Instruction, Mnemonic, OpKind, Register};

/// What is known about the frame before an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// CFA - rsp; none once that depends on the input.
    height: Option<i32>,
    bp: Bp,
    /// Where the caller's rbp was pushed, relative to the CFA.
    saved_bp: Option<i32>,
    outermost: bool,
    system_call: SystemCall,
}

/// What rbp holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bp {
    /// The caller's value.
    Callers,
    /// CFA - this.
    BelowCfa(i32),
    /// Something else.
    Other,
}

impl Frame {
    /// At the first instruction of a function: only the return address has been pushed.
    pub const ENTRY: Frame = Frame {
        height: Some(8),
        bp: Bp::Callers,
        saved_bp: None,
        outermost: false,
        system_call: SystemCall::Unknown,
    };
    /// At the first instruction of a program, which nobody called.
    pub const OUTERMOST: Frame = Frame {
        outermost: true,
        ..Frame::ENTRY
    };
    /// At the start of the PLT's common part: a stub has pushed its number.
    pub const PLT_HEADER: Frame = Frame {
        height: Some(16),
        ..Frame::ENTRY
    };

    /// In the middle of a function, behind `before`: code that nobody described between code that is.
    pub fn behind(self, before: &[u8]) -> Self {
        Frame {
            system_call: SystemCall::behind(before),
            ..self
        }
    }

    /// The row that says this; [`KIND_NONE`] where the CFA is not known.
    pub fn place(&self) -> Place {
        if self.outermost {
            return Place::plain(KIND_END);
        }
        match self.try_place() {
            Some(place) if place.kind == KIND_SP && self.system_call.may_have_cloned() => Place {
                kind: KIND_CLONE,
                ..place
            },
            place => place.unwrap_or(Place::plain(KIND_NONE)),
        }
    }

    fn try_place(&self) -> Option<Place> {
        let bp_off8 = match self.saved_bp {
            Some(offset) => i8::try_from(eighth(offset)?).ok()?,
            None => 0,
        };
        let by_bp = match self.bp {
            Bp::BelowCfa(distance) => Some(distance),
            _ => None,
        };
        // A frame pointer as it is meant to be: what is pushed in a loop does not matter to it.
        let is_frame_pointer = self.saved_bp.is_some() && self.saved_bp == by_bp.map(|d| -d);
        match self.height.filter(|&h| h >= 8 && !is_frame_pointer) {
            Some(height) => Some(Place::sp(i16::try_from(eighth(height)?).ok()?, bp_off8)),
            None => Some(Place {
                cfa_off8: i16::try_from(eighth(by_bp?)?).ok()?,
                kind: KIND_BP,
                bp_off8,
            }),
        }
    }

    /// The frame after `instruction`, on the way to the next one.
    pub fn after(mut self, instruction: &Instruction) -> Self {
        self.system_call = self.system_call.after(instruction);
        match instruction.mnemonic() {
            Mnemonic::Push => self.push(instruction),
            Mnemonic::Pop => self.pop(instruction),
            Mnemonic::Leave => {
                self.height = self.height_at_bp(0);
                self.pop_bp();
            }
            Mnemonic::Mov => self.assign(instruction, 0),
            Mnemonic::Lea => self.assign(instruction, instruction.memory_displacement64() as i32),
            Mnemonic::Add | Mnemonic::Sub => self.add(instruction),
            Mnemonic::Xor if zeroes_bp(instruction) => self.zero_bp(),
            Mnemonic::Cmp | Mnemonic::Test | Mnemonic::Call | Mnemonic::Ret => {}
            Mnemonic::Xchg => self.forget_both(instruction),
            _ => self.other(instruction),
        }
        self
    }

    fn push(&mut self, instruction: &Instruction) {
        if self.is_return_address(instruction) {
            // It moves: from here on the frame is as at the entry.
            self.height = Some(8);
            return;
        }
        self.grow(-instruction.stack_pointer_increment());
        let saves = instruction.op0_kind() == OpKind::Register
            && instruction.op0_register() == Register::RBP;
        if saves && self.bp == Bp::Callers && self.saved_bp.is_none() {
            // Who took its return address away has put it back by then.
            let height = *self.height.get_or_insert(16);
            self.saved_bp = Some(-height);
        }
    }

    /// Whether a `push` has the return address, and rbp still is the caller's.
    fn is_return_address(&self, instruction: &Instruction) -> bool {
        let offset = instruction.memory_displacement64() as i32;
        instruction.op0_kind() == OpKind::Memory
            && instruction.memory_base() == Register::RSP
            && instruction.memory_index() == Register::None
            && self.bp == Bp::Callers
            && self.saved_bp.is_none()
            && self.height == offset.checked_add(8)
    }

    fn pop(&mut self, instruction: &Instruction) {
        match (instruction.op0_kind(), instruction.op0_register()) {
            (OpKind::Register, Register::RBP) => self.pop_bp(),
            (OpKind::Register, Register::RSP) => self.height = None,
            _ if self.height == Some(8) => self.height = None, // the return address
            _ => self.grow(-instruction.stack_pointer_increment()),
        }
    }

    fn pop_bp(&mut self) {
        let restores = self.saved_bp.is_some() && self.saved_bp == self.height.map(|h| -h);
        self.bp = if restores { Bp::Callers } else { Bp::Other };
        if restores {
            self.saved_bp = None;
        }
        self.grow(-8);
    }

    /// `mov` and `lea` with rsp or rbp as the target; `displacement` is 0 for a `mov`.
    fn assign(&mut self, instruction: &Instruction, displacement: i32) {
        let target = instruction.op0_register();
        self.note_stored_bp(instruction);
        if instruction.op0_kind() != OpKind::Register
            || !matches!(target.full_register(), Register::RSP | Register::RBP)
        {
            return;
        }
        let distance = self.distance_of(source(instruction), displacement);
        // As in functions that save rbp with a `mov` rather than a `push`.
        let restores = target == Register::RBP && self.is_saved_bp(instruction, 1);
        match target {
            Register::RSP => self.height = distance,
            _ if target.full_register() == Register::RSP => self.height = None,
            Register::RBP => self.bp = distance.map_or(Bp::Other, Bp::BelowCfa),
            _ => self.bp = Bp::Other,
        }
        if restores {
            self.bp = Bp::Callers;
            self.saved_bp = None;
        }
    }

    /// CFA - (register + displacement).
    fn distance_of(&self, register: Register, displacement: i32) -> Option<i32> {
        let distance = match register {
            Register::RSP => self.height?,
            Register::RBP => match self.bp {
                Bp::BelowCfa(distance) => distance,
                _ => return None,
            },
            _ => return None,
        };
        distance.checked_sub(displacement)
    }

    /// `mov %rbp, …(%rsp)` instead of a `push`.
    fn note_stored_bp(&mut self, instruction: &Instruction) {
        let stores = instruction.op1_kind() == OpKind::Register
            && instruction.op1_register() == Register::RBP;
        if stores && self.bp == Bp::Callers && self.saved_bp.is_none() {
            self.saved_bp = self.slot(instruction, 0).filter(|&offset| offset < 0);
        }
    }

    fn is_saved_bp(&self, instruction: &Instruction, operand: u32) -> bool {
        self.saved_bp.is_some() && self.slot(instruction, operand) == self.saved_bp
    }

    /// Where in the frame a `mov` reads or writes, relative to the CFA.
    fn slot(&self, instruction: &Instruction, operand: u32) -> Option<i32> {
        if instruction.mnemonic() != Mnemonic::Mov
            || instruction.op_kind(operand) != OpKind::Memory
            || instruction.memory_index() != Register::None
        {
            return None;
        }
        self.distance_of(
            instruction.memory_base(),
            instruction.memory_displacement64() as i32,
        )?
        .checked_neg()
    }

    fn height_at_bp(&self, displacement: i32) -> Option<i32> {
        self.distance_of(Register::RBP, displacement)
    }

    fn add(&mut self, instruction: &Instruction) {
        if instruction.op0_kind() != OpKind::Register {
            return;
        }
        let immediate = immediate(instruction).map(|n| {
            if instruction.mnemonic() == Mnemonic::Sub {
                n
            } else {
                -n
            }
        });
        match (instruction.op0_register(), immediate) {
            (Register::RSP, Some(n)) => self.grow(n),
            (Register::RBP, Some(n)) => {
                self.bp = self
                    .distance_of(Register::RBP, 0)
                    .and_then(|d| d.checked_add(n))
                    .map_or(Bp::Other, Bp::BelowCfa);
            }
            _ => self.other(instruction),
        }
    }

    /// The psABI's mark of the outermost frame: rbp zeroed by code that has not saved it.
    fn zero_bp(&mut self) {
        self.outermost |= self.bp == Bp::Callers && self.saved_bp.is_none();
        self.bp = Bp::Other;
    }

    /// Any other instruction: its first operand is written, the stack pointer moves by what it pushes.
    fn other(&mut self, instruction: &Instruction) {
        let pushed = instruction.stack_pointer_increment();
        if pushed != 0 {
            self.grow(-pushed);
        }
        if instruction.op_count() > 0 && instruction.op0_kind() == OpKind::Register {
            self.forget(instruction.op0_register());
        }
    }

    fn forget_both(&mut self, instruction: &Instruction) {
        self.other(instruction);
        if instruction.op1_kind() == OpKind::Register {
            self.forget(instruction.op1_register());
        }
    }

    fn forget(&mut self, register: Register) {
        match register.full_register() {
            Register::RSP => self.height = None,
            Register::RBP => self.bp = Bp::Other,
            _ => {}
        }
    }

    fn grow(&mut self, bytes: i32) {
        self.height = self.height.and_then(|h| h.checked_add(bytes));
    }
}

/// The register that a `mov` copies or a plain `lea` adds to.
fn source(instruction: &Instruction) -> Register {
    match (instruction.mnemonic(), instruction.op1_kind()) {
        (Mnemonic::Mov, OpKind::Register) => instruction.op1_register(),
        (Mnemonic::Lea, _) if instruction.memory_index() == Register::None => {
            instruction.memory_base()
        }
        _ => Register::None,
    }
}

fn immediate(instruction: &Instruction) -> Option<i32> {
    match instruction.op1_kind() {
        OpKind::Immediate8to64 | OpKind::Immediate32to64 => {
            i32::try_from(instruction.immediate(1) as i64).ok()
        }
        _ => None,
    }
}

fn zeroes_bp(instruction: &Instruction) -> bool {
    instruction.op0_kind() == OpKind::Register
        && instruction.op1_kind() == OpKind::Register
        && instruction.op0_register() == instruction.op1_register()
        && matches!(instruction.op0_register(), Register::RBP | Register::EBP)
}

fn eighth(offset: i32) -> Option<i32> {
    (offset % 8 == 0).then_some(offset / 8)
}
