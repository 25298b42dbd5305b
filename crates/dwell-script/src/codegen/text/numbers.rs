//! Numbers as text, and text as numbers.
use super::super::error::CodeError;
use super::super::frame::Location;
use super::super::program::Maker;
use super::constant;
use crate::span::Span;
use crate::typed::Expr;
use dwell_abi::program::instruction::{Alu, Jump, Width};
use dwell_abi::program::operation as op;

/// Room for the digits of any number in any base, for what stands before them, and for a zero.
const DIGITS: u32 = 72;
/// One more than the largest base.
const BASES: std::ops::Range<i64> = 2..37;
/// `AF_INET`.
const INTERNET: i64 = 2;
/// Likewise, AF_INET6.
const INTERNET_6: i64 = 10;
/// More than any index in the text of an address.
const MOST_INDEX: i32 = 31;
/// Bytes of `255` and its zero.
const PART: u32 = 4;

impl Maker<'_, '_> {
    /// `lltostr(number, base)`, with the marks of C for bases 8 and 16.
    pub(super) fn lltostr(
        &mut self,
        arguments: &[Expr],
        span: Span,
    ) -> Result<Location, CodeError> {
        let base = self.base_of("lltostr", arguments.get(1), span)?;
        let digits = self.frame.buffer(DIGITS)?;
        let (start, negative) = (self.forgotten()?, self.forgotten_constant(0)?);
        self.zero(digits, DIGITS);
        self.signed_value(&arguments[0])?;
        if base == 10 {
            let positive = self.code.label();
            self.code.jump_imm(Jump::SGe, 0, 0, positive);
            self.code.alu_imm(Alu::Neg, 0, 0);
            self.store_constant(negative, 1);
            self.code.place(positive);
        }
        self.store_word(start, 0);
        self.put_digits(digits, base);
        match base {
            8 => {
                let zero = self.code.label();
                self.load_word(1, start);
                self.code.jump_imm(Jump::Eq, 1, 0, zero);
                self.put_before(digits, b"0");
                self.code.place(zero);
            }
            10 => {
                let positive = self.code.label();
                self.load_word(1, negative);
                self.code.jump_imm(Jump::Eq, 1, 0, positive);
                self.put_before(digits, b"-");
                self.code.place(positive);
            }
            16 => self.put_before(digits, b"x0"),
            _ => {}
        }
        self.store_word(start, 8);
        self.piece(digits, start, None)
    }

    fn base_of(
        &self,
        function: &str,
        argument: Option<&Expr>,
        span: Span,
    ) -> Result<i32, CodeError> {
        let base = constant(argument, 10).filter(|base| BASES.contains(base));
        let what = || format!("{function}() with a base that is no constant from 2 to 36");
        base.map(|base| base as i32)
            .ok_or_else(|| CodeError::unsupported(what(), span))
    }

    /// The digits of register 0, from the end; register 8 becomes the index of the first.
    fn put_digits(&mut self, digits: Location, base: i32) {
        let [small, done] = self.code.labels();
        let again = self.begin_loop(DIGITS as u8 - 2, DIGITS.next_power_of_two());
        self.code.mov(1, 0);
        self.code.alu_imm(Alu::Mod, 1, base);
        self.code.alu_imm(Alu::Div, 0, base);
        self.code.jump_imm(Jump::Le, 1, 9, small);
        self.code.alu_imm(Alu::Add, 1, i32::from(b'a' - b'0' - 10));
        self.code.place(small);
        self.code.alu_imm(Alu::Add, 1, b'0'.into());
        self.address(2, digits);
        self.code.alu(Alu::Add, 2, 8);
        self.code.store(Width::W1, 2, 0, 1);
        self.code.jump_imm(Jump::Eq, 0, 0, done);
        self.code.alu_imm(Alu::Sub, 8, 1);
        self.code.jump_imm(Jump::SGt, 8, 4, again);
        self.code.place(done);
    }

    /// Characters before those at register 8, the nearest first.
    fn put_before(&mut self, digits: Location, characters: &[u8]) {
        for character in characters {
            self.code.alu_imm(Alu::Sub, 8, 1);
            // There is room; the verifier does not know that.
            let bound = DIGITS.next_power_of_two() as i32;
            self.code.alu_imm(Alu::And, 8, bound - 1);
            self.put_byte(digits, *character);
        }
    }

    /// `strtoll(text, base)` into register 0. What is too large becomes the largest number, as in C.
    pub(in crate::codegen) fn strtoll(
        &mut self,
        arguments: &[Expr],
        span: Span,
    ) -> Result<(), CodeError> {
        let mark = self.frame.mark();
        let base = self.base_of("strtoll", arguments.get(1), span)?;
        let text = self.string(&arguments[0])?;
        let (digits, negative, sum) = (
            self.forgotten_constant(-1)?,
            self.forgotten_constant(0)?,
            self.forgotten_constant(0)?,
        );
        self.each_byte(text, |maker, done| {
            let [next, number, sign] = maker.code.labels();
            maker.load_word(2, digits);
            maker.code.jump_imm(Jump::SGe, 2, 0, number);
            // Before the number: blanks, then a sign.
            maker.code.jump_imm(Jump::Eq, 0, b' '.into(), next);
            maker.code.mov(3, 0);
            maker.code.alu_imm(Alu::Sub, 3, 9);
            maker.code.jump_imm(Jump::Le, 3, 4, next);
            maker.store_constant(digits, 0);
            maker.code.jump_imm(Jump::Eq, 0, b'+'.into(), next);
            maker.code.jump_imm(Jump::Ne, 0, b'-'.into(), number);
            maker.store_constant(negative, 1);
            maker.code.jump(next);
            maker.code.place(number);
            if base == 16 {
                maker.skip_x(digits, sum, next);
            }
            maker.digit(base, done);
            maker.load_word(2, digits);
            maker.code.alu_imm(Alu::Add, 2, 1);
            maker.store_word(digits, 2);
            maker.load_word(2, sum);
            maker.code.constant(3, i64::MAX / i64::from(base));
            maker.code.jump_if(Jump::Gt, 2, 3, sign);
            maker.code.alu_imm(Alu::Mul, 2, base);
            maker.code.alu(Alu::Add, 2, 0);
            maker.code.jump_imm(Jump::SLt, 2, 0, sign);
            maker.store_word(sum, 2);
            maker.code.jump(next);
            maker.code.place(sign);
            maker.code.constant(2, -1);
            maker.store_word(sum, 2);
            maker.code.jump(done);
            maker.code.place(next);
        });
        self.with_sign(sum, negative);
        self.frame.release(mark);
        Ok(())
    }

    /// `0x` before a number of base 16 is no part of it.
    fn skip_x(&mut self, digits: Location, sum: Location, next: super::super::assembler::Label) {
        let no = self.code.label();
        self.code.mov(2, 0);
        self.code.alu_imm(Alu::Or, 2, 0x20);
        self.code.jump_imm(Jump::Ne, 2, b'x'.into(), no);
        self.load_word(2, digits);
        self.code.jump_imm(Jump::Ne, 2, 1, no);
        self.load_word(3, sum);
        self.code.jump_imm(Jump::Ne, 3, 0, no);
        self.code.alu_imm(Alu::Add, 2, 1);
        self.store_word(digits, 2);
        self.code.jump(next);
        self.code.place(no);
    }

    /// The character in register 0 becomes the digit it is; what is none ends the number.
    fn digit(&mut self, base: i32, done: super::super::assembler::Label) {
        let decimal = self.code.label();
        self.code.mov(2, 0);
        self.code.alu_imm(Alu::Sub, 0, b'0'.into());
        self.code.jump_imm(Jump::Le, 0, 9, decimal);
        self.code.mov(0, 2);
        self.code.alu_imm(Alu::Or, 0, 0x20);
        self.code.alu_imm(Alu::Sub, 0, b'a'.into());
        self.code.jump_imm(Jump::Gt, 0, 25, done);
        self.code.alu_imm(Alu::Add, 0, 10);
        self.code.place(decimal);
        self.code.jump_imm(Jump::Ge, 0, base, done);
    }

    /// Register 0 = the sum with its sign; a negative sum is one that was too large.
    fn with_sign(&mut self, sum: Location, negative: Location) {
        let [fits, done] = self.code.labels();
        self.load_word(0, sum);
        self.load_word(1, negative);
        self.code.jump_imm(Jump::SGe, 0, 0, fits);
        // The largest number, or -1 less it.
        self.code.constant(0, i64::MAX);
        self.code.alu(Alu::Add, 0, 1);
        self.code.jump(done);
        self.code.place(fits);
        self.code.jump_imm(Jump::Eq, 1, 0, done);
        self.code.alu_imm(Alu::Neg, 0, 0);
        self.code.place(done);
    }

    /// `inet_ntoa(pointer)`: an address of four bytes.
    pub(super) fn inet_ntoa(&mut self, address: &Expr) -> Result<Location, CodeError> {
        let to = self.new_string()?;
        let mark = self.frame.mark();
        let (bytes, at) = (self.forgotten()?, self.forgotten()?);
        self.zero_string(to);
        self.store_constant(bytes, 0);
        self.value(address)?;
        self.read_bytes(bytes, 4)?;
        self.store_constant(at, 0);
        self.dotted(to, bytes, at);
        self.frame.release(mark);
        Ok(to)
    }

    /// Four bytes as numbers with dots between them, from an index of the text on.
    pub(super) fn dotted(&mut self, to: Location, bytes: Location, at: Location) {
        let parts = self.part_table();
        for index in 0..4 {
            self.load_word(4, at);
            self.code.alu_imm(Alu::And, 4, MOST_INDEX);
            self.address(1, to);
            self.code.alu(Alu::Add, 1, 4);
            if index > 0 {
                use dwell_abi::program::Instruction;
                let dot = Instruction::store_imm(Width::W1, 1, 0, b'.'.into());
                self.code.emit(dot);
                self.code.alu_imm(Alu::Add, 1, 1);
                self.code.alu_imm(Alu::Add, 4, 1);
                self.store_word(at, 4);
            }
            self.load_at(Width::W1, 4, bytes.plus(index));
            self.code.alu_imm(Alu::Mul, 4, PART as i32);
            self.address(3, Location::Memory(parts));
            self.code.alu(Alu::Add, 3, 4);
            self.code.constant(2, PART.into());
            self.code.call(op::READ_KERNEL_STRING);
            self.load_word(1, at);
            self.code.alu(Alu::Add, 0, 1);
            self.code.alu_imm(Alu::Sub, 0, 1);
            self.store_word(at, 0);
        }
    }

    /// The text of each byte.
    fn part_table(&mut self) -> u32 {
        let mut table = Vec::new();
        for byte in 0..=255u8 {
            let mut text = byte.to_string().into_bytes();
            text.resize(PART as usize, 0);
            table.extend(text);
        }
        let size = table.len() as u32;
        self.generator.layout.constant(&table, size)
    }

    pub(super) fn inet_ntop(
        &mut self,
        arguments: &[Expr],
        span: Span,
    ) -> Result<Location, CodeError> {
        match constant(arguments.first(), 0) {
            Some(INTERNET) => self.inet_ntoa(&arguments[1]),
            Some(INTERNET_6) => self.inet_ntoa6(&arguments[1]),
            _ => Err(CodeError::unsupported(
                "inet_ntop() of another family than AF_INET and AF_INET6",
                span,
            )),
        }
    }
}
