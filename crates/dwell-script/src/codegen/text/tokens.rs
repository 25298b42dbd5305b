//! `strtok`. What is left of a string lasts to the end of the firing.
use super::super::error::CodeError;
use super::super::frame::Location;
use super::super::program::Maker;
use crate::typed::{Expr, ExprKind};
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width};

/// A byte for each character: whether it ends tokens.
const SET: u32 = 256;

impl Maker<'_, '_> {
    pub(super) fn strtok(&mut self, arguments: &[Expr]) -> Result<Location, CodeError> {
        let (text, at) = self.token_state()?;
        if !matches!(arguments[0].kind, ExprKind::Int(0)) {
            let mark = self.frame.mark();
            let from = self.string(&arguments[0])?;
            let size = self.strsize();
            self.copy(text, from, size);
            self.store_constant(at, 0);
            self.frame.release(mark);
        }
        let set = self.frame.buffer(SET)?;
        self.separators(set, &arguments[1])?;
        let (start, length) = (self.forgotten_constant(-1)?, self.forgotten_constant(0)?);
        self.next_token(text, at, set, (start, length));
        self.piece(text, start, Some(length))
    }

    /// No string is being read at a firing's start.
    pub(in crate::codegen) fn start_tokens(&mut self) -> Result<(), CodeError> {
        if !self.frame.has_slot {
            return Err(CodeError::TooDeep);
        }
        let size = self.strsize();
        let text = self.frame.buffer(size + 8)?;
        self.zero(text, size + 8);
        self.tokens = Some((text, text.plus(size)));
        Ok(())
    }

    /// Where the string and the index of its rest are: the same for the whole firing.
    fn token_state(&mut self) -> Result<(Location, Location), CodeError> {
        self.tokens.ok_or(CodeError::TooDeep)
    }

    /// Marks the characters of a string.
    fn separators(&mut self, set: Location, characters: &Expr) -> Result<(), CodeError> {
        let characters = self.string(characters)?;
        self.zero(set, SET);
        self.each_byte(characters, |maker, _| {
            maker.address(2, set);
            maker.code.alu(Alu::Add, 2, 0);
            maker.code.emit(Instruction::store_imm(Width::W1, 2, 0, 1));
        });
        Ok(())
    }

    /// Finds the next token, and moves on to the separator behind it: as in dtrace, it belongs to what is left, in case
    /// that the next call has other separators. The zero at the end is a separator too.
    fn next_token(
        &mut self,
        text: Location,
        at: Location,
        set: Location,
        (start, length): (Location, Location),
    ) {
        self.each_byte(text, |maker, done| {
            let (next, begins, ended) =
                (maker.code.label(), maker.code.label(), maker.code.label());
            maker.load_word(2, at);
            maker.code.jump_if(Jump::Gt, 2, 8, next);
            maker.address(2, set);
            maker.code.alu(Alu::Add, 2, 0);
            maker.code.load(Width::W1, 2, 2, 0);
            maker.load_word(3, start);
            maker.code.jump_imm(Jump::SLt, 3, 0, begins);
            maker.code.jump_imm(Jump::Ne, 2, 0, ended);
            maker.code.jump(next);
            maker.code.place(ended);
            maker.code.mov(4, 8);
            maker.code.alu(Alu::Sub, 4, 3);
            maker.store_word(length, 4);
            maker.store_word(at, 8);
            maker.code.jump(done);
            maker.code.place(begins);
            maker.code.jump_imm(Jump::Ne, 2, 0, next);
            maker.store_word(start, 8);
            maker.code.place(next);
        });
        // At the end of the string there is nothing left.
        self.address(1, text);
        self.code.alu(Alu::Add, 1, 8);
        let more = self.code.label();
        self.code.load(Width::W1, 0, 1, 0);
        self.code.jump_imm(Jump::Ne, 0, 0, more);
        self.store_word(at, 8);
        self.code.place(more);
    }
}
