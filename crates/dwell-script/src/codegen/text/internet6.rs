//! `inet_ntoa6`: addresses of 16 bytes, as RFC 5952 writes them.
use super::super::error::CodeError;
use super::super::frame::Location;
use super::super::program::Maker;
use crate::typed::Expr;
use dwell_abi::program::Instruction;
use dwell_abi::program::instruction::{Alu, Jump, Width};

const GROUPS: i32 = 8;
const DIGITS: i32 = 4;
/// In front of addresses that are really of four bytes.
const MAPPED: &[u8; 8] = b"::ffff:\0";
/// More than any index in the text, and never beyond the memory for it.
const INDEX_MASK: i32 = 63;

/// The longest run of groups that are zero; the last one is before the first if there is none worth leaving out.
struct Run {
    first: Location,
    last: Location,
}

impl Maker<'_, '_> {
    pub(super) fn inet_ntoa6(&mut self, address: &Expr) -> Result<Location, CodeError> {
        let to = self
            .frame
            .buffer(self.strsize().max(INDEX_MASK as u32 + 1))?;
        let mark = self.frame.mark();
        let (at, bytes) = (self.forgotten()?, self.frame.buffer(16)?);
        self.zero_string(to);
        self.value(address)?;
        self.read_bytes(bytes, 16)?;
        self.store_constant(at, 0);
        let [plain, done] = self.code.labels();
        self.load_word(0, bytes);
        self.code.jump_imm(Jump::Ne, 0, 0, plain);
        self.load_at(Width::W4, 0, bytes.plus(8));
        self.code.constant(1, 0xffff_0000);
        self.code.jump_if(Jump::Ne, 0, 1, plain);
        self.code.constant(0, i64::from_le_bytes(*MAPPED));
        self.store_word(to, 0);
        self.store_constant(at, MAPPED.len() as i32 - 1);
        self.dotted(to, bytes.plus(12), at);
        self.code.jump(done);
        self.code.place(plain);
        let run = self.longest_run(bytes)?;
        self.groups(to, at, bytes, &run);
        self.code.place(done);
        self.frame.release(mark);
        Ok(to)
    }

    fn longest_run(&mut self, bytes: Location) -> Result<Run, CodeError> {
        let (longest, current) = (self.forgotten_constant(0)?, self.forgotten_constant(0)?);
        let (first, last) = (self.forgotten_constant(0)?, self.forgotten_constant(-1)?);
        let [other, next, worth] = self.code.labels();
        let again = self.begin_loop(0, GROUPS as u32);
        self.code.mov(2, 8);
        self.group(bytes);
        self.code.jump_imm(Jump::Ne, 0, 0, other);
        self.load_word(2, current);
        self.code.alu_imm(Alu::Add, 2, 1);
        self.store_word(current, 2);
        self.load_word(3, longest);
        self.code.jump_if(Jump::Le, 2, 3, next);
        self.store_word(longest, 2);
        self.store_word(last, 8);
        self.code.jump(next);
        self.code.place(other);
        self.store_constant(current, 0);
        self.code.place(next);
        self.code.alu_imm(Alu::Add, 8, 1);
        self.code.jump_imm(Jump::Lt, 8, GROUPS, again);
        self.load_word(0, last);
        self.load_word(1, longest);
        self.code.jump_imm(Jump::Gt, 1, 1, worth);
        self.store_constant(last, -1);
        self.code.constant(0, -1);
        self.code.constant(1, 0);
        self.code.place(worth);
        self.code.alu(Alu::Sub, 0, 1);
        self.code.alu_imm(Alu::Add, 0, 1);
        self.store_word(first, 0);
        Ok(Run { first, last })
    }

    /// The group whose number is in register 2, below 8, into register 0, as it is in memory.
    fn group(&mut self, bytes: Location) {
        self.code.alu_imm(Alu::Lsh, 2, 1);
        self.address(1, bytes);
        self.code.alu(Alu::Add, 1, 2);
        self.code.load(Width::W2, 0, 1, 0);
    }

    /// All digits and colons. Register 8 counts digits.
    fn groups(&mut self, to: Location, at: Location, bytes: Location, run: &Run) {
        let [outside, digit, show, decimal, next, done] = self.code.labels();
        let again = self.begin_loop(0, (GROUPS * DIGITS) as u32);
        self.code.mov(4, 8);
        self.code.alu_imm(Alu::Rsh, 4, 2);
        self.code.mov(0, 8);
        self.code.alu_imm(Alu::And, 0, DIGITS - 1);
        self.load_word(2, run.first);
        self.code.jump_if(Jump::SLt, 4, 2, outside);
        self.load_word(3, run.last);
        self.code.jump_if(Jump::SGt, 4, 3, outside);
        self.code.jump_if(Jump::Ne, 4, 2, next);
        self.code.jump_imm(Jump::Ne, 0, 0, next);
        self.put_character(to, at, Some(b':'));
        self.code.jump(next);
        self.code.place(outside);
        self.code.jump_imm(Jump::Ne, 0, 0, digit);
        self.code.jump_imm(Jump::Eq, 8, 0, digit);
        self.put_character(to, at, Some(b':'));
        self.code.place(digit);
        self.code.mov(2, 8);
        self.code.alu_imm(Alu::Rsh, 2, 2);
        self.group(bytes);
        self.code.emit(Instruction::swap(0, 16));
        self.code.mov(2, 8);
        self.code.alu_imm(Alu::And, 2, DIGITS - 1);
        self.code.constant(3, i64::from(DIGITS) - 1);
        self.code.alu(Alu::Sub, 3, 2);
        self.code.alu_imm(Alu::Lsh, 3, 2);
        self.code.alu(Alu::Rsh, 0, 3);
        self.code.jump_imm(Jump::Ne, 0, 0, show);
        self.code.jump_imm(Jump::Ne, 2, DIGITS - 1, next);
        self.code.place(show);
        self.code.alu_imm(Alu::And, 0, 15);
        self.code.jump_imm(Jump::Le, 0, 9, decimal);
        self.code
            .alu_imm(Alu::Add, 0, i32::from(b'a') - 10 - i32::from(b'0'));
        self.code.place(decimal);
        self.code.alu_imm(Alu::Add, 0, b'0'.into());
        self.put_character(to, at, None);
        self.code.place(next);
        self.code.alu_imm(Alu::Add, 8, 1);
        self.code.jump_imm(Jump::Lt, 8, GROUPS * DIGITS, again);
        self.load_word(0, run.last);
        self.code.jump_imm(Jump::Ne, 0, GROUPS - 1, done);
        self.put_character(to, at, Some(b':'));
        self.code.place(done);
    }

    /// Appends a character, or the one in register 0. Registers 1 and 2 are lost.
    fn put_character(&mut self, to: Location, at: Location, character: Option<u8>) {
        if let Some(character) = character {
            self.code.constant(0, character.into());
        }
        self.load_word(1, at);
        self.code.alu_imm(Alu::And, 1, INDEX_MASK);
        self.address(2, to);
        self.code.alu(Alu::Add, 2, 1);
        self.code.store(Width::W1, 2, 0, 0);
        self.code.alu_imm(Alu::Add, 1, 1);
        self.store_word(at, 1);
    }
}
