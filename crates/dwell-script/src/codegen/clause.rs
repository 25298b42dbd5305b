//! One clause: its predicate, its statements, its record.
use super::assembler::Label;
use super::error::CodeError;
use super::frame::Location;
use super::layout::{RECORDS, control};
use super::program::Maker;
use super::records::leaves_record;
use super::site::Site;
use crate::schema::{ActionKind, Field, RecordHeader};
use crate::typed::*;
use dwell_abi::program::instruction::{Alu, Instruction, Jump, Width};
use dwell_abi::program::operation as op;
use std::collections::BTreeSet;
use std::mem::offset_of;

/// Bytes of a record's header.
const HEADER: u32 = size_of::<RecordHeader>() as u32;

/// The record that a clause fills.
pub(super) struct Filling {
    clause: usize,
    /// Where it is made; none if the clause leaves none.
    record: Option<Location>,
    /// The next action of the schema.
    action: usize,
    /// The next condition's bit.
    condition: u8,
    /// The consumer is woken.
    urgent: bool,
    /// Behind the clause.
    done: Label,
}

/// What clauses need at the start of their program.
#[derive(Debug, Default)]
pub(super) struct Uses {
    pub(super) locals: BTreeSet<VariableId>,
    pub(super) time: bool,
    pub(super) tokens: bool,
}

/// Looks through clauses for what they use.
pub(super) fn uses(script: &Script, clauses: &[usize]) -> Uses {
    let mut uses = Uses::default();
    for clause in clauses {
        let clause = &script.clauses[*clause];
        super::visit::visit_clause(clause, &mut |e| match e {
            super::visit::Seen::Variable(id) => {
                let variable = &script.variables[id.0 as usize];
                if variable.scope == Scope::Clause && variable.keys.is_none() {
                    uses.locals.insert(id);
                }
            }
            super::visit::Seen::Builtin(Builtin::Timestamp) => uses.time = true,
            super::visit::Seen::Function(Function::Strtok) => uses.tokens = true,
            super::visit::Seen::Changed(_)
            | super::visit::Seen::Builtin(_)
            | super::visit::Seen::Function(_) => {}
        });
    }
    uses
}

impl Maker<'_, '_> {
    pub(super) fn clause(&mut self, index: usize) -> Result<(), CodeError> {
        let clause = &self.script.clauses[index];
        let mark = self.frame.mark();
        let [failed, done] = self.code.labels();
        self.failure.label = failed;
        (self.clause, self.action) = (index, 0);
        if let Some(predicate) = &clause.predicate {
            self.unless(predicate, done)?;
        }
        self.frame.release(mark);
        let schema = &self.generator.clauses[index];
        let (size, leaves) = (HEADER + schema.size, leaves_record(clause, schema));
        let room = size + self.stamp_size();
        let record = leaves.then(|| self.frame.buffer(room)).transpose()?;
        if let Some(at) = record {
            self.zero(at, size);
        }
        let mut filling = Filling {
            clause: index,
            record,
            action: 0,
            condition: 0,
            urgent: false,
            done,
        };
        self.statements(&clause.body, &mut filling)?;
        if let Some(at) = record {
            self.code.constant(0, index as i64);
            self.header(at)?;
            let flags = if filling.urgent {
                op::FORCE_WAKEUP
            } else {
                op::NO_WAKEUP
            };
            self.send(at, size, flags, control::RECORD_DROPS);
        }
        self.frame.release(mark);
        self.code.jump(done);
        self.code.place(failed);
        if self.site == Site::Error {
            self.count(control::DOUBLE_ERRORS);
        } else {
            self.report_failure(index)?;
            self.error_clauses()?;
        }
        self.code.place(done);
        Ok(())
    }

    /// Whether a clause may stop the script.
    pub(super) fn stops(&self, index: usize) -> bool {
        let schema = &self.generator.clauses[index];
        schema
            .actions
            .iter()
            .any(|a| matches!(a.kind, ActionKind::Exit(_)))
    }

    fn statements(&mut self, all: &[Statement], filling: &mut Filling) -> Result<(), CodeError> {
        for statement in all {
            let mark = self.frame.mark();
            self.action = self.action.saturating_add(1);
            self.statement(statement, filling)?;
            self.frame.release(mark);
        }
        Ok(())
    }

    fn statement(&mut self, statement: &Statement, filling: &mut Filling) -> Result<(), CodeError> {
        match statement {
            Statement::Expr(e) => self.effect(e),
            Statement::Aggregate {
                to,
                keys,
                value,
                increment,
            } => self.aggregate(*to, keys, value, increment.as_ref()),
            Statement::Record(recording) => self.recording(recording, filling),
            Statement::If {
                condition,
                then,
                otherwise,
            } => self.branches(condition, then, otherwise, filling),
            Statement::Act(act, arguments) => self.act(*act, arguments),
        }
    }

    fn branches(
        &mut self,
        condition: &Expr,
        then: &[Statement],
        otherwise: &[Statement],
        filling: &mut Filling,
    ) -> Result<(), CodeError> {
        let [no, done] = self.code.labels();
        self.unless(condition, no)?;
        self.branch(then, filling)?;
        self.code.jump(done);
        self.code.place(no);
        self.branch(otherwise, filling)?;
        self.code.place(done);
        Ok(())
    }

    fn branch(&mut self, body: &[Statement], filling: &mut Filling) -> Result<(), CodeError> {
        let bit = filling.condition;
        filling.condition = (bit + 1).min(63);
        if let Some(record) = filling.record.filter(|_| !body.is_empty()) {
            let done = record.plus(offset_of!(RecordHeader, done) as u32);
            self.load_word(0, done);
            self.code.constant(1, 1i64 << bit);
            self.code.alu(Alu::Or, 0, 1);
            self.store_word(done, 0);
        }
        self.statements(body, filling)
    }

    /// Fills a record's header; register 0 has the clause.
    pub(super) fn header(&mut self, at: Location) -> Result<(), CodeError> {
        self.store_at(
            Width::W4,
            at.plus(offset_of!(RecordHeader, clause) as u32),
            0,
        );
        self.store_at(
            Width::W4,
            at.plus(offset_of!(RecordHeader, probe) as u32),
            7,
        );
        self.code.call(op::PROCESSOR);
        self.store_at(Width::W4, at.plus(offset_of!(RecordHeader, cpu) as u32), 0);
        self.code.call(op::IDS);
        self.store_at(Width::W4, at.plus(offset_of!(RecordHeader, tid) as u32), 0);
        self.code.alu_imm(Alu::Rsh, 0, 32);
        self.store_at(Width::W4, at.plus(offset_of!(RecordHeader, pid) as u32), 0);
        Ok(())
    }

    /// Bytes of the time behind a record.
    pub(super) fn stamp_size(&self) -> u32 {
        if self.generator.stamps_records { 8 } else { 0 }
    }

    /// Hands a record over, which has room for a stamp behind it.
    pub(super) fn send(&mut self, at: Location, size: u32, flags: i32, drops: u32) {
        let stamp = self.stamp_size();
        if stamp > 0 {
            self.code.call(op::MONOTONIC_TIME);
            self.store_word(at.plus(size), 0);
        }
        let size = size + stamp;
        self.code.pair(Instruction::load_store(1, RECORDS));
        self.address(2, at);
        self.code.constant(3, i64::from(size));
        self.code.constant(4, i64::from(flags));
        self.code.call(op::RECORD);
        let fine = self.code.label();
        self.code.jump_imm(Jump::Eq, 0, 0, fine);
        self.count(drops);
        self.code.place(fine);
    }

    fn recording(&mut self, recording: &Recording, filling: &mut Filling) -> Result<(), CodeError> {
        let schema = &self.generator.clauses[filling.clause];
        let fields = fields_of(&schema.actions[filling.action].kind);
        filling.action += 1;
        let data = filling
            .record
            .expect("a clause with actions has a record")
            .plus(HEADER);
        let values = values_of(recording);
        for (value, field) in values.into_iter().zip(&fields) {
            let mark = self.frame.mark();
            let at = data.plus(field.offset);
            if let Recording::Tracemem { address, size, .. } = recording
                && std::ptr::eq(address, value)
            {
                self.value(value)?;
                self.read_bytes(at, *size)?;
            } else {
                self.field(value, at, field.size)?;
            }
            self.frame.release(mark);
        }
        match recording {
            Recording::Print(_) if fields.len() == 2 => {
                self.load_word(0, data.plus(fields[0].offset));
                self.read_bytes(data.plus(fields[1].offset), fields[1].size)?;
            }
            Recording::Exit(_) => {
                filling.urgent = true;
                self.code.constant(0, 1);
                self.store_word(Location::Memory(control::STOPPED), 0);
            }
            Recording::Speculate(_) => {
                let record = filling.record.expect("speculate is recorded");
                self.load_at(Width::W4, 0, data.plus(fields[0].offset));
                self.unless_active();
                // Without one the clause ends here, as in dtrace.
                self.code.jump_imm(Jump::Eq, 0, 0, filling.done);
                self.store_at(
                    Width::W4,
                    record.plus(offset_of!(RecordHeader, speculation) as u32),
                    0,
                );
            }
            Recording::Commit(_) | Recording::Discard(_) => {
                self.load_at(Width::W4, 0, data.plus(fields[0].offset));
                self.end_speculation();
            }
            _ => {}
        }
        Ok(())
    }
}

/// The expressions that an action records, in the order of its fields.
fn values_of(recording: &Recording) -> Vec<&Expr> {
    match recording {
        Recording::Trace(e) | Recording::Print(e) | Recording::Exit(e) => vec![e],
        Recording::Normalize(_, e) => vec![e],
        Recording::Speculate(e) | Recording::Commit(e) | Recording::Discard(e) => vec![e],
        Recording::Tracemem {
            address, length, ..
        } => std::iter::once(address).chain(length).collect(),
        Recording::Printf(_, all) | Recording::System(_, all) | Recording::Freopen(_, all) => {
            all.iter().collect()
        }
        Recording::Trunc(_, n) => n.iter().collect(),
        Recording::Printa(..)
        | Recording::Clear(_)
        | Recording::Denormalize(_)
        | Recording::Setopt(..) => vec![],
    }
}

fn fields_of(kind: &ActionKind) -> Vec<Field> {
    match kind {
        ActionKind::Trace(f) | ActionKind::Print(f) | ActionKind::Exit(f) => vec![f.clone()],
        ActionKind::Normalize(_, f) => vec![f.clone()],
        ActionKind::PrintAt { address, value } => vec![address.clone(), value.clone()],
        ActionKind::Speculate(f) | ActionKind::Commit(f) | ActionKind::Discard(f) => {
            vec![f.clone()]
        }
        ActionKind::Tracemem { bytes, length } => {
            std::iter::once(bytes).chain(length).cloned().collect()
        }
        ActionKind::Printf { fields, .. }
        | ActionKind::System { fields, .. }
        | ActionKind::Freopen { fields, .. } => fields.clone(),
        ActionKind::Trunc(_, n) => n.iter().cloned().collect(),
        ActionKind::Printa { .. }
        | ActionKind::Clear(_)
        | ActionKind::Denormalize(_)
        | ActionKind::Setopt { .. } => vec![],
    }
}

/// What a statement's subexpressions are, for [`uses`].
pub(super) fn expressions(statement: &Statement) -> Vec<&Expr> {
    match statement {
        Statement::Expr(e) => vec![e],
        Statement::Aggregate {
            keys,
            value,
            increment,
            ..
        } => keys.iter().chain([value]).chain(increment).collect(),
        Statement::Record(recording) => values_of(recording),
        Statement::If { condition, .. } => vec![condition],
        Statement::Act(_, arguments) => arguments.iter().collect(),
    }
}
