//! D's functions, and what is done where the probe fires.
use super::error::CodeError;
use super::frame::{COMPUTED_MOST, Location};
use super::memory::Size;
use super::program::{FaultKind, Maker};
use crate::span::Span;
use crate::typed::*;
use dwell_abi::program::instruction::{Alu, Instruction, Jump};
use dwell_abi::program::operation as op;

/// The signal of `stop()`.
const SIGSTOP: i64 = 19;
/// Processes that `progenyof()` looks at.
const MOST_ANCESTORS: i32 = 64;
/// The most bytes that a copy has whose size is a constant.
const CONSTANT_MOST: i64 = 0x4000;

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
            Function::Copyin => self.copyin(arguments)?,
            Function::Alloca => self.alloca(arguments)?,
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
            Function::Copyinstr => self.copyinstr(arguments),
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

    /// `copyinstr(address[, most])`.
    fn copyinstr(&mut self, arguments: &[Expr]) -> Result<Location, CodeError> {
        let to = self.new_string()?;
        let mark = self.frame.mark();
        let all = self.strsize();
        let size = match arguments.get(1) {
            None => Size::Constant(all),
            Some(most) => self.with_its_zero(most, all)?,
        };
        if size.most() < all {
            self.zero_string(to);
        }
        self.value(&arguments[0])?;
        self.read_string(to, size)?;
        self.frame.release(mark);
        Ok(to)
    }

    /// The bytes of a string that has so many and a zero, `all` at most.
    fn with_its_zero(&mut self, length: &Expr, all: u32) -> Result<Size, CodeError> {
        if let ExprKind::Int(length) = length.kind {
            return Ok(Size::Constant((length as u32).saturating_add(1).min(all)));
        }
        self.value(length)?;
        self.at_most(0, all - 1);
        self.code.alu_imm(Alu::Add, 0, 1);
        let at = self.spill()?;
        Ok(Size::Computed { at, most: all })
    }

    /// `copyin(address, size)`: memory that lasts to the end of the firing.
    fn copyin(&mut self, arguments: &[Expr]) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let size = self.size_of_memory(&arguments[1])?;
        let at = self.kept(size)?;
        self.value(&arguments[0])?;
        self.read_sized(at, size)?;
        self.frame.release(mark);
        self.own_address(at)
    }

    fn alloca(&mut self, arguments: &[Expr]) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let size = self.size_of_memory(&arguments[0])?;
        let at = self.kept(size)?;
        if let Size::Constant(size) = size {
            self.zero(at, size);
        }
        self.frame.release(mark);
        self.own_address(at)
    }

    /// A size in bytes. One that is computed and too large is an error of the script.
    fn size_of_memory(&mut self, size: &Expr) -> Result<Size, CodeError> {
        if let ExprKind::Int(size) = size.kind {
            return Ok(Size::Constant(size as u32));
        }
        self.value(size)?;
        let at = self.spill()?;
        let fits = self.code.label();
        self.code.jump_imm(Jump::Le, 0, COMPUTED_MOST as i32, fits);
        self.code.constant(2, 0);
        self.fault(FaultKind::NoScratch);
        self.code.place(fits);
        let most = COMPUTED_MOST;
        Ok(Size::Computed { at, most })
    }

    /// Memory that is not given back before the end of the firing.
    fn kept(&mut self, size: Size) -> Result<Location, CodeError> {
        if !self.frame.has_slot {
            return Err(CodeError::TooDeep);
        }
        match size {
            Size::Constant(size) => self.frame.kept(size),
            Size::Computed { most, .. } => {
                // Zeros all of it, and a word more, that ends a string.
                let room = most + 8;
                let at = self.frame.kept(room)?;
                let zeros = self.generator.layout.constant(&[], room);
                self.copy(at, Location::Memory(zeros), room);
                Ok(at)
            }
        }
    }

    /// `copyinto(address, size, to)`: into memory of `alloca` and its like.
    fn copyinto(&mut self, arguments: &[Expr], span: Span) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let size = self.size_to_copy("copyinto", &arguments[1], span)?;
        self.copy_to_own(&arguments[0], &arguments[2], size)?;
        self.frame.release(mark);
        Ok(())
    }

    /// `bcopy(from, to, size)`.
    fn bcopy(&mut self, arguments: &[Expr], span: Span) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let size = self.size_to_copy("bcopy", &arguments[2], span)?;
        self.copy_to_own(&arguments[0], &arguments[1], size)?;
        self.frame.release(mark);
        Ok(())
    }

    /// A size in bytes, up to 16 KiB if it is known now.
    fn size_to_copy(&mut self, function: &str, size: &Expr, span: Span) -> Result<Size, CodeError> {
        match size.kind {
            ExprKind::Int(size @ 1..=CONSTANT_MOST) => Ok(Size::Constant(size as u32)),
            ExprKind::Int(_) => {
                let what = format!("{function}() with a size above 16 KiB or of 0");
                Err(CodeError::unsupported(what, span))
            }
            _ => self.size_of_memory(size),
        }
    }

    fn copy_to_own(&mut self, from: &Expr, to: &Expr, size: Size) -> Result<(), CodeError> {
        let bytes = self.frame.buffer(size.most())?;
        self.value(from)?;
        self.read_sized(bytes, size)?;
        self.value(to)?;
        self.own_pointer(size)?;
        self.code.mov(1, 2);
        self.address(3, bytes);
        self.copy_sized(size);
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
        let mark = self.frame.mark();
        let size = self.size_to_copy("copyout", &arguments[2], span)?;
        let bytes = self.frame.buffer(size.most())?;
        self.value(&arguments[0])?;
        self.read_sized(bytes, size)?;
        self.value(&arguments[1])?;
        let to = self.spill()?;
        self.load_size(3, size);
        self.write_user(to, bytes);
        self.frame.release(mark);
        Ok(())
    }

    /// `copyoutstr(text, address, size)`: with its zero, so many bytes at most.
    fn copyoutstr(&mut self, arguments: &[Expr], span: Span) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let most = self.size_to_copy("copyoutstr", &arguments[2], span)?;
        let text = self.string(&arguments[0])?;
        self.value(&arguments[1])?;
        let to = self.spill()?;
        self.length(text)?;
        self.code.mov(3, 0);
        self.code.alu_imm(Alu::Add, 3, 1);
        let all = self.strsize();
        self.at_most(3, all);
        self.load_size(4, most);
        self.at_most(4, all);
        let fits = self.code.label();
        self.code.jump_if(Jump::Le, 3, 4, fits);
        self.code.mov(3, 4);
        self.code.place(fits);
        self.write_user(to, text);
        self.frame.release(mark);
        Ok(())
    }

    /// Writes the target's memory; register 3 has the size.
    fn write_user(&mut self, to: Location, from: Location) {
        let fine = self.code.label();
        self.code.jump_imm(Jump::Eq, 3, 0, fine);
        self.load_word(1, to);
        self.address(2, from);
        self.code.call(op::WRITE_USER);
        self.code.jump_imm(Jump::Eq, 0, 0, fine);
        self.load_word(2, to);
        self.fault(FaultKind::BadAddress);
        self.code.place(fine);
    }
}

fn name(function: Function) -> String {
    format!("{function:?}()").to_lowercase()
}
