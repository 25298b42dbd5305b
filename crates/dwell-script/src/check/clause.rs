//! Clauses and their statements.

use super::Checker;
use super::aggregate::is_aggregation;
use super::arguments::described;
use super::call::gives_address;
use super::rules::{ClauseRules, Effect};
use crate::ast;
use crate::builtins::functions::Callee;
use crate::error::{Checked, Fault};
use crate::tag::Tag;
use crate::typed::{Clause, Expr, ProbePattern, Statement};
use crate::types::Type;

impl Checker<'_> {
    /// A clause once for each of its probes.
    pub(super) fn clause(&mut self, clause: &ast::Clause) -> Checked<()> {
        for probe in &clause.probes {
            self.require_probe(probe)?;
            self.probe = Some(probe.clone());
            let (predicate, body) = self.clause_parts(clause)?;
            self.probe = None;
            self.script.clauses.push(Clause {
                probe: probe.clone(),
                predicate,
                body,
                span: clause.span,
            });
        }
        Ok(())
    }

    fn require_probe(&self, probe: &ProbePattern) -> Checked<()> {
        if self.options.flag("zdefs") || self.world.probe_exists(probe) {
            return Ok(());
        }
        let message = format!(
            "probe description {} does not match any probes",
            described(probe)
        );
        Err(Fault::new(Tag::PdescZero, probe.span, message))
    }

    /// The statements come first, since they make most variables; if a name is unknown there, the predicate does.
    fn clause_parts(&mut self, clause: &ast::Clause) -> Checked<(Option<Expr>, Vec<Statement>)> {
        match self.body(clause) {
            Ok(body) => Ok((self.predicate(clause)?, body)),
            Err(fault)
                if clause.predicate.is_some()
                    && matches!(fault.tag, Tag::IdentUndef | Tag::VarUndef) =>
            {
                let predicate = self.predicate(clause)?;
                Ok((predicate, self.body(clause)?))
            }
            Err(fault) => Err(fault),
        }
    }

    fn predicate(&mut self, clause: &ast::Clause) -> Checked<Option<Expr>> {
        let Some(predicate) = &clause.predicate else {
            return Ok(None);
        };
        self.misplaced = None;
        let value = self.expr(predicate)?;
        let is_array = matches!(self.types().actual(value.ty), Type::Array { .. });
        if is_array || !self.is_condition(value.ty) {
            let message = "predicate result must be of scalar type";
            return Err(Fault::new(Tag::PredScalar, predicate.span, message));
        }
        self.refuse_misplaced()?;
        Ok(Some(value))
    }

    fn body(&mut self, clause: &ast::Clause) -> Checked<Vec<Statement>> {
        self.rules = ClauseRules::default();
        self.statements(&clause.body)
    }

    fn statements(&mut self, statements: &[ast::Statement]) -> Checked<Vec<Statement>> {
        statements
            .iter()
            .map(|statement| self.statement(statement))
            .collect()
    }

    fn statement(&mut self, statement: &ast::Statement) -> Checked<Statement> {
        match statement {
            ast::Statement::Expr(expr) => self.statement_expr(expr),
            ast::Statement::If {
                condition,
                then,
                otherwise,
            } => Ok(Statement::If {
                condition: self.condition(condition)?,
                then: self.statements(then)?,
                otherwise: self.statements(otherwise)?,
            }),
        }
    }

    fn condition(&mut self, condition: &ast::Expr) -> Checked<Expr> {
        self.misplaced = None;
        let value = self.value(condition)?;
        self.refuse_misplaced()?;
        if !self.is_condition(value.ty) {
            let message = "operator ?: expression must be of scalar type";
            return Err(Fault::new(Tag::OpScalar, condition.span, message));
        }
        Ok(value)
    }

    /// An expression as a statement. Scripts of old choose between actions with `?:`, which is an `if`.
    fn statement_expr(&mut self, expr: &ast::Expr) -> Checked<Statement> {
        self.misplaced = None;
        let statement = self.statement_kind(expr)?;
        self.refuse_misplaced()?;
        Ok(statement)
    }

    fn statement_kind(&mut self, expr: &ast::Expr) -> Checked<Statement> {
        match &expr.kind {
            ast::ExprKind::Assign(operation, to, value) if is_aggregation(to) => {
                if operation.is_some() {
                    let message = "aggregations can only be assigned with =";
                    return Err(Fault::new(Tag::AggFunc, expr.span, message));
                }
                self.rules.note(Effect::Aggregating, expr.span)?;
                self.aggregate(to, value, expr.span)
            }
            ast::ExprKind::Aggregation(name) => Err(null_effect(name, expr)),
            ast::ExprKind::Index(of, _) if is_aggregation(of) => match &of.kind {
                ast::ExprKind::Aggregation(name) => Err(null_effect(name, expr)),
                _ => Err(Fault::new(
                    Tag::AggMdim,
                    expr.span,
                    "improper attempt to reference an aggregation as a multi-dimensional array",
                )),
            },
            ast::ExprKind::Conditional(condition, then, otherwise)
                if self.is_action(then) || self.is_action(otherwise) =>
            {
                Ok(Statement::If {
                    condition: self.condition(condition)?,
                    then: vec![self.statement_expr(then)?],
                    otherwise: vec![self.statement_expr(otherwise)?],
                })
            }
            ast::ExprKind::Call(callee, arguments) => {
                let prototype = self.callee(callee)?;
                match prototype.callee {
                    Callee::Value(function) if !gives_address(function) => {
                        Ok(Statement::Expr(self.expr(expr)?))
                    }
                    Callee::Aggregating(_) | Callee::Missing(_) => {
                        Ok(Statement::Expr(self.expr(expr)?))
                    }
                    _ => self.action(prototype, arguments, expr),
                }
            }
            _ => Ok(Statement::Expr(self.expr(expr)?)),
        }
    }
}

fn null_effect(name: &str, expr: &ast::Expr) -> Box<Fault> {
    let message = format!("expression has null effect: @{name}");
    Fault::new(Tag::AggNull, expr.span, message)
}
