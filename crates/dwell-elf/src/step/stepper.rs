//! Walks a stack with the full register set.
use super::expression::{Failure, evaluate};
use super::{Frame, Registers, UnwindInfo};
use crate::table_step::{
    CoreRegs, by_frame_pointer, interpreted_method, name_trampoline, step_row, trampoline_row,
};
use crate::unwind::Slice;
use dwell_abi::events::{interpreted_word, with_compiled};
use dwell_abi::unwind::{self, KIND_END, KIND_INTERPRETED, KIND_NONE, KIND_SP, StackEnd};
use gimli::{
    CfaRule, FrameDescriptionEntry, RegisterRule, UnwindContext, UnwindSection, UnwindTableRow,
};
use std::ops::Range;

/// A file mapped into a process.
#[derive(Clone, Copy, Debug)]
pub struct Module<'a> {
    /// First actual address of its executable mapping.
    pub start: u64,
    /// First actual address past its end.
    pub end: u64,
    /// Actual minus stated address (wrapping).
    pub bias: u64,
    /// Its unwind information; none for memory without a file (JIT), where only frame pointers
    /// lead on.
    pub info: Option<&'a UnwindInfo<'a>>,
}

/// Code that a process compiled itself.
pub trait Compiled {
    /// The row at an actual address, that of a call if a frame `returned` to behind it; none where it did not compile.
    fn row(&self, pc: u64, returned: bool) -> Option<unwind::Row>;

    /// The index of a bytecode by its address, of a method that is interpreted; none if it is not that method's.
    fn bytecode(&self, method: u64, address: u64) -> Option<u32>;

    /// The words for what a frame executes that has this much of the stack, innermost first; none where it is no interpreter.
    fn executed_by(&self, _stack: Range<u64>) -> &[u64] {
        &[]
    }

    /// Whether there may be such functions as [`Compiled::function_of`] tells.
    fn has_functions(&self) -> bool {
        false
    }

    /// The word for the function that a frame executes which has these two words below its frame pointer, the upper one first;
    /// none where it is not an engine's that has them there.
    fn function_of(&self, _context: u64, _function: u64) -> Option<u64> {
        None
    }
}

/// A process that compiles nothing.
struct Nothing;

impl Compiled for Nothing {
    fn row(&self, _: u64, _: bool) -> Option<unwind::Row> {
        None
    }

    fn bytecode(&self, _: u64, _: u64) -> Option<u32> {
        None
    }
}

/// Walks the stacks of one process.
pub struct Stepper<'a> {
    modules: Vec<Module<'a>>,
    compiled: &'a dyn Compiled,
    context: UnwindContext<usize>,
}

/// Registers of a frame and whether its pc is a return address.
#[derive(Clone, Copy)]
struct Position {
    registers: Registers,
    pc: u64,
    sp: u64,
    is_return_address: bool,
}

type Row = UnwindTableRow<usize>;

impl<'a> Stepper<'a> {
    /// `modules` may come in any order; where two overlap, the one that starts last holds.
    pub fn new(mut modules: Vec<Module<'a>>) -> Self {
        modules.sort_by_key(|module| module.start);
        Stepper {
            modules,
            compiled: &Nothing,
            context: UnwindContext::new(),
        }
    }

    /// The same in a process that compiles code.
    pub fn with_compiled(self, compiled: &'a dyn Compiled) -> Self {
        Stepper { compiled, ..self }
    }

    /// Walks from `registers` outwards, appending at most `max_frames` frames (innermost first), and
    /// says why it ended. `read` reads 8 bytes of the stack, or of code without a module; what it
    /// cannot read of the stack ends it as [`StackEnd::ReadFault`], which for a copy of the stack means
    /// that the copy was too short.
    pub fn walk(
        &mut self,
        registers: &Registers,
        read: &mut impl FnMut(u64) -> Option<u64>,
        max_frames: usize,
        frames: &mut Vec<Frame>,
    ) -> StackEnd {
        let (Some(pc), Some(sp)) = (registers.get(Registers::RIP), registers.get(Registers::RSP))
        else {
            return StackEnd::NoUser;
        };
        let mut at = Position {
            registers: *registers,
            pc,
            sp,
            is_return_address: false,
        };
        let mut by_fp = false;
        for _ in 0..max_frames {
            frames.push(Frame {
                pc: at.pc,
                is_return_address: at.is_return_address,
            });
            let Some(module) = self.module_at(at.lookup_pc()) else {
                return StackEnd::NoMapping;
            };
            let compiled = match module.info {
                None => self.compiled.row(at.lookup_pc(), at.is_return_address),
                Some(_) => None,
            };
            let step = match compiled {
                Some(row) => self.by_compiled(&row, &at, frames, read),
                None => self.step(&module, &at, read),
            };
            if step.is_ok_and(|caller| !caller.is_return_address) {
                name_trampoline(frames);
            }
            let guessing = matches!(step, Err(StackEnd::NoRow));
            let step = if guessing {
                self.guess(&at, by_fp, read)
            } else {
                step
            };
            by_fp = guessing;
            match step {
                Ok(caller) => {
                    self.put_function(&module, &at, caller.sp, frames, read);
                    self.put_executed(at.sp..caller.sp, frames);
                    at = caller;
                }
                Err(end) => return end,
            }
        }
        StackEnd::TooDeep
    }

    fn module_at(&self, actual: u64) -> Option<Module<'a>> {
        let after = self.modules.partition_point(|m| m.start <= actual);
        self.modules[..after]
            .last()
            .filter(|m| actual < m.end)
            .copied()
    }

    /// One step by the module's own information; [`StackEnd::NoRow`] where it has none.
    fn step(
        &mut self,
        module: &Module<'a>,
        at: &Position,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Result<Position, StackEnd> {
        let Some(info) = module.info else {
            return by_code(at, read);
        };
        let stated = at.lookup_pc().wrapping_sub(module.bias);
        if let (Some(fde), Some(section)) = (info.eh_fde(stated), info.sections().eh_frame()) {
            return self.by_fde(&section, info, &fde, stated, module.bias, at, read);
        }
        if let (Some(fde), Some(section)) = (info.debug_fde(stated), info.sections().debug_frame())
        {
            return self.by_fde(&section, info, &fde, stated, module.bias, at, read);
        }
        by_table(info, stated, at, read)
    }

    #[allow(clippy::too_many_arguments)] // one call's worth of context, used twice just above
    fn by_fde<'s, S: UnwindSection<Slice<'s>>>(
        &mut self,
        section: &S,
        info: &UnwindInfo<'_>,
        fde: &FrameDescriptionEntry<Slice<'s>>,
        stated: u64,
        bias: u64,
        at: &Position,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Result<Position, StackEnd> {
        let row = fde
            .unwind_info_for_address(section, info.bases(), &mut self.context, stated)
            .map_err(|_| StackEnd::Unsupported)?;
        // Expressions name the pc too (PLT stubs), and mean the stated one only modulo the page.
        let mut registers = at.registers;
        registers.set(Registers::RIP, Some(stated.wrapping_add(bias)));
        let caller = Caller {
            section,
            row,
            registers: &registers,
        };
        caller.find(at, fde.is_signal_trampoline(), read)
    }

    fn by_compiled(
        &self,
        row: &unwind::Row,
        at: &Position,
        frames: &mut [Frame],
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Result<Position, StackEnd> {
        let core = at.core().ok_or(StackEnd::NoRow)?;
        let row = match row.kind {
            // Small stubs that only jump on have no frame; others keep a frame pointer.
            KIND_NONE if !at.is_return_address && self.is_code_at(core.sp, read) => &unwind::Row {
                kind: KIND_SP,
                cfa_off8: 1,
                ..*row
            },
            KIND_SP if !at.is_return_address => &self.pushed_row(row, core.sp, read),
            _ => row,
        };
        if let Some(frame) = frames.last_mut() {
            frame.pc = with_compiled(frame.pc, row.pc);
        }
        if row.kind == KIND_INTERPRETED
            && let Some((method, places)) = interpreted_method(&core, read)
            && let Some(frame) = frames.last_mut()
        {
            let mut places = places.into_iter().flatten();
            let bytecode = places.find_map(|at| self.compiled.bytecode(method, at));
            *frame = Frame {
                pc: interpreted_word(method, bytecode),
                is_return_address: false,
            };
        }
        step_row(row, &[], &core, read).map(Position::from_core)
    }

    /// Puts what the last frame executes, as far as it is an interpreter's, in its place.
    fn put_executed(&self, stack: Range<u64>, frames: &mut Vec<Frame>) {
        let words = self.compiled.executed_by(stack);
        if !words.is_empty() {
            frames.pop();
            frames.extend(words.iter().map(|word| Frame {
                pc: *word,
                is_return_address: false,
            }));
        }
    }

    /// Puts the function that the last frame executes in its place, or behind it where it stands in an engine's own code. Such a
    /// frame keeps a frame pointer.
    fn put_function(
        &self,
        module: &Module<'_>,
        at: &Position,
        end: u64,
        frames: &mut Vec<Frame>,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) {
        let Some(frame) = at.registers.get(Registers::RBP) else {
            return;
        };
        let is_kept = at.sp.checked_add(16).is_some_and(|least| frame >= least);
        if !self.compiled.has_functions() || end != frame.wrapping_add(16) || !is_kept {
            return;
        }
        if let (Some(context), Some(function)) = (read(frame - 8), read(frame - 16))
            && let Some(pc) = self.compiled.function_of(context, function)
        {
            if at.is_return_address || module.info.is_none() {
                frames.pop();
            }
            frames.push(Frame {
                pc,
                is_return_address: false,
            });
        }
    }

    /// Whether the word there is the address of code.
    fn is_code_at(&self, address: u64, read: &mut impl FnMut(u64) -> Option<u64>) -> bool {
        read(address).is_some_and(|pc| self.module_at(pc).is_some())
    }

    /// The row of a JVM's innermost frame, also where a compiled string function has pushed a word below it: then no code lies
    /// where the return address should be.
    fn pushed_row(
        &self,
        row: &unwind::Row,
        sp: u64,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> unwind::Row {
        let top = sp.wrapping_add(8 * row.cfa_off8 as u64);
        let is_pushed = row.bp_off8 == -2
            && !self.is_code_at(top.wrapping_sub(8), read)
            && self.is_code_at(top, read);
        unwind::Row {
            cfa_off8: row.cfa_off8.saturating_add(i16::from(is_pushed)),
            ..*row
        }
    }

    /// Steps by frame pointer where no unwind information holds; believed only when it leads to
    /// executable memory.
    fn guess(
        &self,
        at: &Position,
        by_fp: bool,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Result<Position, StackEnd> {
        at.core()
            .and_then(|core| by_frame_pointer(&core, read).ok())
            .filter(|caller| self.module_at(caller.lookup_pc()).is_some())
            .map(Position::from_core)
            .ok_or(if by_fp {
                StackEnd::BadFramePointer
            } else {
                StackEnd::NoRow
            })
    }
}

impl Position {
    fn lookup_pc(&self) -> u64 {
        self.pc.wrapping_sub(u64::from(self.is_return_address))
    }

    fn core(&self) -> Option<CoreRegs> {
        Some(CoreRegs {
            pc: self.pc,
            sp: self.sp,
            bp: self.registers.get(Registers::RBP)?,
            leaf: self.registers,
            is_return_address: self.is_return_address,
        })
    }

    /// After a step that follows only pc, sp and rbp the other registers are not known any more.
    fn from_core(core: CoreRegs) -> Self {
        let mut registers = core.leaf;
        registers.set(Registers::RIP, Some(core.pc));
        registers.set(Registers::RSP, Some(core.sp));
        registers.set(Registers::RBP, Some(core.bp));
        Position {
            registers,
            pc: core.pc,
            sp: core.sp,
            is_return_address: core.is_return_address,
        }
    }
}

/// Steps by the compact table, where the sections are silent and the table knows from elsewhere.
fn by_table(
    info: &UnwindInfo<'_>,
    stated: u64,
    at: &Position,
    read: &mut impl FnMut(u64) -> Option<u64>,
) -> Result<Position, StackEnd> {
    let row = info.row(stated);
    match row.kind {
        KIND_NONE => return Err(StackEnd::NoRow),
        KIND_END => return Err(StackEnd::Complete),
        _ => {}
    }
    let core = at.core().ok_or(StackEnd::Unsupported)?;
    step_row(&row, &info.table().rules, &core, read).map(Position::from_core)
}

/// Steps by what the code itself tells, where there is no module.
fn by_code(at: &Position, read: &mut impl FnMut(u64) -> Option<u64>) -> Result<Position, StackEnd> {
    let core = at.core().ok_or(StackEnd::NoRow)?;
    let row = trampoline_row(&core, read).ok_or(StackEnd::NoRow)?;
    step_row(&row, &[], &core, read).map(Position::from_core)
}

/// Finds the registers of a caller from one row.
struct Caller<'r, S> {
    section: &'r S,
    row: &'r Row,
    registers: &'r Registers,
}

impl<'r, 's, S: UnwindSection<Slice<'s>>> Caller<'r, S> {
    fn find(
        &self,
        at: &Position,
        is_signal: bool,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Result<Position, StackEnd> {
        if matches!(
            self.row.register(gimli::Register(Registers::RIP)),
            None | Some(RegisterRule::Undefined)
        ) {
            return Err(StackEnd::Complete);
        }
        let cfa = self.cfa(read)?;
        let mut caller = Registers::default();
        for register in 0..Registers::COUNT as u16 {
            caller.set(register, self.register(register, cfa, read)?);
        }
        let pc = caller.get(Registers::RIP).ok_or(StackEnd::Unsupported)?;
        if pc == 0 {
            return Err(StackEnd::Complete);
        }
        let sp = caller.get(Registers::RSP).ok_or(StackEnd::Unsupported)?;
        if !is_signal && !self.moved(at, pc, sp) {
            return Err(StackEnd::Loop);
        }
        Ok(Position {
            registers: caller,
            pc,
            sp,
            is_return_address: !is_signal,
        })
    }

    /// The stack pointer must grow, except out of a `vfork`, whose return address is in a register.
    fn moved(&self, at: &Position, pc: u64, sp: u64) -> bool {
        let in_register = matches!(
            self.row.register(gimli::Register(Registers::RIP)),
            Some(RegisterRule::Register(_))
        );
        sp > at.sp || (in_register && sp == at.sp && pc != at.pc)
    }

    fn cfa(&self, read: &mut impl FnMut(u64) -> Option<u64>) -> Result<u64, StackEnd> {
        match self.row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => self
                .registers
                .get(register.0)
                .map(|value| value.wrapping_add(*offset as u64))
                .ok_or(StackEnd::Unsupported),
            CfaRule::Expression(expression) => self.value(expression, None, read),
        }
    }

    /// The caller's value of a register; `Ok(None)` when it is lost.
    fn register(
        &self,
        register: u16,
        cfa: u64,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Result<Option<u64>, StackEnd> {
        let Some(rule) = self.row.register(gimli::Register(register)) else {
            return Ok(match register {
                Registers::RSP => Some(cfa),
                _ if Registers::is_callee_saved(register) => self.registers.get(register),
                _ => None,
            });
        };
        match rule {
            RegisterRule::Undefined => Ok(None),
            RegisterRule::SameValue => Ok(self.registers.get(register)),
            RegisterRule::Offset(offset) => {
                self.read(register, cfa.wrapping_add(offset as u64), read)
            }
            RegisterRule::ValOffset(offset) => Ok(Some(cfa.wrapping_add(offset as u64))),
            RegisterRule::Register(other) => Ok(self.registers.get(other.0)),
            RegisterRule::Expression(expression) => {
                let address = self.value(&expression, Some(cfa), read)?;
                self.read(register, address, read)
            }
            RegisterRule::ValExpression(expression) => {
                self.value(&expression, Some(cfa), read).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads a saved register. Only the return address and the stack pointer must be had: the others
    /// may never be asked for.
    fn read(
        &self,
        register: u16,
        address: u64,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Result<Option<u64>, StackEnd> {
        match read(address) {
            None if matches!(register, Registers::RIP | Registers::RSP) => Err(StackEnd::ReadFault),
            value => Ok(value),
        }
    }

    fn value(
        &self,
        expression: &gimli::UnwindExpression<usize>,
        initial: Option<u64>,
        read: &mut impl FnMut(u64) -> Option<u64>,
    ) -> Result<u64, StackEnd> {
        let expression = expression
            .get(self.section)
            .map_err(|_| StackEnd::Unsupported)?;
        evaluate(expression, initial, self.registers, read).map_err(|failure| match failure {
            Failure::Memory => StackEnd::ReadFault,
            Failure::Unsupported => StackEnd::Unsupported,
        })
    }
}
