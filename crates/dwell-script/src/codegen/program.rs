//! One program: its start, its clauses, its end, and what happens on errors.
use super::assembler::{Assembler, Label};
use super::error::CodeError;
use super::frame::{Frame, Location, SLOT_SIZE, SLOTS};
use super::layout::control;
use super::site::{Numbering, Site};
use super::{Generator, SLOT_STORE};
use crate::typed::{Script, VariableId};
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width, atomic};
use dwell_abi::program::{Program, operation as op};
use std::collections::HashMap;

/// The clause of a record that tells of an error: its data are an [`ErrorRecord`].
pub const ERROR_CLAUSE: u32 = u32::MAX;

/// What a record of an error says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct ErrorRecord {
    /// The clause that was ended.
    pub clause: u32,
    /// What happened, as dtrace numbers faults: 1 for an address that cannot be read, 4 for a division by zero.
    pub fault: u16,
    /// In which statement of the clause, from 1; 0 for its predicate.
    pub action: u16,
    /// The address, or 0.
    pub address: u64,
}

impl ErrorRecord {
    /// From a record's data; none if they are too short.
    pub fn from_bytes(bytes: &[u8]) -> Option<ErrorRecord> {
        let (clause, rest) = bytes.split_first_chunk()?;
        let (fault, rest) = rest.split_first_chunk()?;
        let (action, rest) = rest.split_first_chunk()?;
        Some(ErrorRecord {
            clause: u32::from_le_bytes(*clause),
            fault: u16::from_le_bytes(*fault),
            action: u16::from_le_bytes(*action),
            address: u64::from_le_bytes(*rest.first_chunk()?),
        })
    }
}

/// What can happen. The numbers are dtrace's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    BadAddress = 1,
    /// A loop that the kernel ended, since the program had run for too long.
    IllegalOperation = 3,
    DivisionByZero = 4,
    NoScratch = 5,
}

/// Slots that a firing tries.
const TRIES: i32 = 8;

/// Makes one program.
pub(super) struct Maker<'a, 's> {
    pub(super) generator: &'a mut Generator<'s>,
    pub(super) script: &'s Script,
    pub(super) site: Site,
    pub(super) code: Assembler,
    pub(super) frame: Frame,
    /// `this->` variables.
    pub(super) locals: HashMap<VariableId, Location>,
    /// The time stamp of the firing, once somebody asked; 0 before.
    pub(super) time: Option<Location>,
    /// The clause.
    pub(super) clause: usize,
    /// The statement, from 1; 0 in a predicate.
    pub(super) action: u16,
    /// What failed, where, and whereto then: the end of the clause.
    pub(super) failure: Failure,
    /// In a clause of ERROR: the clause that failed, and how.
    pub(super) failed: Option<(usize, Failure)>,
    /// It calls [`op::USER_STACK`].
    pub(super) takes_user_stacks: bool,
    /// Whether 32-bit code made the system call, where programs learn that.
    pub(super) is_32_bit: Option<Location>,
    /// Where `strtok` goes on: the string, and how far it has been read; see `tokens.rs`.
    pub(super) tokens: Option<(Location, Location)>,
}

/// Where an error's facts go. Both are written just before the jump.
#[derive(Debug, Clone, Copy)]
pub(super) struct Failure {
    pub(super) address: Location,
    pub(super) kind: Location,
    pub(super) label: Label,
}

/// Makes the program for a kind of probe and these clauses.
pub(super) fn generate(
    generator: &mut Generator<'_>,
    site: Site,
    numbering: &Numbering,
    clauses: &[usize],
    has_slot: bool,
) -> Result<Program, CodeError> {
    let mut code = Assembler::default();
    let mut frame = Frame::new(has_slot);
    let label = code.label();
    let (address, kind) = (frame.temporary()?, frame.temporary()?);
    let failure = Failure {
        address,
        kind,
        label,
    };
    let script = generator.script;
    let mut maker = Maker {
        generator,
        script,
        site,
        code,
        frame,
        locals: HashMap::new(),
        time: None,
        clause: 0,
        action: 0,
        failure,
        failed: None,
        takes_user_stacks: false,
        is_32_bit: None,
        tokens: None,
    };
    maker.whole(numbering, clauses)?;
    if maker.takes_user_stacks && maker.frame.most_stack() > op::USER_STACK_ROOM {
        return Err(CodeError::TooDeep);
    }
    maker.code.place(label);
    Ok(Program {
        code: maker.code.finish()?,
    })
}

impl Maker<'_, '_> {
    fn whole(&mut self, numbering: &Numbering, clauses: &[usize]) -> Result<(), CodeError> {
        let end = self.code.label();
        self.code.mov(6, 1);
        if self.site != Site::End {
            self.leave_if_stopped(end);
        }
        self.probe_number(numbering, end)?;
        if self.frame.has_slot {
            self.claim_slot(end);
        }
        self.start_shared(clauses)?;
        let release = self.code.label();
        for clause in clauses {
            self.clause(*clause)?;
            if self.site != Site::End && (self.stops(*clause) || self.errors_stop()) {
                self.leave_if_stopped(release);
            }
        }
        self.code.place(release);
        if self.frame.has_slot {
            self.code.emit(Instruction::store_imm(Width::W8, 9, 0, 0));
        }
        self.code.place(end);
        self.code.constant(0, 0);
        self.code.emit(Instruction::exit());
        Ok(())
    }

    fn leave_if_stopped(&mut self, to: Label) {
        self.load_word(1, Location::Memory(control::STOPPED));
        self.code.jump_imm(Jump::Ne, 1, 0, to);
    }

    /// Finds a free slot near the processor's own, claims it, and has register 9 point to it.
    fn claim_slot(&mut self, end: Label) {
        let [again, claimed] = self.code.labels();
        self.code.call(op::PROCESSOR);
        self.code.mov(8, 0);
        self.code.alu_imm(Alu::Mul, 8, TRIES / 2);
        self.code.constant(4, 0);
        self.code.place(again);
        self.code.mov(1, 8);
        self.code.alu(Alu::Add, 1, 4);
        self.code.alu_imm(Alu::And, 1, SLOTS as i32 - 1);
        self.code.alu_imm(Alu::Mul, 1, SLOT_SIZE as i32);
        self.code.pair(Instruction::load_address(9, SLOT_STORE, 0));
        self.code.alu(Alu::Add, 9, 1);
        self.code.constant(0, 0);
        self.code.constant(2, 1);
        self.code
            .emit(Instruction::atomic(atomic::COMPARE_EXCHANGE, 9, 0, 2));
        self.code.jump_imm(Jump::Eq, 0, 0, claimed);
        self.code.alu_imm(Alu::Add, 4, 1);
        self.code.jump_imm(Jump::Lt, 4, TRIES, again);
        self.count(control::SLOT_DROPS);
        self.code.jump(end);
        self.code.place(claimed);
    }

    /// `this->` variables and the time stamp begin as zeros.
    fn start_shared(&mut self, clauses: &[usize]) -> Result<(), CodeError> {
        let clauses = [clauses, &self.generator.errors.1].concat();
        let used = super::clause::uses(self.script, &clauses);
        for variable in used.locals {
            let size = self.generator.layout.variable_size(self.script, variable);
            let at = self.frame.buffer(size)?;
            self.zero(at, size);
            self.locals.insert(variable, at);
        }
        if used.time {
            let at = self.frame.temporary()?;
            self.store_constant(at, 0);
            self.time = Some(at);
        }
        if used.tokens {
            self.start_tokens()?;
        }
        Ok(())
    }

    /// Adds one to a control word. Registers 1 and 2 are lost.
    pub(super) fn count(&mut self, word: u32) {
        self.address(1, Location::Memory(word));
        self.code.constant(2, 1);
        self.code.emit(Instruction::atomic(atomic::ADD, 1, 0, 2));
    }

    /// Ends the clause with an error; register 2 has the address.
    pub(super) fn fault(&mut self, kind: FaultKind) {
        let failure = self.failure;
        self.store_word(failure.address, 2);
        self.store_constant(failure.kind, kind as i32 | i32::from(self.action) << 16);
        self.code.jump(failure.label);
    }

    /// What is done about an error: a record of it. Stands after the clause's code.
    pub(super) fn report_failure(&mut self, clause: usize) -> Result<(), CodeError> {
        use std::mem::offset_of;
        let header = size_of::<crate::schema::RecordHeader>() as u32;
        let mark = self.frame.mark();
        let size = header + size_of::<ErrorRecord>() as u32;
        let at = self.frame.buffer(size + self.stamp_size())?;
        self.zero(at, size);
        self.code.constant(0, i64::from(ERROR_CLAUSE));
        self.header(at)?;
        let data = at.plus(header);
        self.code.constant(0, clause as i64);
        self.store_at(
            Width::W4,
            data.plus(offset_of!(ErrorRecord, clause) as u32),
            0,
        );
        self.load_word(0, self.failure.kind);
        self.store_at(
            Width::W4,
            data.plus(offset_of!(ErrorRecord, fault) as u32),
            0,
        );
        self.load_word(0, self.failure.address);
        self.store_word(data.plus(offset_of!(ErrorRecord, address) as u32), 0);
        self.send(at, size, op::NO_WAKEUP, control::ERROR_DROPS);
        self.frame.release(mark);
        Ok(())
    }
}
