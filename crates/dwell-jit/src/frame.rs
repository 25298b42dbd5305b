//! How code is entered and left, and where on the stack things are meanwhile.
use crate::encode::*;

/// How a program's code is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// As a C function of the context's address, with register 0 as its result.
    Function,
    /// From a place that was patched. The number of the probe was pushed before the call; every register but the
    /// flags is as it was when the code comes back.
    Probe {
        /// Looked at before anything else.
        gate: Gate,
        /// Bytes between what the interrupted code has on its stack and the probe's number.
        kept: u32,
    },
}

/// Two words of 32 bits that must not be zero. Where one is, the code comes back at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Zero before the script begins, after it has ended, and in children.
    pub open: u64,
    /// Whose bits tell that the script's owner lives, with their mask; none where nobody can tell.
    pub owner: Option<(u64, u32)>,
}

/// Those that a call may change, in the order of the kernel's `pt_regs`, last first.
const SCRATCH: [Reg; 9] = [RDI, RSI, RDX, RCX, RAX, R8, R9, R10, R11];
/// Those that it may not, likewise.
const KEPT: [Reg; 6] = [RBX, RBP, R12, R13, R14, R15];
/// Distances in `pt_regs`: of the first of [`SCRATCH`], the last of it, of the stack pointer.
const DI: i32 = 112;
const R11_AT: i32 = 48;
const SP: i32 = 152;

/// Where things are on the stack while the code runs.
#[derive(Debug)]
pub(crate) struct Shape {
    frame: Frame,
    /// Registers of [`KEPT`] that are saved.
    saved: Vec<Reg>,
    /// Bytes of the program's stack.
    stack: i32,
}

/// What a load from the context comes to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FromContext {
    /// It was saved there.
    Saved(Mem),
    /// It is this address.
    Address(Mem),
}

impl Shape {
    /// `changed`: which registers the program changes. `reads_kept`: whether it looks at those that calls keep.
    pub(crate) fn new(frame: Frame, stack: i32, changed: &[Reg], reads_kept: bool) -> Self {
        let is_saved = |r: &Reg| changed.contains(r) || reads_kept;
        let saved = KEPT.into_iter().filter(is_saved).collect();
        Shape {
            frame,
            saved,
            stack,
        }
    }

    fn on_stack(&self, distance: i32) -> Mem {
        let base = RSP;
        Mem { base, distance }
    }

    /// Where the program's stack ends.
    pub(crate) fn stack_end(&self) -> Mem {
        self.on_stack(self.stack)
    }

    /// From the stack pointer to what it was when the code was entered.
    fn entered(&self) -> i32 {
        let saved = match self.frame {
            Frame::Function => self.saved.len(),
            Frame::Probe { .. } => self.saved.len() + SCRATCH.len(),
        };
        self.stack + 8 * saved as i32
    }

    /// The probe's number.
    pub(crate) fn number(&self) -> Mem {
        self.on_stack(self.entered() + 8)
    }

    /// The context, as far as it is there.
    pub(crate) fn context(&self) -> Mem {
        self.on_stack(self.entered() - 8 - DI)
    }

    /// What `width` bytes of the context are; none for what is not known here.
    pub(crate) fn of_context(&self, distance: i32, width: u32) -> Option<FromContext> {
        let Frame::Probe { kept, .. } = self.frame else {
            return None;
        };
        let context = self.context().distance;
        if distance == SP && width == 8 {
            let sp = self.entered() + 16 + kept as i32;
            return Some(FromContext::Address(self.on_stack(sp)));
        }
        let first = if self.saved.len() == KEPT.len() {
            0
        } else {
            R11_AT
        };
        let is_saved = distance >= first && distance + width as i32 <= DI + 8;
        is_saved.then(|| FromContext::Saved(self.on_stack(context + distance)))
    }

    /// The way in; gives jumps to the way out.
    pub(crate) fn enter(&self, code: &mut Code) -> Vec<Hole> {
        if matches!(self.frame, Frame::Probe { .. }) {
            SCRATCH.iter().for_each(|r| code.push(*r));
        }
        self.saved.iter().for_each(|r| code.push(*r));
        if self.stack > 0 {
            code.constant(true, Two::Sub, RSP, self.stack);
        }
        let Frame::Probe { gate, kept } = self.frame else {
            return Vec::new();
        };
        if kept > 0 {
            code.clear_direction();
        }
        let words = [Some((gate.open, u32::MAX)), gate.owner];
        let closed = words.into_iter().flatten().map(|(word, mask)| {
            code.mov_64(R11, word);
            code.test_word(R11, mask);
            code.jump_if(Condition::Equal)
        });
        closed.collect()
    }

    /// The way out.
    pub(crate) fn leave(&self, code: &mut Code) {
        if self.stack > 0 {
            code.constant(true, Two::Add, RSP, self.stack);
        }
        self.saved.iter().rev().for_each(|r| code.pop(*r));
        if matches!(self.frame, Frame::Probe { .. }) {
            SCRATCH.iter().rev().for_each(|r| code.pop(*r));
        }
        code.ret();
    }
}
