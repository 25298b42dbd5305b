//! D's functions, and what is done where the probe fires.
use super::error::CodeError;
use super::frame::Location;
use super::program::Maker;
use crate::span::Span;
use crate::typed::*;
use dwell_abi::program::instruction::{Alu, Instruction, Jump};
use dwell_abi::program::operation as op;

/// The signal of `stop()`.
const SIGSTOP: i64 = 19;

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
            _ => return Err(CodeError::unsupported(name(function), e.span)),
        }
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
            _ => Err(CodeError::unsupported(name(function), span)),
        }
    }

    /// The length, by reading the string onto itself: what reads strings tells it.
    fn strlen(&mut self, text: &Expr) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let from = self.string(text)?;
        let to = self.new_string()?;
        self.address(1, to);
        let size = self.strsize();
        self.code.constant(2, i64::from(size));
        self.address(3, from);
        self.code.call(op::READ_KERNEL_STRING);
        let fine = self.code.label();
        self.code.jump_imm(Jump::SGt, 0, 0, fine);
        self.code.constant(0, 1);
        self.code.place(fine);
        self.code.alu_imm(Alu::Sub, 0, 1);
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

    /// Actions that are done where the probe fires.
    pub(super) fn act(&mut self, act: Act, arguments: &[Expr]) -> Result<(), CodeError> {
        match act {
            Act::Stop => self.code.constant(0, SIGSTOP),
            Act::Raise => self.value(&arguments[0])?,
            Act::Chill | Act::Copyout | Act::Copyoutstr => {
                let span = arguments.first().map_or(Span::default(), |e| e.span);
                return Err(CodeError::unsupported(
                    format!("{act:?}()").to_lowercase(),
                    span,
                ));
            }
        }
        self.code.mov(1, 0);
        self.code.call(op::SIGNAL);
        Ok(())
    }
}

fn name(function: Function) -> String {
    format!("{function:?}()").to_lowercase()
}
