//! Where a character or a string is in another.
use super::super::error::CodeError;
use super::super::frame::Location;
use super::super::program::Maker;
use crate::octets;
use crate::span::Span;
use crate::typed::{Expr, ExprKind};
use dwell_abi::program::instruction::{Alu, Jump, Width};

/// In each byte of a word: its highest bit, all others, its lowest.
const HIGH: i64 = 0x8080_8080_8080_8080u64 as i64;
const LOW: i64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Which of several places is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) enum Wanted {
    /// The first one, from that index on.
    First(Option<Location>),
    /// The last one, up to that index.
    Last(Option<Location>),
}

impl Maker<'_, '_> {
    /// `strchr` and `strrchr`: from the character on.
    pub(super) fn strchr(&mut self, arguments: &[Expr], last: bool) -> Result<Location, CodeError> {
        let text = self.string(&arguments[0])?;
        let (wanted, found) = (self.forgotten()?, self.forgotten_constant(-1)?);
        self.value(&arguments[1])?;
        self.cut(0, 1, false);
        self.store_word(wanted, 0);
        self.each_byte(text, |maker, done| {
            let other = maker.code.label();
            maker.load_word(2, wanted);
            maker.code.jump_if(Jump::Ne, 0, 2, other);
            maker.store_word(found, 8);
            if !last {
                maker.code.jump(done);
            }
            maker.code.place(other);
        });
        self.piece(text, found, None)
    }

    pub(super) fn strstr(&mut self, arguments: &[Expr], span: Span) -> Result<Location, CodeError> {
        let text = self.string(&arguments[0])?;
        let found = self.find(text, &arguments[1], Wanted::First(None), span)?;
        self.piece(text, found, None)
    }

    /// `index` and `rindex`: the place into register 0, or -1.
    pub(in crate::codegen) fn index(
        &mut self,
        arguments: &[Expr],
        last: bool,
        span: Span,
    ) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let text = self.string(&arguments[0])?;
        let start = match arguments.get(2) {
            Some(start) => Some(self.start(text, start, last)?),
            None => None,
        };
        let wanted = if last {
            Wanted::Last(start)
        } else {
            Wanted::First(start)
        };
        let found = self.find(text, &arguments[1], wanted, span)?;
        self.load_word(0, found);
        self.frame.release(mark);
        Ok(())
    }

    /// Where a search begins: not beyond the end and, but for the last place, not before the start.
    fn start(&mut self, text: Location, start: &Expr, last: bool) -> Result<Location, CodeError> {
        let at = self.forgotten()?;
        self.signed_value(start)?;
        self.store_word(at, 0);
        self.length(text)?;
        self.load_word(1, at);
        let [fits, fine] = self.code.labels();
        self.code.jump_if(Jump::SLe, 1, 0, fits);
        self.code.mov(1, 0);
        self.code.place(fits);
        if !last {
            self.code.jump_imm(Jump::SGe, 1, 0, fine);
            self.code.constant(1, 0);
            self.code.place(fine);
        }
        self.store_word(at, 1);
        Ok(at)
    }

    /// The index of a string in another, or -1. Eight bytes are compared at once: the masks leave out what is beyond
    /// the end of the one that is looked for.
    fn find(
        &mut self,
        text: Location,
        what: &Expr,
        wanted: Wanted,
        span: Span,
    ) -> Result<Location, CodeError> {
        let size = self.strsize();
        let words = self.words_of(what);
        self.limit_turns(size * words, "searching", span)?;
        let what = self.string(what)?;
        let found = self.forgotten_constant(-1)?;
        let (wide, masks) = (
            self.frame.buffer(size + 8 * words)?,
            self.frame.buffer(8 * words)?,
        );
        self.zero(wide.plus(size), 8 * words);
        self.copy(wide, text, size);
        for word in 0..words {
            self.load_word(0, what.plus(8 * word));
            self.present_bytes();
            self.store_word(masks.plus(8 * word), 0);
        }
        self.each_byte(wide, |maker, done| {
            let other = maker.code.label();
            maker.code.constant(2, 0);
            maker.address(4, what);
            for word in 0..words {
                let distance = 8 * word as i16;
                maker.code.load(Width::W8, 0, 1, distance);
                maker.code.load(Width::W8, 3, 4, distance);
                maker.code.alu(Alu::Xor, 0, 3);
                maker.load_word(3, masks.plus(8 * word));
                maker.code.alu(Alu::And, 0, 3);
                maker.code.alu(Alu::Or, 2, 0);
            }
            maker.code.jump_imm(Jump::Ne, 2, 0, other);
            match wanted {
                Wanted::First(Some(start)) => {
                    maker.load_word(3, start);
                    maker.code.jump_if(Jump::SGt, 3, 8, other);
                }
                Wanted::Last(Some(start)) => {
                    maker.load_word(3, start);
                    maker.code.jump_if(Jump::SLt, 3, 8, done);
                }
                _ => {}
            }
            maker.store_word(found, 8);
            if let Wanted::First(_) = wanted {
                maker.code.jump(done);
            }
            maker.code.place(other);
        });
        if let Wanted::Last(Some(start)) = wanted {
            self.empty_before(what, start, found);
        }
        Ok(found)
    }

    /// Words of 8 bytes that a string may have without its zero.
    fn words_of(&self, what: &Expr) -> u32 {
        let size = self.strsize();
        match &what.kind {
            ExprKind::String(literal) => {
                let length = octets::bytes_of(literal).len() as u32;
                length.min(size).div_ceil(8)
            }
            _ => size / 8,
        }
    }

    /// As in Perl, the empty string is even found before the start.
    fn empty_before(&mut self, what: Location, start: Location, found: Location) {
        let no = self.code.label();
        self.load_word(0, start);
        self.code.jump_imm(Jump::SGe, 0, 0, no);
        self.load_at(Width::W1, 0, what);
        self.code.jump_imm(Jump::Ne, 0, 0, no);
        self.store_constant(found, 0);
        self.code.place(no);
    }

    /// Each byte of register 0 that is not zero becomes 255.
    fn present_bytes(&mut self) {
        self.code.mov(1, 0);
        self.code.constant(2, LOW);
        self.code.alu(Alu::And, 1, 2);
        self.code.alu(Alu::Add, 1, 2);
        self.code.alu(Alu::Or, 0, 1);
        self.code.constant(2, HIGH);
        self.code.alu(Alu::And, 0, 2);
        self.code.alu_imm(Alu::Rsh, 0, 7);
        self.code.alu_imm(Alu::Mul, 0, 255);
    }
}
