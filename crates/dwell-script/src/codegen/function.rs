//! D's functions, and what is done where the probe fires.
use super::error::CodeError;
use super::frame::Location;
use super::program::{FaultKind, Maker};
use crate::span::Span;
use crate::typed::*;
use dwell_abi::program::instruction::{Alu, Instruction, Jump};
use dwell_abi::program::operation as op;

/// The signal of `stop()`.
const SIGSTOP: i64 = 19;
/// Processes that `progenyof()` looks at.
const MOST_ANCESTORS: i32 = 64;

impl Maker<'_, '_> {
    /// Functions that give a number.
    pub(super) fn call(
        &mut self,
        function: Function,
        arguments: &[Expr],
        e: &Expr,
    ) -> Result<(), CodeError> {
        match function {
            Function::Rand => self.code.call(op::RANDOM),
            Function::Htons | Function::Ntohs => self.swapped(&arguments[0], 16)?,
            Function::Htonl | Function::Ntohl => self.swapped(&arguments[0], 32)?,
            Function::Htonll | Function::Ntohll => self.swapped(&arguments[0], 64)?,
            Function::Strlen => self.strlen(&arguments[0])?,
            Function::Copyin => self.copyin(arguments, e.span)?,
            Function::Alloca => self.alloca(arguments, e.span)?,
            Function::Index => self.index(arguments, false, e.span)?,
            Function::Rindex => self.index(arguments, true, e.span)?,
            Function::Strtoll => self.strtoll(arguments, e.span)?,
            Function::Speculation => self.speculation(),
            Function::Copyinto => self.copyinto(arguments, e.span)?,
            Function::Progenyof => self.progenyof(arguments)?,
            Function::Bcopy => self.bcopy(arguments, e.span)?,
            _ => return Err(CodeError::unsupported(name(function), e.span)),
        }
        Ok(())
    }

    /// Whether the process or one of those it comes from has that number. Behind it stand the places of a task's
    /// parent and number.
    fn progenyof(&mut self, arguments: &[Expr]) -> Result<(), CodeError> {
        let [pid, parent, number] = arguments else {
            unreachable!("the checker adds the places");
        };
        let place = |e: &Expr| match e.kind {
            ExprKind::Int(at) => i16::try_from(at).ok(),
            _ => None,
        };
        let places = place(parent).zip(place(number));
        let (parent, number) =
            places.ok_or_else(|| CodeError::unsupported("progenyof() on this kernel", pid.span))?;
        let mark = self.frame.mark();
        self.value(pid)?;
        self.cut(0, 4, false);
        let (wanted, task) = (self.spill()?, self.frame.temporary()?);
        let [again, found, none, done] = self.code.labels();
        self.code.call(op::TASK);
        self.code.mov(3, 0);
        self.store_word(task, 3);
        self.code.constant(8, 0);
        self.code.place(again);
        self.read_kernel_word(number)?;
        self.cut(0, 4, false);
        self.load_word(1, wanted);
        self.code.jump_if(Jump::Eq, 0, 1, found);
        self.load_word(3, task);
        self.read_kernel_word(parent)?;
        self.load_word(3, task);
        // The first of all is its own parent.
        self.code.jump_if(Jump::Eq, 0, 3, none);
        self.code.jump_imm(Jump::Eq, 0, 0, none);
        self.store_word(task, 0);
        self.code.mov(3, 0);
        self.code.alu_imm(Alu::Add, 8, 1);
        self.code.jump_imm(Jump::Lt, 8, MOST_ANCESTORS, again);
        self.code.place(none);
        self.code.constant(0, 0);
        self.code.jump(done);
        self.code.place(found);
        self.code.constant(0, 1);
        self.code.place(done);
        self.frame.release(mark);
        Ok(())
    }

    fn swapped(&mut self, value: &Expr, bits: i32) -> Result<(), CodeError> {
        self.value(value)?;
        self.code.emit(Instruction::swap(0, bits));
        Ok(())
    }

    /// Functions that give a string.
    pub(super) fn string_call(
        &mut self,
        function: Function,
        arguments: &[Expr],
        span: Span,
    ) -> Result<Location, CodeError> {
        match function {
            Function::Copyinstr => {
                let to = self.new_string()?;
                let mark = self.frame.mark();
                let size = match arguments.get(1).map(|e| &e.kind) {
                    Some(ExprKind::Int(most)) => {
                        (*most as u32).saturating_add(1).min(self.strsize())
                    }
                    Some(_) => {
                        return Err(CodeError::unsupported(
                            "copyinstr with a computed size",
                            span,
                        ));
                    }
                    None => self.strsize(),
                };
                self.zero_string(to);
                self.value(&arguments[0])?;
                self.read_string(to, size)?;
                self.frame.release(mark);
                Ok(to)
            }
            _ => self
                .text_call(function, arguments, span)
                .unwrap_or_else(|| Err(CodeError::unsupported(name(function), span))),
        }
    }

    fn strlen(&mut self, text: &Expr) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let from = self.string(text)?;
        self.length(from)?;
        self.frame.release(mark);
        Ok(())
    }

    /// `copyin(address, size)`: memory that lasts to the end of the firing.
    fn copyin(&mut self, arguments: &[Expr], span: Span) -> Result<(), CodeError> {
        let ExprKind::Int(size) = arguments[1].kind else {
            return Err(CodeError::unsupported("copyin with a computed size", span));
        };
        self.value(&arguments[0])?;
        let at = self.kept(size as u32)?;
        self.read_bytes(at, size as u32)?;
        self.own_address(at)
    }

    fn alloca(&mut self, arguments: &[Expr], span: Span) -> Result<(), CodeError> {
        let ExprKind::Int(size) = arguments[0].kind else {
            return Err(CodeError::unsupported("alloca with a computed size", span));
        };
        let at = self.kept(size as u32)?;
        self.zero(at, size as u32);
        self.own_address(at)
    }

    /// Memory that is not given back before the end of the firing.
    fn kept(&mut self, size: u32) -> Result<Location, CodeError> {
        if !self.frame.has_slot {
            return Err(CodeError::TooDeep);
        }
        self.frame.kept(size)
    }

    /// `copyinto(address, size, to)`: into memory of `alloca` and its like.
    fn copyinto(&mut self, arguments: &[Expr], span: Span) -> Result<(), CodeError> {
        let size = constant_size("copyinto", &arguments[1], span)?;
        self.copy_to_own(&arguments[0], &arguments[2], size)
    }

    /// `bcopy(from, to, size)`.
    fn bcopy(&mut self, arguments: &[Expr], span: Span) -> Result<(), CodeError> {
        let size = constant_size("bcopy", &arguments[2], span)?;
        self.copy_to_own(&arguments[0], &arguments[1], size)
    }

    fn copy_to_own(&mut self, from: &Expr, to: &Expr, size: u32) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let bytes = self.frame.buffer(size)?;
        self.value(from)?;
        self.read_bytes(bytes, size)?;
        self.value(to)?;
        self.own_pointer(size)?;
        self.code.mov(1, 2);
        self.address(3, bytes);
        self.copy_call(size);
        self.frame.release(mark);
        Ok(())
    }

    /// Actions that are done where the probe fires.
    pub(super) fn act(&mut self, act: Act, arguments: &[Expr]) -> Result<(), CodeError> {
        let span = arguments.first().map_or(Span::default(), |e| e.span);
        match act {
            Act::Stop => self.code.constant(0, SIGSTOP),
            Act::Raise => self.value(&arguments[0])?,
            Act::Copyout => return self.copyout(arguments, span),
            Act::Copyoutstr => return self.copyoutstr(arguments, span),
            Act::Chill => {
                self.value(&arguments[0])?;
                self.code.mov(1, 0);
                self.code.call(op::SPEND_TIME);
                return Ok(());
            }
        }
        self.code.mov(1, 0);
        self.code.call(op::SIGNAL);
        Ok(())
    }

    /// `copyout(from, address, size)`.
    fn copyout(&mut self, arguments: &[Expr], span: Span) -> Result<(), CodeError> {
        let size = constant_size("copyout", &arguments[2], span)?;
        let mark = self.frame.mark();
        let bytes = self.frame.buffer(size)?;
        self.value(&arguments[0])?;
        self.read_bytes(bytes, size)?;
        self.value(&arguments[1])?;
        let to = self.spill()?;
        self.code.constant(3, size.into());
        self.write_user(to, bytes);
        self.frame.release(mark);
        Ok(())
    }

    /// `copyoutstr(text, address, size)`: with its zero, so many bytes at most.
    fn copyoutstr(&mut self, arguments: &[Expr], span: Span) -> Result<(), CodeError> {
        let most = constant_size("copyoutstr", &arguments[2], span)?.min(self.strsize());
        let mark = self.frame.mark();
        let text = self.string(&arguments[0])?;
        self.value(&arguments[1])?;
        let to = self.spill()?;
        self.length(text)?;
        self.code.mov(3, 0);
        self.code.alu_imm(Alu::Add, 3, 1);
        let fits = self.code.label();
        self.code.jump_imm(Jump::Le, 3, most as i32, fits);
        self.code.constant(3, most.into());
        self.code.place(fits);
        self.write_user(to, text);
        self.frame.release(mark);
        Ok(())
    }

    /// Writes the target's memory; register 3 has the size.
    fn write_user(&mut self, to: Location, from: Location) {
        self.load_word(1, to);
        self.address(2, from);
        self.code.call(op::WRITE_USER);
        let fine = self.code.label();
        self.code.jump_imm(Jump::Eq, 0, 0, fine);
        self.load_word(2, to);
        self.fault(FaultKind::BadAddress);
        self.code.place(fine);
    }
}

/// A size that is known now.
fn constant_size(function: &str, size: &Expr, span: Span) -> Result<u32, CodeError> {
    match size.kind {
        ExprKind::Int(size @ 1..=0x4000) => Ok(size as u32),
        _ => {
            let what = format!("{function}() with a size that is no constant up to 16 KiB");
            Err(CodeError::unsupported(what, span))
        }
    }
}

fn name(function: Function) -> String {
    format!("{function:?}()").to_lowercase()
}
