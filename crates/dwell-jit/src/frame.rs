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
/// Distances in `pt_regs`: of the first of [`SCRATCH`], of the stack pointer.
const DI: i32 = 112;
const SP: i32 = 152;

/// The registers that a call may change, as bits.
pub(crate) fn scratch() -> u16 {
    SCRATCH.iter().fold(0, |bits, r| bits | 1 << r.0)
}

/// Where things are on the stack while the code runs.
#[derive(Debug)]
pub(crate) struct Shape {
    frame: Frame,
    /// Registers that are saved, first pushed first.
    saved: Vec<Reg>,
    /// Bytes of the program's stack, and below it of what is ours.
    stack: i32,
    words: Words,
}

/// Which words of ours are below the program's stack. They are zero at first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Words {
    /// The address of a sum that no other thread changes.
    pub(crate) has_own: bool,
    /// The address of the thread's memory.
    pub(crate) has_thread: bool,
}

/// What a load from the context comes to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FromContext {
    /// It was saved there.
    Saved(Mem),
    /// Nothing writes to it: it is still in its register.
    Register(Reg),
    /// It is this address.
    Address(Mem),
}

impl Shape {
    /// `written`: bits of the registers that are not left as they were. `stack`: bytes that the program uses.
    pub(crate) fn new(frame: Frame, written: u16, stack: i32, words: Words) -> Self {
        let saves_scratch = matches!(frame, Frame::Probe { .. });
        let scratch = SCRATCH.into_iter().filter(|_| saves_scratch);
        let saved = scratch.chain(KEPT).filter(|r| written & 1 << r.0 != 0);
        Shape {
            frame,
            saved: saved.collect(),
            stack: stack + 8 * (i32::from(words.has_own) + i32::from(words.has_thread)),
            words,
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

    /// Where the address of a thread's own sum is.
    pub(crate) fn own(&self) -> Option<Mem> {
        self.words.has_own.then(|| self.on_stack(0))
    }

    /// Where the address of the thread's memory is.
    pub(crate) fn thread(&self) -> Option<Mem> {
        let at = 8 * i32::from(self.words.has_own);
        self.words.has_thread.then(|| self.on_stack(at))
    }

    /// From the stack pointer to what it was when the code was entered.
    fn entered(&self) -> i32 {
        self.stack + 8 * self.saved.len() as i32
    }

    /// The probe's number.
    pub(crate) fn number(&self) -> Mem {
        self.on_stack(self.entered() + 8)
    }

    /// The context, if all of it was saved.
    pub(crate) fn context(&self) -> Mem {
        self.on_stack(self.entered() - 8 - DI)
    }

    /// What `width` bytes of the context are; none for what is not known here.
    pub(crate) fn of_context(&self, distance: i32, width: u32) -> Option<FromContext> {
        let Frame::Probe { kept, .. } = self.frame else {
            return None;
        };
        if distance == SP && width == 8 {
            let sp = self.entered() + 16 + kept as i32;
            return Some(FromContext::Address(self.on_stack(sp)));
        }
        if distance < 0 || distance + width as i32 > DI + 8 {
            return None;
        }
        let mut all = SCRATCH.into_iter().chain(KEPT);
        let register = all.nth(((DI + 7 - distance) / 8) as usize)?;
        let within = distance % 8;
        if within + width as i32 > 8 {
            return None;
        }
        match self.saved.iter().rev().position(|r| *r == register) {
            Some(n) => {
                let at = self.stack + 8 * n as i32 + within;
                Some(FromContext::Saved(self.on_stack(at)))
            }
            None if within == 0 && width == 8 => Some(FromContext::Register(register)),
            None => None,
        }
    }

    /// The way in; gives jumps to the way out.
    pub(crate) fn enter(&self, code: &mut Code) -> Vec<Hole> {
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
        let closed = closed.collect();
        for word in [self.own(), self.thread()].into_iter().flatten() {
            code.store_constant(8, word, 0);
        }
        closed
    }

    /// A call on a way that is seldom taken: what is not saved is saved just for it. `prepare` sets arguments.
    pub(crate) fn seldom(&self, code: &mut Code, target: u64, prepare: impl Fn(&mut Code)) -> bool {
        let written = code.written;
        let is_saved = |r: &Reg| self.saved.contains(r) || *r == RAX;
        let kept: Vec<Reg> = SCRATCH.into_iter().filter(|r| !is_saved(r)).collect();
        kept.iter().for_each(|r| code.push(*r));
        prepare(code);
        let is_near = code.call(target);
        kept.iter().rev().for_each(|r| code.pop(*r));
        code.written = written;
        code.writes(RAX);
        is_near
    }

    /// The way out.
    pub(crate) fn leave(&self, code: &mut Code) {
        if self.stack > 0 {
            code.constant(true, Two::Add, RSP, self.stack);
        }
        self.saved.iter().rev().for_each(|r| code.pop(*r));
        code.ret();
    }
}
