//! Functions on strings. Loops count in register 8, of which the kernel's verifier knows no more than a bound: so all
//! turns look alike to it, and it follows one or two. What they find is kept in the slot, where the verifier forgets
//! what it knows of a value: else it would follow what comes after a loop once for each number of turns.
mod argstr;
mod case;
mod cleanpath;
mod internet6;
mod numbers;
mod paths;
mod pieces;
mod search;
mod tokens;

use super::assembler::Label;
use super::error::CodeError;
use super::frame::Location;
use super::program::{FaultKind, Maker};
use crate::span::Span;
use crate::typed::{Expr, ExprKind, Function};
use dwell_abi::program::instruction::{Alu, Jump, Width};

/// The most turns of all loops of a function: the verifier follows a million instructions.
const TURNS: u32 = 64 << 10;

impl Maker<'_, '_> {
    /// A function that gives a string; none if it is not of these.
    pub(super) fn text_call(
        &mut self,
        function: Function,
        arguments: &[Expr],
        span: Span,
    ) -> Option<Result<Location, CodeError>> {
        Some(match function {
            Function::Strjoin => self.strjoin(&arguments[0], &arguments[1]),
            Function::Substr => self.substr(arguments),
            Function::Strchr => self.strchr(arguments, false),
            Function::Strrchr => self.strchr(arguments, true),
            Function::Strstr => self.strstr(arguments, span),
            Function::Strtok => self.strtok(arguments),
            Function::Basename => self.basename(&arguments[0]),
            Function::Dirname => self.dirname(&arguments[0]),
            Function::Tolower => self.changed_case(&arguments[0], b'A'),
            Function::Toupper => self.changed_case(&arguments[0], b'a'),
            Function::Lltostr => self.lltostr(arguments, span),
            Function::InetNtoa => self.inet_ntoa(&arguments[0]),
            Function::InetNtoa6 => self.inet_ntoa6(&arguments[0]),
            Function::Cleanpath => self.cleanpath(&arguments[0]),
            Function::Argstr => self.argstr(arguments),
            Function::InetNtop => self.inet_ntop(arguments, span),
            _ => return None,
        })
    }

    /// A word whose value the verifier does not follow.
    fn forgotten(&mut self) -> Result<Location, CodeError> {
        if !self.frame.has_slot {
            return Err(CodeError::TooDeep);
        }
        self.frame.buffer(8)
    }

    /// Likewise, with a constant in it.
    fn forgotten_constant(&mut self, value: i32) -> Result<Location, CodeError> {
        let at = self.forgotten()?;
        self.store_constant(at, value);
        Ok(at)
    }

    /// Runs code for each byte of a text up to its zero and with it: register 8 has its index, register 1 its address,
    /// register 0 the byte. `body` may lose registers 2 to 5; it is given the label of the end.
    fn each_byte(&mut self, text: Location, body: impl FnOnce(&mut Self, Label)) {
        let done = self.code.label();
        let again = self.begin_loop(0, self.strsize().next_power_of_two());
        self.address(1, text);
        self.code.alu(Alu::Add, 1, 8);
        self.code.load(Width::W1, 0, 1, 0);
        body(self, done);
        self.address(1, text);
        self.code.alu(Alu::Add, 1, 8);
        self.code.load(Width::W1, 0, 1, 0);
        self.code.jump_imm(Jump::Eq, 0, 0, done);
        self.code.alu_imm(Alu::Add, 8, 1);
        let size = self.strsize() as i32;
        self.code.jump_imm(Jump::Lt, 8, size, again);
        self.code.place(done);
    }

    /// The head of a loop that register 8 counts, beginning with a number. All that the verifier is told of it is that
    /// it is below `bound`, a power of two.
    fn begin_loop(&mut self, first: u8, bound: u32) -> Label {
        let [again, late] = self.code.labels();
        let first = self.generator.layout.constant(&[first], 8);
        self.load_word(8, Location::Memory(first));
        self.code.alu_imm(Alu::And, 8, bound as i32 - 1);
        self.code.jump(again);
        self.code.place(late);
        self.code.constant(2, 0);
        self.fault(FaultKind::IllegalOperation);
        self.code.place(again);
        self.code.may_give_up(late);
        again
    }

    /// Refuses a loop that the verifier would not follow to its end.
    fn limit_turns(&self, turns: u32, what: &str, span: Span) -> Result<(), CodeError> {
        if turns <= TURNS {
            return Ok(());
        }
        let what = format!("{what}() of strings of this size (lower the option strsize)");
        Err(CodeError::unsupported(what, span))
    }
}

/// A number that is known now, or what is used without one.
fn constant(argument: Option<&Expr>, otherwise: i64) -> Option<i64> {
    match argument.map(|e| &e.kind) {
        None => Some(otherwise),
        Some(ExprKind::Int(value)) => Some(*value),
        Some(_) => None,
    }
}
