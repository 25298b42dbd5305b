//! Paths.
use super::super::error::CodeError;
use super::super::frame::Location;
use super::super::program::Maker;
use crate::typed::Expr;
use dwell_abi::program::instruction::{Alu, Jump, Width};

/// What is known of a path's last component, once it was read. Indices are -1 where there is none.
struct Last {
    /// Where it begins, and where it ends.
    start: Location,
    end: Location,
    /// Where the one before it ends.
    before: Location,
}

impl Maker<'_, '_> {
    pub(super) fn basename(&mut self, path: &Expr) -> Result<Location, CodeError> {
        let path = self.string(path)?;
        let last = self.last_component(path)?;
        let length = self.forgotten()?;
        self.load_word(0, last.end);
        self.load_word(1, last.start);
        self.code.alu(Alu::Sub, 0, 1);
        self.store_word(length, 0);
        let name = self.piece(path, last.start, Some(length))?;
        let found = self.code.label();
        self.load_word(0, last.start);
        self.code.jump_imm(Jump::SGe, 0, 0, found);
        self.root_or_here(path, name);
        self.code.place(found);
        Ok(name)
    }

    pub(super) fn dirname(&mut self, path: &Expr) -> Result<Location, CodeError> {
        let path = self.string(path)?;
        let last = self.last_component(path)?;
        let zero = self.forgotten_constant(0)?;
        // Without a component before the last one, the length is -1 and nothing is copied.
        let folder = self.piece(path, zero, Some(last.before))?;
        let found = self.code.label();
        self.load_word(0, last.before);
        self.code.jump_imm(Jump::SGe, 0, 0, found);
        self.root_or_here(path, folder);
        self.code.place(found);
        Ok(folder)
    }

    /// `/` for a path that begins so, else `.`.
    fn root_or_here(&mut self, path: Location, to: Location) {
        let root = self.code.label();
        self.load_at(Width::W1, 0, path);
        self.code.jump_imm(Jump::Eq, 0, b'/'.into(), root);
        self.code.constant(0, b'.'.into());
        self.code.place(root);
        self.store_at(Width::W1, to, 0);
    }

    fn last_component(&mut self, path: Location) -> Result<Last, CodeError> {
        let last = Last {
            start: self.forgotten_constant(-1)?,
            end: self.forgotten_constant(-1)?,
            before: self.forgotten_constant(-1)?,
        };
        let inside = self.forgotten_constant(0)?;
        self.each_byte(path, |maker, done| {
            let [slash, known, next] = maker.code.labels();
            maker.code.jump_imm(Jump::Eq, 0, 0, done);
            maker.code.jump_imm(Jump::Eq, 0, b'/'.into(), slash);
            maker.load_word(2, inside);
            maker.code.jump_imm(Jump::Ne, 2, 0, known);
            maker.store_constant(inside, 1);
            maker.load_word(2, last.end);
            maker.store_word(last.before, 2);
            maker.store_word(last.start, 8);
            maker.code.place(known);
            maker.code.mov(2, 8);
            maker.code.alu_imm(Alu::Add, 2, 1);
            maker.store_word(last.end, 2);
            maker.code.jump(next);
            maker.code.place(slash);
            maker.store_constant(inside, 0);
            maker.code.place(next);
        });
        Ok(last)
    }
}
